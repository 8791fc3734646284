//! 32-bit integer and bit operations, 16-bit integers in 32-bit results, byte sums.

use crate::exec::wave::{Lanes, Wave};
use crate::isa::{Instruction, Opcode as O};

fn unary(w: &mut Wave, i: &Instruction, f: impl Fn(u32) -> u32) -> bool {
    let mut a = w.int(i, 0);
    for x in &mut a {
        *x = f(*x);
    }
    w.put(i, a);
    true
}

#[inline]
fn binary(w: &mut Wave, i: &Instruction, f: impl Fn(u32, u32) -> u32) -> bool {
    let (mut a, b) = (w.int(i, 0), w.int(i, 1));
    for lane in 0..64 {
        a[lane] = f(a[lane], b[lane]);
    }
    w.put(i, a);
    true
}

#[inline]
fn ternary(w: &mut Wave, i: &Instruction, f: impl Fn(u32, u32, u32) -> u32) -> bool {
    let (mut a, b, c) = (w.int(i, 0), w.int(i, 1), w.int(i, 2));
    for lane in 0..64 {
        a[lane] = f(a[lane], b[lane], c[lane]);
    }
    w.put(i, a);
    true
}

/// Unsigned sum or difference that saturates under clamp.
fn unsigned(w: &mut Wave, i: &Instruction, f: impl Fn(i64, i64) -> i64) -> bool {
    let top = i64::from(u32::MAX);
    if i.mods.clamp {
        binary(w, i, |a, b| f(i64::from(a), i64::from(b)).clamp(0, top) as u32)
    } else {
        binary(w, i, |a, b| f(i64::from(a), i64::from(b)) as u32)
    }
}

/// Signed sum or difference that saturates under clamp.
fn signed(w: &mut Wave, i: &Instruction, f: impl Fn(i64, i64) -> i64) -> bool {
    let clamp = i.mods.clamp;
    binary(w, i, |a, b| {
        let exact = f(i64::from(a as i32), i64::from(b as i32));
        if clamp {
            exact.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32
        } else {
            exact as u32
        }
    })
}

/// Sum or difference with carry or borrow in (where the opcode has one) and out.
fn carry(
    w: &mut Wave,
    i: &Instruction,
    with_carry: bool,
    f: impl Fn(i64, i64, i64) -> i64,
) -> bool {
    let (mut a, b) = (w.int(i, 0), w.int(i, 1));
    let incoming = if with_carry { w.lane_mask(i, 2) } else { 0 };
    let mut out = 0u64;
    for lane in 0..64 {
        let exact = f(i64::from(a[lane]), i64::from(b[lane]), (incoming >> lane & 1) as i64);
        let carried = exact < 0 || exact > i64::from(u32::MAX);
        out |= u64::from(carried) << lane;
        a[lane] = if !i.mods.clamp || !carried {
            exact as u32
        } else if exact < 0 {
            0
        } else {
            u32::MAX
        };
    }
    w.put(i, a);
    w.put_mask(i.dst2, out);
    true
}

fn sext24(x: u32) -> i64 {
    i64::from((x << 8) as i32 >> 8)
}

fn zext24(x: u32) -> u64 {
    u64::from(x & 0x00ff_ffff)
}

fn median<T: Ord>(a: T, b: T, c: T) -> T {
    let mut sorted = [a, b, c];
    sorted.sort();
    let [_, middle, _] = sorted;
    middle
}

/// The bytes of `high:low` that a selector's bytes name; 8 to 11 replicate the sign of bytes 1, 3, 5 and 7, 12 is zero and
/// the rest ones.
pub(super) fn permute(high: u32, low: u32, selector: u32) -> u32 {
    let pool = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
    u32::from_le_bytes(selector.to_le_bytes().map(|sel| match sel {
        0..=7 => pool[usize::from(sel)],
        8..=11 => {
            if pool[usize::from(sel - 8) * 2 + 1] & 0x80 != 0 {
                0xff
            } else {
                0
            }
        }
        12 => 0,
        _ => 0xff,
    }))
}

