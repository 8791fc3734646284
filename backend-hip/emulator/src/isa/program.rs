//! All code a kernel can reach, decoded once.

use std::ops::Range;

use super::decode::{MAX_INSTRUCTION_BYTES, decode};
use super::inst::Instruction;
use crate::loader::{CodeObject, Kernel};
use crate::{Error, Result};

/// Marks an address where no instruction starts.
const NO_INSTRUCTION: u32 = u32::MAX;

/// The decoded code of a kernel and of the functions it may call.
#[derive(Clone, Debug)]
pub struct Program {
    /// The instructions, by rising address.
    pub instructions: Vec<Instruction>,
    /// Index of the kernel's first instruction.
    pub entry: usize,
    base: u64,
    /// Instruction number by `(address - base) / 4`.
    index: Vec<u32>,
}

impl Program {
    /// Decodes a kernel and every function of its code object that is not a kernel.
    ///
    /// # Errors
    /// [`Error::UnknownInstruction`] at the first bytes that do not decode; [`Error::BadElf`] if a function lies outside
    /// the image.
    pub fn decode(object: &CodeObject, kernel: &Kernel) -> Result<Program> {
        let mut ranges: Vec<(Range<u64>, &str)> =
            object.functions.iter().map(|f| (f.range.clone(), f.name.as_str())).collect();
        ranges.push((kernel.code.clone(), kernel.meta.name.as_str()));
        ranges.sort_by_key(|(range, _)| range.start);
        let mut instructions: Vec<Instruction> = Vec::new();
        for (range, name) in ranges {
            // Symbols may alias or overlap: every address is decoded once.
            let done = instructions.last().map_or(0, Instruction::next);
            let start = range.start.max(done);
            if start < range.end {
                decode_range(object, name, start..range.end, &mut instructions)?;
            }
        }
        let base = instructions.first().map_or(kernel.entry, |inst| inst.address);
        let end = instructions.last().map_or(base, Instruction::next);
        let mut index = vec![NO_INSTRUCTION; ((end - base) / 4) as usize];
        for (i, inst) in instructions.iter().enumerate() {
            index[((inst.address - base) / 4) as usize] = i as u32;
        }
        let mut program = Program { instructions, entry: 0, base, index };
        program.entry = program.index_of(kernel.entry).ok_or_else(|| Error::BadDescriptor {
            kernel: kernel.meta.name.clone(),
            reason: format!("no instruction starts at the entry {:#x}", kernel.entry),
        })?;
        Ok(program)
    }

    /// The index of the instruction at an ELF address, if one starts there.
    pub fn index_of(&self, address: u64) -> Option<usize> {
        let offset = address.checked_sub(self.base)?;
        if !offset.is_multiple_of(4) {
            return None;
        }
        let at = *self.index.get(usize::try_from(offset / 4).ok()?)?;
        (at != NO_INSTRUCTION).then_some(at as usize)
    }
}

/// Decodes `range` and appends its instructions.
fn decode_range(
    object: &CodeObject,
    name: &str,
    range: Range<u64>,
    out: &mut Vec<Instruction>,
) -> Result<()> {
    let bytes = object.bytes(range.clone()).ok_or_else(|| Error::BadElf {
        reason: format!(
            "code of `{name}` at {:#x} to {:#x} is not in the image",
            range.start, range.end
        ),
    })?;
    let mut at = 0;
    while at < bytes.len() {
        let window = &bytes[at..bytes.len().min(at + MAX_INSTRUCTION_BYTES)];
        let inst = decode(object.arch, name, range.start + at as u64, window)?;
        at += usize::from(inst.size);
        out.push(inst);
    }
    Ok(())
}
