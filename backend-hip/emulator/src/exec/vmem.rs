//! Vector memory: buffer, flat, global and scratch instructions, and loads that go to LDS.

use super::address::{Access, Place, Range, addresses, in_range};
use super::atomic::{self, AtomicOp};
use super::counters;
use super::ds::{extend, stored};
use super::group::Group;
use super::lds::{self, aligned, lanes};
use super::ops::{MemoryOp, Width};
use super::wave::{Wave, number};
use crate::check::FindingKind;
use crate::check::races::Flight;
use crate::check::waits::{Counter, Op, Touch};
use crate::isa::{Encoding, Instruction};

/// Executes a vector memory instruction.
///
/// # Errors
/// Why it is not executed.
pub(crate) fn execute<const C: bool>(
    g: &mut Group<'_>,
    w: &mut Wave,
    index: usize,
    op: MemoryOp,
) -> Result<(), String> {
    let plan = g.plan;
    let inst = &plan.steps[index].inst;
    if op == MemoryOp::Maintenance {
        return Ok(());
    }
    let exec = w.exec();
    w.written = exec;
    w.hollow = [0; 4];
    let access = addresses(w, inst)?;
    let mut touch = None;
    match op {
        MemoryOp::Maintenance => {}
        MemoryOp::Load(width) => {
            let dst = w.vector(inst.dst).unwrap_or(0);
            for lane in lanes(exec) {
                let words = load::<C>(g, w, index, &access, lane, width);
                for (n, &word) in words.iter().enumerate().take(width.registers() as usize) {
                    let place = &mut w.v[dst + n][lane];
                    *place = extend(word, width, *place);
                }
            }
        }
        MemoryOp::LoadToLds(width) => {
            // The destination is M0 plus the instruction's offset plus the lane's slot; small elements are assumed to take
            // a dword each.
            let slot = width.registers() * 4;
            let base = w.s[number::M0].wrapping_add(inst.mods.offset as u32);
            let at = std::array::from_fn(|lane| base.wrapping_add(lane as u32 * slot));
            for lane in lanes(exec) {
                let mut words = load::<C>(g, w, index, &access, lane, width);
                if width.bytes < 4 {
                    words[0] = extend(words[0], width, 0);
                }
                lds::write::<C>(g, w, index, lane, at[lane], &words, slot);
            }
            touch = Some(Touch {
                at,
                lanes: exec,
                dwords: width.registers(),
                second: None,
                write: true,
            });
        }
        MemoryOp::Store(width) => {
            let data = w.vector(data_operand(inst)).unwrap_or(0);
            for lane in lanes(exec) {
                let mut words = [0u32; 4];
                for (n, word) in words.iter_mut().enumerate().take(width.registers() as usize) {
                    *word = stored(w.v[data + n][lane], width);
                }
                store::<C>(g, w, index, &access, lane, &words, data, width);
            }
        }
        MemoryOp::Atomic { op, bytes } => {
            let data = w.vector(data_operand(inst)).unwrap_or(0);
            let dst = w.vector(inst.dst);
            for lane in lanes(exec) {
                let old = update::<C>(g, w, index, &access, lane, (op, bytes), data);
                if let Some(dst) = dst {
                    w.v[dst][lane] = old as u32;
                    if bytes == 8 {
                        w.v[dst + 1][lane] = (old >> 32) as u32;
                    }
                }
            }
        }
    }
    if g.count_memory {
        count_lines(g, index, &access, exec, op);
    }
    if C {
        register(g, w, index, touch);
    }
    Ok(())
}

