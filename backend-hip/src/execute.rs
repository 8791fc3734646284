//! Running a plan.

use std::time::{Duration, Instant};

use lapidary_core::{
    AnyMatrixMut, AnyMatrixRef, AnyVectorRef, Args, BOperand, Backend, DeviceInfo, ElementType,
    Error, Operands, Placement, PlanOptions, PlanSummary, Problem, Progress, TensorSlice,
};

use crate::bind::{self, Bound, Place};
use crate::decide::{Asked, MATRICES_A_LAUNCH, Product, StoreWay};
use crate::device::{Hip, Kernel};
use crate::pack::HipPackedB;
use crate::passes::StoreConfig;
use crate::plan::HipPlan;
use crate::preshuffle::{Launch, PackArgs, PackedLayout};
use crate::runtime::{Event, KernelLaunch};
use crate::tensor::{HipTensor, Memory};

impl Hip {
    /// Enqueues a launch of workgroups along x.
    pub(crate) fn launch(&self, kernel: &Kernel, launch: Launch, args: &[u8]) -> Result<(), Error> {
        self.launch_shaped(kernel, launch.grid, [launch.threads, 1, 1], args)
    }

    fn launch_shaped(
        &self,
        kernel: &Kernel,
        grid: [u32; 3],
        threads: [u32; 3],
        args: &[u8],
    ) -> Result<(), Error> {
        let launch = KernelLaunch { grid, threads, dynamic_lds: 0, args };
        self.inner
            .runtime
            .launch(kernel.function, &launch, self.stream)
            .map_err(|error| self.inner.error(error))
    }

    /// Refuses a tensor of another device.
    pub(crate) fn check_tensor(&self, tensor: &HipTensor) -> Result<(), Error> {
        if tensor.is_on(self) {
            return Ok(());
        }
        Err(Error::Device {
            device: self.inner.name.clone(),
            operation: "using a tensor",
            message: "it is in the memory of another device".into(),
        })
    }

    /// Enqueues the pass that packs B.
    pub(crate) fn launch_pack_b(
        &self,
        plan: &HipPlan,
        layout: &PackedLayout,
        from: u64,
        to: u64,
    ) -> Result<(), Error> {
        let Some(kernel) = &plan.kernels.pack_b else { return Ok(()) };
        let sizes = PackArgs::sizes(layout).map_err(|_| unplanned(plan))?;
        let strides = plan.problem.b_layout;
        let matrix = layout.matrix_bytes().unwrap_or(0) as u64;
        for first in (0..layout.batch).step_by(MATRICES_A_LAUNCH) {
            let skipped = bind::bytes(layout.element, strides.batch_stride, first);
            let args = PackArgs {
                from: from.wrapping_add_signed(skipped),
                to: to + first as u64 * matrix,
                k_stride: strides.row_stride as i64,
                n_stride: strides.col_stride as i64,
                batch_stride: strides.batch_stride as i64,
                ..sizes
            };
            let matrices = (layout.batch - first).min(MATRICES_A_LAUNCH);
            let launch = args.launch(matrices).map_err(|_| unplanned(plan))?;
            self.launch(kernel, launch, bytemuck::bytes_of(&args))?;
        }
        Ok(())
    }