/// A bit field of `width` bits (0 to 31) from bit `offset`.
pub(super) fn field(value: u32, offset: u32, width: u32) -> u32 {
    (value >> (offset & 31)) & ((1u32 << (width & 31)) - 1)
}

/// The same, sign-extended.
pub(super) fn signed_field(value: u32, offset: u32, width: u32) -> u32 {
    let width = width & 31;
    if width == 0 {
        return 0;
    }
    // The field may stick out at the top: the arithmetic shift fills it with the sign.
    let shifted = (value as i32 >> (offset & 31)) as u32;
    ((shifted << (32 - width)) as i32 >> (32 - width)) as u32
}

fn byte_sum(a: u32, b: u32, masked: bool) -> u32 {
    let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    pairs.filter(|(_, b)| !masked || *b != 0).map(|(a, b)| u32::from(a.abs_diff(b))).sum()
}

/// Bits from leading to the first that differs from the sign, or all ones where there is none.
pub(super) fn sign_run(x: u32) -> u32 {
    let folded = if x >> 31 == 1 { !x } else { x };
    if folded == 0 { u32::MAX } else { folded.leading_zeros() }
}

/// Any function of three bits, by its table: bit `4a + 2b + c` is the result.
pub(super) fn table3(a: u32, b: u32, c: u32, table: u16) -> u32 {
    (0..8).filter(|row| table >> row & 1 == 1).fold(0, |sum, row| {
        let pick = |value: u32, bit: u32| if row >> bit & 1 == 1 { value } else { !value };
        sum | pick(a, 2) & pick(b, 1) & pick(c, 0)
    })
}

fn saturate(x: i32, low: i32, high: i32) -> u32 {
    x.clamp(low, high) as u32 & 0xff
}

fn lanes_below(half: u32) -> Lanes {
    let mut masks = [0u32; 64];
    for (lane, mask) in masks.iter_mut().enumerate() {
        let below = (1u64 << lane) - 1;
        *mask = (below >> (32 * half)) as u32;
    }
    masks
}

