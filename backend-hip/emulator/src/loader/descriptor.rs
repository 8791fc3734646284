//! The kernel descriptor: 64 bytes that state how a wave of the kernel starts.
//!
//! Field positions are those of the code object v3 kernel descriptor and of `COMPUTE_PGM_RSRC1..3` for GFX90A and GFX940
//! as LLVM's AMDGPU usage guide lists them.

use crate::{Error, Result};

/// Size of a kernel descriptor.
pub const DESCRIPTOR_BYTES: usize = 64;

/// What a kernel descriptor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Static LDS bytes of a workgroup.
    pub group_segment_bytes: u32,
    /// Static scratch bytes of a lane.
    pub private_segment_bytes: u32,
    /// Bytes of the kernel argument segment.
    pub kernarg_bytes: u32,
    /// Entry point relative to the descriptor's own address, in bytes.
    pub entry_offset: i64,
    /// Vector registers allocated to a wave from the unified file, AGPRs included: a multiple of 8, at most 512.
    pub vector_registers: u16,
    /// First unified register that is addressed as `a0`: a multiple of 4, 4 to 256.
    pub accum_offset: u16,
    /// Float rounding and denormal mode as in the MODE register's low byte: bits 1:0 round f32, 3:2 round f16 and f64,
    /// 5:4 denormals of f32, 7:6 denormals of f16 and f64. Rounding 0 is nearest even, 1 up, 2 down, 3 to zero; denormals
    /// 0 flush both, 1 flush inputs' results (destination kept), 2 flush destinations (sources kept), 3 keep.
    pub float_mode: u8,
    /// Clamped NaN becomes zero.
    pub dx10_clamp: bool,
    /// Signalling NaN are quieted and propagate as IEEE 754 asks.
    pub ieee_mode: bool,
    /// f16 overflow saturates instead of giving infinity.
    pub fp16_overflow: bool,
    /// Whether scratch is set up.
    pub enable_private_segment: bool,
    /// User scalar registers that are loaded before the wave starts.
    pub user_sgprs: u8,
    /// Whether the workgroup id in x, y, z follows the user registers.
    pub workgroup_id: [bool; 3],
    /// Whether the workgroup information word follows the workgroup ids.
    pub workgroup_info: bool,
    /// How many work-item id dimensions `v0` carries, 1 to 3: x in bits 9:0, y in 19:10, z in 29:20.
    pub workitem_id_dims: u8,
    /// User registers: private segment buffer descriptor (4).
    pub private_segment_buffer: bool,
    /// User registers: dispatch packet pointer (2).
    pub dispatch_ptr: bool,
    /// User registers: queue pointer (2).
    pub queue_ptr: bool,
    /// User registers: kernel argument segment pointer (2).
    pub kernarg_segment_ptr: bool,
    /// User registers: dispatch id (2).
    pub dispatch_id: bool,
    /// User registers: flat scratch initialisation (2).
    pub flat_scratch_init: bool,
    /// User registers: scratch bytes of a lane (1).
    pub private_segment_size: bool,
    /// Dwords of kernel arguments preloaded into user registers after the pointers.
    pub kernarg_preload_dwords: u8,
    /// First dword of the argument segment that is preloaded.
    pub kernarg_preload_offset: u16,
    /// Whether the kernel's stack size is known only at run time.
    pub dynamic_stack: bool,
}

/// Bytes of stack a lane gets for what the compiler cannot size: recursion and calls through pointers.
pub const DYNAMIC_STACK_BYTES: u32 = 16 * 1024;

impl Descriptor {
    /// Bytes of scratch a lane gets: the kernel's fixed part and, where its stack grows at run time, a stack of
    /// [`DYNAMIC_STACK_BYTES`], as a runtime adds one up to its stack limit.
    pub fn scratch_bytes(&self) -> u32 {
        let stack = if self.dynamic_stack { DYNAMIC_STACK_BYTES } else { 0 };
        self.private_segment_bytes.saturating_add(stack)
    }

