//! The three steps of a correctly rounded division: scale, the last fused step, and the special cases.
//!
//! A compiler divides `n / d` as `div_scale` of both, a reciprocal refined by fused steps, `div_fmas` (which undoes the
//! numerator's scale where VCC says so) and `div_fixup` (zeros, infinities, NaN, overflow, sign). The rules are those of the
//! ISA documents' pseudo code.

use crate::exec::wave::Wave;
use crate::isa::{Instruction, Opcode as O};

/// The numbers that differ between single and double precision.
struct Format {
    /// Exponent difference from which the quotient nears overflow.
    large: i32,
    /// Scaling exponent.
    scale: i32,
    /// Largest biased exponent of a numerator that counts as tiny.
    tiny: i32,
    /// Smallest normal number.
    normal: f64,
    bias: i32,
    /// Whether values are singles.
    single: bool,
}

const SINGLE: Format = Format {
    large: 96,
    scale: 64,
    tiny: 23,
    normal: f32::MIN_POSITIVE as f64,
    bias: 127,
    single: true,
};
const DOUBLE: Format = Format {
    large: 768,
    scale: 128,
    tiny: 53,
    normal: f64::MIN_POSITIVE,
    bias: 1023,
    single: false,
};

/// The biased exponent field of a value in its format.
fn exponent(x: f64, format: &Format) -> i32 {
    if format.single {
        ((x as f32).to_bits() >> 23 & 0xff) as i32
    } else {
        (x.to_bits() >> 52 & 0x7ff) as i32
    }
}

fn subnormal(x: f64, format: &Format) -> bool {
    x != 0.0 && x.abs() < format.normal
}

/// Times a power of two, as the format rounds it.
fn scaled(x: f64, exponent: i32, format: &Format) -> f64 {
    let y = x * 2f64.powi(exponent);
    if format.single { f64::from(y as f32) } else { y }
}

/// A quotient as far as its exponent matters. For doubles the host's division underflows as the format does.
fn quotient(a: f64, b: f64, format: &Format) -> f64 {
    let q = a / b;
    if format.single && q.abs() < f64::from(f32::MIN_POSITIVE) && q != 0.0 {
        // Below the smallest subnormal a single is zero, which the rule does not count as subnormal.
        return if q.abs() <= f64::from(f32::from_bits(1)) / 2.0 { 0.0 } else { q };
    }
    q
}

/// The scaled operand, and whether the result needs scaling back. `value` is the numerator or the denominator.
fn div_scale(value: f64, denominator: f64, numerator: f64, format: &Format) -> (f64, bool) {
    let is_denominator = value.to_bits() == denominator.to_bits();
    let is_numerator = value.to_bits() == numerator.to_bits();
    if numerator == 0.0 || denominator == 0.0 {
        return (f64::NAN, false);
    }
    let difference = exponent(numerator, format) - exponent(denominator, format);
    if difference >= format.large {
        let result = if is_denominator { scaled(value, format.scale, format) } else { value };
        (result, true)
    } else if subnormal(denominator, format) {
        (scaled(value, format.scale, format), false)
    } else {
        let small_reciprocal = subnormal(quotient(1.0, denominator, format), format);
        let small_quotient = subnormal(quotient(numerator, denominator, format), format);
        if small_reciprocal && small_quotient {
            // The documents scale the denominator up here too, which would overflow it: only downwards does the sequence
            // give the quotient.
            let result = if is_denominator { scaled(value, -format.scale, format) } else { value };
            (result, true)
        } else if small_reciprocal {
            (scaled(value, -format.scale, format), false)
        } else if small_quotient {
            let result = if is_numerator { scaled(value, format.scale, format) } else { value };
            (result, true)
        } else if exponent(numerator, format) <= format.tiny {
            (scaled(value, format.scale, format), false)
        } else {
            (value, false)
        }
    }
}

/// What `div_fmas` multiplies by where VCC is set: a large quotient had its denominator scaled up, a small one its numerator.
/// The GFX9 documents state a fixed factor that undoes neither; this is the rule of the later ones.
fn unscale(quotient: f64, format: &Format) -> f64 {
    2f64.powi(if exponent(quotient, format) > format.bias { format.scale } else { -format.scale })
}

/// The final quotient from an approximate one.
fn div_fixup(quotient: f64, denominator: f64, numerator: f64, format: &Format) -> f64 {
    let negative = denominator.is_sign_negative() != numerator.is_sign_negative();
    let signed = |x: f64| if negative { -x } else { x };
    let invalid = -f64::NAN.copysign(1.0);
    if numerator.is_nan() {
        numerator
    } else if denominator.is_nan() {
        denominator
    } else if denominator == 0.0 && numerator == 0.0
        || denominator.is_infinite() && numerator.is_infinite()
    {
        invalid
    } else if denominator == 0.0 || numerator.is_infinite() {
        signed(f64::INFINITY)
    } else if denominator.is_infinite() || numerator == 0.0 {
        signed(0.0)
    } else {
        let difference = exponent(numerator, format) - exponent(denominator, format);
        let lowest = -(format.bias + if format.single { 23 } else { 52 });
        if difference < lowest {
            signed(0.0)
        } else if quotient.is_nan() {
            // The refinement of a quotient that overflowed: infinity minus infinity.
            signed(f64::INFINITY)
        } else {
            signed(quotient.abs())
        }
    }
}

