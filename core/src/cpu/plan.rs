//! How a product is cut into blocks, and B prepared for that.

use super::kernel::CpuKernel;
use super::multiply::Scalar;
use super::source;
use super::tasks;
use crate::backend::{PlanOptions, PlanSummary};
use crate::element::ElementType;
use crate::epilogue::Activation;
use crate::error::Error;
use crate::kernel::KernelChoice;
use crate::problem::Problem;
use crate::view::AnyMatrixRef;

/// Length along K of the blocks that a task converts for itself, and of a sum of integers in floats.
///
/// For i8 it keeps sums exact: 1024 products of at most 2¹⁴ do not exceed 2²⁴, up to which f32
/// holds every integer.
pub(super) const K_BLOCK: usize = 1024;

/// A prepared product.
#[derive(Clone, Debug)]
pub struct CpuPlan {
    pub(super) problem: Problem,
    pub(super) summary: PlanSummary,
    /// The code that runs.
    pub(super) kernel: CpuKernel,
    /// Rows and columns of the blocks that C is cut into.
    pub(super) block: [usize; 2],
}

impl CpuPlan {
    pub(super) fn new(
        problem: &Problem,
        options: &PlanOptions,
        threads: usize,
    ) -> Result<Self, Error> {
        problem.validate()?;
        if options.kernel != KernelChoice::Auto {
            let matrix = matches!(options.kernel, KernelChoice::Policy(config)
                if config.compute.multiply.is_matrix());
            let reason = if matrix {
                "its compute policy multiplies on matrix cores, the CPU has none"
            } else {
                "the tutorial's steps are GPU kernels, the CPU has one of its own (auto)"
            };
            return Err(Error::KernelUnsuitable {
                kernel: options.kernel.name(),
                reason: reason.into(),
            });
        }
        let converted = !matches!(problem.a, ElementType::F32 | ElementType::F64);
        let kernel = CpuKernel::of(problem);
        let block = block_size(problem, kernel, threads, converted);
        let [rows, cols] = block;
        let blocks = [problem.n.div_ceil(cols), problem.m.div_ceil(rows), problem.batch];
        let reason = format!(
            "{} blocks of {rows}x{cols} of C for {threads} threads, each summed in {}",
            blocks.iter().map(|&b| b as u128).product::<u128>(),
            sums_in(problem)
        );
        let mut summary = PlanSummary::new(kernel.name(), reason);
        summary.block_tile = block;
        summary.dispatches = vec![blocks.map(|b| u32::try_from(b).unwrap_or(u32::MAX))];
        if converted {
            summary.k_tile_size = K_BLOCK;
            summary.notes.push(format!(
                "{} operands are converted to {} before they are multiplied",
                if problem.a == problem.b {
                    problem.a.to_string()
                } else {
                    format!("{} and {}", problem.a, problem.b)
                },
                if sums_in(problem) == ElementType::F64 { "f64" } else { "f32" }
            ));
        }
        Ok(Self { problem: problem.clone(), summary, kernel, block })
    }
}

/// The type that products are summed in here: the problem's accumulator, but f64 with block scales.
/// A scaled element can lie outside the range of f32 where its product with another does not.
pub(super) fn sums_in(problem: &Problem) -> ElementType {
    if problem.block_scales { ElementType::F64 } else { problem.accumulator() }
}

/// The largest block that leaves two tasks for each of several threads, from 64×64 up to the kernel's
/// [`largest_block`](CpuKernel::largest_block).
///
/// A block packs its columns of B for itself and reads its rows of A as they lie, so blocks side by
/// side cost nothing that one of them would not: columns are divided first, until a block is four
/// times as tall as wide.
fn block_size(problem: &Problem, kernel: CpuKernel, threads: usize, converted: bool) -> [usize; 2] {
    let plain = problem.alpha == 1.0
        && !problem.bias
        && !problem.row_scale
        && !problem.col_scale
        && problem.activation == Activation::None;
    let largest = kernel.largest_block(plain, converted);
    let shared = threads > 1 && tasks::is_worth_sharing(problem.c_shape(), problem.k);
    let wanted = if shared { 2 * threads } else { 1 };
    let round = |size: usize| size.clamp(1, largest).next_multiple_of(64).min(largest);
    let mut block = [round(problem.m), round(problem.n)];
    loop {
        let [rows, cols] = block;
        let tasks = problem
            .m
            .div_ceil(rows)
            .saturating_mul(problem.n.div_ceil(cols))
            .saturating_mul(problem.batch);
        if tasks >= wanted || (rows <= 64 && cols <= 64) {
            return block;
        }
        let divided = usize::from(cols > 64 && rows <= 4 * cols);
        block[divided] = (block[divided] / 2).next_multiple_of(64);
    }
}

