//! The command line that all programs of the course understand.

use clap::builder::RangedU64ValueParser;
use lapidary_wgsl::{AdapterChoice, Wgsl, WgslOptions};

use super::Result;

/// A size: 1 to 2³¹ − 1, the range shaders count in.
fn size() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=u64::from(u32::MAX / 2))
}

/// What to multiply, where, and how often.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Options {
    /// M, N and K at once; 4096 on a GPU and 512 on a software device by default
    #[arg(long, value_name = "N", value_parser = size())]
    size: Option<usize>,
    /// Rows of A and C
    #[arg(long, value_parser = size())]
    m: Option<usize>,
    /// Columns of B and C
    #[arg(long, value_parser = size())]
    n: Option<usize>,
    /// Columns of A, rows of B
    #[arg(long, value_parser = size())]
    k: Option<usize>,
    /// Timed runs of each kernel; 20 on a GPU and 5 on a software device by default
    #[arg(long, value_parser = size())]
    runs: Option<usize>,
    /// The adapter: its index, a part of its name, or pci:ADDRESS; the best one by default
    #[arg(long)]
    device: Option<String>,
}

impl Options {
    /// Opens the device asked for.
    pub(crate) fn open(&self) -> Result<Wgsl> {
        let mut options = WgslOptions::default();
        if let Some(text) = &self.device {
            options = options.adapter(AdapterChoice::parse(text));
        }
        Ok(Wgsl::with_options(&options)?)
    }

    /// M, N and K; what is not given suits the device.
    pub(crate) fn sizes(&self, software: bool) -> [usize; 3] {
        let side = self.size.unwrap_or(if software { 512 } else { 4096 });
        [self.m, self.n, self.k].map(|given| given.unwrap_or(side))
    }

    /// Timed runs of each kernel.
    pub(crate) fn runs(&self, software: bool) -> usize {
        self.runs.unwrap_or(if software { 5 } else { 20 })
    }
}
