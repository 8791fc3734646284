//! Arrays on the device.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use lapidary_core::{ElementType, Error, Tensor};

use crate::device::{Inner, Wgsl};

/// A one-dimensional array in a `wgpu::Buffer`, or in part of one.
#[derive(Clone, Debug)]
pub struct WgslTensor {
    pub(crate) buffer: wgpu::Buffer,
    pub(crate) byte_offset: u64,
    element: ElementType,
    len: usize,
    /// The device that allocated it; none where the buffer is the program's own, in which others'
    /// data may follow the last element.
    owner: Option<u64>,
}

impl Tensor for WgslTensor {
    fn element(&self) -> ElementType {
        self.element
    }

    fn len(&self) -> usize {
        self.len
    }

    fn same_allocation(&self, other: &Self) -> bool {
        self.buffer == other.buffer
    }

    fn byte_offset(&self) -> usize {
        self.byte_offset as usize
    }
}

fn bits_of(element: ElementType, len: usize) -> Option<u64> {
    (len as u64).checked_mul(element.bits() as u64)
}

/// What kernels and copies do with a buffer of ours.
const OURS: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE
    .union(wgpu::BufferUsages::COPY_SRC)
    .union(wgpu::BufferUsages::COPY_DST);

/// Bytes that `len` elements occupy in a buffer of ours: whole 16-byte vectors, at least one, so
/// that a vector load may end in the padding.
fn allocated_bytes(element: ElementType, len: usize) -> Option<u64> {
    bits_of(element, len)?.div_ceil(8).max(1).checked_next_multiple_of(16)
}

/// Bytes that `len` elements occupy in any buffer: whole words, which is what bindings consist of.
fn bound_bytes(element: ElementType, len: usize) -> Option<u64> {
    bits_of(element, len)?.div_ceil(8).checked_next_multiple_of(4)
}

/// Refuses f4e2m1: of the types whose elements share bytes, i4 alone has a shader here.
fn refuse_f4(element: ElementType) -> Result<(), Error> {
    if !element.is_packed() || element == ElementType::I4 {
        return Ok(());
    }
    Err(Error::ElementTypeUnavailable {
        backend: "wgsl".into(),
        element,
        needs: "i4, or a type of at least a byte: no shader decodes this one",
    })
}

impl WgslTensor {
    /// `len` elements of a buffer the program already has, from byte `byte_offset` on.
    ///
    /// The buffer needs the usage `STORAGE`, and `COPY_DST` or `COPY_SRC` for uploads and downloads.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] if the elements, rounded up to whole 32-bit words, reach past the
    /// buffer's end; [`Error::UnsupportedView`] if `byte_offset` is not a multiple of 4 or the usage
    /// is missing; [`Error::ElementTypeUnavailable`] for f4e2m1.
    pub fn from_buffer(
        buffer: wgpu::Buffer,
        byte_offset: u64,
        element: ElementType,
        len: usize,
    ) -> Result<Self, Error> {
        refuse_f4(element)?;
        if !byte_offset.is_multiple_of(4) {
            return Err(Error::UnsupportedView {
                reason: format!("a tensor starts at a multiple of 4 bytes, not at {byte_offset}"),
            });
        }
        if !buffer.usage().contains(wgpu::BufferUsages::STORAGE) {
            return Err(Error::UnsupportedView {
                reason: format!("the buffer's usage is {:?}, it lacks STORAGE", buffer.usage()),
            });
        }
        let end = bound_bytes(element, len).and_then(|b| b.checked_add(byte_offset));
        if end.is_none_or(|end| end > buffer.size()) {
            return Err(Error::LimitExceeded {
                what: "end of a tensor in its buffer, in bytes",
                requested: end.map_or(u128::MAX, u128::from),
                limit: u128::from(buffer.size()),
            });
        }
        Ok(Self { buffer, byte_offset, element, len, owner: None })
    }

    /// The buffer.
    #[must_use]
    pub fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }
}

impl Wgsl {
    pub(crate) fn allocate(&self, element: ElementType, len: usize) -> Result<WgslTensor, Error> {
        let bytes = self.tensor_bytes(element, len)?;
        let buffer = self.inner.buffer("lapidary tensor", bytes, wgpu::BufferUsages::empty())?;
        Ok(WgslTensor { buffer, byte_offset: 0, element, len, owner: Some(self.inner.id) })
    }

    /// The same, for a result that is read back once: in place where the host can.
    pub(crate) fn allocate_output(
        &self,
        element: ElementType,
        len: usize,
    ) -> Result<WgslTensor, Error> {
        if !self.inner.limits.unified {
            return self.allocate(element, len);
        }
        let bytes = self.tensor_bytes(element, len)?;
        let buffer = self.inner.buffer("lapidary output", bytes, wgpu::BufferUsages::MAP_READ)?;
        Ok(WgslTensor { buffer, byte_offset: 0, element, len, owner: Some(self.inner.id) })
    }

