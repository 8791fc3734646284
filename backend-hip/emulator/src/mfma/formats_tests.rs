//! Every code of every format, and rounding at every boundary between codes.

use super::*;

/// The 8-, 6- and 4-bit floats with exponent bits, fraction bits and bias, written down once more from the specifications.
const SMALL: [(Format, u32, u32, i32); 7] = [
    (Format::E4m3Fnuz, 4, 3, 8),
    (Format::E5m2Fnuz, 5, 2, 16),
    (Format::E4m3Fn, 4, 3, 7),
    (Format::E5m2, 5, 2, 15),
    (Format::E2m3, 2, 3, 1),
    (Format::E3m2, 3, 2, 3),
    (Format::E2m1, 2, 1, 1),
];

fn codes(format: Format) -> std::ops::Range<u32> {
    0..1 << format.bits()
}

fn special(format: Format, code: u32) -> Option<Class> {
    match (format, code) {
        (Format::E4m3Fnuz | Format::E5m2Fnuz, 0x80) => Some(Class::Nan),
        (Format::E4m3Fn, 0x7f | 0xff) => Some(Class::Nan),
        (Format::E5m2, 0x7c | 0xfc) => Some(Class::Infinite),
        (Format::E5m2, 0x7d..=0x7f | 0xfd..=0xff) => Some(Class::Nan),
        _ => None,
    }
}

#[test]
fn every_small_code_has_the_value_its_fields_state() {
    for (format, exponent_bits, fraction_bits, bias) in SMALL {
        assert_eq!(format.bits(), 1 + exponent_bits + fraction_bits);
        for code in codes(format) {
            let decoded = format.decode(code);
            if let Some(class) = special(format, code) {
                assert_eq!(decoded.class, class, "{format} {code:#x}");
                continue;
            }
            let fraction = f64::from(code % (1 << fraction_bits)) / f64::from(1 << fraction_bits);
            let field = (code >> fraction_bits) % (1 << exponent_bits);
            let magnitude = if field == 0 {
                fraction * 2f64.powi(1 - bias)
            } else {
                (1.0 + fraction) * 2f64.powi(field as i32 - bias)
            };
            let sign = if code >> (exponent_bits + fraction_bits) == 1 { -1.0 } else { 1.0 };
            let value = format.value(code);
            assert_eq!(decoded.class, Class::Finite);
            assert_eq!(value.to_bits(), (sign * magnitude).to_bits(), "{format} {code:#x}");
        }
    }
}

