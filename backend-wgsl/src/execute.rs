//! Running a plan: into the caller's encoder, or submitted, or timed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lapidary_core::{AnyMatrixMut, AnyMatrixRef, AnyVectorRef, Placement};
use lapidary_core::{
    Args, Backend, DeviceInfo, ElementType, Error, Operands, PlanOptions, PlanSummary, Problem,
    Progress, TensorSlice,
};

use crate::device::Wgsl;
use crate::pack::WgslPackedB;
use crate::plan::{Dispatch, Prepared, WgslPlan};
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
    /// Several products may go into one encoder, and one may read what another wrote.
    ///
    /// # Errors
    /// As [`Backend::execute`].
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
    pub(crate) fn submit(&self, dispatches: &[Dispatch]) -> Result<(), Error> {
        let inner = &self.inner;
        inner.scoped("submitting", 0, || {
            let mut encoder = inner.device.create_command_encoder(&Default::default());
            {
                let mut pass = encoder.begin_compute_pass(&Default::default());
                dispatches.iter().for_each(|dispatch| dispatch.encode(&mut pass));
            }
            inner.queue.submit([encoder.finish()]);
        })
    }

    fn run_plan(
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
            let in_turn = sets.iter().cycle().take(runs);
            let runs =
                in_turn.map(|args| self.wall_clock(plan, args)).collect::<Result<_, Error>>()?;
            return Ok(Timing { runs, device_clock });
        }
        let prepared =
            sets.iter().map(|args| self.prepare(plan, args)).collect::<Result<Vec<_>, Error>>()?;
        let chunks = prepared.first().map_or(1, |set| set.chunks.len()).max(1);
        let together = (MOST_QUERIES / (2 * chunks)).max(1);
        let mut times = Vec::with_capacity(runs);
        while times.len() < runs {
            let next = together.min(runs - times.len());
            times.extend(self.timed(plan, &prepared, next)?);
        }
        Ok(Timing { runs: times, device_clock })
    }

    fn wall_clock(&self, plan: &WgslPlan, args: &Args<'_, Self>) -> Result<Duration, Error> {
        let start = Instant::now();
        self.execute(plan, args)?;
        self.inner.wait()?;
        Ok(start.elapsed())
    }

    /// Runs between timestamps, each chunk its own submission, and none waited for before the last.
    fn timed(
        &self,
        plan: &WgslPlan,
        sets: &[Arc<Prepared>],
        runs: usize,
    ) -> Result<Vec<Duration>, Error> {
        let inner = &self.inner;
        // A plan has as many chunks on any operands.
        let chunks = sets.first().map_or(0, |set| set.chunks.len());
        let count = (2 * chunks * runs) as u32;
        if count == 0 {
            return Ok(vec![Duration::ZERO; runs]);
        }
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
            let in_turn = sets.iter().cycle().take(runs);
            for (index, chunk) in in_turn.flat_map(|set| &set.chunks).enumerate() {
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
                    chunk.iter().for_each(|dispatch| dispatch.encode(&mut pass));
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
            .chunks(2 * chunks)
            .map(|run| {
                let mut total = 0.0;
                for pair in run.chunks(2) {
                    let (begin, end) = (pair[0], pair[1]);
                    let ticks = end.checked_sub(begin).ok_or_else(|| Error::Device {
                        device: inner.name.clone(),
                        operation: "timing",
                        message: format!("the timestamp at the end, {end}, is before {begin}"),
                    })?;
                    total += ticks as f64 * period;
                }
                Ok(Duration::from_secs_f64(total * 1e-9))
            })
            .collect()
    }
}

impl Dispatch {
    fn encode(&self, pass: &mut wgpu::ComputePass<'_>) {
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
        let plan = self.make_plan(problem, options)?;
        let summary = plan.decision.summary.clone();
        if problem.is_empty() {
            return Ok(summary);
        }
        // A and B are only uploaded where they are read; a tensor of nothing stands in elsewhere.
        let reads = problem.reads_factors();
        let (a, a_offset) = self.upload_view(operands.a, reads)?;
        let (b, b_offset) = self.upload_view(operands.b, reads)?;
        let (c_tensor, c_offset) = self.upload_view(c.as_ref(), true)?;
        let bias = self.upload_vector(operands.bias)?;
        let [row_scale, col_scale, group_scales] = if reads {
            [
                self.upload_vector(operands.row_scale)?,
                self.upload_vector(operands.col_scale)?,
                self.upload_vector(operands.b_group_scales)?,
            ]
        } else {
            [None, None, None]
        };
        let mut args = Args::new(
            TensorSlice::new(&a, a_offset),
            TensorSlice::new(&b, b_offset),
            TensorSlice::new(&c_tensor, c_offset),
        );
        if let Some(bias) = &bias {
            args = args.bias(bias);
        }
        args.row_scale = row_scale.as_ref().map(TensorSlice::from);
        args.col_scale = col_scale.as_ref().map(TensorSlice::from);
        args.b_group_scales = group_scales.as_ref().map(TensorSlice::from);
        self.run_plan(&plan, &args, &mut |done, total| {
            if total > 1 {
                self.inner.wait()?;
            }
            progress(Progress { done: done as u64, total: total as u64 });
            Ok(())
        })?;
        let result = self.read(&c_tensor).await?;
        let place = Placement { offset: c_offset, ..c.placement() };
        let view = AnyMatrixRef::new(&result, c.element(), place)?;
        c.copy_from(view);
        Ok(summary)
    }
}

impl Wgsl {
    fn upload_vector(&self, vector: Option<AnyVectorRef<'_>>) -> Result<Option<WgslTensor>, Error> {
        let Some(vector) = vector else {
            return Ok(None);
        };
        let tensor = self.allocate(vector.element(), vector.len())?;
        let bytes = vector.element().bytes_for(vector.len());
        self.write(&tensor, 0, &vector.bytes()[..bytes])?;
        Ok(Some(tensor))
    }

    /// Uploads what a host view spans; the offset of its first element in the new tensor.
    fn upload_view(
        &self,
        view: AnyMatrixRef<'_>,
        wanted: bool,
    ) -> Result<(WgslTensor, usize), Error> {
        let place = view.placement();
        let span = place.span().filter(|_| wanted).unwrap_or(0..0);
        let element = view.element();
        let tensor = self.allocate(element, span.len())?;
        // Lines of 4-bit elements start at whole bytes.
        let bytes = element.bytes_for(span.start)..element.bytes_for(span.end);
        self.write(&tensor, 0, &view.bytes()[bytes])?;
        Ok((tensor, place.offset.saturating_sub(span.start)))
    }
}