/// Executes an integer opcode; false if it is none.
pub(super) fn execute(w: &mut Wave, i: &Instruction) -> bool {
    match i.opcode {
        O::VMovB32 | O::VAccvgprReadB32 | O::VAccvgprWriteB32 | O::VAccvgprMovB32 => {
            unary(w, i, |a| a)
        }
        O::VAddU32 => unsigned(w, i, |a, b| a + b),
        O::VSubU32 => unsigned(w, i, |a, b| a - b),
        O::VSubrevU32 => unsigned(w, i, |a, b| b - a),
        O::VAddI32 => signed(w, i, |a, b| a + b),
        O::VSubI32 => signed(w, i, |a, b| a - b),
        O::VAndB32 => binary(w, i, |a, b| a & b),
        O::VOrB32 => binary(w, i, |a, b| a | b),
        O::VXorB32 => binary(w, i, |a, b| a ^ b),
        O::VXnorB32 => binary(w, i, |a, b| !(a ^ b)),
        O::VNotB32 => unary(w, i, |a| !a),
        O::VLshlrevB32 => binary(w, i, |a, b| b << (a & 31)),
        O::VLshrrevB32 => binary(w, i, |a, b| b >> (a & 31)),
        O::VAshrrevI32 => binary(w, i, |a, b| (b as i32 >> (a & 31)) as u32),
        O::VLshlAddU32 => ternary(w, i, |a, b, c| (a << (b & 31)).wrapping_add(c)),
        O::VAddLshlU32 => ternary(w, i, |a, b, c| a.wrapping_add(b) << (c & 31)),
        O::VAdd3U32 => ternary(w, i, |a, b, c| a.wrapping_add(b).wrapping_add(c)),
        O::VLshlOrB32 => ternary(w, i, |a, b, c| a << (b & 31) | c),
        O::VAndOrB32 => ternary(w, i, |a, b, c| a & b | c),
        O::VOr3B32 => ternary(w, i, |a, b, c| a | b | c),
        O::VXadU32 => ternary(w, i, |a, b, c| (a ^ b).wrapping_add(c)),
        O::VCndmaskB32 => {
            let (a, mut b) = (w.single_bits(i, 0), w.single_bits(i, 1));
            let mask = w.lane_mask(i, 2);
            for lane in 0..64 {
                b[lane] = if mask >> lane & 1 == 1 { b[lane] } else { a[lane] };
            }
            w.put(i, b);
            true
        }
        O::VAddCoU32 => carry(w, i, false, |a, b, _| a + b),
        O::VSubCoU32 => carry(w, i, false, |a, b, _| a - b),
        O::VSubrevCoU32 => carry(w, i, false, |a, b, _| b - a),
        O::VAddcCoU32 => carry(w, i, true, |a, b, c| a + b + c),
        O::VSubbCoU32 => carry(w, i, true, |a, b, c| a - b - c),
        O::VSubbrevCoU32 => carry(w, i, true, |a, b, c| b - a - c),
        O::VMulLoU32 => binary(w, i, u32::wrapping_mul),
        O::VMulHiU32 => binary(w, i, |a, b| ((u64::from(a) * u64::from(b)) >> 32) as u32),
        O::VMulHiI32 => {
            binary(w, i, |a, b| ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32)
        }
        O::VMulU32U24 => binary(w, i, |a, b| (zext24(a) * zext24(b)) as u32),
        O::VMulHiU32U24 => binary(w, i, |a, b| ((zext24(a) * zext24(b)) >> 32) as u32),
        O::VMulI32I24 => binary(w, i, |a, b| (sext24(a) * sext24(b)) as u32),
        O::VMulHiI32I24 => binary(w, i, |a, b| ((sext24(a) * sext24(b)) >> 32) as u32),
        O::VMadU32U24 => ternary(w, i, |a, b, c| ((zext24(a) * zext24(b)) as u32).wrapping_add(c)),
        O::VMadI32I24 => ternary(w, i, |a, b, c| ((sext24(a) * sext24(b)) as u32).wrapping_add(c)),
        O::VMinI32 => binary(w, i, |a, b| (a as i32).min(b as i32) as u32),
        O::VMaxI32 => binary(w, i, |a, b| (a as i32).max(b as i32) as u32),
        O::VMinU32 => binary(w, i, u32::min),
        O::VMaxU32 => binary(w, i, u32::max),
        O::VMin3I32 => ternary(w, i, |a, b, c| (a as i32).min(b as i32).min(c as i32) as u32),
        O::VMax3I32 => ternary(w, i, |a, b, c| (a as i32).max(b as i32).max(c as i32) as u32),
        O::VMed3I32 => ternary(w, i, |a, b, c| median(a as i32, b as i32, c as i32) as u32),
        O::VMin3U32 => ternary(w, i, |a, b, c| a.min(b).min(c)),
        O::VMax3U32 => ternary(w, i, |a, b, c| a.max(b).max(c)),
        O::VMed3U32 => ternary(w, i, median),
        O::VBfeU32 => ternary(w, i, field),
        O::VBfeI32 => ternary(w, i, signed_field),
        O::VBfiB32 => ternary(w, i, |a, b, c| a & b | !a & c),
        O::VBfmB32 => binary(w, i, |a, b| ((1u32 << (a & 31)) - 1) << (b & 31)),
        O::VPermB32 => ternary(w, i, permute),
        O::VAlignbitB32 => {
            ternary(w, i, |a, b, c| ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32)
        }
        O::VAlignbyteB32 => {
            ternary(w, i, |a, b, c| ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32)
        }
        O::VBfrevB32 => unary(w, i, u32::reverse_bits),
        O::VFfbhU32 => unary(w, i, |a| if a == 0 { u32::MAX } else { a.leading_zeros() }),
        O::VFfblB32 => unary(w, i, |a| if a == 0 { u32::MAX } else { a.trailing_zeros() }),
        O::VFfbhI32 => unary(w, i, sign_run),
        O::VBcntU32B32 => binary(w, i, |a, b| a.count_ones().wrapping_add(b)),
        O::VMbcntLoU32B32 | O::VMbcntHiU32B32 => {
            let below = lanes_below(u32::from(i.opcode == O::VMbcntHiU32B32));
            let (mut a, b) = (w.int(i, 0), w.int(i, 1));
            for lane in 0..64 {
                a[lane] = (a[lane] & below[lane]).count_ones().wrapping_add(b[lane]);
            }
            w.put(i, a);
            true
        }
        O::VBitop3B32 => {
            let table = i.mods.imm;
            ternary(w, i, |a, b, c| table3(a, b, c, table))
        }
        O::VSadU8 => ternary(w, i, |a, b, c| byte_sum(a, b, false).wrapping_add(c)),
        O::VSadHiU8 => ternary(w, i, |a, b, c| (byte_sum(a, b, false) << 16).wrapping_add(c)),
        O::VMsadU8 => ternary(w, i, |a, b, c| byte_sum(a, b, true).wrapping_add(c)),
        O::VSadU16 => ternary(w, i, |a, b, c| {
            let low = (a & 0xffff).abs_diff(b & 0xffff);
            c.wrapping_add(low).wrapping_add((a >> 16).abs_diff(b >> 16))
        }),
        O::VSadU32 => ternary(w, i, |a, b, c| a.abs_diff(b).wrapping_add(c)),
        O::VLerpU8 => {
            ternary(w, i, |a, b, c| {
                let (a, b, c) = (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes());
                u32::from_le_bytes([0, 1, 2, 3].map(|n| {
                    ((u16::from(a[n]) + u16::from(b[n]) + u16::from(c[n] & 1)) >> 1) as u8
                }))
            })
        }
        O::VPrngB32 => unary(w, i, |a| (a << 1) ^ if a >> 31 == 1 { 197 } else { 0 }),
        O::VAshrPkI8I32 => ternary(w, i, |a, b, c| {
            let part = |x: u32| saturate(x as i32 >> (c & 31), -128, 127);
            part(a) | part(b) << 8
        }),
        O::VAshrPkU8I32 => ternary(w, i, |a, b, c| {
            let part = |x: u32| saturate(x as i32 >> (c & 31), 0, 255);
            part(a) | part(b) << 8
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_permutes_follow_the_selector() {
        assert_eq!(permute(0x1122_3344, 0x5566_7788, 0x0c07_0400), 0x0011_4488);
        assert_eq!(permute(0x8000_0000, 0x0000_8000, 0x0b08_0d0c), 0xffff_ff00);
        assert_eq!(permute(0, 0xff00_0000, 0x0908_0908), 0xff00_ff00);
    }

    #[test]
    fn fields_stop_at_the_top_bit() {
        assert_eq!(field(0xabcd_ef01, 8, 12), 0xdef);
        assert_eq!(signed_field(0x8000_0000, 28, 8), 0xffff_fff8);
        assert_eq!(signed_field(0x0000_0f00, 8, 4), 0xffff_ffff);
        assert_eq!(signed_field(1, 0, 0), 0);
    }

    #[test]
    fn truth_tables_number_rows_by_the_first_source_highest() {
        let (a, b, c) = (0xf0f0_f0f0, 0xcccc_cccc, 0xaaaa_aaaa);
        assert_eq!(table3(a, b, c, 0xf0), a);
        assert_eq!(table3(a, b, c, 0xcc), b);
        assert_eq!(table3(a, b, c, 0xaa), c);
        assert_eq!(table3(a, b, c, 0x96), a ^ b ^ c);
    }

    #[test]
    fn sign_runs() {
        assert_eq!(sign_run(0), u32::MAX);
        assert_eq!(sign_run(u32::MAX), u32::MAX);
        assert_eq!(sign_run(0x0fff_ffff), 4);
        assert_eq!(sign_run(0xfffe_0000), 15);
    }
}
