//! Products on a WGSL device: operands, checks, and the times of a kernel.

use std::time::{Duration, Instant};

use lapidary_core::random::Random;
use lapidary_core::{
    AnyVectorRef, Args, Backend, ElementType, Error, Matrix, Operand, Operands, PlanOptions,
    Problem, Shape as Extents, TensorSlice, oracle,
};
use lapidary_wgsl::{Wgsl, WgslPackedB, WgslPlan, WgslTensor};

use crate::cpu::ContestError;
use crate::operands::matrix;
use crate::shape::Shape;

/// Bytes that the operands of all sets exceed together; the largest caches of today's GPUs hold 256 MB.
const CACHE: f64 = 256e6;

/// Most sets of operands. Plans remember the bindings of this many.
const MOST_SETS: usize = 8;

/// Elements of C that are compared with the oracle.
const SAMPLE: usize = 64;

/// Operands of one product on a device, several sets of them.
#[derive(Debug)]
pub struct DeviceArena<'d> {
    device: &'d Wgsl,
    problem: Problem,
    host: [Matrix; 2],
    sets: Vec<[WgslTensor; 3]>,
    scales: Option<Scales>,
}

/// Scales of weights, on the host and on the device: of groups along K, or of columns.
#[derive(Debug)]
struct Scales {
    host: Matrix,
    tensor: WgslTensor,
    of_groups: bool,
}

impl<'d> DeviceArena<'d> {
    /// Random operands, uniform from −1 to 1 (i8: from −127 to 127, i4: from −7 to 7).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or [`Error::LimitExceeded`] where they do not fit.
    pub fn new(device: &'d Wgsl, shape: &Shape) -> Result<Self, Error> {
        let mut problem = Problem::new(shape.m, shape.n, shape.k)
            .batch(shape.batch)
            .elements(shape.input, shape.output);
        if shape.weights != shape.input {
            problem = problem.factors(shape.input, shape.weights).b_group(shape.group);
            problem.col_scale = shape.group.is_none();
        }
        let mut random = Random::new(5);
        let a = matrix(problem.a, problem.a_shape(), &mut random)?;
        let b = matrix(problem.b, problem.b_shape(), &mut random)?;
        let c_len = problem.c_shape().len().unwrap_or(usize::MAX);
        let mut sets = Vec::new();
        for _ in 0..shape.sets(CACHE, MOST_SETS) {
            let set = [put(device, &a)?, put(device, &b)?, device.alloc(problem.c, c_len)?];
            sets.push(set);
        }
        let scales = if problem.col_scale || problem.b_group.is_some() {
            let of_groups = problem.b_group.is_some();
            let operand = if of_groups { Operand::GroupScalesB } else { Operand::ColScale };
            let count = Extents::new(1, problem.scale_count(operand));
            let host = matrix(ElementType::F32, count, &mut random)?;
            Some(Scales { tensor: put(device, &host)?, host, of_groups })
        } else {
            None
        };
        Ok(Self { device, problem, host: [a, b], sets, scales })
    }

    /// Plans, runs once, and compares a sample of C with the oracle.
    ///
    /// # Errors
    /// [`ContestError`] where the kernel does not suit or its result is wrong.
    pub fn plan(&self, options: &PlanOptions) -> Result<WgslPlan, ContestError> {
        let plan = self.device.plan(&self.problem, options)?;
        let Some([a, b, c]) = self.sets.first() else {
            return Ok(plan);
        };
        self.device.execute(&plan, &self.scaled(Args::new(a, b, c)))?;
        self.check(&plan, c)?;
        Ok(plan)
    }

