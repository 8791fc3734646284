//! Half precision arithmetic and 16-bit integers.
//!
//! A half operation is done in doubles, where sums and products of halves are exact or carry their residue, and rounded
//! once in MODE's half rounding.

use super::float::split;
use crate::exec::round::{self, Round};
use crate::exec::wave::Wave;
use crate::isa::{Instruction, Opcode as O};

fn value(bits: u32) -> f64 {
    f64::from(round::from_f16(bits))
}

fn unary(w: &mut Wave, i: &Instruction, f: impl Fn(f64) -> f64) -> bool {
    let mode = w.mode.round16();
    let mut a = w.half(i, 0);
    for x in &mut a {
        *x = round::to_f16(f(value(*x)), mode);
    }
    w.put_half(i, a);
    true
}

fn binary(w: &mut Wave, i: &Instruction, f: impl Fn(f64, f64) -> f64) -> bool {
    let mode = w.mode.round16();
    let (mut a, b) = (w.half(i, 0), w.half(i, 1));
    for lane in 0..64 {
        a[lane] = round::to_f16(f(value(a[lane]), value(b[lane])), mode);
    }
    w.put_half(i, a);
    true
}

fn ternary(w: &mut Wave, i: &Instruction, f: impl Fn(f64, f64, f64) -> f64) -> bool {
    let mode = w.mode.round16();
    let (mut a, b, c) = (w.half(i, 0), w.half(i, 1), w.half(i, 2));
    for lane in 0..64 {
        a[lane] = round::to_f16(f(value(a[lane]), value(b[lane]), value(c[lane])), mode);
    }
    w.put_half(i, a);
    true
}

/// `a · b + c` with the destination or a third source as `c`.
fn accumulate(w: &mut Wave, i: &Instruction) -> bool {
    let mode = w.mode.round16();
    let (mut a, b) = (w.half(i, 0), w.half(i, 1));
    let c = w.vector(i.dst).map_or([0; 64], |register| w.v[register]);
    for lane in 0..64 {
        let sum = round::fma_odd(value(a[lane]), value(b[lane]), value(c[lane] & 0xffff));
        a[lane] = round::to_f16(sum, mode);
    }
    w.put_half(i, a);
    true
}

/// Sum of two halves: exact in a double.
fn add(a: f64, b: f64) -> f64 {
    a + b
}

/// The smaller number as [`super::float::minimum`] defines it; every half is a single, so the single's rule applies.
pub(super) fn minimum(a: f64, b: f64) -> f64 {
    f64::from(super::float::minimum(a as f32, b as f32, false))
}

/// The larger number.
pub(super) fn maximum(a: f64, b: f64) -> f64 {
    f64::from(super::float::maximum(a as f32, b as f32, false))
}

fn median(a: f64, b: f64, c: f64) -> f64 {
    if a.is_nan() || b.is_nan() || c.is_nan() {
        return minimum(minimum(a, b), c);
    }
    maximum(minimum(a, b), minimum(maximum(a, b), c))
}

fn integer1(w: &mut Wave, i: &Instruction, f: impl Fn(f64) -> u32) -> bool {
    let mut a = w.half(i, 0);
    for x in &mut a {
        *x = f(value(*x));
    }
    w.put16(i, a);
    true
}

fn integer2(w: &mut Wave, i: &Instruction, f: impl Fn(u32, u32) -> i32) -> bool {
    let (mut a, b) = (w.int16(i, 0), w.int16(i, 1));
    for lane in 0..64 {
        a[lane] = f(a[lane], b[lane]) as u32;
    }
    w.put16(i, a);
    true
}

fn integer3(w: &mut Wave, i: &Instruction, f: impl Fn(u32, u32, u32) -> i64) -> bool {
    let (mut a, b, c) = (w.int16(i, 0), w.int16(i, 1), w.int16(i, 2));
    for lane in 0..64 {
        a[lane] = f(a[lane], b[lane], c[lane]) as u32;
    }
    w.put16(i, a);
    true
}

fn signed(x: u32) -> i32 {
    i32::from(x as u16 as i16)
}

/// Saturates to 16 unsigned bits under clamp.
fn to_unsigned(x: i32, clamp: bool) -> i32 {
    if clamp { x.clamp(0, 0xffff) } else { x }
}

/// Saturates to 16 signed bits under clamp.
fn to_signed(x: i32, clamp: bool) -> i32 {
    if clamp { x.clamp(-0x8000, 0x7fff) } else { x }
}

fn median3(a: i32, b: i32, c: i32) -> i64 {
    i64::from(a.min(b).max(a.max(b).min(c)))
}

