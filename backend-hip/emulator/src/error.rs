//! The crate's one error type.

use crate::Arch;

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong between a file and a finished launch. Findings of the checks are not errors but reports.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An architecture name that the emulator does not know.
    #[error("unknown architecture `{name}`: gfx942 and gfx950 are emulated")]
    UnknownArch {
        /// The name as given.
        name: String,
    },

    /// The ELF header's machine flags name a target that is not emulated.
    #[error(
        "the code object is for machine {mach:#04x} (e_flags {e_flags:#010x}): gfx942 (0x4c) and gfx950 (0x4f) are emulated"
    )]
    UnsupportedMachine {
        /// `e_flags` of the ELF header.
        e_flags: u32,
        /// Its low byte, `EF_AMDGPU_MACH`.
        mach: u8,
    },

    /// The file is not a readable AMDGPU code object.
    #[error("not an AMDGPU code object: {reason}")]
    BadElf {
        /// What the reader met.
        reason: String,
    },

    /// The kernel metadata note is absent or does not say what the loader needs.
    #[error("bad kernel metadata: {reason}")]
    BadMetadata {
        /// The missing or ill-typed key, with the value met.
        reason: String,
    },

    /// A kernel descriptor states something that cannot be set up.
    #[error("bad kernel descriptor of `{kernel}`: {reason}")]
    BadDescriptor {
        /// The kernel's name.
        kernel: String,
        /// The field and its value.
        reason: String,
    },

    /// Kernel arguments that do not fit the kernel's metadata.
    #[error("bad arguments for `{kernel}`: {reason}")]
    BadArguments {
        /// The kernel's name.
        kernel: String,
        /// The argument, with the sizes given and wanted.
        reason: String,
    },

    /// A launch that the kernel or the device does not allow.
    #[error("bad launch of `{kernel}`: {reason}")]
    BadLaunch {
        /// The kernel's name.
        kernel: String,
        /// The size given and the limit.
        reason: String,
    },

    /// The emulated memory is exhausted.
    #[error("{requested} bytes of emulated memory: the limit is {limit}")]
    OutOfMemory {
        /// Bytes that all allocations together would take.
        requested: u64,
        /// The limit.
        limit: u64,
    },

    /// An address that no allocation holds.
    #[error("no allocation holds {bytes} bytes at {address:#x}")]
    BadAddress {
        /// The address.
        address: u64,
        /// How many bytes were asked for.
        bytes: u64,
    },

    /// The code object has no kernel of that name.
    #[error("no kernel `{name}`: the code object has {known}")]
    UnknownKernel {
        /// The name asked for.
        name: String,
        /// The names there are, comma-separated.
        known: String,
    },

    /// Bytes that are no instruction of the architecture, or one the decoder does not know.
    #[error("unknown {arch} instruction in `{kernel}` at {address:#x}: bytes {}: {reason}", hex(.bytes))]
    UnknownInstruction {
        /// The architecture decoded for.
        arch: Arch,
        /// The kernel, or an empty string where bytes are decoded without one.
        kernel: String,
        /// Address of the first byte, in the code object's address space.
        address: u64,
        /// Up to 16 bytes from there.
        bytes: Vec<u8>,
        /// Which field or encoding was met.
        reason: String,
    },

    /// An instruction that decodes but is not executed by the emulator.
    #[error("`{text}` in `{kernel}` at {address:#x} is not emulated: {reason}")]
    UnsupportedInstruction {
        /// The kernel.
        kernel: String,
        /// Address of the instruction.
        address: u64,
        /// Its disassembly.
        text: String,
        /// Why.
        reason: String,
    },
}

/// Bytes in `llvm-mc` order, space-separated.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 3);
    for (i, byte) in bytes.iter().enumerate() {
        if i > 0 {
            text.push(' ');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}
