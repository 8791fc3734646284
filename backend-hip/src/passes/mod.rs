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

use crate::preshuffle::{Launch, TooMany, workgroups};

/// Every pass that a plan may launch besides its kernel, by the name that plans report.
pub const PASSES: [&str; 5] = ["pack_a", "pack_b", "pack_scales", "reduce", "store"];

/// Threads of a workgroup of every pass.
const THREADS: u32 = 256;
/// A launch of `items` threads along x in `y` × `z` workgroups; kernels walk what is past HIP's limit
/// along y and z in turns.
fn launch(what: &'static str, items: u128, y: u32, z: u32) -> Result<Launch, TooMany> {
    let blocks = workgroups(what, items, THREADS)?;
    Ok(Launch { grid: [blocks, y, z], threads: THREADS })
}
