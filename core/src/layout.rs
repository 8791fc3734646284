//! Strides, and the arithmetic that proves a view stays inside its storage.

use crate::element::ElementType;

/// Where element (row, column) of matrix `b` lies, relative to element (0, 0) of matrix 0:
/// `b · batch_stride + row · row_stride + column · col_stride`, in elements.
///
/// Strides may be negative (a reversed axis) or 0 (a repeated row, column or matrix of an input).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[allow(clippy::exhaustive_structs, reason = "strides are plain data; there are three axes")]
pub struct Layout {
    /// Elements from one row to the next.
    pub row_stride: isize,
    /// Elements from one column to the next.
    pub col_stride: isize,
    /// Elements from one matrix of a batch to the next.
    pub batch_stride: isize,
}

/// Batch, rows and columns of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "a shape is plain data; there are three axes")]
pub struct Shape {
    /// Matrices in the batch.
    pub batch: usize,
    /// Rows of each matrix.
    pub rows: usize,
    /// Columns of each matrix.
    pub cols: usize,
}

impl Shape {
    /// One matrix of `rows` × `cols`.
    #[must_use]
    pub const fn new(rows: usize, cols: usize) -> Self {
        Self { batch: 1, rows, cols }
    }

    /// Whether there is no element.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.batch == 0 || self.rows == 0 || self.cols == 0
    }

    /// Number of elements, or `None` past the range of `usize`.
    #[must_use]
    pub fn len(self) -> Option<usize> {
        self.batch.checked_mul(self.rows)?.checked_mul(self.cols)
    }

    /// Batch, rows and columns as an array.
    #[must_use]
    pub const fn to_array(self) -> [usize; 3] {
        [self.batch, self.rows, self.cols]
    }
}

/// The lowest and the highest element index a view touches, relative to its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "an inclusive range is plain data")]
pub struct Extent {
    /// Lowest index (0 or negative).
    pub min: i128,
    /// Highest index (0 or positive).
    pub max: i128,
}

impl Layout {
    /// Rows one after the other without gaps; matrices of a batch likewise.
    ///
    /// Saturates past the range of `isize`; a view of such a size fails its bounds check.
    #[must_use]
    pub fn row_major(rows: usize, cols: usize) -> Self {
        let matrix = isize::try_from(rows.saturating_mul(cols)).unwrap_or(isize::MAX);
        Self {
            row_stride: isize::try_from(cols).unwrap_or(isize::MAX),
            col_stride: 1,
            batch_stride: matrix,
        }
    }

    /// Columns one after the other without gaps; matrices of a batch likewise.
    #[must_use]
    pub fn col_major(rows: usize, cols: usize) -> Self {
        Self::row_major(cols, rows).transposed()
    }

    /// The same storage seen with rows and columns exchanged.
    #[must_use]
    pub const fn transposed(self) -> Self {
        Self {
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            batch_stride: self.batch_stride,
        }
    }

    /// Row, column and batch stride as an array.
    #[must_use]
    pub const fn to_array(self) -> [isize; 3] {
        [self.row_stride, self.col_stride, self.batch_stride]
    }

    /// Index of an element relative to the view's offset.
    #[must_use]
    pub const fn index(self, batch: usize, row: usize, col: usize) -> i128 {
        batch as i128 * self.batch_stride as i128
            + row as i128 * self.row_stride as i128
            + col as i128 * self.col_stride as i128
    }

    /// The index range that a view of `shape` touches, or `None` when it touches nothing.
    ///
    /// Saturates at the range of `i128`, far past any storage.
    #[must_use]
    pub fn extent(self, shape: Shape) -> Option<Extent> {
        if shape.is_empty() {
            return None;
        }
        let mut extent = Extent { min: 0, max: 0 };
        for (count, stride) in self.axes(shape) {
            let reach = (count as i128 - 1) * stride as i128;
            if reach < 0 {
                extent.min = extent.min.saturating_add(reach);
            } else {
                extent.max = extent.max.saturating_add(reach);
            }
        }
        Some(extent)
    }