    /// Enqueues everything a plan consists of.
    fn run(&self, plan: &HipPlan, args: &Args<'_, Self>) -> Result<(), Error> {
        plan.check_owner(self)?;
        let problem = &plan.problem;
        args.check(problem)?;
        let bound = self.bind(plan, args)?;
        if problem.is_empty() {
            return Ok(());
        }
        let _span = tracing::info_span!(
            "dispatch",
            m = problem.m,
            n = problem.n,
            k = problem.k,
            kernel = plan.decision.summary.kernel,
            device = self.inner.name,
        )
        .entered();
        match &plan.decision.product {
            Product::None => {}
            Product::Preshuffle(product) => {
                let a = self.pass_a(plan, &bound)?;
                // What an A or a C elsewhere than planned needs is compiled before anything runs.
                let config = product.at_addresses(a.address, bound.c)?;
                let planned = config == product.config;
                let kernel = match &plan.kernels.product {
                    Some(kernel) if planned => kernel.clone(),
                    _ => self.preshuffle_kernel(&config)?,
                };
                let reduce = match (&plan.kernels.reduce, &plan.decision.store) {
                    (Some(kernel), StoreWay::Reduce) if planned => Some(kernel.clone()),
                    (_, StoreWay::Reduce) => Some(self.reduce_kernel(&config)?),
                    _ => None,
                };
                if let Some((kernel, args)) = bind::pack_a(plan, &bound) {
                    let launch = args.launch().map_err(|_| unplanned(plan))?;
                    self.launch(kernel, launch, bytemuck::bytes_of(&args))?;
                }
                let b = self.pass_b(plan, &bound)?;
                if let Some((kernel, args)) = bind::pack_scales(plan, &bound) {
                    let launch = args.launch().map_err(|_| unplanned(plan))?;
                    self.launch(kernel, launch, bytemuck::bytes_of(&args))?;
                }
                let launches = bind::preshuffle(plan, &config, product.splits, a, b, &bound)
                    .ok_or_else(|| unplanned(plan))?;
                for (args, batch) in &launches {
                    let launch = args.launch(*batch).map_err(|_| unplanned(plan))?;
                    self.launch(&kernel, launch, bytemuck::bytes_of(args))?;
                }
                for (args, batch) in launches.iter().filter(|_| reduce.is_some()) {
                    let launch = args.reduce_launch(*batch).map_err(|_| unplanned(plan))?;
                    if let Some(kernel) = &reduce {
                        self.launch(kernel, launch, bytemuck::bytes_of(args))?;
                    }
                }
            }
            Product::Step(config) => {
                let Some(kernel) = &plan.kernels.product else { return Err(unplanned(plan)) };
                let launches = bind::step(plan, &bound).ok_or_else(|| unplanned(plan))?;
                for params in &launches {
                    let launch =
                        params.launch(config).map_err(|error| Error::KernelUnsuitable {
                            kernel: config.to_string(),
                            reason: error.to_string(),
                        })?;
                    let [x, y] = launch.threads;
                    self.launch_shaped(kernel, launch.grid, [x, y, 1], bytemuck::bytes_of(params))?;
                }
            }
        }
        if let (StoreWay::Pass(config), Some(kernel)) = (&plan.decision.store, &plan.kernels.store)
        {
            self.store(plan, config, kernel, &bound)?;
        }
        Ok(())
    }

    /// Where the kernel finds A: as it is, or in the plan's scratch memory.
    fn pass_a(&self, plan: &HipPlan, bound: &Bound) -> Result<Place, Error> {
        bind::a_place(plan, bound).ok_or_else(|| unplanned(plan))
    }

    /// Packs B unless it came packed; its address.
    fn pass_b(&self, plan: &HipPlan, bound: &Bound) -> Result<u64, Error> {
        let (Some(layout), None) = (plan.decision.b, bound.packed) else {
            return Ok(bound.b);
        };
        let memory = match plan.scratch.b.get() {
            Some(memory) => memory,
            None => {
                let bytes = layout.matrix_bytes().unwrap_or(0) as u64 * layout.batch as u64;
                let memory = Memory::allocate(self, bytes, "packed B")?;
                plan.scratch.b.get_or_init(|| memory)
            }
        };
        self.launch_pack_b(plan, &layout, bound.b, memory.address)?;
        Ok(memory.address)
    }

    fn store(
        &self,
        plan: &HipPlan,
        config: &StoreConfig,
        kernel: &Kernel,
        bound: &Bound,
    ) -> Result<(), Error> {
        let args = bind::store(plan, config, bound).ok_or_else(|| unplanned(plan))?;
        let launch = args.launch(config).map_err(|_| unplanned(plan))?;
        self.launch(kernel, launch, bytemuck::bytes_of(&args))
    }

