//! Benchmarks of Lapidary; everything is in the bench target `gemm`:
//!
//! ```text
//! cargo bench -p lapidary-bench -- --quick
//! ```
