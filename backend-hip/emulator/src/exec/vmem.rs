//! Vector memory: buffer, flat, global and scratch instructions, and loads that go to LDS.

use super::atomic::{self, AtomicOp};
use super::counters;
use super::ds::{self, aligned, extend, lanes, stored};
use super::group::Group;
use super::ops::{MemoryOp, Width};
use super::wave::{PRIVATE_BASE_HI, SHARED_BASE_HI, Wave, number, scalar_number};
use crate::check::FindingKind;
use crate::check::races::Flight;
use crate::check::waits::{Counter, Op, Touch};
use crate::isa::{Encoding, Instruction};

/// Offsets from here on are taken as deliberately out of range.
const DELIBERATE: u32 = 0x8000_0000;

/// Where one lane's access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Global(u64),
    Lds(u32),
    Scratch(u32),
}

/// The addresses of one instruction.
struct Access {
    places: [Place; 64],
    /// For buffers: each lane's offset and what bounds it.
    buffer: Option<Buffer>,
}

/// A buffer descriptor with the offsets that are checked against it.
struct Buffer {
    /// Offset within the buffer that the range check sees, without `soffset`.
    offsets: [u32; 64],
    soffset: u32,
    /// Bytes, or records where the stride is not zero and an index is given.
    records: u32,
    /// Index of each lane's record for structured accesses.
    indices: Option<[u32; 64]>,
}

/// What the range check says of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    Inside,
    Outside,
    /// Inside if `soffset` does not take part, outside if it does.
    Ambiguous,
}

impl Buffer {
    /// The range check of `count` bytes at `extra` bytes into a lane's access.
    fn check(&self, lane: usize, extra: u32, count: u32) -> Range {
        if let Some(indices) = &self.indices {
            let inside = indices[lane] < self.records;
            return if inside { Range::Inside } else { Range::Outside };
        }
        // Unsigned and saturating: an offset just below 2^32 does not wrap into range.
        let end = u64::from(self.offsets[lane].saturating_add(extra)) + u64::from(count);
        let records = u64::from(self.records);
        match (end <= records, end + u64::from(self.soffset) <= records) {
            (true, true) => Range::Inside,
            (true, false) => Range::Ambiguous,
            (false, _) => Range::Outside,
        }
    }
}

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
                ds::write::<C>(g, w, index, lane, at[lane], &words, slot);
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

fn addresses(w: &Wave, inst: &Instruction) -> Result<Access, String> {
    let offset = inst.mods.offset;
    let vaddr = w.vector(inst.src[0]);
    if inst.encoding == Encoding::Mubuf {
        return buffer_addresses(w, inst);
    }
    let places = match inst.encoding {
        Encoding::Scratch => {
            let base = w.scalar(inst.src[1]).wrapping_add(offset as u32);
            std::array::from_fn(|lane| {
                Place::Scratch(base.wrapping_add(vaddr.map_or(0, |register| w.v[register][lane])))
            })
        }
        Encoding::Global if inst.src[1].is_some() => {
            let base = w.scalar64(inst.src[1], false).wrapping_add_signed(i64::from(offset));
            std::array::from_fn(|lane| {
                let index = vaddr.map_or(0, |register| w.v[register][lane]);
                Place::Global(base.wrapping_add(u64::from(index)))
            })
        }
        encoding => {
            let register = vaddr.unwrap_or(0);
            let flat = encoding == Encoding::Flat;
            std::array::from_fn(|lane| {
                let low = u64::from(w.v[register][lane]);
                let address = low | u64::from(w.v[register + 1][lane]) << 32;
                let address = address.wrapping_add_signed(i64::from(offset));
                match (address >> 32) as u32 {
                    SHARED_BASE_HI if flat => Place::Lds(address as u32),
                    PRIVATE_BASE_HI if flat => Place::Scratch(address as u32),
                    _ => Place::Global(address),
                }
            })
        }
    };
    Ok(Access { places, buffer: None })
}

