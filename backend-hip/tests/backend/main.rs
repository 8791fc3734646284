//! `Gemm::<Hip>` on both emulated targets, every check on, against the oracle.

mod exact;
mod support;
