//! What ROCm refuses, and how it reads to a caller who knows no HIP.

use crate::library::LibraryError;
use crate::runtime::RuntimeError;
use crate::target::Target;

/// Error codes that are told apart (`hipError_t`).
pub(super) mod code {
    use core::ffi::c_int;

    /// `hipErrorOutOfMemory`.
    pub(in super::super) const OUT_OF_MEMORY: c_int = 2;
    /// `hipErrorInsufficientDriver`.
    pub(in super::super) const INSUFFICIENT_DRIVER: c_int = 35;
    /// `hipErrorNoDevice`.
    pub(in super::super) const NO_DEVICE: c_int = 100;
    /// `hipErrorInvalidDevice`.
    pub(in super::super) const INVALID_DEVICE: c_int = 101;
    /// `hipErrorECCNotCorrectable`.
    pub(in super::super) const ECC_NOT_CORRECTABLE: c_int = 214;
    /// `hipErrorIllegalAddress`.
    pub(in super::super) const ILLEGAL_ADDRESS: c_int = 700;
    /// `hipErrorLaunchTimeOut`.
    pub(in super::super) const LAUNCH_TIME_OUT: c_int = 702;
    /// `hipErrorContextIsDestroyed`.
    pub(in super::super) const CONTEXT_IS_DESTROYED: c_int = 709;
    /// `hipErrorLaunchFailure`.
    pub(in super::super) const LAUNCH_FAILURE: c_int = 719;
}

/// Why there is no ROCm device, or what one refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RocmError {
    /// The HIP runtime is not there, or is not one.
    #[error(transparent)]
    Library(#[from] LibraryError),

    /// HIP works and sees no device.
    #[error(
        "HIP {version} ({library}) sees no device: an AMD GPU, the amdgpu driver and access to /dev/kfd \
        (groups render and video) are needed; HIP_VISIBLE_DEVICES may hide devices"
    )]
    NoDevice {
        /// The library that was asked.
        library: String,
        /// Its version.
        version: String,
    },

    /// There is no device of that number.
    #[error("there is no HIP device {index}: HIP sees {count}, numbered from 0")]
    DeviceIndex {
        /// The number asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },

    /// The device's architecture is none that kernels are compiled for.
    #[error(
        "HIP device {index} ({name}) is {arch:?}; kernels are compiled for {}",
        known_targets()
    )]
    UnknownArch {
        /// The device's number.
        index: usize,
        /// The device's name.
        name: String,
        /// What HIP calls its architecture.
        arch: String,
    },

    /// A HIP function failed.
    #[error("{attempted}: {call} returned {code} ({name}): {message}")]
    Call {
        /// The function.
        call: &'static str,
        /// What it was called for.
        attempted: String,
        /// `hipError_t`.
        code: i32,
        /// The code's name.
        name: String,
        /// HIP's sentence for it.
        message: String,
    },

    /// More threads along one dimension than HIP launches.
    #[error(
        "a launch of {grid} workgroups of {threads} threads along {axis} is more than HIP's limit of \
        4,294,967,295 threads in a dimension"
    )]
    Launch {
        /// x, y or z.
        axis: char,
        /// Workgroups along it.
        grid: u32,
        /// Threads of a workgroup along it.
        threads: u32,
    },

    /// A handle that this runtime did not make, or that was given back.
    #[error("{what} {handle} is none of this runtime's")]
    Handle {
        /// Function or event.
        what: &'static str,
        /// Its number.
        handle: u64,
    },

    /// A kernel's name with a zero byte, which C cannot take.
    #[error("{kernel:?} is no kernel name: it contains a zero byte")]
    KernelName {
        /// The name.
        kernel: String,
    },
}

fn known_targets() -> String {
    Target::ALL.map(Target::name).join(", ")
}

impl RocmError {
    /// The same for the trait's callers; `bytes` is what an allocation asked for, 0 otherwise.
    pub(super) fn with_bytes(self, bytes: u64) -> RuntimeError {
        let message = self.to_string();
        match self {
            Self::Library(_)
            | Self::NoDevice { .. }
            | Self::DeviceIndex { .. }
            | Self::UnknownArch { .. }
            | Self::Call { code: code::INSUFFICIENT_DRIVER | code::NO_DEVICE, .. } => {
                RuntimeError::Unavailable { reason: message }
            }
            Self::Call { code: code::OUT_OF_MEMORY, .. } if bytes > 0 => {
                RuntimeError::OutOfMemory { requested: bytes }
            }
            // After these the device's memory and queues cannot be used any more.
            Self::Call {
                code:
                    code::ECC_NOT_CORRECTABLE
                    | code::ILLEGAL_ADDRESS
                    | code::LAUNCH_TIME_OUT
                    | code::CONTEXT_IS_DESTROYED
                    | code::LAUNCH_FAILURE,
                ..
            } => RuntimeError::DeviceLost { reason: message },
            Self::Call { call, attempted, code, name, message } => RuntimeError::Failed {
                operation: call,
                message: format!("{attempted}: error {code} ({name}): {message}"),
            },
            Self::Launch { .. } => {
                RuntimeError::Failed { operation: "hipModuleLaunchKernel", message }
            }
            Self::Handle { what, .. } => RuntimeError::Failed { operation: what, message },
            Self::KernelName { .. } => {
                RuntimeError::Failed { operation: "hipModuleGetFunction", message }
            }
        }
    }
}

impl From<RocmError> for RuntimeError {
    fn from(error: RocmError) -> Self {
        error.with_bytes(0)
    }
}
