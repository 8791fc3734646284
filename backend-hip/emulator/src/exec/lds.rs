//! Access to LDS, by one lane and by all: bounds, alignment, races, and bytes that hold nothing.

use super::atomic::{self, AtomicOp};
use super::group::{Group, dwords};
use super::wave::{Lanes, Wave};
use crate::check::FindingKind;

/// The lanes of a mask, in rising order.
pub(super) fn lanes(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let lane = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            lane
        })
    })
}

/// Reads `count` bytes of LDS (at most 16) for one lane. Bytes out of bounds read as zero.
pub(super) fn read<const C: bool>(
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
pub(super) fn write<const C: bool>(
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
pub(super) fn read_registers<const C: bool>(
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
pub(super) fn write_registers<const C: bool>(
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
pub(super) fn update<const C: bool>(
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
pub(super) fn aligned(g: &mut Group<'_>, index: usize, lane: usize, at: u64, alignment: u64) {
    if g.checks.alignment && !at.is_multiple_of(alignment) {
        g.sink.add(FindingKind::Misaligned, index as u32, Some(lane as u32), Some(at), || {
            format!("the address is not a multiple of {alignment}")
        });
    }
}

/// The natural alignment of an LDS access; 12-byte accesses need dwords.
pub(super) fn alignment(bytes: u32) -> u64 {
    if bytes == 12 { 4 } else { u64::from(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_come_in_order() {
        assert_eq!(lanes(1 << 63 | 0b101).collect::<Vec<_>>(), [0, 2, 63]);
    }
}
