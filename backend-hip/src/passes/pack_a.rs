//! A to aligned rows: `kernels/pack_a.hip`.

use bytemuck::{Pod, Zeroable};
use lapidary_core::ElementType;

use super::launch;
use crate::compile::Request;
use crate::preshuffle::{Launch, MAX_WORKGROUPS, TooMany, count};
use crate::target::Target;

/// One instance of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "plain data that callers fill in")]
pub struct PackAConfig {
    /// The architecture.
    pub target: Target,
    /// Element type of A, of at most 32 bits.
    pub element: ElementType,
    /// Whether rows of A are closer to each other than its columns.
    pub lanes_along_m: bool,
}

impl PackAConfig {
    /// What to compile.
    #[must_use]
    pub fn request(&self) -> Request {
        Request::new("pack_a.hip", self.target)
            .define("BITS", self.element.bits())
            .define("LANES_ALONG_M", u32::from(self.lanes_along_m))
    }

    /// Bytes of a packed row of `k` elements.
    #[must_use]
    pub const fn row_bytes(&self, k: usize) -> usize {
        self.element.bytes_for(k).next_multiple_of(16)
    }
}

/// The pass's only argument. Pointers are device addresses, strides count elements, also of four bits.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
#[allow(clippy::exhaustive_structs, reason = "a binary interface")]
#[allow(missing_docs, reason = "documented field by field in pack_a.hip")]
pub struct PackAArgs {
    pub from: u64,
    pub to: u64,
    pub row_stride: i64,
    pub k_stride: i64,
    pub batch_stride: i64,
    pub m: u32,
    pub k: u32,
    pub batch: u32,
    pub chunks: u32,
    pub matrices: u32,
    /// Fills the structure up to a multiple of its alignment.
    pub unused: u32,
}

impl PackAArgs {
    /// Fills in sizes; pointers and strides stay 0.
    ///
    /// # Errors
    /// [`TooMany`] if a size leaves 32 bits.
    pub fn sizes(config: &PackAConfig, [m, k]: [usize; 2], batch: usize) -> Result<Self, TooMany> {
        let to = |what, x| count(what, x, u32::MAX);
        let batch = to("the batch", batch)?;
        Ok(Self {
            m: to("lines to copy", m)?,
            k: to("elements of a line to copy", k)?,
            batch,
            chunks: to("16-byte pieces of a line to copy", config.row_bytes(k) / 16)?,
            matrices: batch.min(MAX_WORKGROUPS),
            ..Self::default()
        })
    }

    /// The grid.
    ///
    /// # Errors
    /// [`TooMany`] past 2³² − 1 threads.
    pub fn launch(&self) -> Result<Launch, TooMany> {
        let items = u128::from(self.m) * u128::from(self.chunks);
        launch("threads that copy lines, one for 16 bytes", items, self.matrices, 1)
    }
}
