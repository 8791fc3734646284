//! Comparing the decoder with llvm-objdump, instruction by instruction.

use std::collections::BTreeMap;

use lapidary_cdna::Arch;
use lapidary_cdna::isa::claims::Form;
use lapidary_cdna::isa::{Encoding, Instruction, Opcode, decode};

use super::llvm::Line;

/// Which form an instruction was decoded from.
pub fn form_of(inst: &Instruction) -> Form {
    if inst.mods.dpp.is_some() {
        Form::Dpp
    } else if inst.mods.sdwa.is_some() {
        Form::Sdwa
    } else if inst.size == 16 {
        Form::Scaled
    } else if inst.encoding == Encoding::Vop3 {
        Form::Wide
    } else {
        Form::Plain
    }
}

/// The outcome of a comparison.
#[derive(Default)]
pub struct Tally {
    /// Instructions compared.
    pub compared: usize,
    /// How often each opcode was seen in each encoding and form.
    pub seen: BTreeMap<(Opcode, Encoding, Form), usize>,
    /// What differs, in words.
    pub differences: Vec<String>,
}

impl Tally {
    /// Decodes every line's bytes and compares the text and the length.
    pub fn compare(&mut self, arch: Arch, source: &str, lines: &[Line]) {
        for line in lines {
            self.compared += 1;
            match decode(arch, source, line.address, &line.bytes) {
                Ok(inst) => {
                    *self.seen.entry((inst.opcode, inst.encoding, form_of(&inst))).or_default() +=
                        1;
                    let text = inst.to_string();
                    if text != line.text || usize::from(inst.size) != line.bytes.len() {
                        self.differences.push(format!(
                            "{source} {:#x} {:02x?}: got `{text}` ({} bytes), llvm-objdump has `{}`",
                            line.address, line.bytes, inst.size, line.text
                        ));
                    }
                }
                Err(error) => {
                    self.differences.push(format!("{error}; llvm-objdump has `{}`", line.text))
                }
            }
        }
    }
}
