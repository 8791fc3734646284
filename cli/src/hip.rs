//! The HIP backend's devices as the command line names them.

use clap::ValueEnum;
use lapidary_core::{ElementType, Error};
use lapidary_hip::{Hip, Target};

/// An architecture that is emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emulate {
    /// CDNA3, MI300
    Gfx942,
    /// CDNA4, MI350
    Gfx950,
}

impl Emulate {
    pub(crate) const ALL: [Self; 2] = [Self::Gfx942, Self::Gfx950];

    pub(crate) fn target(self) -> Target {
        match self {
            Self::Gfx942 => Target::Gfx942,
            Self::Gfx950 => Target::Gfx950,
        }
    }
}

/// Opens the emulator, or the ROCm device of that number.
///
/// # Errors
/// [`Error::NoDevice`] with what to install.
pub(crate) fn open(emulate: Option<Emulate>, device: Option<usize>) -> Result<Hip, Error> {
    match emulate {
        Some(emulate) => Hip::emulated(emulate.target()),
        None => Hip::rocm(device),
    }
}

/// The e4m3 that a target's matrix cores read: FNUZ on gfx942, else OCP.
pub(crate) fn fp8_of(target: Target) -> ElementType {
    match target {
        Target::Gfx942 => ElementType::F8E4M3Fnuz,
        _ => ElementType::F8E4M3,
    }
}
