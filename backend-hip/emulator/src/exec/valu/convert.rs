//! Conversions between number formats.
//!
//! Rounding from single precision to 8 bits is to nearest even; beyond the range the result is NaN or infinity, or the
//! largest number where MODE.FP16_OVFL is set. Stochastic rounding adds the top bits of the second source below the last
//! kept bit and truncates. The scaled conversions of gfx950 use the exponent of their scale operand only; the reading of
//! their `op_sel` bits follows the plain conversions and is not confirmed by a published table.

use super::half::{normalised, toward_zero};
use crate::Arch;
use crate::exec::round::{self, Round};
use crate::exec::wave::{Lanes, Wave};
use crate::isa::{Instruction, Opcode as O};
use crate::mfma::Format;
use crate::mfma::formats::Overflow;

fn from_single(w: &mut Wave, i: &Instruction, f: impl Fn(f32) -> u32) -> bool {
    let mut a = w.single(i, 0);
    for x in &mut a {
        *x = f(f32::from_bits(*x));
    }
    w.put(i, a);
    true
}

fn two_singles(w: &mut Wave, i: &Instruction, f: impl Fn(f32, f32) -> u32) -> bool {
    let (mut a, b) = (w.single(i, 0), w.single(i, 1));
    for lane in 0..64 {
        a[lane] = f(f32::from_bits(a[lane]), f32::from_bits(b[lane]));
    }
    w.put(i, a);
    true
}

fn two_integers(w: &mut Wave, i: &Instruction, f: impl Fn(u32, u32) -> u32) -> bool {
    let (mut a, b) = (w.int(i, 0), w.int(i, 1));
    for lane in 0..64 {
        a[lane] = f(a[lane], b[lane]);
    }
    w.put(i, a);
    true
}

fn to_single(w: &mut Wave, i: &Instruction, f: impl Fn(u32) -> f32) -> bool {
    let mut a = w.int(i, 0);
    for x in &mut a {
        *x = f(*x).to_bits();
    }
    w.put_single(i, a);
    true
}

/// An 8-bit code as a single.
fn small(format: Format, code: u32) -> u32 {
    (format.value(code & 0xff) as f32).to_bits()
}

/// Writes pairs of singles.
fn put_pair(w: &mut Wave, i: &Instruction, f: impl Fn(usize) -> (u32, u32)) -> bool {
    let mut values = [0u64; 64];
    for (lane, value) in values.iter_mut().enumerate() {
        let (low, high) = f(lane);
        *value = u64::from(low) | u64::from(high) << 32;
    }
    w.put_wide(i, &values);
    true
}

/// Writes `bits` bits at position `at` of the destination, the rest kept.
fn put_part(w: &mut Wave, i: &Instruction, mut values: Lanes, at: u32, bits: u32) -> bool {
    if let Some(register) = w.vector(i.dst) {
        let mask = (((1u64 << bits) - 1) as u32) << at;
        for (value, old) in values.iter_mut().zip(&w.v[register]) {
            *value = *value << at & mask | old & !mask;
        }
        w.store(register, &values);
    }
    true
}

fn overflow(w: &Wave) -> Overflow {
    if w.mode.overflow_clamps() { Overflow::Saturate } else { Overflow::NonFinite }
}

fn fp8(arch: Arch) -> Format {
    if arch == Arch::Gfx942 { Format::E4m3Fnuz } else { Format::E4m3Fn }
}

fn bf8(arch: Arch) -> Format {
    if arch == Arch::Gfx942 { Format::E5m2Fnuz } else { Format::E5m2 }
}

