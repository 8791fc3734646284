//! Packed halves, integers and singles, mixed precision, and dot products.
//!
//! A dot product of floats is computed exactly and rounded once: the ISA documents give its operands, not its rounding.

use super::half::{maximum, minimum};
use super::operands::Constant;
use crate::exec::round::{self, Round};
use crate::exec::wave::{Lanes, Wave};
use crate::isa::{Instruction, Opcode as O, Operand};

/// Source `n` of a packed 16-bit operation: the half that feeds the low result in the low 16 bits, the one that feeds the
/// high result above it, negated as the modifiers ask if `float`.
fn pair(w: &mut Wave, i: &Instruction, n: usize, float: bool) -> Lanes {
    let constant = matches!(i.src[n], Operand::Int(_) | Operand::Float(_) | Operand::Literal(_));
    let mut values = w.raw(i, n, if float { Constant::Bits16 } else { Constant::Bits32 });
    let (low, high) = (i.mods.op_sel >> n & 1 == 1, i.mods.op_sel_hi >> n & 1 == 1);
    let flips = u32::from(float && i.mods.neg >> n & 1 == 1) << 15
        | u32::from(float && i.mods.neg_hi >> n & 1 == 1) << 31;
    // An inline float has its bits in the low half only; a literal and an integer fill 32 bits.
    let replicate = constant && matches!(i.src[n], Operand::Float(_)) && float && !high;
    for value in &mut values {
        let half = |upper: bool| if upper { *value >> 16 } else { *value & 0xffff };
        let picked = if replicate { half(false) * 0x1_0001 } else { half(low) | half(high) << 16 };
        *value = picked ^ flips;
    }
    values
}

fn value(bits: u32) -> f64 {
    f64::from(round::from_f16(bits))
}

/// A function of the halves of up to three sources.
fn halves(w: &mut Wave, i: &Instruction, sources: usize, f: impl Fn(f64, f64, f64) -> f64) -> bool {
    let mode = w.mode.round16();
    let mut a = pair(w, i, 0, true);
    let b = pair(w, i, 1, true);
    let c = match (i.opcode, w.vector(i.dst)) {
        (O::VPkFmacF16, Some(register)) => w.v[register],
        _ if sources == 3 => pair(w, i, 2, true),
        _ => [0; 64],
    };
    let flush = w.mode.flush_out16();
    for lane in 0..64 {
        let part = |shift: u32| {
            let [x, y, z] = [a[lane], b[lane], c[lane]].map(|v| value(v >> shift & 0xffff));
            let mut bits = round::to_f16(f(x, y, z), mode);
            if flush && bits & 0x7c00 == 0 {
                bits &= 0x8000;
            }
            if i.mods.clamp { w.finish_half(bits, 0, true) } else { bits }
        };
        a[lane] = part(0) | part(16) << 16;
    }
    w.put(i, a);
    true
}

/// A function of the 16-bit integers of up to three sources; signed results saturate to `range` under clamp.
fn integers(
    w: &mut Wave,
    i: &Instruction,
    sources: usize,
    signed: bool,
    f: impl Fn(i64, i64, i64) -> i64,
) -> bool {
    let mut a = pair(w, i, 0, false);
    let b = pair(w, i, 1, false);
    let c = if sources == 3 { pair(w, i, 2, false) } else { [0; 64] };
    let extend = |bits: u32| {
        if signed { i64::from(bits as u16 as i16) } else { i64::from(bits & 0xffff) }
    };
    let (low, high) = if signed { (-0x8000, 0x7fff) } else { (0, 0xffff) };
    for lane in 0..64 {
        let part = |shift: u32| {
            let exact =
                f(extend(a[lane] >> shift), extend(b[lane] >> shift), extend(c[lane] >> shift));
            let limited = if i.mods.clamp { exact.clamp(low, high) } else { exact };
            limited as u32 & 0xffff
        };
        a[lane] = part(0) | part(16) << 16;
    }
    w.put(i, a);
    true
}

/// One word of a packed single precision source for each result, with the halves that the modifiers pick.
fn singles(w: &mut Wave, i: &Instruction, n: usize) -> [Lanes; 2] {
    let operand = i.src[n];
    let words: [Lanes; 2] = match (w.vector(operand), operand) {
        (Some(register), _) => [w.v[register], w.v[register + 1]],
        (None, Operand::Int(_) | Operand::Float(_) | Operand::Literal(_)) => {
            [[w.scalar(operand); 64]; 2]
        }
        (None, _) => {
            let bits = w.scalar64(operand, false);
            [[bits as u32; 64], [(bits >> 32) as u32; 64]]
        }
    };
    let mut picked =
        [words[usize::from(i.mods.op_sel >> n & 1)], words[usize::from(i.mods.op_sel_hi >> n & 1)]];
    for (part, negate) in picked.iter_mut().zip([i.mods.neg, i.mods.neg_hi]) {
        if negate >> n & 1 == 1 {
            for value in part.iter_mut() {
                *value ^= 0x8000_0000;
            }
        }
        if w.mode.flush_in32() {
            super::operands::flush32(part);
        }
    }
    picked
}

