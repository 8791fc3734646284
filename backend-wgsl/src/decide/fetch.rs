//! How operands are fetched, as their strides allow.

use lapidary_core::Layout;

/// How an operand is fetched from global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Fetch {
    /// Whether neighbouring elements of a fetch are neighbours along K, not across it.
    pub along_k: bool,
    /// Elements a load fetches: 1, 2 or 4; 8 for cooperative matrices.
    pub width: u32,
}

impl Fetch {
    /// One element after the other along K.
    pub(crate) const SCALAR: Self = Self { along_k: true, width: 1 };

    /// How the vector kernel fetches an operand with these strides: along the axis whose elements
    /// are closest, four at a time where every line starts at a multiple of four.
    pub(crate) fn of(side: Lines, aligned: bool) -> Self {
        let along_k = side.line_stride != 1
            && (side.k_stride == 1
                || side.k_stride.unsigned_abs() <= side.line_stride.unsigned_abs());
        let width = if aligned && side.allows(along_k, 4) { 4 } else { 1 };
        Self { along_k, width }
    }
}

/// An operand seen as lines along K: rows of A, columns of B.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    line_stride: isize,
    k_stride: isize,
    batch_stride: isize,
    batch: usize,
}

impl Lines {
    pub(crate) const fn of_a(layout: Layout, batch: usize) -> Self {
        Self {
            line_stride: layout.row_stride,
            k_stride: layout.col_stride,
            batch_stride: layout.batch_stride,
            batch,
        }
    }

    pub(crate) const fn of_b(layout: Layout, batch: usize) -> Self {
        Self::of_a(layout.transposed(), batch)
    }

    /// Whether elements adjacent along K, or across it, come in vectors of `width` that never share
    /// one with another line, first offset aside.
    pub(crate) const fn allows(self, along_k: bool, width: isize) -> bool {
        let (near, far) = if along_k {
            (self.k_stride, self.line_stride)
        } else {
            (self.line_stride, self.k_stride)
        };
        near == 1 && far % width == 0 && (self.batch == 1 || self.batch_stride % width == 0)
    }
}