    /// Runs a plan `runs` times and returns how long each took on the device, after a warm-up of at
    /// least `warm_up`; `None` where there is no device clock, as on the emulator.
    ///
    /// # Errors
    /// As [`Backend::execute`] and [`Backend::sync`].
    pub fn time(
        &self,
        plan: &HipPlan,
        args: &Args<'_, Self>,
        runs: usize,
        warm_up: Duration,
    ) -> Result<Option<Vec<Duration>>, Error> {
        let start = Instant::now();
        loop {
            self.run(plan, args)?;
            self.wait()?;
            if start.elapsed() >= warm_up {
                break;
            }
        }
        let mut times = Vec::with_capacity(runs);
        for _ in 0..runs {
            let Some(begin) = self.record()? else { return Ok(None) };
            self.run(plan, args)?;
            let Some(end) = self.record()? else { return Ok(None) };
            let seconds = self
                .inner
                .runtime
                .elapsed(begin.event, end.event)
                .map_err(|error| self.inner.error(error))?;
            times.push(Duration::from_secs_f64(seconds.max(0.0)));
        }
        Ok(Some(times))
    }

    fn record(&self) -> Result<Option<Recorded<'_>>, Error> {
        let event = self.inner.runtime.record(self.stream);
        let event = event.map_err(|error| self.inner.error(error))?;
        Ok(event.map(|event| Recorded { hip: self, event }))
    }

    fn wait(&self) -> Result<(), Error> {
        self.inner.runtime.synchronize(self.stream).map_err(|error| self.inner.error(error))
    }

    /// A new tensor with what a host view spans, and the index of its first element there. The
    /// elements are only copied where they are `wanted`.
    fn upload_view(
        &self,
        view: AnyMatrixRef<'_>,
        wanted: bool,
        read: bool,
    ) -> Result<(HipTensor, usize), Error> {
        let place = view.placement();
        let element = view.element();
        let span = place.span().filter(|_| wanted).unwrap_or(0..0);
        let tensor = HipTensor::allocate(self, element, span.len())?;
        if read {
            let bytes = element.bytes_for(span.start)..element.bytes_for(span.end);
            tensor.write(self, 0, &view.bytes()[bytes])?;
        }
        Ok((tensor, place.offset.saturating_sub(span.start)))
    }

    fn upload_vector(&self, vector: Option<AnyVectorRef<'_>>) -> Result<Option<HipTensor>, Error> {
        let Some(vector) = vector else { return Ok(None) };
        let tensor = HipTensor::allocate(self, vector.element(), vector.len())?;
        tensor.write(self, 0, &vector.bytes()[..vector.element().bytes_for(vector.len())])?;
        Ok(Some(tensor))
    }
}

/// An event that is given back.
struct Recorded<'a> {
    hip: &'a Hip,
    event: Event,
}

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        self.hip.inner.runtime.release(self.event);
    }
}

/// A size that planning let pass and execution does not.
fn unplanned(plan: &HipPlan) -> Error {
    Error::KernelUnsuitable {
        kernel: plan.decision.summary.kernel.clone(),
        reason: "a launch of it does not fit the device's limits".into(),
    }
}

impl Backend for Hip {
    type Tensor = HipTensor;
    type Plan = HipPlan;
    type PackedB = HipPackedB;

    fn info(&self) -> DeviceInfo {
        self.describe()
    }

    fn alloc(&self, element: ElementType, len: usize) -> Result<HipTensor, Error> {
        HipTensor::allocate(self, element, len)
    }

    fn upload(&self, tensor: &HipTensor, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.check_tensor(tensor)?;
        tensor.write(self, offset, bytes)
    }

    async fn download(&self, tensor: &HipTensor) -> Result<Vec<u8>, Error> {
        self.check_tensor(tensor)?;
        tensor.read(self)
    }

    fn plan(&self, problem: &Problem, options: &PlanOptions) -> Result<HipPlan, Error> {
        self.prepare(problem, Asked::Core(options.kernel))
    }

