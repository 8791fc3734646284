//! A prepared problem: decisions, pipelines, and the bindings of recent operands.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};

use lapidary_core::{
    Args, BOperand, Error, KernelChoice, Operand, Placement, PlanOptions, PlanSummary, Problem,
    Shape, Tensor, TensorSlice,
};

use crate::bind::{Source, Vectors};
use crate::decide::{self, Body, Decision, Kernel, OperandCopy, Pass, Reads, Stage, Store};
use crate::deep::Deep;
use crate::device::{Inner, Wgsl};
use crate::emit::{self, Access};
use crate::pack;
use crate::tensor::WgslTensor;

/// Operand sets whose bindings a plan keeps; the oldest makes room for the next.
const PREPARED_KEPT: usize = 8;

/// A problem prepared for one device.
#[derive(Debug)]
pub struct WgslPlan {
    pub(crate) problem: Problem,
    pub(crate) decision: Decision,
    /// The device it was made for; plans do not move between devices.
    owner: u64,
    pub(crate) scratch: Option<wgpu::Buffer>,
    /// Where A and B are copied to, where they are.
    pub(crate) copies: [Option<WgslTensor>; 2],
    prepared: Mutex<VecDeque<(Key, std::sync::Arc<Prepared>)>>,
    options: PlanOptions,
    /// The plan of the same product with B packed, once one is.
    packed: OnceLock<Box<WgslPlan>>,
    /// The plan for operands that do not allow stores of four elements that share words, once there were
    /// some.
    apart: OnceLock<Box<WgslPlan>>,
    /// The pieces, where K is cut; the decision is that of the first one then.
    pub(crate) deep: Option<Box<Deep>>,
}

impl WgslPlan {
    /// The plan of the pass from sums that are there already to C; `decision` is that of
    /// [`Decision::of_sums`].
    pub(crate) fn of_sums(
        device: &Wgsl,
        problem: Problem,
        decision: Decision,
        sums: &WgslTensor,
    ) -> Self {
        Self {
            problem,
            decision,
            owner: device.inner.id,
            scratch: Some(sums.buffer.clone()),
            copies: [None, None],
            prepared: Mutex::default(),
            options: PlanOptions::default(),
            packed: OnceLock::new(),
            apart: OnceLock::new(),
            deep: None,
        }
    }

    /// A plan whose K is cut.
    pub(crate) fn of_deep(
        device: &Wgsl,
        problem: &Problem,
        options: &PlanOptions,
        decision: Decision,
        deep: Deep,
    ) -> Self {
        Self {
            problem: problem.clone(),
            decision,
            owner: device.inner.id,
            scratch: None,
            copies: [None, None],
            prepared: Mutex::default(),
            options: options.clone(),
            packed: OnceLock::new(),
            apart: OnceLock::new(),
            deep: Some(Box::new(deep)),
        }
    }

    /// What was decided, as plain data; where K is cut, for its first piece, which the summary's notes
    /// say.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The problem that was planned.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// How products with a packed B are computed, once a B was packed with this plan: by another
    /// kernel where that reads the packed order faster.
    #[must_use]
    pub fn packed_summary(&self) -> Option<&PlanSummary> {
        self.packed.get().map(|plan| &plan.decision.summary)
    }

    /// How products are computed whose C does not start at a whole four of elements that share words, once
    /// there was one: by a plan of its own, with memory for sums and a second pass.
    #[must_use]
    pub fn apart_summary(&self) -> Option<&PlanSummary> {
        self.apart.get().map(|plan| &plan.decision.summary)
    }

    /// The WGSL of the dispatch that multiplies, or of the only pass where there is no product.
    #[must_use]
    pub fn source(&self) -> String {
        let Decision { kernel, store, traits, .. } = &self.decision;
        match kernel {
            Some(kernel) => emit::multiply(kernel, traits, *store, multiply_access(kernel)),
            None => emit::pack_output(traits, 1.into(), *store, Access::ReadOnlyInputs),
        }
    }
}

/// What the bindings depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    /// Buffer and bit of the first element of A, B, C, bias and the scales.
    operands: [Option<(wgpu::Buffer, u64)>; 7],
}

/// Dispatches with everything bound.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// For each chunk, its one or two dispatches.
    pub(crate) chunks: Vec<Vec<Dispatch>>,
    /// For each chunk, its floating-point operations.
    pub(crate) operations: Vec<f64>,
}

/// One dispatch.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) bindings: wgpu::BindGroup,
    pub(crate) workgroups: [u32; 3],
}

