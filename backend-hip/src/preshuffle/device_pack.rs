//! Packing B on the device: `kernels/pack_b.hip`.

use bytemuck::{Pod, Zeroable};
use lapidary_core::ElementType;

use super::args::Launch;
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
    /// Fills in sizes; pointers and strides stay 0. `None` if a size leaves the kernel's counts.
    #[must_use]
    pub fn sizes(layout: &PackedLayout) -> Option<Self> {
        let to = |x: usize| u32::try_from(x).ok();
        Some(Self {
            k: to(layout.k)?,
            n: to(layout.n)?,
            blocks: to(layout.column_bytes() / 64)?,
            groups: to(layout.n.div_ceil(16))?,
            ..Self::default()
        })
    }

    /// The grid, or `None` past 2³² − 1 threads or 65536 matrices.
    #[must_use]
    pub fn launch(&self, batch: usize) -> Option<Launch> {
        let chunks = u64::from(self.blocks) * u64::from(self.groups) * 64;
        let blocks = u32::try_from(chunks.div_ceil(u64::from(THREADS))).ok()?;
        blocks.checked_mul(THREADS)?;
        let batch = u32::try_from(batch).ok().filter(|&b| b <= 65536)?;
        Some(Launch { grid: [blocks, batch, 1], threads: THREADS })
    }
}
