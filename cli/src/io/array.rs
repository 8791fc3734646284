//! An array as a file holds it: element type, shape, strides and bytes.

use std::io::{self, Read};

use indicatif::ProgressBar;
use lapidary_core::ElementType;
use lapidary_core::element::{read_f64, write_f64};

use super::error::Reason;

/// Most dimensions an array may have: batch, rows and columns.
pub(crate) const MAX_DIMENSIONS: usize = 3;

/// Bytes read between two updates of the progress bar.
const CHUNK: usize = 4 << 20;

/// Storage whose first byte is aligned for every element type.
///
/// `Vec<u8>` promises no alignment, and a view of `f64` needs 8.
#[derive(Clone, Default)]
pub(crate) struct AlignedBytes {
    words: Vec<u64>,
    len: usize,
}

impl std::fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

impl AlignedBytes {
    /// `len` bytes, all zero.
    ///
    /// # Errors
    /// [`Reason::OutOfMemory`] if the allocator has no such block.
    pub(crate) fn zeroed(len: usize) -> Result<Self, Reason> {
        let mut bytes = Self::default();
        bytes.grow(len, len)?;
        Ok(bytes)
    }

    /// Reads exactly `len` bytes.
    ///
    /// `credible` bounds the first allocation: the part of `len` that is known to exist. What goes
    /// beyond it is allocated as bytes arrive, so a header that lies about its size costs at most
    /// twice the bytes that were really there.
    ///
    /// # Errors
    /// [`Reason::Io`] when the reader fails, [`Reason::Truncated`] when it ends early,
    /// [`Reason::OutOfMemory`] when the allocator refuses.
    pub(crate) fn read(
        reader: &mut impl Read,
        len: usize,
        credible: usize,
        bar: &ProgressBar,
    ) -> Result<Self, Reason> {
        let mut bytes = Self::default();
        let mut filled = 0;
        while filled < len {
            let end = len.min(filled + CHUNK);
            if end > bytes.len {
                let room = bytes.len.saturating_mul(2).max(credible).max(end).min(len);
                bytes.grow(room, len)?;
            }
            while filled < end {
                match reader.read(&mut bytes.as_mut_slice()[filled..end]) {
                    Ok(0) => {
                        return Err(Reason::Truncated { needed: len as u64, found: filled as u64 });
                    }
                    Ok(count) => {
                        filled += count;
                        bar.inc(count as u64);
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(Reason::Io(error)),
                }
            }
        }
        Ok(bytes)
    }

    fn grow(&mut self, room: usize, wanted: usize) -> Result<(), Reason> {
        let words = room.div_ceil(size_of::<u64>());
        self.words
            .try_reserve_exact(words - self.words.len())
            .map_err(|_| Reason::OutOfMemory { bytes: wanted as u64 })?;
        self.words.resize(words, 0);
        self.len = room;
        Ok(())
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }
}

/// The order in which a file stores the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The last index runs fastest: rows lie one after the other.
    C,
    /// The first index runs fastest: columns lie one after the other.
    Fortran,
}

/// An array of up to [`MAX_DIMENSIONS`] dimensions; it owns its elements, packed without gaps.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    /// Type of an element.
    pub(crate) element: ElementType,
    /// Length of each dimension; empty for a single value.
    pub(crate) shape: Vec<usize>,
    /// Elements from one index to the next in each dimension.
    pub(crate) strides: Vec<isize>,
    /// The elements, little-endian.
    pub(crate) bytes: AlignedBytes,
}

impl Array {
    /// Changes the element type, rounding each value to nearest, ties to even.
    ///
    /// # Errors
    /// [`Reason::OutOfMemory`], or [`Reason::Overflow`] for a finite value beyond the type's range; the
    /// array is as it was then.
    pub(crate) fn convert(&mut self, element: ElementType) -> Result<(), Reason> {
        if element == self.element {
            return Ok(());
        }
        let count = self.bytes.len / self.element.size();
        let size =
            count.checked_mul(element.size()).ok_or(Reason::OutOfMemory { bytes: u64::MAX })?;
        let mut converted = AlignedBytes::zeroed(size)?;
        let (from, to) = (self.bytes.as_slice(), converted.as_mut_slice());
        for index in 0..count {
            let value = read_f64(self.element, from, index);
            write_f64(element, to, index, value);
            if value.is_finite() && !read_f64(element, to, index).is_finite() {
                return Err(Reason::Overflow { value, element });
            }
        }
        self.bytes = converted;
        self.element = element;
        Ok(())
    }
}

/// What an array needs in memory, computed before anything is allocated.
#[derive(Debug)]
pub(crate) struct Extent {
    shape: Vec<usize>,
    strides: Vec<isize>,
    element: ElementType,
    /// Bytes of all elements together.
    pub(crate) bytes: usize,
}