impl Wgsl {
    /// Plans without compiling, to look at the decision.
    ///
    /// # Errors
    /// As [`Backend::plan`](lapidary_core::Backend::plan).
    pub fn decide(&self, problem: &Problem, choice: KernelChoice) -> Result<Decision, Error> {
        self.decide_with(problem, &PlanOptions::kernel(choice))
    }

    fn decide_with(&self, problem: &Problem, options: &PlanOptions) -> Result<Decision, Error> {
        decide::decide_with(problem, &self.inner.limits, options, &self.inner.name)
    }

    /// A plan, with a kernel that was measured to be the fastest where there is one and the caller
    /// left the choice to the backend.
    pub(crate) fn make_plan(
        &self,
        problem: &Problem,
        options: &PlanOptions,
    ) -> Result<WgslPlan, Error> {
        #[cfg(feature = "tune")]
        if options.kernel == KernelChoice::Auto
            && options.k_slices.is_none()
            && options.copies.is_none()
            && let Some((remembered, reason)) = self.remembered(problem, options.f16_sums)
        {
            // A kernel that suited another problem of the class may not suit this one.
            match self.plan_untuned(problem, &remembered) {
                Ok(mut plan) => {
                    plan.decision.summary.reason = reason;
                    return Ok(plan);
                }
                Err(error) => tracing::debug!(%error, "the measured kernel does not suit"),
            }
        }
        self.plan_untuned(problem, options)
    }

    /// A plan that depends on nothing but the problem, the options and the device's limits.
    pub(crate) fn plan_untuned(
        &self,
        problem: &Problem,
        options: &PlanOptions,
    ) -> Result<WgslPlan, Error> {
        let _span = tracing::info_span!(
            "plan",
            m = problem.m,
            n = problem.n,
            k = problem.k,
            batch = problem.batch,
            device = self.inner.name,
        )
        .entered();
        let decision = match self.decide_with(problem, options) {
            Err(refusal @ Error::LimitExceeded { .. }) => {
                return self.plan_deep(problem, options, refusal);
            }
            decision => decision?,
        };
        self.plan_of(problem, options, decision)
    }

    /// The plan of a decision.
    fn plan_of(
        &self,
        problem: &Problem,
        options: &PlanOptions,
        decision: Decision,
    ) -> Result<WgslPlan, Error> {
        tracing::debug!(kernel = decision.summary.kernel, notes = ?decision.summary.notes);
        let scratch = match decision.sum_bytes {
            0 => None,
            bytes => {
                Some(self.inner.buffer("lapidary sums", bytes, wgpu::BufferUsages::empty())?)
            }
        };
        let copy_of = |reads: Reads| match reads.copy {
            Some(OperandCopy { len, .. }) => self.allocate(reads.element, len).map(Some),
            None => Ok(None),
        };
        let copies = [copy_of(decision.operands.a)?, copy_of(decision.operands.b)?];
        let plan = WgslPlan {
            problem: problem.clone(),
            decision,
            owner: self.inner.id,
            scratch,
            copies,
            prepared: Mutex::default(),
            options: options.clone(),
            packed: OnceLock::new(),
            apart: OnceLock::new(),
            deep: None,
        };
        // Compile now: a kernel that the driver refuses is an error of the plan, not of its use. Those of
        // another plan, for a packed B or a C that starts inside of a word, are of their first use.
        if !problem.is_empty() {
            if let Some(kernel) = &plan.decision.kernel {
                self.multiply_pipeline(&plan, kernel, multiply_access(kernel))?;
            }
            let rows = plan.decision.finishes_rows();
            self.finish_pipeline(&plan, rows, Access::ReadOnlyInputs)?;
        }
        Ok(plan)
    }

    pub(crate) fn multiply_pipeline(
        &self,
        plan: &WgslPlan,
        kernel: &Kernel,
        access: Access,
    ) -> Result<wgpu::ComputePipeline, Error> {
        let Decision { traits, store, .. } = &plan.decision;
        let source = emit::multiply(kernel, traits, *store, access);
        let fused = !plan.decision.stores_sums();
        let further = decide::further(traits, Stage::Multiply { fused });
        self.inner.pipeline(&kernel.name, source, access, further)
    }

