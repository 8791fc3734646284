//! Element types: what an operand is stored as, and what the product is accumulated in.

use core::fmt;

use half::{bf16, f16};

use crate::error::Error;
use crate::format::{FloatFormat, Overflow, power_of_two};
use crate::layout::{Layout, Placement, Shape};
use crate::narrow::{E8M0, F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz};

/// The storage type of one matrix element.
///
/// Accumulation follows from the operands: `f64` in `f64`, the other floats in `f32`, integers in
/// `i32` (see [`ElementType::accumulator`]).
///
/// Two elements of a 4-bit type share a byte, the one with the even index in its low half. Offsets
/// and strides still count elements; [`Placement::check_packed`](crate::Placement::check_packed) has
/// the rules that keep lines on whole bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ElementType {
    /// IEEE binary64; the CPU backend only.
    F64,
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// Two's-complement 8-bit integer.
    I8,
    /// Two's-complement 32-bit integer; an output and bias type, not an operand type.
    I32,
    /// FNUZ e4m3, the fp8 of CDNA3; an operand type.
    F8E4M3Fnuz,
    /// FNUZ e5m2, the bf8 of CDNA3; an operand type.
    F8E5M2Fnuz,
    /// OCP e4m3, the fp8 of CDNA4; an operand type.
    F8E4M3,
    /// OCP e5m2, the bf8 of CDNA4; an operand type.
    F8E5M2,
    /// OCP e2m1, two a byte; an operand type that needs block scales (MXFP4).
    F4E2M1,
    /// Two's-complement 4-bit integer, two a byte; weights for i8 and float activations.
    I4,
    /// OCP e8m0, a power of two; the type of block scales.
    E8M0,
}

impl ElementType {
    /// Every element type, in the order of the enum.
    pub const ALL: [Self; 13] = [
        Self::F64,
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::I8,
        Self::I32,
        Self::F8E4M3Fnuz,
        Self::F8E5M2Fnuz,
        Self::F8E4M3,
        Self::F8E5M2,
        Self::F4E2M1,
        Self::I4,
        Self::E8M0,
    ];

    /// The types that general array files and programs hold: no fp8, 4-bit types or scales.
    pub const GENERAL: [Self; 6] =
        [Self::F64, Self::F32, Self::F16, Self::BF16, Self::I8, Self::I32];

    /// Bits one element occupies.
    #[must_use]
    pub const fn bits(self) -> usize {
        match self {
            Self::F64 => 64,
            Self::F32 | Self::I32 => 32,
            Self::F16 | Self::BF16 => 16,
            Self::I8
            | Self::F8E4M3Fnuz
            | Self::F8E5M2Fnuz
            | Self::F8E4M3
            | Self::F8E5M2
            | Self::E8M0 => 8,
            Self::F4E2M1 | Self::I4 => 4,
        }
    }

    /// Bytes needed to hold one element; 1 for a 4-bit type, of which a byte holds two.
    #[must_use]
    pub const fn size(self) -> usize {
        self.bits().div_ceil(8)
    }

    /// Whether several elements share a byte.
    #[must_use]
    pub const fn is_packed(self) -> bool {
        self.bits() < 8
    }

    /// Bytes that `count` elements occupy, saturating at the range of `usize`.
    #[must_use]
    pub const fn bytes_for(self, count: usize) -> usize {
        if self.is_packed() {
            count.div_ceil(8 / self.bits())
        } else {
            count.saturating_mul(self.size())
        }
    }

    /// Elements that `bytes` bytes have room for, saturating at the range of `usize`.
    #[must_use]
    pub const fn capacity(self, bytes: usize) -> usize {
        if self.is_packed() { bytes.saturating_mul(8 / self.bits()) } else { bytes / self.size() }
    }