    /// Whether no two elements of a view of `shape` share a place.
    ///
    /// The test sorts the axes by stride and asks each to step over all that the smaller ones span.
    /// It is exact for every layout a matrix library produces; an interleaving that keeps elements
    /// apart in a subtler way is refused.
    #[must_use]
    pub fn is_injective(self, shape: Shape) -> bool {
        if shape.is_empty() {
            return true;
        }
        let mut axes = self.axes(shape);
        axes.sort_by_key(|&(_, stride)| stride.unsigned_abs());
        let mut span: u128 = 0;
        for (count, stride) in axes {
            if count <= 1 {
                continue;
            }
            if (stride.unsigned_abs() as u128) <= span {
                return false;
            }
            let reach = (count as u128 - 1) * stride.unsigned_abs() as u128;
            span = span.saturating_add(reach);
        }
        true
    }

    /// (count, stride) of batch, rows and columns.
    fn axes(self, shape: Shape) -> [(usize, isize); 3] {
        [
            (shape.batch, self.batch_stride),
            (shape.rows, self.row_stride),
            (shape.cols, self.col_stride),
        ]
    }
}

/// A view's place in a storage: offset, shape and layout, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a placement is plain data")]
pub struct Placement {
    /// Index of element (0, 0) of matrix 0.
    pub offset: usize,
    /// Batch, rows and columns.
    pub shape: Shape,
    /// Strides.
    pub layout: Layout,
}

impl Placement {
    /// The same storage with rows and columns exchanged.
    #[must_use]
    pub const fn transposed(self) -> Self {
        let Shape { batch, rows, cols } = self.shape;
        Self {
            offset: self.offset,
            shape: Shape { batch, rows: cols, cols: rows },
            layout: self.layout.transposed(),
        }
    }

    /// The part of `rows` × `cols` of every matrix.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`](crate::Error::LimitExceeded) if a range ends past the matrix or
    /// before its own start.
    pub fn submatrix(
        self,
        rows: core::ops::Range<usize>,
        cols: core::ops::Range<usize>,
    ) -> Result<Self, crate::Error> {
        for (what, range, limit) in [
            ("end of the rows of a submatrix", &rows, self.shape.rows),
            ("end of the columns of a submatrix", &cols, self.shape.cols),
        ] {
            let requested = range.end.max(range.start) as u128;
            let limit = if range.start <= range.end { limit } else { range.end } as u128;
            if requested > limit {
                return Err(crate::Error::LimitExceeded { what, requested, limit });
            }
        }
        let shape = Shape { batch: self.shape.batch, rows: rows.len(), cols: cols.len() };
        let first = self.offset as i128 + self.layout.index(0, rows.start, cols.start);
        // An empty part touches nothing, wherever it starts.
        let offset = if shape.is_empty() { self.offset } else { first as usize };
        Ok(Self { offset, shape, layout: self.layout })
    }

    /// Checks that every element lies in a storage of `len` elements.
    ///
    /// # Errors
    /// [`Error::ViewOutOfBounds`](crate::Error::ViewOutOfBounds) with the first index outside.
    pub fn check_bounds(&self, len: usize) -> Result<(), crate::Error> {
        let Some(extent) = self.layout.extent(self.shape) else {
            return Ok(());
        };
        let first = extent.min.saturating_add(self.offset as i128);
        let last = extent.max.saturating_add(self.offset as i128);
        if first >= 0 && last < len as i128 {
            return Ok(());
        }
        Err(crate::Error::ViewOutOfBounds {
            rows: self.shape.rows,
            cols: self.shape.cols,
            batch: self.shape.batch,
            offset: self.offset,
            row_stride: self.layout.row_stride,
            col_stride: self.layout.col_stride,
            batch_stride: self.layout.batch_stride,
            reached: if first < 0 { first } else { last },
            len,
        })
    }

