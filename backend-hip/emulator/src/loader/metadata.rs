//! The `NT_AMDGPU_METADATA` note: a msgpack map that names kernels, their arguments and their needs.
//!
//! Keys are those of code object v3 and later (LLVM's AMDGPU usage guide, "Code Object V3 Metadata" and its
//! successors).

use crate::{Error, Result};
use rmpv::Value;

/// Nesting a metadata note may have; real ones use six levels.
const MAX_DEPTH: usize = 32;

/// The largest kernel argument segment; compilers allow a few kilobytes.
pub const MAX_KERNARG_BYTES: u32 = 1 << 20;

/// What a kernel argument slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A value copied into the segment.
    ByValue,
    /// A pointer to global memory.
    GlobalBuffer,
    /// A pointer into dynamically allocated LDS: the launcher passes its LDS offset.
    DynamicSharedPointer,
    /// A value the launcher fills in.
    Hidden(HiddenArg),
}

/// The hidden arguments the launcher knows how to fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenArg {
    /// Workgroups in dimension 0 to 2, whole ones only.
    BlockCount(u8),
    /// Work-items of a workgroup in dimension 0 to 2.
    GroupSize(u8),
    /// Work-items of the last partial workgroup in dimension 0 to 2; 0 if there is none.
    Remainder(u8),
    /// Work-item offset of the grid in dimension 0 to 2.
    GlobalOffset(u8),
    /// Dimensions of the grid, 1 to 3.
    GridDims,
    /// Bytes of dynamically allocated LDS.
    DynamicLdsSize,
    /// High half of the scratch aperture's base.
    PrivateBase,
    /// High half of the LDS aperture's base.
    SharedBase,
    /// Anything else (printf buffer, heap, queue pointers): zero.
    Other,
}

impl HiddenArg {
    fn parse(kind: &str) -> HiddenArg {
        let dimension = |prefix: &str| match kind.strip_prefix(prefix) {
            Some("x") => Some(0),
            Some("y") => Some(1),
            Some("z") => Some(2),
            _ => None,
        };
        if let Some(d) = dimension("hidden_block_count_") {
            HiddenArg::BlockCount(d)
        } else if let Some(d) = dimension("hidden_group_size_") {
            HiddenArg::GroupSize(d)
        } else if let Some(d) = dimension("hidden_remainder_") {
            HiddenArg::Remainder(d)
        } else if let Some(d) = dimension("hidden_global_offset_") {
            HiddenArg::GlobalOffset(d)
        } else {
            match kind {
                "hidden_grid_dims" => HiddenArg::GridDims,
                "hidden_dynamic_lds_size" => HiddenArg::DynamicLdsSize,
                "hidden_private_base" => HiddenArg::PrivateBase,
                "hidden_shared_base" => HiddenArg::SharedBase,
                _ => HiddenArg::Other,
            }
        }
    }
}

/// One argument slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// Its name where the compiler kept it.
    pub name: Option<String>,
    /// Byte offset in the kernel argument segment.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// What it holds.
    pub kind: ValueKind,
}

/// What the metadata says of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelMetadata {
    /// The kernel's name.
    pub name: String,
    /// The symbol of its descriptor, usually `name.kd`.
    pub symbol: String,
    /// Explicit and hidden arguments, in the order of the note.
    pub args: Vec<Arg>,
    /// Bytes of the kernel argument segment.
    pub kernarg_bytes: u32,
    /// Static LDS bytes of a workgroup.
    pub group_segment_bytes: u32,
    /// Scratch bytes of a lane.
    pub private_segment_bytes: u32,
    /// Most work-items a workgroup may have.
    pub max_workgroup_size: u32,
    /// Scalar registers used.
    pub sgprs: u32,
    /// Vector registers used, AGPRs included where the compiler counts so.
    pub vgprs: u32,
    /// Accumulation registers used.
    pub agprs: u32,
}

