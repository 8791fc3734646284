//! LDS instructions.

use super::counters;
use super::group::Group;
use super::lds::{aligned, alignment, lanes, read, read_registers, update, write, write_registers};
use super::ops::{LdsOp, Part, Width};
use super::wave::{Lanes, Wave, number};
use crate::check::waits::{Counter, Op, Touch};
use crate::isa::Instruction;

/// A loaded value as it goes to a register that held `old`.
pub(crate) fn extend(value: u32, width: Width, old: u32) -> u32 {
    let bits = width.bytes * 8;
    let value = if width.bytes < 4 {
        let top = value << (32 - bits);
        if width.signed { (top as i32 >> (32 - bits)) as u32 } else { top >> (32 - bits) }
    } else {
        value
    };
    match width.part {
        Part::Whole => value,
        Part::Low => value & 0xffff | old & 0xffff_0000,
        Part::High => value << 16 | old & 0xffff,
    }
}

/// A register's value as a store takes it.
pub(crate) fn stored(value: u32, width: Width) -> u32 {
    if width.part == Part::High { value >> 16 } else { value }
}

fn addresses(w: &Wave, inst: &Instruction, offset: u32) -> Lanes {
    let mut at = w.vector(inst.src[0]).map_or([0; 64], |register| w.v[register]);
    for address in &mut at {
        *address = address.wrapping_add(offset);
    }
    at
}

/// A lane's value of an operand of one or two registers.
fn operand64(w: &Wave, inst: &Instruction, n: usize, lane: usize, bytes: u32) -> u64 {
    let Some(register) = w.vector(inst.src[n]) else { return 0 };
    let low = u64::from(w.v[register][lane]);
    if bytes == 8 { low | u64::from(w.v[register + 1][lane]) << 32 } else { low }
}

