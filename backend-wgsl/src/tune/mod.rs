//! The autotuner: times the kernels a device can run on a problem, and remembers the fastest.
//!
//! Opt-in. [`Wgsl::tune`](crate::Wgsl::tune) measures; a device opened with
//! [`WgslOptions::tune_cache`](crate::WgslOptions::tune_cache) plans with what was measured before,
//! by any process. Without a measurement, or where a remembered kernel cannot be planned, a plan is
//! what it would have been.
//!
//! [`candidates`] says what is tried and [`key`] which problems count as one; both are plain data.

pub mod cache;
pub mod candidates;
pub mod key;
mod measure;
mod operands;

use std::time::Duration;

pub use cache::{CacheError, TuneCache, Winner};
pub use candidates::Candidate;

/// How to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TuneOptions {
    /// Timed runs of each candidate. The default is 20.
    pub runs: usize,
    /// How long a candidate runs before it is timed: an idle device runs at a fraction of its clock,
    /// up to five times slower. The default is 250 ms.
    pub warm_up: Duration,
    /// Elements of C that are compared with the oracle. The default is 256.
    pub sample: usize,
    /// How many times slower than the fastest so far a candidate's first run may be; above, it is not
    /// timed any further. The default is 8.
    pub give_up: f64,
    /// Whether products of f16 may be summed in f16; what is fastest then is remembered for plans that
    /// [allow it](lapidary_core::PlanOptions::f16_sums), apart from what is fastest without. The default
    /// is that they may not.
    pub f16_sums: bool,
}

impl Default for TuneOptions {
    fn default() -> Self {
        Self {
            runs: 20,
            warm_up: Duration::from_millis(250),
            sample: 256,
            give_up: 8.0,
            f16_sums: false,
        }
    }
}

impl TuneOptions {
    /// Sets the timed runs of each candidate.
    #[must_use]
    pub fn runs(mut self, runs: usize) -> Self {
        self.runs = runs;
        self
    }

    /// Sets how long a candidate runs before it is timed.
    #[must_use]
    pub fn warm_up(mut self, warm_up: Duration) -> Self {
        self.warm_up = warm_up;
        self
    }

    /// Sets whether products of f16 may be summed in f16.
    #[must_use]
    pub fn f16_sums(mut self, allowed: bool) -> Self {
        self.f16_sums = allowed;
        self
    }
}

/// What became of a candidate.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// Right, and timed.
    Timed {
        /// Median seconds of a run.
        seconds: f64,
        /// (max − min) / median over the runs.
        spread: f64,
    },
    /// Right, but so slow at its first run that it was not timed further.
    Slow {
        /// Seconds of the first run, by the host's clock.
        seconds: f64,
    },
    /// The device or the problem does not suit it, or the device failed on it.
    Refused {
        /// The error.
        reason: String,
    },
    /// Its result was wrong: it is out, however fast.
    Wrong {
        /// Elements of the sample out of bounds.
        wrong: usize,
        /// Elements compared.
        checked: usize,
    },
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Measured {
    /// The candidate's name.
    pub candidate: String,
    /// The kernel that its plan chose; empty if there was no plan.
    pub kernel: String,
    /// What became of it.
    pub outcome: Outcome,
}

/// What a tuning run found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TuneReport {
    /// The class of problems the winner stands for.
    pub key: String,
    /// Every candidate, in the order tried.
    pub candidates: Vec<Measured>,
    /// Index of the fastest right candidate; `None` if none was timed.
    pub winner: Option<usize>,
    /// Whether times are the device's own.
    pub device_clock: bool,
    /// Where the winner was remembered, or why it was not; `None` without a cache or a winner.
    pub stored: Option<Result<std::path::PathBuf, String>>,
}

/// The fastest timed candidate.
fn fastest(candidates: &[Measured]) -> Option<usize> {
    let seconds = |measured: &Measured| match measured.outcome {
        Outcome::Timed { seconds, .. } => Some(seconds),
        Outcome::Slow { .. } | Outcome::Refused { .. } | Outcome::Wrong { .. } => None,
    };
    let timed = candidates.iter().enumerate().filter_map(|(i, m)| Some((i, seconds(m)?)));
    timed.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(outcome: Outcome) -> Measured {
        Measured { candidate: "c".into(), kernel: "k".into(), outcome }
    }

    #[test]
    fn the_fastest_right_candidate_wins() {
        let timed = |seconds| measured(Outcome::Timed { seconds, spread: 0.0 });
        let others = [
            measured(Outcome::Wrong { wrong: 1, checked: 2 }),
            measured(Outcome::Slow { seconds: 1e-9 }),
            measured(Outcome::Refused { reason: "no".into() }),
        ];
        assert_eq!(fastest(&others), None);
        let mut all = others.to_vec();
        all.extend([timed(3.0), timed(1.0), timed(2.0)]);
        assert_eq!(fastest(&all), Some(4));
    }
}
