//! Double precision and 64-bit integers.

use super::float::split;
use crate::exec::round::{self, Round};
use crate::exec::wave::Wave;
use crate::isa::{Instruction, Opcode as O};

fn unary(w: &mut Wave, i: &Instruction, f: impl Fn(f64) -> f64) -> bool {
    let mut a = w.double(i, 0);
    for x in &mut a {
        *x = f(f64::from_bits(*x)).to_bits();
    }
    w.put_double(i, a);
    true
}

fn binary(w: &mut Wave, i: &Instruction, f: impl Fn(f64, f64) -> f64) -> bool {
    let (mut a, b) = (w.double(i, 0), w.double(i, 1));
    for lane in 0..64 {
        a[lane] = f(f64::from_bits(a[lane]), f64::from_bits(b[lane])).to_bits();
    }
    w.put_double(i, a);
    true
}

/// From a double to 32 bits.
fn narrow(w: &mut Wave, i: &Instruction, f: impl Fn(f64) -> u32) -> bool {
    let a = w.double(i, 0);
    let mut values = [0u32; 64];
    for lane in 0..64 {
        values[lane] = f(f64::from_bits(a[lane]));
    }
    w.put(i, values);
    true
}

/// From 32 bits to a double.
fn widen(w: &mut Wave, i: &Instruction, single: bool, f: impl Fn(u32) -> f64) -> bool {
    let a = if single { w.single(i, 0) } else { w.int(i, 0) };
    let mut values = [0u64; 64];
    for lane in 0..64 {
        values[lane] = f(a[lane]).to_bits();
    }
    w.put_double(i, values);
    true
}

/// A shift by the first source.
fn shift(w: &mut Wave, i: &Instruction, f: impl Fn(u64, u32) -> u64) -> bool {
    let (a, mut b) = (w.int(i, 0), w.wide(i, 1, false));
    for lane in 0..64 {
        b[lane] = f(b[lane], a[lane] & 63);
    }
    w.put_wide(i, &b);
    true
}

/// 32 by 32 bits plus 64, with a carry mask.
fn multiply_add(w: &mut Wave, i: &Instruction, signed: bool) -> bool {
    let (a, b, mut c) = (w.int(i, 0), w.int(i, 1), w.wide(i, 2, false));
    let mut out = 0u64;
    for lane in 0..64 {
        let (sum, carried) = if signed {
            let product = i64::from(a[lane] as i32) * i64::from(b[lane] as i32);
            let (sum, carried) = product.overflowing_add(c[lane] as i64);
            (sum as u64, carried)
        } else {
            (u64::from(a[lane]) * u64::from(b[lane])).overflowing_add(c[lane])
        };
        c[lane] = sum;
        out |= u64::from(carried) << lane;
    }
    w.put_wide(i, &c);
    w.put_mask(i.dst2, out);
    true
}

fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() || a < b || a == b && a.is_sign_negative() {
        a
    } else {
        b
    }
}

fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() {
        b
    } else if b.is_nan() || a > b || a == b && b.is_sign_negative() {
        a
    } else {
        b
    }
}

/// Executes a double precision or 64-bit opcode; false if it is none.
pub(super) fn execute(w: &mut Wave, i: &Instruction) -> bool {
    match i.opcode {
        O::VMovB64 => {
            let a = w.wide(i, 0, false);
            w.put_wide(i, &a);
            true
        }
        O::VAddF64 => binary(w, i, |a, b| a + b),
        O::VMulF64 => binary(w, i, |a, b| a * b),
        O::VMinF64 => binary(w, i, minimum),
        O::VMaxF64 => binary(w, i, maximum),
        O::VFmaF64 | O::VFmacF64 => {
            let (mut a, b) = (w.double(i, 0), w.double(i, 1));
            let c = match (i.opcode, w.vector(i.dst)) {
                (O::VFmacF64, Some(register)) => {
                    super::operands::join(&w.v[register], &w.v[register + 1])
                }
                _ => w.double(i, 2),
            };
            for lane in 0..64 {
                let [x, y, z] = [a[lane], b[lane], c[lane]].map(f64::from_bits);
                a[lane] = x.mul_add(y, z).to_bits();
            }
            w.put_double(i, a);
            true
        }
        O::VLdexpF64 => {
            let (mut a, b) = (w.double(i, 0), w.int(i, 1));
            for lane in 0..64 {
                // Two factors, so that neither leaves the range of a double.
                let exponent = (b[lane] as i32).clamp(-2200, 2200);
                let half = exponent / 2;
                let x = f64::from_bits(a[lane]) * 2f64.powi(half / 2) * 2f64.powi(half - half / 2);
                let rest = exponent - half;
                a[lane] = (x * 2f64.powi(rest / 2) * 2f64.powi(rest - rest / 2)).to_bits();
            }
            w.put_double(i, a);
            true
        }
        O::VTruncF64 => unary(w, i, f64::trunc),
        O::VCeilF64 => unary(w, i, f64::ceil),
        O::VRndneF64 => unary(w, i, f64::round_ties_even),
        O::VFloorF64 => unary(w, i, f64::floor),
        O::VFractF64 => unary(w, i, |x| (x - x.floor()).min(1.0 - f64::EPSILON / 2.0)),
        O::VRcpF64 => unary(w, i, f64::recip),
        O::VRsqF64 => unary(w, i, |x| x.sqrt().recip()),
        O::VSqrtF64 => unary(w, i, f64::sqrt),
        O::VFrexpMantF64 => unary(w, i, |x| split(x).0),
        O::VFrexpExpI32F64 => narrow(w, i, |x| split(x).1 as u32),
        O::VCvtI32F64 => narrow(w, i, |x| x as i32 as u32),
        O::VCvtU32F64 => narrow(w, i, |x| x as u32),
        O::VCvtF32F64 => {
            let mode = w.mode.round32();
            let a = w.double(i, 0);
            let mut values = [0u32; 64];
            for lane in 0..64 {
                values[lane] = round::to_f32(f64::from_bits(a[lane]), mode);
            }
            w.put_single(i, values);
            true
        }
        O::VCvtF64F32 => widen(w, i, true, |x| f64::from(f32::from_bits(x))),
        O::VCvtF64I32 => widen(w, i, false, |x| f64::from(x as i32)),
        O::VCvtF64U32 => widen(w, i, false, f64::from),
        O::VLshlrevB64 => shift(w, i, |x, n| x << n),
        O::VLshrrevB64 => shift(w, i, |x, n| x >> n),
        O::VAshrrevI64 => shift(w, i, |x, n| (x as i64 >> n) as u64),
        O::VLshlAddU64 => {
            let (mut a, b, c) = (w.wide(i, 0, false), w.int(i, 1), w.wide(i, 2, false));
            for lane in 0..64 {
                a[lane] = (a[lane] << (b[lane] & 7)).wrapping_add(c[lane]);
            }
            w.put_wide(i, &a);
            true
        }
        O::VMadU64U32 => multiply_add(w, i, false),
        O::VMadI64I32 => multiply_add(w, i, true),
        _ => false,
    }
}

/// Whether the opcode computes in double precision, whose directed rounding is not modelled.
pub(super) fn needs_nearest(opcode: O) -> bool {
    matches!(opcode, O::VAddF64 | O::VMulF64 | O::VFmaF64 | O::VFmacF64 | O::VDivFmasF64)
}

/// Whether the mode rounds doubles to nearest even.
pub(super) fn rounds_to_nearest(w: &Wave) -> bool {
    w.mode.round16() == Round::Nearest
}
