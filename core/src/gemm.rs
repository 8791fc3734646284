//! The front door: one-shot products, and plans for repeated ones.

use core::marker::PhantomData;

use crate::backend::{Args, Backend, PlanOptions, PlanSummary, Progress, TensorSlice};
use crate::error::{Error, Operand};
use crate::operands::Operands;
use crate::problem::Problem;
use crate::view::{AnyMatrixMut, Matrix};

/// Matrix products on backend `B`.
///
/// # Examples
/// ```
/// # #[cfg(not(feature = "cpu"))]
/// # fn main() {}
/// # #[cfg(feature = "cpu")]
/// # fn main() -> Result<(), lapidary_core::Error> {
/// use lapidary_core::{Cpu, ElementType, Gemm, MatrixRef, Operands};
///
/// let a = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]; // 2×3
/// let b = [1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0]; // 3×2
/// let operands =
///     Operands::new(MatrixRef::row_major(&a, 2, 3)?, MatrixRef::row_major(&b, 3, 2)?);
/// let problem = operands.problem(ElementType::F32)?;
/// let output = Gemm::<Cpu>::run(&Cpu::new(), &problem, &operands)?;
/// assert_eq!(output.matrix.to_vec::<f32>()?, [4.0, 5.0, 10.0, 11.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Gemm<B>(PhantomData<B>);

/// The result of a one-shot product.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Output {
    /// C, row-major without gaps.
    pub matrix: Matrix,
    /// The kernel that ran, and why.
    pub summary: PlanSummary,
}

impl<B: Backend> Gemm<B> {
    /// Multiplies host matrices and returns C.
    ///
    /// The strides of `problem` are replaced by those of the operands; everything else must agree.
    /// The numerical contract is that of [`Backend`].
    ///
    /// # Errors
    /// Whatever [`Operands::check`], [`Problem::validate`] and the backend find.
    pub fn run(device: &B, problem: &Problem, operands: &Operands<'_>) -> Result<Output, Error> {
        pollster::block_on(Self::run_async(device, problem, operands))
    }

    /// As [`Gemm::run`], without blocking.
    ///
    /// # Errors
    /// As [`Gemm::run`].
    pub async fn run_async(
        device: &B,
        problem: &Problem,
        operands: &Operands<'_>,
    ) -> Result<Output, Error> {
        Self::run_with(device, problem, operands, &PlanOptions::default(), &|_| {}).await
    }

    /// As [`Gemm::run_async`], with a choice of kernel and a callback that long work reports to.
    ///
    /// # Errors
    /// As [`Gemm::run`], and those of [`Backend::plan`] for the kernel asked for.
    pub async fn run_with(
        device: &B,
        problem: &Problem,
        operands: &Operands<'_>,
        options: &PlanOptions,
        progress: &dyn Fn(Progress),
    ) -> Result<Output, Error> {
        operands.check(problem)?;
        let problem = with_layouts(problem, operands);
        problem.validate()?;
        let mut matrix = Matrix::zeros(problem.c, problem.c_shape())?;
        if let (Some(c), true) = (operands.c, problem.reads_c()) {
            matrix.as_mut().copy_from(c);
        }
        let summary =
            device.run_host(&problem, options, operands, matrix.as_mut(), progress).await?;
        Ok(Output { matrix, summary })
    }

    /// Multiplies host matrices into a view that may lie inside a larger matrix.
    ///
    /// At beta ≠ 0 the view's own elements are what beta scales; `operands.c` is not used.
    ///
    /// # Errors
    /// As [`Gemm::run`], and [`Error::UnexpectedOperand`] if `operands.c` is given.
    pub fn run_into<'c>(
        device: &B,
        problem: &Problem,
        operands: &Operands<'_>,
        c: impl Into<AnyMatrixMut<'c>>,
    ) -> Result<PlanSummary, Error> {
        let c = c.into();
        if operands.c.is_some() {
            return Err(Error::UnexpectedOperand {
                operand: Operand::C,
                why: "the output view is itself what beta scales",
            });
        }
        let mut problem = with_layouts(problem, operands);
        problem.c_layout = c.placement().layout;
        operands.c(c.as_ref()).check(&problem)?;
        problem.validate()?;
        pollster::block_on(device.run_host(&problem, &PlanOptions::default(), operands, c, &|_| {}))
    }

    /// Prepares a product for repeated execution on device tensors.
    ///
    /// # Errors
    /// As [`Backend::plan`].
    pub fn plan<'d>(
        device: &'d B,
        problem: &Problem,
        options: &PlanOptions,
    ) -> Result<GemmPlan<'d, B>, Error> {
        problem.validate()?;
        Ok(GemmPlan { device, plan: device.plan(problem, options)? })
    }
}

/// The problem with the operands' strides; C is dense.
fn with_layouts(problem: &Problem, operands: &Operands<'_>) -> Problem {
    let mut problem = problem.clone();
    problem.a_layout = operands.a.placement().layout;
    problem.b_layout = operands.b.placement().layout;
    problem.c_layout = crate::layout::Layout::row_major(problem.m, problem.n);
    problem
}

/// A prepared product on one device.
#[derive(Debug)]
pub struct GemmPlan<'d, B: Backend> {
    device: &'d B,
    plan: B::Plan,
}

impl<B: Backend> GemmPlan<'_, B> {
    /// The kernel that was chosen, and why.
    pub fn summary(&self) -> &PlanSummary {
        self.device.summary(&self.plan)
    }

    /// Enqueues the product; the host does not wait for it.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    pub fn execute(&self, args: &Args<'_, B>) -> Result<(), Error> {
        self.device.execute(&self.plan, args)
    }

    /// Rearranges B for repeated use with this plan.
    ///
    /// # Errors
    /// As [`Backend::pack_b`].
    pub fn pack_b<'a>(&self, b: impl Into<TensorSlice<'a, B::Tensor>>) -> Result<B::PackedB, Error>
    where
        B::Tensor: 'a,
    {
        self.device.pack_b(&self.plan, b.into())
    }

    /// The backend's own plan, for what only that backend offers.
    pub fn inner(&self) -> &B::Plan {
        &self.plan
    }
}
