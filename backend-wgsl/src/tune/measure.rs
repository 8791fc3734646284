//! Trying candidates on the device.

use std::time::{Duration, Instant};

use lapidary_core::{Backend, Error, PlanOptions, Problem};

use super::cache::Winner;
use super::candidates::{Candidate, candidates};
use super::operands::Data;
use super::{Measured, Outcome, TuneOptions, TuneReport, fastest, key};
use crate::{Timing, Wgsl, WgslPlan};

/// A candidate that is right, on its way to be timed.
struct Runner {
    /// Its place in the report.
    index: usize,
    plan: WgslPlan,
    seconds: Vec<f64>,
}

impl Wgsl {
    /// Times every kernel that this device can run on `problem`, with random operands of its strides,
    /// and remembers the fastest in the device's cache if it was opened with one.
    ///
    /// The device's clock is warmed up before each, and half of the runs go through the candidates
    /// backwards, so that a clock that drifts favours none. A candidate that is refused, fails, runs
    /// out of memory or computes a wrong sample is dropped. It blocks; a program that wants it in the
    /// background calls it on a thread of its own, with a clone of the device.
    ///
    /// At beta ≠ 0 the timed runs go on from their own C, whose values may leave the range of its
    /// type; they are not looked at.
    ///
    /// # Errors
    /// [`Backend::plan`]'s if the problem cannot be planned at all, [`Error::OutOfMemory`] if its
    /// operands do not fit, and [`Error::DeviceLost`].
    pub fn tune(&self, problem: &Problem, options: &TuneOptions) -> Result<TuneReport, Error> {
        self.tune_among(problem, options, &candidates(problem, options.f16_sums))
    }

    /// As [`Wgsl::tune`], for a choice of candidates.
    ///
    /// # Errors
    /// As [`Wgsl::tune`].
    pub fn tune_among(
        &self,
        problem: &Problem,
        options: &TuneOptions,
        candidates: &[Candidate],
    ) -> Result<TuneReport, Error> {
        self.plan_untuned(problem, &PlanOptions::default())?;
        let _span = tracing::info_span!(
            "tune",
            m = problem.m,
            n = problem.n,
            k = problem.k,
            device = self.inner.name
        )
        .entered();
        let data = Data::new(self, problem)?;
        let mut measured = Vec::with_capacity(candidates.len());
        let mut runners = Vec::new();
        let mut quickest = f64::INFINITY;
        for (index, candidate) in candidates.iter().enumerate() {
            let mut kernel = String::new();
            let outcome = match self.first_run(problem, candidate, &data, options, &mut kernel) {
                Ok((_, _, Some(wrong))) => wrong,
                Ok((_, seconds, None)) if seconds > options.give_up * quickest => {
                    Outcome::Slow { seconds }
                }
                Ok((plan, seconds, None)) => {
                    quickest = quickest.min(seconds);
                    runners.push(Runner { index, plan, seconds: Vec::new() });
                    Outcome::Slow { seconds }
                }
                Err(error @ Error::DeviceLost { .. }) => return Err(error),
                Err(error) => Outcome::Refused { reason: error.to_string() },
            };
            measured.push(Measured { candidate: candidate.name.clone(), kernel, outcome });
        }
        let device_clock = self.time_all(&mut runners, &data, options, &mut measured)?;
        let winner = fastest(&measured);
        let key = key::of(problem, options.f16_sums);
        let stored = winner.zip(self.inner.tune_cache.as_ref()).map(|(index, cache)| {
            let seconds = match measured[index].outcome {
                Outcome::Timed { seconds, .. } => seconds,
                _ => 0.0,
            };
            let candidate = measured[index].candidate.clone();
            let winner = Winner { candidate, seconds, compared: measured.len() };
            cache.store(&self.identity(), &key, winner).map_err(|error| error.to_string())
        });
        if let Some(Err(reason)) = &stored {
            tracing::warn!(reason, "the measurement is not kept");
        }
        Ok(TuneReport { key, candidates: measured, winner, device_clock, stored })
    }

    /// Plans a candidate, checks it, and times one further run by the host's clock.
    fn first_run(
        &self,
        problem: &Problem,
        candidate: &Candidate,
        data: &Data<'_>,
        options: &TuneOptions,
        kernel: &mut String,
    ) -> Result<(WgslPlan, f64, Option<Outcome>), Error> {
        let plan = self.plan_untuned(problem, &candidate.options)?;
        kernel.clone_from(&self.summary(&plan).kernel);
        let wrong = data.check(self, &plan, options.sample)?;
        let start = Instant::now();
        self.execute(&plan, &data.args())?;
        self.inner.wait()?;
        Ok((plan, start.elapsed().as_secs_f64(), wrong))
    }

    /// Times the runners, once forwards and once backwards; whether by the device's clock.
    fn time_all(
        &self,
        runners: &mut [Runner],
        data: &Data<'_>,
        options: &TuneOptions,
        measured: &mut [Measured],
    ) -> Result<bool, Error> {
        let mut device_clock = true;
        let halves = [options.runs.max(1).div_ceil(2), options.runs / 2];
        for (turn, runs) in halves.into_iter().enumerate().filter(|&(_, runs)| runs > 0) {
            let mut order: Vec<&mut Runner> = runners.iter_mut().collect();
            if turn == 1 {
                order.reverse();
            }
            for runner in order {
                match self.time(&runner.plan, &data.args(), runs, options.warm_up) {
                    Ok(Timing { runs, device_clock: device }) => {
                        device_clock &= device;
                        runner.seconds.extend(runs.iter().map(Duration::as_secs_f64));
                    }
                    Err(error @ Error::DeviceLost { .. }) => return Err(error),
                    Err(error) => {
                        measured[runner.index].outcome =
                            Outcome::Refused { reason: error.to_string() };
                        runner.seconds.clear();
                    }
                }
            }
        }
        for runner in runners {
            runner.seconds.sort_by(f64::total_cmp);
            let seconds = &runner.seconds;
            let (Some(min), Some(max)) = (seconds.first(), seconds.last()) else {
                continue;
            };
            let median = seconds[seconds.len() / 2];
            // A clock too coarse to see the run says nothing about who is faster.
            if median > 0.0 {
                let spread = (max - min) / median;
                measured[runner.index].outcome = Outcome::Timed { seconds: median, spread };
            }
        }
        Ok(device_clock)
    }

    /// The remembered choice for a problem, and a sentence about it.
    pub(crate) fn remembered(
        &self,
        problem: &Problem,
        f16_sums: bool,
    ) -> Option<(PlanOptions, String)> {
        let cache = self.inner.tune_cache.as_ref()?;
        let winner = cache.find(&self.identity(), &key::of(problem, f16_sums))?;
        let mut candidates = candidates(problem, f16_sums).into_iter();
        let candidate = candidates.find(|candidate| candidate.name == winner.candidate)?;
        let reason = format!("the fastest of {} measured on this device", winner.compared);
        Some((candidate.options, reason))
    }

    /// Everything about the device and this crate that changes what is fast.
    pub(crate) fn identity(&self) -> String {
        let info = self.adapter_info();
        format!(
            "{} | {:?} {:x}:{:x} | {} {} | {} shaders | {:?} | lapidary {}",
            info.name,
            info.backend,
            info.vendor,
            info.device,
            info.driver,
            info.driver_info,
            if self.is_checked() { "checked" } else { "trusted" },
            self.limits(),
            env!("CARGO_PKG_VERSION")
        )
    }
}
