//! `Gemm::<Hip>` on both emulated targets, every check on, against the oracle.

mod errors;
mod exact;
mod kernels;
mod layouts;
mod packed;
mod policies;
mod real;
mod semantics;
mod support;
