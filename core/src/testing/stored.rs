//! Matrices in storages with canaries all around them.

use crate::element::{self, ElementType};
use crate::layout::{Layout, Placement, Shape};
use crate::view::AnyMatrixRef;

/// Canary elements before and after a view.
const MARGIN: usize = 5;

/// How a matrix lies in its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arrangement {
    /// Rows one after the other, no margin: nothing but the view.
    Dense,
    /// Rows one after the other.
    RowMajor,
    /// Columns one after the other: a transpose.
    ColMajor,
    /// Rows with three elements between them: a sub-matrix.
    Padded,
    /// Columns with three elements between them: a transposed sub-matrix.
    PaddedColMajor,
    /// Every second element of a row, rows with gaps.
    Spread,
    /// Rows from the last to the first: a negative row stride.
    ReversedRows,
    /// Columns from the last to the first: a negative column stride.
    ReversedCols,
    /// Rows with gaps between them, each starting at a multiple of 16 elements, in a storage that ends
    /// at one: what vector loads of any width can read.
    Aligned,
    /// The same from the last row to the first: a negative row stride that vector loads can have.
    ReversedAligned,
    /// Every row is the same memory (row stride 0): inputs only.
    RepeatedRow,
    /// All matrices of a batch are the same memory (batch stride 0): inputs only.
    SharedBatch,
    /// The first rows of all matrices, then the second rows, and so on: matrices are closer to each
    /// other than rows.
    InterleavedBatch,
    /// Matrices from the last to the first: a negative batch stride.
    ReversedBatch,
    /// Rows that each start at a multiple of 16 elements as far as the first matrix goes; the others
    /// start between two.
    UnalignedBatch,
}

/// Elements that [`Arrangement::Aligned`] aligns rows to.
const ALIGNMENT: usize = 16;

impl Arrangement {
    /// Every arrangement an output may have.
    pub const OUTPUTS: [Self; 13] = [
        Self::Dense,
        Self::RowMajor,
        Self::ColMajor,
        Self::Padded,
        Self::PaddedColMajor,
        Self::Spread,
        Self::ReversedRows,
        Self::ReversedCols,
        Self::Aligned,
        Self::InterleavedBatch,
        Self::ReversedBatch,
        Self::UnalignedBatch,
        Self::ReversedAligned,
    ];

    /// Every arrangement an input may have.
    pub const INPUTS: [Self; 15] = [
        Self::Dense,
        Self::RowMajor,
        Self::ColMajor,
        Self::Padded,
        Self::PaddedColMajor,
        Self::Spread,
        Self::ReversedRows,
        Self::ReversedCols,
        Self::Aligned,
        Self::RepeatedRow,
        Self::SharedBatch,
        Self::InterleavedBatch,
        Self::ReversedBatch,
        Self::UnalignedBatch,
        Self::ReversedAligned,
    ];

    /// Whether it differs from others by how the matrices of a batch lie.
    #[must_use]
    pub fn is_of_batches(self) -> bool {
        matches!(
            self,
            Self::SharedBatch | Self::InterleavedBatch | Self::ReversedBatch | Self::UnalignedBatch
        )
    }

    /// As [`place`](Self::place), for elements of type `element`: lines of a 4-bit type are filled up
    /// to whole bytes, and arrangements that it cannot have (elements apart, or backwards, within a
    /// line) have gaps between lines or lines backwards instead.
    #[must_use]
    pub fn place_for(self, element: ElementType, shape: Shape) -> (Placement, usize) {
        if !element.is_packed() {
            return self.place(shape);
        }
        let arrangement = match self {
            Self::Spread => Self::Padded,
            Self::ReversedCols => Self::ReversedRows,
            other => other,
        };
        let (place, _) = arrangement.place(shape);
        let even = |stride: isize| if stride == 1 { 1 } else { stride.saturating_add(stride % 2) };
        let Layout { row_stride, col_stride, .. } = place.layout;
        let (mut row_stride, mut col_stride) = (even(row_stride), even(col_stride));
        if col_stride == 1 && row_stride == 1 {
            // Lines of one element: still one byte each.
            if matches!(arrangement, Self::ColMajor | Self::PaddedColMajor) {
                col_stride = 2;
            } else {
                row_stride = 2;
            }
        }
        let matrix = Layout { row_stride, col_stride, batch_stride: 0 };
        let one = matrix.extent(Shape { batch: 1, ..shape });
        let span = one.map_or(0, |extent| extent.max.saturating_sub(extent.min).saturating_add(1));
        let batch_stride = even(stride(span.saturating_add(1)));
        let layout = match self {
            Self::SharedBatch => matrix,
            Self::InterleavedBatch => {
                let between = (shape.batch as i128).saturating_mul(row_stride as i128);
                Layout { row_stride: stride(between), batch_stride: row_stride, ..matrix }
            }
            Self::ReversedBatch => Layout { batch_stride: -batch_stride, ..matrix },
            _ => Layout { batch_stride, ..matrix },
        };
        let margin = match self {
            Self::Dense => 0,
            Self::Aligned | Self::ReversedAligned | Self::UnalignedBatch => ALIGNMENT,
            _ => MARGIN + 1,
        };
        match layout.extent(shape) {
            None => (Placement { offset: margin, shape, layout }, 2 * margin),
            Some(extent) => {
                let offset = even_up(length(margin as u128 + extent.min.unsigned_abs()));
                let last = (offset as u128).saturating_add(extent.max.unsigned_abs());
                let len = even_up(length(last.saturating_add(1))).saturating_add(margin);
                (Placement { offset, shape, layout }, self.rounded(len))
            }
        }
    }

