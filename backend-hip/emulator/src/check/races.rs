//! LDS accesses that no barrier orders.
//!
//! A workgroup's barriers cut its run into epochs. Two accesses of different waves to the same byte in one epoch race
//! unless both read or both are atomic. Accesses are remembered per dword with one writer and one reader set a byte; an
//! epoch change empties them lazily.
//!
//! Accesses in flight across a barrier are remembered apart: the barrier does not order a write whose `s_waitcnt` comes
//! later, nor a direct-to-LDS load, nor another wave's overwrite of bytes whose read is still queued.

/// The most waves a workgroup has (1024 work-items).
pub(crate) const MAX_WAVES: u32 = 16;

/// Wave 0 in the sets of all four bytes.
const ALL_BYTES: u64 = 0x0001_0001_0001_0001;

#[derive(Clone, Copy, Debug, Default)]
struct Word {
    epoch: u32,
    /// One byte for each byte of the dword: wave + 1 of the last plain writer in this epoch, 0 for none.
    writers: u32,
    /// Sixteen bits for each byte: the waves that read it plainly in this epoch.
    readers: u64,
    /// Likewise the waves that updated it atomically. They are kept apart from both, because an atomic neither orders nor
    /// hides the plain accesses around it.
    atomics: u64,
    write_step: u32,
    read_step: u32,
    atomic_step: u32,
    /// Four bits: which bytes were ever written.
    initialised: u8,
}

/// Why bytes are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flight {
    /// A direct-to-LDS load has not been waited for.
    Dma,
    /// A write was not waited for before its wave's barrier.
    Write,
    /// A read was not waited for before its wave's barrier.
    Read,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    kind: Flight,
    wave: u32,
    step: u32,
}

/// A fault that an access completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) kind: ConflictKind,
    /// The other party's wave and instruction.
    pub(crate) wave: u32,
    pub(crate) step: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConflictKind {
    ReadOfWrite,
    WriteOfWrite,
    WriteOfRead,
    InFlight(Flight),
}

/// What is remembered of a workgroup's LDS.
#[derive(Debug)]
pub(crate) struct Shadow {
    words: Vec<Word>,
    flights: Vec<Option<InFlight>>,
    in_flight: usize,
    epoch: u32,
}

/// The byte mask of the dword's bits 0 to 3 widened to whole bytes.
fn wide_mask(bytes: u8) -> u32 {
    ((u32::from(bytes) * 0x0020_4081) & 0x0101_0101) * 0xff
}

impl Shadow {
    pub(crate) fn new(bytes: usize) -> Shadow {
        let dwords = bytes.div_ceil(4);
        Shadow {
            words: vec![Word::default(); dwords],
            flights: vec![None; dwords],
            in_flight: 0,
            epoch: 1,
        }
    }

    /// Every wave has passed a barrier.
    pub(crate) fn barrier(&mut self) {
        self.epoch += 1;
    }

    #[inline]
    fn word(&mut self, dword: usize) -> &mut Word {
        let epoch = self.epoch;
        let word = &mut self.words[dword];
        if word.epoch != epoch {
            *word = Word { epoch, initialised: word.initialised, ..Word::default() };
        }
        word
    }

    /// A wave reads the bytes of a dword that `bytes` marks. The dword lies inside.
    #[inline]
    pub(crate) fn read(
        &mut self,
        dword: usize,
        bytes: u8,
        wave: u32,
        step: u32,
    ) -> Option<Conflict> {
        let flying = if self.in_flight > 0 { self.flights[dword] } else { None };
        let word = self.word(dword);
        let writers = word.writers & wide_mask(bytes);
        word.readers |= spread(bytes) << wave;
        word.read_step = step;
        if let Some(flight) = flying
            && (flight.kind == Flight::Dma || flight.kind == Flight::Write && flight.wave != wave)
        {
            return Some(flight.conflict());
        }
        let kind = ConflictKind::ReadOfWrite;
        if let Some(other) = foreign(writers, wave) {
            return Some(Conflict { kind, wave: other, step: word.write_step });
        }
        let other = others(word.atomics, bytes, wave)?;
        Some(Conflict { kind, wave: other, step: word.atomic_step })
    }

