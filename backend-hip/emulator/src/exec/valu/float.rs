//! Single precision arithmetic.
//!
//! Transcendentals are computed in double precision and rounded once, which is inside the one unit in the last place that
//! the ISA documents allow the hardware. As on the hardware, `v_exp`, `v_log`, `v_rcp`, `v_rsq` and `v_sqrt` treat subnormal
//! inputs as zero and flush subnormal results. The sign and payload of a NaN that no input carries are unspecified.

use super::fused;
use crate::exec::round::{self, Round};
use crate::exec::wave::{Lanes, Wave};
use crate::isa::{Instruction, Opcode as O};

fn unary(w: &mut Wave, i: &Instruction, f: impl Fn(f32) -> f32) -> bool {
    let mut a = w.single(i, 0);
    for x in &mut a {
        *x = f(f32::from_bits(*x)).to_bits();
    }
    w.put_single(i, a);
    true
}

#[inline]
fn binary(w: &mut Wave, i: &Instruction, f: impl Fn(f32, f32) -> f32) -> bool {
    let (mut a, b) = (w.single(i, 0), w.single(i, 1));
    for lane in 0..64 {
        a[lane] = f(f32::from_bits(a[lane]), f32::from_bits(b[lane])).to_bits();
    }
    w.put_single(i, a);
    true
}

fn ternary(w: &mut Wave, i: &Instruction, f: impl Fn(f32, f32, f32) -> f32) -> bool {
    let (mut a, b, c) = (w.single(i, 0), w.single(i, 1), w.single(i, 2));
    for lane in 0..64 {
        let [x, y, z] = [a[lane], b[lane], c[lane]].map(f32::from_bits);
        a[lane] = f(x, y, z).to_bits();
    }
    w.put_single(i, a);
    true
}

/// A sum, in the rounding mode.
fn sum(w: &mut Wave, i: &Instruction, f: impl Fn(f32, f32) -> (f32, f32)) -> bool {
    match w.mode.round32() {
        Round::Nearest => binary(w, i, |a, b| {
            let (a, b) = f(a, b);
            a + b
        }),
        mode => binary(w, i, |a, b| {
            let (a, b) = f(a, b);
            directed(f64::from(a), 1.0, f64::from(b), mode)
        }),
    }
}

/// `a · b + c` in a directed rounding mode.
fn directed(a: f64, b: f64, c: f64, mode: Round) -> f32 {
    f32::from_bits(round::to_f32(round::fma_odd(a, b, c), mode))
}

/// `a · b + c` of three register values, in the rounding mode.
fn fused(w: &mut Wave, i: &Instruction, a: &Lanes, b: &Lanes, c: &Lanes) -> bool {
    let values = match w.mode.round32() {
        Round::Nearest => fused::multiply_add(a, b, c),
        mode => {
            let mut values = [0u32; 64];
            for lane in 0..64 {
                let [x, y, z] = [a[lane], b[lane], c[lane]].map(|v| f64::from(f32::from_bits(v)));
                values[lane] = directed(x, y, z, mode).to_bits();
            }
            values
        }
    };
    w.put_single(i, values);
    true
}

fn is_signalling(x: f32) -> bool {
    x.is_nan() && x.to_bits() & 0x0040_0000 == 0
}

fn quiet(x: f32) -> f32 {
    f32::from_bits(x.to_bits() | 0x0040_0000)
}

/// The smaller number; a NaN operand gives the other one, except that IEEE mode propagates signalling NaN.
#[inline]
pub(super) fn minimum(a: f32, b: f32, ieee: bool) -> f32 {
    if a.is_nan() || b.is_nan() {
        return not_nan(a, b, ieee);
    }
    // -0 is below +0.
    if a < b || a == b && a.is_sign_negative() { a } else { b }
}

/// The larger number; NaN as in [`minimum`].
#[inline]
pub(super) fn maximum(a: f32, b: f32, ieee: bool) -> f32 {
    if a.is_nan() || b.is_nan() {
        return not_nan(a, b, ieee);
    }
    if a > b || a == b && b.is_sign_negative() { a } else { b }
}

