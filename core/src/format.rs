//! Narrow floating-point formats as data, and conversions between their codes and `f64`.
//!
//! One description a format (field widths, bias, which codes are special) drives one encoder and
//! one decoder, both in integer arithmetic. The encoder rounds once, from the 53-bit significand:
//! conversions that go through `f32` round twice, and a value just above a tie can land on the tie
//! first and then go the wrong way.

/// Which codes of a format are not finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Specials {
    /// As IEEE 754: the highest exponent field holds infinity (fraction 0) and NaN.
    Ieee,
    /// No infinity; NaN is the code with every exponent and fraction bit set, in both signs
    /// (OCP e4m3).
    AllOnesNan,
    /// No infinity and no negative zero; the code of negative zero is the only NaN (FNUZ).
    NegativeZeroNan,
    /// Every code is a finite number (OCP e2m1).
    None,
}

/// What an encoder does with numbers that round past the largest finite one, and with infinity.
///
/// NaN stays NaN in either mode; in a format without NaN it becomes +0, as it does in integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Overflow {
    /// Infinity where the format has one, else NaN where it has that, else the largest finite
    /// number of the same sign. The default, here and in the conversion instructions of CDNA3 and
    /// CDNA4: an overflow stays visible.
    #[default]
    NonFinite,
    /// The largest finite number of the same sign.
    Saturate,
}

/// A binary floating-point format of at most 16 bits: sign, exponent field, fraction field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct FloatFormat {
    /// Width of the exponent field.
    pub exponent_bits: u32,
    /// Width of the fraction field.
    pub fraction_bits: u32,
    /// What is subtracted from the exponent field.
    pub bias: i32,
    /// Codes that are not finite numbers.
    pub specials: Specials,
}

impl FloatFormat {
    /// IEEE binary16.
    pub const F16: Self = Self::new(5, 10, 15, Specials::Ieee);
    /// bfloat16.
    pub const BF16: Self = Self::new(8, 7, 127, Specials::Ieee);
    /// OCP 8-bit e4m3 (OFP8, revision 1.0): largest 448.
    pub const E4M3: Self = Self::new(4, 3, 7, Specials::AllOnesNan);
    /// OCP 8-bit e5m2: largest 57,344.
    pub const E5M2: Self = Self::new(5, 2, 15, Specials::Ieee);
    /// FNUZ e4m3, of CDNA3: largest 240; a code is half of what OCP reads it as.
    pub const E4M3_FNUZ: Self = Self::new(4, 3, 8, Specials::NegativeZeroNan);
    /// FNUZ e5m2, of CDNA3: largest 57,344.
    pub const E5M2_FNUZ: Self = Self::new(5, 2, 16, Specials::NegativeZeroNan);
    /// OCP 4-bit e2m1 (MX, revision 1.0): 0, ½, 1, 1½, 2, 3, 4, 6 and their negatives.
    pub const E2M1: Self = Self::new(2, 1, 1, Specials::None);

    const fn new(exponent_bits: u32, fraction_bits: u32, bias: i32, specials: Specials) -> Self {
        Self { exponent_bits, fraction_bits, bias, specials }
    }

    /// Width of a code: sign, exponent and fraction.
    #[must_use]
    pub const fn bits(self) -> u32 {
        1 + self.exponent_bits + self.fraction_bits
    }

    /// The code of positive NaN, or `None` in a format without NaN.
    #[must_use]
    pub const fn nan(self) -> Option<u32> {
        match self.specials {
            Specials::Ieee => Some(self.infinity_code() | (1 << (self.fraction_bits - 1))),
            Specials::AllOnesNan => Some(self.sign_bit() - 1),
            Specials::NegativeZeroNan => Some(self.sign_bit()),
            Specials::None => None,
        }
    }

    /// The code of positive infinity, or `None` in a format without it.
    #[must_use]
    pub const fn infinity(self) -> Option<u32> {
        match self.specials {
            Specials::Ieee => Some(self.infinity_code()),
            Specials::AllOnesNan | Specials::NegativeZeroNan | Specials::None => None,
        }
    }

    /// The code of the largest finite number.
    #[must_use]
    pub const fn max_code(self) -> u32 {
        match self.specials {
            Specials::Ieee => self.infinity_code() - 1,
            Specials::AllOnesNan => self.sign_bit() - 2,
            Specials::NegativeZeroNan | Specials::None => self.sign_bit() - 1,
        }
    }

    /// The largest finite number.
    #[must_use]
    pub const fn max_finite(self) -> f64 {
        self.decode(self.max_code())
    }

    /// The smallest positive normal number, 2^(1 − bias).
    #[must_use]
    pub const fn min_normal(self) -> f64 {
        power_of_two(1 - self.bias)
    }

    /// The smallest positive number, 2^(1 − bias − fraction bits).
    #[must_use]
    pub const fn min_subnormal(self) -> f64 {
        power_of_two(1 - self.bias - self.fraction_bits as i32)
    }

    /// Half the distance from 1 to the next number, 2^(−1 − fraction bits).
    #[must_use]
    pub const fn unit_roundoff(self) -> f64 {
        power_of_two(-1 - self.fraction_bits as i32)
    }