/// Enters the operation into the counters that cover it, and marks LDS that is being loaded.
fn register(g: &mut Group<'_>, w: &mut Wave, index: usize, touch: Option<Touch>) {
    let plan = g.plan;
    let step = &plan.steps[index];
    let flat = step.inst.encoding == Encoding::Flat;
    let vector = step.uses.writes.first().map_or((0, 0), |run| (run.first, run.count));
    if let (Some(touch), Some(shadow)) = (&touch, &mut g.lds.shadow) {
        touch.for_each(|dword| shadow.launch(dword, Flight::Dma, w.id, index as u32));
    }
    let Some(track) = &mut w.track else { return };
    let op =
        Op { step: index as u32, in_order: !flat, vector, scalar: 0, lds: touch.map(Box::new) };
    if flat {
        track.waits.issue(Counter::Lgkm, op.clone(), &mut g.done);
    }
    track.waits.issue(Counter::Vm, op, &mut g.done);
}

fn count_lines(g: &mut Group<'_>, index: usize, access: &Access, exec: u64, op: MemoryOp) {
    let bytes = match op {
        MemoryOp::Load(width) | MemoryOp::LoadToLds(width) | MemoryOp::Store(width) => width.bytes,
        MemoryOp::Atomic { bytes, .. } => bytes,
        MemoryOp::Maintenance => return,
    };
    let (mut at, mut reached) = ([0u64; 64], 0u64);
    for lane in lanes(exec) {
        let inside =
            access.buffer.as_ref().is_none_or(|b| b.check(lane, 0, bytes.min(4)) != Range::Outside);
        if let (Place::Global(address), true) = (access.places[lane], inside) {
            at[lane] = address;
            reached |= 1 << lane;
        }
    }
    g.tally.access[index].cache_lines += counters::cache_lines(&at, reached, u64::from(bytes));
}

/// The operand that holds the data of a store or an atomic.
fn data_operand(inst: &Instruction) -> crate::isa::Operand {
    if inst.encoding == Encoding::Mubuf { inst.src[3] } else { inst.src[2] }
}

fn load<const C: bool>(
    g: &mut Group<'_>,
    w: &mut Wave,
    index: usize,
    access: &Access,
    lane: usize,
    width: Width,
) -> [u32; 4] {
    let mut words = [0u32; 4];
    match access.places[lane] {
        Place::Lds(at) => lds::read::<C>(g, w, index, lane, at, width.bytes),
        Place::Scratch(at) => {
            scratch_load::<C>(g, w, index, lane, at, width, &mut words);
            words
        }
        Place::Global(address) => {
            let count = width.bytes.min(4);
            if C {
                aligned(g, index, lane, address, u64::from(count));
            }
            if access.buffer.is_none() {
                // One allocation must hold the whole access.
                global_load::<C>(g, index, lane, address, width.bytes, &mut words);
                return words;
            }
            for n in 0..width.registers() {
                if in_range(g, index, access, lane, 4 * n, count) {
                    let mut word = [0u32; 4];
                    global_load::<C>(g, index, lane, address + u64::from(4 * n), count, &mut word);
                    words[n as usize] = word[0];
                }
            }
            words
        }
    }
}

#[inline]
fn global_load<const C: bool>(
    g: &mut Group<'_>,
    index: usize,
    lane: usize,
    address: u64,
    count: u32,
    words: &mut [u32; 4],
) {
    let memory = g.memory;
    let Some(found) = memory.find(address, u64::from(count), &mut g.hint) else {
        g.outside_memory(index as u32, Some(lane as u32), address, u64::from(count));
        return;
    };
    let offset = address - found.base;
    if C && g.checks.uninitialised && !found.is_initialised(offset, u64::from(count)) {
        let (step, lane) = (index as u32, Some(lane as u32));
        g.sink.add(FindingKind::UninitialisedMemory, step, lane, Some(address), || {
            format!("reads byte {offset} of `{}`, which nothing wrote", found.name)
        });
    }
    if let Some(traffic) = g.tally.traffic.get_mut(g.hint) {
        traffic.read += u64::from(count);
    }
    if count < 4 {
        words[0] = found.load_small(offset, u64::from(count));
        return;
    }
    for (n, word) in words.iter_mut().enumerate().take((count / 4) as usize) {
        *word = found.load32(offset + 4 * n as u64);
    }
}