    /// A wave writes the bytes of a dword that `bytes` marks. The dword lies inside.
    #[inline]
    pub(crate) fn write(
        &mut self,
        dword: usize,
        bytes: u8,
        wave: u32,
        step: u32,
        atomic: bool,
    ) -> Option<Conflict> {
        let flying = if self.in_flight > 0 { self.flights[dword] } else { None };
        let word = self.word(dword);
        let mask = wide_mask(bytes);
        word.initialised |= bytes;
        let before = *word;
        if atomic {
            word.atomics |= spread(bytes) << wave;
            word.atomic_step = step;
        } else {
            word.writers = word.writers & !mask | ((wave + 1) * 0x0101_0101) & mask;
            word.write_step = step;
        }
        if let Some(flight) = flying
            && flight.wave != wave
        {
            return Some(flight.conflict());
        }
        let conflict = |kind, wave, step| Some(Conflict { kind, wave, step });
        if let Some(other) = foreign(before.writers & mask, wave) {
            return conflict(ConflictKind::WriteOfWrite, other, before.write_step);
        }
        if let Some(other) = others(before.readers, bytes, wave) {
            return conflict(ConflictKind::WriteOfRead, other, before.read_step);
        }
        match others(before.atomics, bytes, wave) {
            Some(other) if !atomic => {
                conflict(ConflictKind::WriteOfWrite, other, before.atomic_step)
            }
            _ => None,
        }
    }

    /// Whether all marked bytes of the dword were written.
    pub(crate) fn is_initialised(&self, dword: usize, bytes: u8) -> bool {
        self.words[dword].initialised & bytes == bytes
    }

    /// As [`Shadow::read`] of a whole dword while nothing is in flight: whether it is written and free of conflicts. Where not,
    /// [`Shadow::read`] says why.
    #[inline]
    pub(crate) fn read_whole(&mut self, dword: usize, wave: u32, step: u32) -> bool {
        let word = self.word(dword);
        word.readers |= ALL_BYTES << wave;
        word.read_step = step;
        let own = word.writers == 0 || word.writers == (wave + 1) * 0x0101_0101;
        own && word.atomics & !(ALL_BYTES << wave) == 0 && word.initialised == 0xf
    }

    /// As [`Shadow::write`] of a whole dword while nothing is in flight: whether it is free of conflicts. Where not, nothing is
    /// recorded, and [`Shadow::write`] says why.
    #[inline]
    pub(crate) fn write_whole(&mut self, dword: usize, wave: u32, step: u32) -> bool {
        let word = self.word(dword);
        let tag = (wave + 1) * 0x0101_0101;
        let others = (word.readers | word.atomics) & !(ALL_BYTES << wave);
        if word.writers != 0 && word.writers != tag || others != 0 {
            return false;
        }
        word.writers = tag;
        word.write_step = step;
        word.initialised = 0xf;
        true
    }

    /// Whether no access is in flight.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.in_flight == 0
    }

    /// Marks a dword as in flight.
    pub(crate) fn launch(&mut self, dword: usize, kind: Flight, wave: u32, step: u32) {
        if let Some(place) = self.flights.get_mut(dword) {
            if place.is_none() {
                self.in_flight += 1;
            }
            *place = Some(InFlight { kind, wave, step });
        }
    }

    /// The access of `wave` at `step` is complete: the dword is no longer in flight for it. A write takes effect now.
    pub(crate) fn land(&mut self, dword: usize, wave: u32, step: u32) -> Option<Conflict> {
        let place = self.flights.get_mut(dword)?;
        let flight = place.filter(|f| f.wave == wave && f.step == step)?;
        *place = None;
        self.in_flight -= 1;
        match flight.kind {
            Flight::Read => None,
            Flight::Write | Flight::Dma => self.write(dword, 0xf, wave, step, false),
        }
    }
}

impl InFlight {
    fn conflict(self) -> Conflict {
        Conflict { kind: ConflictKind::InFlight(self.kind), wave: self.wave, step: self.step }
    }
}

/// Bit 0 of each 16-bit field whose byte is marked.
fn spread(bytes: u8) -> u64 {
    u64::from(bytes & 1)
        | u64::from(bytes >> 1 & 1) << 16
        | u64::from(bytes >> 2 & 1) << 32
        | u64::from(bytes >> 3 & 1) << 48
}

/// A writer other than `wave`.
#[inline]
fn foreign(writers: u32, wave: u32) -> Option<u32> {
    if writers == 0 || writers == (wave + 1) * 0x0101_0101 {
        return None;
    }
    let tags = writers.to_le_bytes().into_iter().map(u32::from);
    tags.filter(|&tag| tag != 0).map(|tag| tag - 1).find(|&other| other != wave)
}