    /// Elements that `bytes` bytes of this type replace in a tensor of `len` elements from element
    /// `offset` on: an upload's range, checked.
    ///
    /// # Errors
    /// [`Error::PartialElement`] if `bytes` ends inside an element, [`Error::PackedView`] if a 4-bit
    /// type's `offset` is odd, [`Error::ViewOutOfBounds`] if the range leaves the tensor.
    pub fn written(self, bytes: usize, offset: usize, len: usize) -> Result<usize, Error> {
        let element = self;
        if !bytes.is_multiple_of(element.size()) {
            return Err(Error::PartialElement { bytes, element });
        }
        let mut count = element.capacity(bytes);
        if element.is_packed() {
            if !offset.is_multiple_of(2) {
                let (rule, value) = ("an even offset", offset as i128);
                return Err(Error::PackedView { element, rule, value });
            }
            // The last byte may hold one element only.
            if offset.checked_add(count) == len.checked_add(1) {
                count -= 1;
            }
        }
        let (shape, layout) = (Shape::new(1, count), Layout::row_major(1, count));
        Placement { offset, shape, layout }.check_bounds(len)?;
        Ok(count)
    }

    /// The description of a float type of at most 16 bits with a sign, `None` for all others.
    #[must_use]
    pub const fn format(self) -> Option<FloatFormat> {
        match self {
            Self::F16 => Some(FloatFormat::F16),
            Self::BF16 => Some(FloatFormat::BF16),
            Self::F8E4M3Fnuz => Some(FloatFormat::E4M3_FNUZ),
            Self::F8E5M2Fnuz => Some(FloatFormat::E5M2_FNUZ),
            Self::F8E4M3 => Some(FloatFormat::E4M3),
            Self::F8E5M2 => Some(FloatFormat::E5M2),
            Self::F4E2M1 => Some(FloatFormat::E2M1),
            Self::F64 | Self::F32 | Self::I8 | Self::I32 | Self::I4 | Self::E8M0 => None,
        }
    }

    /// Whether the type is one of the four fp8 flavours.
    #[must_use]
    pub const fn is_fp8(self) -> bool {
        self.is_fnuz() || self.is_ocp_fp8()
    }

    /// Whether the type is an fp8 of CDNA3.
    #[must_use]
    pub const fn is_fnuz(self) -> bool {
        matches!(self, Self::F8E4M3Fnuz | Self::F8E5M2Fnuz)
    }

    /// Whether the type is an fp8 of CDNA4.
    #[must_use]
    pub const fn is_ocp_fp8(self) -> bool {
        matches!(self, Self::F8E4M3 | Self::F8E5M2)
    }

    /// The type products of this operand type are summed in.
    #[must_use]
    pub const fn accumulator(self) -> Self {
        match self {
            Self::F64 => Self::F64,
            Self::F32
            | Self::F16
            | Self::BF16
            | Self::F8E4M3Fnuz
            | Self::F8E5M2Fnuz
            | Self::F8E4M3
            | Self::F8E5M2
            | Self::F4E2M1
            | Self::E8M0 => Self::F32,
            Self::I8 | Self::I32 | Self::I4 => Self::I32,
        }
    }

    /// Whether the type is a floating-point format.
    #[must_use]
    pub const fn is_float(self) -> bool {
        !matches!(self, Self::I8 | Self::I32 | Self::I4)
    }

    /// Unit roundoff of the format (half the distance from 1 to the next value), 0 for integers.
    #[must_use]
    pub const fn unit_roundoff(self) -> f64 {
        match (self, self.format()) {
            (_, Some(format)) => format.unit_roundoff(),
            (Self::F64, None) => f64::EPSILON / 2.0,
            (Self::F32, None) => f32::EPSILON as f64 / 2.0,
            (Self::E8M0, None) => 0.5,
            (_, None) => 0.0,
        }
    }

    /// Smallest positive number of the format (a subnormal, where it has them), 0 for integers.
    #[must_use]
    pub const fn min_subnormal(self) -> f64 {
        match (self, self.format()) {
            (_, Some(format)) => format.min_subnormal(),
            (Self::F64, None) => f64::from_bits(1),
            (Self::F32, None) => power_of_two(-149),
            (Self::E8M0, None) => power_of_two(-127),
            (_, None) => 0.0,
        }
    }

