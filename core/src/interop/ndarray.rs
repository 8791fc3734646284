//! Views of `ndarray` arrays: two axes are rows and columns, three are batch, rows and columns.

use ndarray::{Array2, Array3, ArrayView2, ArrayView3, ArrayViewMut2, ArrayViewMut3};

use super::{has_gaps, place};
use crate::element::Element;
use crate::error::Error;
use crate::layout::Shape;
use crate::view::{Matrix, MatrixMut, MatrixRef};

/// Shape and strides of an array's last two axes, and of the one before if there is one.
fn describe(shape: &[usize], strides: &[isize]) -> (Shape, [isize; 3]) {
    match (shape, strides) {
        (&[batch, rows, cols], &[b, r, c]) => (Shape { batch, rows, cols }, [b, r, c]),
        (&[rows, cols], &[r, c]) => (Shape::new(rows, cols), [0, r, c]),
        _ => (Shape::new(0, 0), [0; 3]),
    }
}

macro_rules! views {
    ($owned:ident, $view:ident, $view_mut:ident) => {
        impl<'a, T: Element> TryFrom<$view<'a, T>> for MatrixRef<'a, T> {
            type Error = Error;

            /// Views the array without copying; transposed and reversed axes are fine.
            fn try_from(array: $view<'a, T>) -> Result<Self, Error> {
                let (shape, strides) = describe(array.shape(), array.strides());
                let (layout, offset) = place(shape, strides);
                match array.to_slice_memory_order() {
                    Some(data) => MatrixRef::strided(data, offset, shape, layout),
                    None => Err(has_gaps("ndarray", shape, strides)),
                }
            }
        }

        impl<'a, T: Element> TryFrom<&'a $owned<T>> for MatrixRef<'a, T> {
            type Error = Error;

            /// Views the array without copying.
            fn try_from(array: &'a $owned<T>) -> Result<Self, Error> {
                array.view().try_into()
            }
        }

        impl<'a, T: Element> TryFrom<$view_mut<'a, T>> for MatrixMut<'a, T> {
            type Error = Error;

            /// Views the array without copying; transposed and reversed axes are fine.
            fn try_from(array: $view_mut<'a, T>) -> Result<Self, Error> {
                let (shape, strides) = describe(array.shape(), array.strides());
                let (layout, offset) = place(shape, strides);
                match array.into_slice_memory_order() {
                    Some(data) => MatrixMut::strided(data, offset, shape, layout),
                    None => Err(has_gaps("ndarray", shape, strides)),
                }
            }
        }

        impl<'a, T: Element> TryFrom<&'a mut $owned<T>> for MatrixMut<'a, T> {
            type Error = Error;

            /// Views the array without copying.
            fn try_from(array: &'a mut $owned<T>) -> Result<Self, Error> {
                array.view_mut().try_into()
            }
        }

        impl<T: Element> From<$view<'_, T>> for Matrix {
            /// Copies the array, whatever its strides.
            fn from(array: $view<'_, T>) -> Self {
                let (shape, _) = describe(array.shape(), array.strides());
                Matrix::from_elements(shape, array.iter().copied())
            }
        }
    };
}

views!(Array2, ArrayView2, ArrayViewMut2);
views!(Array3, ArrayView3, ArrayViewMut3);
