//! How a product is cut so that its pieces fit a budget: a decision, without a device.

use std::ops::Range;

use lapidary_core::{Error, Layout, PlanOptions, Problem, Shape};

use crate::decide::{self, Decision};
use crate::limits::DeviceLimits;

/// Rows and columns of a piece that are only cut further when K is short: below, a piece does so little
/// with what it reads that copies take longer than products.
const WIDE: usize = 1024;

/// Pieces of K are cut no shorter while anything else can be cut.
const DEEP: usize = 1024;

/// Rows, columns and K of a piece are multiples of this, but for the last.
pub(crate) const GRAIN: usize = 64;

/// Bytes that the lines of a tile start at multiples of: the widest load.
const LINE_ALIGNMENT: usize = 16;

/// Plans that are kept while pieces differ; each has its own scratch memory.
pub(super) const PLANS_KEPT: usize = 2;

/// The largest piece of a product, and how many there are.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Cut {
    /// Matrices, rows and columns of C in a piece.
    pub c: Shape,
    /// Products of an element of C in a piece; K, unless that had to be cut too.
    pub k: usize,
    /// Bytes of device memory that are held at once.
    pub bytes: u64,
}

/// One piece.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Piece {
    /// Matrices of the batch.
    pub batch: Range<usize>,
    /// Rows of C and A.
    pub rows: Range<usize>,
    /// Columns of C and B.
    pub cols: Range<usize>,
    /// Columns of A and rows of B.
    pub k: Range<usize>,
}

/// How the tiles of an operand lie on the device: dense lines, each at a multiple of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Whether neighbours are neighbours in a row, not in a column.
    pub(super) along_rows: bool,
    /// Whether one matrix serves the whole batch.
    pub(super) shared: bool,
}

impl Order {
    /// Tiles of C are row-major.
    pub(super) const ROWS: Self = Self { along_rows: true, shared: false };

    /// The order that reads an operand of this layout along its shorter stride. A line that is repeated,
    /// at a stride of 0, has its elements along the other.
    pub(super) fn of(layout: Layout) -> Self {
        let stride = |stride: isize| if stride == 0 { usize::MAX } else { stride.unsigned_abs() };
        Self {
            along_rows: stride(layout.col_stride) <= stride(layout.row_stride),
            shared: layout.batch_stride == 0,
        }
    }

    /// Lines of a tile, and elements of one.
    pub(super) fn lines(self, shape: Shape) -> (usize, usize) {
        if self.along_rows { (shape.rows, shape.cols) } else { (shape.cols, shape.rows) }
    }

    /// Elements from one line to the next.
    pub(super) fn pitch(self, shape: Shape, size: usize) -> usize {
        (self.lines(shape).1 * size).next_multiple_of(LINE_ALIGNMENT) / size
    }

    /// Elements of a tile.
    pub(super) fn len(self, shape: Shape, size: usize) -> u128 {
        let matrices = if self.shared { 1 } else { shape.batch };
        matrices as u128 * self.lines(shape).0 as u128 * self.pitch(shape, size) as u128
    }

    /// Strides of a tile.
    pub(super) fn layout(self, shape: Shape, size: usize) -> Layout {
        let pitch = self.pitch(shape, size) as isize;
        let (row_stride, col_stride) = if self.along_rows { (pitch, 1) } else { (1, pitch) };
        let lines = self.lines(shape).0 as isize;
        let batch_stride = if self.shared { 0 } else { pitch * lines };
        Layout { row_stride, col_stride, batch_stride }
    }
}

/// Cuts `problem` into pieces that hold at most `budget` bytes of device memory at once.
///
/// # Errors
/// [`Error::LimitExceeded`] if not even the smallest pieces fit, and whatever a plan for them gives.
pub fn cut(
    problem: &Problem,
    limits: &DeviceLimits,
    options: &PlanOptions,
    device: &str,
    budget: u64,
) -> Result<Cut, Error> {
    decide::check_sizes(problem)?;
    let mut c = problem.c_shape();
    let mut k = if problem.reads_factors() { problem.k } else { 0 };
    loop {
        let excess = match held(problem, limits, options, device, c, k) {
            Ok(bytes) if bytes <= budget => return Ok(Cut { c, k, bytes }),
            Ok(bytes) => Error::LimitExceeded {
                what: "bytes of device memory for the smallest pieces of a product",
                requested: u128::from(bytes),
                limit: u128::from(budget),
            },
            Err(error @ (Error::LimitExceeded { .. } | Error::OutOfMemory { .. })) => error,
            Err(error) => return Err(error),
        };
        if c.batch > 1 {
            c.batch = c.batch.div_ceil(2);
        } else if c.rows.max(c.cols) > WIDE || (k <= DEEP && c.rows.max(c.cols) > GRAIN) {
            let longer = if c.rows >= c.cols { &mut c.rows } else { &mut c.cols };
            *longer = half(*longer);
        } else if k > DEEP || (k > GRAIN && c.rows.max(c.cols) <= GRAIN) {
            k = half(k);
        } else if c.rows.max(c.cols) > GRAIN {
            let longer = if c.rows >= c.cols { &mut c.rows } else { &mut c.cols };
            *longer = half(*longer);
        } else {
            return Err(excess);
        }
    }
}

/// Half of `length`, which is above the grain, rounded up to whole grains.
pub(crate) fn half(length: usize) -> usize {
    length.div_ceil(2).next_multiple_of(GRAIN)
}

