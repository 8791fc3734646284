//! Products of host matrices that the device cannot hold at once.
//!
//! C is cut into tiles, and K too where that is very long ([`cut()`] decides, as plain data). Tiles of A and
//! B are copied to the device while it computes with earlier ones, and tiles of C come back meanwhile: no
//! more than two pieces are under way at a time, each with slots of its own. Sums over several pieces of K
//! are kept in the accumulator's type, and the epilogue comes last.
//!
//! Where K is whole, an element has the bits it would have in one piece with the same kernel.

mod cut;
mod slots;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use lapidary_core::{
    AnyMatrixMut, AnyMatrixRef, Args, Error, Operands, Placement, PlanOptions, PlanSummary,
    Problem, Progress, Shape, TensorSlice,
};

pub use cut::{Cut, Piece, cut};
pub(crate) use cut::{GRAIN, finishing, half, summing};

use crate::bind::Vectors;
use crate::device::Wgsl;
use crate::plan::{Prepared, WgslPlan};
use crate::tensor::WgslTensor;
use cut::{Order, PLANS_KEPT};
use slots::Slots;

/// Pieces that are submitted and not waited for.
const UNDER_WAY: usize = 2;

/// What waits for the device: a piece, and the tile of C that comes back with it.
struct Flight {
    submission: wgpu::SubmissionIndex,
    output: Option<Output>,
}

/// A tile of C on its way back.
struct Output {
    staging: wgpu::Buffer,
    mapped: Arc<Mutex<Option<Result<(), wgpu::BufferAsyncError>>>>,
    /// Where it goes in the host's C.
    place: Placement,
}

/// Everything a streamed product has on the device.
struct Stream<'d> {
    device: &'d Wgsl,
    problem: Problem,
    options: PlanOptions,
    a: Slots,
    b: Slots,
    c: Slots,
    bias: Option<WgslTensor>,
    /// Sums over the pieces of K so far, where K is cut.
    sums: Option<WgslTensor>,
    /// Plans of the last pieces, and what they are of.
    plans: VecDeque<(Problem, WgslPlan)>,
}

impl Wgsl {
    /// Multiplies host matrices in pieces that hold at most `budget` bytes of device memory.
    ///
    /// `written` becomes true as soon as C is no longer what it was.
    ///
    /// # Errors
    /// As [`cut()`], and what the device reports.
    #[allow(clippy::too_many_arguments, reason = "those of a one-shot product, and the budget")]
    pub(crate) fn stream(
        &self,
        problem: &Problem,
        options: &PlanOptions,
        operands: &Operands<'_>,
        c: &mut AnyMatrixMut<'_>,
        budget: u64,
        progress: &dyn Fn(Progress),
        written: &mut bool,
    ) -> Result<PlanSummary, Error> {
        let cut = cut(problem, &self.inner.limits, options, &self.inner.name, budget)?;
        let pieces = cut.pieces(problem);
        let mut stream = Stream::new(self, problem, options, operands, &cut)?;
        let mut summary = None;
        let mut flights = VecDeque::with_capacity(UNDER_WAY);
        let total = pieces.len() as u64;
        let mut done = 0;
        let mut land = |flight: Flight, c: &mut AnyMatrixMut<'_>| {
            *written |= flight.output.is_some();
            self.land(flight, c)?;
            done += 1;
            progress(Progress { done, total });
            Ok::<_, Error>(())
        };
        for piece in &pieces {
            if flights.len() == UNDER_WAY
                && let Some(flight) = flights.pop_front()
            {
                land(flight, c)?;
            }
            flights.push_back(stream.piece(piece, operands, c, &mut summary)?);
        }
        for flight in flights {
            land(flight, c)?;
        }
        let mut summary = summary.unwrap_or_else(|| PlanSummary::new("none", "there is no piece"));
        let Shape { batch, rows, cols } = cut.c;
        summary.notes.push(format!(
            "streamed in {} pieces of up to {batch} x {rows}x{cols}x{} (batch x MxNxK), {} bytes of device \
             memory at a time",
            pieces.len(),
            cut.k,
            cut.bytes
        ));
        Ok(summary)
    }

    /// Waits for a piece, and puts what comes back into the host's C.
    fn land(&self, flight: Flight, c: &mut AnyMatrixMut<'_>) -> Result<(), Error> {
        self.inner.wait_for(flight.submission)?;
        let Some(Output { staging, mapped, place }) = flight.output else { return Ok(()) };
        let failed = |message: String| Error::Device {
            device: self.inner.name.clone(),
            operation: "reading back",
            message,
        };
        match mapped.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(failed(error.to_string())),
            None => return Err(failed("the tile is not there after the wait".into())),
        }
        let bytes =
            staging.slice(..).get_mapped_range().map_err(|error| failed(error.to_string()))?;
        let layout = Order::ROWS.layout(place.shape, c.element().size());
        let tile = Placement { offset: 0, shape: place.shape, layout };
        let tile = AnyMatrixRef::new(&bytes, c.element(), tile)?;
        let element = c.element();
        AnyMatrixMut::from_bytes(c.bytes_mut(), element, place)?.copy_from(tile);
        Ok(())
    }
}