/// Rounds up or down with the probability that `random` stands for.
fn stochastic(x: f32, random: u32, format: Format, overflow: Overflow) -> u32 {
    if !x.is_finite() || x == 0.0 {
        return format.encode(f64::from(x), overflow);
    }
    let bits = f64::from(x).to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32 - 1023;
    // The exponent of the smallest normal number bounds the place of the last kept bit.
    let smallest_normal = format.value(1 << format.fraction_bits());
    let lowest = (smallest_normal.to_bits() >> 52) as i32 - 1023;
    let kept = format.fraction_bits() as i32 - (lowest - exponent).max(0);
    // Significands have 52 fraction bits; the random word ends where the kept bits do.
    let dropped = (52 - kept).clamp(0, 62) as u32;
    let significand = (bits & ((1 << 52) - 1) | 1 << 52) << 9;
    let noise = if dropped + 9 >= 32 {
        u128::from(random) << (dropped + 9 - 32)
    } else {
        u128::from(random >> (32 - 9 - dropped))
    };
    let sum = (u128::from(significand) + noise) >> (dropped + 9) << dropped;
    let magnitude = sum as f64 * 2f64.powi(exponent - 52);
    format.encode(magnitude.copysign(f64::from(x)), overflow)
}

/// The power of two that a scale operand's exponent field states; all ones is NaN.
fn scale(bits: u32) -> f64 {
    match bits >> 23 & 0xff {
        0xff => f64::NAN,
        field => 2f64.powi(field as i32 - 127),
    }
}

/// What the scaled conversions convert from or to on the wide side.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WideType {
    F32,
    F16,
    Bf16,
}

impl WideType {
    fn round(self, x: f64) -> u32 {
        match self {
            WideType::F32 => (x as f32).to_bits(),
            WideType::F16 => round::to_f16(x, Round::Nearest),
            WideType::Bf16 => round::to_bf16(x),
        }
    }

    fn value(self, bits: u32) -> f64 {
        f64::from(match self {
            WideType::F32 => f32::from_bits(bits),
            WideType::F16 => round::from_f16(bits),
            WideType::Bf16 => round::from_bf16(bits),
        })
    }
}

/// Two wide numbers, divided by the scale, to two narrow codes in part of the destination.
fn scaled_down(w: &mut Wave, i: &Instruction, from: WideType, to: Format) -> bool {
    let overflow = overflow(w);
    let (a, b) = (w.int(i, 0), w.int(i, 1));
    let (pairs, scales) = if from == WideType::F32 { ((a, b), w.int(i, 2)) } else { ((a, a), b) };
    let mut values = [0u32; 64];
    for lane in 0..64 {
        let factor = scale(scales[lane]);
        let (low, high) = if from == WideType::F32 {
            (pairs.0[lane], pairs.1[lane])
        } else {
            (pairs.0[lane] & 0xffff, pairs.1[lane] >> 16)
        };
        let code = |bits: u32| to.encode(from.value(bits) / factor, overflow);
        values[lane] = code(low) | code(high) << to.bits();
    }
    let select = u32::from(i.mods.op_sel);
    if to.bits() == 4 {
        put_part(w, i, values, (select >> 2 & 3) * 8, 8)
    } else {
        put_part(w, i, values, (select >> 3 & 1) * 16, 16)
    }
}

/// Two narrow codes from part of the source, times the scale.
fn scaled_up(w: &mut Wave, i: &Instruction, from: Format, to: WideType) -> bool {
    let (a, scales) = (w.int(i, 0), w.int(i, 1));
    let select = u32::from(i.mods.op_sel);
    let shift = if from.bits() == 4 { (select & 3) * 8 } else { (select & 1) * 16 };
    let mask = (1u32 << from.bits()) - 1;
    let pair = |lane: usize| {
        let factor = scale(scales[lane]);
        let code = |n: u32| a[lane] >> (shift + n * from.bits()) & mask;
        (to.round(from.value(code(0)) * factor), to.round(from.value(code(1)) * factor))
    };
    if to == WideType::F32 {
        return put_pair(w, i, pair);
    }
    let mut values = [0u32; 64];
    for (lane, value) in values.iter_mut().enumerate() {
        let (low, high) = pair(lane);
        *value = low | high << 16;
    }
    w.put(i, values);
    true
}

/// One narrow code from the byte that `op_sel` picks, times the scale.
fn scaled_one(w: &mut Wave, i: &Instruction, from: Format, to: WideType) -> bool {
    let (a, scales) = (w.int(i, 0), w.int(i, 1));
    let shift = u32::from(i.mods.op_sel & 3) * 8;
    let mut values = [0u32; 64];
    for lane in 0..64 {
        values[lane] = to.round(from.value(a[lane] >> shift & 0xff) * scale(scales[lane]));
    }
    if to == WideType::F32 {
        w.put(i, values);
        return true;
    }
    put_part(w, i, values, u32::from(i.mods.op_sel >> 3 & 1) * 16, 16)
}

