//! Compiled kernels: those in use are kept, and on disk where wanted.

#[cfg(feature = "tune")]
mod disk;

use lapidary_core::Error;
use quick_cache::sync::Cache;

use crate::device::Inner;
use crate::emit::Access;

#[cfg(feature = "tune")]
pub(crate) use disk::{Kept, SavesWhenDropped};
#[cfg(feature = "tune")]
pub use disk::{PipelineCache, PipelineCacheState};

/// Pipelines a device keeps. Sizes and strides are written into the fast kernels' texts, so a program
/// of ever new shapes compiles without end, at up to a megabyte a pipeline; plans hold on to theirs.
const KEPT: usize = 256;

/// What a device has compiled.
#[derive(Debug)]
pub(crate) struct Pipelines {
    /// By module text: WGSL is the key because it is what decides the result. Threads that want the
    /// same text wait for one of them to compile it, which holds up nobody who wants another; where
    /// that fails the next of them tries.
    compiled: Cache<String, wgpu::ComputePipeline>,
    /// What the driver keeps for the next process.
    #[cfg(feature = "tune")]
    pub(crate) kept: Option<Kept>,
}

impl Default for Pipelines {
    fn default() -> Self {
        Self {
            compiled: Cache::new(KEPT),
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
        return self.kept.as_ref().map(Kept::cache);
        #[cfg(not(feature = "tune"))]
        None
    }

    /// Notes that the driver's cache has something new.
    fn grown(&self) {
        #[cfg(feature = "tune")]
        self.kept.iter().for_each(Kept::grown);
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
        let compile = || self.compile(label, &source, access, further);
        self.pipelines.compiled.get_or_insert_with(&source, compile)
    }

    fn compile(
        &self,
        label: &str,
        source: &str,
        access: Access,
        further: u32,
    ) -> Result<wgpu::ComputePipeline, Error> {
        let _span = tracing::info_span!("compile", kernel = label, device = self.name).entered();
        let pipeline = self.scoped("compiling a kernel", 0, || {
            let descriptor = wgpu::ShaderModuleDescriptor {
                label: Some(label),
                source: wgpu::ShaderSource::Wgsl(source.into()),
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
        self.pipelines.grown();
        Ok(pipeline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_kept_than_said() {
        // The cache shares its room out to parts that are locked by themselves.
        assert_eq!(Pipelines::default().compiled.capacity(), KEPT as u64);
    }
}
