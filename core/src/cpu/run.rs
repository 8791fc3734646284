//! A product on host memory, from checked operands to a written C.

use faer::prelude::ReborrowMut;

use super::epilogue::{Epilogue, Float, IntegerEpilogue, Stored};
use super::factor::{Operand, Sharing};
use super::kernel::{CpuKernel, CpuSums};
use super::multiply::{Scalar, Workspace};
use super::plan::{CpuPlan, K_BLOCK};
use super::scratch::Scratch;
use super::source::BlockScales;
use super::tasks;
use crate::backend::Progress;
use crate::element::{Element, ElementType};
use crate::error::Error;
use crate::layout::{Layout, Placement, Shape};
use crate::problem::{MX_BLOCK, Problem};
use crate::view::{AnyMatrixMut, AnyMatrixRef, AnyVectorRef, MatrixMut};
use half::{bf16, f16};

pub(super) use super::factor::{Factor, Scaled};

/// What a product reads besides C: A and B only where the problem reads them.
#[derive(Debug, Default)]
pub(super) struct Inputs<'a> {
    pub(super) a: Option<AnyMatrixRef<'a>>,
    pub(super) b: Option<Factor<'a>>,
    pub(super) bias: Option<AnyVectorRef<'a>>,
    /// Scales too only where the problem reads A and B.
    pub(super) row_scale: Option<AnyVectorRef<'a>>,
    pub(super) col_scale: Option<AnyVectorRef<'a>>,
    pub(super) a_block_scales: Option<AnyVectorRef<'a>>,
    pub(super) b_block_scales: Option<AnyVectorRef<'a>>,
    pub(super) b_group_scales: Option<AnyVectorRef<'a>>,
}

impl<'a> Inputs<'a> {
    /// A and B, or Bᵀ and Aᵀ.
    fn factors(&self, problem: &Problem, transposed: bool) -> Option<[Scaled<'a>; 2]> {
        let scales = |scales: Option<AnyVectorRef<'a>>, length: usize, lines, by_rows| {
            let blocks = problem.k.checked_div(length)?;
            scales.map(|scales| BlockScales { scales, length, lines, blocks, by_rows })
        };
        let a = Scaled {
            factor: Factor::View(self.a?),
            scales: scales(self.a_block_scales, MX_BLOCK, problem.m, true),
        };
        // No types have both.
        let (b_scales, length) = match problem.b_group {
            Some(length) => (self.b_group_scales, length),
            None => (self.b_block_scales, MX_BLOCK),
        };
        let b = Scaled { factor: self.b?, scales: scales(b_scales, length, problem.n, false) };
        Some(if transposed { [b.transposed(), a.transposed()] } else { [a, b] })
    }
}

/// Where and how a product runs.
struct Job<'a> {
    pool: Option<&'a rayon::ThreadPool>,
    scratch: &'a Scratch,
    kernel: CpuKernel,
    block: [usize; 2],
    problem: &'a Problem,
    inputs: &'a Inputs<'a>,
    progress: &'a dyn Fn(Progress),
}

pub(super) fn run(
    pool: Option<&rayon::ThreadPool>,
    scratch: &Scratch,
    plan: &CpuPlan,
    problem: &Problem,
    inputs: &Inputs<'_>,
    c: AnyMatrixMut<'_>,
    progress: &dyn Fn(Progress),
) -> Result<(), Error> {
    if problem.is_empty() {
        return Ok(());
    }
    let kernel = plan.kernel;
    let job = Job { pool, scratch, kernel, block: plan.block, problem, inputs, progress };
    let wide = kernel.arithmetic == ElementType::F64;
    match problem.c {
        ElementType::F64 => job.floats::<f64, f64>(c),
        ElementType::F32 if wide => job.floats::<f64, f32>(c),
        ElementType::F16 if wide => job.floats::<f64, f16>(c),
        ElementType::BF16 if wide => job.floats::<f64, bf16>(c),
        ElementType::F32 => job.floats::<f32, f32>(c),
        ElementType::F16 => job.floats::<f32, f16>(c),
        ElementType::BF16 => job.floats::<f32, bf16>(c),
        ElementType::I8 => job.floats::<f32, i8>(c),
        ElementType::I32 => job.integers(c),
        ElementType::F8E4M3Fnuz
        | ElementType::F8E5M2Fnuz
        | ElementType::F8E4M3
        | ElementType::F8E5M2
        | ElementType::F4E2M1
        | ElementType::I4
        | ElementType::E8M0 => Err(Error::ElementTypesUnsupported {
            a: problem.a,
            b: problem.b,
            c: problem.c,
            rule: "C is of at least 16 bits, or i8",
        }),
    }
}

