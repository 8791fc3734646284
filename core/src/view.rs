//! Views of host memory: a slice, a shape and strides, with the bounds proven at construction.

use crate::element::{self, Element, ElementType};
use crate::error::Error;
use crate::layout::{Layout, Placement, Shape};

/// A read-only matrix (or batch of matrices) of elements of type `T` in host memory.
///
/// Construction proves that every element lies in the slice, so no later step can read outside.
#[derive(Clone, Copy, Debug)]
pub struct MatrixRef<'a, T> {
    data: &'a [T],
    placement: Placement,
}

/// A writable matrix (or batch of matrices) of elements of type `T` in host memory.
///
/// Besides the bounds, construction proves that no two elements share a place.
#[derive(Debug)]
pub struct MatrixMut<'a, T> {
    data: &'a mut [T],
    placement: Placement,
}

impl<'a, T: Element> MatrixRef<'a, T> {
    /// A row-major matrix of `rows` × `cols` at the start of `data`.
    ///
    /// # Errors
    /// [`Error::ViewOutOfBounds`] if the slice is shorter than `rows · cols`.
    pub fn row_major(data: &'a [T], rows: usize, cols: usize) -> Result<Self, Error> {
        Self::strided(data, 0, Shape::new(rows, cols), Layout::row_major(rows, cols))
    }

    /// A column-major matrix of `rows` × `cols` at the start of `data`.
    ///
    /// # Errors
    /// [`Error::ViewOutOfBounds`] if the slice is shorter than `rows · cols`.
    pub fn col_major(data: &'a [T], rows: usize, cols: usize) -> Result<Self, Error> {
        Self::strided(data, 0, Shape::new(rows, cols), Layout::col_major(rows, cols))
    }

    /// A batch of row-major matrices, one after the other.
    ///
    /// # Errors
    /// [`Error::ViewOutOfBounds`] if the slice is shorter than `batch · rows · cols`.
    pub fn batched(data: &'a [T], batch: usize, rows: usize, cols: usize) -> Result<Self, Error> {
        Self::strided(data, 0, Shape { batch, rows, cols }, Layout::row_major(rows, cols))
    }

    /// Any strided view: element (0, 0) of matrix 0 is `data[offset]`.
    ///
    /// # Errors
    /// [`Error::ViewOutOfBounds`] if any element lies outside `data`.
    pub fn strided(
        data: &'a [T],
        offset: usize,
        shape: Shape,
        layout: Layout,
    ) -> Result<Self, Error> {
        let placement = Placement { offset, shape, layout };
        placement.check_bounds(data.len())?;
        Ok(Self { data, placement })
    }

    /// The same elements with rows and columns exchanged; nothing is copied.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { data: self.data, placement: self.placement.transposed() }
    }

    /// The part of `rows` × `cols` (of every matrix of a batch); nothing is copied.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] if a range ends past the matrix.
    pub fn submatrix(
        self,
        rows: core::ops::Range<usize>,
        cols: core::ops::Range<usize>,
    ) -> Result<Self, Error> {
        Ok(Self { data: self.data, placement: self.placement.submatrix(rows, cols)? })
    }

    /// Batch, rows and columns.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.placement.shape
    }

    /// The view without its element type in the Rust type.
    #[must_use]
    pub fn erase(self) -> AnyMatrixRef<'a> {
        AnyMatrixRef {
            bytes: bytemuck::cast_slice(self.data),
            element: T::TYPE,
            placement: self.placement,
        }
    }
}

impl<'a, T: Element> MatrixMut<'a, T> {
    /// A row-major matrix of `rows` × `cols` at the start of `data`.
    ///
    /// # Errors
    /// [`Error::ViewOutOfBounds`] if the slice is shorter than `rows · cols`.
    pub fn row_major(data: &'a mut [T], rows: usize, cols: usize) -> Result<Self, Error> {
        Self::strided(data, 0, Shape::new(rows, cols), Layout::row_major(rows, cols))
    }

    /// Any strided view whose elements are apart: element (0, 0) of matrix 0 is `data[offset]`.
    ///
    /// # Errors
    /// [`Error::ViewOutOfBounds`] or [`Error::OutputOverlapsItself`].
    pub fn strided(
        data: &'a mut [T],
        offset: usize,
        shape: Shape,
        layout: Layout,
    ) -> Result<Self, Error> {
        let placement = Placement { offset, shape, layout };
        placement.check_bounds(data.len())?;
        placement.check_injective()?;
        Ok(Self { data, placement })
    }

    /// The part of `rows` × `cols` (of every matrix of a batch); nothing is copied.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] if a range ends past the matrix.
    pub fn submatrix(
        self,
        rows: core::ops::Range<usize>,
        cols: core::ops::Range<usize>,
    ) -> Result<Self, Error> {
        Ok(Self { placement: self.placement.submatrix(rows, cols)?, data: self.data })
    }

