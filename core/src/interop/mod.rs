//! Zero-copy views of other crates' matrices.
//!
//! A view of this library is a slice, and a slice must hold nothing but initialised elements that
//! nobody else may write. Arrays whose elements lie together in memory, in any order of axes and
//! directions, are viewed as they are. One with gaps is refused: a gap may be uninitialised padding,
//! or belong to somebody who writes it. [`Matrix`](crate::Matrix) copies such an array, and
//! [`MatrixRef::submatrix`](crate::MatrixRef::submatrix) takes a part of a whole one without a copy.

#[cfg(feature = "faer")]
mod faer;
#[cfg(feature = "ndarray")]
mod ndarray;

use crate::error::Error;
use crate::layout::{Layout, Shape};

/// The layout and the offset of element (0, 0) in a slice that starts at the lowest address.
fn place(shape: Shape, strides: [isize; 3]) -> (Layout, usize) {
    let [batch_stride, row_stride, col_stride] = strides;
    let layout = Layout { row_stride, col_stride, batch_stride };
    let offset = layout.extent(shape).map_or(0, |extent| extent.min.unsigned_abs() as usize);
    (layout, offset)
}

fn has_gaps(crate_name: &str, shape: Shape, strides: [isize; 3]) -> Error {
    Error::UnsupportedView {
        reason: format!(
            "the elements of this {crate_name} array of {}x{}x{} with strides {strides:?} \
             (batch, rows, columns) do not lie together in memory; view the whole array and take \
             MatrixRef::submatrix, or copy it with Matrix::from",
            shape.batch, shape.rows, shape.cols
        ),
    }
}