/// Stores the two words of a packed single precision result.
fn put_singles(w: &mut Wave, i: &Instruction, mut words: [Lanes; 2]) -> bool {
    let Some(register) = w.vector(i.dst) else { return true };
    for (n, word) in words.iter_mut().enumerate() {
        if w.mode.flush_out32() {
            super::operands::flush32(word);
        }
        if i.mods.clamp {
            for value in word.iter_mut() {
                let x = f32::from_bits(*value);
                *value = if x.is_nan() { 0 } else { (x.clamp(0.0, 1.0) + 0.0).to_bits() };
            }
        }
        w.store(register + n, word);
    }
    true
}

fn single_pairs(w: &mut Wave, i: &Instruction, f: impl Fn(f32, f32) -> f32) -> bool {
    let (mut a, b) = (singles(w, i, 0), singles(w, i, 1));
    for n in 0..2 {
        for lane in 0..64 {
            a[n][lane] = f(f32::from_bits(a[n][lane]), f32::from_bits(b[n][lane])).to_bits();
        }
    }
    put_singles(w, i, a)
}

/// Source `n` of a mixed precision operation: a single, or the half that `op_sel` picks where `op_sel_hi` says so. `neg_hi`
/// takes the absolute value here.
fn mixed(w: &mut Wave, i: &Instruction, n: usize) -> [f64; 64] {
    let is_half = i.mods.op_sel_hi >> n & 1 == 1;
    let raw = w.raw(i, n, if is_half { Constant::Bits16 } else { Constant::Bits32 });
    let shift = if i.mods.op_sel >> n & 1 == 1 { 16 } else { 0 };
    let mut values = [0f64; 64];
    for lane in 0..64 {
        let mut x = if is_half {
            round::from_f16(raw[lane] >> shift & 0xffff)
        } else {
            f32::from_bits(raw[lane])
        };
        if i.mods.neg_hi >> n & 1 == 1 {
            x = x.abs();
        }
        if i.mods.neg >> n & 1 == 1 {
            x = -x;
        }
        values[lane] = f64::from(x);
    }
    values
}

fn mix(w: &mut Wave, i: &Instruction) -> bool {
    let (a, b, c) = (mixed(w, i, 0), mixed(w, i, 1), mixed(w, i, 2));
    let mut values = [0u32; 64];
    let (single, half) = (w.mode.round32(), w.mode.round16());
    let old = w.vector(i.dst).map_or([0; 64], |register| w.v[register]);
    for lane in 0..64 {
        let exact = round::fma_odd(a[lane], b[lane], c[lane]);
        let small = || {
            let bits = round::to_f16(exact, half);
            if i.mods.clamp { w.finish_half(bits, 0, true) } else { bits }
        };
        values[lane] = match i.opcode {
            O::VFmaMixF32 => round::to_f32(exact, single),
            O::VFmaMixloF16 => small() | old[lane] & 0xffff_0000,
            _ => small() << 16 | old[lane] & 0xffff,
        };
    }
    if i.opcode == O::VFmaMixF32 {
        w.put_single(i, values)
    } else {
        w.put(i, values)
    }
    true
}

/// The third source of a dot product, or the destination of its accumulating form.
fn accumulator(w: &mut Wave, i: &Instruction, accumulates: bool) -> Lanes {
    match (accumulates, w.vector(i.dst)) {
        (true, Some(register)) => w.v[register],
        _ => w.single_bits(i, 2),
    }
}

fn dot_floats(w: &mut Wave, i: &Instruction, accumulates: bool, f: impl Fn(u32) -> f32) -> bool {
    let (a, b) = if accumulates {
        (w.int(i, 0), w.int(i, 1))
    } else {
        (pair(w, i, 0, true), pair(w, i, 1, true))
    };
    let mut c = accumulator(w, i, accumulates);
    for lane in 0..64 {
        let product = |shift: u32| {
            f64::from(f(a[lane] >> shift & 0xffff)) * f64::from(f(b[lane] >> shift & 0xffff))
        };
        let (sum, first) = round::two_sum(product(0), product(16));
        let (sum, second) = round::two_sum(sum, f64::from(f32::from_bits(c[lane])));
        c[lane] = round::to_f32(round::to_odd(sum, first + second), Round::Nearest);
    }
    w.put_single(i, c);
    true
}

/// A dot product of `32 / bits` integers.
fn dot_integers(w: &mut Wave, i: &Instruction, bits: u32, signed: bool, accumulates: bool) -> bool {
    let (a, b) = if bits == 16 && !accumulates {
        (pair(w, i, 0, false), pair(w, i, 1, false))
    } else {
        (w.int(i, 0), w.int(i, 1))
    };
    let mut c = accumulator(w, i, accumulates);
    let extend = |value: u32| {
        let top = value << (32 - bits);
        if signed { i64::from(top as i32 >> (32 - bits)) } else { i64::from(top >> (32 - bits)) }
    };
    for lane in 0..64 {
        let start = if signed { i64::from(c[lane] as i32) } else { i64::from(c[lane]) };
        let sum = (0..32 / bits).fold(start, |sum, n| {
            sum + extend(a[lane] >> (n * bits)) * extend(b[lane] >> (n * bits))
        });
        c[lane] = match (i.mods.clamp, signed) {
            (false, _) => sum as u32,
            (true, true) => sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32,
            (true, false) => sum.min(i64::from(u32::MAX)) as u32,
        };
    }
    w.put(i, c);
    true
}