/// Reads a metadata note.
///
/// # Errors
/// [`Error::BadMetadata`] naming the key that is absent or has the wrong type or value.
pub fn parse(note: &[u8]) -> Result<Vec<KernelMetadata>> {
    let mut reader = note;
    let root = rmpv::decode::read_value_with_max_depth(&mut reader, MAX_DEPTH)
        .map_err(|error| Error::BadMetadata { reason: format!("not msgpack: {error}") })?;
    let kernels = array(field(&root, "amdhsa.kernels", "the note")?, "amdhsa.kernels")?;
    kernels.iter().map(kernel).collect()
}

fn kernel(map: &Value) -> Result<KernelMetadata> {
    let name = text(field(map, ".name", "a kernel")?, ".name")?;
    let symbol = text(field(map, ".symbol", &name)?, ".symbol")?;
    let number = |key: &str| int(field(map, key, &name)?, key);
    let optional = |key: &str| lookup(map, key).map_or(Ok(0), |value| int(value, key));
    let args = match lookup(map, ".args") {
        Some(list) => array(list, ".args")?.iter().map(arg).collect::<Result<Vec<_>>>()?,
        None => Vec::new(),
    };
    let kernarg_bytes = number(".kernarg_segment_size")?;
    if kernarg_bytes > MAX_KERNARG_BYTES {
        let reason = format!(
            "`{name}` has {kernarg_bytes} bytes of arguments, the limit is {MAX_KERNARG_BYTES}"
        );
        return Err(Error::BadMetadata { reason });
    }
    for arg in &args {
        let end = u64::from(arg.offset) + u64::from(arg.size);
        if end > u64::from(kernarg_bytes) {
            let reason = format!(
                "an argument of `{name}` ends at byte {end} of a {kernarg_bytes}-byte argument segment"
            );
            return Err(Error::BadMetadata { reason });
        }
    }
    Ok(KernelMetadata {
        args,
        kernarg_bytes,
        group_segment_bytes: number(".group_segment_fixed_size")?,
        private_segment_bytes: number(".private_segment_fixed_size")?,
        max_workgroup_size: number(".max_flat_workgroup_size")?,
        sgprs: optional(".sgpr_count")?,
        vgprs: optional(".vgpr_count")?,
        agprs: optional(".agpr_count")?,
        name,
        symbol,
    })
}

fn arg(map: &Value) -> Result<Arg> {
    let kind = text(field(map, ".value_kind", "an argument")?, ".value_kind")?;
    let kind = match kind.as_str() {
        "by_value" => ValueKind::ByValue,
        "global_buffer" => ValueKind::GlobalBuffer,
        "dynamic_shared_pointer" => ValueKind::DynamicSharedPointer,
        hidden if hidden.starts_with("hidden_") => ValueKind::Hidden(HiddenArg::parse(hidden)),
        other => {
            return Err(Error::BadMetadata {
                reason: format!("argument kind `{other}` is not one a GEMM kernel takes"),
            });
        }
    };
    Ok(Arg {
        name: lookup(map, ".name").and_then(Value::as_str).map(str::to_owned),
        offset: int(field(map, ".offset", "an argument")?, ".offset")?,
        size: int(field(map, ".size", "an argument")?, ".size")?,
        kind,
    })
}

fn lookup<'a>(map: &'a Value, key: &str) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(k, _)| k.as_str() == Some(key)).map(|(_, value)| value)
}

fn field<'a>(map: &'a Value, key: &str, owner: &str) -> Result<&'a Value> {
    lookup(map, key).ok_or_else(|| Error::BadMetadata { reason: format!("{owner} has no `{key}`") })
}

fn array<'a>(value: &'a Value, key: &str) -> Result<&'a [Value]> {
    value
        .as_array()
        .map(Vec::as_slice)
        .ok_or_else(|| Error::BadMetadata { reason: format!("`{key}` is not a list") })
}

fn text(value: &Value, key: &str) -> Result<String> {
    value
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| Error::BadMetadata { reason: format!("`{key}` is not a string") })
}

fn int(value: &Value, key: &str) -> Result<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok()).ok_or_else(|| Error::BadMetadata {
        reason: format!("`{key}` is {value}, not a 32-bit count"),
    })
}
