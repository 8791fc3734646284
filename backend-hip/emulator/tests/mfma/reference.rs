//! The accumulation rules in big integers, one output at a time, written from their description and nothing else.
//!
//! Every number is an integer multiple of 2^-700. Nothing here shares code with the emulator: formats are decoded anew.

use lapidary_cdna::mfma::{Accumulation, Format, MfmaShape};
use num_bigint::BigInt;

use super::operands::Operands;

const POINT: i64 = 700;
const NAN: u32 = 0x7fc0_0000;

/// A finite number, an infinity or NaN.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Number {
    Finite {
        value: BigInt,
        /// Exponent field less bias, that of the smallest normal number for subnormals; unused for zero.
        exponent: i64,
    },
    Infinite {
        negative: bool,
    },
    Nan,
}

use Number::{Finite, Infinite, Nan};

fn power(exponent: i64) -> BigInt {
    assert!(exponent >= -POINT, "2^{exponent} is below the reference's last place");
    BigInt::from(1) << (exponent + POINT)
}

/// Sign, exponent and fraction bits, bias, and the largest exponent's meaning of every floating point format.
pub(crate) fn decode(format: Format, code: u32) -> Number {
    let (exponent_bits, fraction_bits, bias) = match format {
        Format::F32 | Format::Xf32 => (8, 23, 127),
        Format::F16 => (5, 10, 15),
        Format::Bf16 => (8, 7, 127),
        Format::E4m3Fnuz => (4, 3, 8),
        Format::E5m2Fnuz => (5, 2, 16),
        Format::E4m3Fn => (4, 3, 7),
        Format::E5m2 => (5, 2, 15),
        Format::E2m3 => (2, 3, 1),
        Format::E3m2 => (3, 2, 3),
        Format::E2m1 => (2, 1, 1),
        Format::I8 => {
            let value = BigInt::from(code as u8 as i8) << POINT;
            return Finite { value, exponent: 0 };
        }
    };
    let fraction = code & ((1 << fraction_bits) - 1);
    let field = code >> fraction_bits & ((1 << exponent_bits) - 1);
    let negative = code >> (fraction_bits + exponent_bits) & 1 == 1;
    let ieee =
        matches!(format, Format::F32 | Format::Xf32 | Format::F16 | Format::Bf16 | Format::E5m2);
    if ieee && field == (1 << exponent_bits) - 1 {
        return if fraction == 0 { Infinite { negative } } else { Nan };
    }
    if matches!(format, Format::E4m3Fnuz | Format::E5m2Fnuz) && code == 0x80 {
        return Nan;
    }
    if format == Format::E4m3Fn && code & 0x7f == 0x7f {
        return Nan;
    }
    let fraction = if format == Format::Xf32 { fraction >> 13 << 13 } else { fraction };
    let exponent = i64::from(field.max(1)) - bias;
    let significand = fraction + if field > 0 { 1 << fraction_bits } else { 0 };
    let magnitude = BigInt::from(significand) * power(exponent - i64::from(fraction_bits));
    Finite { value: if negative { -magnitude } else { magnitude }, exponent }
}

fn is_zero(value: &BigInt) -> bool {
    *value == BigInt::from(0)
}

/// Cuts to a multiple of 2^place, toward zero.
fn truncate(value: &BigInt, place: i64) -> BigInt {
    if place < -POINT {
        return value.clone();
    }
    // Division of big integers truncates.
    value / power(place) * power(place)
}

/// Cuts to a multiple of 2^place, toward minus infinity.
fn floor(value: &BigInt, place: i64) -> BigInt {
    let cut = truncate(value, place);
    if cut > *value { cut - power(place) } else { cut }
}

/// Rounds to f32, to nearest, ties to even; a zero is positive.
pub(crate) fn round(value: &BigInt) -> u32 {
    let negative = *value < BigInt::from(0);
    let magnitude = if negative { -value } else { value.clone() };
    if is_zero(&magnitude) {
        return 0;
    }
    let exponent = (magnitude.bits() as i64 - 1 - POINT).max(-126);
    let unit = power(exponent - 23);
    let mut steps: BigInt = &magnitude / &unit;
    let twice_rest: BigInt = (&magnitude - &steps * &unit) * 2;
    let odd: BigInt = &steps % 2;
    if twice_rest > unit || (twice_rest == unit && !is_zero(&odd)) {
        steps += 1;
    }
    // The steps count from zero for subnormals; a carry runs into the exponent by itself.
    let steps = u64::try_from(steps).unwrap();
    let field = (exponent + 126) as u64;
    let bits = ((field << 23) + steps).min(0x7f80_0000) as u32;
    bits | u32::from(negative) << 31
}

/// The class of a sum of several numbers: `Some` if it is not finite.
fn not_finite(terms: impl IntoIterator<Item = Number>) -> Option<u32> {
    let (mut up, mut down) = (false, false);
    for term in terms {
        match term {
            Nan => return Some(NAN),
            Infinite { negative } => {
                up |= !negative;
                down |= negative;
            }
            Finite { .. } => {}
        }
    }
    match (up, down) {
        (true, true) => Some(NAN),
        (true, false) => Some(0x7f80_0000),
        (false, true) => Some(0xff80_0000),
        (false, false) => None,
    }
}

