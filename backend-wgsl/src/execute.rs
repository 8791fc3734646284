//! Running a plan: into the caller's encoder, or submitted, or timed.

use std::time::{Duration, Instant};

use lapidary_core::{
    AnyMatrixMut, Args, Backend, DeviceInfo, ElementType, Error, Operands, PlanOptions,
    PlanSummary, Problem, Progress, TensorSlice,
};

use crate::device::Wgsl;
use crate::pack::WgslPackedB;
use crate::plan::{Dispatch, WgslPlan};
use crate::tensor::WgslTensor;

/// Least time of a round of the warm-up that runs without waiting in between.
const WARM_UP_ROUND: Duration = Duration::from_millis(20);

/// Timestamps of one query set; WebGPU allows 4096.
const MOST_QUERIES: usize = 2048;

/// How long an execution took on the device.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Timing {
    /// One duration a run.
    pub runs: Vec<Duration>,
    /// Whether they come from the device's own timestamps, not from the host's clock.
    pub device_clock: bool,
}

impl Timing {
    /// Minimum, median and maximum of the runs; zero without runs.
    #[must_use]
    pub fn min_median_max(&self) -> [Duration; 3] {
        let mut sorted = self.runs.clone();
        sorted.sort_unstable();
        match (sorted.first(), sorted.get(sorted.len() / 2), sorted.last()) {
            (Some(&min), Some(&median), Some(&max)) => [min, median, max],
            _ => [Duration::ZERO; 3],
        }
    }
}