    /// Reads the 64 bytes of the descriptor of `kernel`.
    ///
    /// # Errors
    /// [`Error::BadDescriptor`] if the length is not 64 or a field asks for what neither architecture has: wave32, more
    /// than 512 vector registers, or an AGPR base outside the allocation.
    pub fn parse(kernel: &str, bytes: &[u8]) -> Result<Descriptor> {
        let bad = |reason: String| Error::BadDescriptor { kernel: kernel.to_owned(), reason };
        if bytes.len() != DESCRIPTOR_BYTES {
            return Err(bad(format!("it has {} bytes instead of {DESCRIPTOR_BYTES}", bytes.len())));
        }
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let entry_offset = (i64::from(word(20)) << 32) | i64::from(word(16));
        let (rsrc3, rsrc1, rsrc2) = (word(44), word(48), word(52));
        let (properties, preload) = (half(56), half(58));
        let bit = |value: u32, at: u32| value >> at & 1 == 1;
        let property = |at: u32| bit(u32::from(properties), at);

        if property(10) {
            return Err(bad("it asks for wave32: gfx942 and gfx950 run wave64".to_owned()));
        }
        let vector_registers = ((rsrc1 & 0x3f) as u16 + 1) * 8;
        let accum_offset = ((rsrc3 & 0x3f) as u16 + 1) * 4;
        if accum_offset > vector_registers {
            return Err(bad(format!(
                "accumulation registers start at {accum_offset} of {vector_registers} allocated registers"
            )));
        }
        let user_sgprs = (rsrc2 >> 1 & 0x1f) as u8;
        let workitem = rsrc2 >> 11 & 3;
        if workitem == 3 {
            return Err(bad("work-item id mode 3 is undefined".to_owned()));
        }
        Ok(Descriptor {
            group_segment_bytes: word(0),
            private_segment_bytes: word(4),
            kernarg_bytes: word(8),
            entry_offset,
            vector_registers,
            accum_offset,
            float_mode: (rsrc1 >> 12 & 0xff) as u8,
            dx10_clamp: bit(rsrc1, 21),
            ieee_mode: bit(rsrc1, 23),
            fp16_overflow: bit(rsrc1, 26),
            enable_private_segment: bit(rsrc2, 0),
            user_sgprs,
            workgroup_id: [bit(rsrc2, 7), bit(rsrc2, 8), bit(rsrc2, 9)],
            workgroup_info: bit(rsrc2, 10),
            workitem_id_dims: workitem as u8 + 1,
            private_segment_buffer: property(0),
            dispatch_ptr: property(1),
            queue_ptr: property(2),
            kernarg_segment_ptr: property(3),
            dispatch_id: property(4),
            flat_scratch_init: property(5),
            private_segment_size: property(6),
            kernarg_preload_dwords: (preload & 0x7f) as u8,
            kernarg_preload_offset: preload >> 7,
            dynamic_stack: property(11),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(edit: impl Fn(&mut [u8; DESCRIPTOR_BYTES])) -> Result<Descriptor> {
        let mut bytes = [0u8; DESCRIPTOR_BYTES];
        // 24 VGPRs of which the last four are a0 to a3, keep denormals, kernarg pointer, workgroup ids x and z.
        bytes[0..4].copy_from_slice(&1024u32.to_le_bytes());
        bytes[8..12].copy_from_slice(&40u32.to_le_bytes());
        bytes[16..24].copy_from_slice(&(-256i64).to_le_bytes());
        bytes[44..48].copy_from_slice(&4u32.to_le_bytes());
        bytes[48..52].copy_from_slice(&(2u32 | 0xf0 << 12 | 1 << 21 | 1 << 23).to_le_bytes());
        bytes[52..56].copy_from_slice(&(2u32 << 1 | 1 << 7 | 1 << 9 | 1 << 11).to_le_bytes());
        bytes[56..58].copy_from_slice(&8u16.to_le_bytes());
        bytes[58..60].copy_from_slice(&(3u16 << 7 | 5).to_le_bytes());
        edit(&mut bytes);
        Descriptor::parse("k", &bytes)
    }

    #[test]
    fn fields_are_where_the_layout_puts_them() {
        let got = descriptor(|_| ()).unwrap();
        assert_eq!(got.group_segment_bytes, 1024);
        assert_eq!(got.kernarg_bytes, 40);
        assert_eq!(got.entry_offset, -256);
        assert_eq!((got.vector_registers, got.accum_offset), (24, 20));
        assert_eq!(got.float_mode, 0xf0);
        assert!(got.dx10_clamp && got.ieee_mode && !got.fp16_overflow);
        assert_eq!((got.user_sgprs, got.workgroup_id), (2, [true, false, true]));
        assert_eq!(got.workitem_id_dims, 2);
        assert!(got.kernarg_segment_ptr && !got.dispatch_ptr);
        assert_eq!((got.kernarg_preload_dwords, got.kernarg_preload_offset), (5, 3));
    }

    #[test]
    fn impossible_fields_are_refused_with_their_values() {
        let text = |result: Result<Descriptor>| result.unwrap_err().to_string();
        assert!(text(descriptor(|b| b[57] |= 4)).contains("wave32"));
        assert!(text(descriptor(|b| b[44] = 6)).contains("start at 28 of 24"));
        assert!(text(descriptor(|b| b[53] |= 0x18)).contains("mode 3"));
        assert!(text(Descriptor::parse("k", &[0; 63])).contains("63 bytes"));
    }
}