    /// The exact value of a code; bits above the code's width are ignored.
    #[must_use]
    pub const fn decode(self, code: u32) -> f64 {
        let negative = code & self.sign_bit() != 0;
        let magnitude = code & (self.sign_bit() - 1);
        match self.specials {
            Specials::Ieee if magnitude > self.infinity_code() => return f64::NAN,
            Specials::Ieee if magnitude == self.infinity_code() => {
                return if negative { f64::NEG_INFINITY } else { f64::INFINITY };
            }
            Specials::AllOnesNan if magnitude == self.sign_bit() - 1 => return f64::NAN,
            Specials::NegativeZeroNan if negative && magnitude == 0 => return f64::NAN,
            _ => {}
        }
        let exponent = (magnitude >> self.fraction_bits) as i32;
        let fraction = magnitude & ((1 << self.fraction_bits) - 1);
        let (significand, exponent) = if exponent == 0 {
            (fraction, 1)
        } else {
            (fraction | (1 << self.fraction_bits), exponent)
        };
        let value =
            significand as f64 * power_of_two(exponent - self.bias - self.fraction_bits as i32);
        if negative { -value } else { value }
    }

    /// The code of the number nearest to `value`, ties to the even code.
    ///
    /// The scheme: split the `f64` into sign, exponent and 53-bit significand; shift the significand
    /// right to the target's precision (further right for a subnormal result) keeping the round bit
    /// and whether anything below it was set; add one if the round bit says so. A carry out of the
    /// fraction runs into the exponent field and is right as it stands. What then lies past the
    /// largest finite code has overflowed.
    #[must_use]
    pub const fn encode(self, value: f64, overflow: Overflow) -> u32 {
        let bits = value.to_bits();
        let sign = if bits >> 63 == 1 { self.sign_bit() } else { 0 };
        if value.is_nan() {
            return match (self.specials, self.nan()) {
                (Specials::NegativeZeroNan, Some(nan)) => nan,
                (_, Some(nan)) => sign | nan,
                (_, None) => 0,
            };
        }
        let magnitude = self.round_magnitude(bits);
        if magnitude <= self.max_code() as u64 {
            let code = magnitude as u32;
            // FNUZ has no negative zero: its code is NaN.
            let unsigned_zero = matches!(self.specials, Specials::NegativeZeroNan) && code == 0;
            return if unsigned_zero { 0 } else { sign | code };
        }
        match (overflow, self.specials) {
            (Overflow::NonFinite, Specials::Ieee) => sign | self.infinity_code(),
            (Overflow::NonFinite, Specials::AllOnesNan) => sign | (self.sign_bit() - 1),
            (Overflow::NonFinite, Specials::NegativeZeroNan) => self.sign_bit(),
            (Overflow::Saturate, _) | (_, Specials::None) => sign | self.max_code(),
        }
    }

    /// |value| as a code of this format with no end of exponents; `bits` are no NaN's.
    const fn round_magnitude(self, bits: u64) -> u64 {
        let f64_exponent = ((bits >> 52) & 0x7ff) as i32;
        if f64_exponent == 0 {
            // Zero, or an f64 subnormal: below half the smallest subnormal of every format here.
            return 0;
        }
        let significand = (bits & ((1 << 52) - 1)) | (1 << 52);
        let exponent = f64_exponent - 1023 + self.bias;
        let subnormal_shift = if exponent < 1 { 1 - exponent } else { 0 };
        let shift = 52 - self.fraction_bits as i32 + subnormal_shift;
        if shift > 54 {
            return 0;
        }
        let kept = significand >> shift;
        let remainder = significand & ((1u64 << shift) - 1);
        let half = 1u64 << (shift - 1);
        let round_up = remainder > half || (remainder == half && kept & 1 == 1);
        // For a normal result `kept` has its hidden bit set, which adds one to the exponent field.
        let base = if exponent < 1 { 0 } else { (exponent as u64 - 1) << self.fraction_bits };
        base + kept + round_up as u64
    }

    const fn sign_bit(self) -> u32 {
        1 << (self.exponent_bits + self.fraction_bits)
    }

    const fn infinity_code(self) -> u32 {
        ((1 << self.exponent_bits) - 1) << self.fraction_bits
    }
}

