//! Compiled kernels: the most recently used are kept, and on disk where wanted.

#[cfg(feature = "tune")]
mod disk;

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use lapidary_core::Error;
use lru::LruCache;

use crate::device::Inner;
use crate::emit::Access;

#[cfg(feature = "tune")]
pub(crate) use disk::{Kept, SavesWhenDropped};
#[cfg(feature = "tune")]
pub use disk::{PipelineCache, PipelineCacheState};

/// Pipelines a device keeps. Sizes and strides are written into the fast kernels' texts, so a program
/// of ever new shapes compiles without end, at up to a megabyte a pipeline; plans hold on to theirs.
const KEPT: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// What a device has compiled.
#[derive(Debug)]
pub(crate) struct Pipelines {
    /// By module text: WGSL is the key because it is what decides the result.
    compiled: Mutex<LruCache<String, wgpu::ComputePipeline>>,
    /// What the driver keeps for the next process.
    #[cfg(feature = "tune")]
    pub(crate) kept: Option<Kept>,
}

impl Default for Pipelines {
    fn default() -> Self {
        Self {
            compiled: Mutex::new(LruCache::new(KEPT)),
            #[cfg(feature = "tune")]
            kept: None,
        }
    }
}

impl Pipelines {
    /// None yet, in memory; `kept` is what there is on disk.
    #[cfg(feature = "tune")]
    pub(crate) fn keeping(kept: Option<Kept>) -> Self {
        Self { kept, ..Self::default() }
    }

    /// The driver's cache, to which a compilation adds.
    fn driver_cache(&self) -> Option<&wgpu::PipelineCache> {
        #[cfg(feature = "tune")]
        return self.kept.as_ref().map(Kept::grown);
        #[cfg(not(feature = "tune"))]
        None
    }
}

impl Inner {
    /// The pipeline of a module, compiled at its first use.
    pub(crate) fn pipeline(
        &self,
        label: &str,
        source: String,
        access: Access,
        further: u32,
    ) -> Result<wgpu::ComputePipeline, Error> {
        #[cfg(feature = "testing")]
        let source = match &self.rewrite {
            Some(rewrite) => rewrite.apply(&source),
            None => source,
        };
        let mut compiled = self.pipelines.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipeline) = compiled.get(&source) {
            return Ok(pipeline.clone());
        }
        let _span = tracing::info_span!("compile", kernel = label, device = self.name).entered();
        let pipeline = self.scoped("compiling a kernel", 0, || {
            let descriptor = wgpu::ShaderModuleDescriptor {
                label: Some(label),
                source: wgpu::ShaderSource::Wgsl(source.as_str().into()),
            };
            let module = if self.checked {
                self.device.create_shader_module(descriptor)
            } else {
                // SAFETY: the text is this crate's own, unchanged. Every load and store of a binding is
                // guarded by the sizes in the uniform block, which the host has checked against the
                // bindings; workgroup-memory indices are below constants; every loop counts up to a
                // bound. The conformance tests run the same kernels with checks on.
                unsafe {
                    self.device.create_shader_module_trusted(
                        descriptor,
                        wgpu::ShaderRuntimeChecks::unchecked(),
                    )
                }
            };
            self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(label),
                layout: Some(self.pipeline_layout(access, further)),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    // Every kernel writes a tile before it reads it.
                    zero_initialize_workgroup_memory: false,
                    ..wgpu::PipelineCompilationOptions::default()
                },
                cache: self.pipelines.driver_cache(),
            })
        })?;
        compiled.put(source, pipeline.clone());
        Ok(pipeline)
    }
}