/// [`div_fixup`] for halves, whose quotients neither over- nor underflow the rule's limits.
pub(super) fn fixup16(quotient: f64, denominator: f64, numerator: f64) -> f64 {
    div_fixup(quotient, denominator, numerator, &DOUBLE)
}

fn value(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}

/// Executes a division step; false if the opcode is none.
pub(super) fn execute(w: &mut Wave, i: &Instruction) -> bool {
    match i.opcode {
        O::VDivScaleF32 => {
            let (mut a, b, c) = (w.single(i, 0), w.single(i, 1), w.single(i, 2));
            let mut flags = 0u64;
            for lane in 0..64 {
                let (x, flag) = div_scale(value(a[lane]), value(b[lane]), value(c[lane]), &SINGLE);
                a[lane] = (x as f32).to_bits();
                flags |= u64::from(flag) << lane;
            }
            w.put(i, a);
            w.put_mask(i.dst2, flags);
        }
        O::VDivScaleF64 => {
            let (mut a, b, c) = (w.double(i, 0), w.double(i, 1), w.double(i, 2));
            let mut flags = 0u64;
            for lane in 0..64 {
                let [x, y, z] = [a[lane], b[lane], c[lane]].map(f64::from_bits);
                let (x, flag) = div_scale(x, y, z, &DOUBLE);
                a[lane] = x.to_bits();
                flags |= u64::from(flag) << lane;
            }
            w.put_wide(i, &a);
            w.put_mask(i.dst2, flags);
        }
        O::VDivFmasF32 => {
            let (a, b, c) = (w.single(i, 0), w.single(i, 1), w.single(i, 2));
            let mut sum = super::fused::multiply_add(&a, &b, &c);
            let flags = w.vcc();
            for (lane, x) in sum.iter_mut().enumerate() {
                if flags >> lane & 1 == 1 {
                    let factor = unscale(value(c[lane]), &SINGLE) as f32;
                    *x = (f32::from_bits(*x) * factor).to_bits();
                }
            }
            w.put_single(i, sum);
        }
        O::VDivFmasF64 => {
            let (mut a, b, c) = (w.double(i, 0), w.double(i, 1), w.double(i, 2));
            let flags = w.vcc();
            for lane in 0..64 {
                let [x, y, z] = [a[lane], b[lane], c[lane]].map(f64::from_bits);
                let factor = if flags >> lane & 1 == 1 { unscale(z, &DOUBLE) } else { 1.0 };
                a[lane] = (x.mul_add(y, z) * factor).to_bits();
            }
            w.put_double(i, a);
        }
        O::VDivFixupF32 => {
            let (mut a, b, c) = (w.single(i, 0), w.single(i, 1), w.single(i, 2));
            for lane in 0..64 {
                let x = div_fixup(value(a[lane]), value(b[lane]), value(c[lane]), &SINGLE);
                a[lane] = (x as f32).to_bits();
            }
            w.put_single(i, a);
        }
        O::VDivFixupF64 => {
            let (mut a, b, c) = (w.double(i, 0), w.double(i, 1), w.double(i, 2));
            for lane in 0..64 {
                let [x, y, z] = [a[lane], b[lane], c[lane]].map(f64::from_bits);
                a[lane] = div_fixup(x, y, z, &DOUBLE).to_bits();
            }
            w.put_double(i, a);
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The compiler's sequence for `n / d`, on one lane.
    fn divide(n: f32, d: f32) -> f32 {
        let (wide_n, wide_d) = (f64::from(n), f64::from(d));
        let (sd, _) = div_scale(wide_d, wide_d, wide_n, &SINGLE);
        let (sn, flag) = div_scale(wide_n, wide_d, wide_n, &SINGLE);
        let (sd, sn) = (sd as f32, sn as f32);
        let r = 1.0 / sd;
        let e = (-sd).mul_add(r, 1.0);
        let r = e.mul_add(r, r);
        let q = sn * r;
        let e = (-sd).mul_add(q, sn);
        let q = e.mul_add(r, q);
        let e = (-sd).mul_add(q, sn);
        let addend = f64::from(q);
        let mut q = e.mul_add(r, q);
        if flag {
            q *= unscale(addend, &SINGLE) as f32;
        }
        div_fixup(f64::from(q), wide_d, wide_n, &SINGLE) as f32
    }

    #[test]
    fn the_sequence_divides_exactly() {
        let numbers = [
            0.0,
            1.0,
            -3.0,
            7.5e-39,
            1.0e-45,
            3.4e38,
            f32::MIN_POSITIVE,
            1.0e-20,
            -1.0e20,
            0.1,
            f32::INFINITY,
            1.3e37,
            -2.9e-38,
        ];
        for n in numbers {
            for d in numbers {
                let (got, want) = (divide(n, d), n / d);
                assert!(
                    got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                    "{n:e} / {d:e}: {got:e} instead of {want:e}"
                );
            }
        }
    }
}