impl Extent {
    /// Checks that an array of this shape can exist in memory.
    ///
    /// # Errors
    /// [`Reason::TooManyDimensions`], or [`Reason::ShapeTooLarge`] if the elements or the strides
    /// leave the address space. A dimension of 0 does not excuse the others: the strides of an
    /// empty array must fit too.
    pub(crate) fn new(element: ElementType, shape: &[u64], order: Order) -> Result<Self, Reason> {
        if shape.len() > MAX_DIMENSIONS {
            return Err(Reason::TooManyDimensions { found: shape.len() });
        }
        let too_large = || Reason::ShapeTooLarge { shape: shape.to_vec(), element };
        let dimensions = shape
            .iter()
            .map(|&length| usize::try_from(length))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| too_large())?;

        let mut strides = vec![0isize; dimensions.len()];
        let mut span = 1isize;
        let mut stride_of = |axis: usize| {
            strides[axis] = span;
            let length = isize::try_from(dimensions[axis].max(1)).ok()?;
            span = span.checked_mul(length)?;
            Some(())
        };
        let fits = match order {
            Order::C => (0..dimensions.len()).rev().try_for_each(&mut stride_of),
            Order::Fortran => (0..dimensions.len()).try_for_each(&mut stride_of),
        };
        let in_bytes = span.checked_mul(element.size() as isize);
        if fits.is_none() || in_bytes.is_none() {
            return Err(too_large());
        }
        let elements = dimensions.iter().product::<usize>();
        Ok(Self { bytes: elements * element.size(), shape: dimensions, strides, element })
    }

    /// The array of this extent whose elements are `bytes`.
    pub(crate) fn with(self, bytes: AlignedBytes) -> Array {
        debug_assert_eq!(self.bytes, bytes.len);
        Array { element: self.element, shape: self.shape, strides: self.strides, bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_is_aligned_and_exact() {
        for len in [0, 1, 7, 8, 9, 4097] {
            let bytes = AlignedBytes::zeroed(len).unwrap();
            assert_eq!(bytes.as_slice().len(), len);
            assert_eq!(bytes.as_slice().as_ptr().align_offset(8), 0);
        }
    }

    #[test]
    fn growing_while_reading_keeps_what_was_read() {
        let data = (0..3 * CHUNK + 5).map(|i| (i % 251) as u8).collect::<Vec<_>>();
        for credible in [0, 17, data.len(), usize::MAX] {
            let bytes =
                AlignedBytes::read(&mut &data[..], data.len(), credible, &ProgressBar::hidden())
                    .unwrap();
            assert_eq!(bytes.as_slice(), data);
        }
    }

    #[test]
    fn a_short_reader_is_reported_with_both_lengths() {
        let error = AlignedBytes::read(&mut &[0u8; 10][..], 11, 11, &ProgressBar::hidden());
        assert!(matches!(error, Err(Reason::Truncated { needed: 11, found: 10 })));
    }

    #[test]
    fn strides_follow_the_order() {
        let c = Extent::new(ElementType::F32, &[2, 3, 4], Order::C).unwrap();
        assert_eq!((c.strides, c.bytes), (vec![12, 4, 1], 96));
        let fortran = Extent::new(ElementType::F32, &[2, 3, 4], Order::Fortran).unwrap();
        assert_eq!((fortran.strides, fortran.bytes), (vec![1, 2, 6], 96));
        let scalar = Extent::new(ElementType::F64, &[], Order::C).unwrap();
        assert_eq!((scalar.strides, scalar.bytes), (vec![], 8));
    }

    #[test]
    fn conversion_keeps_the_strides_and_rounds_once() {
        let extent = Extent::new(ElementType::F64, &[1, 3], Order::Fortran).unwrap();
        // The second value lies just above a tie between two f16; by way of f32 it would land on it.
        let values = [1.0f64, 1.0 + 2f64.powi(-11) + 2f64.powi(-40), -3.0];
        let mut bytes = AlignedBytes::zeroed(24).unwrap();
        bytes.as_mut_slice().copy_from_slice(bytemuck::cast_slice(&values));
        let mut array = extent.with(bytes);
        let strides = array.strides.clone();
        array.convert(ElementType::F16).unwrap();
        assert_eq!((array.element, &array.strides), (ElementType::F16, &strides));
        assert_eq!(
            bytemuck::cast_slice::<u8, u16>(array.bytes.as_slice()),
            [0x3c00, 0x3c01, 0xc200]
        );
    }

    #[test]
    fn shapes_outside_the_address_space_are_refused() {
        let huge = [1u64 << 31, 1 << 31, 1 << 31];
        for shape in [&huge[..], &[1 << 60], &[u64::MAX], &[0, 1 << 62, 1 << 62]] {
            let found = Extent::new(ElementType::F64, shape, Order::C);
            assert!(matches!(found, Err(Reason::ShapeTooLarge { .. })), "{shape:?}");
        }
        let found = Extent::new(ElementType::F64, &[1, 1, 1, 1], Order::C);
        assert!(matches!(found, Err(Reason::TooManyDimensions { found: 4 })));
    }
}
