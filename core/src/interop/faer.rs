//! Views of `faer` matrices.

use core::slice;

use faer::{MatMut, MatRef};

use super::{has_gaps, place};
use crate::element::Element;
use crate::error::Error;
use crate::layout::{Layout, Shape};
use crate::view::{Matrix, MatrixMut, MatrixRef};

/// Layout, offset, and number of elements of a matrix whose elements fill their span.
fn gapless(
    rows: usize,
    cols: usize,
    row_stride: isize,
    col_stride: isize,
) -> Result<(Shape, Layout, usize, usize), Error> {
    let shape = Shape::new(rows, cols);
    let strides = [0, row_stride, col_stride];
    let (layout, offset) = place(shape, strides);
    let Some(extent) = layout.extent(shape) else {
        return Ok((shape, layout, 0, 0));
    };
    let len = rows * cols;
    if extent.max - extent.min + 1 == len as i128 && layout.is_injective(shape) {
        Ok((shape, layout, offset, len))
    } else {
        Err(has_gaps("faer", shape, strides))
    }
}

impl<'a, T: Element> TryFrom<MatRef<'a, T>> for MatrixRef<'a, T> {
    type Error = Error;

    /// Views the matrix without copying, if its columns are not padded.
    fn try_from(matrix: MatRef<'a, T>) -> Result<Self, Error> {
        let (shape, layout, offset, len) =
            gapless(matrix.nrows(), matrix.ncols(), matrix.row_stride(), matrix.col_stride())?;
        if len == 0 {
            return MatrixRef::strided(&[], 0, shape, layout);
        }
        // SAFETY: the matrix has `len` elements in distinct places that span exactly `len` places,
        // `offset` of them below element (0, 0): the slice holds the matrix's own elements and
        // nothing else, all initialised and borrowed for 'a.
        let data = unsafe { slice::from_raw_parts(matrix.as_ptr().sub(offset), len) };
        MatrixRef::strided(data, offset, shape, layout)
    }
}

impl<'a, T: Element> TryFrom<MatMut<'a, T>> for MatrixMut<'a, T> {
    type Error = Error;

    /// Views the matrix without copying, if its columns are not padded.
    fn try_from(matrix: MatMut<'a, T>) -> Result<Self, Error> {
        let (shape, layout, offset, len) =
            gapless(matrix.nrows(), matrix.ncols(), matrix.row_stride(), matrix.col_stride())?;
        if len == 0 {
            return MatrixMut::strided(&mut [], 0, shape, layout);
        }
        // SAFETY: as above, and the matrix, consumed here, borrowed its elements mutably for 'a.
        let data = unsafe { slice::from_raw_parts_mut(matrix.as_ptr_mut().sub(offset), len) };
        MatrixMut::strided(data, offset, shape, layout)
    }
}

impl<T: Element> From<MatRef<'_, T>> for Matrix {
    /// Copies the matrix, whatever its strides.
    fn from(matrix: MatRef<'_, T>) -> Self {
        let shape = Shape::new(matrix.nrows(), matrix.ncols());
        let rows = 0..shape.rows;
        let elements = rows.flat_map(|r| (0..shape.cols).map(move |c| matrix[(r, c)]));
        Matrix::from_elements(shape, elements)
    }
}
