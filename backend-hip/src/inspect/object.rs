//! A kernel's registers as its code object states them.

use lapidary_cdna::loader::CodeObject;

use super::Resources;
use crate::error::HipError;

impl Resources {
    /// Reads the metadata of `kernel` in a code object of gfx942 or gfx950.
    ///
    /// This is what the loader goes by. `VGPR_Count` of rocprofv3's traces is not: on gfx950 it is half of
    /// what is granted, and on gfx942 only its sum with `Accum_VGPR_Count` is right.
    ///
    /// # Errors
    /// [`HipError::Inspect`] if the object cannot be read, is of another target, or has no such kernel.
    pub fn of_object(object: &[u8], kernel: &str) -> Result<Self, HipError> {
        let inspect = |error: lapidary_cdna::Error| HipError::Inspect { what: error.to_string() };
        let object = CodeObject::parse(object).map_err(inspect)?;
        let meta = &object.kernel(kernel).map_err(inspect)?.meta;
        Ok(Self {
            vgprs: meta.vgprs,
            agprs: meta.agprs,
            sgprs: meta.sgprs,
            scratch: meta.private_segment_bytes,
            lds: meta.group_segment_bytes,
        })
    }
}
