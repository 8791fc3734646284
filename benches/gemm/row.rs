//! One line of the table.

use std::fmt;
use std::time::Duration;

use lapidary_wgsl::core::Problem;

/// One product timed.
pub(crate) struct Row {
    pub(crate) library: String,
    pub(crate) name: String,
    pub(crate) kernel: String,
    pub(crate) flops: f64,
    pub(crate) bytes: f64,
    /// Minimum, median and maximum.
    pub(crate) times: [Duration; 3],
    pub(crate) clock: &'static str,
    pub(crate) right: bool,
    pub(crate) device: String,
}

impl Row {
    pub(crate) const HEAD: &'static str =
        "library,product,kernel,us,tflops,tb_per_s,spread,clock,check,device";
}

/// Bytes of A, B and C.
pub(crate) fn bytes(problem: &Problem) -> f64 {
    let size = |rows: usize, cols: usize, element: lapidary_wgsl::core::ElementType| {
        rows as f64 * cols as f64 * element.size() as f64
    };
    problem.batch as f64
        * (size(problem.m, problem.k, problem.a)
            + size(problem.k, problem.n, problem.b)
            + size(problem.m, problem.n, problem.c))
}

/// Minimum, median and maximum of some times.
pub(crate) fn min_median_max(mut times: Vec<Duration>) -> [Duration; 3] {
    times.sort_unstable();
    match (times.first(), times.get(times.len() / 2), times.last()) {
        (Some(&min), Some(&median), Some(&max)) => [min, median, max],
        _ => [Duration::ZERO; 3],
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [min, median, max] = self.times.map(|time| time.as_secs_f64());
        write!(
            f,
            "{},{},{},{:.2},{:.4},{:.4},{:.3},{},{},{}",
            self.library,
            self.name,
            self.kernel,
            median * 1e6,
            self.flops / median / 1e12,
            self.bytes / median / 1e12,
            (max - min) / median,
            self.clock,
            if self.right { "right" } else { "WRONG" },
            self.device
        )
    }
}
