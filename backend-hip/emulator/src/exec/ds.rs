//! LDS instructions.

use super::atomic::{self, AtomicOp};
use super::counters;
use super::group::{Group, dwords};
use super::ops::{LdsOp, Part, Width};
use super::wave::{Lanes, Wave, number};
use crate::check::FindingKind;
use crate::check::waits::{Counter, Op, Touch};
use crate::isa::Instruction;

/// The lanes of a mask, in rising order.
pub(crate) fn lanes(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let lane = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            lane
        })
    })
}

/// Reads `count` bytes of LDS (at most 16) for one lane. Bytes out of bounds read as zero.
pub(crate) fn read<const C: bool>(
    g: &mut Group<'_>,
    w: &Wave,
    index: usize,
    lane: usize,
    at: u32,
    count: u32,
) -> [u32; 4] {
    let (step, lane) = (index as u32, lane as u32);
    if !g.lds.holds(at, count) {
        g.outside_lds(step, lane, at, count);
        let mut words = [0u32; 4];
        for (n, word) in words.iter_mut().enumerate().take(count.div_ceil(4) as usize) {
            let start = at.wrapping_add(4 * n as u32);
            if g.lds.holds(start, count.min(4)) {
                *word = g.lds.load(start);
            }
        }
        return words;
    }
    if C {
        for (dword, bytes) in dwords(at, count) {
            let Some(shadow) = &mut g.lds.shadow else { break };
            let conflict = shadow.read(dword, bytes, w.id, step);
            let initialised = shadow.is_initialised(dword, bytes);
            if let Some(conflict) = conflict {
                g.conflict(step, lane, dword as u32 * 4, conflict);
            }
            if !initialised && g.checks.uninitialised {
                let place = u64::from(at);
                g.sink.add(FindingKind::UninitialisedLds, step, Some(lane), Some(place), || {
                    format!("reads LDS dword {dword}, which nothing wrote")
                });
            }
        }
    }
    let mut words = [0u32; 4];
    for (n, word) in words.iter_mut().enumerate().take(count.div_ceil(4) as usize) {
        *word = g.lds.load(at + 4 * n as u32);
    }
    words
}

/// Writes `count` bytes (at most 16) to LDS for one lane. Accesses out of bounds are dropped.
pub(crate) fn write<const C: bool>(
    g: &mut Group<'_>,
    w: &Wave,
    index: usize,
    lane: usize,
    at: u32,
    words: &[u32; 4],
    count: u32,
) {
    let (step, lane) = (index as u32, lane as u32);
    if !g.lds.holds(at, count) {
        g.outside_lds(step, lane, at, count);
        return;
    }
    if C {
        mark_written(g, w, step, lane, at, count, false);
    }
    let mut left = count;
    for (n, &word) in words.iter().enumerate() {
        if left == 0 {
            break;
        }
        g.lds.store(at + 4 * n as u32, word, left.min(4));
        left -= left.min(4);
    }
}

fn mark_written(
    g: &mut Group<'_>,
    w: &Wave,
    step: u32,
    lane: u32,
    at: u32,
    count: u32,
    atomic: bool,
) {
    for (dword, bytes) in dwords(at, count) {
        let Some(shadow) = &mut g.lds.shadow else { return };
        if let Some(conflict) = shadow.write(dword, bytes, w.id, step, atomic) {
            g.conflict(step, lane, dword as u32 * 4, conflict);
        }
    }
}

/// Whether every active lane's access of whole dwords lies inside LDS at its natural alignment.
#[inline]
fn all_regular(g: &Group<'_>, at: &Lanes, exec: u64, bytes: u32) -> bool {
    let (mut top, mut bits) = (0u32, 0u32);
    for (lane, &address) in at.iter().enumerate() {
        let active = ((exec >> lane & 1) as u32).wrapping_neg();
        top = top.max(address & active);
        bits |= address & active;
    }
    u64::from(bits) & (alignment(bytes) - 1) == 0 && g.lds.holds(top, bytes)
}