/// B converted to the accumulating float type, in panels as wide as a block of C.
#[derive(Clone, Debug)]
pub struct CpuPackedB {
    data: Panels,
    batch: usize,
    k: usize,
    n: usize,
    panel: usize,
    element: ElementType,
    /// What the panels hold.
    sums: ElementType,
}

#[derive(Clone, Debug)]
enum Panels {
    F32(Vec<f32>),
    F64(Vec<f64>),
}

impl CpuPackedB {
    pub(super) fn new(plan: &CpuPlan, b: &AnyMatrixRef<'_>) -> Result<Self, Error> {
        let problem = &plan.problem;
        let data = match sums_in(problem) {
            ElementType::F64 => Panels::F64(panels(b, plan.block[1])?),
            _ => Panels::F32(panels(b, plan.block[1])?),
        };
        Ok(Self {
            data,
            batch: problem.batch,
            k: problem.k,
            n: problem.n,
            panel: plan.block[1],
            element: problem.b,
            sums: sums_in(problem),
        })
    }

    /// Refuses a B that was packed for another problem or block size.
    pub(super) fn check(&self, plan: &CpuPlan) -> Result<(), Error> {
        let problem = &plan.problem;
        let name = |[batch, k, n]: [usize; 3], panel, element: ElementType, sums: ElementType| {
            format!("{batch}x{k}x{n} {element} in panels of {panel} columns, summed in {sums}")
        };
        let found = name([self.batch, self.k, self.n], self.panel, self.element, self.sums);
        let planned = [problem.batch, problem.k, problem.n];
        let expected = name(planned, plan.block[1], problem.b, sums_in(problem));
        if found == expected { Ok(()) } else { Err(Error::PackedMismatch { found, expected }) }
    }

    /// Rows of the panel that holds column `col` of a matrix, row-major, and its width.
    pub(super) fn panel<S: Scalar>(&self, batch: usize, col: usize) -> Option<(&[S], usize)> {
        let data: &[S] = match &self.data {
            Panels::F32(data) => bytemuck::try_cast_slice(data).ok()?,
            Panels::F64(data) => bytemuck::try_cast_slice(data).ok()?,
        };
        let first = col / self.panel * self.panel;
        let width = self.panel.min(self.n - first);
        let start = batch * self.k * self.n + self.k * first;
        data.get(start..start + self.k * width).map(|panel| (panel, width))
    }
}

/// Panel after panel, each row-major.
fn panels<S: Scalar>(b: &AnyMatrixRef<'_>, panel: usize) -> Result<Vec<S>, Error> {
    let shape = b.shape();
    let len = shape.len().unwrap_or(usize::MAX);
    let mut all = Vec::new();
    all.try_reserve_exact(len).map_err(|_| Error::OutOfMemory {
        requested: (len as u64).saturating_mul(size_of::<S>() as u64),
        what: "packed B".into(),
        device: "host".into(),
    })?;
    let mut buffer = Vec::new();
    for batch in 0..shape.batch {
        for first in (0..shape.cols).step_by(panel) {
            let cols = first..shape.cols.min(first + panel);
            for k in (0..shape.rows).step_by(K_BLOCK) {
                let rows = k..shape.rows.min(k + K_BLOCK);
                buffer.resize(rows.len() * cols.len(), S::ZERO);
                let block = [rows.clone(), cols.clone()];
                let block = source::converted::<S>(b, batch, block, None, &mut buffer);
                for row in 0..rows.len() {
                    all.extend((0..cols.len()).map(|col| block[(row, col)]));
                }
            }
        }
    }
    Ok(all)
}
