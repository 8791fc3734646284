//! Plans whose K is cut: an operand, or a sum, is longer than one dispatch may have it.
//!
//! Pieces of K add to sums in the accumulator's type, which the plan holds, and a last pass turns those
//! into C. Where the sums of all of C exceed a binding too, or rows are so long that few of them do, C is
//! cut into blocks that are computed one after another.

use lapidary_core::{Error, PlanOptions, Problem, Shape, TensorSlice};

use crate::bind::{Source, Vectors};
use crate::decide;
use crate::device::Wgsl;
use crate::limits::DeviceLimits;
use crate::plan::{Prepared, WgslPlan};
use crate::stream::{Cut, GRAIN, Piece, finishing, half, summing};
use crate::tensor::WgslTensor;

/// A plan of more pieces would take longer to prepare than to think of something better.
const MOST_PIECES: usize = 4096;

/// The pieces of a plan whose K is cut.
#[derive(Debug)]
pub(crate) struct Deep {
    steps: Vec<Step>,
    plans: Vec<WgslPlan>,
    sums: WgslTensor,
}

/// A piece of K, and what comes after it.
#[derive(Debug)]
struct Step {
    piece: Piece,
    /// Which plan adds it to the sums.
    adds: usize,
    /// Which plan turns the sums into C, after the last piece of a block.
    finishes: Option<usize>,
}

/// The part of a problem that computes a block of C from some of K, on the operands as they lie.
fn part(problem: &Problem, c: Shape, k: usize) -> Problem {
    let mut part = problem.clone().batch(c.batch);
    (part.m, part.n, part.k) = (c.rows, c.cols, k);
    part
}

/// Cuts K, and C where it must be, until every piece can be planned: the largest blocks of C for which
/// some length of K will do. `None` where nothing helps.
///
/// # Errors
/// What planning gives other than that a limit is exceeded.
fn cut(
    problem: &Problem,
    limits: &DeviceLimits,
    options: &PlanOptions,
    device: &str,
) -> Result<Option<Cut>, Error> {
    let mut c = problem.c_shape();
    loop {
        let sums = c.to_array().iter().map(|&len| len as u128).product::<u128>() * 4;
        let fits = sums <= u128::from(limits.binding_bytes.min(limits.buffer_bytes))
            && within(finishing(&part(problem, c, problem.k), limits, device))?
                .is_some_and(|finish| finish.chunks.len() == 1);
        let mut k = fits.then_some(problem.k);
        while let Some(len) = k {
            let piece = summing(&part(problem, c, len), true);
            if within(decide::decide_with(&piece, limits, options, device))?.is_some() {
                return Ok(Some(Cut::new(c, len, sums as u64)));
            }
            k = (len > GRAIN).then(|| half(len));
        }
        // Whole blocks while there are any: an operand's rows may be so long that few span a binding.
        let longer = if c.rows >= c.cols { &mut c.rows } else { &mut c.cols };
        match *longer {
            _ if c.batch > 1 => c.batch = c.batch.div_ceil(2),
            0 | 1 => return Ok(None),
            length if length > GRAIN => *longer = half(length),
            length => *longer = length.div_ceil(2),
        }
    }
}