/// Executes a packed, mixed or dot opcode; false if it is none.
pub(super) fn execute(w: &mut Wave, i: &Instruction) -> bool {
    match i.opcode {
        O::VPkFmaF16 | O::VPkFmacF16 => halves(w, i, 3, round::fma_odd),
        O::VPkAddF16 => halves(w, i, 2, |a, b, _| a + b),
        O::VPkMulF16 => halves(w, i, 2, |a, b, _| a * b),
        O::VPkMinF16 => halves(w, i, 2, |a, b, _| minimum(a, b)),
        O::VPkMaxF16 => halves(w, i, 2, |a, b, _| maximum(a, b)),
        O::VPkMinimum3F16 => halves(w, i, 3, |a, b, c| ieee(ieee(a, b, minimum), c, minimum)),
        O::VPkMaximum3F16 => halves(w, i, 3, |a, b, c| ieee(ieee(a, b, maximum), c, maximum)),
        O::VPkMadI16 => integers(w, i, 3, true, |a, b, c| a * b + c),
        O::VPkMadU16 => integers(w, i, 3, false, |a, b, c| a * b + c),
        O::VPkMulLoU16 => integers(w, i, 2, false, |a, b, _| (a * b) & 0xffff),
        O::VPkAddI16 => integers(w, i, 2, true, |a, b, _| a + b),
        O::VPkSubI16 => integers(w, i, 2, true, |a, b, _| a - b),
        O::VPkAddU16 => integers(w, i, 2, false, |a, b, _| a + b),
        O::VPkSubU16 => integers(w, i, 2, false, |a, b, _| a - b),
        O::VPkMaxI16 => integers(w, i, 2, true, |a, b, _| a.max(b)),
        O::VPkMinI16 => integers(w, i, 2, true, |a, b, _| a.min(b)),
        O::VPkMaxU16 => integers(w, i, 2, false, |a, b, _| a.max(b)),
        O::VPkMinU16 => integers(w, i, 2, false, |a, b, _| a.min(b)),
        O::VPkLshlrevB16 => integers(w, i, 2, false, |a, b, _| b << (a & 15) & 0xffff),
        O::VPkLshrrevB16 => integers(w, i, 2, false, |a, b, _| b >> (a & 15)),
        O::VPkAshrrevI16 => integers(w, i, 2, true, |a, b, _| b >> (a & 15)),
        O::VPkMulF32 => single_pairs(w, i, |a, b| a * b),
        O::VPkAddF32 => single_pairs(w, i, |a, b| a + b),
        O::VPkFmaF32 => {
            let (a, b, c) = (singles(w, i, 0), singles(w, i, 1), singles(w, i, 2));
            let words = [0, 1].map(|n| super::fused::multiply_add(&a[n], &b[n], &c[n]));
            put_singles(w, i, words)
        }
        O::VPkMovB32 => {
            let word = |w: &mut Wave, n: usize| {
                let bits = w.wide(i, n, false);
                let shift = u32::from(i.mods.op_sel >> n & 1) * 32;
                bits.map(|x| (x >> shift) as u32)
            };
            let words = [word(w, 0), word(w, 1)];
            if let Some(register) = w.vector(i.dst) {
                w.store(register, &words[0]);
                w.store(register + 1, &words[1]);
            }
            true
        }
        O::VFmaMixF32 | O::VFmaMixloF16 | O::VFmaMixhiF16 => mix(w, i),
        O::VDot2F32F16 => dot_floats(w, i, false, round::from_f16),
        O::VDot2cF32F16 => dot_floats(w, i, true, round::from_f16),
        O::VDot2F32Bf16 => dot_floats(w, i, false, round::from_bf16),
        O::VDot2cF32Bf16 => dot_floats(w, i, true, round::from_bf16),
        O::VDot2I32I16 => dot_integers(w, i, 16, true, false),
        O::VDot2U32U16 => dot_integers(w, i, 16, false, false),
        O::VDot2cI32I16 => dot_integers(w, i, 16, true, true),
        O::VDot4I32I8 => dot_integers(w, i, 8, true, false),
        O::VDot4U32U8 => dot_integers(w, i, 8, false, false),
        O::VDot4cI32I8 => dot_integers(w, i, 8, true, true),
        O::VDot8I32I4 => dot_integers(w, i, 4, true, false),
        O::VDot8U32U4 => dot_integers(w, i, 4, false, false),
        O::VDot8cI32I4 => dot_integers(w, i, 4, true, true),
        _ => false,
    }
}

/// Minimum or maximum that lets NaN through.
fn ieee(a: f64, b: f64, f: impl Fn(f64, f64) -> f64) -> f64 {
    if a.is_nan() {
        a
    } else if b.is_nan() {
        b
    } else {
        f(a, b)
    }
}