/// Executes an LDS instruction.
///
/// # Errors
/// Why it is not executed.
pub(crate) fn execute<const C: bool>(
    g: &mut Group<'_>,
    w: &mut Wave,
    index: usize,
    op: LdsOp,
) -> Result<(), String> {
    let plan = g.plan;
    let inst = &plan.steps[index].inst;
    let exec = w.exec();
    let offset = inst.mods.offset as u32;
    let dst = w.vector(inst.dst).unwrap_or(0);
    w.written = exec;
    let mut touch: Option<Touch> = None;
    match op {
        LdsOp::Nop => return Ok(()),
        LdsOp::Read(width) if width.bytes >= 4 => {
            let at = addresses(w, inst, offset);
            read_registers::<C>(g, w, index, &at, dst, width.bytes);
            touch = Some(touched(at, exec, width.bytes, None, false));
        }
        LdsOp::Write(width) if width.bytes >= 4 => {
            let at = addresses(w, inst, offset);
            let data = w.vector(inst.src[1]).unwrap_or(0);
            write_registers::<C>(g, w, index, &at, data, width.bytes);
            touch = Some(touched(at, exec, width.bytes, None, true));
        }
        LdsOp::Read(width) => {
            let at = addresses(w, inst, offset);
            for lane in lanes(exec) {
                if C {
                    aligned(g, index, lane, u64::from(at[lane]), alignment(width.bytes));
                }
                let words = read::<C>(g, w, index, lane, at[lane], width.bytes);
                let place = &mut w.v[dst][lane];
                *place = extend(words[0], width, *place);
            }
            touch = Some(touched(at, exec, width.bytes, None, false));
        }
        LdsOp::Write(width) => {
            let at = addresses(w, inst, offset);
            let data = w.vector(inst.src[1]).unwrap_or(0);
            for lane in lanes(exec) {
                if C {
                    aligned(g, index, lane, u64::from(at[lane]), alignment(width.bytes));
                }
                let mut words = [0u32; 4];
                for (n, word) in words.iter_mut().enumerate().take(width.registers() as usize) {
                    *word = stored(w.v[data + n][lane], width);
                }
                write::<C>(g, w, index, lane, at[lane], &words, width.bytes);
            }
            touch = Some(touched(at, exec, width.bytes, None, true));
        }
        LdsOp::Read2 { bytes, stride } => {
            let (first, second) = two_offsets(inst, stride);
            let at = addresses(w, inst, first);
            let distance = second.wrapping_sub(first);
            let beyond = at.map(|at| at.wrapping_add(distance));
            read_registers::<C>(g, w, index, &at, dst, bytes);
            read_registers::<C>(g, w, index, &beyond, dst + (bytes / 4) as usize, bytes);
            touch = Some(touched(at, exec, bytes, Some(distance), false));
        }
        LdsOp::Write2 { bytes, stride } => {
            let (first, second) = two_offsets(inst, stride);
            let at = addresses(w, inst, first);
            let distance = second.wrapping_sub(first);
            let beyond = at.map(|at| at.wrapping_add(distance));
            for (n, place) in [(1, &at), (2, &beyond)] {
                let data = w.vector(inst.src[n]).unwrap_or(0);
                write_registers::<C>(g, w, index, place, data, bytes);
            }
            touch = Some(touched(at, exec, bytes, Some(distance), true));
        }
        LdsOp::Atomic { op, bytes, returns } => {
            let at = addresses(w, inst, offset);
            for lane in lanes(exec) {
                if C {
                    aligned(g, index, lane, u64::from(at[lane]), u64::from(bytes));
                }
                let first = operand64(w, inst, 1, lane, bytes);
                let second =
                    if op.operands() == 2 { operand64(w, inst, 2, lane, bytes) } else { 0 };
                let old = update::<C>(g, w, index, lane, at[lane], op, bytes, (first, second));
                if returns {
                    w.v[dst][lane] = old as u32;
                    if bytes == 8 {
                        w.v[dst + 1][lane] = (old >> 32) as u32;
                    }
                }
            }
            touch = Some(touched(at, exec, bytes, None, true));
        }
        LdsOp::Transpose { bits } => {
            let at = addresses(w, inst, offset);
            transpose::<C>(g, w, index, &at, dst, bits);
            let bytes = if bits == 6 { 12 } else { 8 };
            touch = Some(touched(at, exec, bytes, None, false));
        }
        LdsOp::ReadAddTid | LdsOp::WriteAddTid => {
            let base = w.s[number::M0].wrapping_add(offset);
            let at: Lanes = std::array::from_fn(|lane| base.wrapping_add(4 * lane as u32));
            let data = w.vector(inst.src[0]).unwrap_or(0);
            for lane in lanes(exec) {
                if op == LdsOp::ReadAddTid {
                    w.v[dst][lane] = read::<C>(g, w, index, lane, at[lane], 4)[0];
                } else {
                    let words = [w.v[data][lane], 0, 0, 0];
                    write::<C>(g, w, index, lane, at[lane], &words, 4);
                }
            }
            touch = Some(touched(at, exec, 4, None, op == LdsOp::WriteAddTid));
        }
        LdsOp::Bpermute => {
            let at = addresses(w, inst, offset);
            let data = w.vector(inst.src[1]).map_or([0; 64], |register| w.v[register]);
            for lane in lanes(exec) {
                let from = (at[lane] / 4 % 64) as usize;
                w.v[dst][lane] = if exec >> from & 1 == 1 { data[from] } else { 0 };
            }
        }
        LdsOp::Permute => {
            let at = addresses(w, inst, offset);
            let data = w.vector(inst.src[1]).map_or([0; 64], |register| w.v[register]);
            let mut moved = [0u32; 64];
            // Of several lanes that send to one, the highest wins.
            for lane in lanes(exec) {
                moved[(at[lane] / 4 % 64) as usize] = data[lane];
            }
            for lane in lanes(exec) {
                w.v[dst][lane] = moved[lane];
            }
        }
        LdsOp::Swizzle => {
            let data = w.vector(inst.src[0]).map_or([0; 64], |register| w.v[register]);
            for lane in lanes(exec) {
                let from = swizzle_source(offset, lane)?;
                w.v[dst][lane] = if exec >> from & 1 == 1 { data[from] } else { 0 };
            }
        }
    }
    if g.count_memory
        && let Some(touch) = &touch
    {
        let (arch, access) = (plan.arch, &mut g.tally.access[index]);
        let bytes = touch.dwords * 4;
        access.conflict_cycles +=
            counters::conflict_cycles(arch, bytes, touch.write, &touch.at, touch.lanes);
        if let Some(distance) = touch.second {
            let at = touch.at.map(|at| at.wrapping_add(distance));
            access.conflict_cycles +=
                counters::conflict_cycles(arch, bytes, touch.write, &at, touch.lanes);
        }
    }
    if C && let Some(track) = &mut w.track {
        let vector =
            plan.steps[index].uses.writes.first().map_or((0, 0), |run| (run.first, run.count));
        let lds = touch.map(Box::new);
        let op = Op { step: index as u32, in_order: true, vector, scalar: 0, lds };
        track.waits.issue(Counter::Lgkm, op, &mut g.done);
    }
    Ok(())
}