    fn summary<'p>(&self, plan: &'p HipPlan) -> &'p PlanSummary {
        plan.summary()
    }

    fn execute(&self, plan: &HipPlan, args: &Args<'_, Self>) -> Result<(), Error> {
        self.run(plan, args)
    }

    fn pack_b(&self, plan: &HipPlan, b: TensorSlice<'_, HipTensor>) -> Result<HipPackedB, Error> {
        self.make_packed_b(plan, b)
    }

    async fn sync(&self) -> Result<(), Error> {
        self.wait()
    }

    async fn run_host(
        &self,
        problem: &Problem,
        options: &PlanOptions,
        operands: &Operands<'_>,
        mut c: AnyMatrixMut<'_>,
        progress: &dyn Fn(Progress),
    ) -> Result<PlanSummary, Error> {
        let plan = self.plan(problem, options)?;
        let summary = plan.decision.summary.clone();
        if problem.is_empty() {
            return Ok(summary);
        }
        // A, B and their scales are only uploaded where they are read.
        let reads = problem.reads_factors();
        let (a, a_offset) = self.upload_view(operands.a, reads, reads)?;
        let (b, b_offset) = self.upload_view(operands.b, reads, reads)?;
        let (c_tensor, c_offset) = self.upload_view(c.as_ref(), true, problem.reads_c())?;
        let bias = self.upload_vector(operands.bias)?;
        let scales = [
            operands.row_scale,
            operands.col_scale,
            operands.a_block_scales,
            operands.b_block_scales,
        ];
        let [row, col, a_blocks, b_blocks] =
            scales.map(|scales| self.upload_vector(scales.filter(|_| reads)));
        let (row, col, a_blocks, b_blocks) = (row?, col?, a_blocks?, b_blocks?);
        let mut args = Args::<Self>::new(
            TensorSlice::new(&a, a_offset),
            TensorSlice::new(&b, b_offset),
            TensorSlice::new(&c_tensor, c_offset),
        );
        args.bias = bias.as_ref().map(TensorSlice::from);
        args.row_scale = row.as_ref().map(TensorSlice::from);
        args.col_scale = col.as_ref().map(TensorSlice::from);
        args.a_block_scales = a_blocks.as_ref().map(TensorSlice::from);
        args.b_block_scales = b_blocks.as_ref().map(TensorSlice::from);
        self.run(&plan, &args)?;
        let result = c_tensor.read(self)?;
        let place = Placement { offset: c_offset, ..c.placement() };
        c.copy_from(AnyMatrixRef::new(&result, c.element(), place)?);
        progress(Progress { done: 1, total: 1 });
        Ok(summary)
    }
}

impl Hip {
    /// Checks that all tensors are here, and where they lie.
    fn bind(&self, plan: &HipPlan, args: &Args<'_, Self>) -> Result<Bound, Error> {
        let problem = &plan.problem;
        let reads = problem.reads_factors() && !problem.is_empty();
        let address = |slice: &TensorSlice<'_, HipTensor>| -> Result<u64, Error> {
            self.check_tensor(slice.tensor)?;
            Ok(slice.tensor.address_of(slice.offset))
        };
        let optional = |slice: &Option<TensorSlice<'_, HipTensor>>, used: bool| match slice {
            Some(slice) if used => address(slice),
            _ => Ok(0),
        };
        let mut bound = Bound {
            c: address(&args.c)?,
            bias: optional(&args.bias, problem.bias)?,
            ..Bound::default()
        };
        if !reads {
            return Ok(bound);
        }
        bound.a = address(&args.a)?;
        match &args.b {
            BOperand::Plain(b) => bound.b = address(b)?,
            BOperand::Packed(packed) => {
                let place = packed.place(self, plan)?;
                bound.b = place.address;
                bound.packed = Some(place);
            }
            _ => return Err(unplanned(plan)),
        }
        bound.row_scale = optional(&args.row_scale, problem.row_scale)?;
        bound.col_scale = optional(&args.col_scale, problem.col_scale)?;
        bound.a_block_scales = optional(&args.a_block_scales, problem.block_scales)?;
        bound.b_block_scales = optional(&args.b_block_scales, problem.block_scales)?;
        bound.scratch_a = plan.scratch.a.as_deref().map_or(0, |memory| memory.address);
        bound.scratch_scales = plan.scratch.scales.as_deref().map_or(0, |memory| memory.address);
        bound.sums = plan.scratch.sums.as_deref().map_or(0, |memory| memory.address);
        Ok(bound)
    }
}
