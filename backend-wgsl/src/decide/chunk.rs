//! Cutting a problem into dispatches that the device allows.

use lapidary_core::{ElementType, Error, Layout, Problem, Shape};

use super::copies::Operands;
use super::{Body, Kernel, Store};
use crate::limits::DeviceLimits;

/// A block of C: some matrices of the batch, some rows, some columns, and all of K.
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

    /// Bytes of its raw 32-bit sums over one slice of K.
    #[must_use]
    pub fn sum_bytes(&self) -> u64 {
        self.batch as u64 * self.rows as u64 * self.cols as u64 * 4
    }

    /// Workgroups of the multiplying dispatch, x, y, z.
    #[must_use]
    pub fn workgroups(&self, kernel: &Kernel) -> [u32; 3] {
        if let Some(stream) = kernel.slices.and_then(|slices| slices.stream) {
            return [stream.workgroups(blocks_of(self.shape(), kernel)) as u32, 1, 1];
        }
        [
            (self.cols as u64).div_ceil(u64::from(kernel.block[1])) as u32,
            (self.rows as u64).div_ceil(u64::from(kernel.block[0])) as u32,
            self.batch as u32 * kernel.slice_count(),
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

/// Most chunks of a plan: each has bindings and parameters of its own, which take memory before the
/// first of them runs.
const MOST_CHUNKS: u128 = 1 << 16;

/// Splits C until every chunk fits the device.
///
/// # Errors
/// [`Error::LimitExceeded`] if even one block of one matrix does not, or if there were too many.
pub(super) fn split(
    problem: &Problem,
    limits: &DeviceLimits,
    kernel: Option<&Kernel>,
    operands: &Operands,
    store: Store,
) -> Result<Vec<Chunk>, Error> {
    if problem.is_empty() {
        return Ok(Vec::new());
    }
    let block = kernel.map_or([16, 16], |k| k.block.map(|x| x as usize));
    let slices = kernel.map_or(1, Kernel::slice_count) as usize;
    // A cooperative kernel may have to make room for one with blocks of 64x64.
    let cooperative = kernel.is_some_and(|kernel| kernel.body == Body::Cooperative);
    let grid = if cooperative { block.map(|x| x.min(64)) } else { block };
    let limited = Limited { problem, limits, operands, kernel, block: grid, slices, store };
    let mut size = Shape { batch: problem.batch, rows: problem.m, cols: problem.n };
    while let Some(excess) = limited.excess(size) {
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
    let pieces = [(problem.batch, size.batch), (problem.m, size.rows), (problem.n, size.cols)];
    let count = pieces.iter().map(|&(all, part)| all.div_ceil(part) as u128).product::<u128>();
    if count > MOST_CHUNKS {
        return Err(Error::LimitExceeded {
            what: "dispatches of a product",
            requested: count,
            limit: MOST_CHUNKS,
        });
    }
    let mut chunks = Vec::with_capacity(count as usize);
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

/// Blocks that cover a piece of C.
fn blocks_of(shape: Shape, kernel: &Kernel) -> u64 {
    let [rows, cols] = kernel.block.map(u64::from);
    let along = |length: usize, block: u64| (length as u64).div_ceil(block);
    along(shape.rows, rows) * along(shape.cols, cols) * shape.batch as u64
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

/// What limits a chunk.
struct Limited<'a> {
    problem: &'a Problem,
    limits: &'a DeviceLimits,
    operands: &'a Operands,
    kernel: Option<&'a Kernel>,
    block: [usize; 2],
    slices: usize,
    store: Store,
}

impl Limited<'_> {
    /// The first limit that a chunk of `size` breaks.
    fn excess(&self, size: Shape) -> Option<Excess> {
        let Self { problem, limits, operands, kernel, block, slices, store } = *self;
        let over = |what, requested: u128, limit: u128| {
            (requested > limit).then_some(Excess { what, requested, limit })
        };
        let axis = u128::from(limits.workgroups_per_axis);
        let binding = u128::from(limits.binding_bytes);
        // A binding starts at a multiple of the alignment at or below the first element, and ends
        // at a whole vector of at most 16 bytes.
        let slack = u128::from(limits.binding_alignment) + 16;
        let bytes = |layout: Layout, shape: Shape, element: ElementType| {
            let elements = layout.extent(shape).map_or(0, |e| (e.max - e.min + 1) as u128);
            (elements * element.bits() as u128).div_ceil(8) + slack
        };
        let over_bytes =
            |what, layout, shape, element| over(what, bytes(layout, shape, element), binding);
        let c = || over_bytes("bytes of C in one binding", problem.c_layout, size, problem.c);
        // The packing pass covers words with a two-dimensional grid.
        let words = || {
            let words = bytes(problem.c_layout, size, problem.c) / 4;
            over("words of C in one dispatch", words, axis * axis * u128::from(PACK_THREADS))
        };
        let a = || {
            let shape = Shape { cols: operands.k, ..size };
            over_bytes("bytes of A in one binding", operands.a.layout, shape, operands.a.element)
        };
        let b = || {
            let shape = Shape { rows: operands.k, ..size };
            over_bytes("bytes of B in one binding", operands.b.layout, shape, operands.b.element)
        };
        let sums = || {
            if store == Store::Fused && slices == 1 {
                return None;
            }
            let elements = size.to_array().iter().map(|&d| d as u128).product::<u128>();
            let limit = binding.min(u128::from(limits.buffer_bytes));
            over("bytes of sums", elements * 4 * slices as u128, limit)
        };
        let flops = || {
            let limit = limits.dispatch_operations();
            let outputs = size.batch as f64 * size.rows as f64 * size.cols as f64;
            over(FLOPS, (2.0 * outputs * problem.k as f64) as u128, limit as u128)
        };
        let streamed = || {
            let kernel = kernel?;
            let stream = kernel.slices?.stream?;
            let workgroups = stream.workgroups(blocks_of(size, kernel));
            over("workgroups that share all blocks", u128::from(workgroups), axis)
        };
        over("workgroups along M", size.rows.div_ceil(block[0]) as u128, axis)
            .or_else(|| over("workgroups along N", size.cols.div_ceil(block[1]) as u128, axis))
            .or_else(|| over("matrices of a dispatch", (size.batch * slices) as u128, axis))
            .or_else(streamed)
            .or_else(c)
            .or_else(words)
            .or_else(|| {
                if store == Store::NoProduct {
                    return None;
                }
                a().or_else(b).or_else(sums).or_else(flops)
            })
    }
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

/// Threads of a workgroup of the pass that adds slices up.
pub(crate) const REDUCE_THREADS: u32 = 256;

/// Threads that fill a large device; below so many outputs several threads share one.
const REDUCE_FILL: u64 = 1 << 18;

/// Threads that share an output of the pass that adds `slices` slices up, a power of two.
#[must_use]
pub(super) fn reduce_groups(outputs: u64, slices: u32) -> u32 {
    let idle = REDUCE_FILL / outputs.max(1);
    (idle.min(8) as u32).min(slices).max(1).next_power_of_two().min(8)
}

/// Workgroups of the pass that adds slices up.
#[must_use]
pub(crate) fn reduce_workgroups(outputs: u64, groups: u32, workgroups_per_axis: u32) -> [u32; 3] {
    let workgroups = outputs.div_ceil(u64::from(REDUCE_THREADS / groups)).max(1);
    let y = workgroups.div_ceil(u64::from(workgroups_per_axis));
    [workgroups.div_ceil(y) as u32, y as u32, 1]
}

/// Upper bound of the 32-bit words a view touches, whatever its offset.
fn span_words(layout: Layout, shape: Shape, element: ElementType) -> u64 {
    let per_word = (4 / element.size().min(4)) as u64;
    let elements = layout.extent(shape).map_or(0, |e| (e.max - e.min + 1) as u64);
    // A span of n elements can start at the last lane of a word.
    (elements + per_word - 1).div_ceil(per_word)
}

#[cfg(test)]
mod tests {
    use lapidary_core::{Error, KernelChoice, Problem};

    use super::MOST_CHUNKS;
    use crate::decide::decide;
    use crate::limits::DeviceLimits;

    /// A C of terabytes is refused, not listed block by block.
    #[test]
    fn a_product_of_too_many_dispatches_is_refused() {
        let features = wgpu::Features::empty();
        let limits = DeviceLimits::from_limits(&wgpu::Limits::downlevel_defaults(), features, true);
        let refusal = |batch: usize, size: usize| {
            let problem = Problem::new(size, size, 2).batch(batch);
            decide(&problem, &limits, KernelChoice::Naive, "a device").expect_err("too many")
        };
        for (batch, size) in [(1, 1 << 21), (1 << 20, 1 << 15)] {
            match refusal(batch, size) {
                Error::LimitExceeded { what, requested, limit } => {
                    assert_eq!((what, limit), ("dispatches of a product", MOST_CHUNKS));
                    assert!(requested > limit);
                }
                other => panic!("{other}"),
            }
        }
    }
}
