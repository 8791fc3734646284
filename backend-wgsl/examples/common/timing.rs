//! Timing kernels side by side.

use std::time::Duration;

use lapidary_core::{Args, Error};
use lapidary_wgsl::{Wgsl, WgslPlan};

use super::record::Time;

/// An idle device runs at a fraction of its clock, and needs about this long to leave it.
const WARM_UP: Duration = Duration::from_millis(250);

/// Times every plan `runs` times on the same operands.
///
/// The runs are split into a round forwards and a round backwards through the plans, so that a clock
/// that drifts as the device gets warm favours none of them.
pub(crate) fn time(
    device: &Wgsl,
    plans: &[WgslPlan],
    args: &Args<'_, Wgsl>,
    runs: usize,
) -> Result<Vec<Time>, Error> {
    let mut durations = vec![Vec::with_capacity(runs); plans.len()];
    let mut device_clock = vec![true; plans.len()];
    let forwards = 0..plans.len();
    let backwards = (0..plans.len()).rev();
    for (order, count) in [
        (forwards.collect::<Vec<_>>(), runs.div_ceil(2)),
        (backwards.collect::<Vec<_>>(), runs / 2),
    ] {
        if count == 0 {
            continue;
        }
        for index in order {
            let timing = device.time(&plans[index], args, count, WARM_UP)?;
            device_clock[index] &= timing.device_clock;
            durations[index].extend(timing.runs.iter().map(Duration::as_secs_f64));
        }
    }
    Ok(durations.into_iter().zip(device_clock).map(|(runs, clock)| summary(runs, clock)).collect())
}

/// Median, shortest and longest.
fn summary(mut runs: Vec<f64>, device_clock: bool) -> Time {
    runs.sort_by(f64::total_cmp);
    let at = |index: usize| runs.get(index).copied().unwrap_or(0.0);
    Time {
        median: at(runs.len() / 2),
        min: at(0),
        max: at(runs.len().saturating_sub(1)),
        runs: runs.len(),
        device_clock,
    }
}
