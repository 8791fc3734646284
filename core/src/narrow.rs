//! One-byte element types: four flavours of fp8, and the power-of-two scale of MX blocks.

use bytemuck::{Pod, Zeroable};

use crate::element::{Element, ElementType, sealed};
use crate::format::{FloatFormat, Overflow, power_of_two};

macro_rules! fp8 {
    ($name:ident, $format:expr, $max:literal, $doc:literal) => {
        #[doc = $doc]
        ///
        /// Equality is that of codes.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
        #[repr(transparent)]
        pub struct $name(u8);

        impl $name {
            /// The format's description.
            pub const FORMAT: FloatFormat = $format;
            /// The largest finite number.
            pub const MAX: Self = Self($max);

            /// The number with this code.
            #[must_use]
            pub const fn from_bits(code: u8) -> Self {
                Self(code)
            }

            /// The number's code.
            #[must_use]
            pub const fn to_bits(self) -> u8 {
                self.0
            }

            /// The nearest number, ties to the even code; `overflow` says what becomes of values
            /// past the largest finite one.
            #[must_use]
            pub const fn from_f64_with(value: f64, overflow: Overflow) -> Self {
                Self(Self::FORMAT.encode(value, overflow) as u8)
            }
        }

        impl sealed::Sealed for $name {}
        impl Element for $name {
            const TYPE: ElementType = ElementType::$name;
            fn to_f64(self) -> f64 {
                static VALUES: [f32; 256] = values($name::FORMAT);
                f64::from(VALUES[usize::from(self.0)])
            }
            fn from_f64(value: f64) -> Self {
                Self::from_f64_with(value, Overflow::default())
            }
        }
    };
}

fp8!(
    F8E4M3Fnuz,
    FloatFormat::E4M3_FNUZ,
    0x7f,
    "FNUZ e4m3, the fp8 of CDNA3: largest 240, NaN 0x80."
);
fp8!(
    F8E5M2Fnuz,
    FloatFormat::E5M2_FNUZ,
    0x7f,
    "FNUZ e5m2, the bf8 of CDNA3: largest 57,344, NaN 0x80."
);
fp8!(
    F8E4M3,
    FloatFormat::E4M3,
    0x7e,
    "OCP e4m3, the fp8 of CDNA4: largest 448, NaN 0x7f, no infinity."
);
fp8!(F8E5M2, FloatFormat::E5M2, 0x7b, "OCP e5m2, the bf8 of CDNA4: largest 57,344, infinity 0x7c.");

/// The value of every code; all are exact in f32.
const fn values(format: FloatFormat) -> [f32; 256] {
    let mut values = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        values[code] = format.decode(code as u32) as f32;
        code += 1;
    }
    values
}

/// OCP e8m0: the scale of a block of 32 MX elements, 2^(code − 127); code 0xff is NaN.
///
/// It has no sign and no zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct E8M0(u8);

impl E8M0 {
    /// 2⁰, the scale that changes nothing.
    pub const ONE: Self = Self(127);
    /// The only code that is no number.
    pub const NAN: Self = Self(0xff);

    /// The scale with this code.
    #[must_use]
    pub const fn from_bits(code: u8) -> Self {
        Self(code)
    }

    /// The scale's code.
    #[must_use]
    pub const fn to_bits(self) -> u8 {
        self.0
    }

    /// 2^(code − 127), or NaN; exact.
    #[must_use]
    pub const fn value(self) -> f64 {
        if self.0 == 0xff { f64::NAN } else { power_of_two(self.0 as i32 - 127) }
    }

    /// The nearest power of two, ties to the even code. What is at most 2⁻¹²⁷, zeros included, gives
    /// that; negative numbers and NaN give NaN; past 2¹²⁷ `overflow` decides between NaN and 2¹²⁷.
    #[must_use]
    pub const fn from_f64_with(value: f64, overflow: Overflow) -> Self {
        if value.is_nan() || value < 0.0 {
            return Self::NAN;
        }
        let bits = value.to_bits();
        let exponent = ((bits >> 52) & 0x7ff) as i64 - 1023 + 127;
        let fraction = bits & ((1 << 52) - 1);
        let half = 1 << 51;
        let up = fraction > half || (fraction == half && exponent & 1 == 1);
        // A negative zero, and every f64 subnormal, has an exponent far below.
        let code = exponent + up as i64;
        if code <= 0 {
            Self(0)
        } else if code <= 254 {
            Self(code as u8)
        } else {
            match overflow {
                Overflow::NonFinite => Self::NAN,
                Overflow::Saturate => Self(254),
            }
        }
    }
}

impl Default for E8M0 {
    fn default() -> Self {
        Self::ONE
    }
}

impl sealed::Sealed for E8M0 {}
impl Element for E8M0 {
    const TYPE: ElementType = ElementType::E8M0;
    fn to_f64(self) -> f64 {
        self.value()
    }
    fn from_f64(value: f64) -> Self {
        Self::from_f64_with(value, Overflow::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scale_comes_back_and_every_tie_goes_to_the_even_code() {
        for code in 0..=254u8 {
            let value = E8M0::from_bits(code).value();
            assert_eq!(value, 2f64.powi(i32::from(code) - 127));
            assert_eq!(E8M0::from_f64(value).to_bits(), code);
            let tie = 1.5 * value;
            let next = E8M0::from_bits(code + 1);
            let even = if code % 2 == 0 { E8M0::from_bits(code) } else { next };
            assert_eq!(E8M0::from_f64(tie), even, "tie above {code}");
            assert_eq!(E8M0::from_f64(tie.next_down()).to_bits(), code);
            assert_eq!(E8M0::from_f64(tie.next_up()), next, "code 255 is NaN, past 2^127");
        }
        assert!(E8M0::NAN.value().is_nan());
        for bad in [-1.0, f64::NEG_INFINITY, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(E8M0::from_f64(bad), E8M0::NAN, "{bad}");
        }
        assert_eq!(E8M0::from_f64_with(f64::INFINITY, Overflow::Saturate).to_bits(), 254);
        for small in [0.0, -0.0, 1e-300, f64::from_bits(1)] {
            assert_eq!(E8M0::from_f64(small).to_bits(), 0, "{small}");
        }
    }

    #[test]
    fn tables_hold_every_code_exactly() {
        fn check<T: Element>(format: FloatFormat, from_bits: fn(u8) -> T) {
            for code in 0..=255 {
                let (table, exact) = (from_bits(code).to_f64(), format.decode(u32::from(code)));
                assert!(table == exact || (table.is_nan() && exact.is_nan()), "{code:#x}");
                assert!(table.to_bits() == exact.to_bits() || table.is_nan(), "{code:#x}");
            }
        }
        check(FloatFormat::E4M3_FNUZ, F8E4M3Fnuz::from_bits);
        check(FloatFormat::E5M2_FNUZ, F8E5M2Fnuz::from_bits);
        check(FloatFormat::E4M3, F8E4M3::from_bits);
        check(FloatFormat::E5M2, F8E5M2::from_bits);
        assert_eq!(F8E4M3Fnuz::MAX.to_f64(), 240.0);
        assert_eq!(F8E5M2Fnuz::MAX.to_f64(), 57344.0);
        assert_eq!(F8E4M3::MAX.to_f64(), 448.0);
        assert_eq!(F8E5M2::MAX.to_f64(), 57344.0);
        assert_eq!(F8E4M3::from_f64_with(1e9, Overflow::Saturate), F8E4M3::MAX);
    }
}