/// Executes a half precision or 16-bit opcode; false if it is none.
pub(super) fn execute(w: &mut Wave, i: &Instruction) -> bool {
    let clamp = i.mods.clamp;
    match i.opcode {
        O::VAddF16 => binary(w, i, add),
        O::VSubF16 => binary(w, i, |a, b| a - b),
        O::VSubrevF16 => binary(w, i, |a, b| b - a),
        O::VMulF16 => binary(w, i, |a, b| a * b),
        O::VFmaF16 | O::VFmaLegacyF16 => ternary(w, i, round::fma_odd),
        O::VMacF16 => accumulate(w, i),
        // Not fused: the product is rounded too.
        O::VMadF16 | O::VMadLegacyF16 | O::VMadmkF16 | O::VMadakF16 => {
            let mode = w.mode.round16();
            ternary(w, i, |a, b, c| value(round::to_f16(a * b, mode)) + c)
        }
        O::VMinF16 => binary(w, i, minimum),
        O::VMaxF16 => binary(w, i, maximum),
        O::VMin3F16 => ternary(w, i, |a, b, c| minimum(minimum(a, b), c)),
        O::VMax3F16 => ternary(w, i, |a, b, c| maximum(maximum(a, b), c)),
        O::VMed3F16 => ternary(w, i, median),
        O::VRcpF16 => unary(w, i, f64::recip),
        O::VSqrtF16 => unary(w, i, f64::sqrt),
        O::VRsqF16 => unary(w, i, |x| x.sqrt().recip()),
        O::VLogF16 => unary(w, i, f64::log2),
        O::VExpF16 => unary(w, i, f64::exp2),
        O::VSinF16 => unary(w, i, |x| ((x - x.floor()) * std::f64::consts::TAU).sin()),
        O::VCosF16 => unary(w, i, |x| ((x - x.floor()) * std::f64::consts::TAU).cos()),
        O::VFloorF16 => unary(w, i, f64::floor),
        O::VCeilF16 => unary(w, i, f64::ceil),
        O::VTruncF16 => unary(w, i, f64::trunc),
        O::VRndneF16 => unary(w, i, f64::round_ties_even),
        // The largest half below one bounds the fraction.
        O::VFractF16 => unary(w, i, |x| (x - x.floor()).min(value(0x3bff))),
        O::VFrexpMantF16 => unary(w, i, |x| split(x).0),
        O::VFrexpExpI16F16 => integer1(w, i, |x| split(x).1 as u32),
        O::VLdexpF16 => {
            let mode = w.mode.round16();
            let (mut a, b) = (w.half(i, 0), w.int16(i, 1));
            for lane in 0..64 {
                let scaled = value(a[lane]) * 2f64.powi(signed(b[lane]).clamp(-100, 100));
                a[lane] = round::to_f16(scaled, mode);
            }
            w.put_half(i, a);
            true
        }
        O::VCvtF16F32 => {
            let mode = w.mode.round16();
            let mut a = w.single(i, 0);
            for x in &mut a {
                *x = round::to_f16(f64::from(f32::from_bits(*x)), mode);
            }
            w.put_half(i, a);
            true
        }
        O::VCvtF16U16 | O::VCvtF16I16 => {
            let mode = w.mode.round16();
            let is_signed = i.opcode == O::VCvtF16I16;
            let mut a = w.int16(i, 0);
            for x in &mut a {
                let number = if is_signed { f64::from(signed(*x)) } else { f64::from(*x) };
                *x = round::to_f16(number, mode);
            }
            w.put_half(i, a);
            true
        }
        O::VCvtU16F16 => integer1(w, i, |x| u32::from(x as u16)),
        O::VCvtI16F16 => integer1(w, i, |x| x as i16 as u32),
        O::VCvtNormI16F16 => integer1(w, i, |x| normalised(x, 32767.0)),
        O::VCvtNormU16F16 => integer1(w, i, |x| normalised(x.max(0.0), 65535.0)),
        O::VAddU16 => integer2(w, i, |a, b| to_unsigned((a + b) as i32, clamp)),
        O::VSubU16 => integer2(w, i, |a, b| to_unsigned(a as i32 - b as i32, clamp)),
        O::VSubrevU16 => integer2(w, i, |a, b| to_unsigned(b as i32 - a as i32, clamp)),
        O::VAddI16 => integer2(w, i, |a, b| to_signed(signed(a) + signed(b), clamp)),
        O::VSubI16 => integer2(w, i, |a, b| to_signed(signed(a) - signed(b), clamp)),
        O::VMulLoU16 => integer2(w, i, |a, b| a.wrapping_mul(b) as i32),
        O::VLshlrevB16 => integer2(w, i, |a, b| (b << (a & 15)) as i32),
        O::VLshrrevB16 => integer2(w, i, |a, b| (b >> (a & 15)) as i32),
        O::VAshrrevI16 => integer2(w, i, |a, b| signed(b) >> (a & 15)),
        O::VMaxU16 => integer2(w, i, |a, b| a.max(b) as i32),
        O::VMinU16 => integer2(w, i, |a, b| a.min(b) as i32),
        O::VMaxI16 => integer2(w, i, |a, b| signed(a).max(signed(b))),
        O::VMinI16 => integer2(w, i, |a, b| signed(a).min(signed(b))),
        O::VMadU16 | O::VMadLegacyU16 => integer3(w, i, |a, b, c| {
            let exact = i64::from(a) * i64::from(b) + i64::from(c);
            if clamp { exact.min(0xffff) } else { exact }
        }),
        O::VMadI16 | O::VMadLegacyI16 => integer3(w, i, |a, b, c| {
            let exact = i64::from(signed(a)) * i64::from(signed(b)) + i64::from(signed(c));
            if clamp { exact.clamp(-0x8000, 0x7fff) } else { exact }
        }),
        O::VMin3I16 => integer3(w, i, |a, b, c| i64::from(signed(a).min(signed(b)).min(signed(c)))),
        O::VMax3I16 => integer3(w, i, |a, b, c| i64::from(signed(a).max(signed(b)).max(signed(c)))),
        O::VMed3I16 => integer3(w, i, |a, b, c| median3(signed(a), signed(b), signed(c))),
        O::VMin3U16 => integer3(w, i, |a, b, c| i64::from(a.min(b).min(c))),
        O::VMax3U16 => integer3(w, i, |a, b, c| i64::from(a.max(b).max(c))),
        O::VMed3U16 => integer3(w, i, |a, b, c| median3(a as i32, b as i32, c as i32)),
        O::VBitop3B16 => {
            let table = i.mods.imm;
            integer3(w, i, |a, b, c| i64::from(super::integer::table3(a, b, c, table)))
        }
        O::VMadU32U16 | O::VMadI32I16 => {
            let is_signed = i.opcode == O::VMadI32I16;
            let (mut a, b, c) = (w.int16(i, 0), w.int16(i, 1), w.int(i, 2));
            for lane in 0..64 {
                let product = if is_signed {
                    (signed(a[lane]) * signed(b[lane])) as u32
                } else {
                    a[lane].wrapping_mul(b[lane])
                };
                a[lane] = product.wrapping_add(c[lane]);
            }
            w.put(i, a);
            true
        }
        O::VPackB32F16 => {
            let (mut a, b) = (w.half(i, 0), w.half(i, 1));
            for lane in 0..64 {
                a[lane] |= b[lane] << 16;
            }
            w.put(i, a);
            true
        }
        O::VCvtPknormI16F16 | O::VCvtPknormU16F16 => {
            let is_signed = i.opcode == O::VCvtPknormI16F16;
            let (mut a, b) = (w.half(i, 0), w.half(i, 1));
            let code = |bits: u32| {
                let x = value(bits);
                let code = if is_signed {
                    normalised(x, 32767.0)
                } else {
                    normalised(x.max(0.0), 65535.0)
                };
                code & 0xffff
            };
            for lane in 0..64 {
                a[lane] = code(a[lane]) | (code(b[lane]) << 16);
            }
            w.put(i, a);
            true
        }
        O::VSatPkU8I16 => {
            let mut a = w.int(i, 0);
            for x in &mut a {
                let part = |bits: u32| signed(bits).clamp(0, 255) as u32;
                *x = part(*x & 0xffff) | part(*x >> 16) << 8;
            }
            w.put(i, a);
            true
        }
        O::VDivFixupF16 | O::VDivFixupLegacyF16 => ternary(w, i, super::divide::fixup16),
        _ => false,
    }
}

/// A number in [-1, 1] as a fraction of `top`, rounded to nearest even.
pub(super) fn normalised(x: f64, top: f64) -> u32 {
    let x = if x.is_nan() { 0.0 } else { x.clamp(-1.0, 1.0) };
    (x * top).round_ties_even() as i32 as u32
}

/// Converts towards zero, the rounding of `v_cvt_pkrtz`.
pub(super) fn toward_zero(x: f32) -> u32 {
    round::to_f16(f64::from(x), Round::Zero)
}