    /// Checks that a view of a type of less than a byte keeps its lines on whole bytes: rows or
    /// columns are contiguous (stride 1), and the offset and every other stride in use are even.
    /// Views of other types pass.
    ///
    /// # Errors
    /// [`Error::PackedView`](crate::Error::PackedView) with the offset or stride.
    pub fn check_packed(&self, element: ElementType) -> Result<(), crate::Error> {
        if !element.is_packed() || self.shape.is_empty() {
            return Ok(());
        }
        let Shape { batch, rows, cols } = self.shape;
        let Layout { row_stride, col_stride, batch_stride } = self.layout;
        let error = |rule, value| Err(crate::Error::PackedView { element, rule, value });
        if !self.offset.is_multiple_of(2) {
            return error("an even offset", self.offset as i128);
        }
        if batch > 1 && batch_stride % 2 != 0 {
            return error("an even batch stride", batch_stride as i128);
        }
        let by_rows = cols == 1 || col_stride == 1;
        let by_columns = rows == 1 || row_stride == 1;
        match (by_rows, by_columns) {
            (true, true) if rows == 1 || cols == 1 => Ok(()),
            (true, _) if row_stride % 2 == 0 => Ok(()),
            (true, _) => error("an even row stride", row_stride as i128),
            (false, true) if col_stride % 2 == 0 => Ok(()),
            (false, true) => error("an even column stride", col_stride as i128),
            (false, false) => error("a row or column stride of 1", col_stride as i128),
        }
    }

    /// Checks that no two elements share a place, as an output must.
    ///
    /// # Errors
    /// [`Error::OutputOverlapsItself`](crate::Error::OutputOverlapsItself) with the strides.
    pub fn check_injective(&self) -> Result<(), crate::Error> {
        if self.layout.is_injective(self.shape) {
            return Ok(());
        }
        Err(crate::Error::OutputOverlapsItself {
            rows: self.shape.rows,
            cols: self.shape.cols,
            batch: self.shape.batch,
            row_stride: self.layout.row_stride,
            col_stride: self.layout.col_stride,
            batch_stride: self.layout.batch_stride,
        })
    }

    /// The elements from the first to the one past the last touched, or `None` for an empty view.
    ///
    /// Only meaningful after [`check_bounds`](Self::check_bounds).
    #[must_use]
    pub fn span(&self) -> Option<core::ops::Range<usize>> {
        let extent = self.layout.extent(self.shape)?;
        let first = usize::try_from(self.offset as i128 + extent.min).ok()?;
        let end = usize::try_from(self.offset as i128 + extent.max + 1).ok()?;
        Some(first..end)
    }

    /// Whether two views of one storage with equal element sizes can touch a common element.
    ///
    /// Blocks of one matrix (equal row stride, unit column stride, or the transpose of that) are
    /// compared as rectangles, so that neighbouring blocks of a matrix count as apart; any other
    /// pair is compared by the range of indices it spans.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let (Some(a), Some(b)) = (self.span(), other.span()) else {
            return false;
        };
        if a.start >= b.end || b.start >= a.end {
            return false;
        }
        // Rectangles are compared within lines that start where the first of the two does: two blocks
        // of one matrix keep to such lines unless they share columns.
        let origin = self.offset.min(other.offset);
        match (self.as_block(origin), other.as_block(origin)) {
            (Some(x), Some(y)) if x.pitch == y.pitch => x.intersects(&y),
            _ => true,
        }
    }

    /// The view as a rectangle of a matrix whose lines are `pitch` elements long, the first of them
    /// at `origin`.
    fn as_block(&self, origin: usize) -> Option<Block> {
        let Shape { batch, rows, cols } = self.shape;
        if batch > 1 {
            return None;
        }
        let (lines, length, pitch, step) = if self.layout.col_stride == 1 || cols == 1 {
            (rows, cols, self.layout.row_stride, 1)
        } else {
            (cols, rows, self.layout.col_stride, self.layout.row_stride)
        };
        let pitch = usize::try_from(pitch).ok()?;
        if step != 1 || pitch == 0 {
            return None;
        }
        let offset = self.offset - origin;
        let column = offset % pitch;
        // A block whose lines wrap round the pitch is no rectangle.
        (column + length <= pitch).then(|| Block {
            pitch,
            line: offset / pitch,
            lines,
            column,
            length,
        })
    }
}