#[cold]
fn not_nan(a: f32, b: f32, ieee: bool) -> f32 {
    if ieee && is_signalling(a) {
        quiet(a)
    } else if ieee && is_signalling(b) {
        quiet(b)
    } else if a.is_nan() {
        b
    } else {
        a
    }
}

fn median(a: f32, b: f32, c: f32, ieee: bool) -> f32 {
    if a.is_nan() || b.is_nan() || c.is_nan() {
        return minimum(minimum(a, b, ieee), c, ieee);
    }
    let largest = maximum(maximum(a, b, ieee), c, ieee);
    if largest == a {
        maximum(b, c, ieee)
    } else if largest == b {
        maximum(a, c, ieee)
    } else {
        maximum(a, b, ieee)
    }
}

/// A NaN operand if there is one.
fn propagate(a: f32, b: f32, f: impl Fn(f32, f32, bool) -> f32) -> f32 {
    if a.is_nan() {
        quiet(a)
    } else if b.is_nan() {
        quiet(b)
    } else {
        f(a, b, false)
    }
}

/// A function of doubles with the flushing of the transcendental unit.
fn transcendental(w: &mut Wave, i: &Instruction, f: impl Fn(f64) -> f64) -> bool {
    let flush = |x: f32| if x.is_subnormal() { 0f32.copysign(x) } else { x };
    unary(w, i, |x| if x.is_nan() { quiet(x) } else { flush(f(f64::from(flush(x))) as f32) })
}

/// The fractional part, below one.
fn fraction(x: f32) -> f32 {
    (x - x.floor()).min(f32::from_bits(0x3f7f_ffff))
}

/// `v_sin` and `v_cos` take revolutions; beyond 256 of them the hardware gives up and returns the value at zero.
fn turn(x: f64, f: impl Fn(f64) -> f64) -> f64 {
    if x.abs() > 256.0 { f(0.0) } else { f((x - x.floor()) * std::f64::consts::TAU) }
}

/// Value times a power of two, exactly rounded.
fn scale(x: f32, exponent: i32) -> f32 {
    (f64::from(x) * 2f64.powi(exponent.clamp(-400, 400))) as f32
}

/// Exponent `e` and significand `m` in [0.5, 1) with `x = m · 2^e`; zero, infinity and NaN have exponent 0.
pub(super) fn split(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let (scaled, adjust) = if x.is_subnormal() { (x * 2f64.powi(64), -64) } else { (x, 0) };
    let bits = scaled.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1022;
    (f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52), exponent + adjust)
}