#[allow(clippy::too_many_arguments, reason = "a store's place and data, each of a different kind")]
fn store<const C: bool>(
    g: &mut Group<'_>,
    w: &mut Wave,
    index: usize,
    access: &Access,
    lane: usize,
    words: &[u32; 4],
    data: usize,
    width: Width,
) {
    match access.places[lane] {
        Place::Lds(at) => lds::write::<C>(g, w, index, lane, at, words, width.bytes),
        Place::Scratch(at) => scratch_store::<C>(g, w, index, lane, at, words, data, width),
        Place::Global(address) => {
            let count = width.bytes.min(4);
            if C {
                aligned(g, index, lane, address, u64::from(count));
            }
            if access.buffer.is_none() {
                global_store(g, index, lane, address, words, width.bytes);
                return;
            }
            for n in 0..width.registers() {
                if in_range(g, index, access, lane, 4 * n, count) {
                    let word = [words[n as usize], 0, 0, 0];
                    global_store(g, index, lane, address + u64::from(4 * n), &word, count);
                }
            }
        }
    }
}

fn global_store(
    g: &mut Group<'_>,
    index: usize,
    lane: usize,
    address: u64,
    words: &[u32; 4],
    count: u32,
) {
    let memory = g.memory;
    let Some(found) = memory.find(address, u64::from(count), &mut g.hint) else {
        g.outside_memory(index as u32, Some(lane as u32), address, u64::from(count));
        return;
    };
    if !found.is_writable() {
        let (step, lane) = (index as u32, Some(lane as u32));
        g.sink.add(FindingKind::ReadOnly, step, lane, Some(address), || {
            format!("stores into `{}`, which is read-only", found.name)
        });
        return;
    }
    if let Some(traffic) = g.tally.traffic.get_mut(g.hint) {
        traffic.written += u64::from(count);
    }
    let offset = address - found.base;
    let mut left = u64::from(count);
    for (n, &word) in words.iter().enumerate() {
        if left == 0 {
            return;
        }
        found.store(offset + 4 * n as u64, word, left.min(4));
        left -= left.min(4);
    }
}

/// Whether `count` bytes at a lane's scratch offset exist; reports them if not.
fn in_scratch(g: &mut Group<'_>, w: &Wave, index: usize, lane: usize, at: u32, count: u32) -> bool {
    let limit = w.scratch_bytes;
    let inside = u64::from(at) + u64::from(count) <= u64::from(limit);
    if !inside {
        let (step, lane) = (index as u32, Some(lane as u32));
        g.sink.add(FindingKind::OutOfBounds, step, lane, Some(u64::from(at)), || {
            format!("{count} bytes at scratch offset {at} of {limit} bytes a lane")
        });
    }
    inside
}

fn scratch_load<const C: bool>(
    g: &mut Group<'_>,
    w: &mut Wave,
    index: usize,
    lane: usize,
    at: u32,
    width: Width,
    words: &mut [u32; 4],
) {
    if !in_scratch(g, w, index, lane, at, width.bytes) {
        return;
    }
    let base = lane * w.scratch_bytes.div_ceil(4) as usize;
    for n in 0..width.bytes {
        let (dword, byte) = (base + ((at + n) / 4) as usize, (at + n) % 4);
        let value = w.scratch[dword] >> (8 * byte) & 0xff;
        words[(n / 4) as usize] |= value << (8 * (n % 4));
        if C && w.scratch_initialised[dword] >> byte & 1 == 0 {
            // A spilled register that held nothing comes back holding nothing.
            w.hollow[(n / 4) as usize] |= 1 << lane;
        }
    }
}

