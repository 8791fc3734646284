//! Block scales of B: `kernels/pack_scales.hip`.

use bytemuck::{Pod, Zeroable};

use super::{MAX_WORKGROUPS, launch};
use crate::compile::Request;
use crate::preshuffle::{Launch, PackedLayout};
use crate::target::Target;

/// What to compile.
#[must_use]
pub fn pack_scales_request(target: Target) -> Request {
    Request::new("pack_scales.hip", target)
}

/// The pass's only argument. Pointers are device addresses.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
#[allow(clippy::exhaustive_structs, reason = "a binary interface")]
#[allow(missing_docs, reason = "documented field by field in pack_scales.hip")]
pub struct PackScalesArgs {
    pub from: u64,
    pub to: u64,
    pub n: u32,
    pub batch: u32,
    pub blocks: u32,
    pub steps: u32,
    pub matrices: u32,
    /// Fills the structure up to a multiple of its alignment.
    pub unused: u32,
}

impl PackScalesArgs {
    /// Fills in sizes for `batch` matrices of B's layout; pointers stay 0. `None` if a size leaves 32
    /// bits.
    #[must_use]
    pub fn sizes(layout: &PackedLayout, batch: usize) -> Option<Self> {
        let to = |x: usize| u32::try_from(x).ok();
        Some(Self {
            n: to(layout.n)?,
            batch: to(batch)?,
            blocks: to(layout.k / 32)?,
            steps: to(layout.k_padded.div_ceil(128))?,
            matrices: to(batch)?.min(MAX_WORKGROUPS),
            ..Self::default()
        })
    }

    /// The grid, or `None` past 2³² − 1 threads.
    #[must_use]
    pub fn launch(&self) -> Option<Launch> {
        let words = u64::from(self.n.div_ceil(64)) * u64::from(self.steps) * 64;
        launch(words, self.matrices, 1)
    }

    /// Bytes of the packed scales of all matrices.
    #[must_use]
    pub fn packed_bytes(&self) -> u64 {
        u64::from(self.n.div_ceil(64)) * u64::from(self.steps) * 256 * u64::from(self.batch)
    }
}
