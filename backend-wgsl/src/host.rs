//! One-shot products on host memory: whole where the device holds them, else in pieces.

use std::ops::Range;

use lapidary_core::{
    AnyMatrixMut, AnyMatrixRef, AnyVectorRef, Args, ElementType, Error, Operands, Placement,
    PlanOptions, PlanSummary, Problem, Progress, TensorSlice,
};

use crate::decide::Decision;
use crate::device::Wgsl;
use crate::tensor::WgslTensor;

/// Less device memory than this is not tried where there is no budget.
const LEAST_BUDGET: u64 = 16 << 20;

impl Wgsl {
    /// What [`Backend::run_host`](lapidary_core::Backend::run_host) does.
    pub(crate) async fn run_on_host(
        &self,
        problem: &Problem,
        options: &PlanOptions,
        operands: &Operands<'_>,
        c: &mut AnyMatrixMut<'_>,
        progress: &dyn Fn(Progress),
    ) -> Result<PlanSummary, Error> {
        let refusal = match self.run_whole(problem, options, operands, c, progress).await {
            // Scales are not cut, nor elements that share a byte.
            Err(error @ (Error::LimitExceeded { .. } | Error::OutOfMemory { .. }))
                if !problem.has_scales() && !problem.b.is_packed() =>
            {
                error
            }
            result => return result,
        };
        tracing::info!(reason = %refusal, device = self.inner.name, "streaming a product");
        let mut budget = self.inner.memory_budget.unwrap_or(self.inner.limits.buffer_bytes);
        loop {
            let mut written = false;
            let result = self.stream(problem, options, operands, c, budget, progress, &mut written);
            match result {
                // How much there is only the device knows.
                Err(Error::OutOfMemory { .. })
                    if self.inner.memory_budget.is_none()
                        && budget / 2 >= LEAST_BUDGET
                        && !(written && problem.reads_c()) =>
                {
                    budget /= 2;
                }
                // Nothing that pieces would change.
                Err(Error::LimitExceeded { .. }) if !written => return Err(refusal),
                result => return result,
            }
        }
    }

    /// Uploads everything, computes, and copies C back.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] where that takes more memory than a budget or a buffer allows, besides
    /// what planning and the device give. C is what it was then.
    async fn run_whole(
        &self,
        problem: &Problem,
        options: &PlanOptions,
        operands: &Operands<'_>,
        c: &mut AnyMatrixMut<'_>,
        progress: &dyn Fn(Progress),
    ) -> Result<PlanSummary, Error> {
        let plan = self.make_plan(problem, options)?;
        let summary = plan.decision.summary.clone();
        if problem.is_empty() {
            return Ok(summary);
        }
        self.check_budget(&plan.decision, problem, operands, c)?;
        // A and B are only uploaded where they are read; a tensor of nothing stands in elsewhere.
        let reads = problem.reads_factors();
        let (a, a_offset) = self.upload_view(operands.a, reads)?;
        let (b, b_offset) = self.upload_view(operands.b, reads)?;
        let c_span = c.placement().span().unwrap_or(0..0);
        let c_tensor = self.allocate_output(problem.c, c_span.len())?;
        let c_offset = c.placement().offset.saturating_sub(c_span.start);
        if problem.reads_c() {
            self.write(&c_tensor, 0, spanned(c.as_ref(), c_span))?;
        }
        let vector = |vector: Option<AnyVectorRef<'_>>, wanted: bool| {
            let Some(vector) = vector.filter(|_| wanted) else { return Ok(None) };
            let element = vector.element();
            self.tensor(element, &vector.bytes()[..element.bytes_for(vector.len())]).map(Some)
        };
        let bias = vector(operands.bias, true)?;
        let row_scale = vector(operands.row_scale, reads)?;
        let col_scale = vector(operands.col_scale, reads)?;
        let group_scales = vector(operands.b_group_scales, reads)?;
        let mut args = Args::new(
            TensorSlice::new(&a, a_offset),
            TensorSlice::new(&b, b_offset),
            TensorSlice::new(&c_tensor, c_offset),
        );
        args.bias = bias.as_ref().map(TensorSlice::from);
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
        let place = Placement { offset: c_offset, ..c.placement() };
        self.with_elements(&c_tensor, |result| {
            c.copy_from(AnyMatrixRef::new(result, c.element(), place)?);
            Ok(())
        })
        .await?;
        Ok(summary)
    }

    /// Refuses what would hold more than the budget.
    fn check_budget(
        &self,
        decision: &Decision,
        problem: &Problem,
        operands: &Operands<'_>,
        c: &AnyMatrixMut<'_>,
    ) -> Result<(), Error> {
        let Some(budget) = self.inner.memory_budget else { return Ok(()) };
        let bytes = |place: Placement, element: ElementType| {
            place.span().map_or(0, |span| element.bytes_for(span.len()) as u128)
        };
        let mut needed = u128::from(decision.summary.scratch_bytes);
        needed += bytes(c.placement(), problem.c);
        if problem.reads_factors() {
            needed += bytes(operands.a.placement(), problem.a);
            needed += bytes(operands.b.placement(), problem.b);
        }
        let vectors =
            [operands.bias, operands.row_scale, operands.col_scale, operands.b_group_scales];
        needed += vectors.into_iter().flatten().map(|v| v.bytes().len() as u128).sum::<u128>();
        if needed > u128::from(budget) {
            return Err(Error::LimitExceeded {
                what: "bytes of device memory for a product",
                requested: needed,
                limit: u128::from(budget),
            });
        }
        Ok(())
    }

    /// Uploads what a host view spans; the offset of its first element in the new tensor.
    fn upload_view(
        &self,
        view: AnyMatrixRef<'_>,
        wanted: bool,
    ) -> Result<(WgslTensor, usize), Error> {
        let place = view.placement();
        let span = place.span().filter(|_| wanted).unwrap_or(0..0);
        let offset = place.offset.saturating_sub(span.start);
        Ok((self.tensor(view.element(), spanned(view, span))?, offset))
    }
}

/// The bytes of some elements of a view's storage.
fn spanned<'a>(view: AnyMatrixRef<'a>, span: Range<usize>) -> &'a [u8] {
    // Lines of 4-bit elements start at whole bytes.
    let element = view.element();
    &view.bytes()[element.bytes_for(span.start)..element.bytes_for(span.end)]
}