impl Wgsl {
    /// Encodes a planned product into the caller's own encoder; nothing is submitted.
    ///
    /// Several products may go into one encoder, and one may read what another wrote; see [`Batch`]
    /// for products in one compute pass.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    ///
    /// [`Batch`]: crate::Batch
    pub fn encode(
        &self,
        plan: &WgslPlan,
        args: &Args<'_, Self>,
        encoder: &mut wgpu::CommandEncoder,
    ) -> Result<(), Error> {
        let prepared = self.prepare(plan, args)?;
        self.inner.scoped("encoding", 0, || {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: Some(&plan.decision.summary.kernel),
                timestamp_writes: None,
            });
            prepared.chunks.iter().flatten().for_each(|dispatch| dispatch.encode(&mut pass));
        })
    }

    /// Submits dispatches as one command buffer.
    pub(crate) fn submit<'a>(
        &self,
        dispatches: impl IntoIterator<Item = &'a Dispatch>,
    ) -> Result<wgpu::SubmissionIndex, Error> {
        let inner = &self.inner;
        inner.often("submitting", || {
            let mut encoder = inner.device.create_command_encoder(&Default::default());
            {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                dispatches.into_iter().for_each(|dispatch| dispatch.encode(&mut pass));
            }
            inner.queue.submit([encoder.finish()])
        })
    }

    pub(crate) fn run_plan(
        &self,
        plan: &WgslPlan,
        args: &Args<'_, Self>,
        after_chunk: &mut dyn FnMut(usize, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let prepared = self.prepare(plan, args)?;
        let problem = &plan.problem;
        let _span = tracing::info_span!(
            "dispatch",
            m = problem.m,
            n = problem.n,
            k = problem.k,
            kernel = plan.decision.summary.kernel,
            device = self.inner.name,
        )
        .entered();
        // One submission a chunk, so that no submission outlasts a watchdog.
        for (done, chunk) in prepared.chunks.iter().enumerate() {
            self.submit(chunk)?;
            after_chunk(done + 1, prepared.chunks.len())?;
        }
        Ok(())
    }

    /// Runs a plan `runs` times and returns how long each run took on the device.
    ///
    /// Warms up first for at least `warm_up`, and gives the device the next run before the last one
    /// ends: an idle device runs at a fraction of its clock. With timestamp queries the time is from
    /// the first dispatch's begin to the last one's end, summed over submissions; without them it is
    /// the host's, submission and wait included.
    ///
    /// # Errors
    /// As [`Backend::execute`] and [`Backend::sync`].
    pub fn time(
        &self,
        plan: &WgslPlan,
        args: &Args<'_, Self>,
        runs: usize,
        warm_up: Duration,
    ) -> Result<Timing, Error> {
        self.time_in_turn(plan, core::slice::from_ref(args), runs, warm_up)
    }

    /// As [`Wgsl::time`], on sets of operands in turn: where all of them together exceed the device's
    /// caches, no run finds its operands there.
    ///
    /// # Errors
    /// As [`Wgsl::time`].
    pub fn time_in_turn(
        &self,
        plan: &WgslPlan,
        sets: &[Args<'_, Self>],
        runs: usize,
        warm_up: Duration,
    ) -> Result<Timing, Error> {
        self.time_rows(plan, sets, runs, 1, warm_up)
    }

    /// As [`Wgsl::time_in_turn`], but of executions in a row: a run records `row` of them into one
    /// compute pass and its time is divided by as many. What a dispatch takes to start and to drain
    /// then lies between executions, as in a program with many products, and as between the nodes of
    /// a CUDA graph; a single run has it in full.
    ///
    /// # Errors
    /// As [`Wgsl::time`].
    pub fn time_rows(
        &self,
        plan: &WgslPlan,
        sets: &[Args<'_, Self>],
        runs: usize,
        row: usize,
        warm_up: Duration,
    ) -> Result<Timing, Error> {
        let row = row.max(1);
        let device_clock = self.inner.device.features().contains(wgpu::Features::TIMESTAMP_QUERY);
        if sets.is_empty() {
            return Ok(Timing { runs: Vec::new(), device_clock });
        }
        let start = Instant::now();
        let mut queued = 1;
        loop {
            let round = Instant::now();
            for args in sets.iter().cycle().take(queued) {
                self.execute(plan, args)?;
            }
            self.inner.wait()?;
            if start.elapsed() >= warm_up {
                break;
            }
            // Rounds of about 20 ms keep the device busy and the queue short.
            if round.elapsed() < WARM_UP_ROUND && queued < 1024 {
                queued *= 2;
            }
        }
        if !device_clock {
            let mut in_turn = sets.iter().cycle();
            let mut next = || self.wall_clock(plan, in_turn.by_ref().take(row));
            let runs = (0..runs).map(|_| next()).collect::<Result<_, Error>>()?;
            return Ok(Timing { runs, device_clock });
        }
        let prepared =
            sets.iter().map(|args| self.prepare(plan, args)).collect::<Result<Vec<_>, Error>>()?;
        let chunks: Vec<_> = prepared.iter().map(|set| set.chunks.as_slice()).collect();
        let mut times = vec![Duration::ZERO; runs];
        for passes in passes(&chunks, runs, row).chunks(MOST_QUERIES / 2) {
            for (pass, time) in passes.iter().zip(self.timed(plan, passes)?) {
                times[pass.run] += time;
            }
        }
        times.iter_mut().for_each(|time| *time = time.div_f64(row as f64));
        Ok(Timing { runs: times, device_clock })
    }

    /// Time of each of the executions, submitted one after the other.
    fn wall_clock<'s, 't: 's>(
        &self,
        plan: &WgslPlan,
        row: impl Iterator<Item = &'s Args<'t, Self>>,
    ) -> Result<Duration, Error> {
        let start = Instant::now();
        let mut executions = 0;
        for args in row {
            self.execute(plan, args)?;
            executions += 1;
        }
        self.inner.wait()?;
        Ok(start.elapsed() / executions.max(1))
    }

    /// Times of passes between timestamps, each its own submission, and none waited for before the last.
    fn timed(
        &self,
        plan: &WgslPlan,
        passes: &[TimedPass<'_, Vec<Dispatch>>],
    ) -> Result<Vec<Duration>, Error> {
        let inner = &self.inner;
        let count = 2 * passes.len() as u32;
        let bytes = u64::from(count) * 8;
        let resolved = inner.scoped("timing", bytes, || {
            let queries = inner.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("lapidary timing"),
                ty: wgpu::QueryType::Timestamp,
                count,
            });
            let resolved = inner.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("lapidary timing"),
                size: bytes,
                usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            });
            for (index, timed) in passes.iter().enumerate() {
                let mut encoder = inner.device.create_command_encoder(&Default::default());
                {
                    let first = 2 * index as u32;
                    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                        label: Some(&plan.decision.summary.kernel),
                        timestamp_writes: Some(wgpu::ComputePassTimestampWrites {
                            query_set: &queries,
                            beginning_of_pass_write_index: Some(first),
                            end_of_pass_write_index: Some(first + 1),
                        }),
                    });
                    let dispatches = timed.chunks.iter().copied().flatten();
                    dispatches.for_each(|dispatch| dispatch.encode(&mut pass));
                }
                inner.queue.submit([encoder.finish()]);
            }
            let mut encoder = inner.device.create_command_encoder(&Default::default());
            encoder.resolve_query_set(&queries, 0..count, &resolved, 0);
            inner.queue.submit([encoder.finish()]);
            resolved
        })?;
        let bytes = pollster::block_on(self.read_bytes(&resolved, 0, bytes as usize))?;
        let ticks: Vec<u64> = bytemuck::pod_collect_to_vec(&bytes);
        let period = f64::from(inner.queue.get_timestamp_period());
        ticks
            .chunks(2)
            .map(|pair| {
                let (begin, end) = (pair[0], pair[1]);
                let ticks = end.checked_sub(begin).ok_or_else(|| Error::Device {
                    device: inner.name.clone(),
                    operation: "timing",
                    message: format!("the timestamp at the end, {end}, is before {begin}"),
                })?;
                Ok(Duration::from_secs_f64(ticks as f64 * period * 1e-9))
            })
            .collect()
    }
}

