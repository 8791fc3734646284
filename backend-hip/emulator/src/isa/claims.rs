//! What the decoder claims to know, one entry a form of an opcode.

use super::inst::Encoding;
use super::opcode::Opcode;
use super::tables::{self, Row, form};
use crate::Arch;

/// How an opcode is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    /// The encoding's own words.
    Plain,
    /// With an SDWA word.
    Sdwa,
    /// With a DPP word.
    Dpp,
    /// The VOP3 form of a VOP1, VOP2 or VOPC opcode.
    Wide,
    /// The 16-byte scaled matrix form.
    Scaled,
}

/// One opcode in one form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The encoding.
    pub encoding: Encoding,
    /// The form within it.
    pub form: Form,
    /// The value of the encoding's opcode field (of the VOP3 field for [`Form::Wide`]).
    pub code: u32,
    /// What it means.
    pub opcode: Opcode,
}

/// Everything that decodes on an architecture.
pub fn claims(arch: Arch) -> Vec<Claim> {
    let mut out = Vec::new();
    let encodings: [(Encoding, &[Row]); 16] = [
        (Encoding::Sop2, tables::SOP2.rows()),
        (Encoding::Sopk, tables::SOPK.rows()),
        (Encoding::Sop1, tables::SOP1.rows()),
        (Encoding::Sopc, tables::SOPC.rows()),
        (Encoding::Sopp, tables::SOPP.rows()),
        (Encoding::Smem, tables::SMEM.rows()),
        (Encoding::Vop1, tables::VOP1.rows()),
        (Encoding::Vop2, tables::VOP2.rows()),
        (Encoding::Vopc, tables::VOPC.rows()),
        (Encoding::Vop3, tables::VOP3.rows()),
        (Encoding::Vop3p, tables::VOP3P.rows()),
        (Encoding::Ds, tables::DS.rows()),
        (Encoding::Mubuf, tables::MUBUF.rows()),
        (Encoding::Flat, tables::FLAT.rows()),
        (Encoding::Global, tables::GLOBAL.rows()),
        (Encoding::Scratch, tables::SCRATCH.rows()),
    ];
    for (encoding, rows) in encodings {
        for row in rows.iter().filter(|row| row.archs.has(arch)) {
            let code = u32::from(row.code);
            let mut claim = |encoding, form, code| {
                out.push(Claim { encoding, form, code, opcode: row.opcode });
            };
            let scaled = encoding == Encoding::Vop3p && code >= tables::SCALED;
            if scaled {
                claim(encoding, Form::Scaled, code - tables::SCALED);
                continue;
            }
            claim(encoding, Form::Plain, code);
            if row.has(form::SDWA) {
                claim(encoding, Form::Sdwa, code);
            }
            if row.has(form::DPP) {
                claim(encoding, Form::Dpp, code);
            }
            if row.has(form::E64) {
                let base = match encoding {
                    Encoding::Vop1 => tables::WIDE_VOP1,
                    Encoding::Vop2 => tables::WIDE_VOP2,
                    _ => 0,
                };
                claim(Encoding::Vop3, Form::Wide, base + code);
            }
        }
    }
    out
}
