//! Kernels compiled by clang for both targets, run with every check on and compared with plain Rust.

#[path = "../common/llvm.rs"]
#[allow(dead_code, reason = "shared with the disassembler's tests")]
mod llvm;

mod basic;
mod corpus;
mod faults;
mod gpu;
mod matrix;
mod random;
