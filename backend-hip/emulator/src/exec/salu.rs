//! Scalar arithmetic, compares and moves.

use super::plan::Plan;
use super::wave::{Wave, number};
use crate::isa::{Instruction, Opcode as O, Operand};
use crate::loader::LOAD_BASE;

/// Where a scalar instruction sends the wave.
pub(crate) enum Next {
    /// To the next instruction.
    Through,
    /// To the instruction with that index.
    To(usize),
    /// To an address that holds no instruction.
    Lost(u64),
}

fn result32(w: &mut Wave, i: &Instruction, value: u32) {
    w.set_scalar(i.dst, value);
}

/// Writes 32 bits and sets SCC where the result is not zero.
fn logic32(w: &mut Wave, i: &Instruction, value: u32) {
    w.set_scalar(i.dst, value);
    w.scc = value != 0;
}

/// Writes 64 bits and sets SCC where the result is not zero.
fn logic64(w: &mut Wave, i: &Instruction, value: u64) {
    w.set_scalar64(i.dst, value);
    w.scc = value != 0;
}

/// Writes a wide sum and sets SCC to a carry, borrow or overflow.
fn sum(w: &mut Wave, i: &Instruction, (value, carry): (u32, bool)) {
    w.set_scalar(i.dst, value);
    w.scc = carry;
}

/// Replaces EXEC by a function of the source and the old EXEC, which goes to the destination.
fn save_exec(w: &mut Wave, i: &Instruction, f: impl Fn(u64, u64) -> u64) {
    let (source, exec) = (w.scalar64(i.src[0], false), w.exec());
    let value = f(source, exec);
    w.set_scalar64(i.dst, exec);
    w.set_pair(number::EXEC, value);
    w.scc = value != 0;
}

/// Replaces EXEC by a function of the source and the old EXEC; the new value goes to the destination too.
fn write_exec(w: &mut Wave, i: &Instruction, f: impl Fn(u64, u64) -> u64) {
    let value = f(w.scalar64(i.src[0], false), w.exec());
    w.set_pair(number::EXEC, value);
    w.set_scalar64(i.dst, value);
    w.scc = value != 0;
}

/// Each group of four bits becomes one, or four, that say whether any was set.
fn quads(value: u64, whole: bool) -> u64 {
    (0..16)
        .filter(|quad| value >> (quad * 4) & 0xf != 0)
        .fold(0, |mask, quad| mask | if whole { 0xf << (quad * 4) } else { 1 << quad })
}

fn sign_run64(x: u64) -> u32 {
    let folded = if x >> 63 == 1 { !x } else { x };
    if folded == 0 { u32::MAX } else { folded.leading_zeros() }
}

fn sign_run32(x: u32) -> u32 {
    let folded = if x >> 31 == 1 { !x } else { x };
    if folded == 0 { u32::MAX } else { folded.leading_zeros() }
}

/// -1 instead of the width where no bit was found.
fn found(position: u32, width: u32) -> u32 {
    if position == width { u32::MAX } else { position }
}

/// A bit field of a 64-bit value: offset in bits 5:0 of the control, width in bits 22:16.
fn field64(value: u64, control: u32, signed: bool) -> u64 {
    let (offset, width) = (control & 63, control >> 16 & 127);
    if width == 0 {
        return 0;
    }
    let width = width.min(64);
    let shifted = if signed { (value as i64 >> offset) as u64 } else { value >> offset };
    let up = 64 - width;
    if signed { ((shifted << up) as i64 >> up) as u64 } else { shifted << up >> up }
}

/// Bits of the hardware register that `s_getreg` and `s_setreg` name: id in bits 5:0, offset in 10:6, width - 1 in 15:11.
fn hardware_field(imm: u16) -> (u16, u32, u32) {
    (imm & 63, u32::from(imm >> 6 & 31), u32::from(imm >> 11) + 1)
}

/// The id of the MODE register.
const MODE: u16 = 1;