#[allow(clippy::too_many_arguments, reason = "a store's place and data, each of a different kind")]
fn scratch_store<const C: bool>(
    g: &mut Group<'_>,
    w: &mut Wave,
    index: usize,
    lane: usize,
    at: u32,
    words: &[u32; 4],
    data: usize,
    width: Width,
) {
    if !in_scratch(g, w, index, lane, at, width.bytes) {
        return;
    }
    let base = lane * w.scratch_bytes.div_ceil(4) as usize;
    for n in 0..width.bytes {
        let (dword, byte) = (base + ((at + n) / 4) as usize, (at + n) % 4);
        let value = words[(n / 4) as usize] >> (8 * (n % 4)) & 0xff;
        let place = &mut w.scratch[dword];
        *place = *place & !(0xff << (8 * byte)) | value << (8 * byte);
        if C {
            // A spilled register that holds nothing leaves scratch as unwritten as it is itself.
            let register = data + (n / 4) as usize;
            let holds = w
                .track
                .as_ref()
                .is_none_or(|track| track.initialised.vector[register] >> lane & 1 == 1);
            let marks = &mut w.scratch_initialised[dword];
            *marks = *marks & !(1 << byte) | u8::from(holds) << byte;
        }
    }
}

fn update<const C: bool>(
    g: &mut Group<'_>,
    w: &mut Wave,
    index: usize,
    access: &Access,
    lane: usize,
    (op, bytes): (AtomicOp, u32),
    data: usize,
) -> u64 {
    let value = |n: usize| {
        if bytes == 4 {
            u64::from(w.v[data + n][lane])
        } else {
            u64::from(w.v[data + 2 * n][lane]) | u64::from(w.v[data + 2 * n + 1][lane]) << 32
        }
    };
    // Memory compare-and-swap has the new value first and the comparand second.
    let operands = if op == AtomicOp::CompareSwap { (value(1), value(0)) } else { (value(0), 0) };
    let address = match access.places[lane] {
        Place::Lds(at) => return lds::update::<C>(g, w, index, lane, at, op, bytes, operands),
        Place::Scratch(at) => return scratch_update(g, w, index, lane, at, (op, bytes), operands),
        Place::Global(address) => address,
    };
    if C {
        aligned(g, index, lane, address, u64::from(bytes));
    }
    if !in_range(g, index, access, lane, 0, bytes) {
        return 0;
    }
    let address = address & !u64::from(bytes - 1);
    let memory = g.memory;
    let Some(found) = memory.find(address, u64::from(bytes), &mut g.hint) else {
        g.outside_memory(index as u32, Some(lane as u32), address, u64::from(bytes));
        return 0;
    };
    let offset = address - found.base;
    let (step, report) = (index as u32, Some(lane as u32));
    if !found.is_writable() {
        g.sink.add(FindingKind::ReadOnly, step, report, Some(address), || {
            format!("updates `{}`, which is read-only", found.name)
        });
        return 0;
    }
    if C && g.checks.uninitialised && !found.is_initialised(offset, u64::from(bytes)) {
        g.sink.add(FindingKind::UninitialisedMemory, step, report, Some(address), || {
            format!("updates byte {offset} of `{}`, which nothing wrote", found.name)
        });
    }
    if let Some(traffic) = g.tally.traffic.get_mut(g.hint) {
        traffic.read += u64::from(bytes);
        traffic.written += u64::from(bytes);
    }
    let apply = |old: u64| atomic::apply(op, bytes, old, operands.0, operands.1);
    if bytes == 4 {
        u64::from(found.update32(offset, |old| apply(u64::from(old)) as u32))
    } else {
        memory.update64(found, offset, apply)
    }
}

/// An atomic on a lane's own scratch, through the flat aperture.
fn scratch_update(
    g: &mut Group<'_>,
    w: &mut Wave,
    index: usize,
    lane: usize,
    at: u32,
    (op, bytes): (AtomicOp, u32),
    operands: (u64, u64),
) -> u64 {
    if !in_scratch(g, w, index, lane, at, bytes) {
        return 0;
    }
    let first = lane * w.scratch_bytes.div_ceil(4) as usize + (at / 4) as usize;
    let mut old = u64::from(w.scratch[first]);
    if bytes == 8 {
        old |= u64::from(w.scratch[first + 1]) << 32;
    }
    let new = atomic::apply(op, bytes, old, operands.0, operands.1);
    w.scratch[first] = new as u32;
    if bytes == 8 {
        w.scratch[first + 1] = (new >> 32) as u32;
    }
    old
}
