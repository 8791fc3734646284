//! The command line that the programs share.

use clap::builder::RangedU64ValueParser;
use lapidary_hip::Target;

/// A size that the emulator gets through: 1 to 4096.
fn size() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=4096)
}

/// An architecture whose kernels run here.
fn arch(text: &str) -> Result<Target, String> {
    match Target::from_name(text) {
        Some(target @ (Target::Gfx942 | Target::Gfx950)) => Ok(target),
        Some(target) => Err(format!("{target} has no emulator: give gfx942 or gfx950")),
        None => Err("it is none of gfx942 and gfx950".into()),
    }
}

/// What to multiply, and for which architecture.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// gfx942 or gfx950: emulate it; by default the ROCm device's, or an emulated gfx942
    #[arg(long, value_parser = arch)]
    pub(crate) arch: Option<Target>,
    /// Rows of A and C of the product that is checked
    #[arg(long, default_value_t = 144, value_parser = size())]
    pub(crate) m: usize,
    /// Columns of B and C
    #[arg(long, default_value_t = 160, value_parser = size())]
    pub(crate) n: usize,
    /// Columns of A, rows of B
    #[arg(long, default_value_t = 80, value_parser = size())]
    pub(crate) k: usize,
    /// M, N and K of the product that is timed on a ROCm device
    #[arg(long, default_value_t = 4096, value_parser = RangedU64ValueParser::<usize>::new().range(1..=32768))]
    pub(crate) time: usize,
    /// Timed runs of each kernel
    #[arg(long, default_value_t = 10, value_parser = size())]
    pub(crate) runs: usize,
}

impl Options {
    /// M, N and K of the product that is checked.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        [self.m, self.n, self.k]
    }
}
