//! Policies: how tiles move and how fragments are multiplied, each a zero-sized type.
//!
//! A tiled GEMM kernel is one loop over strips of K with two independent concerns. The
//! [`TilePolicy`] moves data: tile shape, buffers in workgroup memory, load width, where barriers
//! go. The [`ComputePolicy`] multiplies: which outputs a thread owns and how its fragments are
//! accumulated. The loop itself is written once by each backend:
//!
//! ```text
//! prologue
//! for each strip t of K:
//!     prefetch          issue the load of a strip into buffer  strip % NUM_BUFFERS
//!     acquire           make strip t visible to the workgroup
//!     for ki in 0..K_TILE_SIZE step K_STEP:
//!         a = load_a(buffer t % NUM_BUFFERS, ki)
//!         b = load_b(buffer t % NUM_BUFFERS, ki)
//!         acc = mma(acc, a, b)
//!     release           allow the buffer of strip t to be overwritten
//! store_c
//! ```
//!
//! The hooks are data (lists of [`TileAction`]), so a test can read them and each backend writes
//! them in its own language. Rules are checked at compile time: see [`KernelConfig::of`].

mod compute;
mod config;
mod tile;

pub use compute::{
    ComputePolicy, CooperativeMatrix, CooperativeMatrixF16, MfmaF16, MfmaF32, MfmaXf32, Multiply,
    ScalarFma, ScalarMac, VectorDot4, VectorFma, VectorMac,
};
pub use config::{ComputeConfig, KernelConfig, TileConfig};
pub use tile::{
    DirectLoad, DirectSplit, RegisterPrefetch, SingleBuffer, SoftwareDoubleBuffer, Staging, Strip,
    TileAction, TileOrder, TilePolicy,
};