impl<'d> Stream<'d> {
    fn new(
        device: &'d Wgsl,
        problem: &Problem,
        options: &PlanOptions,
        operands: &Operands<'_>,
        cut: &Cut,
    ) -> Result<Self, Error> {
        let whole = problem.c_shape();
        let reads = problem.reads_factors();
        let batch = cut.c.batch < whole.batch;
        let deep = reads && cut.k < problem.k;
        let (rows, cols) = (cut.c.rows < whole.rows, cut.c.cols < whole.cols);
        let count = |changes: bool| if changes { 2 } else { 1 };
        let (a, b) = if reads {
            (Shape { cols: cut.k, ..cut.c }, Shape { rows: cut.k, ..cut.c })
        } else {
            (Shape::new(0, 0), Shape::new(0, 0))
        };
        let bias = match operands.bias {
            Some(bias) if problem.bias => {
                let tensor = device.allocate(bias.element(), bias.len())?;
                device.write(&tensor, 0, &bias.bytes()[..bias.len() * bias.element().size()])?;
                Some(tensor)
            }
            _ => None,
        };
        let sums = if deep {
            let len = cut.c.len().unwrap_or(usize::MAX);
            Some(device.allocate(problem.accumulator(), len)?)
        } else {
            None
        };
        Ok(Self {
            a: Slots::new(
                device,
                problem.a,
                Order::of(problem.a_layout),
                a,
                count(batch || deep || rows),
            )?,
            b: Slots::new(
                device,
                problem.b,
                Order::of(problem.b_layout),
                b,
                count(batch || deep || cols),
            )?,
            c: Slots::new(device, problem.c, Order::ROWS, cut.c, count(batch || rows || cols))?,
            device,
            problem: problem.clone(),
            options: options.clone(),
            bias,
            sums,
            plans: VecDeque::with_capacity(PLANS_KEPT),
        })
    }

    /// Uploads, computes and starts to read back a piece.
    fn piece(
        &mut self,
        piece: &Piece,
        operands: &Operands<'_>,
        c: &AnyMatrixMut<'_>,
        summary: &mut Option<PlanSummary>,
    ) -> Result<Flight, Error> {
        let Piece { batch, rows, cols, k } = piece;
        let shape = Shape { batch: batch.len(), rows: rows.len(), cols: cols.len() };
        let tile = cut::piece_problem(&self.problem, shape, k.len());
        let (first, last) = (k.start == 0, self.sums.is_none() || k.end == self.problem.k);
        if self.problem.reads_factors() {
            let at = [batch.start, rows.start, k.start];
            self.a.tile(self.device, operands.a, at, tile.a_shape())?;
            let at = [batch.start, k.start, cols.start];
            self.b.tile(self.device, operands.b, at, tile.b_shape())?;
        }
        if self.sums.is_some() {
            let sums = summing(&tile, !first);
            let submission = self.multiply(&sums, None, summary)?;
            if !last {
                return Ok(Flight { submission, output: None });
            }
        }
        let at = [batch.start, rows.start, cols.start];
        if self.problem.reads_c() {
            self.c.tile(self.device, c.as_ref(), at, shape)?;
        } else {
            self.c.next();
        }
        match &self.sums {
            None => self.multiply(&tile, Some(cols.start), summary)?,
            Some(sums) => self.finish(sums, shape, cols.start)?,
        };
        let whole = c.placement();
        let first = whole.offset as i128 + whole.layout.index(at[0], at[1], at[2]);
        let place = Placement { offset: first as usize, shape, layout: whole.layout };
        self.read_back(place)
    }