    /// Smallest positive normal number of the format, 0 for integers.
    #[must_use]
    pub const fn min_normal(self) -> f64 {
        match (self, self.format()) {
            (_, Some(format)) => format.min_normal(),
            (Self::F64, None) => f64::MIN_POSITIVE,
            (Self::F32, None) => f32::MIN_POSITIVE as f64,
            (Self::E8M0, None) => power_of_two(-127),
            (_, None) => 0.0,
        }
    }

    /// The largest finite number of the type.
    #[must_use]
    pub const fn max_finite(self) -> f64 {
        match (self, self.format()) {
            (_, Some(format)) => format.max_finite(),
            (Self::F32, None) => f32::MAX as f64,
            (Self::E8M0, None) => power_of_two(127),
            (Self::I8, None) => 127.0,
            (Self::I4, None) => 7.0,
            (Self::I32, None) => i32::MAX as f64,
            (_, None) => f64::MAX,
        }
    }

    /// The lower-case name used in plans, messages and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I8 => "i8",
            Self::I32 => "i32",
            Self::F8E4M3Fnuz => "f8e4m3fnuz",
            Self::F8E5M2Fnuz => "f8e5m2fnuz",
            Self::F8E4M3 => "f8e4m3",
            Self::F8E5M2 => "f8e5m2",
            Self::F4E2M1 => "f4e2m1",
            Self::I4 => "i4",
            Self::E8M0 => "e8m0",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A Rust type that stores one matrix element.
///
/// The 4-bit types have none, since two of their elements share a byte: they are viewed through
/// [`AnyMatrixRef`](crate::AnyMatrixRef) and written by [`pack_f64`].
///
/// Sealed: backends must know every type that reaches them.
pub trait Element: sealed::Sealed + bytemuck::Pod + Send + Sync + fmt::Debug + PartialEq {
    /// The run-time name of this type.
    const TYPE: ElementType;

    /// The exact value as an `f64` (every element type is a subset of `f64`).
    fn to_f64(self) -> f64;

    /// The nearest representable value, ties to even; see [`crate::round`] and
    /// [`Overflow`]'s default for overflow and NaN.
    fn from_f64(value: f64) -> Self;
}

macro_rules! element {
    ($rust:ty, $name:ident, |$x:ident| $to:expr, |$y:ident| $from:expr) => {
        impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const TYPE: ElementType = ElementType::$name;
            fn to_f64(self) -> f64 {
                let $x = self;
                $to
            }
            fn from_f64($y: f64) -> Self {
                $from
            }
        }
    };
}

element!(f64, F64, |x| x, |y| y);
element!(f32, F32, |x| f64::from(x), |y| y as f32);
element!(f16, F16, |x| x.to_f64(), |y| crate::round::f64_to_f16(y));
element!(bf16, BF16, |x| x.to_f64(), |y| crate::round::f64_to_bf16(y));
element!(i8, I8, |x| f64::from(x), |y| crate::round::f64_to_i8(y));
element!(i32, I32, |x| f64::from(x), |y| crate::round::f64_to_i32(y));

/// Reads element `index` of a byte slice that holds elements of type `element`.
///
/// # Panics
/// If the slice ends before that element; callers hold views whose bounds were proven at construction.
#[must_use]
pub fn read_f64(element: ElementType, bytes: &[u8], index: usize) -> f64 {
    fn get<T: Element>(bytes: &[u8], index: usize) -> f64 {
        let size = size_of::<T>();
        bytemuck::pod_read_unaligned::<T>(&bytes[index * size..(index + 1) * size]).to_f64()
    }
    match element {
        ElementType::F64 => get::<f64>(bytes, index),
        ElementType::F32 => get::<f32>(bytes, index),
        ElementType::F16 => get::<f16>(bytes, index),
        ElementType::BF16 => get::<bf16>(bytes, index),
        ElementType::I8 => get::<i8>(bytes, index),
        ElementType::I32 => get::<i32>(bytes, index),
        ElementType::F8E4M3Fnuz => get::<F8E4M3Fnuz>(bytes, index),
        ElementType::F8E5M2Fnuz => get::<F8E5M2Fnuz>(bytes, index),
        ElementType::F8E4M3 => get::<F8E4M3>(bytes, index),
        ElementType::F8E5M2 => get::<F8E5M2>(bytes, index),
        ElementType::E8M0 => get::<E8M0>(bytes, index),
        ElementType::F4E2M1 => FloatFormat::E2M1.decode(u32::from(nibble(bytes, index))),
        ElementType::I4 => i4_value(nibble(bytes, index)),
    }
}