    /// The view without its element type in the Rust type.
    #[must_use]
    pub fn erase(self) -> AnyMatrixMut<'a> {
        AnyMatrixMut {
            bytes: bytemuck::cast_slice_mut(self.data),
            element: T::TYPE,
            placement: self.placement,
        }
    }
}

/// A read-only view whose element type is known at run time.
#[derive(Clone, Copy, Debug)]
pub struct AnyMatrixRef<'a> {
    bytes: &'a [u8],
    element: ElementType,
    placement: Placement,
}

/// A writable view whose element type is known at run time.
#[derive(Debug)]
pub struct AnyMatrixMut<'a> {
    bytes: &'a mut [u8],
    element: ElementType,
    placement: Placement,
}

impl<'a, T: Element> From<MatrixRef<'a, T>> for AnyMatrixRef<'a> {
    fn from(view: MatrixRef<'a, T>) -> Self {
        view.erase()
    }
}

impl<'a, T: Element> From<MatrixMut<'a, T>> for AnyMatrixMut<'a> {
    fn from(view: MatrixMut<'a, T>) -> Self {
        view.erase()
    }
}

impl<'a> AnyMatrixRef<'a> {
    /// A view of raw bytes; `bytes` needs no alignment, a trailing part of an element is ignored.
    ///
    /// # Errors
    /// [`Error::ViewOutOfBounds`] if any element lies outside; [`Error::PackedView`] if a line of a
    /// 4-bit type would start inside a byte (see [`Placement::check_packed`]).
    pub fn new(bytes: &'a [u8], element: ElementType, placement: Placement) -> Result<Self, Error> {
        placement.check_bounds(element.capacity(bytes.len()))?;
        placement.check_packed(element)?;
        Ok(Self { bytes, element, placement })
    }

    /// The storage, all of it, as bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The element type.
    #[must_use]
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Offset, shape and strides.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Batch, rows and columns.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.placement.shape
    }

    /// The same elements with rows and columns exchanged; nothing is copied.
    #[must_use]
    pub fn transposed(self) -> Self {
        Self { placement: self.placement.transposed(), ..self }
    }

    /// The exact value of one element.
    ///
    /// # Panics
    /// If the position lies outside the view.
    #[must_use]
    pub fn get(&self, batch: usize, row: usize, col: usize) -> f64 {
        element::read_f64(self.element, self.bytes, index_in(&self.placement, batch, row, col))
    }
}

impl<'a> AnyMatrixMut<'a> {
    /// A writable view of bytes that hold elements of type `element`, which may start at any address.
    ///
    /// # Errors
    /// [`Error::ViewOutOfBounds`] or [`Error::OutputOverlapsItself`].
    pub fn from_bytes(
        bytes: &'a mut [u8],
        element: ElementType,
        placement: Placement,
    ) -> Result<Self, Error> {
        placement.check_bounds(element.capacity(bytes.len()))?;
        placement.check_packed(element)?;
        placement.check_injective()?;
        Ok(Self { bytes, element, placement })
    }

    /// The element type.
    #[must_use]
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Offset, shape and strides.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Batch, rows and columns.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.placement.shape
    }

    /// The storage, all of it, as bytes.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// A read-only view of the same elements.
    #[must_use]
    pub fn as_ref(&self) -> AnyMatrixRef<'_> {
        AnyMatrixRef { bytes: self.bytes, element: self.element, placement: self.placement }
    }

    /// Copies a view of equal shape and element type into this one, element by element.
    ///
    /// # Panics
    /// If shape or element type differ; the library calls it with both taken from one problem.
    pub fn copy_from(&mut self, source: AnyMatrixRef<'_>) {
        assert_eq!(source.shape(), self.shape());
        assert_eq!(source.element(), self.element);
        let Shape { batch, rows, cols } = self.shape();
        if self.element.is_packed() {
            // Copied one by one: neighbours share bytes.
            for (b, r, c) in (0..batch)
                .flat_map(|b| (0..rows).flat_map(move |r| (0..cols).map(move |c| (b, r, c))))
            {
                let to = index_in(&self.placement, b, r, c);
                element::write_f64(self.element, self.bytes, to, source.get(b, r, c));
            }
            return;
        }
        let size = self.element.size();
        let contiguous =
            self.placement.layout.col_stride == 1 && source.placement.layout.col_stride == 1;
        for b in 0..batch {
            for r in 0..rows {
                let run = if contiguous { cols } else { 1 };
                let mut c = 0;
                while c < cols {
                    let to = index_in(&self.placement, b, r, c) * size;
                    let from = index_in(&source.placement, b, r, c) * size;
                    self.bytes[to..to + run * size]
                        .copy_from_slice(&source.bytes[from..from + run * size]);
                    c += run;
                }
            }
        }
    }
}