    /// The pass from raw sums, or from nothing, to C, whose rows are or are not whole words or vectors;
    /// `None`
    /// where the kernel stores C itself.
    pub(crate) fn finish_pipeline(
        &self,
        plan: &WgslPlan,
        rows: bool,
        access: Access,
    ) -> Result<Option<wgpu::ComputePipeline>, Error> {
        let Decision { traits, store, .. } = &plan.decision;
        let parts = plan.decision.parts();
        let (pass, source) = match store {
            Store::Fused if parts.most == 1 => return Ok(None),
            Store::Fused => {
                let groups = plan.decision.reduce_groups(rows);
                (Pass::reduce(rows), emit::reduce(traits, parts, groups, rows, access))
            }
            Store::Packed if rows => (Pass::PackRows, emit::pack_rows(traits, parts, access)),
            _ => (Pass::PackOutput, emit::pack_output(traits, parts, *store, access)),
        };
        let further = decide::further(traits, Stage::Finish);
        self.inner.pipeline(pass.name(), source, access, further).map(Some)
    }

    /// The plan of the same product with B packed, made where it is first needed.
    pub(crate) fn packed_plan<'p>(&self, plan: &'p WgslPlan) -> Result<&'p WgslPlan, Error> {
        if let Some(packed) = plan.packed.get() {
            return Ok(packed);
        }
        let problem = pack::problem_of_packed(&plan.problem)?;
        let packed = self.plan_untuned(&problem, &plan.options)?;
        Ok(plan.packed.get_or_init(|| Box::new(packed)))
    }

    /// The plan of the same product that stores elements of a C that share words in a second pass, made
    /// where it is first needed.
    pub(crate) fn apart_plan<'p>(&self, plan: &'p WgslPlan) -> Result<&'p WgslPlan, Error> {
        if let Some(apart) = plan.apart.get() {
            return Ok(apart);
        }
        let Inner { limits, name, .. } = &*self.inner;
        let decision = decide::decide_apart(&plan.problem, limits, &plan.options, name)?;
        let apart = self.plan_of(&plan.problem, &plan.options, decision)?;
        Ok(plan.apart.get_or_init(|| Box::new(apart)))
    }

    /// Refuses a plan that another device made.
    pub(crate) fn check_plan(&self, plan: &WgslPlan) -> Result<(), Error> {
        if plan.owner == self.inner.id {
            return Ok(());
        }
        Err(Error::KernelUnsuitable {
            kernel: plan.decision.summary.kernel.clone(),
            reason: "the plan was made on another device".into(),
        })
    }

    /// The dispatches of a plan on given operands, from the plan's own store if they came before.
    pub(crate) fn prepare(
        &self,
        plan: &WgslPlan,
        args: &Args<'_, Self>,
    ) -> Result<std::sync::Arc<Prepared>, Error> {
        self.check_plan(plan)?;
        args.check(&plan.problem)?;
        self.check_owner(args.a.tensor)?;
        let reads = plan.problem.reads_factors() && !plan.problem.is_empty();
        let (plan, b) = match &args.b {
            BOperand::Plain(b) => {
                self.check_owner(b.tensor)?;
                let layout = plan.problem.b_layout;
                (plan, Source { tensor: b.tensor, offset: b.offset, layout })
            }
            BOperand::Packed(packed) => {
                self.check_owner(&packed.tensor)?;
                let source = pack::packed_source(&plan.problem, packed, args.c)?;
                (if reads { self.packed_plan(plan)? } else { plan }, source)
            }
            _ => {
                return Err(Error::PackedMismatch {
                    found: "an unknown form of B".into(),
                    expected: pack::expected(&plan.problem)?,
                });
            }
        };
        let problem = &plan.problem;
        self.check_owner(args.c.tensor)?;
        for vector in [args.bias, args.row_scale, args.col_scale, args.b_group_scales] {
            vector.map_or(Ok(()), |vector| self.check_owner(vector.tensor))?;
        }
        let a = reads.then_some(Source {
            tensor: args.a.tensor,
            offset: args.a.offset,
            layout: problem.a_layout,
        });
        let b = reads.then_some(b);
        let vectors = Vectors {
            bias: args.bias.filter(|_| problem.bias),
            row_scale: args.row_scale.filter(|_| reads),
            col_scale: args.col_scale.filter(|_| reads),
            group_scales: args.b_group_scales.filter(|_| reads),
        };
        let place = |tensor: &WgslTensor, offset: usize| {
            let bits = offset as u64 * tensor.element().bits() as u64;
            (tensor.buffer.clone(), tensor.byte_offset * 8 + bits)
        };
        let key = Key {
            operands: [
                a.map(|s| place(s.tensor, s.offset)),
                b.map(|s| place(s.tensor, s.offset)),
                Some(place(args.c.tensor, args.c.offset)),
                vectors.bias.map(|s| place(s.tensor, s.offset)),
                vectors.row_scale.map(|s| place(s.tensor, s.offset)),
                vectors.col_scale.map(|s| place(s.tensor, s.offset)),
                vectors.group_scales.map(|s| place(s.tensor, s.offset)),
            ],
        };
        let mut kept = plan.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, prepared)) = kept.iter().find(|(k, _)| *k == key) {
            return Ok(std::sync::Arc::clone(prepared));
        }
        let prepared = std::sync::Arc::new(self.bind(plan, a, b, args.c, &vectors)?);
        if kept.len() == PREPARED_KEPT {
            kept.pop_front();
        }
        kept.push_back((key, std::sync::Arc::clone(&prepared)));
        Ok(prepared)
    }
}