/// A result, or nothing where a limit is exceeded.
fn within<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::LimitExceeded { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Wgsl {
    /// A plan with K cut, for a problem that was refused as a whole.
    ///
    /// # Errors
    /// `refusal` where cutting K does not help, and what planning gives.
    pub(crate) fn plan_deep(
        &self,
        problem: &Problem,
        options: &PlanOptions,
        refusal: Error,
    ) -> Result<WgslPlan, Error> {
        let inner = &self.inner;
        let sums = problem.reads_factors() && !problem.is_empty() && !problem.has_scales();
        if !sums || decide::check_sizes(problem).is_err() {
            return Err(refusal);
        }
        let Some(cut) = cut(problem, &inner.limits, options, &inner.name)? else {
            return Err(refusal);
        };
        let pieces = cut.pieces(problem);
        if !(2..=MOST_PIECES).contains(&pieces.len()) {
            return Err(refusal);
        }
        let sums = self.allocate(problem.accumulator(), cut.c.len().unwrap_or(usize::MAX))?;
        let (mut plans, mut problems) = (Vec::<WgslPlan>::new(), Vec::new());
        let mut steps = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let shape =
                Shape { batch: piece.batch.len(), rows: piece.rows.len(), cols: piece.cols.len() };
            let wanted = summing(&part(problem, shape, piece.k.len()), piece.k.start > 0);
            let adds = match problems.iter().position(|problem| *problem == wanted) {
                Some(index) => index,
                None => {
                    plans.push(self.plan_untuned(&wanted, options)?);
                    problems.push(wanted);
                    plans.len() - 1
                }
            };
            let whole = part(problem, shape, problem.k);
            let finishes = if piece.k.end < problem.k {
                None
            } else if let Some(index) = problems.iter().position(|problem| *problem == whole) {
                Some(index)
            } else {
                let decision = finishing(&whole, &inner.limits, &inner.name)?;
                plans.push(WgslPlan::of_sums(self, whole.clone(), decision, &sums));
                problems.push(whole);
                Some(plans.len() - 1)
            };
            steps.push(Step { piece, adds, finishes });
        }
        let Some(first) = plans.first() else { return Err(refusal) };
        let mut decision = first.decision.clone();
        let summary = &mut decision.summary;
        summary.notes.push(format!(
            "in {} pieces of up to {}x{}x{} (MxNxK), whose sums a pass of its own turns into C",
            steps.len(),
            cut.c.rows,
            cut.c.cols,
            cut.k
        ));
        let indices = steps.iter().flat_map(|step| [Some(step.adds), step.finishes]).flatten();
        summary.dispatches = indices
            .flat_map(|index| plans[index].decision.summary.dispatches.iter().copied())
            .collect();
        plans.iter().for_each(|plan| summary.add_piece(&plan.decision.summary));
        summary.scratch_bytes =
            cut.bytes + plans.iter().map(|plan| plan.decision.summary.scratch_bytes).sum::<u64>();
        Ok(WgslPlan::of_deep(self, problem, options, decision, Deep { steps, plans, sums }))
    }

    /// The dispatches of a plan whose K is cut.
    pub(crate) fn bind_deep(
        &self,
        plan: &WgslPlan,
        deep: &Deep,
        [a, b]: [Source<'_>; 2],
        c: TensorSlice<'_, WgslTensor>,
        vectors: &Vectors<'_>,
    ) -> Result<Prepared, Error> {
        let moved = |offset: usize, by: i128| (offset as i128 + by) as usize;
        let mut all = Prepared { chunks: Vec::new(), operations: Vec::new() };
        let mut push = |prepared: Prepared| {
            all.chunks.extend(prepared.chunks);
            all.operations.extend(prepared.operations);
        };
        for Step { piece, adds, finishes } in &deep.steps {
            let (batch, row, col, k) =
                (piece.batch.start, piece.rows.start, piece.cols.start, piece.k.start);
            let a = Source { offset: moved(a.offset, a.layout.index(batch, row, k)), ..a };
            let b = Source { offset: moved(b.offset, b.layout.index(batch, k, col)), ..b };
            let sums = TensorSlice::new(&deep.sums, 0);
            push(self.bind(&deep.plans[*adds], Some(a), Some(b), sums, &Vectors::default())?);
            if let Some(finish) = finishes {
                let at = plan.problem.c_layout.index(batch, row, col);
                let c = TensorSlice::new(c.tensor, moved(c.offset, at));
                let at = |bias: TensorSlice<'_, WgslTensor>| bias.offset + col;
                let bias = vectors.bias.map(|bias| TensorSlice::new(bias.tensor, at(bias)));
                let vectors = Vectors { bias, ..Vectors::default() };
                push(self.bind(&deep.plans[*finish], None, None, c, &vectors)?);
            }
        }
        Ok(all)
    }
}