/// Addresses through a buffer descriptor: 48 bits of base, a stride, a count of records.
fn buffer_addresses(w: &Wave, inst: &Instruction) -> Result<Access, String> {
    let first = scalar_number(inst.src[1]).unwrap_or(0);
    let words = [w.s[first], w.s[first + 1], w.s[first + 2], w.s[first + 3]];
    let base = u64::from(words[0]) | u64::from(words[1] & 0xffff) << 32;
    let stride = words[1] >> 16 & 0x3fff;
    if words[1] >> 31 == 1 {
        return Err("the descriptor asks for a swizzled buffer".to_owned());
    }
    if words[3] >> 23 & 1 == 1 {
        return Err("the descriptor adds the lane number to the index".to_owned());
    }
    let soffset = w.scalar(inst.src[2]);
    let vaddr = w.vector(inst.src[0]);
    let (indexed, offset_register) = (inst.mods.idxen, inst.mods.offen);
    let value = |n: usize, lane: usize| vaddr.map_or(0, |register| w.v[register + n][lane]);
    let immediate = inst.mods.offset as u32;
    let offsets: [u32; 64] = std::array::from_fn(|lane| {
        let register = if offset_register { value(usize::from(indexed), lane) } else { 0 };
        register.saturating_add(immediate)
    });
    let indices: Option<[u32; 64]> = indexed.then(|| std::array::from_fn(|lane| value(0, lane)));
    let places = std::array::from_fn(|lane| {
        let index = indices.as_ref().map_or(0, |indices| indices[lane]);
        let record = u64::from(index) * u64::from(stride);
        Place::Global(
            base.wrapping_add(u64::from(soffset))
                .wrapping_add(record)
                .wrapping_add(u64::from(offsets[lane])),
        )
    });
    let structured = stride != 0 && indexed;
    let records =
        if stride != 0 && !structured { words[2].saturating_mul(stride) } else { words[2] };
    let indices = indices.filter(|_| structured);
    Ok(Access { places, buffer: Some(Buffer { offsets, soffset, records, indices }) })
}

/// Whether a buffer access of one lane is in range; reports what the checks ask for.
fn in_range(
    g: &mut Group<'_>,
    index: usize,
    access: &Access,
    lane: usize,
    extra: u32,
    count: u32,
) -> bool {
    let Some(buffer) = &access.buffer else { return true };
    let range = buffer.check(lane, extra, count);
    if range == Range::Inside {
        return true;
    }
    let offset = buffer.offsets[lane];
    let address = match access.places[lane] {
        Place::Global(address) => Some(address.wrapping_add(u64::from(extra))),
        Place::Lds(_) | Place::Scratch(_) => None,
    };
    let (step, lane) = (index as u32, Some(lane as u32));
    let (soffset, records) = (buffer.soffset, buffer.records);
    if range == Range::Ambiguous && g.checks.ambiguous_offsets {
        g.sink.add(FindingKind::AmbiguousOffset, step, lane, address, || {
            format!(
                "offset {offset} + {extra} is inside num_records {records} without soffset {soffset} and outside with it"
            )
        });
    }
    if range == Range::Outside && g.checks.descriptor_bounds && offset < DELIBERATE {
        g.sink.add(FindingKind::DescriptorBounds, step, lane, address, || {
            format!("{count} bytes at offset {offset} + {extra} of a descriptor with num_records {records}")
        });
    }
    false
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
        Place::Lds(at) => ds::read::<C>(g, w, index, lane, at, width.bytes),
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
        Place::Lds(at) => ds::write::<C>(g, w, index, lane, at, words, width.bytes),
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
        Place::Lds(at) => return ds::update::<C>(g, w, index, lane, at, op, bytes, operands),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(offset: u32, soffset: u32, records: u32) -> Buffer {
        Buffer { offsets: [offset; 64], soffset, records, indices: None }
    }

    #[test]
    fn each_dword_is_checked_by_both_readings() {
        assert_eq!(buffer(0, 0, 8).check(0, 4, 4), Range::Inside);
        assert_eq!(buffer(0, 0, 8).check(0, 8, 4), Range::Outside);
        assert_eq!(buffer(0, 4, 8).check(0, 4, 4), Range::Ambiguous);
        assert_eq!(buffer(6, 0, 8).check(0, 0, 4), Range::Outside);
        assert_eq!(buffer(7, 0, 8).check(0, 0, 1), Range::Inside);
        assert_eq!(buffer(u32::MAX, 0, u32::MAX).check(0, 4, 4), Range::Outside);
    }
}
