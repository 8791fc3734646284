//! From machine words to [`Instruction`]s.
//!
//! The decoder accepts what the assembler produces and refuses everything else: fields that an opcode does not use must
//! hold what the assembler writes there, so that a misread stream fails instead of running as something it is not.

mod memory;
mod operand;
mod scalar;
mod vector;
mod vop3p;

use super::inst::Instruction;
use crate::{Arch, Error, Result};

/// The longest instruction, in bytes.
pub const MAX_INSTRUCTION_BYTES: usize = 16;

/// Why some words are no instruction.
pub(crate) type Fault = String;

/// The bytes of one instruction as far as they have been read.
pub(crate) struct Reader<'a> {
    pub(crate) arch: Arch,
    pub(crate) address: u64,
    bytes: &'a [u8],
    read: usize,
}

impl Reader<'_> {
    /// The next 32-bit word.
    pub(crate) fn word(&mut self) -> Result<u32, Fault> {
        let word = self.peek().ok_or_else(|| "the code ends inside the instruction".to_owned())?;
        self.read += 4;
        Ok(word)
    }

    /// The next word without taking it.
    pub(crate) fn peek(&self) -> Option<u32> {
        let bytes = self.bytes.get(self.read..self.read + 4)?;
        Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Bytes taken so far.
    pub(crate) fn size(&self) -> u8 {
        self.read as u8
    }
}

/// `width` bits of `word` from bit `low`.
pub(crate) fn bits(word: u32, low: u32, width: u32) -> u32 {
    word >> low & ((1u32 << width) - 1)
}

/// Bit `at` of `word`.
pub(crate) fn bit(word: u32, at: u32) -> bool {
    word >> at & 1 == 1
}

/// Refuses a reserved field that is not zero.
pub(crate) fn zero(value: u32, field: &str) -> Result<(), Fault> {
    if value == 0 { Ok(()) } else { Err(format!("reserved field {field} is {value:#x}")) }
}

/// Decodes the instruction at the start of `bytes`, which lie at `address`. `kernel` is for the error only.
///
/// # Errors
/// [`Error::UnknownInstruction`] with the bytes, the address, the kernel and the reason.
pub fn decode(arch: Arch, kernel: &str, address: u64, bytes: &[u8]) -> Result<Instruction> {
    let mut reader = Reader { arch, address, bytes, read: 0 };
    instruction(&mut reader).map_err(|reason| Error::UnknownInstruction {
        arch,
        kernel: kernel.to_owned(),
        address,
        bytes: bytes[..bytes.len().min(MAX_INSTRUCTION_BYTES)].to_vec(),
        reason,
    })
}

fn instruction(reader: &mut Reader<'_>) -> Result<Instruction, Fault> {
    let word = reader.word()?;
    match word >> 25 {
        0x3e => vector::vopc(reader, word),
        0x3f => vector::vop1(reader, word),
        0x00..=0x3d => vector::vop2(reader, word),
        _ => match word >> 26 {
            0x20..=0x2f => scalar::scalar(reader, word),
            0x30 => scalar::smem(reader, word),
            0x34 if bits(word, 23, 3) == 7 => vop3p::vop3p(reader, word),
            0x34 => vector::vop3(reader, word),
            0x36 => memory::ds(reader, word),
            0x37 => memory::flat(reader, word),
            0x38 => memory::mubuf(reader, word),
            encoding => {
                Err(format!("encoding {encoding:#x} (bits 31:26) is not used on this target"))
            }
        },
    }
}
