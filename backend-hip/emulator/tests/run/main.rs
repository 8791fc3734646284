//! Kernels compiled by clang for both targets, run with every check on and compared with plain Rust.

#![allow(
    clippy::precedence,
    reason = "bit fields read best as they are written in the ISA documents"
)]
#![allow(clippy::unwrap_used, reason = "a test's helpers report by panicking")]

#[path = "../common/llvm.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the disassembler's tests")]
mod llvm;

mod basic;
mod corpus;
mod faults;
mod gpu;
mod instructions;
mod matrix;
mod random;
