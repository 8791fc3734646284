//! The factors of a product, and where their blocks are read from.

use core::ops::Range;

use faer::MatRef;
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use super::multiply::Scalar;
use super::plan::CpuPackedB;
use super::scratch::{Buffer, Scratch};
use super::source::{self, BlockScales};
use super::tasks::{self, Task};
use crate::layout::Shape;
use crate::view::AnyMatrixRef;

/// A factor of the product, with the scales of its blocks along K where it has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scaled<'a> {
    pub(super) factor: Factor<'a>,
    pub(super) scales: Option<BlockScales<'a>>,
}

impl<'a> Scaled<'a> {
    /// The same factor with rows and columns exchanged.
    pub(super) fn transposed(self) -> Self {
        Self { factor: self.factor.transposed(), scales: self.scales.map(BlockScales::transposed) }
    }

    /// Whether blocks of a factor of this shape have to be converted to `S`.
    fn is_converted<S: Scalar>(&self, [rows, cols]: [usize; 2]) -> bool {
        // A packed factor only waits for its scales, panel by panel.
        matches!(self.factor, Factor::View(_)) && self.in_place::<S>(0, 0..rows, 0..cols).is_none()
    }

    fn in_place<S: Scalar>(
        &self,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
    ) -> Option<MatRef<'a, S>> {
        match self.scales {
            Some(_) => None,
            None => self.factor.in_place(batch, rows, cols),
        }
    }

    /// Whether [`convert`](Self::convert) writes column after column.
    fn by_columns(&self) -> bool {
        match &self.factor {
            Factor::View(view) => source::by_columns(view),
            Factor::Packed(_) => false,
            Factor::PackedTransposed(_) => true,
        }
    }

    /// The block with its scales, converted into `out`, which has its length.
    fn convert<'b, S: Scalar>(
        &self,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
        out: &'b mut [S],
    ) -> MatRef<'b, S> {
        match (self.factor, &self.scales) {
            (Factor::View(view), scales) => {
                source::converted(&view, batch, [rows, cols], scales.as_ref(), out)
            }
            (Factor::Packed(packed), Some(scales)) => {
                let Some((panel, width)) = packed.panel(batch, cols.start) else {
                    unreachable!("a packed B holds the accumulating type");
                };
                source::scaled_panel(panel, width, scales, batch, [rows, cols], out)
            }
            (Factor::PackedTransposed(packed), Some(scales)) => {
                let plain =
                    Scaled { factor: Factor::Packed(packed), scales: Some(scales.transposed()) };
                plain.convert(batch, cols, rows, out).transpose()
            }
            (Factor::Packed(_) | Factor::PackedTransposed(_), None) => {
                unreachable!("a packed B holds the accumulating type, in panels as wide as blocks")
            }
        }
    }
}

/// Where a factor's elements come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Factor<'a> {
    /// As it lies in memory.
    View(AnyMatrixRef<'a>),
    /// B, packed.
    Packed(&'a CpuPackedB),
    /// B, packed, as the left factor of the transposed product.
    PackedTransposed(&'a CpuPackedB),
}

impl<'a> Factor<'a> {
    /// The same factor with rows and columns exchanged.
    pub(super) fn transposed(self) -> Self {
        match self {
            Self::View(view) => Self::View(view.transposed()),
            Self::Packed(packed) => Self::PackedTransposed(packed),
            Self::PackedTransposed(packed) => Self::Packed(packed),
        }
    }

    fn in_place<S: Scalar>(
        &self,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
    ) -> Option<MatRef<'a, S>> {
        match self {
            Self::View(view) => source::in_place(view, batch, rows, cols),
            Self::Packed(packed) => {
                let (panel, width) = packed.panel(batch, cols.start)?;
                let panel = panel.get(rows.start * width..)?;
                Some(MatRef::from_row_major_slice_with_stride(panel, rows.len(), cols.len(), width))
            }
            Self::PackedTransposed(packed) => {
                Self::Packed(packed).in_place(batch, cols, rows).map(MatRef::transpose)
            }
        }
    }
}

/// A factor as the tasks of a wave read it: in place, else from what was converted for all of them,
/// else converted by each for itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand<'a, S> {
    scaled: Scaled<'a>,
    shared: Option<Part<'a, S>>,
}

/// A part of a factor, converted.
#[derive(Clone, Copy, Debug)]
struct Part<'a, S> {
    /// Which matrix.
    batch: usize,
    /// The factor's row and column that come first.
    first: [usize; 2],
    matrix: MatRef<'a, S>,
}

impl<'a, S: Scalar> Operand<'a, S> {
    /// A factor that was not converted.
    pub(super) fn new(scaled: Scaled<'a>) -> Self {
        Self { scaled, shared: None }
    }

    /// The block where it can be read without converting it.
    pub(super) fn in_place(
        &self,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
    ) -> Option<MatRef<'a, S>> {
        match &self.shared {
            Some(part) if part.batch == batch => {
                let [row, col] = part.first;
                let block = [rows.start.checked_sub(row)?, cols.start.checked_sub(col)?];
                let [row, col] = block;
                let inside = row + rows.len() <= part.matrix.nrows()
                    && col + cols.len() <= part.matrix.ncols();
                inside.then(|| part.matrix.submatrix(row, col, rows.len(), cols.len()))
            }
            _ => self.scaled.in_place(batch, rows, cols),
        }
    }

    /// The block as the kernel reads it, converted into `buffer` if it has to be.
    pub(super) fn block<'b>(
        &self,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
        buffer: &'b mut Buffer<'_, S>,
    ) -> MatRef<'b, S>
    where
        'a: 'b,
    {
        if let Some(block) = self.in_place(batch, rows.clone(), cols.clone()) {
            return block;
        }
        let out = buffer.first(rows.len() * cols.len(), S::ZERO);
        self.scaled.convert(batch, rows, cols, out)
    }
}

