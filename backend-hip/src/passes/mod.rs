//! The kernels around a product: A and the block scales of B into the order the preshuffle kernel
//! reads, and raw sums to a C of any strides and type.
//!
//! B's own pass is [`preshuffle::PackArgs`](crate::preshuffle::PackArgs).

mod pack_a;
mod pack_scales;
mod store;

pub use pack_a::{PackAArgs, PackAConfig};
pub use pack_scales::{PackScalesArgs, pack_scales_request};
pub use store::{StoreArgs, StoreConfig, Sums};

use crate::preshuffle::Launch;

/// Threads of a workgroup of every pass.
const THREADS: u32 = 256;
/// Workgroups along y and z that HIP allows; kernels walk further ones in turns.
const MAX_WORKGROUPS: u32 = 65536;

/// A launch of `items` threads along x, each for `y` × `z` workgroups at most, or `None` past
/// 2³² − 1 threads.
fn launch(items: u64, y: u32, z: u32) -> Option<Launch> {
    let blocks = u32::try_from(items.div_ceil(u64::from(THREADS))).ok()?;
    blocks.checked_mul(THREADS)?;
    Some(Launch { grid: [blocks, y, z], threads: THREADS })
}
