//! A workgroup while it runs: its LDS and everything its instructions report to.

use super::counters::Tally;
use super::memory::Memory;
use super::plan::Plan;
use crate::check::races::{Conflict, ConflictKind, Flight, Shadow};
use crate::check::waits::Op;
use crate::check::{Checks, FindingKind, Sink};

/// LDS of a workgroup.
#[derive(Debug)]
pub(crate) struct Lds {
    pub(crate) words: Vec<u32>,
    /// Static and dynamic bytes; accesses beyond are out of bounds.
    pub(crate) bytes: u32,
    /// Present in checked runs.
    pub(crate) shadow: Option<Shadow>,
}

impl Lds {
    pub(crate) fn new(bytes: u32, checked: bool) -> Lds {
        Lds {
            words: vec![0; bytes.div_ceil(4) as usize],
            bytes,
            shadow: checked.then(|| Shadow::new(bytes as usize)),
        }
    }

    /// Whether `count` bytes at `at` lie inside.
    #[inline]
    pub(crate) fn holds(&self, at: u32, count: u32) -> bool {
        u64::from(at) + u64::from(count) <= u64::from(self.bytes)
    }

    /// The 32 bits at byte `at`, which need not be aligned; bytes past the end read as zero.
    #[inline]
    pub(crate) fn load(&self, at: u32) -> u32 {
        let (index, shift) = ((at / 4) as usize, at % 4 * 8);
        let word = |i: usize| self.words.get(i).copied().unwrap_or(0);
        if shift == 0 {
            word(index)
        } else {
            word(index) >> shift | word(index + 1) << (32 - shift)
        }
    }

    /// Stores the low `count` bytes (1 to 4) of `value` at byte `at`.
    #[inline]
    pub(crate) fn store(&mut self, at: u32, value: u32, count: u32) {
        if at.is_multiple_of(4) && count == 4 {
            if let Some(word) = self.words.get_mut((at / 4) as usize) {
                *word = value;
            }
            return;
        }
        for n in 0..count {
            let (index, shift) = (((at + n) / 4) as usize, (at + n) % 4 * 8);
            if let Some(word) = self.words.get_mut(index) {
                *word = *word & !(0xff << shift) | (value >> (8 * n) & 0xff) << shift;
            }
        }
    }
}

/// A workgroup and what its instructions need.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) memory: &'a Memory,
    pub(crate) checks: Checks,
    /// Whether bank conflicts and cache lines are counted.
    pub(crate) count_memory: bool,
    pub(crate) lds: Lds,
    pub(crate) sink: Sink,
    pub(crate) tally: Tally,
    /// Where the last allocation was found.
    pub(crate) hint: usize,
    /// Operations that a wait has just completed; kept for its storage.
    pub(crate) done: Vec<Op>,
}

/// The bytes of each dword that `count` bytes from `at` cover, as dword index and mask of four bits.
pub(crate) fn dwords(at: u32, count: u32) -> impl Iterator<Item = (usize, u8)> {
    let (first, last) = (at / 4, (at + count - 1) / 4);
    (first..=last).map(move |dword| {
        let from = at.max(dword * 4) - dword * 4;
        let to = (at + count).min(dword * 4 + 4) - dword * 4;
        (dword as usize, (((1u32 << (to - from)) - 1) << from) as u8)
    })
}

impl Group<'_> {
    /// Reports a conflict on the LDS dword at byte `at`.
    #[cold]
    pub(crate) fn conflict(&mut self, step: u32, lane: u32, at: u32, conflict: Conflict) {
        let plan = self.plan;
        let other = &plan.steps[conflict.step as usize].inst;
        let (kind, enabled) = match conflict.kind {
            ConflictKind::InFlight(Flight::Read) => {
                (FindingKind::LdsOverwriteBeforeWait, self.checks.waits)
            }
            ConflictKind::InFlight(_) => (FindingKind::LdsBeforeWait, self.checks.waits),
            _ => (FindingKind::LdsRace, self.checks.races),
        };
        if !enabled {
            return;
        }
        self.sink.add(kind, step, Some(lane), Some(u64::from(at)), || {
            let party = format!("wave {}'s `{other}` at {:#x}", conflict.wave, other.address);
            match conflict.kind {
                ConflictKind::ReadOfWrite => {
                    format!("LDS race: reads bytes that {party} wrote with no barrier between")
                }
                ConflictKind::WriteOfWrite => {
                    format!("LDS race: overwrites bytes that {party} wrote with no barrier between")
                }
                ConflictKind::WriteOfRead => {
                    format!("LDS race: overwrites bytes that {party} read with no barrier between")
                }
                ConflictKind::InFlight(Flight::Dma) => format!(
                    "touches LDS bytes that {party} is still loading: no s_waitcnt vmcnt covers it"
                ),
                ConflictKind::InFlight(Flight::Write) => format!(
                    "touches LDS bytes whose write by {party} may still be queued: its wave passed the barrier without \
                     s_waitcnt lgkmcnt"
                ),
                ConflictKind::InFlight(Flight::Read) => format!(
                    "overwrites LDS bytes whose read by {party} may still be queued: its wave passed the barrier without \
                     s_waitcnt lgkmcnt"
                ),
            }
        });
    }

    /// Reports an access outside LDS.
    #[cold]
    pub(crate) fn outside_lds(&mut self, step: u32, lane: u32, at: u32, count: u32) {
        let limit = self.lds.bytes;
        self.sink.add(FindingKind::OutOfBounds, step, Some(lane), Some(u64::from(at)), || {
            format!("{count} bytes at LDS offset {at} of a workgroup with {limit} bytes of LDS")
        });
    }

    /// Reports an access outside every allocation.
    #[cold]
    pub(crate) fn outside_memory(
        &mut self,
        step: u32,
        lane: Option<u32>,
        address: u64,
        count: u64,
    ) {
        let memory = self.memory;
        self.sink.add(FindingKind::OutOfBounds, step, lane, Some(address), || match memory
            .nearest(address)
        {
            Some((nearest, distance)) => format!(
                "{count} bytes outside every allocation; the nearest, `{}`, has {} bytes and the access starts at its byte \
                 {distance}",
                nearest.name, nearest.bytes
            ),
            None => format!("{count} bytes with no memory allocated"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_split_into_masked_dwords() {
        assert_eq!(dwords(8, 8).collect::<Vec<_>>(), [(2, 0xf), (3, 0xf)]);
        assert_eq!(dwords(3, 2).collect::<Vec<_>>(), [(0, 0b1000), (1, 0b0001)]);
        assert_eq!(dwords(6, 1).collect::<Vec<_>>(), [(1, 0b0100)]);
    }

    #[test]
    fn lds_stores_bytes_anywhere() {
        let mut lds = Lds::new(10, false);
        lds.store(3, 0x1122_3344, 4);
        assert_eq!(lds.load(3), 0x1122_3344);
        lds.store(9, 0xff, 1);
        assert_eq!(lds.load(8), 0xff00);
        assert!(lds.holds(8, 2) && !lds.holds(8, 3) && !lds.holds(u32::MAX, 4));
    }
}
