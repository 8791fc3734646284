//! Why the command gives up, in one line, and the exit code that goes with it.

use std::process::ExitCode;

use lapidary_core::{ElementType, Error, Operand};

use crate::emulate::EmulateError;
use crate::io::{FileError, Reason};

/// Exit code for input the user can correct.
pub(crate) const BAD_INPUT: u8 = 2;

/// Why the command stops. The message is one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),

    /// The library refused the problem, or the device failed.
    #[error("{0}{hint}", hint = hint(.0))]
    Library(#[from] Error),

    /// A code object that cannot be run as asked.
    #[error(transparent)]
    Emulate(#[from] EmulateError),

    /// Conformance cases that cannot be read.
    #[error(transparent)]
    Cases(#[from] lapidary_conformance::file::FileError),

    /// Bugs that cannot be planted.
    #[error(transparent)]
    Plant(#[from] lapidary_conformance::planted::PlantError),

    /// A conformance run that would check nothing.
    #[error("nothing to check: {reason}")]
    NothingToCheck {
        /// Why.
        reason: String,
    },

    /// A case that is for a backend which does not exist.
    #[error("{file}: case {case:?} is for the backend {backend:?}, there are {known}")]
    CaseBackend {
        /// The file.
        file: String,
        /// The case.
        case: String,
        /// What it is for.
        backend: String,
        /// What there is.
        known: String,
    },

    /// A report that would be written over what is read or recorded.
    #[error("--report and {option} name one file, {file}: the report would replace its cases")]
    SameFile {
        /// The other option.
        option: &'static str,
        /// The file.
        file: String,
    },

    /// The name that stands for a stream where a file is needed.
    #[error("{option} needs a file; ./- is one of the name -")]
    NoStream {
        /// The option.
        option: &'static str,
    },

    /// A device beside a choice of backends that have none to choose.
    #[error("--device names a GPU of the WGSL backend, which is not among the backends asked for")]
    DeviceOfNone,

    /// A report that cannot be written.
    #[error("{file}: {error}")]
    Report {
        /// The file.
        file: String,
        /// What the system says.
        error: std::io::Error,
    },

    /// An array of the wrong number of dimensions.
    #[error("{operand} ({file}) has {found} dimensions, expected {expected}")]
    Dimensions {
        /// What it was given as.
        operand: Operand,
        /// The file it came from.
        file: String,
        /// Dimensions of the array.
        found: usize,
        /// What is accepted there.
        expected: &'static str,
    },

    /// An array whose values another type cannot hold.
    #[error("{operand} ({file}) holds {found} where the product needs {needed}{}", lossy_hint(*.needed))]
    Lossy {
        /// What it was given as.
        operand: Operand,
        /// The file it came from.
        file: String,
        /// Its element type.
        found: ElementType,
        /// The type needed.
        needed: ElementType,
    },

    /// A matrix that no beta scales.
    #[error("--c-in was given, but --beta is 0, so C would not be read")]
    UnusedC,

    /// A beta without a matrix to scale.
    #[error("--beta is {beta}, so C is read: name it with --c-in")]
    MissingC {
        /// The factor.
        beta: f64,
    },

    /// An option of the GPU backends beside the choice of the CPU.
    #[error("{option} is for the GPU backends, but --backend cpu was given")]
    GpuOption {
        /// The option.
        option: &'static str,
    },

    /// An option of the WGSL backend beside the choice of another.
    #[error("{option} is for the WGSL backend, but the HIP backend was asked for")]
    WgslOption {
        /// The option.
        option: &'static str,
    },

    /// An emulated architecture beside the choice of a backend that emulates nothing.
    #[error("--emulate is for the HIP backend, but another --backend was given")]
    EmulateOption,

    /// A device beside the emulator.
    #[error("--device names a GPU, but --emulate was given")]
    EmulatedDevice,

    /// A device that the HIP backend does not number.
    #[error("--device {device:?} is no number of a HIP device: lapidary devices lists them")]
    HipDevice {
        /// What was given.
        device: String,
    },

    /// Standard output is closed or full.
    #[error("cannot print the result: {0}")]
    Print(std::io::Error),
}

/// What converts an input to `needed`: an option, if it can name that type.
fn lossy_hint(needed: ElementType) -> &'static str {
    match needed {
        ElementType::I32 => ": convert the file, or choose a float C with --out-dtype f32",
        _ => "; --dtype converts the inputs",
    }
}

/// What an option of the command line can do about an error of the library.
fn hint(error: &Error) -> &'static str {
    match error {
        Error::ElementTypeUnavailable { .. } => " (--backend cpu, or --dtype f32)",
        Error::ScalesUnavailable { .. } => " (--backend cpu or hip)",
        Error::ElementTypesUnsupported { a, b, .. } if a != b => " (--dtype converts both)",
        Error::AccumulatorOverflow { .. } => " (--wrapping)",
        Error::OnDevice { source, .. } => hint(source),
        _ => "",
    }
}

/// Whether an error of the library says something about the machine, not about the input.
fn is_the_machines(error: &Error) -> bool {
    match error {
        Error::OutOfMemory { .. }
        | Error::DeviceLost { .. }
        | Error::Timeout { .. }
        | Error::Backend { .. }
        | Error::Device { .. } => true,
        Error::OnDevice { source, .. } => is_the_machines(source),
        _ => false,
    }
}

impl Failure {
    /// 2 if the input is at fault, 1 if the machine is.
    pub(crate) fn exit_code(&self) -> ExitCode {
        let machine = match self {
            Self::File(error) => matches!(error.reason, Reason::OutOfMemory { .. }),
            Self::Library(error) => is_the_machines(error),
            Self::Print(_) => true,
            Self::Emulate(_)
            | Self::Cases(_)
            | Self::Plant(_)
            | Self::NothingToCheck { .. }
            | Self::CaseBackend { .. }
            | Self::SameFile { .. }
            | Self::DeviceOfNone
            | Self::NoStream { .. }
            | Self::Report { .. }
            | Self::Dimensions { .. }
            | Self::Lossy { .. }
            | Self::UnusedC
            | Self::MissingC { .. }
            | Self::GpuOption { .. }
            | Self::WgslOption { .. }
            | Self::EmulateOption
            | Self::EmulatedDevice
            | Self::HipDevice { .. } => false,
        };
        if machine { ExitCode::FAILURE } else { ExitCode::from(BAD_INPUT) }
    }
}
