//! Arrays on the device.

use std::sync::Arc;

use lapidary_core::{ElementType, Error, Tensor};

use crate::device::Hip;
use crate::runtime::{Runtime, RuntimeError};

/// A one-dimensional array in device memory.
///
/// Clones share the memory, which is freed with the last of them.
#[derive(Clone, Debug)]
pub struct HipTensor {
    pub(crate) memory: Arc<Memory>,
    element: ElementType,
    len: usize,
}

/// A range of device memory.
#[derive(Debug)]
pub(crate) struct Memory {
    runtime: Arc<dyn Runtime>,
    pub(crate) address: u64,
    /// Whether it is freed here, not by the program.
    owned: bool,
}

impl Memory {
    pub(crate) fn allocate(hip: &Hip, bytes: u64, what: &str) -> Result<Arc<Self>, Error> {
        let runtime = Arc::clone(&hip.inner.runtime);
        let address = runtime.alloc(bytes.max(1)).map_err(|error| match error {
            RuntimeError::OutOfMemory { requested } => Error::OutOfMemory {
                requested,
                what: what.to_owned(),
                device: hip.inner.name.clone(),
            },
            other => hip.inner.error(other),
        })?;
        Ok(Arc::new(Self { runtime, address, owned: true }))
    }
}

impl Memory {
    pub(crate) fn is_on(&self, hip: &Hip) -> bool {
        Arc::ptr_eq(&self.runtime, &hip.inner.runtime)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.owned
            && let Err(error) = self.runtime.free(self.address)
        {
            tracing::warn!(address = self.address, %error, "device memory cannot be freed");
        }
    }
}

impl HipTensor {
    /// An array in memory that belongs to the program: a pointer of its own to device memory.
    ///
    /// Nothing is freed when the tensor is dropped.
    ///
    /// # Safety
    /// `address` must be the address on `hip`'s device of `len` elements that stay allocated as long
    /// as the tensor and its clones are used. Work elsewhere that touches them must be ordered
    /// against the work on `hip`'s stream.
    #[must_use]
    pub unsafe fn from_raw(hip: &Hip, address: u64, element: ElementType, len: usize) -> Self {
        let memory = Memory { runtime: Arc::clone(&hip.inner.runtime), address, owned: false };
        Self { memory: Arc::new(memory), element, len }
    }

    pub(crate) fn allocate(hip: &Hip, element: ElementType, len: usize) -> Result<Self, Error> {
        let requested = (len as u128 * element.bits() as u128).div_ceil(8);
        let limit = isize::MAX as u128;
        if requested > limit {
            return Err(Error::LimitExceeded { what: "bytes of a tensor", requested, limit });
        }
        let memory = Memory::allocate(hip, requested as u64, "a tensor")?;
        Ok(Self { memory, element, len })
    }

    /// The device address of element 0.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address
    }

    /// Bytes the elements occupy.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.element.bytes_for(self.len)
    }

    /// The device address of element `offset`, which is even for types of four bits.
    pub(crate) fn address_of(&self, offset: usize) -> u64 {
        self.memory.address.wrapping_add(self.element.bytes_for(offset) as u64)
    }

    pub(crate) fn is_on(&self, hip: &Hip) -> bool {
        self.memory.is_on(hip)
    }

    pub(crate) fn write(&self, hip: &Hip, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.element.written(bytes.len(), offset, self.len)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.memory
            .runtime
            .write(self.address_of(offset), bytes, hip.stream)
            .map_err(|error| hip.inner.error(error))
    }

    pub(crate) fn read(&self, hip: &Hip) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(self.bytes()).map_err(|_| Error::OutOfMemory {
            requested: self.bytes() as u64,
            what: "a tensor's copy".into(),
            device: "host".into(),
        })?;
        bytes.resize(self.bytes(), 0);
        if !bytes.is_empty() {
            self.memory
                .runtime
                .read(self.memory.address, &mut bytes, hip.stream)
                .map_err(|error| hip.inner.error(error))?;
        }
        Ok(bytes)
    }
}

impl Tensor for HipTensor {
    fn element(&self) -> ElementType {
        self.element
    }

    fn len(&self) -> usize {
        self.len
    }

    /// All memory of a device counts as one allocation: pointers that a program hands in may lie in
    /// each other's.
    fn same_allocation(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.memory.runtime, &other.memory.runtime)
    }

    fn byte_offset(&self) -> usize {
        self.memory.address as usize
    }
}