/// Bytes of device memory that pieces of this size hold at once, as far as they can be planned.
fn held(
    problem: &Problem,
    limits: &DeviceLimits,
    options: &PlanOptions,
    device: &str,
    c: Shape,
    k: usize,
) -> Result<u64, Error> {
    let buffer = |what, elements: u128, size: usize| {
        let bytes = elements * size as u128;
        match u64::try_from(bytes) {
            Ok(bytes) if bytes <= limits.buffer_bytes => Ok(bytes),
            _ => Err(Error::LimitExceeded {
                what,
                requested: bytes,
                limit: u128::from(limits.buffer_bytes),
            }),
        }
    };
    let whole = problem.c_shape();
    let reads = problem.reads_factors();
    let (cut_batch, cut_k) = (c.batch < whole.batch, reads && k < problem.k);
    // Two of what changes from piece to piece: one is filled while the other is read.
    let slots = |cut: bool| if cut { 2 } else { 1 };
    let mut bytes = 0;
    if reads {
        let tile = |layout, shape, size| Order::of(layout).len(shape, size);
        let a = tile(problem.a_layout, Shape { cols: k, ..c }, problem.a.size());
        let b = tile(problem.b_layout, Shape { rows: k, ..c }, problem.b.size());
        bytes += buffer("bytes of a piece of A", a, problem.a.size())?
            * slots(cut_batch || cut_k || c.rows < whole.rows);
        bytes += buffer("bytes of a piece of B", b, problem.b.size())?
            * slots(cut_batch || cut_k || c.cols < whole.cols);
    }
    let out = Order::ROWS.len(c, problem.c.size());
    bytes += buffer("bytes of a piece of C", out, problem.c.size())?
        * slots(cut_batch || c.rows < whole.rows || c.cols < whole.cols);
    if problem.bias {
        bytes += buffer("bytes of the bias", problem.n as u128, problem.bias_element().size())?;
    }
    let piece = piece_problem(problem, c, k);
    if cut_k {
        let sums = c.to_array().iter().map(|&len| len as u128).product::<u128>();
        bytes += buffer("bytes of the sums of a piece", sums, 4)?;
        let finish = finishing(&piece, limits, device)?;
        // The sums of a dispatch of this pass start where the buffer does.
        if finish.chunks.len() > 1 || sums * 4 > u128::from(limits.binding_bytes) {
            return Err(Error::LimitExceeded {
                what: "bytes of the sums of a piece in one binding",
                requested: sums * 4,
                limit: u128::from(limits.binding_bytes),
            });
        }
        let plan = decide::decide_with(&summing(&piece, true), limits, options, device)?;
        bytes += PLANS_KEPT as u64 * plan.summary.scratch_bytes;
    } else {
        let plan = decide::decide_with(&piece, limits, options, device)?;
        bytes += PLANS_KEPT as u64 * plan.summary.scratch_bytes;
    }
    Ok(bytes)
}

/// The product of a piece whose K is whole.
pub(super) fn piece_problem(problem: &Problem, c: Shape, k: usize) -> Problem {
    let k = if problem.reads_factors() { k } else { problem.k };
    let (a, b) = (Shape { cols: k, ..c }, Shape { rows: k, ..c });
    let mut piece = problem.clone().batch(c.batch);
    (piece.m, piece.n, piece.k) = (c.rows, c.cols, k);
    piece.a_layout = Order::of(problem.a_layout).layout(a, problem.a.size());
    piece.b_layout = Order::of(problem.b_layout).layout(b, problem.b.size());
    piece.c_layout = Order::ROWS.layout(c, problem.c.size());
    piece
}

/// The product of a piece of K, added to the sums of earlier ones where there are any, row-major without
/// gaps.
pub(crate) fn summing(piece: &Problem, adds: bool) -> Problem {
    let mut sums = piece.clone().alpha(1.0).beta(if adds { 1.0 } else { 0.0 }).bias(false);
    sums.activation = lapidary_core::Activation::None;
    sums.c = piece.a.accumulator();
    sums.c_layout = Layout::row_major(piece.m, piece.n);
    sums
}

/// The pass from sums over all pieces of K to C, of a piece whose K is whole.
///
/// # Errors
/// As [`decide::decide_with`].
pub(crate) fn finishing(
    piece: &Problem,
    limits: &DeviceLimits,
    device: &str,
) -> Result<Decision, Error> {
    // Without a product the decision has nothing to do with A and B.
    let alone = piece.clone().alpha(0.0);
    let decision = decide::decide_with(&alone, limits, &PlanOptions::default(), device)?;
    Ok(decision.of_sums())
}

impl Cut {
    /// Pieces of up to this size.
    pub(crate) const fn new(c: Shape, k: usize, bytes: u64) -> Self {
        Self { c, k, bytes }
    }

    /// The pieces in the order in which they are computed: those of K one after the other, then the next
    /// columns, back and forth, so that A or B often stays.
    #[must_use]
    pub fn pieces(&self, problem: &Problem) -> Vec<Piece> {
        let whole = problem.c_shape();
        let parts = |len: usize, step: usize| -> Vec<Range<usize>> {
            (0..len).step_by(step.max(1)).map(|at| at..len.min(at + step)).collect()
        };
        let k_parts = match parts(if self.k == 0 { 0 } else { problem.k }, self.k) {
            none if none.is_empty() => std::iter::once(0..0).collect(),
            some => some,
        };
        let (row_parts, mut col_parts) =
            (parts(whole.rows, self.c.rows), parts(whole.cols, self.c.cols));
        let mut pieces = Vec::new();
        for batch in parts(whole.batch, self.c.batch) {
            for rows in &row_parts {
                for cols in &col_parts {
                    pieces.extend(k_parts.iter().map(|k| Piece {
                        batch: batch.clone(),
                        rows: rows.clone(),
                        cols: cols.clone(),
                        k: k.clone(),
                    }));
                }
                col_parts.reverse();
            }
        }
        pieces
    }
}