/// Executes a single precision opcode; false if it is none.
pub(super) fn execute(w: &mut Wave, i: &Instruction) -> bool {
    let ieee = w.mode.ieee();
    match i.opcode {
        O::VAddF32 => sum(w, i, |a, b| (a, b)),
        O::VSubF32 => sum(w, i, |a, b| (a, -b)),
        O::VSubrevF32 => sum(w, i, |a, b| (-a, b)),
        O::VMulF32 => match w.mode.round32() {
            Round::Nearest => binary(w, i, |a, b| a * b),
            mode => binary(w, i, |a, b| directed(f64::from(a), f64::from(b), 0.0, mode)),
        },
        O::VMulLegacyF32 => binary(w, i, |a, b| if a == 0.0 || b == 0.0 { 0.0 } else { a * b }),
        O::VFmaF32 | O::VFmamkF32 | O::VFmaakF32 => {
            let (a, b, c) = (w.single(i, 0), w.single(i, 1), w.single(i, 2));
            fused(w, i, &a, &b, &c)
        }
        O::VFmacF32 => {
            let (a, b) = (w.single(i, 0), w.single(i, 1));
            let c = w.vector(i.dst).map_or([0; 64], |register| w.v[register]);
            fused(w, i, &a, &b, &c)
        }
        O::VMinF32 => binary(w, i, |a, b| minimum(a, b, ieee)),
        O::VMaxF32 => binary(w, i, |a, b| maximum(a, b, ieee)),
        O::VMin3F32 => ternary(w, i, |a, b, c| minimum(minimum(a, b, ieee), c, ieee)),
        O::VMax3F32 => ternary(w, i, |a, b, c| maximum(maximum(a, b, ieee), c, ieee)),
        O::VMed3F32 => ternary(w, i, |a, b, c| median(a, b, c, ieee)),
        O::VMinimum3F32 => ternary(w, i, |a, b, c| propagate(propagate(a, b, minimum), c, minimum)),
        O::VMaximum3F32 => ternary(w, i, |a, b, c| propagate(propagate(a, b, maximum), c, maximum)),
        O::VFractF32 => unary(w, i, fraction),
        O::VTruncF32 => unary(w, i, f32::trunc),
        O::VCeilF32 => unary(w, i, f32::ceil),
        O::VRndneF32 => unary(w, i, f32::round_ties_even),
        O::VFloorF32 => unary(w, i, f32::floor),
        O::VExpF32 | O::VExpLegacyF32 => transcendental(w, i, f64::exp2),
        O::VLogF32 | O::VLogLegacyF32 => transcendental(w, i, f64::log2),
        O::VRcpF32 | O::VRcpIflagF32 => transcendental(w, i, f64::recip),
        O::VRsqF32 => transcendental(w, i, |x| x.sqrt().recip()),
        O::VSqrtF32 => transcendental(w, i, f64::sqrt),
        O::VSinF32 => transcendental(w, i, |x| turn(x, f64::sin)),
        O::VCosF32 => transcendental(w, i, |x| turn(x, f64::cos)),
        O::VFrexpMantF32 => unary(w, i, |x| split(f64::from(x)).0 as f32),
        O::VFrexpExpI32F32 => {
            let mut a = w.single(i, 0);
            for x in &mut a {
                *x = split(f64::from(f32::from_bits(*x))).1 as u32;
            }
            w.put(i, a);
            true
        }
        O::VLdexpF32 => {
            let (mut a, b) = (w.single(i, 0), w.int(i, 1));
            for lane in 0..64 {
                a[lane] = scale(f32::from_bits(a[lane]), b[lane] as i32).to_bits();
            }
            w.put_single(i, a);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_and_maximum_prefer_numbers_and_order_zeros() {
        assert_eq!(minimum(f32::NAN, 2.0, true), 2.0);
        assert_eq!(maximum(2.0, f32::NAN, false), 2.0);
        assert!(minimum(f32::from_bits(0x7f80_0001), 2.0, true).is_nan());
        assert_eq!(minimum(f32::from_bits(0x7f80_0001), 2.0, false), 2.0);
        assert!(minimum(0.0, -0.0, true).is_sign_negative());
        assert!(minimum(-0.0, 0.0, true).is_sign_negative());
        assert!(maximum(0.0, -0.0, true).is_sign_positive());
        assert!(maximum(-0.0, 0.0, true).is_sign_positive());
        assert_eq!(median(3.0, 1.0, 2.0, true), 2.0);
        assert_eq!(median(f32::NAN, 1.0, 2.0, true), 1.0);
    }

    #[test]
    fn numbers_split_into_significand_and_exponent() {
        assert_eq!(split(8.0), (0.5, 4));
        assert_eq!(split(-0.75), (-0.75, 0));
        assert_eq!(split(f64::from(f32::from_bits(1))), (0.5, -148));
        assert_eq!(split(f64::MIN_POSITIVE / 4.0), (0.5, -1023));
        assert_eq!(scale(1.0, 1000), f32::INFINITY);
        assert_eq!(scale(f32::MAX, -300), 0.0);
        assert_eq!(fraction(-1.0e-10), f32::from_bits(0x3f7f_ffff));
    }
}