    /// Where a matrix of `shape` lies in a storage made for it, and how long that storage is.
    ///
    /// Strides saturate past the range of `isize`, and so does the length then: there is no storage of
    /// such a size.
    #[must_use]
    pub fn place(self, shape: Shape) -> (Placement, usize) {
        let Shape { rows, cols, .. } = shape;
        // Elements of `lines` lines, `pitch` apart, and `more`.
        let lines = |lines: usize, pitch: i128, more: i128| {
            stride((lines as i128).saturating_mul(pitch).saturating_add(more))
        };
        let padded = |rows: usize, cols: usize| Layout {
            row_stride: stride(cols as i128 + 3),
            col_stride: 1,
            batch_stride: lines(rows, cols as i128 + 3, 2),
        };
        let layout = match self {
            Self::Dense | Self::RowMajor => Layout::row_major(rows, cols),
            Self::ColMajor => Layout::col_major(rows, cols),
            Self::Padded => padded(rows, cols),
            Self::PaddedColMajor => padded(cols, rows).transposed(),
            Self::Spread => {
                let pitch = 2 * cols as i128 + 1;
                Layout {
                    row_stride: stride(pitch),
                    col_stride: 2,
                    batch_stride: lines(rows, pitch, 0),
                }
            }
            Self::ReversedRows => {
                Layout { row_stride: -stride(cols as i128), ..Layout::row_major(rows, cols) }
            }
            Self::ReversedCols => Layout { col_stride: -1, ..Layout::row_major(rows, cols) },
            Self::Aligned | Self::UnalignedBatch => {
                let pitch = (cols as u128 + 1).next_multiple_of(ALIGNMENT as u128) as i128;
                let more = if self == Self::Aligned { ALIGNMENT as i128 } else { 2 };
                Layout {
                    row_stride: stride(pitch),
                    col_stride: 1,
                    batch_stride: lines(rows, pitch, more),
                }
            }
            Self::ReversedAligned => {
                let forwards = Self::Aligned.place(shape).0.layout;
                Layout { row_stride: -forwards.row_stride, ..forwards }
            }
            Self::SharedBatch => Layout { batch_stride: 0, ..Layout::row_major(rows, cols) },
            Self::ReversedBatch => {
                let one = Layout::row_major(rows, cols);
                Layout { batch_stride: -one.batch_stride, ..one }
            }
            Self::InterleavedBatch => Layout {
                row_stride: lines(shape.batch, cols as i128, 0),
                col_stride: 1,
                batch_stride: stride(cols as i128),
            },
            Self::RepeatedRow => {
                Layout { row_stride: 0, col_stride: 1, batch_stride: stride(cols as i128) }
            }
        };
        let margin = match self {
            Self::Dense => 0,
            Self::Aligned | Self::ReversedAligned | Self::UnalignedBatch => ALIGNMENT,
            _ => MARGIN,
        };
        match layout.extent(shape) {
            None => (Placement { offset: margin, shape, layout }, 2 * margin),
            Some(extent) => {
                let offset = margin as u128 + extent.min.unsigned_abs();
                let len = offset.saturating_add(extent.max.unsigned_abs() + 1 + margin as u128);
                (Placement { offset: length(offset), shape, layout }, self.rounded(length(len)))
            }
        }
    }

