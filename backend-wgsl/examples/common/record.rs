//! What was measured, as plain data that can be saved and read again.

use lapidary_core::{PlanSummary, Problem};
use serde::{Deserialize, Serialize};

/// One program's results on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The device.
    pub(crate) device: Device,
    /// M, N and K.
    pub(crate) sizes: [usize; 3],
    /// The command that measured.
    pub(crate) command: String,
    /// The day, as YYYY-MM-DD, UTC.
    pub(crate) date: String,
    /// The kernels that were checked and timed, in order.
    pub(crate) kernels: Vec<Kernel>,
    /// The kernels that were not, because the plan refused the problem.
    pub(crate) refused: Vec<Refused>,
}

/// A kernel that does not suit the problem or the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refused {
    /// Its name.
    pub(crate) name: String,
    /// Why not.
    pub(crate) reason: String,
}

impl Record {
    /// Whether every check of every kernel passed, and there is a kernel.
    pub(crate) fn passed(&self) -> bool {
        !self.kernels.is_empty()
            && self
                .kernels
                .iter()
                .all(|k| !k.checks.is_empty() && k.checks.iter().all(|c| c.passed))
    }
}

/// A device in words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Device {
    /// The adapter's name.
    pub(crate) name: String,
    /// Its driver and version.
    pub(crate) driver: String,
    /// Whether it is a program on the CPU.
    pub(crate) software: bool,
    /// Limits and capabilities, name and value.
    pub(crate) properties: Vec<(String, String)>,
}

/// One kernel's geometry, checks and speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kernel {
    /// Step of the course.
    pub(crate) step: u8,
    /// The kernel's name.
    pub(crate) name: String,
    /// How the work is divided.
    pub(crate) geometry: Geometry,
    /// What was checked.
    pub(crate) checks: Vec<Check>,
    /// How long it took.
    pub(crate) time: Time,
    /// The kernel of the step before, measured in the same run.
    pub(crate) previous: Option<Previous>,
    /// What the plan had to give up or add.
    pub(crate) notes: Vec<String>,
}

/// How a kernel divides the work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Geometry {
    /// Workgroups of each dispatch.
    pub(crate) dispatches: Vec<[u32; 3]>,
    /// Threads of a workgroup.
    pub(crate) threads: usize,
    /// Rows and columns of C a workgroup computes.
    pub(crate) block_tile: [usize; 2],
    /// Rows and columns of C a thread computes.
    pub(crate) thread_tile: [usize; 2],
    /// Length of a strip along K, 0 without strips.
    pub(crate) k_tile: usize,
    /// Elements of A a load fetches.
    pub(crate) load_width: usize,
    /// Bytes of workgroup memory.
    pub(crate) workgroup_bytes: usize,
    /// Bytes of A and B that all threads together load from global memory, and of C they store.
    pub(crate) requested_bytes: f64,
    /// The same for one element of C.
    pub(crate) bytes_per_output: f64,
    /// The fewest bytes any kernel moves: A, B and C once.
    pub(crate) minimum_bytes: f64,
    /// Multiplications and additions.
    pub(crate) flops: f64,
}

impl Geometry {
    /// What a plan's summary says about its loads.
    ///
    /// A kernel with tiles loads its part of A once for each column of blocks and its part of B once
    /// for each row of blocks; without tiles every thread does so for itself. What lies outside the
    /// matrices is not loaded.
    pub(crate) fn of(problem: &Problem, summary: &PlanSummary) -> Self {
        let shared =
            if summary.workgroup_bytes == 0 { summary.thread_tile } else { summary.block_tile };
        let times = |length: usize, tile: usize| length.div_ceil(tile.max(1)) as f64;
        let (m, n, k) = (problem.m as f64, problem.n as f64, problem.k as f64);
        let a = m * k * times(problem.n, shared[1]) * problem.a.size() as f64;
        let b = k * n * times(problem.m, shared[0]) * problem.b.size() as f64;
        let requested_bytes = a + b + m * n * problem.c.size() as f64;
        Self {
            dispatches: summary.dispatches.clone(),
            threads: summary.workgroup_threads,
            block_tile: summary.block_tile,
            thread_tile: summary.thread_tile,
            k_tile: summary.k_tile_size,
            load_width: summary.load_width,
            workgroup_bytes: summary.workgroup_bytes,
            requested_bytes,
            bytes_per_output: requested_bytes / (m * n),
            minimum_bytes: problem.min_bytes(),
            flops: problem.flops(),
        }
    }
}

/// One check's verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Check {
    /// What was checked.
    pub(crate) name: String,
    /// Whether nothing was wrong.
    pub(crate) passed: bool,
    /// Elements of C looked at.
    pub(crate) checked: usize,
    /// Elements of C there are.
    pub(crate) of: usize,
    /// The numbers behind the verdict.
    pub(crate) detail: String,
}

/// Durations of a kernel, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Time {
    /// The middle one.
    pub(crate) median: f64,
    /// The shortest.
    pub(crate) min: f64,
    /// The longest.
    pub(crate) max: f64,
    /// How many there were.
    pub(crate) runs: usize,
    /// Whether the device's timestamps were used; otherwise the host's clock, wait included.
    pub(crate) device_clock: bool,
}

impl Time {
    /// `amount` a second at the median.
    pub(crate) fn rate(&self, amount: f64) -> f64 {
        if self.median > 0.0 { amount / self.median } else { 0.0 }
    }

    /// Where the durations come from.
    pub(crate) fn clock(&self) -> &'static str {
        if self.device_clock { "device timestamps" } else { "wall clock of the host" }
    }
}

/// The kernel that a speed-up is measured against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Previous {
    /// Its name.
    pub(crate) name: String,
    /// Its median time in seconds.
    pub(crate) median: f64,
    /// Its median time ÷ this kernel's.
    pub(crate) speedup: f64,
}