/// One or two wide numbers, divided by the scale and rounded stochastically, to codes in one byte of the destination. The
/// random bits are source 1, or source 2 for pairs; the scale is the source after.
fn scaled_stochastic(w: &mut Wave, i: &Instruction, from: WideType, to: Format) -> bool {
    let overflow = overflow(w);
    let a = w.int(i, 0);
    // A pair of singles takes two sources.
    let pair_of_singles = to == Format::E2m1 && from == WideType::F32;
    let high =
        if pair_of_singles { w.vector(i.src[0]).map(|register| w.v[register + 1]) } else { None };
    let (random, scales) = (w.int(i, 1), w.int(i, 2));
    let mut values = [0u32; 64];
    for lane in 0..64 {
        let factor = scale(scales[lane]);
        let code =
            |bits: u32| stochastic((from.value(bits) / factor) as f32, random[lane], to, overflow);
        values[lane] = match (to, &high) {
            (Format::E2m1, Some(high)) => code(a[lane]) | code(high[lane]) << 4,
            (Format::E2m1, None) => code(a[lane] & 0xffff) | code(a[lane] >> 16) << 4,
            _ => code(a[lane]),
        };
    }
    put_part(w, i, values, u32::from(i.mods.op_sel >> 2 & 3) * 8, 8)
}

/// 32 six-bit codes in six registers, times the scale, to 32 singles or 16 pairs.
fn unpack32(w: &mut Wave, i: &Instruction, from: Format, to: WideType) -> bool {
    let scales = w.int(i, 1);
    let (Some(source), Some(first)) = (w.vector(i.src[0]), w.vector(i.dst)) else { return true };
    let words: [Lanes; 6] = std::array::from_fn(|n| w.v[source + n]);
    let width = if to == WideType::F32 { 1 } else { 2 };
    for register in 0..32 / width {
        let mut values = [0u32; 64];
        for (lane, value) in values.iter_mut().enumerate() {
            for n in 0..width {
                let at = (register * width + n) * 6;
                let pair = u64::from(words[at / 32][lane])
                    | u64::from(words[(at / 32 + 1).min(5)][lane]) << 32;
                let code = (pair >> (at % 32)) as u32 & 0x3f;
                let bits = to.round(from.value(code) * scale(scales[lane]));
                *value |= bits << (16 * n);
            }
        }
        w.store(first + register, &values);
    }
    true
}

