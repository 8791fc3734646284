//! Global memory: named allocations at made-up 64-bit addresses, with unmapped gaps around each.
//!
//! Every allocation starts 4 GiB or more from its neighbours, so an address that misses its buffer by any 32-bit offset
//! hits nothing. Bytes are kept in 32-bit atomic words, because workgroups on several host threads share them as waves
//! share memory on the device; a kernel that races gets one of the racing values, never undefined behaviour.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use bytemuck::allocation::try_zeroed_slice_box;

use crate::{Error, Result};

/// Address of the first allocation.
const FIRST: u64 = 0x0000_1000_0000_0000;
/// Kernel arguments, packets and images lie from here on; allocations stay below.
const END: u64 = super::entry::KERNARG_BASE;
/// Allocations start at multiples of this, so the gap behind one is at least [`GUARD`].
const SLOT: u64 = 1 << 33;
/// The least unmapped distance between two allocations.
const GUARD: u64 = 1 << 32;
/// Alignment of an allocation's first byte, that of `hipMalloc`.
pub const ALIGNMENT: u64 = 256;
/// The most bytes all allocations of a memory may take together, touched or not.
pub const MAX_BYTES: u64 = 16 << 30;

/// Addresses that an allocation of `bytes` bytes takes up with its guard.
fn span(bytes: u64) -> u64 {
    (bytes + GUARD).div_ceil(SLOT) * SLOT
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) name: String,
    pub(crate) base: u64,
    pub(crate) bytes: u64,
    writable: bool,
    words: Box<[AtomicU32]>,
    /// Four bits a word: which of its bytes were written. `None` where all were from the start.
    initialised: Option<Box<[AtomicU8]>>,
}

impl Allocation {
    /// Whether `bytes` bytes at `address` lie inside.
    #[inline]
    pub(crate) fn holds(&self, address: u64, bytes: u64) -> bool {
        address >= self.base
            && address - self.base <= self.bytes.saturating_sub(bytes)
            && bytes <= self.bytes
    }

    /// Whether a kernel may write it.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// The 32-bit word at byte `offset`, which need not be aligned; bytes past the end of the storage read as zero.
    #[inline]
    pub(crate) fn load32(&self, offset: u64) -> u32 {
        let (index, shift) = ((offset / 4) as usize, offset % 4 * 8);
        let word = |i: usize| self.words.get(i).map_or(0, |w| w.load(Relaxed));
        if shift == 0 {
            word(index)
        } else {
            word(index) >> shift | word(index + 1) << (32 - shift)
        }
    }

    /// `count` bytes, 1 or 2, from byte `offset`, zero-extended.
    #[inline]
    pub(crate) fn load_small(&self, offset: u64, count: u64) -> u32 {
        self.load32(offset) & ((1u32 << (8 * count)) - 1)
    }

    /// Stores the low `count` bytes (1 to 4) of `value` at byte `offset`.
    #[inline]
    pub(crate) fn store(&self, offset: u64, value: u32, count: u64) {
        let (index, shift) = ((offset / 4) as usize, offset % 4);
        if shift == 0 && count == 4 {
            if let Some(word) = self.words.get(index) {
                word.store(value, Relaxed);
            }
            self.mark(index, 0xf);
            return;
        }
        for i in 0..count {
            let (index, shift) = (((offset + i) / 4) as usize, (offset + i) % 4 * 8);
            let byte = (value >> (8 * i) & 0xff) << shift;
            if let Some(word) = self.words.get(index) {
                // The closure never refuses, so the result carries nothing.
                let _ =
                    word.fetch_update(Relaxed, Relaxed, |old| Some(old & !(0xff << shift) | byte));
            }
            self.mark(index, 1 << (shift / 8));
        }
    }

