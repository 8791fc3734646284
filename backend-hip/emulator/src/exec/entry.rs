//! What a kernel finds when it starts: its first instruction, its user registers, the dispatch packet.

use super::checked::ALWAYS_SET;
use super::launch::{Launch, Prepared};
use super::wave::number;
use crate::loader::Descriptor;
use crate::{Error, Result};

/// Where the kernel argument segment lies.
pub(super) const KERNARG_BASE: u64 = 0x0000_5000_0000_0000;
/// Where the dispatch packet lies.
pub(super) const DISPATCH_BASE: u64 = 0x0000_5100_0000_0000;
/// Bytes of a dispatch packet.
const DISPATCH_BYTES: usize = 64;
/// A queue object that kernels may point at but have no need to read.
pub(super) const QUEUE_BASE: u64 = 0x0000_5200_0000_0000;
/// What registers and LDS hold before anything is written: a NaN that no computation gives.
pub(super) const POISON: u32 = 0x7fc0_beef;
/// The code before the real entry of a kernel with preloaded arguments, for loaders that do not preload.
const PRELOAD_PROLOGUE: u64 = 256;
/// Scalar registers beyond the last, so that an operand that starts inside cannot end outside the file.
const SPARE_SCALARS: usize = 16;

/// The index of the first instruction.
pub(super) fn entry(prepared: &Prepared, launch: &Launch) -> Result<usize> {
    let kernel = prepared.kernel();
    if kernel.descriptor.kernarg_preload_dwords == 0 || !launch.preload {
        return Ok(prepared.plan().program.entry);
    }
    let address = kernel.entry + PRELOAD_PROLOGUE;
    prepared.plan().program.index_of(address).ok_or_else(|| Error::BadDescriptor {
        kernel: kernel.meta.name.clone(),
        reason: format!(
            "no instruction starts at {address:#x}, the entry with preloaded arguments"
        ),
    })
}

/// A dispatch packet (HSA's kernel dispatch packet): sizes, and the argument segment.
pub(super) fn packet(prepared: &Prepared, launch: &Launch) -> Vec<u8> {
    let mut packet = vec![0u8; DISPATCH_BYTES];
    for (d, at) in [4usize, 6, 8].into_iter().enumerate() {
        packet[at..at + 2].copy_from_slice(&(launch.workgroup[d] as u16).to_le_bytes());
        let items = launch.grid[d].saturating_mul(launch.workgroup[d]);
        packet[12 + 4 * d..16 + 4 * d].copy_from_slice(&items.to_le_bytes());
    }
    let descriptor = &prepared.kernel().descriptor;
    packet[24..28].copy_from_slice(&descriptor.scratch_bytes().to_le_bytes());
    let lds = descriptor.group_segment_bytes.saturating_add(launch.dynamic_lds);
    packet[28..32].copy_from_slice(&lds.to_le_bytes());
    packet[40..48].copy_from_slice(&KERNARG_BASE.to_le_bytes());
    packet
}

/// The user scalar registers, in the order in which the descriptor enables them, and which registers hold a value.
pub(super) fn user_scalars(descriptor: &Descriptor, segment: &[u8]) -> (Vec<u32>, u128) {
    let mut values: Vec<u32> = Vec::new();
    let mut pair = |enabled: bool, value: u64| {
        if enabled {
            values.extend([value as u32, (value >> 32) as u32]);
        }
    };
    // The descriptor of the scratch buffer: unused where scratch instructions address it, so null.
    pair(descriptor.private_segment_buffer, 0);
    pair(descriptor.private_segment_buffer, 0);
    pair(descriptor.dispatch_ptr, DISPATCH_BASE);
    pair(descriptor.queue_ptr, QUEUE_BASE);
    pair(descriptor.kernarg_segment_ptr, KERNARG_BASE);
    pair(descriptor.dispatch_id, 0);
    pair(descriptor.flat_scratch_init, 0);
    if descriptor.private_segment_size {
        values.push(descriptor.scratch_bytes());
    }
    let first = usize::from(descriptor.kernarg_preload_offset);
    for dword in first..first + usize::from(descriptor.kernarg_preload_dwords) {
        let bytes = segment.get(4 * dword..4 * dword + 4).and_then(|bytes| bytes.try_into().ok());
        values.push(bytes.map_or(0, u32::from_le_bytes));
    }
    let mut scalars = vec![POISON; 128 + SPARE_SCALARS];
    let count = values.len().min(usize::from(descriptor.user_sgprs));
    scalars[..count].copy_from_slice(&values[..count]);
    for n in [number::FLAT_SCRATCH, number::XNACK_MASK] {
        scalars[n..n + 2].fill(0);
    }
    (scalars, ((1u128 << count) - 1) | ALWAYS_SET)
}