/// Reads `bytes` bytes, whole dwords, for every active lane into the registers from `dst` on.
#[inline]
fn read_registers<const C: bool>(
    g: &mut Group<'_>,
    w: &mut Wave,
    index: usize,
    at: &Lanes,
    dst: usize,
    bytes: u32,
) {
    let exec = w.exec();
    let count = (bytes / 4) as usize;
    let mut regular = all_regular(g, at, exec, bytes);
    if C && regular
        && let Some(shadow) = &mut g.lds.shadow
    {
        regular = shadow.is_settled();
        for lane in lanes(if regular { exec } else { 0 }) {
            let first = (at[lane] / 4) as usize;
            for dword in first..first + count {
                regular &= shadow.read_whole(dword, w.id, index as u32);
            }
        }
    }
    if regular {
        let words = &g.lds.words;
        for (n, register) in w.v[dst..dst + count].iter_mut().enumerate() {
            for lane in lanes(exec) {
                register[lane] = words[(at[lane] / 4) as usize + n];
            }
        }
        return;
    }
    for lane in lanes(exec) {
        if C {
            aligned(g, index, lane, u64::from(at[lane]), alignment(bytes));
        }
        let words = read::<C>(g, w, index, lane, at[lane], bytes);
        for (n, &word) in words.iter().enumerate().take(count) {
            w.v[dst + n][lane] = word;
        }
    }
}

/// Writes `bytes` bytes, whole dwords, for every active lane from the registers from `data` on.
#[inline]
fn write_registers<const C: bool>(
    g: &mut Group<'_>,
    w: &Wave,
    index: usize,
    at: &Lanes,
    data: usize,
    bytes: u32,
) {
    let exec = w.exec();
    let count = (bytes / 4) as usize;
    let mut regular = all_regular(g, at, exec, bytes);
    if C && regular
        && let Some(shadow) = &mut g.lds.shadow
    {
        regular = shadow.is_settled();
        for lane in lanes(if regular { exec } else { 0 }) {
            let first = (at[lane] / 4) as usize;
            for dword in first..first + count {
                regular &= shadow.write_whole(dword, w.id, index as u32);
            }
        }
    }
    if regular {
        let words = &mut g.lds.words;
        for lane in lanes(exec) {
            let first = (at[lane] / 4) as usize;
            for (n, word) in words[first..first + count].iter_mut().enumerate() {
                *word = w.v[data + n][lane];
            }
        }
        return;
    }
    for lane in lanes(exec) {
        if C {
            aligned(g, index, lane, u64::from(at[lane]), alignment(bytes));
        }
        let mut words = [0u32; 4];
        for (n, word) in words.iter_mut().enumerate().take(count) {
            *word = w.v[data + n][lane];
        }
        write::<C>(g, w, index, lane, at[lane], &words, bytes);
    }
}

/// An atomic on LDS; returns the old value.
#[allow(clippy::too_many_arguments, reason = "an atomic's operands, each of a different kind")]
pub(crate) fn update<const C: bool>(
    g: &mut Group<'_>,
    w: &Wave,
    index: usize,
    lane: usize,
    at: u32,
    op: AtomicOp,
    bytes: u32,
    operands: (u64, u64),
) -> u64 {
    if !g.lds.holds(at, bytes) {
        g.outside_lds(index as u32, lane as u32, at, bytes);
        return 0;
    }
    if C {
        let initialised = g
            .lds
            .shadow
            .as_ref()
            .is_none_or(|s| dwords(at, bytes).all(|(d, m)| s.is_initialised(d, m)));
        if !initialised && g.checks.uninitialised && op != AtomicOp::Swap {
            let place = Some(u64::from(at));
            let (step, lane) = (index as u32, Some(lane as u32));
            g.sink.add(FindingKind::UninitialisedLds, step, lane, place, || {
                format!("updates LDS byte {at}, which nothing wrote")
            });
        }
        mark_written(g, w, index as u32, lane as u32, at, bytes, true);
    }
    let mut old = u64::from(g.lds.load(at));
    if bytes == 8 {
        old |= u64::from(g.lds.load(at + 4)) << 32;
    }
    let new = atomic::apply(op, bytes, old, operands.0, operands.1);
    g.lds.store(at, new as u32, 4);
    if bytes == 8 {
        g.lds.store(at + 4, (new >> 32) as u32, 4);
    }
    old
}

/// Reports an address that is not a multiple of the access's natural alignment.
pub(crate) fn aligned(g: &mut Group<'_>, index: usize, lane: usize, at: u64, alignment: u64) {
    if g.checks.alignment && !at.is_multiple_of(alignment) {
        g.sink.add(FindingKind::Misaligned, index as u32, Some(lane as u32), Some(at), || {
            format!("the address is not a multiple of {alignment}")
        });
    }
}

/// The natural alignment of an LDS access; 12-byte accesses need dwords.
fn alignment(bytes: u32) -> u64 {
    if bytes == 12 { 4 } else { u64::from(bytes) }
}

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

    #[test]
    fn lanes_come_in_order() {
        assert_eq!(lanes(1 << 63 | 0b101).collect::<Vec<_>>(), [0, 2, 63]);
    }
}