    /// Applies `f` to the aligned 32-bit word at `offset` atomically and returns the old value.
    pub(crate) fn update32(&self, offset: u64, f: impl Fn(u32) -> u32) -> u32 {
        let Some(word) = self.words.get((offset / 4) as usize) else { return 0 };
        match word.fetch_update(Relaxed, Relaxed, |old| Some(f(old))) {
            Ok(old) | Err(old) => old,
        }
    }

    #[inline]
    fn mark(&self, index: usize, bytes: u8) {
        if let Some(bits) = self.initialised.as_ref().and_then(|bits| bits.get(index))
            && bits.load(Relaxed) & bytes != bytes
        {
            bits.fetch_or(bytes, Relaxed);
        }
    }

    /// Whether every byte was written at some time before; true for bytes outside.
    #[inline]
    pub(crate) fn is_initialised(&self, offset: u64, count: u64) -> bool {
        let Some(bits) = &self.initialised else { return true };
        (offset..offset + count).all(|at| {
            bits.get((at / 4) as usize).is_none_or(|b| b.load(Relaxed) >> (at % 4) & 1 == 1)
        })
    }
}

/// Global memory of an emulated device.
#[derive(Debug, Default)]
pub struct Memory {
    /// Sorted by base address.
    allocations: Vec<Allocation>,
    next: u64,
    total: u64,
    /// Serialises 64-bit atomics, which span two words.
    wide: Mutex<()>,
}

impl Memory {
    /// Memory without allocations.
    pub fn new() -> Memory {
        Memory { next: FIRST, ..Memory::default() }
    }

    /// Allocates `bytes` bytes whose contents count as uninitialised until written; returns their address, a multiple of
    /// [`ALIGNMENT`].
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if all allocations together would exceed [`MAX_BYTES`], or the system refuses.
    pub fn alloc(&mut self, name: &str, bytes: u64) -> Result<u64> {
        self.insert(name, bytes, true, true)
    }

    /// Allocates and fills a buffer exactly as large as `data`; returns its address, a multiple of [`ALIGNMENT`].
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if all allocations together would exceed [`MAX_BYTES`], or the system refuses.
    pub fn alloc_from(&mut self, name: &str, data: &[u8]) -> Result<u64> {
        let address = self.insert(name, data.len() as u64, true, false)?;
        self.write(address, data)?;
        Ok(address)
    }

    /// As [`Memory::alloc_from`], but a kernel's store into it is a finding.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if all allocations together would exceed [`MAX_BYTES`], or the system refuses.
    pub fn alloc_read_only(&mut self, name: &str, data: &[u8]) -> Result<u64> {
        let address = self.insert(name, data.len() as u64, false, false)?;
        self.write(address, data)?;
        Ok(address)
    }

    /// Frees the allocation that starts at `address`; its address is not given out again before every later one has been.
    ///
    /// # Errors
    /// [`Error::BadAddress`] if no allocation starts there.
    pub fn free(&mut self, address: u64) -> Result<()> {
        let index = self
            .allocations
            .iter()
            .position(|a| a.base == address)
            .ok_or(Error::BadAddress { address, bytes: 0 })?;
        self.total -= self.allocations[index].bytes;
        self.allocations.remove(index);
        Ok(())
    }

    fn total_with(&self, bytes: u64) -> Result<u64> {
        let requested = self.total.saturating_add(bytes);
        if requested > MAX_BYTES {
            return Err(Error::OutOfMemory { requested, limit: MAX_BYTES });
        }
        Ok(requested)
    }

    fn insert(&mut self, name: &str, bytes: u64, writable: bool, track: bool) -> Result<u64> {
        let base =
            self.gap(bytes).ok_or(Error::OutOfMemory { requested: bytes, limit: MAX_BYTES })?;
        self.place(name, base, bytes, writable, track)?;
        self.next = base + span(bytes);
        Ok(base)
    }