/// Executes a SOP1, SOP2, SOPC or SOPK instruction.
///
/// # Errors
/// Why the instruction is not executed.
pub(crate) fn execute(w: &mut Wave, i: &Instruction, plan: &Plan) -> Result<Next, String> {
    let (a, b) = (w.scalar(i.src[0]), w.scalar(i.src[1]));
    let a64 = |w: &Wave| w.scalar64(i.src[0], false);
    let b64 = |w: &Wave| w.scalar64(i.src[1], false);
    let imm = i32::from(i.mods.imm as i16);
    match i.opcode {
        O::SAddU32 => sum(w, i, a.overflowing_add(b)),
        O::SSubU32 => sum(w, i, a.overflowing_sub(b)),
        O::SAddI32 => {
            let (value, over) = (a as i32).overflowing_add(b as i32);
            sum(w, i, (value as u32, over));
        }
        O::SSubI32 => {
            let (value, over) = (a as i32).overflowing_sub(b as i32);
            sum(w, i, (value as u32, over));
        }
        O::SAddcU32 => {
            let wide = u64::from(a) + u64::from(b) + u64::from(w.scc);
            sum(w, i, (wide as u32, wide >> 32 != 0));
        }
        O::SSubbU32 => {
            let wide = i64::from(a) - i64::from(b) - i64::from(w.scc);
            sum(w, i, (wide as u32, wide < 0));
        }
        O::SMinI32 => sum(w, i, ((a as i32).min(b as i32) as u32, (a as i32) < b as i32)),
        O::SMaxI32 => sum(w, i, ((a as i32).max(b as i32) as u32, a as i32 > b as i32)),
        O::SMinU32 => sum(w, i, (a.min(b), a < b)),
        O::SMaxU32 => sum(w, i, (a.max(b), a > b)),
        O::SCselectB32 => result32(w, i, if w.scc { a } else { b }),
        O::SCselectB64 => {
            let value = if w.scc { a64(w) } else { b64(w) };
            w.set_scalar64(i.dst, value);
        }
        O::SAndB32 => logic32(w, i, a & b),
        O::SOrB32 => logic32(w, i, a | b),
        O::SXorB32 => logic32(w, i, a ^ b),
        O::SAndn2B32 => logic32(w, i, a & !b),
        O::SOrn2B32 => logic32(w, i, a | !b),
        O::SNandB32 => logic32(w, i, !(a & b)),
        O::SNorB32 => logic32(w, i, !(a | b)),
        O::SXnorB32 => logic32(w, i, !(a ^ b)),
        O::SAndB64 => logic64(w, i, a64(w) & b64(w)),
        O::SOrB64 => logic64(w, i, a64(w) | b64(w)),
        O::SXorB64 => logic64(w, i, a64(w) ^ b64(w)),
        O::SAndn2B64 => logic64(w, i, a64(w) & !b64(w)),
        O::SOrn2B64 => logic64(w, i, a64(w) | !b64(w)),
        O::SNandB64 => logic64(w, i, !(a64(w) & b64(w))),
        O::SNorB64 => logic64(w, i, !(a64(w) | b64(w))),
        O::SXnorB64 => logic64(w, i, !(a64(w) ^ b64(w))),
        O::SLshlB32 => logic32(w, i, a << (b & 31)),
        O::SLshrB32 => logic32(w, i, a >> (b & 31)),
        O::SAshrI32 => logic32(w, i, (a as i32 >> (b & 31)) as u32),
        O::SLshlB64 => logic64(w, i, a64(w) << (b & 63)),
        O::SLshrB64 => logic64(w, i, a64(w) >> (b & 63)),
        O::SAshrI64 => {
            let value = w.scalar64(i.src[0], true) as i64 >> (b & 63);
            logic64(w, i, value as u64);
        }
        O::SBfmB32 => result32(w, i, ((1u32 << (a & 31)) - 1) << (b & 31)),
        O::SBfmB64 => w.set_scalar64(i.dst, ((1u64 << (a & 63)) - 1) << (b & 63)),
        O::SMulI32 => result32(w, i, a.wrapping_mul(b)),
        O::SMulHiU32 => result32(w, i, ((u64::from(a) * u64::from(b)) >> 32) as u32),
        O::SMulHiI32 => {
            result32(w, i, ((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32);
        }
        O::SBfeU32 => logic32(w, i, field64(u64::from(a), b & 0x7f_001f, false) as u32),
        O::SBfeI32 => {
            let width = (b >> 16 & 127).min(32);
            let value = if width == 0 {
                0
            } else {
                (((a as i32 >> (b & 31)) as u32) << (32 - width)) as i32 >> (32 - width)
            };
            logic32(w, i, value as u32);
        }
        O::SBfeU64 => logic64(w, i, field64(a64(w), b, false)),
        O::SBfeI64 => logic64(w, i, field64(a64(w), b, true)),
        O::SAbsdiffI32 => logic32(w, i, (a as i32).wrapping_sub(b as i32).unsigned_abs()),
        O::SLshl1AddU32 => shifted_add(w, i, a, b, 1),
        O::SLshl2AddU32 => shifted_add(w, i, a, b, 2),
        O::SLshl3AddU32 => shifted_add(w, i, a, b, 3),
        O::SLshl4AddU32 => shifted_add(w, i, a, b, 4),
        O::SPackLlB32B16 => result32(w, i, a & 0xffff | b << 16),
        O::SPackLhB32B16 => result32(w, i, a & 0xffff | b & 0xffff_0000),
        O::SPackHhB32B16 => result32(w, i, a >> 16 | b & 0xffff_0000),

        O::SMovkI32 => result32(w, i, imm as u32),
        O::SCmovkI32 => {
            if w.scc {
                result32(w, i, imm as u32);
            }
        }
        O::SCmpkEqI32 => w.scc = a as i32 == imm,
        O::SCmpkLgI32 => w.scc = a as i32 != imm,
        O::SCmpkGtI32 => w.scc = a as i32 > imm,
        O::SCmpkGeI32 => w.scc = a as i32 >= imm,
        O::SCmpkLtI32 => w.scc = (a as i32) < imm,
        O::SCmpkLeI32 => w.scc = a as i32 <= imm,
        O::SCmpkEqU32 => w.scc = a == u32::from(i.mods.imm),
        O::SCmpkLgU32 => w.scc = a != u32::from(i.mods.imm),
        O::SCmpkGtU32 => w.scc = a > u32::from(i.mods.imm),
        O::SCmpkGeU32 => w.scc = a >= u32::from(i.mods.imm),
        O::SCmpkLtU32 => w.scc = a < u32::from(i.mods.imm),
        O::SCmpkLeU32 => w.scc = a <= u32::from(i.mods.imm),
        O::SAddkI32 => {
            let (value, over) = (a as i32).overflowing_add(imm);
            sum(w, i, (value as u32, over));
        }
        O::SMulkI32 => result32(w, i, (a as i32).wrapping_mul(imm) as u32),
        O::SGetregB32 => {
            let (id, offset, width) = hardware_field(i.mods.imm);
            if id != MODE {
                return Err(format!(
                    "hardware register {id} is not modelled, only MODE ({MODE}) is"
                ));
            }
            result32(w, i, (u64::from(w.mode.bits) >> offset & ((1 << width) - 1)) as u32);
        }
        O::SSetregB32 | O::SSetregImm32B32 => {
            let (id, offset, width) = hardware_field(i.mods.imm);
            if id != MODE {
                return Err(format!(
                    "hardware register {id} is not modelled, only MODE ({MODE}) is"
                ));
            }
            let mask = (((1u64 << width) - 1) << offset) as u32;
            w.mode.bits = w.mode.bits & !mask | a << offset & mask;
        }
        O::SCallB64 => {
            w.set_scalar64(i.dst, LOAD_BASE.wrapping_add(i.next()));
            return Ok(jump(plan, LOAD_BASE.wrapping_add(i.branch_target())));
        }

        O::SMovB32 => result32(w, i, a),
        O::SMovB64 => {
            let value = a64(w);
            w.set_scalar64(i.dst, value);
        }
        O::SCmovB32 => {
            if w.scc {
                result32(w, i, a);
            }
        }
        O::SCmovB64 => {
            if w.scc {
                let value = a64(w);
                w.set_scalar64(i.dst, value);
            }
        }
        O::SNotB32 => logic32(w, i, !a),
        O::SNotB64 => logic64(w, i, !a64(w)),
        O::SWqmB32 => logic32(w, i, quads(u64::from(a), true) as u32),
        O::SWqmB64 => logic64(w, i, quads(a64(w), true)),
        O::SQuadmaskB32 => logic32(w, i, quads(u64::from(a), false) as u32),
        O::SQuadmaskB64 => logic64(w, i, quads(a64(w), false)),
        O::SBrevB32 => result32(w, i, a.reverse_bits()),
        O::SBrevB64 => {
            let value = a64(w).reverse_bits();
            w.set_scalar64(i.dst, value);
        }
        O::SBcnt0I32B32 => logic32(w, i, a.count_zeros()),
        O::SBcnt0I32B64 => logic32(w, i, a64(w).count_zeros()),
        O::SBcnt1I32B32 => logic32(w, i, a.count_ones()),
        O::SBcnt1I32B64 => logic32(w, i, a64(w).count_ones()),
        O::SFf0I32B32 => result32(w, i, found(a.trailing_ones(), 32)),
        O::SFf0I32B64 => result32(w, i, found(a64(w).trailing_ones(), 64)),
        O::SFf1I32B32 => result32(w, i, found(a.trailing_zeros(), 32)),
        O::SFf1I32B64 => result32(w, i, found(a64(w).trailing_zeros(), 64)),
        O::SFlbitI32B32 => result32(w, i, found(a.leading_zeros(), 32)),
        O::SFlbitI32B64 => result32(w, i, found(a64(w).leading_zeros(), 64)),
        O::SFlbitI32 => result32(w, i, sign_run32(a)),
        O::SFlbitI32I64 => result32(w, i, sign_run64(a64(w))),
        O::SSextI32I8 => result32(w, i, a as i8 as u32),
        O::SSextI32I16 => result32(w, i, a as i16 as u32),
        O::SBitset0B32 => {
            let old = w.scalar(i.dst);
            result32(w, i, old & !(1 << (a & 31)));
        }
        O::SBitset1B32 => {
            let old = w.scalar(i.dst);
            result32(w, i, old | 1 << (a & 31));
        }
        O::SBitset0B64 => {
            let old = w.scalar64(i.dst, false);
            w.set_scalar64(i.dst, old & !(1 << (a & 63)));
        }
        O::SBitset1B64 => {
            let old = w.scalar64(i.dst, false);
            w.set_scalar64(i.dst, old | 1 << (a & 63));
        }
        O::SGetpcB64 => w.set_scalar64(i.dst, LOAD_BASE.wrapping_add(i.next())),
        O::SSetpcB64 => return Ok(jump(plan, a64(w))),
        O::SSwappcB64 => {
            let target = a64(w);
            w.set_scalar64(i.dst, LOAD_BASE.wrapping_add(i.next()));
            return Ok(jump(plan, target));
        }
        O::SAndSaveexecB64 => save_exec(w, i, |s, e| s & e),
        O::SOrSaveexecB64 => save_exec(w, i, |s, e| s | e),
        O::SXorSaveexecB64 => save_exec(w, i, |s, e| s ^ e),
        O::SAndn2SaveexecB64 => save_exec(w, i, |s, e| s & !e),
        O::SOrn2SaveexecB64 => save_exec(w, i, |s, e| s | !e),
        O::SNandSaveexecB64 => save_exec(w, i, |s, e| !(s & e)),
        O::SNorSaveexecB64 => save_exec(w, i, |s, e| !(s | e)),
        O::SXnorSaveexecB64 => save_exec(w, i, |s, e| !(s ^ e)),
        O::SAndn1SaveexecB64 => save_exec(w, i, |s, e| !s & e),
        O::SOrn1SaveexecB64 => save_exec(w, i, |s, e| !s | e),
        O::SAndn1WrexecB64 => write_exec(w, i, |s, e| !s & e),
        O::SAndn2WrexecB64 => write_exec(w, i, |s, e| s & !e),
        O::SAbsI32 => logic32(w, i, (a as i32).unsigned_abs()),
        O::SBitreplicateB64B32 => {
            let doubled = (0..32).fold(0u64, |x, n| x | (u64::from(a >> n & 1) * (3 << (2 * n))));
            w.set_scalar64(i.dst, doubled);
        }
        O::SMovrelsB32 => {
            let first = relative(w, i.src[0])?;
            result32(w, i, w.s[first]);
        }
        O::SMovrelsB64 => {
            let first = relative(w, i.src[0])?;
            w.set_scalar64(i.dst, w.pair(first));
        }
        O::SMovreldB32 => {
            let first = relative(w, i.dst)?;
            w.s[first] = a;
        }
        O::SMovreldB64 => {
            let first = relative(w, i.dst)?;
            let value = a64(w);
            w.set_pair(first, value);
        }
        // M0 holds the index in bits 7:0 and which operands it applies to in bits 15:12.
        O::SSetGprIdxOn => {
            w.relative = true;
            w.s[number::M0] = a & 0xff | u32::from(i.mods.imm & 0xf) << 12;
        }
        O::SSetGprIdxIdx => w.s[number::M0] = w.s[number::M0] & !0xff | a & 0xff,

        O::SCmpEqI32 | O::SCmpEqU32 => w.scc = a == b,
        O::SCmpLgI32 | O::SCmpLgU32 => w.scc = a != b,
        O::SCmpGtI32 => w.scc = a as i32 > b as i32,
        O::SCmpGeI32 => w.scc = a as i32 >= b as i32,
        O::SCmpLtI32 => w.scc = (a as i32) < b as i32,
        O::SCmpLeI32 => w.scc = a as i32 <= b as i32,
        O::SCmpGtU32 => w.scc = a > b,
        O::SCmpGeU32 => w.scc = a >= b,
        O::SCmpLtU32 => w.scc = a < b,
        O::SCmpLeU32 => w.scc = a <= b,
        O::SBitcmp0B32 => w.scc = a >> (b & 31) & 1 == 0,
        O::SBitcmp1B32 => w.scc = a >> (b & 31) & 1 == 1,
        O::SBitcmp0B64 => w.scc = a64(w) >> (b & 63) & 1 == 0,
        O::SBitcmp1B64 => w.scc = a64(w) >> (b & 63) & 1 == 1,
        O::SCmpEqU64 => w.scc = a64(w) == b64(w),
        O::SCmpLgU64 => w.scc = a64(w) != b64(w),
        _ => return Err("the scalar opcode has no execution semantics here".to_owned()),
    }
    Ok(Next::Through)
}

fn shifted_add(w: &mut Wave, i: &Instruction, a: u32, b: u32, shift: u32) {
    let wide = (u64::from(a) << shift) + u64::from(b);
    sum(w, i, (wide as u32, wide >> 32 != 0));
}

/// The number of the scalar register that lies M0 above an operand's.
fn relative(w: &Wave, operand: Operand) -> Result<usize, String> {
    let index = w.s[number::M0] as usize;
    match operand {
        Operand::Sgpr(span)
            if usize::from(span.first) + index + usize::from(span.dwords) <= 102 =>
        {
            Ok(usize::from(span.first) + index)
        }
        _ => Err(format!("M0 = {index} moves the operand out of the scalar registers")),
    }
}

/// Goes to an absolute address.
fn jump(plan: &Plan, address: u64) -> Next {
    match plan.program.index_of(address.wrapping_sub(LOAD_BASE)) {
        Some(index) => Next::To(index),
        None => Next::Lost(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_fields_reach_the_top() {
        assert_eq!(field64(0xffff_0000_0000_0000, 48 | 16 << 16, false), 0xffff);
        assert_eq!(field64(0xffff_0000_0000_0000, 48 | 16 << 16, true), u64::MAX);
        assert_eq!(field64(0x1234, 4 | 8 << 16, false), 0x23);
        assert_eq!(field64(0x1234, 4, false), 0);
    }

    #[test]
    fn quads_widen_and_narrow() {
        assert_eq!(quads(0x0100_0010, true), 0x0f00_00f0);
        assert_eq!(quads(0x0100_0010, false), 0b0100_0010);
    }

    #[test]
    fn hardware_fields_split() {
        // hwreg(HW_REG_MODE, 4, 2): the single precision denormal mode.
        assert_eq!(hardware_field(1 | 4 << 6 | 1 << 11), (MODE, 4, 2));
    }
}
