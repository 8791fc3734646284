//! What the benchmarks share: shapes, contenders, statistics and the rows they report.
//!
//! `cargo bench -p lapidary-bench` times the WGSL kernels, the CPU backend and its peers through
//! criterion; `cargo bench -p lapidary-bench --bench cpu_pairs` compares CPU products in turn, which
//! holds on a machine whose speed drifts.
//!
//! [`stats`], [`row`] and [`shape`] are plain data with tests; [`cpu`] holds the contenders on host
//! memory, [`device`] those on a WGSL device.

pub mod cpu;
pub mod device;
pub mod row;
pub mod shape;
pub mod stats;
