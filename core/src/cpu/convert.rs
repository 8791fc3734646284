//! Runs of narrow elements as floats, by whatever vectors the processor has.

use half::{bf16, f16};

/// An 8-bit float format, as far as its codes differ from the upper bits of an f32.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format8 {
    /// Places from a code's lowest bit to the f32's.
    shift: u32,
    /// What makes up for the exponents' different biases: 2^(127 − bias).
    scale: f32,
    /// Codes without sign from here on are infinity (the first, where there are four) or NaN.
    special: u32,
    /// Whether −0's code is NaN and there is no −0.
    fnuz: bool,
}

impl Format8 {
    /// OCP e4m3: bias 7, its largest code is NaN.
    pub(super) const E4M3: Self = Self::new(3, 7, 0x7f, false);
    /// OCP e5m2: bias 15, infinity and NaN as in IEEE formats.
    pub(super) const E5M2: Self = Self::new(2, 15, 0x7c, false);
    /// e4m3 with a bias of 8 and one NaN.
    pub(super) const E4M3_FNUZ: Self = Self::new(3, 8, 0x80, true);
    /// e5m2 with a bias of 16 and one NaN.
    pub(super) const E5M2_FNUZ: Self = Self::new(2, 16, 0x80, true);

    const fn new(mantissa: u32, bias: u32, special: u32, fnuz: bool) -> Self {
        Self { shift: 23 - mantissa, scale: scale(bias), special, fnuz }
    }

    #[inline(always)]
    fn decode(self, code: u8) -> f32 {
        let (sign, rest) = (u32::from(code & 0x80), u32::from(code & 0x7f));
        let bits = sign << 24 | magnitude(rest, self.shift, self.scale, self.special);
        if self.fnuz && code == 0x80 { f32::NAN } else { f32::from_bits(bits) }
    }
}

/// 2^(127 − bias): what makes up for a format's exponents being of another bias.
const fn scale(bias: u32) -> f32 {
    f32::from_bits((127 + 127 - bias) << 23)
}

/// For `f16`.
const F16_SCALE: f32 = scale(15);

/// The bits of the `f32` that a code without its sign stands for.
///
/// Exact: shifted into an f32's places the code is the value times 2^(bias − 127), subnormal where the
/// code is. From `special` on it is infinity, whose mantissa is zero, or NaN, whose is not.
#[inline(always)]
fn magnitude(code: u32, shift: u32, scale: f32, special: u32) -> u32 {
    let shifted = code << shift;
    let finite = (f32::from_bits(shifted) * scale).to_bits();
    if code >= special { 0x7f80_0000 | (shifted & 0x007f_ffff) } else { finite }
}

/// 8-bit floats to `f32`.
pub(super) fn f8_to_f32(format: Format8, from: &[u8], to: &mut [f32]) {
    pulp::Arch::new().dispatch(|| {
        for (to, from) in to.iter_mut().zip(from) {
            *to = format.decode(*from);
        }
    });
}

/// `f16` to `f32`.
pub(super) fn f16_to_f32(from: &[f16], to: &mut [f32]) {
    pulp::Arch::new().dispatch(|| {
        for (to, from) in to.iter_mut().zip(from) {
            let bits = u32::from(from.to_bits());
            let (sign, rest) = (bits & 0x8000, bits & 0x7fff);
            *to = f32::from_bits(sign << 16 | magnitude(rest, 13, F16_SCALE, 0x7c00));
        }
    });
}

/// `bf16` to `f32`: the upper half of its bits.
pub(super) fn bf16_to_f32(from: &[bf16], to: &mut [f32]) {
    pulp::Arch::new().dispatch(|| {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f32::from_bits(u32::from(from.to_bits()) << 16);
        }
    });
}

/// `i8` to `f32`.
pub(super) fn i8_to_f32(from: &[i8], to: &mut [f32]) {
    pulp::Arch::new().dispatch(|| {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f32::from(*from);
        }
    });
}

/// Integers of at most 2²⁴ in magnitude to `i32`.
pub(super) fn f32_to_i32(from: &[f32], to: &mut [i32]) {
    pulp::Arch::new().dispatch(|| {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from as i32;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Element;
    use crate::narrow::{F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz};

    #[test]
    fn every_code_of_every_format_has_its_value() {
        fn check<T: Element>(format: Format8, from_bits: fn(u8) -> T) {
            let codes: Vec<u8> = (0..=u8::MAX).collect();
            let mut values = [0.0; 256];
            f8_to_f32(format, &codes, &mut values);
            for (code, found) in codes.into_iter().zip(values) {
                let expected = from_bits(code).to_f64() as f32;
                let same =
                    found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
                assert!(same, "{format:?} {code:#04x}: {found} is not {expected}");
            }
        }
        check(Format8::E4M3, F8E4M3::from_bits);
        check(Format8::E5M2, F8E5M2::from_bits);
        check(Format8::E4M3_FNUZ, F8E4M3Fnuz::from_bits);
        check(Format8::E5M2_FNUZ, F8E5M2Fnuz::from_bits);
    }

    #[test]
    fn every_half_has_its_value() {
        let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let mut values = vec![0.0; halves.len()];
        f16_to_f32(&halves, &mut values);
        for (half, found) in halves.into_iter().zip(values) {
            let expected = half.to_f32();
            let same = found.to_bits() == expected.to_bits() || (found.is_nan() && half.is_nan());
            assert!(same, "{:#06x}: {found} is not {expected}", half.to_bits());
        }
    }

    #[test]
    fn integers_survive() {
        let from: Vec<i8> = (i8::MIN..=i8::MAX).collect();
        let mut floats = vec![0.0; from.len()];
        i8_to_f32(&from, &mut floats);
        let mut back = vec![0; from.len()];
        f32_to_i32(&floats, &mut back);
        assert!(from.iter().map(|&value| i32::from(value)).eq(back));
        let ends = [16_777_216.0, -16_777_216.0, 16_777_215.0];
        let mut integers = [0; 3];
        f32_to_i32(&ends, &mut integers);
        assert_eq!(integers, [1 << 24, -(1 << 24), (1 << 24) - 1]);
    }
}
