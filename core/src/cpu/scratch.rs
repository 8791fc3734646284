//! Memory that a product leaves behind for the next one.
//!
//! Fresh memory costs a page fault every four kilobytes, which a small product would notice.

use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// Bytes that are kept of each type between two products; buffers past that are freed.
const KEPT: usize = 64 << 20;

/// The buffers of a device.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) f32: Shelf<f32>,
    pub(super) f64: Shelf<f64>,
    pub(super) i32: Shelf<i32>,
}

/// Buffers that nobody uses at present, the largest last.
pub(super) struct Shelf<T>(Mutex<Vec<Vec<T>>>);

impl<T> Shelf<T> {
    /// A buffer with whatever was left in it; the largest there is, or an empty one.
    pub(super) fn take(&self) -> Buffer<'_, T> {
        let data = self.lock().pop().unwrap_or_default();
        Buffer { shelf: self, data }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<T>>> {
        // Buffers hold nothing that a panic could leave half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> fmt::Debug for Shelf<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.lock().iter().map(Vec::capacity)).finish()
    }
}

/// A buffer in use, which goes back to its shelf.
pub(super) struct Buffer<'s, T> {
    shelf: &'s Shelf<T>,
    data: Vec<T>,
}

impl<T: Copy> Buffer<'_, T> {
    /// The first `len` elements, whatever they hold; `fill` where there were none.
    pub(super) fn first(&mut self, len: usize, fill: T) -> &mut [T] {
        if self.data.len() < len {
            // What is in it need not be copied to a larger one.
            self.data.clear();
            self.data.resize(len, fill);
        }
        &mut self.data[..len]
    }
}

impl<T> Deref for Buffer<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.data
    }
}

impl<T> DerefMut for Buffer<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.data
    }
}

impl<T> Drop for Buffer<'_, T> {
    fn drop(&mut self) {
        let data = core::mem::take(&mut self.data);
        if data.capacity() == 0 {
            return;
        }
        let mut shelf = self.shelf.lock();
        let kept: usize = shelf.iter().map(Vec::capacity).sum();
        if (kept + data.capacity()).saturating_mul(size_of::<T>()) <= KEPT {
            let place = shelf.partition_point(|other| other.capacity() <= data.capacity());
            shelf.insert(place, data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_buffer_is_taken_again() {
        let shelf = Shelf::<u8>::default();
        for len in [10, 1000, 100] {
            let mut buffers = [shelf.take(), shelf.take()];
            buffers[0].first(len, 7);
            buffers[1].first(len / 2, 7);
        }
        let mut large = shelf.take();
        assert!(large.len() >= 1000, "{}", large.len());
        assert!(large.first(20, 1).iter().all(|&value| value == 7));
        assert!(shelf.take().len() < 1000);
    }

    #[test]
    fn no_more_is_kept_than_the_limit() {
        let shelf = Shelf::<u64>::default();
        let mut buffers: Vec<_> = (0..4).map(|_| shelf.take()).collect();
        for buffer in &mut buffers {
            buffer.first(KEPT / 8 / 3, 0);
        }
        drop(buffers);
        assert_eq!(shelf.lock().len(), 3);
        shelf.take().first(KEPT / 8 + 1, 0);
        assert_eq!(shelf.lock().len(), 2);
    }
}