    fn check(&self, plan: &WgslPlan, c: &WgslTensor) -> Result<(), ContestError> {
        let problem = &self.problem;
        let bytes = pollster::block_on(self.device.download(c))?;
        let place = lapidary_core::Placement {
            offset: 0,
            shape: problem.c_shape(),
            layout: problem.c_layout,
        };
        let found = lapidary_core::AnyMatrixRef::new(&bytes, problem.c, place)?;
        let summary = self.device.summary(plan);
        let positions = oracle::sample_positions(problem, summary.block_tile, SAMPLE, 1);
        let mut operands = Operands::new(self.host[0].as_ref(), self.host[1].as_ref());
        if let Some(scales) = &self.scales {
            let view = AnyVectorRef::new(scales.host.bytes(), scales.host.element());
            if scales.of_groups {
                operands.b_group_scales = Some(view);
            } else {
                operands.col_scale = Some(view);
            }
        }
        let mut reference = oracle::reference_at(problem, &operands, &positions)?;
        if summary.f16_sums {
            reference = reference.of_random_f16_sums();
        }
        let comparison = reference.compare(&found);
        let wrong = comparison.mismatches + comparison.unjudged;
        if wrong == 0 {
            return Ok(());
        }
        Err(ContestError::Wrong { wrong, checked: comparison.checked })
    }