    /// The first room for `bytes` bytes and their guard from `next` on, from the start again if there is none.
    fn gap(&self, bytes: u64) -> Option<u64> {
        let room = |base: u64| Some(base.checked_add(bytes)? <= END - GUARD - SLOT);
        [self.next, FIRST].into_iter().find_map(|mut base| {
            let mut at = self.allocations.partition_point(|a| a.base + span(a.bytes) <= base);
            while room(base)? {
                match self.allocations.get(at) {
                    Some(a) if a.base < base + span(bytes) => base = a.base + span(a.bytes),
                    _ => return Some(base),
                }
                at += 1;
            }
            None
        })
    }

    fn place(
        &mut self,
        name: &str,
        base: u64,
        bytes: u64,
        writable: bool,
        track: bool,
    ) -> Result<()> {
        let total = self.total_with(bytes)?;
        let words = bytes.div_ceil(4) as usize;
        let refused = |()| Error::OutOfMemory { requested: total, limit: MAX_BYTES };
        let allocation = Allocation {
            name: name.to_owned(),
            base,
            bytes,
            writable,
            words: try_zeroed_slice_box(words).map_err(refused)?,
            initialised: track.then(|| try_zeroed_slice_box(words)).transpose().map_err(refused)?,
        };
        self.total = total;
        let at = self.allocations.partition_point(|a| a.base < base);
        self.allocations.insert(at, allocation);
        Ok(())
    }

    /// Maps an initialised image at a fixed address, replacing an earlier one there: the segments of a code object.
    pub(crate) fn map(&mut self, name: &str, base: u64, data: &[u8], writable: bool) -> Result<()> {
        if let Some(index) = self.allocations.iter().position(|a| a.base == base) {
            self.total -= self.allocations[index].bytes;
            self.allocations.remove(index);
        }
        self.place(name, base, data.len() as u64, writable, false)?;
        self.write(base, data)
    }

    /// The allocation that holds `bytes` bytes at `address`; `hint` is where the last one was found.
    #[inline]
    pub(crate) fn find(&self, address: u64, bytes: u64, hint: &mut usize) -> Option<&Allocation> {
        if let Some(found) = self.allocations.get(*hint)
            && found.holds(address, bytes)
        {
            return Some(found);
        }
        let at = self.allocations.partition_point(|a| a.base <= address).checked_sub(1)?;
        let found = &self.allocations[at];
        found.holds(address, bytes).then(|| {
            *hint = at;
            found
        })
    }

    /// The allocation nearest to an address that missed, with the signed distance of the address from its start.
    pub(crate) fn nearest(&self, address: u64) -> Option<(&Allocation, i128)> {
        self.allocations.iter().map(|a| (a, i128::from(address) - i128::from(a.base))).min_by_key(
            |(a, distance)| {
                if *distance < 0 { -distance } else { (distance - i128::from(a.bytes)).max(0) }
            },
        )
    }

    /// The allocations in order of address: name, address and bytes.
    pub fn allocations(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.allocations.iter().map(|a| (a.name.as_str(), a.base, a.bytes))
    }

    pub(crate) fn count(&self) -> usize {
        self.allocations.len()
    }

    fn checked(&self, address: u64, bytes: usize) -> Result<(&Allocation, u64)> {
        let error = Error::BadAddress { address, bytes: bytes as u64 };
        let found = self.find(address, bytes as u64, &mut 0).ok_or(error)?;
        Ok((found, address - found.base))
    }

    /// Copies `bytes` bytes out.
    ///
    /// # Errors
    /// [`Error::BadAddress`] unless one allocation holds them all.
    pub fn read(&self, address: u64, bytes: usize) -> Result<Vec<u8>> {
        let (allocation, offset) = self.checked(address, bytes)?;
        let mut out = Vec::with_capacity(bytes + 3);
        let mut at = offset;
        while out.len() < bytes {
            out.extend_from_slice(&allocation.load32(at).to_le_bytes());
            at += 4;
        }
        out.truncate(bytes);
        Ok(out)
    }

