//! Cutting a problem into dispatches that the device allows.

use lapidary_core::{ElementType, Error, Layout, Problem, Shape};

use super::{Kernel, Store};
use crate::limits::DeviceLimits;

/// Floating-point operations one dispatch may have on a GPU: under a second on a slow one, so that
/// no watchdog ends it.
const DISPATCH_FLOPS: f64 = 4e11;

/// The same on a device that is a program on the CPU; keeps progress visible.
const SOFTWARE_DISPATCH_FLOPS: f64 = 2e10;

/// A block of C: some matrices of the batch, some rows, some columns. K is never cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Chunk {
    /// First matrix of the batch.
    pub batch0: usize,
    /// First row.
    pub row0: usize,
    /// First column.
    pub col0: usize,
    /// Matrices.
    pub batch: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// 32-bit words from the first to the last that the chunk of C touches.
    pub words: u64,
}

impl Chunk {
    /// Shape of the chunk of C.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        Shape { batch: self.batch, rows: self.rows, cols: self.cols }
    }

    /// Bytes of its raw 32-bit sums.
    #[must_use]
    pub fn sum_bytes(&self) -> u64 {
        self.batch as u64 * self.rows as u64 * self.cols as u64 * 4
    }

    /// Workgroups of the multiplying dispatch, x, y, z.
    #[must_use]
    pub fn workgroups(&self, kernel: &Kernel) -> [u32; 3] {
        [
            (self.cols as u64).div_ceil(u64::from(kernel.block[1])) as u32,
            (self.rows as u64).div_ceil(u64::from(kernel.block[0])) as u32,
            self.batch as u32,
        ]
    }

    /// Offset of the chunk's first element from the view's own, in elements.
    pub(crate) fn c_offset(&self, layout: Layout) -> i128 {
        layout.index(self.batch0, self.row0, self.col0)
    }

    /// The same for A, whose columns are K.
    pub(crate) fn a_offset(&self, layout: Layout) -> i128 {
        layout.index(self.batch0, self.row0, 0)
    }

    /// The same for B, whose rows are K.
    pub(crate) fn b_offset(&self, layout: Layout) -> i128 {
        layout.index(self.batch0, 0, self.col0)
    }
}

/// Splits C until every chunk fits the device.
///
/// # Errors
/// [`Error::LimitExceeded`] if even one block of one matrix does not.
pub(super) fn split(
    problem: &Problem,
    limits: &DeviceLimits,
    kernel: Option<&Kernel>,
    store: Store,
) -> Result<Vec<Chunk>, Error> {
    if problem.is_empty() {
        return Ok(Vec::new());
    }
    let block = kernel.map_or([16, 16], |k| k.block.map(|x| x as usize));
    let mut size = Shape { batch: problem.batch, rows: problem.m, cols: problem.n };
    while let Some(excess) = excess(problem, limits, block, store, size) {
        if size.batch > 1 {
            size.batch = size.batch.div_ceil(2);
        } else if size.rows > block[0] && (size.rows >= size.cols || size.cols <= block[1]) {
            size.rows = half(size.rows, block[0]);
        } else if size.cols > block[1] {
            size.cols = half(size.cols, block[1]);
        } else if excess.what == FLOPS {
            // One block is the least a dispatch can do.
            break;
        } else {
            return Err(Error::LimitExceeded {
                what: excess.what,
                requested: excess.requested,
                limit: excess.limit,
            });
        }
    }
    let mut chunks = Vec::new();
    for batch0 in (0..problem.batch).step_by(size.batch) {
        for row0 in (0..problem.m).step_by(size.rows) {
            for col0 in (0..problem.n).step_by(size.cols) {
                let shape = Shape {
                    batch: size.batch.min(problem.batch - batch0),
                    rows: size.rows.min(problem.m - row0),
                    cols: size.cols.min(problem.n - col0),
                };
                chunks.push(Chunk {
                    batch0,
                    row0,
                    col0,
                    batch: shape.batch,
                    rows: shape.rows,
                    cols: shape.cols,
                    words: span_words(problem.c_layout, shape, problem.c),
                });
            }
        }
    }
    Ok(chunks)
}