/// What is recorded between two timestamps.
#[derive(Debug, PartialEq, Eq)]
struct TimedPass<'s, C> {
    /// The run whose time it is part of.
    run: usize,
    chunks: Vec<&'s C>,
}

/// The passes of `runs` runs of `row` executions each, on sets of operands in turn, given by their
/// chunks: one pass a run, or of a single execution one a chunk. Sets may differ in how many chunks
/// they have: a packed B has a plan of its own.
fn passes<'s, C>(sets: &[&'s [C]], runs: usize, row: usize) -> Vec<TimedPass<'s, C>> {
    let mut in_turn = sets.iter().cycle();
    let mut passes = Vec::new();
    for run in 0..runs {
        let chunks: Vec<&C> = in_turn.by_ref().take(row).copied().flatten().collect();
        if row == 1 {
            passes.extend(chunks.into_iter().map(|chunk| TimedPass { run, chunks: vec![chunk] }));
        } else if !chunks.is_empty() {
            passes.push(TimedPass { run, chunks });
        }
    }
    passes
}

impl Dispatch {
    pub(crate) fn encode(&self, pass: &mut wgpu::ComputePass<'_>) {
        let [x, y, z] = self.workgroups;
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.bindings, &[]);
        pass.dispatch_workgroups(x, y, z);
    }
}

impl Backend for Wgsl {
    type Tensor = WgslTensor;
    type Plan = WgslPlan;
    type PackedB = WgslPackedB;

    fn info(&self) -> DeviceInfo {
        self.describe()
    }

    fn alloc(&self, element: ElementType, len: usize) -> Result<WgslTensor, Error> {
        self.allocate(element, len)
    }

    fn upload(&self, tensor: &WgslTensor, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.write(tensor, offset, bytes)
    }

    async fn download(&self, tensor: &WgslTensor) -> Result<Vec<u8>, Error> {
        self.read(tensor).await
    }

    fn plan(&self, problem: &Problem, options: &PlanOptions) -> Result<WgslPlan, Error> {
        self.make_plan(problem, options)
    }

    fn summary<'p>(&self, plan: &'p WgslPlan) -> &'p PlanSummary {
        &plan.decision.summary
    }

    fn execute(&self, plan: &WgslPlan, args: &Args<'_, Self>) -> Result<(), Error> {
        self.run_plan(plan, args, &mut |_, _| Ok(()))
    }

    fn pack_b(
        &self,
        plan: &WgslPlan,
        b: TensorSlice<'_, WgslTensor>,
    ) -> Result<WgslPackedB, Error> {
        self.make_packed_b(plan, b)
    }

    async fn sync(&self) -> Result<(), Error> {
        self.idle().await
    }

    async fn run_host(
        &self,
        problem: &Problem,
        options: &PlanOptions,
        operands: &Operands<'_>,
        mut c: AnyMatrixMut<'_>,
        progress: &dyn Fn(Progress),
    ) -> Result<PlanSummary, Error> {
        self.run_on_host(problem, options, operands, &mut c, progress).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks as letters; a run's passes are separated by commas.
    fn passes_of(sets: &[&str], runs: usize, row: usize) -> Vec<String> {
        let letters: Vec<Vec<char>> = sets.iter().map(|set| set.chars().collect()).collect();
        let sets: Vec<&[char]> = letters.iter().map(Vec::as_slice).collect();
        let mut texts = vec![Vec::new(); runs];
        for pass in passes(&sets, runs, row) {
            texts[pass.run].push(pass.chunks.into_iter().collect::<String>());
        }
        texts.into_iter().map(|passes| passes.join(",")).collect()
    }

    #[test]
    fn a_run_is_timed_over_its_own_chunks_alone() {
        assert_eq!(passes_of(&["ab"], 2, 1), ["a,b", "a,b"]);
        // Sets of two chunks, of one, of none.
        assert_eq!(passes_of(&["ab", "x", ""], 4, 1), ["a,b", "x", "", "a,b"]);
        assert_eq!(passes_of(&["ab", "x"], 2, 3), ["abxab", "xabx"]);
        assert_eq!(passes_of(&["", ""], 2, 2), ["", ""]);
        assert_eq!(passes_of(&["ab"], 0, 1), [""; 0]);
    }
}