struct Block {
    pitch: usize,
    line: usize,
    lines: usize,
    column: usize,
    length: usize,
}

impl Block {
    fn intersects(&self, other: &Self) -> bool {
        self.line < other.line + other.lines
            && other.line < self.line + self.lines
            && self.column < other.column + other.length
            && other.column < self.column + self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn elements(p: &Placement) -> Vec<i128> {
        let mut all = Vec::new();
        for b in 0..p.shape.batch {
            for r in 0..p.shape.rows {
                for c in 0..p.shape.cols {
                    all.push(p.offset as i128 + p.layout.index(b, r, c));
                }
            }
        }
        all
    }

    fn placement() -> impl Strategy<Value = Placement> {
        ((0usize..3, 0usize..5, 0usize..5), (-12isize..13, -12isize..13, -30isize..31), 0usize..90)
            .prop_map(|((batch, rows, cols), (row_stride, col_stride, batch_stride), offset)| {
                Placement {
                    offset,
                    shape: Shape { batch, rows, cols },
                    layout: Layout { row_stride, col_stride, batch_stride },
                }
            })
    }

    proptest! {
        #[test]
        fn bounds_agree_with_enumeration(p in placement(), len in 0usize..150) {
            let inside = elements(&p).iter().all(|&i| i >= 0 && i < len as i128);
            prop_assert_eq!(p.check_bounds(len).is_ok(), inside);
        }

        #[test]
        fn injective_never_accepts_a_shared_element(p in placement()) {
            let mut all = elements(&p);
            all.sort_unstable();
            let shared = all.windows(2).any(|w| w[0] == w[1]);
            if p.layout.is_injective(p.shape) {
                prop_assert!(!shared);
            }
        }

        #[test]
        fn disjoint_by_overlap_test_means_disjoint(p in placement(), q in placement()) {
            prop_assume!(p.check_bounds(200).is_ok() && q.check_bounds(200).is_ok());
            if !p.overlaps(&q) {
                let others = elements(&q);
                prop_assert!(elements(&p).iter().all(|i| !others.contains(i)));
            }
        }
    }

    #[test]
    fn blocks_of_one_matrix_are_apart() {
        let block = |offset, rows, cols| Placement {
            offset,
            shape: Shape::new(rows, cols),
            layout: Layout { row_stride: 8, col_stride: 1, batch_stride: 0 },
        };
        assert!(!block(0, 4, 4).overlaps(&block(4, 4, 4)));
        assert!(block(0, 4, 5).overlaps(&block(4, 4, 4)));
        assert!(!block(0, 4, 8).overlaps(&block(32, 4, 8)));
        // The matrix need not start at a multiple of its own row length.
        assert!(!block(5, 4, 4).overlaps(&block(9, 4, 4)));
        assert!(!block(9, 4, 4).overlaps(&block(13, 4, 4)));
        assert!(block(9, 4, 5).overlaps(&block(13, 4, 4)));
    }

    #[test]
    fn ordinary_outputs_are_injective() {
        let shape = Shape { batch: 3, rows: 4, cols: 5 };
        assert!(Layout::row_major(4, 5).is_injective(shape));
        assert!(Layout::col_major(4, 5).is_injective(shape));
        let repeated = Layout { row_stride: 0, col_stride: 1, batch_stride: 20 };
        assert!(!repeated.is_injective(shape));
    }
}