/// Half of `length`, rounded up to whole blocks.
fn half(length: usize, block: usize) -> usize {
    length.div_ceil(2).next_multiple_of(block).min(length - 1)
}

struct Excess {
    what: &'static str,
    requested: u128,
    limit: u128,
}

const FLOPS: &str = "operations of a dispatch";

/// The first limit that a chunk of `size` breaks.
fn excess(
    problem: &Problem,
    limits: &DeviceLimits,
    block: [usize; 2],
    store: Store,
    size: Shape,
) -> Option<Excess> {
    let over = |what, requested: u128, limit: u128| {
        (requested > limit).then_some(Excess { what, requested, limit })
    };
    let axis = u128::from(limits.workgroups_per_axis);
    let binding = u128::from(limits.binding_bytes);
    // A binding starts at a multiple of the alignment at or below the first element, and ends at a
    // whole vector of at most 16 bytes.
    let slack = u128::from(limits.binding_alignment) + 16;
    let bytes = |layout: Layout, shape: Shape, element: ElementType| {
        layout.extent(shape).map_or(0, |e| (e.max - e.min + 1) as u128 * element.size() as u128)
            + slack
    };
    let a = Shape { batch: size.batch, rows: size.rows, cols: problem.k };
    let b = Shape { batch: size.batch, rows: problem.k, cols: size.cols };
    let c = size;
    let product = store != Store::NoProduct;
    let sums = size.to_array().iter().map(|&d| d as u128).product::<u128>() * 4;
    let flop_limit = if limits.software { SOFTWARE_DISPATCH_FLOPS } else { DISPATCH_FLOPS };
    let flops = 2.0 * size.batch as f64 * size.rows as f64 * size.cols as f64 * problem.k as f64;
    over("workgroups along M", size.rows.div_ceil(block[0]) as u128, axis)
        .or_else(|| over("workgroups along N", size.cols.div_ceil(block[1]) as u128, axis))
        .or_else(|| over("matrices of a dispatch", size.batch as u128, axis))
        .or_else(|| {
            over("bytes of C in one binding", bytes(problem.c_layout, c, problem.c), binding)
        })
        .or_else(|| {
            // The packing pass covers words with a two-dimensional grid.
            let words = bytes(problem.c_layout, c, problem.c) / 4;
            over("words of C in one dispatch", words, axis * axis * u128::from(PACK_THREADS))
        })
        .or_else(|| {
            if !product {
                return None;
            }
            over("bytes of A in one binding", bytes(problem.a_layout, a, problem.a), binding)
                .or_else(|| {
                    over(
                        "bytes of B in one binding",
                        bytes(problem.b_layout, b, problem.b),
                        binding,
                    )
                })
                .or_else(|| {
                    let limit = binding.min(u128::from(limits.buffer_bytes));
                    if store == Store::Packed { over("bytes of sums", sums, limit) } else { None }
                })
                .or_else(|| over(FLOPS, flops as u128, flop_limit as u128))
        })
}

/// Threads of a workgroup of the packing pass.
pub(crate) const PACK_THREADS: u32 = 256;

/// Workgroups of the packing pass over `words` words: a grid as square as the limit asks for.
#[must_use]
pub(crate) fn pack_workgroups(words: u64, workgroups_per_axis: u32) -> [u32; 3] {
    let groups = words.div_ceil(u64::from(PACK_THREADS)).max(1);
    let y = groups.div_ceil(u64::from(workgroups_per_axis));
    [groups.div_ceil(y) as u32, y as u32, 1]
}

/// Upper bound of the 32-bit words a view touches, whatever its offset.
fn span_words(layout: Layout, shape: Shape, element: ElementType) -> u64 {
    let per_word = (4 / element.size().min(4)) as u64;
    let elements = layout.extent(shape).map_or(0, |e| (e.max - e.min + 1) as u64);
    // A span of n elements can start at the last lane of a word.
    (elements + per_word - 1).div_ceil(per_word)
}