/// 16 pairs of wide numbers, divided by the scale, to 32 six-bit codes in six registers.
fn pack32(w: &mut Wave, i: &Instruction, from: WideType, to: Format) -> bool {
    let (overflow, scales) = (overflow(w), w.int(i, 1));
    let (Some(source), Some(first)) = (w.vector(i.src[0]), w.vector(i.dst)) else { return true };
    let mut words = [[0u32; 64]; 6];
    for lane in 0..64 {
        let factor = scale(scales[lane]);
        let mut packed = [0u8; 24];
        for element in 0..32 {
            let bits = w.v[source + element / 2][lane] >> (16 * (element % 2)) & 0xffff;
            let code = to.encode(from.value(bits) / factor, overflow);
            for n in (0..6).filter(|n| code >> n & 1 == 1) {
                packed[(element * 6 + n) / 8] |= 1 << ((element * 6 + n) % 8);
            }
        }
        for (word, bytes) in words.iter_mut().zip(packed.chunks_exact(4)) {
            word[lane] = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
    }
    for (n, word) in words.iter().enumerate() {
        w.store(first + n, word);
    }
    true
}

fn byte(w: &mut Wave, i: &Instruction, shift: u32) -> bool {
    to_single(w, i, |x| (x >> shift & 0xff) as f32)
}

/// Executes a conversion; false if the opcode is none.
pub(super) fn execute(w: &mut Wave, i: &Instruction, arch: Arch) -> bool {
    match i.opcode {
        O::VCvtF32I32 => to_single(w, i, |x| x as i32 as f32),
        O::VCvtF32U32 => to_single(w, i, |x| x as f32),
        O::VCvtF32Ubyte0 => byte(w, i, 0),
        O::VCvtF32Ubyte1 => byte(w, i, 8),
        O::VCvtF32Ubyte2 => byte(w, i, 16),
        O::VCvtF32Ubyte3 => byte(w, i, 24),
        // A float to integer conversion of Rust saturates and takes NaN to zero, as the hardware does.
        O::VCvtU32F32 => from_single(w, i, |x| x as u32),
        O::VCvtI32F32 => from_single(w, i, |x| x as i32 as u32),
        O::VCvtRpiI32F32 => from_single(w, i, |x| (f64::from(x) + 0.5).floor() as i32 as u32),
        O::VCvtFlrI32F32 => from_single(w, i, |x| x.floor() as i32 as u32),
        O::VCvtOffF32I4 => to_single(w, i, |x| ((x << 28) as i32 >> 28) as f32 / 16.0),
        O::VCvtF32F16 => {
            let mut a = w.half(i, 0);
            for x in &mut a {
                *x = round::from_f16(*x).to_bits();
            }
            w.put_single(i, a);
            true
        }
        O::VCvtF32Bf16 => to_single(w, i, round::from_bf16),
        O::VCvtPkrtzF16F32 => two_singles(w, i, |a, b| toward_zero(a) | toward_zero(b) << 16),
        O::VCvtPkF16F32 => {
            let mode = w.mode.round16();
            two_singles(w, i, |a, b| {
                round::to_f16(f64::from(a), mode) | round::to_f16(f64::from(b), mode) << 16
            })
        }
        O::VCvtPkBf16F32 => two_singles(w, i, |a, b| {
            round::to_bf16(f64::from(a)) | round::to_bf16(f64::from(b)) << 16
        }),
        O::VCvtPknormI16F32 => two_singles(w, i, |a, b| {
            normalised(f64::from(a), 32767.0) & 0xffff | normalised(f64::from(b), 32767.0) << 16
        }),
        O::VCvtPknormU16F32 => two_singles(w, i, |a, b| {
            normalised(f64::from(a.max(0.0)), 65535.0)
                | normalised(f64::from(b.max(0.0)), 65535.0) << 16
        }),
        O::VCvtPkU16U32 => two_integers(w, i, |a, b| a.min(0xffff) | b.min(0xffff) << 16),
        O::VCvtPkI16I32 => two_integers(w, i, |a, b| {
            let part = |x: u32| (x as i32).clamp(-0x8000, 0x7fff) as u32 & 0xffff;
            part(a) | part(b) << 16
        }),
        O::VCvtPkU8F32 => {
            let (mut a, b, c) = (w.single(i, 0), w.int(i, 1), w.int(i, 2));
            for lane in 0..64 {
                let at = (b[lane] & 3) * 8;
                let code = u32::from(f32::from_bits(a[lane]).round_ties_even() as u8);
                a[lane] = c[lane] & !(0xff << at) | code << at;
            }
            w.put(i, a);
            true
        }
        O::VCvtF32Fp8 => to_single(w, i, |x| f32::from_bits(small(fp8(arch), x))),
        O::VCvtF32Bf8 => to_single(w, i, |x| f32::from_bits(small(bf8(arch), x))),
        O::VCvtPkF32Fp8 | O::VCvtPkF32Bf8 => {
            let format = if i.opcode == O::VCvtPkF32Fp8 { fp8(arch) } else { bf8(arch) };
            let a = w.int(i, 0);
            put_pair(w, i, |lane| (small(format, a[lane]), small(format, a[lane] >> 8)))
        }
        O::VCvtPkFp8F32 | O::VCvtPkBf8F32 => {
            let format = if i.opcode == O::VCvtPkFp8F32 { fp8(arch) } else { bf8(arch) };
            let overflow = overflow(w);
            let (mut a, b) = (w.single(i, 0), w.single(i, 1));
            let code = |bits: u32| format.encode(f64::from(f32::from_bits(bits)), overflow);
            for lane in 0..64 {
                a[lane] = code(a[lane]) | code(b[lane]) << 8;
            }
            put_part(w, i, a, u32::from(i.mods.op_sel >> 3 & 1) * 16, 16)
        }
        O::VCvtSrFp8F32 | O::VCvtSrBf8F32 => {
            let format = if i.opcode == O::VCvtSrFp8F32 { fp8(arch) } else { bf8(arch) };
            let overflow = overflow(w);
            let (mut a, b) = (w.single(i, 0), w.int(i, 1));
            for lane in 0..64 {
                a[lane] = stochastic(f32::from_bits(a[lane]), b[lane], format, overflow);
            }
            put_part(w, i, a, u32::from(i.mods.op_sel >> 2 & 3) * 8, 8)
        }
        O::VCvtSrF16F32 | O::VCvtSrBf16F32 => {
            let format = if i.opcode == O::VCvtSrF16F32 { Format::F16 } else { Format::Bf16 };
            let overflow = overflow(w);
            let (mut a, b) = (w.single(i, 0), w.int(i, 1));
            for lane in 0..64 {
                a[lane] = stochastic(f32::from_bits(a[lane]), b[lane], format, overflow);
            }
            put_part(w, i, a, u32::from(i.mods.op_sel >> 3 & 1) * 16, 16)
        }
        O::VCvtPkaccumU8F32 => {
            let (mut a, b) = (w.single(i, 0), w.int(i, 1));
            let old = w.vector(i.dst).map_or([0; 64], |register| w.v[register]);
            for lane in 0..64 {
                let at = (b[lane] & 3) * 8;
                let code = u32::from(f32::from_bits(a[lane]).round_ties_even() as u8);
                a[lane] = old[lane] & !(0xff << at) | code << at;
            }
            w.put(i, a);
            true
        }
        O::VCvtScalef32SrFp8F32 => scaled_stochastic(w, i, WideType::F32, Format::E4m3Fn),
        O::VCvtScalef32SrBf8F32 => scaled_stochastic(w, i, WideType::F32, Format::E5m2),
        O::VCvtScalef32SrPkFp4F32 => scaled_stochastic(w, i, WideType::F32, Format::E2m1),
        O::VCvtScalef32SrFp8F16 => scaled_stochastic(w, i, WideType::F16, Format::E4m3Fn),
        O::VCvtScalef32SrBf8F16 => scaled_stochastic(w, i, WideType::F16, Format::E5m2),
        O::VCvtScalef32SrPkFp4F16 => scaled_stochastic(w, i, WideType::F16, Format::E2m1),
        O::VCvtScalef32SrFp8Bf16 => scaled_stochastic(w, i, WideType::Bf16, Format::E4m3Fn),
        O::VCvtScalef32SrBf8Bf16 => scaled_stochastic(w, i, WideType::Bf16, Format::E5m2),
        O::VCvtScalef32SrPkFp4Bf16 => scaled_stochastic(w, i, WideType::Bf16, Format::E2m1),
        O::VCvtScalef32Pk32F32Fp6 => unpack32(w, i, Format::E2m3, WideType::F32),
        O::VCvtScalef32Pk32F32Bf6 => unpack32(w, i, Format::E3m2, WideType::F32),
        O::VCvtScalef32Pk32F16Fp6 => unpack32(w, i, Format::E2m3, WideType::F16),
        O::VCvtScalef32Pk32F16Bf6 => unpack32(w, i, Format::E3m2, WideType::F16),
        O::VCvtScalef32Pk32Bf16Fp6 => unpack32(w, i, Format::E2m3, WideType::Bf16),
        O::VCvtScalef32Pk32Bf16Bf6 => unpack32(w, i, Format::E3m2, WideType::Bf16),
        O::VCvtScalef32Pk32Fp6F16 => pack32(w, i, WideType::F16, Format::E2m3),
        O::VCvtScalef32Pk32Bf6F16 => pack32(w, i, WideType::F16, Format::E3m2),
        O::VCvtScalef32Pk32Fp6Bf16 => pack32(w, i, WideType::Bf16, Format::E2m3),
        O::VCvtScalef32Pk32Bf6Bf16 => pack32(w, i, WideType::Bf16, Format::E3m2),
        O::VCvtScalef32PkFp8F32 => scaled_down(w, i, WideType::F32, Format::E4m3Fn),
        O::VCvtScalef32PkBf8F32 => scaled_down(w, i, WideType::F32, Format::E5m2),
        O::VCvtScalef32PkFp4F32 => scaled_down(w, i, WideType::F32, Format::E2m1),
        O::VCvtScalef32PkFp8F16 => scaled_down(w, i, WideType::F16, Format::E4m3Fn),
        O::VCvtScalef32PkBf8F16 => scaled_down(w, i, WideType::F16, Format::E5m2),
        O::VCvtScalef32PkFp4F16 => scaled_down(w, i, WideType::F16, Format::E2m1),
        O::VCvtScalef32PkFp8Bf16 => scaled_down(w, i, WideType::Bf16, Format::E4m3Fn),
        O::VCvtScalef32PkBf8Bf16 => scaled_down(w, i, WideType::Bf16, Format::E5m2),
        O::VCvtScalef32PkFp4Bf16 => scaled_down(w, i, WideType::Bf16, Format::E2m1),
        O::VCvtScalef32PkF32Fp8 => scaled_up(w, i, Format::E4m3Fn, WideType::F32),
        O::VCvtScalef32PkF32Bf8 => scaled_up(w, i, Format::E5m2, WideType::F32),
        O::VCvtScalef32PkF32Fp4 => scaled_up(w, i, Format::E2m1, WideType::F32),
        O::VCvtScalef32PkF16Fp8 => scaled_up(w, i, Format::E4m3Fn, WideType::F16),
        O::VCvtScalef32PkF16Bf8 => scaled_up(w, i, Format::E5m2, WideType::F16),
        O::VCvtScalef32PkF16Fp4 => scaled_up(w, i, Format::E2m1, WideType::F16),
        O::VCvtScalef32PkBf16Fp8 => scaled_up(w, i, Format::E4m3Fn, WideType::Bf16),
        O::VCvtScalef32PkBf16Bf8 => scaled_up(w, i, Format::E5m2, WideType::Bf16),
        O::VCvtScalef32PkBf16Fp4 => scaled_up(w, i, Format::E2m1, WideType::Bf16),
        O::VCvtScalef32F32Fp8 => scaled_one(w, i, Format::E4m3Fn, WideType::F32),
        O::VCvtScalef32F32Bf8 => scaled_one(w, i, Format::E5m2, WideType::F32),
        O::VCvtScalef32F16Fp8 => scaled_one(w, i, Format::E4m3Fn, WideType::F16),
        O::VCvtScalef32F16Bf8 => scaled_one(w, i, Format::E5m2, WideType::F16),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stochastic_rounding_goes_both_ways() {
        let format = Format::E4m3Fn;
        let low = format.encode(1.0, Overflow::NonFinite);
        // 1.03125 lies a quarter of the way from 1.0 to 1.125.
        assert_eq!(stochastic(1.03125, 0, format, Overflow::NonFinite), low);
        assert_eq!(stochastic(1.03125, 0xbfff_ffff, format, Overflow::NonFinite), low);
        assert_eq!(stochastic(1.03125, 0xc000_0000, format, Overflow::NonFinite), low + 1);
        assert_eq!(stochastic(1.03125, u32::MAX, format, Overflow::NonFinite), low + 1);
        assert_eq!(stochastic(1.125, u32::MAX, format, Overflow::NonFinite), low + 1);
        // A quarter of the smallest subnormal.
        let tiny = format.value(1) as f32 / 4.0;
        assert_eq!(stochastic(tiny, 0xbfff_ffff, format, Overflow::NonFinite), 0);
        assert_eq!(stochastic(-tiny, 0xc000_0000, format, Overflow::NonFinite), 0x81);
    }

    #[test]
    fn scales_use_the_exponent_only() {
        assert_eq!(scale(0x4000_0000), 2.0);
        assert_eq!(scale(0x407f_ffff), 2.0);
        assert!(scale(0x7f80_0000).is_nan());
    }
}