    fn args(&self) -> Vec<Args<'_, Wgsl>> {
        self.sets.iter().map(|[a, b, c]| self.scaled(Args::new(a, b, c))).collect()
    }

    /// Arguments with the scales of the weights, if they have any.
    fn scaled<'s>(&'s self, mut args: Args<'s, Wgsl>) -> Args<'s, Wgsl> {
        if let Some(scales) = &self.scales {
            let slice = Some(TensorSlice::from(&scales.tensor));
            if scales.of_groups {
                args.b_group_scales = slice;
            } else {
                args.col_scale = slice;
            }
        }
        args
    }

    /// Times of `runs` runs, on all sets of operands in turn, after at least `warm_up`; and whether
    /// they are the device's own.
    ///
    /// # Errors
    /// What executing gives.
    pub fn time(
        &self,
        plan: &WgslPlan,
        runs: usize,
        warm_up: Duration,
    ) -> Result<(Vec<f64>, bool), Error> {
        let timing = self.device.time_in_turn(plan, &self.args(), runs, warm_up)?;
        Ok((timing.runs.iter().map(Duration::as_secs_f64).collect(), timing.device_clock))
    }

    /// Seconds of a product in each of `rounds` rounds of `row` products, recorded one after the other
    /// into one pass, on all sets of operands in turn.
    ///
    /// # Errors
    /// What executing gives.
    pub fn time_in_a_row(
        &self,
        plan: &WgslPlan,
        rounds: usize,
        row: usize,
    ) -> Result<Vec<f64>, Error> {
        self.rounds(plan, &self.args(), rounds, row)
    }

    /// As [`DeviceArena::time_in_a_row`], but each product of a row writes to an output of its own, so
    /// that none waits for another.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or what executing gives.
    pub fn time_outputs_apart(
        &self,
        plan: &WgslPlan,
        rounds: usize,
        row: usize,
    ) -> Result<Vec<f64>, Error> {
        let len = self.problem.c_shape().len().unwrap_or(usize::MAX);
        let outputs = (0..row)
            .map(|_| self.device.alloc(self.problem.c, len))
            .collect::<Result<Vec<_>, Error>>()?;
        let sets = outputs.iter().zip(self.sets.iter().cycle());
        let args: Vec<_> = sets.map(|(c, [a, b, _])| self.scaled(Args::new(a, b, c))).collect();
        self.rounds(plan, &args, rounds, row)
    }

    fn rounds(
        &self,
        plan: &WgslPlan,
        args: &[Args<'_, Wgsl>],
        rounds: usize,
        row: usize,
    ) -> Result<Vec<f64>, Error> {
        // The device was busy before, and is with the first round until the others have come.
        let timing = self.device.time_rows(plan, args, rounds, row, Duration::ZERO)?;
        Ok(timing.runs.iter().map(Duration::as_secs_f64).collect())
    }

    /// B of each set in the kernel's own order, and the host's time for one, waiting included.
    ///
    /// # Errors
    /// What packing gives.
    pub fn pack(&self, plan: &WgslPlan) -> Result<(Vec<WgslPackedB>, Duration), Error> {
        let start = Instant::now();
        let packed = self
            .sets
            .iter()
            .map(|[_, b, _]| self.device.pack_b(plan, b.into()))
            .collect::<Result<Vec<_>, Error>>()?;
        pollster::block_on(self.device.sync())?;
        let count = u32::try_from(self.sets.len().max(1)).unwrap_or(u32::MAX);
        Ok((packed, start.elapsed() / count))
    }

    /// As [`DeviceArena::time`], with B packed before.
    ///
    /// # Errors
    /// What executing gives.
    pub fn time_packed(
        &self,
        plan: &WgslPlan,
        packed: &[WgslPackedB],
        runs: usize,
        warm_up: Duration,
    ) -> Result<Vec<f64>, Error> {
        let timing = self.device.time_in_turn(plan, &self.packed_args(packed), runs, warm_up)?;
        Ok(timing.runs.iter().map(Duration::as_secs_f64).collect())
    }

    fn packed_args<'s>(&'s self, packed: &'s [WgslPackedB]) -> Vec<Args<'s, Wgsl>> {
        let sets = self.sets.iter().zip(packed);
        sets.map(|([a, _, c], packed)| self.scaled(Args::with_packed_b(a, packed, c))).collect()
    }

    /// As [`DeviceArena::time_in_a_row`], with B packed before.
    ///
    /// # Errors
    /// What executing gives.
    pub fn time_packed_in_a_row(
        &self,
        plan: &WgslPlan,
        packed: &[WgslPackedB],
        rounds: usize,
        row: usize,
    ) -> Result<Vec<f64>, Error> {
        self.rounds(plan, &self.packed_args(packed), rounds, row)
    }

    /// The host's time to enqueue `count` runs, without waiting for them.
    ///
    /// # Errors
    /// What executing gives.
    pub fn enqueue(&self, plan: &WgslPlan, count: u64) -> Result<Duration, Error> {
        let args = self.args();
        let mut in_turn = args.iter().cycle();
        self.host_time(count, || {
            in_turn.next().map_or(Ok(()), |args| self.device.execute(plan, args))
        })
    }

    /// The time `count` calls of `submit` take together. A device that is a program on the CPU is waited
    /// for between them: its work would slow the next call down.
    fn host_time(
        &self,
        count: u64,
        mut submit: impl FnMut() -> Result<(), Error>,
    ) -> Result<Duration, Error> {
        pollster::block_on(self.device.sync())?;
        let mut elapsed = Duration::ZERO;
        for _ in 0..count {
            let start = Instant::now();
            submit()?;
            elapsed += start.elapsed();
            if self.device.limits().software {
                pollster::block_on(self.device.sync())?;
            }
        }
        pollster::block_on(self.device.sync())?;
        Ok(elapsed)
    }

    /// The host's time for one of [`BATCH`] runs that are submitted together, `count` times.
    ///
    /// # Errors
    /// What executing gives.
    pub fn enqueue_batch(&self, plan: &WgslPlan, count: u64) -> Result<Duration, Error> {
        let args = self.args();
        let mut batch = self.device.batch();
        for (_, args) in (0..BATCH).zip(args.iter().cycle()) {
            batch.add(plan, args)?;
        }
        let elapsed = self.host_time(count, || batch.submit())?;
        Ok(elapsed / BATCH)
    }
}

/// Products that a batch submits together.
pub const BATCH: u32 = 16;

fn put(device: &Wgsl, matrix: &Matrix) -> Result<WgslTensor, Error> {
    let tensor = device.alloc(matrix.element(), matrix.shape().len().unwrap_or(usize::MAX))?;
    device.upload(&tensor, 0, matrix.bytes())?;
    Ok(tensor)
}
