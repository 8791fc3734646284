//! Packing B on the device: `kernels/pack_b.hip`.

use bytemuck::{Pod, Zeroable};
use lapidary_core::ElementType;

use super::args::Launch;
use super::counts::{MAX_WORKGROUPS, TooMany, count, workgroups};
use super::pack::PackedLayout;
use crate::compile::Request;
use crate::target::Target;

/// Threads of a workgroup; each gathers 16 bytes.
const THREADS: u32 = 256;

/// The pack kernel's only argument. Pointers are device addresses, strides count elements, also of
/// four bits.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
#[allow(clippy::exhaustive_structs, reason = "a binary interface")]
pub struct PackArgs {
    /// B as it is.
    pub from: u64,
    /// The packed B, [`PackedLayout::matrix_bytes`] for each matrix.
    pub to: u64,
    /// Elements from k to k + 1.
    pub k_stride: i64,
    /// Elements from n to n + 1.
    pub n_stride: i64,
    /// Elements from matrix to matrix.
    pub batch_stride: i64,
    /// Length along K.
    pub k: u32,
    /// Columns.
    pub n: u32,
    /// 64-byte blocks along K, padding included.
    pub blocks: u32,
    /// Groups of 16 columns.
    pub groups: u32,
}

/// What to compile to pack elements of a type.
#[must_use]
pub fn pack_request(target: Target, element: ElementType) -> Request {
    Request::new("pack_b.hip", target)
        .define("BITS", element.bits())
        .define("IS_I4", u32::from(element == ElementType::I4))
}

impl PackArgs {
    /// Fills in sizes; pointers and strides stay 0.
    ///
    /// # Errors
    /// [`TooMany`] if a size leaves the kernel's 32 bits.
    pub fn sizes(layout: &PackedLayout) -> Result<Self, TooMany> {
        let to = |what, x| count(what, x, u32::MAX);
        Ok(Self {
            k: to("K", layout.k)?,
            n: to("N", layout.n)?,
            blocks: to("blocks of 64 bytes along K of B", layout.column_bytes() / 64)?,
            groups: to("groups of 16 columns of B", layout.n.div_ceil(16))?,
            ..Self::default()
        })
    }

    /// The grid.
    ///
    /// # Errors
    /// [`TooMany`] past 2³² − 1 threads or 65536 matrices.
    pub fn launch(&self, batch: usize) -> Result<Launch, TooMany> {
        let chunks = u128::from(self.blocks) * u128::from(self.groups) * 64;
        let blocks = workgroups("threads that pack B, one for 16 bytes", chunks, THREADS)?;
        let batch = count("matrices of a launch", batch, MAX_WORKGROUPS)?;
        Ok(Launch { grid: [blocks, batch, 1], threads: THREADS })
    }
}