/// How a kernel's inputs are bound where no buffer is bound twice. A cooperative kernel is faster
/// when they count as writable: its loads then stay in front of the products they run under.
pub(crate) const fn multiply_access(kernel: &Kernel) -> Access {
    match kernel.body {
        Body::Cooperative => Access::AllReadWrite,
        _ => Access::ReadOnlyInputs,
    }
}

/// The kernel whose loads and stores these operands allow: the planned one, or one with narrower
/// loads where the caller left the width to the backend. `None` where another plan has to take them, as
/// the kernel stores whole fours of elements that share words and C does not start one.
pub(crate) fn aligned_kernel(
    plan: &WgslPlan,
    kernel: &Kernel,
    a: Source<'_>,
    b: Source<'_>,
    c: TensorSlice<'_, WgslTensor>,
) -> Result<Option<Kernel>, Error> {
    let problem = &plan.problem;
    let k = plan.decision.operands.k;
    let (a_shape, b_shape) =
        (Shape { cols: k, ..problem.a_shape() }, Shape { rows: k, ..problem.b_shape() });
    let c_bytes = c.tensor.byte_offset + c.offset as u64 * c.tensor.element().size() as u64;
    let c_aligned = c_bytes.is_multiple_of(4 * problem.c.size() as u64);
    let operands = decide::Operands {
        a: Reads { layout: a.layout, ..plan.decision.operands.a },
        b: Reads { layout: b.layout, ..plan.decision.operands.b },
        k,
    };
    // Sums lie in a buffer of the plan's own.
    let aligned = [
        vector_fault(a, a_shape, 4).is_none(),
        vector_fault(b, b_shape, 4).is_none(),
        c_aligned || plan.decision.stores_sums(),
    ];
    let stores = |kernel: &Kernel| kernel.store_width == 4 || !plan.decision.stores_quads();
    let reading = |kernel: &Kernel| kernel.clone().reading(&operands, problem.batch, aligned);
    if kernel.body == Body::Cooperative {
        let fits = vector_fault(a, a_shape, kernel.a.width).is_none()
            && vector_fault(b, b_shape, kernel.b.width).is_none()
            && (aligned[2] || !kernel.stores_directly());
        if !fits {
            return Ok(plan.decision.scalar_kernel.as_ref().map(reading));
        }
    }
    if kernel.body.is_written_out() {
        return Ok(Some(reading(kernel)).filter(stores));
    }
    let Some((what, value)) = vector_fault(a, a_shape, kernel.a.width) else {
        return Ok(Some(kernel.clone()));
    };
    plan.decision.scalar_kernel.clone().map(Some).ok_or(Error::Misaligned {
        operand: Operand::A,
        width: kernel.a.width as usize,
        what,
        value,
    })
}

/// Why vectors of `width` elements cannot be loaded from an operand, strides aside.
fn vector_fault(operand: Source<'_>, shape: Shape, width: u32) -> Option<(&'static str, i128)> {
    let width = u64::from(width);
    let bits = operand.tensor.element().bits() as u64;
    // Elements from the buffer's start on. A tensor starts at a multiple of four bytes.
    let start = operand.tensor.byte_offset * 8 / bits;
    let first = start + operand.offset as u64;
    let place = Placement { offset: operand.offset, shape, layout: operand.layout };
    let end = start + place.span().map_or(0, |span| span.end as u64);
    let room = operand.tensor.buffer.size() * 8 / bits;
    if !first.is_multiple_of(width) {
        Some(("the offset of its first element", i128::from(first)))
    } else if end.next_multiple_of(width) > room {
        Some(("the end of its buffer, which cuts its last vector off,", i128::from(room)))
    } else {
        None
    }
}
