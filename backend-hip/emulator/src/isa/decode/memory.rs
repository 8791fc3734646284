//! DS, MUBUF, FLAT, GLOBAL and SCRATCH.

use super::operand::{inline, sreg, unaligned, vector, vgpr};
use super::scalar::{blank, find};
use super::{Fault, Reader, bit, bits, zero};
use crate::isa::inst::{Encoding, Instruction, Operand, Special};
use crate::isa::opcode::Opcode;
use crate::isa::tables;
use crate::isa::types::OperandType;

/// The scalar address field that means none.
const NO_SADDR: u32 = 0x7f;

pub(super) fn ds(reader: &mut Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    let row = find(&tables::DS, reader, bits(word, 17, 8), "DS")?;
    let second = reader.word()?;
    let mut inst = blank(reader, Encoding::Ds, row);
    let signature = row.opcode.signature();
    // There is no global data share since GFX90A.
    zero(bits(word, 16, 1), "gds")?;
    let accumulation = bit(word, 25);
    let fields = [bits(second, 0, 8), bits(second, 8, 8), bits(second, 16, 8)];
    for (i, field) in fields.into_iter().enumerate() {
        match signature.src.get(i) {
            // The address is a vector register whatever file the data is in.
            Some(ty) if ty.dwords() > 0 => {
                inst.src[i] = vector(field, ty.dwords(), accumulation && i > 0)?;
            }
            _ => zero(field, "unused register field")?,
        }
    }
    if row.opcode == Opcode::DsNop {
        zero(bits(word, 0, 16), "offset")?;
    }
    match signature.dst.first() {
        Some(ty) if row.opcode == Opcode::DsReadB96TrB6 => {
            inst.dst = unaligned(bits(second, 24, 8), ty.dwords(), accumulation)?;
        }
        Some(ty) => inst.dst = vector(bits(second, 24, 8), ty.dwords(), accumulation)?,
        None => zero(bits(second, 24, 8), "vdst")?,
    }
    if accumulation && signature.dst.is_empty() && signature.src.len() < 2 {
        return Err("acc without data".to_owned());
    }
    inst.mods.offset0 = bits(word, 0, 8) as u8;
    inst.mods.offset1 = bits(word, 8, 8) as u8;
    inst.mods.offset = bits(word, 0, 16) as i32;
    Ok(inst)
}

pub(super) fn mubuf(reader: &mut Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    let row = find(&tables::MUBUF, reader, bits(word, 18, 7), "MUBUF")?;
    zero(bits(word, 25, 1), "bit 25")?;
    let second = reader.word()?;
    let mut inst = blank(reader, Encoding::Mubuf, row);
    let signature = row.opcode.signature();
    let mods = &mut inst.mods;
    mods.sc0 = bit(word, 14);
    mods.sc1 = bit(word, 15);
    mods.nt = bit(word, 17);
    mods.lds = bit(word, 16);
    mods.offen = bit(word, 12);
    mods.idxen = bit(word, 13);
    mods.offset = bits(word, 0, 12) as i32;
    let Some(data) = signature.src.first().or(signature.dst.first()) else {
        // Cache control: only the scope bits count.
        zero(second, "operands")?;
        zero(word & 0x0000_3fff, "offset")?;
        zero(u32::from(mods.lds), "lds")?;
        zero(u32::from(mods.nt), "nt")?;
        return Ok(inst);
    };
    zero(bits(second, 21, 2), "bits 22:21")?;
    let accumulation = bit(second, 23);
    inst.src[0] = match (mods.idxen, mods.offen) {
        (false, false) => zero(bits(second, 0, 8), "vaddr").map(|()| Operand::None)?,
        (true, true) => vgpr(bits(second, 0, 8), 2)?,
        _ => vgpr(bits(second, 0, 8), 1)?,
    };
    inst.src[1] = sreg(bits(second, 16, 5) * 4, 4)?;
    let soffset = bits(second, 24, 8);
    inst.src[2] = match inline(soffset) {
        Some(constant) => constant,
        None => sreg(soffset, 1)?,
    };
    let load = signature.src.is_empty();
    let lds = mods.lds;
    if lds {
        if !row.opcode.has_lds_form() {
            return Err(format!("{} cannot go to LDS", row.opcode));
        }
        zero(bits(second, 8, 8), "vdata")?;
        zero(u32::from(accumulation), "acc")?;
        return lds_width(reader, inst, data.dwords());
    }
    let returns = load || inst.mods.sc0;
    if let (Some(ty), true) = (signature.dst.first(), returns) {
        inst.dst = vector(bits(second, 8, 8), ty.dwords(), accumulation)?;
    }
    if let Some(ty) = signature.src.first() {
        inst.src[3] = vector(bits(second, 8, 8), ty.dwords(), accumulation)?;
    }
    Ok(inst)
}

