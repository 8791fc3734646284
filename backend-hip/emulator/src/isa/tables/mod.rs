//! The opcode tables: which code means which opcode in each encoding, on which architecture, in which forms.
//!
//! They are data, one file an encoding, listed from the public GFX940 ISA document and its GFX950 additions and checked
//! code by code against the assembler.

mod ds;
mod flat;
mod mubuf;
mod smem;
mod sop;
mod vop1;
mod vop2;
mod vop3;
mod vop3p;
mod vopc;

use super::opcode::Opcode;
use crate::Arch;

/// The architectures that have an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Archs {
    Both,
    Gfx942,
    Gfx950,
}

impl Archs {
    pub(crate) const fn has(self, arch: Arch) -> bool {
        matches!(
            (self, arch),
            (Archs::Both, _) | (Archs::Gfx942, Arch::Gfx942) | (Archs::Gfx950, Arch::Gfx950)
        )
    }
}

/// Bits of [`Row::form`].
pub(crate) mod form {
    /// VOP1, VOP2, VOPC: printed with the suffix `_e32`.
    pub(crate) const E32: u8 = 1;
    /// VOP1, VOP2, VOPC: there is a wide form, printed with the suffix `_e64`.
    pub(crate) const E64: u8 = 2;
    /// There is a DPP form.
    pub(crate) const DPP: u8 = 4;
    /// There is an SDWA form.
    pub(crate) const SDWA: u8 = 8;
    /// The wide form can clamp.
    pub(crate) const CLAMP: u8 = 16;
    /// The wide form has an output modifier.
    pub(crate) const OMOD: u8 = 32;
    /// The wide form selects halves of registers.
    pub(crate) const OP_SEL: u8 = 64;
}

/// Added to a VOP2 code to get the VOP3 code of its wide form.
pub(crate) const WIDE_VOP2: u32 = 0x100;
/// Added to a VOP1 code to get the VOP3 code of its wide form.
pub(crate) const WIDE_VOP1: u32 = 0x140;
/// Added to a VOP3P code to get the table code of its 16-byte scaled form.
pub(crate) const SCALED: u32 = 0x100;

/// One opcode of one encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) code: u16,
    pub(crate) opcode: Opcode,
    pub(crate) archs: Archs,
    /// Bits of [`form`].
    pub(crate) form: u8,
}

impl Row {
    pub(crate) const fn has(&self, form: u8) -> bool {
        self.form & form != 0
    }
}

const fn row(code: u16, opcode: Opcode, archs: Archs, form: u8) -> Row {
    Row { code, opcode, archs, form }
}

/// A table with its index by code.
pub(crate) struct Table<const CODES: usize> {
    rows: &'static [Row],
    /// Row number plus one; 0 where there is no opcode.
    index: [u16; CODES],
}

impl<const CODES: usize> Table<CODES> {
    const fn new(rows: &'static [Row]) -> Table<CODES> {
        let mut index = [0; CODES];
        let mut i = 0;
        while i < rows.len() {
            index[rows[i].code as usize] = i as u16 + 1;
            i += 1;
        }
        Table { rows, index }
    }

    /// The row of a code on an architecture.
    pub(crate) fn get(&self, code: u32, arch: Arch) -> Option<&'static Row> {
        let at = *self.index.get(code as usize)?;
        let row = self.rows.get(usize::from(at).checked_sub(1)?)?;
        row.archs.has(arch).then_some(row)
    }

    /// All rows.
    pub(crate) fn rows(&self) -> &'static [Row] {
        self.rows
    }
}

pub(crate) static SOP2: Table<128> = Table::new(sop::SOP2);
pub(crate) static SOPK: Table<32> = Table::new(sop::SOPK);
pub(crate) static SOP1: Table<256> = Table::new(sop::SOP1);
pub(crate) static SOPC: Table<128> = Table::new(sop::SOPC);
pub(crate) static SOPP: Table<128> = Table::new(sop::SOPP);
pub(crate) static SMEM: Table<256> = Table::new(smem::SMEM);
pub(crate) static VOP1: Table<256> = Table::new(vop1::VOP1);
pub(crate) static VOP2: Table<64> = Table::new(vop2::VOP2);
pub(crate) static VOPC: Table<256> = Table::new(vopc::VOPC);
pub(crate) static VOP3: Table<1024> = Table::new(vop3::VOP3);
pub(crate) static VOP3P: Table<512> = Table::new(vop3p::VOP3P);
pub(crate) static DS: Table<256> = Table::new(ds::DS);
pub(crate) static MUBUF: Table<128> = Table::new(mubuf::MUBUF);
pub(crate) static FLAT: Table<128> = Table::new(flat::FLAT);
pub(crate) static GLOBAL: Table<128> = Table::new(flat::GLOBAL);
pub(crate) static SCRATCH: Table<128> = Table::new(flat::SCRATCH);

/// The form bits of every opcode, by its number: an opcode stands in one table only.
static FORMS: [u8; Opcode::ALL.len()] = {
    let tables: [&[Row]; 16] = [
        sop::SOP2,
        sop::SOPK,
        sop::SOP1,
        sop::SOPC,
        sop::SOPP,
        smem::SMEM,
        vop1::VOP1,
        vop2::VOP2,
        vopc::VOPC,
        vop3::VOP3,
        vop3p::VOP3P,
        ds::DS,
        mubuf::MUBUF,
        flat::FLAT,
        flat::GLOBAL,
        flat::SCRATCH,
    ];
    let mut forms = [0; Opcode::ALL.len()];
    let mut t = 0;
    while t < tables.len() {
        let mut i = 0;
        while i < tables[t].len() {
            forms[tables[t][i].opcode as usize] = tables[t][i].form;
            i += 1;
        }
        t += 1;
    }
    forms
};

/// The form bits of an opcode.
pub(crate) fn forms(opcode: Opcode) -> u8 {
    FORMS[opcode as usize]
}
