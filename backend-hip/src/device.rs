//! A device: a runtime, a compiler, and the kernels loaded so far.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lapidary_core::{DeviceInfo, ElementType, Error};

use crate::compile::{Compiler, Request};
use crate::decide::DeviceFacts;
use crate::error::HipError;
use crate::preshuffle::{OPERANDS, only_on};
#[cfg(feature = "emulator")]
use crate::runtime::Emulated;
use crate::runtime::rocm::Rocm;
use crate::runtime::{Description, Function, Runtime, RuntimeError, Stream};
use crate::target::Target;

/// A GPU that runs HIP kernels, or the emulator of one.
///
/// Kernels are compiled when a plan first needs them, and cached on disk (see
/// [`compile`](crate::compile)).
///
/// # Examples
/// ```no_run
/// use lapidary_hip::prelude::*;
/// # fn main() -> Result<(), Error> {
/// let device = Hip::emulated(Target::Gfx942)?;
/// let a = vec![bf16::ONE; 64 * 32];
/// let b = vec![bf16::ONE; 32 * 48];
/// let operands =
///     Operands::new(MatrixRef::row_major(&a, 64, 32)?, MatrixRef::row_major(&b, 32, 48)?);
/// let problem = operands.problem(ElementType::BF16)?;
/// let output = Gemm::<Hip>::run(&device, &problem, &operands)?;
/// assert_eq!(output.matrix.to_vec::<bf16>()?[0], bf16::from_f32(32.0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Hip {
    pub(crate) inner: Arc<Inner>,
    pub(crate) stream: Stream,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) runtime: Arc<dyn Runtime>,
    /// What messages call the device.
    pub(crate) name: String,
    compiler: Compiler,
    #[cfg(feature = "emulator")]
    emulator: Option<Arc<Emulated>>,
    kernels: Mutex<HashMap<(Request, &'static str), Kernel>>,
}

/// A kernel on the device.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// Its name in the code object.
    pub(crate) name: &'static str,
    pub(crate) function: Function,
    /// The [key](crate::compile::CodeObject::key) of the code object it is from.
    pub(crate) key: Arc<str>,
}

impl Hip {
    /// The first ROCm device with matrix cores, or the first that kernels are compiled for.
    ///
    /// # Errors
    /// [`Error::NoDevice`], in one line, without the HIP runtime, a device, or a compiler, and says
    /// what to install.
    pub fn new() -> Result<Self, Error> {
        Self::rocm(None)
    }

    /// The ROCm device of that number, as HIP counts them; `None` picks as [`Hip::new`] does.
    ///
    /// # Errors
    /// As [`Hip::new`].
    pub fn rocm(index: Option<usize>) -> Result<Self, Error> {
        let device = Rocm::open(index)
            .map_err(|error| Error::NoDevice { reason: one_line(&error.to_string()) })?;
        Self::with_runtime(Arc::new(device))
    }

    /// An emulated gfx942 or gfx950, with every check on. Works on any machine with a compiler.
    ///
    /// # Errors
    /// [`Error::NoDevice`] for other targets, and without a compiler.
    #[cfg(feature = "emulator")]
    pub fn emulated(target: impl Into<Target>) -> Result<Self, Error> {
        let emulator = Emulated::new(target.into()).map_err(no_device)?;
        Self::with_emulator(Arc::new(emulator))
    }

    /// A device on an emulator that the program made.
    ///
    /// # Errors
    /// [`Error::NoDevice`] without a compiler.
    #[cfg(feature = "emulator")]
    pub fn with_emulator(emulator: Arc<Emulated>) -> Result<Self, Error> {
        let runtime: Arc<dyn Runtime> = Arc::<Emulated>::clone(&emulator);
        let compiler = Compiler::find_for(runtime.description().target).map_err(no_device)?;
        let mut inner = Inner::new(runtime, compiler);
        inner.emulator = Some(emulator);
        Ok(Self { inner: Arc::new(inner), stream: Stream::DEFAULT })
    }

    /// A device on any runtime, with the compiler that [`Compiler::find_for`] finds.
    ///
    /// # Errors
    /// [`Error::NoDevice`] without a compiler.
    pub fn with_runtime(runtime: Arc<dyn Runtime>) -> Result<Self, Error> {
        let compiler = Compiler::find_for(runtime.description().target).map_err(no_device)?;
        Ok(Self::with_compiler(runtime, compiler))
    }

