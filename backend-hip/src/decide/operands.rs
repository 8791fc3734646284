//! What the strides of A and C allow.

use lapidary_core::{Layout, Problem};

/// Offsets within the rows that one workgroup reads or writes are 32-bit; no tile has more rows.
const MAX_TILE_ROWS: usize = 512;
const MAX_SPAN: u128 = 1 << 31;

/// How the rows of A lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowsOfA {
    /// Elements adjacent along K, every row a multiple of 16 bytes after the first.
    Aligned,
    /// Elements adjacent along K.
    Unaligned,
    /// Anything else: a transpose, rows backwards, rows too far apart.
    Scattered,
}

/// How the rows of C lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowsOfC {
    /// Whether elements of a row are adjacent and rows follow each other upwards.
    pub(super) contiguous: bool,
    /// 8, 4 or 1: elements that N and every row's distance from the first are multiples of.
    pub(super) alignment: usize,
}

/// Looks at A's strides; the address of its first element is not known yet.
pub(super) fn rows_of_a(problem: &Problem) -> RowsOfA {
    let Layout { row_stride, col_stride, batch_stride } = problem.a_layout;
    let bits = problem.a.bits() as i128;
    let adjacent = problem.k == 1 || col_stride == 1;
    let reach = span(problem.m, row_stride, problem.a.bits());
    if !adjacent || (problem.m > 1 && row_stride < 0) || reach >= MAX_SPAN {
        return RowsOfA::Scattered;
    }
    let aligned = |count: usize, stride: isize| count <= 1 || (stride as i128 * bits / 8) % 16 == 0;
    if aligned(problem.m, row_stride) && aligned(problem.batch, batch_stride) {
        RowsOfA::Aligned
    } else {
        RowsOfA::Unaligned
    }
}

/// Looks at C's strides.
pub(super) fn rows_of_c(problem: &Problem) -> RowsOfC {
    let Layout { row_stride, col_stride, batch_stride } = problem.c_layout;
    let adjacent = problem.n == 1 || col_stride == 1;
    let upwards = problem.m == 1 || row_stride > 0;
    let reach = span(problem.m, row_stride, problem.c.bits());
    let multiple = |of: usize| {
        let stride =
            |count: usize, stride: isize| count <= 1 || stride.unsigned_abs().is_multiple_of(of);
        problem.n.is_multiple_of(of)
            && stride(problem.m, row_stride)
            && stride(problem.batch, batch_stride)
    };
    RowsOfC {
        contiguous: adjacent && upwards && reach < MAX_SPAN,
        alignment: [8, 4].into_iter().find(|&of| multiple(of)).unwrap_or(1),
    }
}

/// Bytes from a tile's first row to its last.
fn span(rows: usize, stride: isize, bits: usize) -> u128 {
    if rows <= 1 {
        return 0;
    }
    rows.min(MAX_TILE_ROWS) as u128 * stride.unsigned_abs() as u128 * bits as u128 / 8
}
