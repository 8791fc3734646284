//! VOP3P: packed operations, matrix operations and the 16-byte scaled form.

use super::operand::{inline, src9, vector, vgpr};
use super::scalar::{blank, find};
use super::{Fault, Reader, bit, bits, zero};
use crate::isa::inst::{Encoding, Instruction};
use crate::isa::opcode::Opcode;
use crate::isa::tables::{self, Row, form};
use crate::isa::types::OperandType;

/// `v_mfma_ld_scale_b32`, the first half of a scaled matrix instruction.
const LD_SCALE: u32 = 0x2c;

pub(super) fn vop3p(reader: &mut Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    let code = bits(word, 16, 7);
    if code == LD_SCALE && reader.arch == crate::Arch::Gfx950 {
        return scaled(reader, word);
    }
    let row = find(&tables::VOP3P, reader, code, "VOP3P")?;
    let second = reader.word()?;
    if row.opcode.is_matrix() {
        let mut inst = blank(reader, Encoding::Vop3p, row);
        matrix(&mut inst, word, second)?;
        if row.opcode.is_f8f6f4() {
            zero(u32::from(inst.mods.abid), "abid")?;
        }
        return Ok(inst);
    }
    let mut inst = blank(reader, Encoding::Vop3p, row);
    let signature = row.opcode.signature();
    let accumulation = signature.dst.first() == Some(&OperandType::A32);
    let width = signature.dst.first().map_or(1, |ty| ty.dwords());
    inst.dst = vector(bits(word, 0, 8), width, accumulation)?;
    for i in 0..3 {
        let code = bits(second, 9 * i as u32, 9);
        match signature.src.get(i) {
            Some(ty) => inst.src[i] = src9(code, *ty)?,
            None => zero(code, "unused source")?,
        }
    }
    let mods = &mut inst.mods;
    let present = (1u32 << signature.src.len()) - 1;
    mods.op_sel = bits(word, 11, 3) as u8;
    mods.clamp = bit(word, 15);
    if row.has(form::OP_SEL) {
        // Compilers differ in the bits of sources that are absent.
        mods.op_sel_hi = ((bits(second, 27, 2) | bits(word, 14, 1) << 2) & present) as u8;
        zero(u32::from(mods.op_sel) & !present, "op_sel of an absent source")?;
    } else {
        zero(u32::from(mods.op_sel), "op_sel")?;
    }
    let (neg_hi, neg) = (bits(word, 8, 3) as u8, bits(second, 29, 3) as u8);
    if signature.src.first() == Some(&OperandType::Mix) {
        mods.abs = neg_hi;
    } else {
        mods.neg_hi = neg_hi;
    }
    mods.neg = neg;
    zero(u32::from(neg | neg_hi) & !present, "neg of an absent source")?;
    if matches!(row.opcode, Opcode::VAccvgprReadB32 | Opcode::VAccvgprWriteB32) {
        zero(u32::from(neg | neg_hi), "neg")?;
        zero(bits(word, 15, 1), "clamp")?;
    }
    Ok(inst)
}

/// Fills the MAI fields from the two words of a matrix instruction.
fn matrix(inst: &mut Instruction, word: u32, second: u32) -> Result<(), Fault> {
    let signature = inst.opcode.signature();
    let (cbsz, abid, blgp) = (bits(word, 8, 3), bits(word, 11, 4), bits(second, 29, 3));
    let acc_cd = bit(word, 15);
    inst.mods.cbsz = cbsz as u8;
    inst.mods.abid = abid as u8;
    inst.mods.blgp = blgp as u8;
    let formats = inst.opcode.is_f8f6f4();
    for i in 0..2 {
        let code = bits(second, 9 * i as u32, 9);
        let format = if i == 0 { cbsz } else { blgp };
        let dwords = if formats { format_dwords(format)? } else { signature.src[i].dwords() };
        let first = code
            .checked_sub(256)
            .ok_or_else(|| format!("matrix source {i} is no vector register"))?;
        inst.src[i] = vector(first, dwords, bit(second, 27 + i as u32))?;
    }
    let width = signature.dst.first().map_or(0, |ty| ty.dwords());
    inst.dst = vector(bits(word, 0, 8), width, acc_cd)?;
    let code = bits(second, 18, 9);
    inst.src[2] = if signature.src[2] == OperandType::V32 {
        // The index register of the sparse forms is never an accumulation register.
        let first = code.checked_sub(256).ok_or("the index is no vector register")?;
        zero(blgp, "blgp")?;
        vgpr(first, 1)?
    } else if code >= 256 {
        vector(code - 256, width, acc_cd)?
    } else {
        inline(code).ok_or_else(|| format!("matrix accumulator source code {code}"))?
    };
    Ok(())
}

/// Registers that 32 elements of an f8f6f4 format take: fp8 and bf8 8, fp6 and bf6 6, fp4 4.
fn format_dwords(format: u32) -> Result<u8, Fault> {
    match format {
        0 | 1 => Ok(8),
        2 | 3 => Ok(6),
        4 => Ok(4),
        _ => Err(format!("f8f6f4 format {format}")),
    }
}

fn scaled(reader: &mut Reader<'_>, load: u32) -> Result<Instruction, Fault> {
    let load_second = reader.word()?;
    let word = reader.word()?;
    let code = bits(word, 16, 7);
    let row: &Row = match word >> 23 {
        0x1a7 => find(&tables::VOP3P, reader, code + tables::SCALED, "scaled VOP3P")?,
        _ => return Err("v_mfma_ld_scale_b32 without its matrix instruction".to_owned()),
    };
    let second = reader.word()?;
    let mut inst = blank(reader, Encoding::Vop3p, row);
    matrix(&mut inst, word, second)?;
    // Bit 11 marks the scaled form where others have the lowest bit of ABID.
    if inst.mods.abid != 1 {
        return Err(format!("abid {} of a scaled matrix instruction", inst.mods.abid));
    }
    inst.mods.abid = 0;
    for i in 0..2 {
        inst.src[3 + i] = src9(bits(load_second, 9 * i as u32, 9), OperandType::B32)?;
    }
    zero(bits(load_second, 18, 9), "third scale source")?;
    zero(bits(load, 0, 8), "vdst of the scale load")?;
    zero(bits(load, 8, 3) | bits(load, 13, 3), "modifiers of the scale load")?;
    zero(bits(load_second, 29, 3), "neg of the scale load")?;
    inst.mods.op_sel = bits(load, 11, 2) as u8;
    inst.mods.op_sel_hi = bits(load_second, 27, 2) as u8;
    Ok(inst)
}