/// Writes `value`, rounded to `element`, as element `index` of a byte slice.
///
/// # Panics
/// If the slice ends before that element; callers hold views whose bounds were proven at construction.
pub fn write_f64(element: ElementType, bytes: &mut [u8], index: usize, value: f64) {
    fn put<T: Element>(bytes: &mut [u8], index: usize, value: f64) {
        let size = size_of::<T>();
        bytes[index * size..(index + 1) * size]
            .copy_from_slice(bytemuck::bytes_of(&T::from_f64(value)));
    }
    match element {
        ElementType::F64 => put::<f64>(bytes, index, value),
        ElementType::F32 => put::<f32>(bytes, index, value),
        ElementType::F16 => put::<f16>(bytes, index, value),
        ElementType::BF16 => put::<bf16>(bytes, index, value),
        ElementType::I8 => put::<i8>(bytes, index, value),
        ElementType::I32 => put::<i32>(bytes, index, value),
        ElementType::F8E4M3Fnuz => put::<F8E4M3Fnuz>(bytes, index, value),
        ElementType::F8E5M2Fnuz => put::<F8E5M2Fnuz>(bytes, index, value),
        ElementType::F8E4M3 => put::<F8E4M3>(bytes, index, value),
        ElementType::F8E5M2 => put::<F8E5M2>(bytes, index, value),
        ElementType::E8M0 => put::<E8M0>(bytes, index, value),
        ElementType::F4E2M1 => {
            put_nibble(bytes, index, FloatFormat::E2M1.encode(value, Overflow::default()) as u8);
        }
        // Saturates as all integers do; NaN gives 0.
        ElementType::I4 => {
            put_nibble(bytes, index, value.round_ties_even().clamp(-8.0, 7.0) as i8 as u8);
        }
    }
}

/// The value of a 4-bit two's-complement code.
pub(crate) fn i4_value(code: u8) -> f64 {
    f64::from((code << 4).cast_signed() >> 4)
}

fn nibble(bytes: &[u8], index: usize) -> u8 {
    (bytes[index / 2] >> (index % 2 * 4)) & 0xf
}

fn put_nibble(bytes: &mut [u8], index: usize, code: u8) {
    let shift = index % 2 * 4;
    let byte = &mut bytes[index / 2];
    *byte = (*byte & !(0xf << shift)) | ((code & 0xf) << shift);
}

/// Elements with these values, rounded, one after the other; a last half byte is 0.
///
/// # Examples
/// ```
/// use lapidary_core::ElementType;
/// use lapidary_core::element::pack_f64;
/// assert_eq!(pack_f64(ElementType::I4, &[1.0, -1.0, -8.0]), [0xf1, 0x08]);
/// assert_eq!(pack_f64(ElementType::F4E2M1, &[0.5, -6.0]), [0xf1]);
/// ```
#[must_use]
pub fn pack_f64(element: ElementType, values: &[f64]) -> Vec<u8> {
    let mut bytes = vec![0; element.bytes_for(values.len())];
    for (index, &value) in values.iter().enumerate() {
        write_f64(element, &mut bytes, index, value);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_upload_writes_is_checked() {
        assert_eq!(ElementType::F32.written(12, 2, 5).ok(), Some(3));
        assert!(matches!(ElementType::F32.written(13, 0, 9), Err(Error::PartialElement { .. })));
        assert!(matches!(ElementType::F32.written(12, 3, 5), Err(Error::ViewOutOfBounds { .. })));
        // Two a byte, the last of an odd number alone in its own.
        assert_eq!(ElementType::I4.written(2, 2, 6).ok(), Some(4));
        assert_eq!(ElementType::I4.written(2, 2, 5).ok(), Some(3));
        assert!(matches!(ElementType::I4.written(1, 1, 6), Err(Error::PackedView { .. })));
    }
}