impl Job<'_> {
    /// A product whose epilogue is computed in `S` and stored as `T`.
    fn floats<S: Float, T: Stored<S>>(&self, c: AnyMatrixMut<'_>) -> Result<(), Error> {
        let integers = self.kernel.sums == CpuSums::Integers;
        let k = self.problem.k;
        self.by_rows::<T>(c, |c, place, transposed| {
            let epilogue = Epilogue::<S>::new(self.problem, self.inputs, transposed);
            let in_c = self.kernel.sums == CpuSums::InPlace;
            self.blocks::<S, T>(c, place, transposed, |workspace, factors, task| {
                let tasks::Task { batch, rows, cols, out } = task;
                let out = match if in_c { T::as_sums(out) } else { Err(out) } {
                    Ok(mut sums) => {
                        let (lines, across) = (rows.clone(), cols.clone());
                        workspace.multiply_into(factors, batch, lines, across, k, sums.rb_mut());
                        if !epilogue.is_identity() {
                            let task = tasks::Task { batch, rows, cols: cols.clone(), out: sums };
                            task.for_each_row(|row, sums| {
                                epilogue.apply::<T>(batch, row, cols.clone(), sums, &[]);
                            });
                        }
                        return;
                    }
                    Err(out) => out,
                };
                let (lines, across) = (rows.clone(), cols.clone());
                // Integers that one block along K sums up are exact in floats.
                let sums = if integers && k > K_BLOCK {
                    workspace.multiply_integers_to_floats(factors, batch, lines, across, k)
                } else {
                    workspace.multiply(factors, batch, lines, across, k)
                };
                let mut sums = sums.chunks_exact_mut(cols.len());
                let task = tasks::Task { batch, rows, cols: cols.clone(), out };
                task.for_each_row(|row, out| {
                    if let Some(sums) = sums.next() {
                        epilogue.finish(batch, row, cols.clone(), sums, out);
                    }
                });
            });
        })
    }

    /// A product of integers stored as i32.
    fn integers(&self, c: AnyMatrixMut<'_>) -> Result<(), Error> {
        let k = self.problem.k;
        self.by_rows::<i32>(c, |c, place, transposed| {
            let epilogue = IntegerEpilogue::new(self.problem, self.inputs.bias, transposed);
            // Sums that need no second look are C's elements as they are.
            let direct = epilogue.is_identity() && k <= K_BLOCK;
            self.blocks::<f32, i32>(c, place, transposed, |workspace, factors, task| {
                let tasks::Task { batch, rows, cols, out } = task;
                let (lines, across) = (rows.clone(), cols.clone());
                let task = tasks::Task { batch, rows, cols: cols.clone(), out };
                if direct {
                    let sums = workspace.multiply(factors, batch, lines, across, k);
                    let mut sums = sums.chunks_exact(cols.len());
                    task.for_each_row(|_, out| {
                        if let Some(sums) = sums.next() {
                            f32::to_integers(sums, out);
                        }
                    });
                    return;
                }
                let sums = workspace.multiply_integers(factors, batch, lines, across, k);
                let mut sums = sums.chunks_exact(cols.len());
                task.for_each_row(|row, out| {
                    if let Some(sums) = sums.next() {
                        epilogue.finish(row, cols.clone(), sums, out);
                    }
                });
            });
        })
    }

    /// Runs `body` on each block of C, which lies at `place` in `c`, with the factors as it reads them.
    fn blocks<S: Scalar, T: Element>(
        &self,
        c: &mut [T],
        place: &Placement,
        transposed: bool,
        body: impl Fn(&mut Workspace<'_, S>, Option<[Operand<'_, S>; 2]>, tasks::Task<'_, T>)
        + Sync
        + Send,
    ) {
        let (k, cut) = (self.problem.k, self.cut(transposed));
        let factors = self.inputs.factors(self.problem, transposed);
        let mut sharing = Sharing::<S>::new(self.scratch, factors, place.shape, cut, k);
        let by_matrix = sharing.by_matrix();
        tasks::for_each_wave(c, place, cut, k, by_matrix, self.progress, |wave| {
            let operands = sharing.operands(self.pool, &wave.tasks);
            wave.run(
                self.pool,
                || Workspace::new(self.scratch),
                |workspace, task| body(workspace, operands, task),
            );
        });
    }

    /// Rows and columns of the blocks that the product, or its transpose, is cut into.
    fn cut(&self, transposed: bool) -> [usize; 2] {
        let [rows, cols] = self.block;
        if transposed { [cols, rows] } else { [rows, cols] }
    }

    /// Hands C to `f` as rows without gaps: as it is, transposed (the flag says so), or, for any
    /// other strides, as a dense copy that is written back.
    fn by_rows<T: Element>(
        &self,
        mut c: AnyMatrixMut<'_>,
        f: impl FnOnce(&mut [T], &Placement, bool),
    ) -> Result<(), Error> {
        let place = c.placement();
        let swapped = place.transposed();
        if let Ok(storage) = bytemuck::try_cast_slice_mut::<u8, T>(c.bytes_mut()) {
            // A single column is better one long row, where it can be.
            let column = place.shape.cols == 1 && tasks::is_row_major(&swapped);
            if tasks::is_row_major(&place) && !column {
                f(storage, &place, false);
                return Ok(());
            }
            if tasks::is_row_major(&swapped) {
                f(storage, &swapped, true);
                return Ok(());
            }
        }
        let shape = place.shape;
        let mut dense = dense::<T>(shape)?;
        let layout = Layout::row_major(shape.rows, shape.cols);
        if self.problem.reads_c() {
            MatrixMut::strided(&mut dense, 0, shape, layout)?.erase().copy_from(c.as_ref());
        }
        f(&mut dense, &Placement { offset: 0, shape, layout }, false);
        c.copy_from(crate::view::MatrixRef::strided(&dense, 0, shape, layout)?.erase());
        Ok(())
    }
}

fn dense<T: Element>(shape: Shape) -> Result<Vec<T>, Error> {
    let len = shape.len().unwrap_or(usize::MAX);
    let mut dense = Vec::new();
    dense.try_reserve_exact(len).map_err(|_| Error::OutOfMemory {
        requested: (len as u64).saturating_mul(size_of::<T>() as u64),
        what: "a dense copy of C".into(),
        device: "host".into(),
    })?;
    dense.resize(len, T::zeroed());
    Ok(dense)
}