/// 2^n for a normal `f64`: n from −1022 to 1023.
pub(crate) const fn power_of_two(n: i32) -> f64 {
    f64::from_bits(((1023 + n) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [FloatFormat; 7] = [
        FloatFormat::F16,
        FloatFormat::BF16,
        FloatFormat::E4M3,
        FloatFormat::E5M2,
        FloatFormat::E4M3_FNUZ,
        FloatFormat::E5M2_FNUZ,
        FloatFormat::E2M1,
    ];

    fn encode(format: FloatFormat, value: f64) -> u32 {
        format.encode(value, Overflow::NonFinite)
    }

    #[test]
    fn every_code_of_every_format_comes_back() {
        for format in ALL {
            for code in 0..1 << format.bits() {
                let value = format.decode(code);
                for overflow in [Overflow::NonFinite, Overflow::Saturate] {
                    let again = format.encode(value, overflow);
                    if value.is_nan() {
                        assert!(format.decode(again).is_nan(), "{format:?} {code:#x}");
                    } else if value.is_infinite() && overflow == Overflow::Saturate {
                        assert_eq!(format.decode(again).abs(), format.max_finite());
                    } else {
                        assert_eq!(again, code, "{format:?} {code:#x} = {value}");
                    }
                }
            }
        }
    }

    /// The midpoint between neighbours goes to the even code and one f64 ulp either side of it to
    /// the nearer code, for every pair of every format, up to the overflow threshold.
    #[test]
    fn every_tie_of_every_format_goes_to_the_even_code() {
        for format in ALL {
            let sign = format.sign_bit();
            for code in 0..format.max_code() {
                let (low, high) = (format.decode(code), format.decode(code + 1));
                assert!(low < high, "codes are in the order of their values");
                let tie = low + (high - low) / 2.0;
                let even = code + code % 2;
                assert_eq!(encode(format, tie), even, "{format:?} tie above {code:#x}");
                assert_eq!(encode(format, tie.next_down()), code, "{format:?} {code:#x}");
                assert_eq!(encode(format, tie.next_up()), code + 1, "{format:?} {code:#x}");
                assert_eq!(encode(format, -tie.next_up()), sign | (code + 1));
            }
        }
    }

    #[test]
    fn overflow_starts_at_the_tie_past_the_largest_number_and_does_as_asked() {
        for format in ALL {
            let max = format.max_finite();
            let tie = max + (max - format.decode(format.max_code() - 1)) / 2.0;
            let first = if format.max_code() % 2 == 0 { tie.next_up() } else { tie };
            assert_eq!(encode(format, first.next_down()), format.max_code(), "{format:?}");
            for value in [first, 1e300, f64::INFINITY] {
                for sign in [1.0, -1.0] {
                    let open = format.decode(encode(format, sign * value));
                    match format.specials {
                        Specials::Ieee => assert_eq!(open, sign * f64::INFINITY),
                        Specials::None => assert_eq!(open, sign * max),
                        _ => assert!(open.is_nan(), "{format:?}"),
                    }
                    let closed = format.decode(format.encode(sign * value, Overflow::Saturate));
                    assert_eq!(closed, sign * max, "{format:?}");
                }
            }
        }
    }

    #[test]
    fn published_limits() {
        // (format, largest, smallest normal, smallest subnormal)
        for (format, max, normal, subnormal) in [
            (FloatFormat::E4M3_FNUZ, 240.0, -7, -10),
            (FloatFormat::E5M2_FNUZ, 57344.0, -15, -17),
            (FloatFormat::E4M3, 448.0, -6, -9),
            (FloatFormat::E5M2, 57344.0, -14, -16),
            (FloatFormat::E2M1, 6.0, 0, -1),
            (FloatFormat::F16, 65504.0, -14, -24),
        ] {
            assert_eq!(format.max_finite(), max, "{format:?}");
            assert_eq!(format.min_normal(), 2f64.powi(normal), "{format:?}");
            assert_eq!(format.min_subnormal(), 2f64.powi(subnormal), "{format:?}");
        }
        let fp4: Vec<f64> = (0..8).map(|code| FloatFormat::E2M1.decode(code)).collect();
        assert_eq!(fp4, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
    }

    #[test]
    fn non_finite_codes_are_where_the_formats_put_them() {
        let nans = |format: FloatFormat| -> Vec<u32> {
            (0..256).filter(|&code| format.decode(code).is_nan()).collect()
        };
        assert_eq!(nans(FloatFormat::E4M3), [0x7f, 0xff]);
        assert_eq!(nans(FloatFormat::E5M2), [0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff]);
        assert_eq!(nans(FloatFormat::E4M3_FNUZ), [0x80]);
        assert_eq!(nans(FloatFormat::E5M2_FNUZ), [0x80]);
        assert_eq!(FloatFormat::E5M2.decode(0xfc), f64::NEG_INFINITY);
        for format in [FloatFormat::E4M3_FNUZ, FloatFormat::E5M2_FNUZ] {
            assert_eq!(encode(format, -0.0), 0, "FNUZ has no negative zero");
            assert_eq!(encode(format, -1e-9), 0, "nor what rounds to it");
            assert_eq!(encode(format, f64::NAN), 0x80);
            assert_eq!(encode(format, -f64::NAN), 0x80);
        }
        assert_eq!(encode(FloatFormat::E4M3, -0.0), 0x80);
        assert_eq!(encode(FloatFormat::E2M1, f64::NAN), 0);
    }

    #[test]
    fn a_code_is_half_as_much_in_fnuz_as_in_ocp() {
        for (fnuz, ocp) in [
            (FloatFormat::E4M3_FNUZ, FloatFormat::E4M3),
            (FloatFormat::E5M2_FNUZ, FloatFormat::E5M2),
        ] {
            for code in (0..256).filter(|&code| code != 0x80 && ocp.decode(code).is_finite()) {
                assert_eq!(2.0 * fnuz.decode(code), ocp.decode(code), "{code:#x}");
            }
        }
    }
}
