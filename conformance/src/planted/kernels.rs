//! Bugs in kernels: patched when they are compiled.

use std::collections::HashMap;

use lapidary_core::Error;

use super::{Bug, Harvest, PlantError, hunt};
use crate::adapter::Adapter;
use crate::check::Fault;

/// The adapters without bugs, each opened when it is first needed.
#[derive(Default)]
pub(super) struct KernelLab {
    clean: HashMap<String, Result<Box<dyn Adapter>, String>>,
}

impl KernelLab {
    /// Runs a bug's case without the bug and with it.
    pub(super) fn run(&mut self, bug: &Bug, harvest: &mut Harvest) -> Result<(), PlantError> {
        let clean = self
            .clean
            .entry(bug.backend.clone())
            .or_insert_with(|| open(bug, None).map_err(|error| error.to_string()));
        let clean = match clean {
            Ok(clean) => &**clean,
            Err(reason) => {
                harvest.skip(bug, reason);
                return Ok(());
            }
        };
        // A test holds such a bug's kernel to being one of a software device with matrix units.
        if bug.matrix_units && bug.choice(&clean.kernels(bug.types())).is_err() {
            let reason = "its kernel is one of a software device with matrix units".to_owned();
            harvest.left_out.push((bug.name.clone(), reason));
            return Ok(());
        }
        let planted = match open(bug, Some(bug.changed()?)) {
            Ok(planted) => planted,
            Err(error) => {
                harvest.skip(bug, &error);
                return Ok(());
            }
        };
        let without = hunt(clean, bug)?;
        if let Some(tier) = without.noticed {
            let fault = Fault { tier, message: without.message };
            harvest.spoiled.push((bug.name.clone(), fault));
        }
        harvest.kills.push(hunt(&*planted, bug)?);
        Ok(())
    }
}

/// What changes when a bug is planted.
pub(super) enum Changed {
    /// A source file: its path as its backend knows it, its text, and its text with the bug.
    Source {
        path: &'static str,
        #[cfg(feature = "wgsl")]
        original: &'static str,
        text: String,
    },
    /// Modules that a file emits: each that the patch fits.
    Emitted,
}

impl Bug {
    fn changed(&self) -> Result<Changed, PlantError> {
        if self.emitted {
            return Ok(Changed::Emitted);
        }
        let file = self.file().unwrap_or_default();
        let known: Vec<(String, &'static str, &'static str)> = sources();
        let Some((_, path, original)) = known.iter().find(|(full, ..)| full == file) else {
            return Err(PlantError::Patch {
                bug: self.name.clone(),
                file: file.to_owned(),
                message: "it is no source of a kernel".into(),
            });
        };
        Ok(Changed::Source {
            path,
            #[cfg(feature = "wgsl")]
            original,
            text: self.apply(original)?,
        })
    }
}

/// The module that is emitted for a bug's case and kernel on a software device with WebGPU's default
/// limits and subgroups of 8 lanes, as Mesa's, with matrix units of 8×8 if the bug is in a kernel on
/// them: what the patch of a bug in emitted text must fit.
///
/// # Errors
/// [`PlantError::Kernel`] or [`PlantError::Device`] if there is no such kernel, or not for the case.
#[cfg(feature = "wgsl")]
pub fn emitted(bug: &Bug) -> Result<String, PlantError> {
    use lapidary_core::PlanOptions;
    use lapidary_core::testing::Values;
    use lapidary_wgsl::{DeviceLimits, decide, emit, wgpu};
    let device = |error| PlantError::Device { bug: bug.name.clone(), error: Box::new(error) };
    let features = wgpu::Features::SHADER_F16;
    let mut limits = DeviceLimits::from_limits(&wgpu::Limits::default(), features, true);
    limits.subgroup_lanes = 8;
    if bug.matrix_units {
        limits.matrix_side = 8;
        (limits.cooperative, limits.cooperative_f16) = (true, true);
    }
    let kernel = bug.choice(&crate::adapter::kernels_for(bug.types(), &limits))?;
    let no_kernel = || PlantError::Kernel { bug: bug.name.clone(), kernel: bug.kernel.clone() };
    let spec = bug.case.as_ref().ok_or_else(no_kernel)?;
    let mut options = PlanOptions::kernel(kernel);
    (options.k_slices, options.copies) = (spec.k_slices, spec.copies);
    let problem = spec.case(Values::SmallIntegers(1), 0).problem;
    let decision = decide::decide_with(&problem, &limits, &options, "none").map_err(device)?;
    let kernel = decision.kernel.as_ref().ok_or_else(no_kernel)?;
    let access = emit::Access::ReadOnlyInputs;
    Ok(emit::multiply(kernel, &decision.traits, decision.store, access))
}

/// Every source of a kernel: path from the repository's root, path as its backend knows it, text.
fn sources() -> Vec<(String, &'static str, &'static str)> {
    let mut all = Vec::new();
    #[cfg(feature = "wgsl")]
    for (path, text) in lapidary_wgsl::SHADERS {
        all.push((format!("backend-wgsl/shaders/{path}"), *path, *text));
    }
    #[cfg(feature = "hip")]
    for source in lapidary_hip::sources::ALL {
        all.push((format!("backend-hip/kernels/{}", source.path), source.path, source.text));
    }
    all
}

/// Opens a bug's backend, with the bug if there is a changed source.
///
/// # Errors
/// [`PlantError::Device`] where it cannot be opened.
pub(super) fn open(bug: &Bug, changed: Option<Changed>) -> Result<Box<dyn Adapter>, PlantError> {
    adapter(bug, changed)
        .map_err(|error| PlantError::Device { bug: bug.name.clone(), error: Box::new(error) })
}

fn adapter(bug: &Bug, changed: Option<Changed>) -> Result<Box<dyn Adapter>, Error> {
    match bug.backend.as_str() {
        #[cfg(feature = "wgsl")]
        "wgsl" => {
            use crate::adapter::WgslAdapter;
            use lapidary_wgsl::{ShaderRewrite, WgslOptions};
            let options = WgslOptions::default();
            Ok(Box::new(match changed {
                None => WgslAdapter::open(&options)?,
                Some(Changed::Source { original, text, .. }) => {
                    let rewrite = ShaderRewrite::new(move |module| module.replace(original, &text));
                    WgslAdapter::with_rewrite(&options, rewrite)?
                }
                Some(Changed::Emitted) => {
                    let bug = bug.clone();
                    let rewrite = ShaderRewrite::new(move |module| {
                        bug.apply(module).unwrap_or_else(|_| module.to_owned())
                    });
                    WgslAdapter::with_rewrite(&options, rewrite)?
                }
            }))
        }
        #[cfg(feature = "hip")]
        "gfx942" | "gfx950" => {
            use crate::adapter::HipAdapter;
            use lapidary_hip::Target;
            use lapidary_hip::compile::Compiler;
            let target = if bug.backend == "gfx942" { Target::Gfx942 } else { Target::Gfx950 };
            Ok(Box::new(match changed {
                None | Some(Changed::Emitted) => HipAdapter::emulated(target)?,
                Some(Changed::Source { path, text, .. }) => {
                    let compiler = Compiler::find_for(target)
                        .map_err(|error| Error::NoDevice { reason: error.to_string() })?;
                    HipAdapter::with_compiler(target, compiler.with_source(path, text))?
                }
            }))
        }
        other => Err(Error::NoDevice { reason: format!("there is no backend {other}") }),
    }
}
