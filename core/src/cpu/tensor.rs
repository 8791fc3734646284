//! An array of elements in host memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::Tensor;
use crate::element::ElementType;
use crate::error::Error;
use crate::layout::Placement;
use crate::view::AnyMatrixMut;

/// An array of elements on the CPU backend, aligned to 8 bytes.
///
/// Readers take snapshots and writers copy what a snapshot still holds, so an execution whose C
/// lies in the same tensor as its A or B sees A and B as they were.
#[derive(Debug)]
pub struct CpuTensor {
    element: ElementType,
    len: usize,
    words: Mutex<Arc<Vec<u64>>>,
}

/// A tensor's content at one moment.
pub(super) struct Snapshot {
    words: Arc<Vec<u64>>,
    bytes: usize,
    element: ElementType,
}

impl Snapshot {
    pub(super) fn element(&self) -> ElementType {
        self.element
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.bytes]
    }
}

impl CpuTensor {
    pub(super) fn zeros(element: ElementType, len: usize) -> Result<Self, Error> {
        let requested = (len as u128 * element.bits() as u128).div_ceil(8);
        let limit = isize::MAX as u128;
        if requested > limit - 8 {
            return Err(Error::LimitExceeded { what: "bytes of a tensor", requested, limit });
        }
        let words = zeroed((requested as usize).div_ceil(8))?;
        Ok(Self { element, len, words: Mutex::new(Arc::new(words)) })
    }

    pub(super) fn element_type(&self) -> ElementType {
        self.element
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            words: Arc::clone(&self.lock()),
            bytes: self.element.bytes_for(self.len),
            element: self.element,
        }
    }

    pub(super) fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.element.written(bytes.len(), offset, self.len)?;
        let mut words = self.lock();
        let storage: &mut [u8] = bytemuck::cast_slice_mut(writable(&mut words)?.as_mut_slice());
        storage[self.element.bytes_for(offset)..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    pub(super) fn read(&self) -> Result<Vec<u8>, Error> {
        let snapshot = self.snapshot();
        let bytes = snapshot.bytes();
        let mut copy = Vec::new();
        copy.try_reserve_exact(bytes.len()).map_err(|_| out_of_memory(bytes.len()))?;
        copy.extend_from_slice(bytes);
        Ok(copy)
    }

    /// Runs `f` on a matrix in the tensor, which nobody else can touch meanwhile.
    pub(super) fn with_matrix<R>(
        &self,
        placement: Placement,
        f: impl FnOnce(AnyMatrixMut<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut words = self.lock();
        let storage = &mut bytemuck::cast_slice_mut(writable(&mut words)?.as_mut_slice())
            [..self.element.bytes_for(self.len)];
        f(AnyMatrixMut::from_bytes(storage, self.element, placement)?)
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Vec<u64>>> {
        // A panic elsewhere leaves plain numbers behind: nothing to protect readers from.
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tensor for CpuTensor {
    fn element(&self) -> ElementType {
        self.element
    }

    fn len(&self) -> usize {
        self.len
    }

    fn same_allocation(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

/// The words, copied first if a snapshot still holds them.
fn writable(words: &mut Arc<Vec<u64>>) -> Result<&mut Vec<u64>, Error> {
    if Arc::get_mut(words).is_none() {
        let mut copy = Vec::new();
        copy.try_reserve_exact(words.len()).map_err(|_| out_of_memory(words.len() * 8))?;
        copy.extend_from_slice(words);
        *words = Arc::new(copy);
    }
    Ok(Arc::make_mut(words))
}

fn zeroed(words: usize) -> Result<Vec<u64>, Error> {
    let mut storage = Vec::new();
    storage.try_reserve_exact(words).map_err(|_| out_of_memory(words.saturating_mul(8)))?;
    storage.resize(words, 0);
    Ok(storage)
}

fn out_of_memory(bytes: usize) -> Error {
    Error::OutOfMemory { requested: bytes as u64, what: "a tensor".into(), device: "host".into() }
}