    /// A device on any runtime, with this compiler.
    #[must_use]
    pub fn with_compiler(runtime: Arc<dyn Runtime>, compiler: Compiler) -> Self {
        Self { inner: Arc::new(Inner::new(runtime, compiler)), stream: Stream::DEFAULT }
    }

    /// The same device with its work on a stream of the program's own. Plans belong to the stream they
    /// were made on.
    ///
    /// # Safety
    /// `stream` must be a stream of this device (on ROCm a `hipStream_t`), and live as long as the
    /// value returned, its clones, and the tensors and plans made with them.
    #[must_use]
    pub unsafe fn with_stream(&self, stream: Stream) -> Self {
        Self { inner: Arc::clone(&self.inner), stream }
    }

    /// What the device is.
    #[must_use]
    pub fn description(&self) -> &Description {
        self.inner.runtime.description()
    }

    /// The architecture kernels are compiled for.
    #[must_use]
    pub fn target(&self) -> Target {
        self.description().target
    }

    /// The runtime.
    #[must_use]
    pub fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.inner.runtime
    }

    /// The emulator, if the device is one.
    #[cfg(feature = "emulator")]
    #[must_use]
    pub fn emulator(&self) -> Option<&Emulated> {
        self.inner.emulator.as_deref()
    }

    /// What decisions depend on.
    pub(crate) fn facts(&self) -> DeviceFacts {
        let description = self.description();
        DeviceFacts {
            target: description.target,
            compute_units: description.compute_units,
            name: self.inner.name.clone(),
        }
    }

    pub(crate) fn describe(&self) -> DeviceInfo {
        let description = self.description();
        let mut info = DeviceInfo::new("hip", &description.name, &description.driver);
        info.elements = elements(description.target);
        info.properties = vec![
            ("architecture".into(), description.target.to_string()),
            ("compute units".into(), description.compute_units.to_string()),
            ("memory".into(), format!("{} MiB", description.memory_bytes >> 20)),
            ("compiler".into(), self.inner.compiler.version().to_owned()),
            ("NaN and infinity".into(), "propagate".into()),
        ];
        if description.emulated {
            info.properties.insert(0, ("emulated".into(), "yes".into()));
        }
        info.properties.extend(description.properties.iter().cloned());
        info
    }
}

/// Element types of operands that a target multiplies.
fn elements(target: Target) -> Vec<ElementType> {
    if !target.has_preshuffle() {
        return vec![ElementType::F32];
    }
    OPERANDS.into_iter().filter(|&e| only_on(e).is_none_or(|only| only == target)).collect()
}

impl Inner {
    fn new(runtime: Arc<dyn Runtime>, compiler: Compiler) -> Self {
        let description = runtime.description();
        let emulated = if description.emulated { ", emulated" } else { "" };
        let name = format!("hip ({}{emulated})", description.target);
        Self {
            runtime,
            name,
            compiler,
            #[cfg(feature = "emulator")]
            emulator: None,
            kernels: Mutex::default(),
        }
    }

    /// Compiles and loads a kernel, or takes the one that was.
    pub(crate) fn kernel(&self, request: &Request, name: &'static str) -> Result<Kernel, Error> {
        let key = (request.clone(), name);
        {
            let kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(kernel) = kernels.get(&key) {
                return Ok(kernel.clone());
            }
        }
        // Not under the lock: other kernels may be compiled meanwhile.
        let object = self.compiler.compile(request).map_err(|error| self.error(error))?;
        let function = self.runtime.load(&object, name).map_err(|error| self.error(error))?;
        let kernel = Kernel { name, function, key: object.key.into() };
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(kernels.entry(key).or_insert(kernel).clone())
    }

    /// An error of this backend as the library's.
    pub(crate) fn error(&self, error: impl Into<HipError>) -> Error {
        error.into().into_core(&self.name)
    }
}

/// An error of opening a device.
fn no_device(error: impl Into<HipError>) -> Error {
    let reason = match error.into() {
        // The library's error says itself that there is no device.
        HipError::Runtime(RuntimeError::Unavailable { reason }) => reason,
        other => other.to_string(),
    };
    Error::NoDevice { reason: one_line(&reason) }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
