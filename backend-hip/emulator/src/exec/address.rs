//! Where vector memory instructions go: buffer descriptors and their range checks, flat apertures, scratch.

use super::group::Group;
use super::wave::{PRIVATE_BASE_HI, SHARED_BASE_HI, Wave, scalar_number};
use crate::check::FindingKind;
use crate::isa::{Encoding, Instruction};

/// Offsets from here on are taken as deliberately out of range.
const DELIBERATE: u32 = 0x8000_0000;

/// Where one lane's access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Global(u64),
    Lds(u32),
    Scratch(u32),
}

/// The addresses of one instruction.
pub(super) struct Access {
    pub(super) places: [Place; 64],
    /// For buffers: each lane's offset and what bounds it.
    pub(super) buffer: Option<Buffer>,
}

/// A buffer descriptor with the offsets that are checked against it.
pub(super) struct Buffer {
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
pub(super) enum Range {
    Inside,
    Outside,
    /// Inside if `soffset` does not take part, outside if it does.
    Ambiguous,
}

impl Buffer {
    /// The range check of `count` bytes at `extra` bytes into a lane's access.
    pub(super) fn check(&self, lane: usize, extra: u32, count: u32) -> Range {
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

/// The addresses of a vector memory instruction.
///
/// # Errors
/// What its descriptor asks for that is not modelled.
pub(super) fn addresses(w: &Wave, inst: &Instruction) -> Result<Access, String> {
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
pub(super) fn in_range(
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