/// A part of a factor that is converted once for all tasks of a wave.
pub(super) struct Strip<'s, S> {
    buffer: Buffer<'s, S>,
    /// The matrix, rows and columns that were converted last.
    part: Option<(usize, [Range<usize>; 2])>,
}

/// Elements that one thread converts at a time: enough to be worth handing out.
const CHUNK: usize = 1 << 17;

impl<'s, S: Scalar> Strip<'s, S> {
    pub(super) fn new(scratch: &'s Scratch) -> Self {
        Self { buffer: S::shelf(scratch).take(), part: None }
    }

    /// Converts the rows and columns of a matrix, unless they are what was converted last.
    pub(super) fn convert<'b>(
        &'b mut self,
        pool: Option<&rayon::ThreadPool>,
        scaled: Scaled<'b>,
        batch: usize,
        [rows, cols]: [Range<usize>; 2],
    ) -> Operand<'b, S> {
        let by_columns = scaled.by_columns();
        let [nrows, ncols] = [rows.len(), cols.len()];
        let first = [rows.start, cols.start];
        let out = self.buffer.first(nrows * ncols, S::ZERO);
        let part = Some((batch, [rows.clone(), cols.clone()]));
        if self.part != part {
            let (lines, length) = if by_columns { (ncols, nrows) } else { (nrows, ncols) };
            let lines_of_chunk = CHUNK.div_ceil(length.max(1)).clamp(1, lines.max(1));
            let convert = |(chunk, out): (usize, &mut [S])| {
                let start = chunk * lines_of_chunk;
                let lines = start..start + out.len() / length.max(1);
                let shifted = |first: usize| first + lines.start..first + lines.end;
                if by_columns {
                    scaled.convert(batch, rows.clone(), shifted(first[1]), out);
                } else {
                    scaled.convert(batch, shifted(first[0]), cols.clone(), out);
                }
            };
            let chunk = (lines_of_chunk * length).max(1);
            if nrows * ncols <= chunk {
                convert((0, &mut *out));
            } else {
                let chunks = out.par_chunks_mut(chunk).enumerate();
                tasks::within(pool, || chunks.for_each(convert));
            }
            self.part = part;
        }
        let matrix = source::dense(out, by_columns, nrows, ncols);
        Operand { scaled, shared: Some(Part { batch, first, matrix }) }
    }
}

/// Most bytes that a strip takes; wider ones are not shared, each task converts its blocks.
const STRIP: usize = 128 << 20;

/// Bytes that a cache keeps until the tasks read them: up to here B is converted as a whole even if no
/// two tasks read the same of it, because the rows of a narrow block are short runs to convert.
const CACHED: usize = 4 << 20;

/// The factors of a product with what its tasks share of them.
///
/// A task reads its rows of A and its columns of B. Where blocks lie beside one another their rows are
/// the same, so A is converted once for the whole wave; likewise B, which stays for the next waves.
pub(super) struct Sharing<'a, 's, S> {
    factors: Option<[Scaled<'a>; 2]>,
    strips: [Option<Strip<'s, S>>; 2],
    k: usize,
    cols: usize,
}

impl<'a, 's, S: Scalar> Sharing<'a, 's, S> {
    /// For a product of this shape that is cut into such blocks.
    pub(super) fn new(
        scratch: &'s Scratch,
        factors: Option<[Scaled<'a>; 2]>,
        shape: Shape,
        [block_rows, block_cols]: [usize; 2],
        k: usize,
    ) -> Self {
        let strips = match &factors {
            Some([a, b]) => {
                let bytes = |lines: usize| lines.saturating_mul(k).saturating_mul(size_of::<S>());
                let across = shape.cols > block_cols;
                let a = across && a.is_converted::<S>([shape.rows, k]);
                let shared = shape.rows > block_rows && bytes(shape.cols) <= STRIP;
                let short_runs = across && bytes(shape.cols) <= CACHED;
                let b = (shared || short_runs) && b.is_converted::<S>([k, shape.cols]);
                [a.then(|| Strip::new(scratch)), b.then(|| Strip::new(scratch))]
            }
            None => [None, None],
        };
        Self { factors, strips, k, cols: shape.cols }
    }

    /// Whether a wave must not reach into another matrix.
    pub(super) fn by_matrix(&self) -> bool {
        self.strips.iter().any(Option::is_some)
    }

    /// The factors as the tasks of one wave read them.
    pub(super) fn operands<T>(
        &mut self,
        pool: Option<&rayon::ThreadPool>,
        tasks: &[Task<'_, T>],
    ) -> Option<[Operand<'_, S>; 2]> {
        let [a, b] = self.factors?;
        let (Some(first), Some(last)) = (tasks.first(), tasks.last()) else {
            return Some([a, b].map(Operand::new));
        };
        let (batch, rows) = (first.batch, first.rows.start..last.rows.end);
        let fits = rows.len().saturating_mul(self.k) <= STRIP / size_of::<S>();
        let [a_strip, b_strip] = &mut self.strips;
        let a = match a_strip {
            Some(strip) if fits => strip.convert(pool, a, batch, [rows, 0..self.k]),
            _ => Operand::new(a),
        };
        let b = match b_strip {
            Some(strip) => strip.convert(pool, b, batch, [0..self.k, 0..self.cols]),
            None => Operand::new(b),
        };
        Some([a, b])
    }
}
