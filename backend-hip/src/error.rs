//! What can go wrong before a kernel runs.

use std::path::PathBuf;

use lapidary_core::Error;

use crate::library::LibraryError;
use crate::preshuffle::ConfigError;
use crate::preshuffle::PackError;
use crate::runtime::RuntimeError;
use crate::runtime::rocm::RocmError;
use crate::steps::StepError;
use crate::target::{Target, UnknownTarget};

/// An error of the HIP backend, each with what was asked for and what is there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HipError {
    /// No compiler was found.
    #[error(
        "no HIP compiler found (looked for {searched}): install clang 20 or newer and lld \
        (Debian and Ubuntu: apt-get install clang-22 lld-22), or ROCm 7, or set LAPIDARY_CLANG to a clang"
    )]
    CompilerNotFound {
        /// What was looked for, in order.
        searched: String,
    },

    /// A compiler was named that cannot be run.
    #[error("{} cannot be used as a HIP compiler: {reason}", path.display())]
    CompilerUnusable {
        /// The program.
        path: PathBuf,
        /// What happened when it was asked for its version.
        reason: String,
    },

    /// The compiler does not know the target.
    #[error(
        "{} is LLVM {version}, {target} needs LLVM {needed} or newer", path.display()
    )]
    CompilerTooOld {
        /// The compiler.
        path: PathBuf,
        /// Its major version.
        version: u32,
        /// The target.
        target: Target,
        /// The oldest version that knows it.
        needed: u32,
    },

    /// The compiler refused a kernel.
    #[error("{kernel} does not compile for {target}:\n{log}")]
    CompileFailed {
        /// The kernel's source file.
        kernel: &'static str,
        /// The target.
        target: Target,
        /// What the compiler said.
        log: String,
    },

    /// There is no target of that name.
    #[error(transparent)]
    UnknownTarget(#[from] UnknownTarget),

    /// A library of ROCm's is not there, or is another one.
    #[error(transparent)]
    Library(#[from] LibraryError),

    /// A function of hiprtc failed, for no fault of the kernel.
    #[error("{call} of {library} returned {code} ({name})")]
    Hiprtc {
        /// The library.
        library: String,
        /// The function.
        call: &'static str,
        /// `hiprtcResult`.
        code: i32,
        /// The code's name.
        name: String,
    },

    /// The compiler cannot give assembly.
    #[error("{library} compiles to code objects only: set LAPIDARY_CLANG to a clang for assembly")]
    NoAssembly {
        /// hiprtc's library.
        library: String,
    },

    /// A file or a process could not be handled.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },

    /// A kernel configuration breaks a rule.
    #[error(transparent)]
    Config(#[from] ConfigError),

    /// A step breaks a rule.
    #[error(transparent)]
    Step(#[from] StepError),

    /// B cannot be packed, or was packed for another kernel.
    #[error(transparent)]
    Pack(#[from] PackError),

    /// A device or its driver refused something.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),

    /// There is no ROCm device.
    #[error(transparent)]
    Rocm(#[from] RocmError),

    /// Assembly without the loop that was looked for.
    #[error("{what}")]
    Inspect {
        /// What is missing.
        what: String,
    },
}

impl HipError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |source| Self::Io { what, source }
    }
}

/// The errors of the library that a HIP error is, as far as it has them.
impl HipError {
    pub(crate) fn into_core(self, device: &str) -> Error {
        let device = device.to_owned();
        match self {
            Self::Runtime(RuntimeError::OutOfMemory { requested }) => {
                Error::OutOfMemory { requested, what: "device memory".into(), device }
            }
            Self::Runtime(RuntimeError::DeviceLost { reason }) => {
                Error::DeviceLost { device, reason }
            }
            Self::Runtime(RuntimeError::Unavailable { reason }) => Error::NoDevice { reason },
            Self::Pack(PackError::OtherLayout { found, needed }) => {
                Error::PackedMismatch { found, expected: needed }
            }
            other => Error::Backend { device, source: Box::new(other) },
        }
    }
}