    /// A new tensor with these elements; `bytes` is a whole number of them.
    ///
    /// Where the device's memory is the host's ([`DeviceLimits::unified`](crate::DeviceLimits)) they are
    /// written in place, else as [`Backend::upload`](lapidary_core::Backend::upload) does.
    ///
    /// # Errors
    /// [`Error::PartialElement`], and as [`Backend::alloc`](lapidary_core::Backend::alloc) and
    /// [`Backend::upload`](lapidary_core::Backend::upload).
    pub fn tensor(&self, element: ElementType, bytes: &[u8]) -> Result<WgslTensor, Error> {
        refuse_f4(element)?;
        if !bytes.len().is_multiple_of(element.size()) {
            return Err(Error::PartialElement { bytes: bytes.len(), element });
        }
        let len = element.capacity(bytes.len());
        if !self.inner.limits.unified {
            let tensor = self.allocate(element, len)?;
            self.write(&tensor, 0, bytes)?;
            return Ok(tensor);
        }
        let size = self.tensor_bytes(element, len)?;
        let inner = &self.inner;
        let _span =
            tracing::info_span!("upload", bytes = bytes.len(), device = inner.name).entered();
        let (buffer, mapped) = inner.scoped("allocating a buffer", size, || {
            let buffer = inner.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("lapidary tensor"),
                size,
                usage: OURS | wgpu::BufferUsages::MAP_WRITE,
                mapped_at_creation: true,
            });
            let mapped = buffer.get_mapped_range_mut(..).map(|mut view| {
                view.slice(..bytes.len()).copy_from_slice(bytes);
            });
            buffer.unmap();
            (buffer, mapped)
        })?;
        mapped.map_err(|error| Error::Device {
            device: inner.name.clone(),
            operation: "uploading",
            message: error.to_string(),
        })?;
        Ok(WgslTensor { buffer, byte_offset: 0, element, len, owner: Some(inner.id) })
    }

    /// Bytes of a buffer for a tensor.
    fn tensor_bytes(&self, element: ElementType, len: usize) -> Result<u64, Error> {
        refuse_f4(element)?;
        let limit = self.inner.limits.buffer_bytes;
        match allocated_bytes(element, len) {
            Some(bytes) if bytes <= limit => Ok(bytes),
            bytes => Err(Error::LimitExceeded {
                what: "bytes of a device buffer",
                requested: bytes.map_or(u128::MAX, u128::from),
                limit: u128::from(limit),
            }),
        }
    }

    /// Refuses a tensor that another device allocated.
    ///
    /// wgpu tells buffers apart by numbers that are counted for each instance, so it would take the
    /// buffer of this device that has the same number.
    pub(crate) fn check_owner(&self, tensor: &WgslTensor) -> Result<(), Error> {
        if tensor.owner.is_none_or(|owner| owner == self.inner.id) {
            return Ok(());
        }
        Err(Error::Device {
            device: self.inner.name.clone(),
            operation: "using a tensor",
            message: "it was allocated on another device".into(),
        })
    }

    /// Copies bytes into a tensor; parts of a word at either end keep their neighbours.
    pub(crate) fn write(
        &self,
        tensor: &WgslTensor,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Error> {
        tensor.element.written(bytes.len(), offset, tensor.len)?;
        self.check_owner(tensor)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let first = tensor.element.bytes_for(offset);
        let last = first + bytes.len();
        let (word_first, word_last) = (first / 4 * 4, last.next_multiple_of(4));
        let _span =
            tracing::info_span!("upload", bytes = bytes.len(), device = self.inner.name).entered();
        if (word_first, word_last) == (first, last) {
            return self.write_words(tensor, first, bytes);
        }
        // What else is in the words at the ends keeps its bits. In a buffer of ours nothing but
        // padding lies behind the last element; in a program's own buffer somebody else's data may.
        let mut words = vec![0; word_last - word_first];
        let ends_tensor = last == tensor.element.bytes_for(tensor.len);
        let keeps_back = word_last > last && (tensor.owner.is_none() || !ends_tensor);
        if word_first < first || keeps_back {
            let at = tensor.byte_offset + word_first as u64;
            words = pollster::block_on(self.read_bytes(&tensor.buffer, at, words.len()))?;
        }
        words[first - word_first..last - word_first].copy_from_slice(bytes);
        self.write_words(tensor, word_first, &words)
    }

    fn write_words(&self, tensor: &WgslTensor, first: usize, words: &[u8]) -> Result<(), Error> {
        self.inner.scoped("uploading", words.len() as u64, || {
            self.inner.queue.write_buffer(&tensor.buffer, tensor.byte_offset + first as u64, words);
        })
    }

    /// Copies all elements back.
    pub(crate) async fn read(&self, tensor: &WgslTensor) -> Result<Vec<u8>, Error> {
        self.check_owner(tensor)?;
        let bytes = tensor.element.bytes_for(tensor.len);
        let mut data = self.read_bytes(&tensor.buffer, tensor.byte_offset, bytes).await?;
        data.truncate(bytes);
        Ok(data)
    }

    /// Hands all elements to `take`, without a copy where the host reads the device's memory in place.
    pub(crate) async fn with_elements<T>(
        &self,
        tensor: &WgslTensor,
        take: impl FnOnce(&[u8]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if !tensor.buffer.usage().contains(wgpu::BufferUsages::MAP_READ) {
            return take(&self.read(tensor).await?);
        }
        self.check_owner(tensor)?;
        let inner = &self.inner;
        let bytes = tensor.element.bytes_for(tensor.len);
        inner.check_alive()?;
        inner
            .scoped("mapping a buffer", 0, || Mapping::start(Arc::clone(inner), &tensor.buffer))?
            .await?;
        let result = match tensor.buffer.slice(..).get_mapped_range() {
            Ok(view) => take(&view[..bytes]),
            Err(error) => Err(Error::Device {
                device: inner.name.clone(),
                operation: "reading back",
                message: error.to_string(),
            }),
        };
        tensor.buffer.unmap();
        result
    }

    /// Copies bytes of a buffer back, rounded up to whole words, through a staging buffer.
    pub(crate) async fn read_bytes(
        &self,
        buffer: &wgpu::Buffer,
        offset: u64,
        bytes: usize,
    ) -> Result<Vec<u8>, Error> {
        if bytes == 0 {
            return Ok(Vec::new());
        }
        let inner = &self.inner;
        let size = (bytes as u64).next_multiple_of(4);
        let span = tracing::info_span!("readback", bytes, device = inner.name);
        let staging = span.in_scope(|| {
            inner.scoped("allocating a staging buffer", size, || {
                let staging = inner.device.create_buffer(&wgpu::BufferDescriptor {
                    label: Some("lapidary readback"),
                    size,
                    usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
                    mapped_at_creation: false,
                });
                let mut encoder = inner.device.create_command_encoder(&Default::default());
                encoder.copy_buffer_to_buffer(buffer, offset, &staging, 0, size);
                inner.queue.submit([encoder.finish()]);
                staging
            })
        })?;
        let mapping = Mapping::start(Arc::clone(&self.inner), &staging);
        mapping.await?;
        let slice = staging.slice(..);
        let view = slice.get_mapped_range().map_err(|error| Error::Device {
            device: inner.name.clone(),
            operation: "reading back",
            message: error.to_string(),
        })?;
        Ok(view.to_vec())
    }
}

impl Inner {
    /// A buffer kernels can use.
    pub(crate) fn buffer(
        &self,
        label: &str,
        size: u64,
        extra: wgpu::BufferUsages,
    ) -> Result<wgpu::Buffer, Error> {
        self.scoped("allocating a buffer", size, || {
            self.device.create_buffer(&wgpu::BufferDescriptor {
                label: Some(label),
                size,
                usage: OURS | extra,
                mapped_at_creation: false,
            })
        })
    }
}

/// Resolves when the device has done everything submitted before, and a buffer is mapped.
///
/// Native wgpu calls back only while somebody polls the device, so a thread of its own waits; the
/// task that awaits is free meanwhile.
struct Mapping {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    result: Option<Result<(), Error>>,
    waker: Option<Waker>,
}

impl Shared {
    fn finish(shared: &Mutex<Self>, result: Result<(), Error>) {
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.result.get_or_insert(result);
        if let Some(waker) = shared.waker.take() {
            waker.wake();
        }
    }
}

impl Mapping {
    fn start(inner: Arc<Inner>, staging: &wgpu::Buffer) -> Self {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let mapped = Arc::clone(&shared);
        let device = inner.name.clone();
        staging.map_async(wgpu::MapMode::Read, .., move |result| {
            let result = result.map_err(|error| Error::Device {
                device,
                operation: "mapping a buffer",
                message: error.to_string(),
            });
            Shared::finish(&mapped, result);
        });
        Self::wait(inner, &shared);
        Self { shared }
    }

    /// Resolves when everything submitted before has finished.
    fn idle(inner: Arc<Inner>) -> Self {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let done = Arc::clone(&shared);
        inner.queue.on_submitted_work_done(move || Shared::finish(&done, Ok(())));
        Self::wait(inner, &shared);
        Self { shared }
    }

    fn wait(inner: Arc<Inner>, shared: &Arc<Mutex<Shared>>) {
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            if let Err(error) = inner.wait() {
                Shared::finish(&shared, Err(error));
            }
        });
    }
}

impl Future for Mapping {
    type Output = Result<(), Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                shared.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Wgsl {
    /// Waits until everything submitted before has finished.
    pub(crate) async fn idle(&self) -> Result<(), Error> {
        self.inner.check_alive()?;
        Mapping::idle(Arc::clone(&self.inner)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_types_that_share_bytes_only_i4_has_tensors() {
        for element in ElementType::ALL {
            let refused = matches!(
                refuse_f4(element),
                Err(Error::ElementTypeUnavailable { element: found, .. }) if found == element
            );
            let undecoded = element.is_packed() && element != ElementType::I4;
            assert_eq!(refused, undecoded, "{element}");
        }
    }
}