    /// Submits the product of the tiles, to the sums, or with the bias from column `col` on to C.
    fn multiply(
        &mut self,
        problem: &Problem,
        col: Option<usize>,
        summary: &mut Option<PlanSummary>,
    ) -> Result<wgpu::SubmissionIndex, Error> {
        let index = match self.plans.iter().position(|(planned, _)| planned == problem) {
            Some(index) => index,
            None => {
                if self.plans.len() == PLANS_KEPT {
                    self.plans.pop_front();
                }
                let plan = self.device.plan_untuned(problem, &self.options)?;
                let made = &plan.decision.summary;
                summary.get_or_insert_with(|| made.clone()).add_piece(made);
                self.plans.push_back((problem.clone(), plan));
                self.plans.len() - 1
            }
        };
        let plan = &self.plans[index].1;
        let c = match (col, &self.sums) {
            (None, Some(sums)) => sums,
            _ => self.c.current(),
        };
        let mut args = Args::new(self.a.current(), self.b.current(), c);
        if let (Some(bias), Some(col)) = (&self.bias, col) {
            args = args.bias(TensorSlice::new(bias, col));
        }
        let prepared = self.device.prepare(plan, &args)?;
        self.submit(&prepared)
    }

    /// Submits the pass from the sums to C, with the bias from column `col` on.
    fn finish(
        &self,
        sums: &WgslTensor,
        shape: Shape,
        col: usize,
    ) -> Result<wgpu::SubmissionIndex, Error> {
        let problem = cut::piece_problem(&self.problem, shape, self.problem.k);
        let inner = &self.device.inner;
        let decision = finishing(&problem, &inner.limits, &inner.name)?;
        let plan = WgslPlan::of_sums(self.device, problem, decision, sums);
        let bias = self.bias.as_ref().map(|bias| TensorSlice::new(bias, col));
        let c = TensorSlice::new(self.c.current(), 0);
        let vectors = Vectors { bias, ..Vectors::default() };
        self.submit(&self.device.bind(&plan, None, None, c, &vectors)?)
    }

    fn submit(&self, prepared: &Prepared) -> Result<wgpu::SubmissionIndex, Error> {
        let mut last = None;
        for chunk in &prepared.chunks {
            last = Some(self.device.submit(chunk)?);
        }
        last.ok_or_else(|| self.lost())
    }

    /// Starts to copy the tile of C back.
    fn read_back(&self, place: Placement) -> Result<Flight, Error> {
        let inner = &self.device.inner;
        let element = self.problem.c;
        let len = Order::ROWS.len(place.shape, element.size()) as u64;
        let bytes = (len * element.size() as u64).next_multiple_of(4);
        let mapped = Arc::new(Mutex::new(None));
        let told = Arc::clone(&mapped);
        let (submission, staging) = inner.scoped("allocating a staging buffer", bytes, || {
            let staging = inner.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("lapidary readback"),
                size: bytes,
                usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                mapped_at_creation: false,
            });
            let mut encoder = inner.device.create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(&self.c.current().buffer, 0, &staging, 0, bytes);
            let submission = inner.queue.submit([encoder.finish()]);
            staging.map_async(wgpu::MapMode::Read, .., move |result| {
                *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            });
            (submission, staging)
        })?;
        Ok(Flight { submission, output: Some(Output { staging, mapped, place }) })
    }

    /// Nothing was submitted where something should have been.
    fn lost(&self) -> Error {
        Error::Device {
            device: self.device.inner.name.clone(),
            operation: "streaming",
            message: "a piece has no dispatch".into(),
        }
    }
}
