//! Device memory for tiles of one operand, filled from the host's.

use lapidary_core::{AnyMatrixRef, ElementType, Error, Shape};

use super::cut::Order;
use crate::device::Wgsl;
use crate::tensor::WgslTensor;

/// One or two tiles of an operand on the device. While one is read the other is filled.
#[derive(Debug)]
pub(super) struct Slots {
    order: Order,
    slots: Vec<Slot>,
    /// The slot filled or found last.
    last: usize,
}

#[derive(Debug)]
struct Slot {
    tensor: WgslTensor,
    /// Matrix, row and column at which the tile starts that it holds.
    holds: Option<[usize; 3]>,
}

impl Slots {
    /// `count` slots for tiles of up to `shape`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or [`Error::LimitExceeded`].
    pub(super) fn new(
        device: &Wgsl,
        element: ElementType,
        order: Order,
        shape: Shape,
        count: usize,
    ) -> Result<Self, Error> {
        let len = usize::try_from(order.len(shape, element.size())).unwrap_or(usize::MAX);
        let slot = || Ok(Slot { tensor: device.allocate(element, len)?, holds: None });
        let slots = (0..count.max(1)).map(|_| slot()).collect::<Result<_, Error>>()?;
        Ok(Self { order, slots, last: 0 })
    }

    /// The tile filled, found or freed last.
    pub(super) fn current(&self) -> &WgslTensor {
        &self.slots[self.last].tensor
    }

    /// Goes on to the next slot, whose tile nobody wants any more.
    pub(super) fn next(&mut self) {
        self.last = (self.last + 1) % self.slots.len();
        self.slots[self.last].holds = None;
    }

    /// Makes the tile of `view` that starts at matrix, row and column `at` the current one; uploads it
    /// unless it is there.
    ///
    /// The copy is ordered after everything submitted before, and before what comes after.
    ///
    /// # Errors
    /// What the device reports.
    pub(super) fn tile(
        &mut self,
        device: &Wgsl,
        view: AnyMatrixRef<'_>,
        at: [usize; 3],
        shape: Shape,
    ) -> Result<(), Error> {
        let at = if self.order.shared { [0, at[1], at[2]] } else { at };
        if let Some(found) = self.slots.iter().position(|slot| slot.holds == Some(at)) {
            self.last = found;
        } else {
            self.next();
            device.fill(self.current(), self.order, view, at, shape)?;
            self.slots[self.last].holds = Some(at);
        }
        Ok(())
    }
}

impl Wgsl {
    /// Writes a tile of a host matrix to the start of a tensor, line by line, with zeros between lines.
    fn fill(
        &self,
        tensor: &WgslTensor,
        order: Order,
        view: AnyMatrixRef<'_>,
        at: [usize; 3],
        shape: Shape,
    ) -> Result<(), Error> {
        let size = view.element().size();
        let pitch = order.pitch(shape, size) * size;
        let (lines, len) = order.lines(shape);
        let matrices = if order.shared { 1 } else { shape.batch };
        let bytes = matrices * lines * pitch;
        let Some(whole) = wgpu::BufferSize::new(bytes as u64) else { return Ok(()) };
        let _span = tracing::info_span!("upload", bytes, device = self.inner.name).entered();
        let placement = view.placement();
        let layout = placement.layout;
        let (line_stride, stride) = if order.along_rows {
            (layout.row_stride, layout.col_stride)
        } else {
            (layout.col_stride, layout.row_stride)
        };
        let host = view.bytes();
        self.inner.scoped("uploading", bytes as u64, || {
            let queue = &self.inner.queue;
            let Some(mut staging) = queue.write_buffer_with(&tensor.buffer, 0, whole) else {
                // What went wrong is in the device's report.
                return;
            };
            let mut staging = staging.slice(..);
            let mut spread = vec![0; pitch];
            for matrix in 0..matrices {
                for line in 0..lines {
                    // The view's bounds are proven; products on the way may wrap, and wrap back.
                    let first = layout.index(at[0] + matrix, at[1], at[2])
                        + line as i128 * line_stride as i128;
                    let first = (placement.offset as i128 + first) as usize;
                    let at = (matrix * lines + line) * pitch;
                    let mut target = staging.slice(at..at + pitch);
                    if stride == 1 {
                        target
                            .slice(..len * size)
                            .copy_from_slice(&host[first * size..(first + len) * size]);
                        target.slice(len * size..).copy_from_slice(&spread[len * size..]);
                        continue;
                    }
                    for (index, element) in spread.chunks_exact_mut(size).take(len).enumerate() {
                        let from = first.wrapping_add_signed(stride.wrapping_mul(index as isize));
                        element.copy_from_slice(&host[from * size..(from + 1) * size]);
                    }
                    target.copy_from_slice(&spread);
                }
            }
        })
    }
}
