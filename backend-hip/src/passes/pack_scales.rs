//! Block scales of B: `kernels/pack_scales.hip`.

use bytemuck::{Pod, Zeroable};

use super::launch;
use crate::compile::Request;
use crate::preshuffle::{Launch, MAX_WORKGROUPS, PackedLayout, TooMany, count};
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
    /// Fills in sizes for `batch` matrices of B's layout; pointers stay 0.
    ///
    /// # Errors
    /// [`TooMany`] if a size leaves 32 bits.
    pub fn sizes(layout: &PackedLayout, batch: usize) -> Result<Self, TooMany> {
        let to = |what, x| count(what, x, u32::MAX);
        let batch = to("the batch", batch)?;
        Ok(Self {
            n: to("N", layout.n)?,
            batch,
            blocks: to("block scales of a column of B", layout.k / 32)?,
            steps: to("steps of 128 along K", layout.k_padded.div_ceil(128))?,
            matrices: batch.min(MAX_WORKGROUPS),
            ..Self::default()
        })
    }

    /// The grid.
    ///
    /// # Errors
    /// [`TooMany`] past 2³² − 1 threads.
    pub fn launch(&self) -> Result<Launch, TooMany> {
        let words = u128::from(self.n.div_ceil(64)) * u128::from(self.steps) * 64;
        launch("threads that pack scales of B, one for 4", words, self.matrices, 1)
    }

    /// Bytes of the packed scales of all matrices.
    #[must_use]
    pub fn packed_bytes(&self) -> u64 {
        u64::from(self.n.div_ceil(64)) * u64::from(self.steps) * 256 * u64::from(self.batch)
    }
}