fn touched(at: Lanes, lanes: u64, bytes: u32, second: Option<u32>, write: bool) -> Touch {
    Touch { at, lanes, dwords: bytes.div_ceil(4), second, write }
}

fn two_offsets(inst: &Instruction, stride: u32) -> (u32, u32) {
    (u32::from(inst.mods.offset0) * stride, u32::from(inst.mods.offset1) * stride)
}

/// The lane that each lane reads under `ds_swizzle`'s two plain modes: quad permutation where bit 15 of the offset is set,
/// otherwise AND, OR and XOR masks within 32 lanes.
fn swizzle_source(offset: u32, lane: usize) -> Result<usize, String> {
    if offset >= 0xc000 {
        return Err(format!("swizzle offset {offset:#x} asks for a rotation or an FFT order"));
    }
    if offset & 0x8000 != 0 {
        return Ok((lane & !3) + (offset >> (2 * (lane & 3)) & 3) as usize);
    }
    let (and, or, xor) = (offset & 31, offset >> 5 & 31, offset >> 10 & 31);
    Ok((lane & 32) + (((lane as u32 & 31 & and) | or) ^ xor) as usize)
}

/// A read that hands each group of 16 lanes the transpose of what it loaded.
///
/// The lanes of a group load 64 bits each (96 for 6-bit elements), together a matrix of 16 columns whose rows lie in
/// consecutive lanes; lane `l` of the group receives column `l`. Known for 16-bit elements; the other widths follow the same
/// rule.
fn transpose<const C: bool>(
    g: &mut Group<'_>,
    w: &mut Wave,
    index: usize,
    at: &Lanes,
    dst: usize,
    bits: u32,
) {
    let count = if bits == 6 { 12 } else { 8 };
    let exec = w.exec();
    let mut loaded = [0u128; 64];
    for lane in lanes(exec) {
        if C {
            aligned(g, index, lane, u64::from(at[lane]), alignment(count));
        }
        let words = read::<C>(g, w, index, lane, at[lane], count);
        loaded[lane] = words.iter().rev().fold(0, |sum, &word| sum << 32 | u128::from(word));
    }
    let elements = count * 8 / bits;
    // Lanes that together hold one row of 16 elements.
    let lanes_a_row = 16 / elements;
    for lane in lanes(exec) {
        let (group, column) = (lane & !15, lane as u32 & 15);
        let mut result = 0u128;
        for row in 0..elements {
            let from = group + (row * lanes_a_row + column / elements) as usize;
            let element = loaded[from] >> (column % elements * bits) & ((1 << bits) - 1);
            result |= element << (row * bits);
        }
        for n in 0..(count / 4) as usize {
            w.v[dst + n][lane] = (result >> (32 * n)) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swizzles_stay_in_their_half() {
        // swizzle(SWAP, 1), swizzle(BROADCAST, 32, 0), quad_perm(3, 2, 1, 0).
        assert_eq!(swizzle_source(0x041f, 5).unwrap(), 4);
        assert_eq!(swizzle_source(0x0000, 37).unwrap(), 32);
        assert_eq!(swizzle_source(0x801b, 6).unwrap(), 5);
        assert!(swizzle_source(0xe000, 0).is_err());
    }

    #[test]
    fn small_loads_extend() {
        let width = |bytes, signed, part| Width { bytes, signed, part };
        assert_eq!(extend(0x1234_80ff, width(1, true, Part::Whole), 0), 0xffff_ffff);
        assert_eq!(extend(0x1234_80ff, width(2, false, Part::Whole), 0), 0x80ff);
        assert_eq!(extend(0x80, width(1, true, Part::Low), 0xabcd_0000), 0xabcd_ff80);
        assert_eq!(extend(0x5678, width(2, false, Part::High), 0xabcd), 0x5678_abcd);
        assert_eq!(stored(0x5678_abcd, width(2, false, Part::High)), 0x5678);
    }
}
