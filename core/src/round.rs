//! Conversion from `f64`, correctly rounded to nearest, ties to even.
//!
//! The conversions of common half-precision crates go through `f32` or drop the low bits of the
//! `f64` first, which rounds twice: a value just above a tie between two `f16` can land on the tie
//! in `f32` and then round the wrong way. These round once, from the 53-bit significand.

use half::{bf16, f16};

use crate::format::{FloatFormat, Overflow};

/// The `f16` nearest to `value`, ties to even; overflow gives infinity, NaN stays NaN.
#[must_use]
pub fn f64_to_f16(value: f64) -> f16 {
    f16::from_bits(FloatFormat::F16.encode(value, Overflow::NonFinite) as u16)
}

/// The `bf16` nearest to `value`, ties to even; overflow gives infinity, NaN stays NaN.
#[must_use]
pub fn f64_to_bf16(value: f64) -> bf16 {
    bf16::from_bits(FloatFormat::BF16.encode(value, Overflow::NonFinite) as u16)
}

/// The `i8` nearest to `value`, ties to even; saturates at −128 and 127, NaN gives 0.
#[must_use]
pub fn f64_to_i8(value: f64) -> i8 {
    value.round_ties_even() as i8
}

/// The `i32` nearest to `value`, ties to even; saturates at the range's ends, NaN gives 0.
#[must_use]
pub fn f64_to_i32(value: f64) -> i32 {
    value.round_ties_even() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every tie between neighbours and the two `f64` next to it, for every finite pair of a
    /// format: the midpoint goes to the even code, one ulp either side goes to the nearer code.
    fn check_every_tie(codes: u16, decode: fn(u16) -> f64, encode: fn(f64) -> u16) {
        for code in 0..codes {
            let (low, high) = (decode(code), decode(code + 1));
            assert_eq!(encode(low), code);
            let high = if high.is_infinite() { 2.0 * low - decode(code - 1) } else { high };
            let tie = low + (high - low) / 2.0;
            let even = if code % 2 == 0 { code } else { code + 1 };
            assert_eq!(encode(tie), even, "tie above code {code:#06x}");
            assert_eq!(encode(tie.next_down()), code, "below the tie above {code:#06x}");
            assert_eq!(encode(tie.next_up()), code + 1, "above the tie above {code:#06x}");
            assert_eq!(encode(-tie.next_up()), (code + 1) | 0x8000);
        }
    }

    #[test]
    fn f16_rounds_every_tie_to_even() {
        check_every_tie(0x7c00, |c| f16::from_bits(c).to_f64(), |v| f64_to_f16(v).to_bits());
    }

    #[test]
    fn bf16_rounds_every_tie_to_even() {
        check_every_tie(0x7f80, |c| bf16::from_bits(c).to_f64(), |v| f64_to_bf16(v).to_bits());
    }

    #[test]
    fn double_rounding_traps() {
        // Just above the tie between 1 and 1 + 2^-7: dropping low bits first would call it a tie.
        let above = 1.0 + 2f64.powi(-8) + 2f64.powi(-40);
        assert_eq!(f64_to_bf16(above).to_bits(), 0x3f81);
        let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(f64_to_f16(above).to_bits(), 0x3c01);
    }

    #[test]
    fn specials() {
        assert!(f64_to_f16(f64::NAN).is_nan());
        assert!(f64_to_bf16(f64::NAN).is_nan());
        assert_eq!(f64_to_f16(f64::INFINITY), f16::INFINITY);
        assert_eq!(f64_to_f16(1e300), f16::INFINITY);
        assert_eq!(f64_to_bf16(f64::NEG_INFINITY), bf16::NEG_INFINITY);
        assert_eq!(f64_to_f16(-0.0).to_bits(), 0x8000);
        assert_eq!(f64_to_f16(1e-320).to_bits(), 0);
        assert_eq!(f64_to_i8(2.5), 2);
        assert_eq!(f64_to_i8(300.0), 127);
        assert_eq!(f64_to_i8(f64::NAN), 0);
    }
}
