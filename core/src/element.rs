//! Element types: what an operand is stored as, and what the product is accumulated in.

use core::fmt;

use half::{bf16, f16};

/// The storage type of one matrix element.
///
/// Accumulation follows from the operands: `f64` in `f64`, the other floats in `f32`, `i8` in `i32`
/// (see [`ElementType::accumulator`]).
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
}

impl ElementType {
    /// Every element type, in the order of the enum.
    pub const ALL: [Self; 6] = [Self::F64, Self::F32, Self::F16, Self::BF16, Self::I8, Self::I32];

    /// Bytes one element occupies.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::I8 => 1,
        }
    }

    /// The type products of this operand type are summed in.
    #[must_use]
    pub const fn accumulator(self) -> Self {
        match self {
            Self::F64 => Self::F64,
            Self::F32 | Self::F16 | Self::BF16 => Self::F32,
            Self::I8 | Self::I32 => Self::I32,
        }
    }

    /// Whether the type is a floating-point format.
    #[must_use]
    pub const fn is_float(self) -> bool {
        match self {
            Self::F64 | Self::F32 | Self::F16 | Self::BF16 => true,
            Self::I8 | Self::I32 => false,
        }
    }

    /// Unit roundoff of the format (half the distance from 1 to the next value), 0 for integers.
    #[must_use]
    pub const fn unit_roundoff(self) -> f64 {
        match self {
            Self::F64 => f64::EPSILON / 2.0,
            Self::F32 => f32::EPSILON as f64 / 2.0,
            Self::F16 => 1.0 / 2048.0,
            Self::BF16 => 1.0 / 256.0,
            Self::I8 | Self::I32 => 0.0,
        }
    }

    /// Smallest positive subnormal of the format, 0 for integers.
    #[must_use]
    pub const fn min_subnormal(self) -> f64 {
        match self {
            Self::F64 => f64::from_bits(1),
            // 2^-149, 2^-24 and 2^-133, each written as the f64 with that exponent.
            Self::F32 => f64::from_bits((1023 - 149) << 52),
            Self::F16 => f64::from_bits((1023 - 24) << 52),
            Self::BF16 => f64::from_bits((1023 - 133) << 52),
            Self::I8 | Self::I32 => 0.0,
        }
    }

    /// Smallest positive normal number of the format, 0 for integers.
    #[must_use]
    pub const fn min_normal(self) -> f64 {
        match self {
            Self::F64 => f64::MIN_POSITIVE,
            Self::F32 | Self::BF16 => f32::MIN_POSITIVE as f64,
            Self::F16 => 1.0 / 16384.0,
            Self::I8 | Self::I32 => 0.0,
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
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that stores one matrix element.
///
/// Sealed: backends must know every type that reaches them.
pub trait Element: sealed::Sealed + bytemuck::Pod + Send + Sync + fmt::Debug + PartialEq {
    /// The run-time name of this type.
    const TYPE: ElementType;

    /// The exact value as an `f64` (every element type is a subset of `f64`).
    fn to_f64(self) -> f64;

    /// The nearest representable value, ties to even; see [`crate::round`] for overflow and NaN.
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
    }
}