/// Storage index of an element of a view whose bounds were proven.
fn index_in(placement: &Placement, batch: usize, row: usize, col: usize) -> usize {
    let Shape { batch: batches, rows, cols } = placement.shape;
    assert!(
        batch < batches && row < rows && col < cols,
        "element ({batch}, {row}, {col}) of a view of {batches}x{rows}x{cols}"
    );
    let Layout { row_stride, col_stride, batch_stride } = placement.layout;
    // The result lies in the storage; products on the way may wrap, and wrap back.
    placement
        .offset
        .wrapping_add_signed(batch_stride.wrapping_mul(batch as isize))
        .wrapping_add_signed(row_stride.wrapping_mul(row as isize))
        .wrapping_add_signed(col_stride.wrapping_mul(col as isize))
}

/// A read-only vector whose element type is known at run time: the bias, or scales.
#[derive(Clone, Copy, Debug)]
pub struct AnyVectorRef<'a> {
    bytes: &'a [u8],
    element: ElementType,
}

impl<'a, T: Element> From<&'a [T]> for AnyVectorRef<'a> {
    fn from(values: &'a [T]) -> Self {
        Self { bytes: bytemuck::cast_slice(values), element: T::TYPE }
    }
}

impl<'a, T: Element> From<&'a Vec<T>> for AnyVectorRef<'a> {
    fn from(values: &'a Vec<T>) -> Self {
        values.as_slice().into()
    }
}

impl<'a, T: Element, const N: usize> From<&'a [T; N]> for AnyVectorRef<'a> {
    fn from(values: &'a [T; N]) -> Self {
        values.as_slice().into()
    }
}

impl<'a> AnyVectorRef<'a> {
    /// A vector over raw bytes; a trailing part of an element is ignored.
    #[must_use]
    pub fn new(bytes: &'a [u8], element: ElementType) -> Self {
        Self { bytes, element }
    }

    /// The storage as bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The element type.
    #[must_use]
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.element.capacity(self.bytes.len())
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The exact value at `index`.
    ///
    /// # Panics
    /// If `index` lies past the end.
    #[must_use]
    pub fn get(&self, index: usize) -> f64 {
        element::read_f64(self.element, self.bytes, index)
    }
}

/// An owned row-major result (a batch of them, one after the other) in host memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    bytes: Vec<u8>,
    element: ElementType,
    shape: Shape,
}

impl Matrix {
    /// A matrix of zeros.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] if its size in bytes passes the range of `isize`;
    /// [`Error::OutOfMemory`] if the host has not that much; [`Error::PackedView`] for rows of a
    /// 4-bit type that are no whole number of bytes.
    pub fn zeros(element: ElementType, shape: Shape) -> Result<Self, Error> {
        let layout = Layout::row_major(shape.rows, shape.cols);
        Placement { offset: 0, shape, layout }.check_packed(element)?;
        let len = shape.len().map(|len| element.bytes_for(len));
        let bytes = match len {
            Some(bytes) if isize::try_from(bytes).is_ok() => bytes,
            _ => {
                return Err(Error::LimitExceeded {
                    what: "bytes of a matrix",
                    requested: shape.to_array().iter().map(|&d| d as u128).product::<u128>()
                        * element.size() as u128,
                    limit: isize::MAX as u128,
                });
            }
        };
        let mut storage = Vec::new();
        storage.try_reserve_exact(bytes).map_err(|_| Error::OutOfMemory {
            requested: bytes as u64,
            what: "a result matrix".into(),
            device: "host".into(),
        })?;
        storage.resize(bytes, 0);
        Ok(Self { bytes: storage, element, shape })
    }

    /// A matrix with these elements, row-major, matrix after matrix.
    #[cfg(any(feature = "ndarray", feature = "faer"))]
    pub(crate) fn from_elements<T: Element>(
        shape: Shape,
        elements: impl Iterator<Item = T>,
    ) -> Self {
        let elements: Vec<T> = elements.collect();
        Self { bytes: bytemuck::cast_slice(&elements).to_vec(), element: T::TYPE, shape }
    }

    /// The element type.
    #[must_use]
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Batch, rows and columns.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// All elements, row-major, matrix after matrix, as bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// As [`bytes`](Self::bytes), writable.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// A read-only view of the whole.
    #[must_use]
    pub fn as_ref(&self) -> AnyMatrixRef<'_> {
        AnyMatrixRef { bytes: &self.bytes, element: self.element, placement: self.placement() }
    }

    /// A writable view of the whole.
    #[must_use]
    pub fn as_mut(&mut self) -> AnyMatrixMut<'_> {
        let placement = self.placement();
        AnyMatrixMut { bytes: &mut self.bytes, element: self.element, placement }
    }

    /// The elements as a vector of `T`, row-major, matrix after matrix.
    ///
    /// # Errors
    /// [`Error::ElementTypeMismatch`] if the matrix holds another type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        if T::TYPE != self.element {
            return Err(Error::ElementTypeMismatch {
                operand: crate::error::Operand::C,
                found: self.element,
                expected: T::TYPE,
            });
        }
        Ok(bytemuck::pod_collect_to_vec(&self.bytes))
    }

    fn placement(&self) -> Placement {
        Placement {
            offset: 0,
            shape: self.shape,
            layout: Layout::row_major(self.shape.rows, self.shape.cols),
        }
    }
}
