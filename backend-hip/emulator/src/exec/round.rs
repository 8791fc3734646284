//! Rounding: from exact or nearly exact doubles to narrower formats in any of the four hardware rounding modes.
//!
//! A sum of doubles is made exact by carrying its residue ([`two_sum`]) and folding the residue into the last bit of the
//! sum ([`to_odd`], "rounding to odd"); 53 bits rounded to odd and then rounded to at most 51 bits give the correctly
//! rounded result in every mode.

/// A rounding mode, in the order of the MODE register's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Nearest,
    Up,
    Down,
    Zero,
}

impl Round {
    pub(crate) fn from_bits(bits: u32) -> Round {
        match bits & 3 {
            0 => Round::Nearest,
            1 => Round::Up,
            2 => Round::Down,
            _ => Round::Zero,
        }
    }
}

/// Sum and exact error of two doubles (Knuth's branch-free form).
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let bb = sum - a;
    let error = (a - (sum - bb)) + (b - bb);
    (sum, error)
}

/// `value + residue` rounded to odd, `residue` being less than half a unit in the last place of `value`.
pub(crate) fn to_odd(value: f64, residue: f64) -> f64 {
    let bits = value.to_bits();
    if residue == 0.0 || !residue.is_finite() || !value.is_finite() || bits & 1 == 1 {
        return value;
    }
    if value == 0.0 {
        return residue;
    }
    // Away from zero the odd neighbour has the next higher bit pattern, towards zero the next lower one.
    let away = (residue > 0.0) == (value > 0.0);
    f64::from_bits(if away { bits | 1 } else { bits - 1 })
}

/// `a · b + c` of singles, halves or bfloat16 given as doubles, rounded to odd.
pub(crate) fn fma_odd(a: f64, b: f64, c: f64) -> f64 {
    // A product of two 24-bit significands is exact in 53 bits.
    let (sum, error) = two_sum(a * b, c);
    to_odd(sum, error)
}

/// Rounds to a binary format with `fraction` fraction bits and exponent bias `bias`; NaN becomes quiet and keeps the top
/// of its payload, overflow goes to infinity or the largest number as the mode asks.
pub(crate) fn narrow(x: f64, fraction: u32, bias: i32, round: Round) -> u32 {
    let bits = x.to_bits();
    let negative = bits >> 63 == 1;
    let infinity = (2 * bias as u32 + 1) << fraction;
    let sign_at = fraction + 32 - (2 * bias as u32 + 1).leading_zeros();
    let sign = u32::from(negative) << sign_at;
    if x.is_nan() {
        let payload = (bits << 12 >> (64 - fraction)) as u32;
        return sign | infinity | payload | 1 << (fraction - 1);
    }
    if x.is_infinite() {
        return sign | infinity;
    }
    if x == 0.0 {
        return sign;
    }
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
    let significand = bits & ((1 << 52) - 1) | 1 << 52;
    let least = 1 - bias;
    let denormal = (least - exponent).max(0) as u32;
    let shift = (52 - fraction + denormal).min(63);
    let mut quotient = (significand >> shift) as u32;
    let rest = significand & ((1u64 << shift) - 1);
    let half = 1u64 << (shift - 1);
    let up = match round {
        Round::Nearest => rest > half || rest == half && quotient & 1 == 1,
        Round::Up => rest != 0 && !negative,
        Round::Down => rest != 0 && negative,
        Round::Zero => false,
    };
    quotient += u32::from(up);
    if exponent > bias {
        return sign | overflow(infinity, negative, round);
    }
    // A carry out of the fraction steps the exponent by itself.
    let code = if denormal > 0 {
        quotient
    } else {
        (((exponent + bias - 1) as u32) << fraction) + quotient
    };
    sign | if code >= infinity { overflow(infinity, negative, round) } else { code }
}

