//! Laying out the kernel argument segment.

use super::metadata::{HiddenArg, KernelMetadata, ValueKind};
use crate::{Error, Result};

/// One explicit kernel argument, little endian in the segment.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgValue {
    /// 32 bits.
    U32(u32),
    /// 32 bits.
    I32(i32),
    /// 64 bits; also an address in the emulated address space.
    U64(u64),
    /// 64 bits.
    I64(i64),
    /// 32 bits.
    F32(f32),
    /// 64 bits.
    F64(f64),
    /// Any by-value argument, as its bytes.
    Bytes(Vec<u8>),
}

impl ArgValue {
    /// The bytes as they lie in the segment.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            ArgValue::U32(x) => x.to_le_bytes().to_vec(),
            ArgValue::I32(x) => x.to_le_bytes().to_vec(),
            ArgValue::U64(x) => x.to_le_bytes().to_vec(),
            ArgValue::I64(x) => x.to_le_bytes().to_vec(),
            ArgValue::F32(x) => x.to_le_bytes().to_vec(),
            ArgValue::F64(x) => x.to_le_bytes().to_vec(),
            ArgValue::Bytes(x) => x.clone(),
        }
    }
}

/// A launch: how many workgroups of how many work-items, in x, y and z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Workgroups in each dimension.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in each dimension.
    pub block: [u32; 3],
}

/// The hidden values that the geometry does not state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HiddenValues {
    /// Bytes of dynamically allocated LDS.
    pub dynamic_lds_bytes: u32,
    /// High half of the scratch aperture's base.
    pub private_base_hi: u32,
    /// High half of the LDS aperture's base.
    pub shared_base_hi: u32,
}

/// The argument segment of a launch: explicit arguments in order, hidden ones by their kind, padding zero.
///
/// # Errors
/// [`Error::BadArguments`] if the number of explicit arguments or the size of one differs from the metadata.
pub fn segment(
    kernel: &KernelMetadata,
    values: &[ArgValue],
    geometry: &Geometry,
    hidden: &HiddenValues,
) -> Result<Vec<u8>> {
    let bad = |reason: String| Error::BadArguments { kernel: kernel.name.clone(), reason };
    let explicit =
        kernel.args.iter().filter(|arg| !matches!(arg.kind, ValueKind::Hidden(_))).count();
    if values.len() != explicit {
        return Err(bad(format!("{} arguments given, it takes {explicit}", values.len())));
    }
    let mut bytes = vec![0u8; kernel.kernarg_bytes as usize];
    let mut put = |index: usize, offset: u32, size: u32, value: &[u8]| {
        let slot = (offset as usize)
            .checked_add(size as usize)
            .and_then(|end| bytes.get_mut(offset as usize..end));
        match slot {
            Some(slot) if slot.len() == value.len() => {
                slot.copy_from_slice(value);
                Ok(())
            }
            _ => Err(bad(format!(
                "argument {index} has {} bytes, its slot at offset {offset} has {size}",
                value.len()
            ))),
        }
    };
    let mut next = values.iter();
    for (index, arg) in kernel.args.iter().enumerate() {
        let value = match arg.kind {
            ValueKind::Hidden(kind) => {
                let full = hidden_value(kind, geometry, hidden).to_le_bytes();
                let mut value = vec![0u8; arg.size as usize];
                let copied = value.len().min(full.len());
                value[..copied].copy_from_slice(&full[..copied]);
                value
            }
            ValueKind::ByValue | ValueKind::GlobalBuffer | ValueKind::DynamicSharedPointer => {
                next.next().map(ArgValue::to_bytes).unwrap_or_default()
            }
        };
        put(index, arg.offset, arg.size, &value)?;
    }
    Ok(bytes)
}

fn hidden_value(kind: HiddenArg, geometry: &Geometry, hidden: &HiddenValues) -> u64 {
    let dimension =
        |sizes: &[u32; 3], d: u8| u64::from(sizes.get(usize::from(d)).copied().unwrap_or(0));
    match kind {
        HiddenArg::BlockCount(d) => dimension(&geometry.grid, d),
        HiddenArg::GroupSize(d) => dimension(&geometry.block, d),
        // The grid is a whole number of workgroups, at work-item offset zero.
        HiddenArg::Remainder(_) | HiddenArg::GlobalOffset(_) | HiddenArg::Other => 0,
        HiddenArg::GridDims => {
            let sizes = [0, 1, 2].map(|d| geometry.grid[d].saturating_mul(geometry.block[d]));
            if sizes[2] > 1 {
                3
            } else if sizes[1] > 1 {
                2
            } else {
                1
            }
        }
        HiddenArg::DynamicLdsSize => u64::from(hidden.dynamic_lds_bytes),
        HiddenArg::PrivateBase => u64::from(hidden.private_base_hi),
        HiddenArg::SharedBase => u64::from(hidden.shared_base_hi),
    }
}