    /// The length of a storage that needs `len` elements.
    fn rounded(self, len: usize) -> usize {
        match self {
            Self::Aligned | Self::ReversedAligned | Self::UnalignedBatch => {
                len.checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX)
            }
            _ => len,
        }
    }
}

/// A stride in elements, the largest there is past the range of `isize`.
fn stride(elements: i128) -> isize {
    isize::try_from(elements).unwrap_or(isize::MAX)
}

/// A number of elements, the largest there is past the range of `usize`.
fn length(elements: u128) -> usize {
    usize::try_from(elements).unwrap_or(usize::MAX)
}

/// The next even number; the largest number of all stays.
fn even_up(elements: usize) -> usize {
    elements.saturating_add(elements % 2)
}

/// A matrix in a storage of its own, aligned to 8 bytes, with canaries wherever it is not.
#[derive(Clone, Debug)]
pub struct Stored {
    words: Vec<u64>,
    len: usize,
    element: ElementType,
    placement: Placement,
}

impl Stored {
    /// A matrix whose element at (batch, row, column) is `value(batch, row, column)`, rounded.
    ///
    /// Elements that share a place (stride 0) get the value of the last.
    ///
    /// # Panics
    /// If there is no memory of that size: [`Case::layouts`](super::Case::layouts) tells how much a
    /// problem's operands take before they are made.
    #[must_use]
    pub fn new(
        element: ElementType,
        shape: Shape,
        arrangement: Arrangement,
        mut value: impl FnMut(usize, usize, usize) -> f64,
    ) -> Self {
        let (placement, len) = arrangement.place_for(element, shape);
        let words = vec![0; element.bytes_for(len).div_ceil(8)];
        let mut stored = Self { words, len, element, placement };
        for bytes in stored.bytes_mut().chunks_exact_mut(element.size()) {
            bytes.copy_from_slice(canary(element));
        }
        for b in 0..shape.batch {
            for r in 0..shape.rows {
                for c in 0..shape.cols {
                    let index = stored.index(b, r, c);
                    element::write_f64(element, stored.bytes_mut(), index, value(b, r, c));
                }
            }
        }
        stored
    }

    /// The element type.
    #[must_use]
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Elements in the storage, canaries included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the storage has no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the matrix lies in the storage.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The storage, canaries included.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.element.bytes_for(self.len)]
    }

    /// The storage, canaries included, writable.
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.element.bytes_for(self.len)]
    }

    /// The matrix.
    ///
    /// # Panics
    /// Never: the storage was made for the view.
    #[must_use]
    pub fn view(&self) -> AnyMatrixRef<'_> {
        match AnyMatrixRef::new(self.bytes(), self.element, self.placement) {
            Ok(view) => view,
            Err(error) => unreachable!("the storage was made for the view: {error}"),
        }
    }

    /// Sets every element of the matrix to `value`, the canaries stay.
    pub fn fill(&mut self, value: f64) {
        let Shape { batch, rows, cols } = self.placement.shape;
        for b in 0..batch {
            for r in 0..rows {
                for c in 0..cols {
                    let (element, index) = (self.element, self.index(b, r, c));
                    element::write_f64(element, self.bytes_mut(), index, value);
                }
            }
        }
    }

    /// Replaces every element of the matrix by what `value` makes of its batch, row, column and value;
    /// the canaries stay.
    pub fn map(&mut self, mut value: impl FnMut(usize, usize, usize, f64) -> f64) {
        let Shape { batch, rows, cols } = self.placement.shape;
        for b in 0..batch {
            for r in 0..rows {
                for c in 0..cols {
                    let (element, index) = (self.element, self.index(b, r, c));
                    let old = element::read_f64(element, self.bytes(), index);
                    element::write_f64(element, self.bytes_mut(), index, value(b, r, c, old));
                }
            }
        }
    }

    /// Sets one element of the matrix to a bit pattern, which may be one that no value rounds to; the
    /// bits above the element's own are ignored.
    pub fn set_code(&mut self, [batch, row, col]: [usize; 3], code: u64) {
        let (element, index) = (self.element, self.index(batch, row, col));
        let size = element.size();
        let bytes = self.bytes_mut();
        if element.is_packed() {
            let shift = index % 2 * 4;
            let byte = &mut bytes[index / 2];
            *byte = (*byte & !(0xf << shift)) | ((code as u8 & 0xf) << shift);
        } else {
            bytes[index * size..][..size].copy_from_slice(&code.to_le_bytes()[..size]);
        }
    }

    /// Indices of the elements outside the matrix that differ from this storage in `after`, which
    /// is the storage's content after an execution; all of them if its length differs.
    #[must_use]
    pub fn broken_canaries(&self, after: &[u8]) -> Vec<usize> {
        let Shape { batch, rows, cols } = self.placement.shape;
        let mut inside = vec![false; self.len];
        for b in 0..batch {
            for r in 0..rows {
                for c in 0..cols {
                    inside[self.index(b, r, c)] = true;
                }
            }
        }
        let (size, packed) = (self.element.size(), self.element.is_packed());
        (0..self.len)
            .filter(|&i| !inside[i])
            .filter(|&i| {
                let code = |bytes: &[u8]| {
                    if packed {
                        vec![(bytes[i / 2] >> (i % 2 * 4)) & 0xf]
                    } else {
                        bytes[i * size..(i + 1) * size].to_vec()
                    }
                };
                after.len() != self.bytes().len() || code(after) != code(self.bytes())
            })
            .collect()
    }

    fn index(&self, batch: usize, row: usize, col: usize) -> usize {
        (self.placement.offset as i128 + self.placement.layout.index(batch, row, col)) as usize
    }
}