    /// Copies `data` in; the bytes count as initialised.
    ///
    /// # Errors
    /// [`Error::BadAddress`] unless one allocation holds them all.
    pub fn write(&mut self, address: u64, data: &[u8]) -> Result<()> {
        let (allocation, offset) = self.checked(address, data.len())?;
        for (i, chunk) in data.chunks(4).enumerate() {
            let mut word = [0u8; 4];
            word[..chunk.len()].copy_from_slice(chunk);
            allocation.store(offset + 4 * i as u64, u32::from_le_bytes(word), chunk.len() as u64);
        }
        Ok(())
    }

    /// Applies `f` to the 64-bit word at `offset` of an allocation, atomically with respect to other such updates.
    pub(crate) fn update64(
        &self,
        allocation: &Allocation,
        offset: u64,
        f: impl Fn(u64) -> u64,
    ) -> u64 {
        // A poisoned lock protects no data, so the guard of a panicked thread is as good as any.
        let _guard = self.wide.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let old =
            u64::from(allocation.load32(offset)) | u64::from(allocation.load32(offset + 4)) << 32;
        let new = f(old);
        allocation.store(offset, new as u32, 4);
        allocation.store(offset + 4, (new >> 32) as u32, 4);
        old
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip_at_odd_places() {
        let mut memory = Memory::new();
        let at = memory.alloc("x", 11).unwrap();
        memory.write(at + 1, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).unwrap();
        assert_eq!(memory.read(at + 3, 5).unwrap(), [3, 4, 5, 6, 7]);
        assert!(memory.write(at + 2, &[0; 10]).is_err());
        let found = memory.find(at, 11, &mut 0).unwrap();
        assert!(!found.is_initialised(0, 1));
        assert!(found.is_initialised(1, 10));
        assert_eq!(found.load32(5), u32::from_le_bytes([5, 6, 7, 8]));
    }

    #[test]
    fn neighbours_are_far_apart() {
        let mut memory = Memory::new();
        let a = memory.alloc("a", 16).unwrap();
        let b = memory.alloc("b", 16).unwrap();
        assert!(b - a >= GUARD);
        assert!(memory.find(a + 16, 1, &mut 0).is_none());
        assert!(memory.find(a - 1, 1, &mut 0).is_none());
        assert!(memory.find(a + 13, 4, &mut 0).is_none());
        assert_eq!(memory.nearest(a + 20).unwrap().0.name, "a");
        memory.free(a).unwrap();
        assert!(memory.read(a, 1).is_err());
        assert!(memory.free(a).is_err());
    }

    #[test]
    fn addresses_are_used_again_once_all_have_been() {
        let mut memory = Memory::new();
        let live = memory.alloc_from("live", &[7; 16]).unwrap();
        let slots = (END - FIRST) / SLOT;
        for _ in 0..2 * slots + 5 {
            let at = memory.alloc("x", 16).unwrap();
            assert!((FIRST..END).contains(&at) && at.abs_diff(live) >= GUARD);
            memory.free(at).unwrap();
        }
        assert_eq!(memory.read(live, 16).unwrap(), [7; 16]);
    }

    #[test]
    fn a_large_buffer_costs_what_is_touched() {
        let mut memory = Memory::new();
        let large = memory.alloc("large", 5 << 30).unwrap();
        let far = large + (4 << 30) + 8;
        memory.write(far, &[1, 2, 3, 4]).unwrap();
        assert_eq!(memory.read(far - 4, 12).unwrap(), [0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0]);
        let found = memory.find(far, 4, &mut 0).unwrap();
        assert!(found.is_initialised(far - large, 4));
        assert!(!found.is_initialised(far - large + 4, 4));
    }

    #[test]
    fn too_large_a_request_is_refused_with_the_limit() {
        let error = Memory::new().alloc("x", MAX_BYTES + 1).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { limit: MAX_BYTES, .. }));
    }
}