/// An exact product; its exponent is the sum of the factors' exponents.
fn multiply(a: &Number, b: &Number) -> Number {
    match (a, b) {
        (Nan, _) | (_, Nan) => Nan,
        (Finite { value: a, exponent: ea }, Finite { value: b, exponent: eb }) => {
            Finite { value: (a * b) >> POINT, exponent: ea + eb }
        }
        (Finite { value, .. }, Infinite { negative })
        | (Infinite { negative }, Finite { value, .. }) => {
            if is_zero(value) {
                Nan
            } else {
                Infinite { negative: *negative != (*value < BigInt::from(0)) }
            }
        }
        (Infinite { negative: a }, Infinite { negative: b }) => Infinite { negative: a != b },
    }
}

/// Products of magnitude 2^128 and more are infinities on CDNA3.
fn overflow(product: Number) -> Number {
    match product {
        Finite { value, .. } if value >= power(128) => Infinite { negative: false },
        Finite { value, .. } if value <= -power(128) => Infinite { negative: true },
        other => other,
    }
}

/// A truncated sum with the largest exponent of the products that are not zero.
fn truncated_sum(products: &[Number]) -> (BigInt, Option<i64>) {
    let nonzero: Vec<(&BigInt, i64)> = products
        .iter()
        .filter_map(|p| match p {
            Finite { value, exponent } if !is_zero(value) => Some((value, *exponent)),
            _ => None,
        })
        .collect();
    let Some(largest) = nonzero.iter().map(|(_, e)| *e).max() else {
        return (BigInt::from(0), None);
    };
    (nonzero.iter().map(|(value, _)| truncate(value, largest - 24)).sum(), Some(largest))
}

/// One step of CDNA3's adder.
fn cdna3_step(products: Vec<Number>, c: u32, eight_bit: bool) -> u32 {
    let products: Vec<Number> = products.into_iter().map(overflow).collect();
    let c_number = decode(Format::F32, c);
    if let Some(result) = not_finite(products.iter().cloned().chain([c_number.clone()])) {
        return result;
    }
    let Finite { value: c_value, exponent: c_exponent } = c_number else { unreachable!() };
    let (sum, largest) = if eight_bit {
        let pick = |parity: usize| -> Vec<Number> {
            products.iter().skip(parity).step_by(2).cloned().collect()
        };
        let (even, even_largest) = truncated_sum(&pick(0));
        let (odd, odd_largest) = truncated_sum(&pick(1));
        match even_largest.max(odd_largest) {
            None => (BigInt::from(0), None),
            Some(e) => (floor(&even, e - 24) + floor(&odd, e - 24), Some(e)),
        }
    } else {
        truncated_sum(&products)
    };
    let e = largest.map_or(c_exponent, |largest| largest.max(c_exponent));
    let c_part =
        if eight_bit && c_exponent < e - 25 { BigInt::from(0) } else { floor(&c_value, e - 24) };
    round(&(floor(&sum, e - 31) + c_part))
}

/// The expected bits of one output.
pub(crate) fn output(shape: &MfmaShape, operands: &Operands, row: usize, column: usize) -> u32 {
    let Operands { a, b, c, scales } = operands;
    let factors = |k: usize| (a.at(row, k), b.at(k, column));
    let product = |k: usize| {
        let (a, b) = factors(k);
        multiply(&decode(shape.a(), a), &decode(shape.b(), b))
    };
    let start = c.at(row, column);
    match shape.accumulation() {
        Accumulation::Integer => (0..shape.k()).fold(start, |sum, k| {
            let (a, b) = factors(k);
            let product = i64::from(a as u8 as i8) * i64::from(b as u8 as i8);
            (i64::from(sum as i32) + product) as u32
        }),
        Accumulation::FmaChain => (0..shape.k()).fold(start, |sum, k| {
            let (a, b) = factors(k);
            let sum = f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(sum));
            if sum.is_nan() { NAN } else { sum.to_bits() }
        }),
        Accumulation::Cdna3 { group } => {
            let ks: Vec<usize> = (0..shape.k()).collect();
            ks.chunks(group).fold(start, |sum, ks| {
                cdna3_step(ks.iter().map(|k| product(*k)).collect(), sum, false)
            })
        }
        Accumulation::Cdna3Fp8 => {
            let ks: Vec<usize> = (0..shape.k()).collect();
            ks.chunks(16).fold(start, |sum, ks| {
                cdna3_step(ks.iter().map(|k| product(*k)).collect(), sum, true)
            })
        }
        Accumulation::Fused { group } => {
            let ks: Vec<usize> = (0..shape.k()).collect();
            ks.chunks(group).fold(start, |sum, ks| {
                let scale = scales
                    .as_ref()
                    .map(|(of_a, of_b)| (of_a.at(row, ks[0] / 32), of_b.at(ks[0] / 32, column)));
                fused_step(ks.iter().map(|k| product(*k)), scale, sum)
            })
        }
    }
}

/// One exactly summed group, scaled, with C, rounded once.
fn fused_step(products: impl Iterator<Item = Number>, scale: Option<(u32, u32)>, c: u32) -> u32 {
    let shift = match scale {
        Some((0xff, _)) | Some((_, 0xff)) => return NAN,
        Some((a, b)) => i64::from(a) + i64::from(b) - 254,
        None => 0,
    };
    let terms: Vec<Number> = products.collect();
    let c = decode(Format::F32, c);
    if let Some(result) = not_finite(terms.iter().cloned().chain([c.clone()])) {
        return result;
    }
    let value = |number: &Number| match number {
        Finite { value, .. } => value.clone(),
        Infinite { .. } | Nan => unreachable!(),
    };
    let sum: BigInt = terms.iter().map(value).sum();
    let scaled = if shift < 0 { sum >> -shift } else { sum << shift };
    round(&(scaled + value(&c)))
}
