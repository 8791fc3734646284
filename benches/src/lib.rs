//! What the benchmarks share: shapes, contenders, statistics and the rows they report.
//!
//! `cargo bench -p lapidary-bench` times the WGSL kernels, the CPU backend and its peers through
//! criterion; `--bench cpu_pairs` compares CPU products in turn, which holds on a machine whose speed
//! drifts; `--bench versus` times what is compared with other GPU libraries (`cublas.py`, and with
//! the feature `peers` the package in `peers/`).
//!
//! [`stats`], [`row`] and [`shape`] are plain data with tests; [`cpu`] holds the contenders on host
//! memory, [`device`] those on a WGSL device, [`operands`] what they multiply.

#[cfg(feature = "contenders")]
pub mod cpu;
#[cfg(feature = "contenders")]
pub mod device;
pub mod operands;
pub mod row;
pub mod shape;
pub mod stats;
pub mod versus;

/// The commit that is timed: the one that `LAPIDARY_COMMIT` names, for programs that run on another machine
/// than they were built on, else that of the working tree, with a `+` where files differ from it.
#[must_use]
pub fn commit() -> String {
    if let Ok(named) = std::env::var("LAPIDARY_COMMIT") {
        return named;
    }
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(hash) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let clean = git(&["status", "--porcelain"]).is_some_and(|changes| changes.is_empty());
    if clean { hash } else { format!("{hash}+") }
}