fn overflow(infinity: u32, negative: bool, round: Round) -> u32 {
    let finite = match round {
        Round::Nearest => false,
        Round::Up => negative,
        Round::Down => !negative,
        Round::Zero => true,
    };
    infinity - u32::from(finite)
}

/// To single precision bits.
pub(crate) fn to_f32(x: f64, round: Round) -> u32 {
    match round {
        Round::Nearest => (x as f32).to_bits(),
        Round::Up | Round::Down | Round::Zero => narrow(x, 23, 127, round),
    }
}

/// To half precision bits.
pub(crate) fn to_f16(x: f64, round: Round) -> u32 {
    narrow(x, 10, 15, round)
}

/// To bfloat16 bits, nearest even.
pub(crate) fn to_bf16(x: f64) -> u32 {
    narrow(x, 7, 127, Round::Nearest)
}

/// The value of half precision bits; higher bits are ignored.
#[inline]
pub(crate) fn from_f16(bits: u32) -> f32 {
    let sign = (bits & 0x8000) << 16;
    let magnitude = bits & 0x7fff;
    if magnitude >= 0x7c00 {
        return f32::from_bits(sign | 0x7f80_0000 | (magnitude & 0x3ff) << 13);
    }
    // Shifted into place the exponent is 112 too low; the product is exact, subnormals included.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits(0x7780_0000);
    f32::from_bits(sign | scaled.to_bits())
}

/// The value of bfloat16 bits; higher bits are ignored.
#[inline]
pub(crate) fn from_bf16(bits: u32) -> f32 {
    f32::from_bits(bits << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singles_round_as_the_host_does() {
        let mut x = 1.0e-46f64;
        while x < 1.0e39 {
            for value in [x, -x, x * 1.000_000_059_604_644_8, x * 1.1] {
                assert_eq!(
                    narrow(value, 23, 127, Round::Nearest),
                    (value as f32).to_bits(),
                    "{value:e}"
                );
            }
            x *= 1.37;
        }
    }

    #[test]
    fn every_half_survives_the_way_through_a_double() {
        for bits in 0..=0xffffu32 {
            let value = f64::from(from_f16(bits));
            let back = to_f16(value, Round::Nearest);
            if value.is_nan() {
                assert_eq!(back, bits | 0x200);
            } else {
                assert_eq!(back, bits);
            }
        }
    }

    #[test]
    fn modes_bracket_the_value() {
        let third = 1.0f64 / 3.0;
        let down = f32::from_bits(narrow(third, 23, 127, Round::Down));
        let up = f32::from_bits(narrow(third, 23, 127, Round::Up));
        assert!(f64::from(down) < third && third < f64::from(up));
        assert_eq!(up.to_bits(), down.to_bits() + 1);
        assert_eq!(narrow(-third, 23, 127, Round::Zero), (-down).to_bits());
        assert_eq!(narrow(1e300, 10, 15, Round::Zero), 0x7bff);
        assert_eq!(narrow(1e300, 10, 15, Round::Nearest), 0x7c00);
        assert_eq!(narrow(-1e300, 10, 15, Round::Up), 0xfbff);
        assert_eq!(narrow(65519.9, 10, 15, Round::Nearest), 0x7bff);
        assert_eq!(narrow(65520.0, 10, 15, Round::Nearest), 0x7c00);
    }

    #[test]
    fn a_fused_sum_keeps_what_a_double_would_lose() {
        // 2^60 + 2^-60 rounds up only if the residue is seen.
        let big = 2f64.powi(60);
        assert_eq!(
            to_f32(fma_odd(big, 1.0, 2f64.powi(-60)), Round::Up),
            (big as f32).to_bits() + 1
        );
        // A tie between two singles that a tiny third part breaks.
        let tie = 1.0 + 2f64.powi(-24);
        assert_eq!(to_f32(fma_odd(tie, 1.0, 2f64.powi(-80)), Round::Nearest), 1.0f32.to_bits() + 1);
    }
}