#[test]
fn limits_are_those_of_the_specifications() {
    // Format, largest, smallest normal, smallest subnormal.
    let limits = [
        (Format::E4m3Fnuz, 240.0, 7, 10),
        (Format::E5m2Fnuz, 57344.0, 15, 17),
        (Format::E4m3Fn, 448.0, 6, 9),
        (Format::E5m2, 57344.0, 14, 16),
        (Format::E2m3, 7.5, 0, 3),
        (Format::E3m2, 28.0, 2, 4),
        (Format::E2m1, 6.0, 0, 1),
        (Format::F16, 65504.0, 14, 24),
    ];
    for (format, largest, normal, subnormal) in limits {
        let finite = codes(format).map(|code| format.value(code)).filter(|v| v.is_finite());
        assert_eq!(format.largest(), largest, "{format}");
        assert_eq!(finite.fold(0.0, f64::max), largest, "{format}");
        assert_eq!(format.value(1), 2f64.powi(-subnormal), "{format}");
        assert_eq!(format.value(1 << format.fraction_bits()), 2f64.powi(-normal), "{format}");
    }
    let e2m1: Vec<f64> = (0..8).map(|code| Format::E2m1.value(code)).collect();
    assert_eq!(e2m1, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
}

#[test]
fn a_byte_means_half_as_much_in_fnuz() {
    for (fnuz, ocp) in [(Format::E4m3Fnuz, Format::E4m3Fn), (Format::E5m2Fnuz, Format::E5m2)] {
        for code in codes(ocp).filter(|code| ocp.value(*code).is_finite() && *code != 0x80) {
            assert_eq!(fnuz.value(code), ocp.value(code) / 2.0, "{fnuz} {code:#x}");
        }
    }
}

#[test]
fn sixteen_bit_codes_agree_with_the_half_crate() {
    for code in 0..=u16::MAX {
        for (ours, theirs) in [
            (Format::F16.value(code.into()), half::f16::from_bits(code).to_f64()),
            (Format::Bf16.value(code.into()), half::bf16::from_bits(code).to_f64()),
        ] {
            assert!(ours == theirs || (ours.is_nan() && theirs.is_nan()), "{code:#x}");
            assert_eq!(
                ours.is_sign_negative() || ours.is_nan(),
                theirs.is_sign_negative() || ours.is_nan()
            );
        }
    }
}

#[test]
fn wide_codes_agree_with_the_native_types() {
    for step in 0..=u16::MAX {
        let code = u32::from(step) << 16 | u32::from(step).wrapping_mul(40503) & 0xffff;
        let native = f32::from_bits(code);
        let value = Format::F32.value(code);
        assert!(value == f64::from(native) || (value.is_nan() && native.is_nan()), "{code:#x}");
        let truncated = f32::from_bits(code & 0xffff_e000);
        let value = Format::Xf32.value(code);
        if native.is_nan() {
            assert!(value.is_nan(), "{code:#x}");
        } else {
            assert_eq!(value, f64::from(truncated), "{code:#x}");
        }
        assert_eq!(Format::I8.value(code & 0xff), f64::from(code as u8 as i8));
    }
    // The payload lies in bits that truncation drops.
    assert!(Format::Xf32.value(0x7f80_0001).is_nan());
}

#[test]
fn every_finite_code_survives_a_round_trip() {
    for format in Format::ALL {
        let all = if format.bits() == 32 { 0..0 } else { codes(format) };
        for code in all {
            let value = format.value(code);
            if value.is_nan() {
                assert!(format.value(format.encode(value, Overflow::Saturate)).is_nan());
            } else {
                assert_eq!(format.encode(value, Overflow::NonFinite), code, "{format} {code:#x}");
            }
        }
    }
}

#[test]
fn ties_go_to_the_even_code_and_neighbours_to_the_nearer() {
    for format in Format::ALL.into_iter().filter(|f| f.bits() <= 16 && *f != Format::I8) {
        let top = format.encode(format.largest(), Overflow::NonFinite);
        for code in 0..top {
            let (low, high) = (format.value(code), format.value(code + 1));
            let middle = (low + high) / 2.0;
            let even = code + code % 2;
            for (value, expected) in [
                (middle, even),
                (f64::from_bits(middle.to_bits() - 1), code),
                (f64::from_bits(middle.to_bits() + 1), code + 1),
            ] {
                assert_eq!(
                    format.encode(value, Overflow::NonFinite),
                    expected,
                    "{format} {value:e}"
                );
                let sign = 1 << (format.bits() - 1);
                let fnuz = matches!(format, Format::E4m3Fnuz | Format::E5m2Fnuz);
                let negative = if fnuz && expected == 0 { 0 } else { sign | expected };
                assert_eq!(
                    format.encode(-value, Overflow::NonFinite),
                    negative,
                    "{format} {value:e}"
                );
            }
        }
    }
}

#[test]
fn what_lies_beyond_the_largest_number() {
    // Half a step above the largest rounds up where the largest is odd, and down where it is even (e4m3fn).
    let cases = [
        (Format::E4m3Fnuz, 247.9, 0x7f, 248.0, 0x80, 0x80),
        (Format::E5m2Fnuz, 61439.0, 0x7f, 61440.0, 0x80, 0x80),
        (Format::E4m3Fn, 464.0, 0x7e, 464.1, 0x7f, 0xff),
        (Format::E5m2, 61439.0, 0x7b, 61440.0, 0x7c, 0xfc),
        (Format::E2m3, 7.7, 0x1f, 1e9, 0x1f, 0x3f),
        (Format::E3m2, 29.9, 0x1f, 1e9, 0x1f, 0x3f),
        (Format::E2m1, 6.9, 0x7, 1e9, 0x7, 0xf),
        (Format::F16, 65519.9, 0x7bff, 65520.0, 0x7c00, 0xfc00),
    ];
    for (format, inside, largest, beyond, positive, negative) in cases {
        assert_eq!(format.encode(inside, Overflow::NonFinite), largest, "{format}");
        assert_eq!(format.encode(beyond, Overflow::NonFinite), positive, "{format}");
        assert_eq!(format.encode(-beyond, Overflow::NonFinite), negative, "{format}");
        assert_eq!(format.encode(f64::INFINITY, Overflow::NonFinite), positive, "{format}");
        assert_eq!(format.encode(f64::NEG_INFINITY, Overflow::Saturate), negative, "{format}");
        assert_eq!(format.encode(beyond, Overflow::Saturate), largest, "{format}");
        assert_eq!(format.encode(1e300, Overflow::Saturate), largest, "{format}");
        let sign = 1 << (format.bits() - 1);
        assert_eq!(format.encode(-beyond, Overflow::Saturate), sign | largest, "{format}");
        assert_eq!(format.encode(1e-300, Overflow::NonFinite), 0, "{format}");
    }
    assert_eq!(Format::E4m3Fnuz.encode(-0.0, Overflow::NonFinite), 0);
    assert_eq!(Format::E4m3Fn.encode(-0.0, Overflow::NonFinite), 0x80);
    assert_eq!(Format::E5m2.encode(f64::NAN, Overflow::NonFinite) & 0x7f, 0x7f);
    assert_eq!(Format::F16.encode(f64::NAN, Overflow::NonFinite) & 0x7fff, 0x7e00);
    assert_eq!(Format::Bf16.encode(f64::NAN, Overflow::NonFinite) & 0x7fff, 0x7fc0);
}

#[test]
fn sixteen_bit_rounding_agrees_with_the_half_crate() {
    let mut state = 1u32;
    for _ in 0..200_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let value = f32::from_bits(state);
        if value.is_nan() {
            continue;
        }
        let wide = f64::from(value);
        let f16 = u32::from(half::f16::from_f32(value).to_bits());
        let bf16 = u32::from(half::bf16::from_f32(value).to_bits());
        assert_eq!(Format::F16.encode(wide, Overflow::NonFinite), f16, "{value:e}");
        assert_eq!(Format::Bf16.encode(wide, Overflow::NonFinite), bf16, "{value:e}");
        assert_eq!(Format::F32.encode(wide, Overflow::NonFinite), state, "{value:e}");
    }
}

#[test]
fn scales_are_powers_of_two() {
    for code in 0..=254u8 {
        assert_eq!(decode_e8m0(code), Some(i32::from(code) - 127));
    }
    assert_eq!(decode_e8m0(255), None);
    assert_eq!(decode_e8m0(127), Some(0));
}