/// A wave other than `wave` in the sets of the marked bytes.
#[inline]
fn others(sets: u64, bytes: u8, wave: u32) -> Option<u32> {
    let others = sets & spread(bytes).wrapping_mul(0xffff) & !(ALL_BYTES << wave);
    (others != 0).then(|| others.trailing_zeros() % MAX_WAVES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(conflict: Option<Conflict>) -> Option<ConflictKind> {
        conflict.map(|c| c.kind)
    }

    #[test]
    fn a_barrier_orders_a_write_and_a_read() {
        let mut shadow = Shadow::new(64);
        assert_eq!(kind(shadow.write(3, 0xf, 0, 10, false)), None);
        assert_eq!(kind(shadow.read(3, 0xf, 0, 11)), None);
        let conflict = shadow.read(3, 0x1, 1, 12).unwrap();
        assert_eq!(conflict, Conflict { kind: ConflictKind::ReadOfWrite, wave: 0, step: 10 });
        shadow.barrier();
        assert_eq!(kind(shadow.read(3, 0xf, 1, 13)), None);
        assert_eq!(kind(shadow.write(3, 0xf, 0, 14, false)), Some(ConflictKind::WriteOfRead));
    }

    #[test]
    fn different_bytes_of_a_dword_do_not_race() {
        let mut shadow = Shadow::new(64);
        assert_eq!(kind(shadow.write(0, 0b0001, 0, 1, false)), None);
        assert_eq!(kind(shadow.write(0, 0b0010, 1, 1, false)), None);
        assert_eq!(kind(shadow.read(0, 0b0010, 1, 2)), None);
        assert_eq!(kind(shadow.write(0, 0b0001, 15, 3, false)), Some(ConflictKind::WriteOfWrite));
        assert!(shadow.is_initialised(0, 0b0011) && !shadow.is_initialised(0, 0b0100));
    }

    #[test]
    fn atomics_race_only_with_plain_accesses() {
        let mut shadow = Shadow::new(64);
        assert_eq!(kind(shadow.write(0, 0xf, 0, 1, true)), None);
        assert_eq!(kind(shadow.write(0, 0xf, 1, 1, true)), None);
        assert_eq!(kind(shadow.read(0, 0xf, 2, 1)), Some(ConflictKind::ReadOfWrite));
        assert!(!shadow.read_whole(0, 2, 1));
    }

    #[test]
    fn an_atomic_after_another_waves_plain_access_races() {
        let mut shadow = Shadow::new(64);
        assert_eq!(kind(shadow.read(0, 0xf, 0, 1)), None);
        assert_eq!(kind(shadow.write(0, 0xf, 1, 2, true)), Some(ConflictKind::WriteOfRead));
        assert_eq!(kind(shadow.write(4, 0xf, 0, 3, false)), None);
        assert_eq!(kind(shadow.write(4, 0xf, 1, 4, true)), Some(ConflictKind::WriteOfWrite));
    }

    #[test]
    fn an_atomic_does_not_hide_the_accesses_before_it() {
        let mut shadow = Shadow::new(64);
        // Wave 0 initialises plainly, then counts; wave 1 counts without a barrier between.
        assert_eq!(kind(shadow.write(0, 0xf, 0, 1, false)), None);
        assert_eq!(kind(shadow.write(0, 0xf, 0, 2, true)), None);
        assert_eq!(kind(shadow.write(0, 0xf, 1, 3, true)), Some(ConflictKind::WriteOfWrite));
        // Waves 0 and 1 count; wave 1 collects without a barrier between.
        assert_eq!(kind(shadow.write(4, 0xf, 0, 4, true)), None);
        assert_eq!(kind(shadow.write(4, 0xf, 1, 5, true)), None);
        let conflict = shadow.read(4, 0xf, 1, 6).unwrap();
        assert_eq!((conflict.kind, conflict.wave), (ConflictKind::ReadOfWrite, 0));
        shadow.barrier();
        assert!(shadow.read_whole(4, 1, 7));
        assert!(!shadow.write_whole(4, 0, 8));
    }

    #[test]
    fn flights_outlast_barriers() {
        let mut shadow = Shadow::new(64);
        shadow.launch(0, Flight::Dma, 0, 5);
        shadow.launch(1, Flight::Write, 0, 6);
        shadow.launch(2, Flight::Read, 0, 7);
        shadow.barrier();
        assert_eq!(kind(shadow.read(0, 0xf, 0, 8)), Some(ConflictKind::InFlight(Flight::Dma)));
        assert_eq!(kind(shadow.read(1, 0xf, 0, 8)), None);
        assert_eq!(kind(shadow.read(1, 0xf, 1, 8)), Some(ConflictKind::InFlight(Flight::Write)));
        assert_eq!(
            kind(shadow.write(2, 0xf, 1, 8, false)),
            Some(ConflictKind::InFlight(Flight::Read))
        );
        for dword in 0..3 {
            shadow.land(dword, 0, 5 + dword as u32);
        }
        shadow.barrier();
        assert_eq!(kind(shadow.read(0, 0xf, 1, 9)), None);
        assert_eq!(kind(shadow.write(2, 0xf, 1, 9, false)), None);
    }
}