/// Loads to LDS move one dword or less, on GFX950 also three or four.
fn lds_width(reader: &Reader<'_>, inst: Instruction, dwords: u8) -> Result<Instruction, Fault> {
    let wide = reader.arch == crate::Arch::Gfx950 && matches!(dwords, 3 | 4);
    if dwords == 1 || wide {
        Ok(inst)
    } else {
        Err(format!("{dwords} dwords to LDS on {}", reader.arch))
    }
}

pub(super) fn flat(reader: &mut Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    let code = bits(word, 18, 7);
    let (row, encoding) = match bits(word, 14, 2) {
        0 => (find(&tables::FLAT, reader, code, "FLAT")?, Encoding::Flat),
        1 => (find(&tables::SCRATCH, reader, code, "SCRATCH")?, Encoding::Scratch),
        2 => (find(&tables::GLOBAL, reader, code, "GLOBAL")?, Encoding::Global),
        segment => return Err(format!("FLAT segment {segment}")),
    };
    let second = reader.word()?;
    let mut inst = blank(reader, encoding, row);
    let mods = &mut inst.mods;
    mods.sc0 = bit(word, 16);
    mods.nt = bit(word, 17);
    mods.sc1 = bit(word, 25);
    let sve = bit(word, 13);
    let offset = bits(word, 0, 13);
    let (addr, data, saddr) = (bits(second, 0, 8), bits(second, 8, 8), bits(second, 16, 7));
    let lds = row.opcode.mnemonic().contains("_lds_");
    mods.lds = lds;
    match encoding {
        Encoding::Flat => {
            zero(offset >> 12, "offset bit 12")?;
            mods.offset = offset as i32;
            zero(saddr, "saddr")?;
            zero(u32::from(sve), "sve")?;
            inst.src[0] = vgpr(addr, 2)?;
        }
        Encoding::Global => {
            mods.offset = (offset << 19) as i32 >> 19;
            zero(u32::from(sve), "sve")?;
            if saddr == NO_SADDR {
                inst.src[0] = vgpr(addr, 2)?;
            } else {
                inst.src[0] = vgpr(addr, 1)?;
                inst.src[1] = match sreg(saddr, 2)? {
                    Operand::Special(Special::Exec) if !lds => {
                        return Err("saddr is EXEC".to_owned());
                    }
                    register => register,
                };
            }
        }
        _ => {
            mods.offset = (offset << 19) as i32 >> 19;
            if sve {
                inst.src[0] = vgpr(addr, 1)?;
            } else {
                zero(addr, "vaddr")?;
            }
            if saddr != NO_SADDR {
                inst.src[1] = sreg(saddr, 1)?;
            }
        }
    }
    let accumulation = bit(second, 23);
    let signature = row.opcode.signature();
    if signature.src.is_empty() && signature.dst.is_empty() {
        zero(u32::from(accumulation), "acc")?;
    }
    match signature.src.first() {
        Some(ty) => inst.src[2] = vector(data, ty.dwords(), accumulation)?,
        None => zero(data, "data")?,
    }
    let returns = signature.src.is_empty() || inst.mods.sc0;
    match signature.dst.first() {
        Some(ty) if returns => inst.dst = data_register(second, *ty, accumulation)?,
        _ => zero(bits(second, 24, 8), "vdst")?,
    }
    Ok(inst)
}

fn data_register(second: u32, ty: OperandType, accumulation: bool) -> Result<Operand, Fault> {
    vector(bits(second, 24, 8), ty.dwords(), accumulation)
}
