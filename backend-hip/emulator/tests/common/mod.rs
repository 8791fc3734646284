//! What the tests and the corpus command share: the LLVM tools, the kernels and the operand sweeps.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary is its own crate and uses its own part"
)]

pub mod compare;
pub mod exercise;
pub mod kernels;
pub mod llvm;
pub mod sweep;