/// A bit pattern that no test computes: a NaN with a payload where the type has NaN. Operand types
/// without NaN have their largest magnitude.
fn canary(element: ElementType) -> &'static [u8] {
    match element {
        ElementType::F64 => &[0x5a, 0xa5, 0x5a, 0xa5, 0x5a, 0xa5, 0xfa, 0x7f],
        ElementType::F32 => &[0x5a, 0xa5, 0xda, 0x7f],
        ElementType::F16 => &[0x5a, 0x7f],
        ElementType::BF16 => &[0xda, 0x7f],
        ElementType::I8 => &[0x5a],
        ElementType::I32 => &[0x5a, 0xa5, 0x5a, 0xa5],
        ElementType::F8E4M3Fnuz | ElementType::F8E5M2Fnuz => &[0x80],
        ElementType::F8E4M3 | ElementType::F8E5M2 => &[0x7f],
        ElementType::F4E2M1 => &[0x77],
        ElementType::I4 => &[0x88],
        ElementType::E8M0 => &[0xff],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrangements_hold_their_matrix_and_canaries_are_nan() {
        for arrangement in Arrangement::INPUTS {
            for shape in [
                Shape { batch: 2, rows: 3, cols: 4 },
                Shape { batch: 1, rows: 1, cols: 1 },
                Shape { batch: 1, rows: 0, cols: 4 },
            ] {
                let (placement, len) = arrangement.place(shape);
                placement.check_bounds(len).expect("the storage was made for the view");
                if Arrangement::OUTPUTS.contains(&arrangement) {
                    placement.check_injective().expect("outputs are apart");
                }
                let stored = Stored::new(ElementType::F16, shape, arrangement, |_, r, c| {
                    (10 * r + c) as f64
                });
                if shape.rows == 3 && arrangement != Arrangement::RepeatedRow {
                    assert_eq!(stored.view().get(1, 2, 3), 23.0, "{arrangement:?}");
                }
                let canaries = (0..stored.len())
                    .filter(|&i| element::read_f64(ElementType::F16, stored.bytes(), i).is_nan())
                    .count();
                let distinct = match arrangement {
                    Arrangement::RepeatedRow if shape.rows > 0 => shape.batch * shape.cols,
                    Arrangement::SharedBatch => shape.rows * shape.cols,
                    _ => shape.batch * shape.rows * shape.cols,
                };
                assert_eq!(canaries, stored.len() - distinct, "{arrangement:?}");
            }
        }
    }

    #[test]
    fn an_overwritten_canary_is_found_and_an_element_is_none() {
        let shape = Shape::new(2, 2);
        let stored = Stored::new(ElementType::F32, shape, Arrangement::Padded, |_, _, _| 1.0);
        let mut after = stored.bytes().to_vec();
        let first = stored.placement().offset;
        element::write_f64(ElementType::F32, &mut after, first, 9.0);
        assert_eq!(stored.broken_canaries(&after), []);
        element::write_f64(ElementType::F32, &mut after, first + 2, 0.0);
        assert_eq!(stored.broken_canaries(&after), [first + 2]);
    }
}
