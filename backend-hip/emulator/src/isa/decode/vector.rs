//! VOP1, VOP2, VOPC and VOP3, with their SDWA and DPP words.

use super::operand::{DPP, LITERAL, Literals, SDWA, src9, sreg, ssrc, vgpr};
use super::scalar::{blank, find};
use super::{Fault, Reader, bit, bits, zero};
use crate::isa::inst::{
    Dpp, DppCtrl, Encoding, Instruction, Operand, Sdwa, SdwaSel, SdwaUnused, Special,
};
use crate::isa::opcode::Opcode;
use crate::isa::tables::{self, Row, form};
use crate::isa::types::OperandType;

pub(super) fn vop1(reader: &mut Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    let row = find(&tables::VOP1, reader, bits(word, 9, 8), "VOP1")?;
    let mut inst = blank(reader, Encoding::Vop1, row);
    inst.dst = vector_dst(row, bits(word, 17, 8))?;
    let Some(ty) = row.opcode.signature().src.first() else {
        zero(bits(word, 0, 9), "src0")?;
        return Ok(inst);
    };
    first_source(reader, &mut inst, row, bits(word, 0, 9), *ty)?;
    inst.size = reader.size();
    Ok(inst)
}

pub(super) fn vop2(reader: &mut Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    let row = find(&tables::VOP2, reader, bits(word, 25, 6), "VOP2")?;
    let mut inst = blank(reader, Encoding::Vop2, row);
    let signature = row.opcode.signature();
    inst.dst = vector_dst(row, bits(word, 17, 8))?;
    if signature.dst.len() > 1 {
        inst.dst2 = Operand::Special(Special::Vcc);
    }
    let (src0, vsrc1) = (bits(word, 0, 9), bits(word, 9, 8));
    if let Some(constant) = row.opcode.constant_source() {
        let literal = Operand::Literal(reader.word()?);
        inst.src[0] = if src0 == LITERAL { literal } else { src9(src0, signature.src[0])? };
        let vsrc1 = vgpr(vsrc1, 1)?;
        inst.src[constant] = literal;
        inst.src[3 - constant] = vsrc1;
        inst.size = reader.size();
        return Ok(inst);
    }
    let scalar_second = first_source(reader, &mut inst, row, src0, signature.src[0])?;
    let second = signature.src.get(1).copied().unwrap_or(OperandType::B32);
    inst.src[1] = second_source(vsrc1, second, scalar_second)?;
    if signature.src.len() > 2 {
        inst.src[2] = Operand::Special(Special::Vcc);
    }
    inst.size = reader.size();
    Ok(inst)
}

pub(super) fn vopc(reader: &mut Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    let row = find(&tables::VOPC, reader, bits(word, 17, 8), "VOPC")?;
    let mut inst = blank(reader, Encoding::Vopc, row);
    let types = row.opcode.signature().src;
    inst.dst = Operand::Special(Special::Vcc);
    let scalar_second = first_source(reader, &mut inst, row, bits(word, 0, 9), types[0])?;
    inst.src[1] = second_source(bits(word, 9, 8), types[1], scalar_second)?;
    inst.size = reader.size();
    Ok(inst)
}

/// The destination of a vector instruction; `v_readlane` and `v_readfirstlane` write a scalar register.
fn vector_dst(row: &Row, code: u32) -> Result<Operand, Fault> {
    use Opcode::*;
    match (row.opcode, row.opcode.signature().dst.first()) {
        (VReadfirstlaneB32 | VReadlaneB32, _) => sreg(code, 1),
        (_, Some(OperandType::A32)) => super::operand::vector(code, 1, true),
        (_, Some(OperandType::Mask)) => sreg(code, 2),
        (_, Some(ty)) => vgpr(code, ty.dwords()),
        (_, None) => zero(code, "vdst").map(|()| Operand::None),
    }
}

/// Reads source 0 with whatever word follows it. Returns whether an SDWA word makes the second source scalar.
fn first_source(
    reader: &mut Reader<'_>,
    inst: &mut Instruction,
    row: &Row,
    code: u32,
    ty: OperandType,
) -> Result<bool, Fault> {
    match code {
        SDWA => {
            if !row.has(form::SDWA) {
                return Err(format!("{} has no SDWA form", row.opcode));
            }
            let word = reader.word()?;
            sdwa(inst, row, word, ty)
        }
        DPP => {
            if !row.has(form::DPP) {
                return Err(format!("{} has no DPP form", row.opcode));
            }
            let word = reader.word()?;
            dpp(inst, row, word, ty)?;
            Ok(false)
        }
        LITERAL if takes_literal(ty) => {
            inst.src[0] = Literals::new().take(reader)?;
            Ok(false)
        }
        _ => {
            inst.src[0] = src9(code, ty)?;
            if inst.opcode == Opcode::VReadfirstlaneB32 && code < 256 {
                return Err(format!("source code {code} where only a vector register can stand"));
            }
            Ok(false)
        }
    }
}

fn takes_literal(ty: OperandType) -> bool {
    !matches!(ty, OperandType::V32 | OperandType::V64 | OperandType::A32)
}

fn second_source(code: u32, ty: OperandType, scalar: bool) -> Result<Operand, Fault> {
    if scalar { ssrc(code, ty.dwords()) } else { vgpr(code, ty.dwords()) }
}

fn sdwa(inst: &mut Instruction, row: &Row, word: u32, ty: OperandType) -> Result<bool, Fault> {
    let compare = inst.encoding == Encoding::Vopc;
    let types = row.opcode.signature().src;
    let two = inst.encoding != Encoding::Vop1;
    let src_sel = [selector(bits(word, 16, 3))?, selector(bits(word, 24, 3))?];
    let sext = [bit(word, 19), bit(word, 27)];
    let neg = [bit(word, 20), bit(word, 28)];
    let abs = [bit(word, 21), bit(word, 29)];
    let scalar = [bit(word, 23), bit(word, 31)];
    zero(bits(word, 22, 1), "SDWA bit 22")?;
    zero(bits(word, 30, 1), "SDWA bit 30")?;
    let mut sources = 1;
    if two {
        sources = 2;
    } else {
        zero(word >> 24, "SDWA second source")?;
    }
    for i in 0..sources {
        let float = types.get(i).is_some_and(|ty| ty.takes_float_modifiers());
        if types.get(i) == Some(&OperandType::PkF16) && (neg[i] || abs[i]) {
            return Err(format!("float modifier of packed source {i}"));
        }
        if float && sext[i] {
            return Err(format!("sign extension of float source {i}"));
        }
        if !float && (neg[i] || abs[i]) {
            return Err(format!("float modifier of integer source {i}"));
        }
        inst.mods.neg |= u8::from(neg[i]) << i;
        inst.mods.abs |= u8::from(abs[i]) << i;
    }
    let mut dst_sel = SdwaSel::Dword;
    let mut dst_unused = SdwaUnused::Pad;
    if compare {
        if bit(word, 15) {
            inst.dst = sreg(bits(word, 8, 7), 2)?;
        } else {
            zero(bits(word, 8, 7), "SDWA sdst")?;
        }
    } else {
        dst_sel = selector(bits(word, 8, 3))?;
        dst_unused = match bits(word, 11, 2) {
            0 => SdwaUnused::Pad,
            1 => SdwaUnused::Sext,
            2 => SdwaUnused::Preserve,
            other => return Err(format!("SDWA dst_unused {other}")),
        };
        if !row.opcode.sdwa_selects_dst()
            && (dst_sel, dst_unused) != (SdwaSel::Dword, SdwaUnused::Pad)
        {
            return Err(format!("SDWA destination selector {dst_sel:?} of {}", row.opcode));
        }
        inst.mods.clamp = bit(word, 13);
        inst.mods.omod = bits(word, 14, 2) as u8;
        if inst.mods.omod != 0 && !row.has(form::OMOD) {
            return Err(format!("output modifier of {}", row.opcode));
        }
    }
    let code = bits(word, 0, 8);
    inst.src[0] = if scalar[0] { ssrc(code, ty.dwords())? } else { vgpr(code, ty.dwords())? };
    inst.mods.sdwa = Some(Sdwa { dst_sel, dst_unused, src_sel, sext });
    Ok(two && scalar[1])
}

fn selector(code: u32) -> Result<SdwaSel, Fault> {
    use SdwaSel::*;
    [Byte0, Byte1, Byte2, Byte3, Word0, Word1, Dword]
        .get(code as usize)
        .copied()
        .ok_or_else(|| format!("SDWA selector {code}"))
}

fn dpp(inst: &mut Instruction, row: &Row, word: u32, ty: OperandType) -> Result<(), Fault> {
    zero(bits(word, 17, 2), "DPP bits 18:17")?;
    let code = bits(word, 8, 9);
    let n = (code & 15) as u8;
    let ctrl = match code {
        0..=0xff => DppCtrl::QuadPerm([0, 2, 4, 6].map(|at| bits(code, at, 2) as u8)),
        0x101..=0x10f => DppCtrl::RowShl(n),
        0x111..=0x11f => DppCtrl::RowShr(n),
        0x121..=0x12f => DppCtrl::RowRor(n),
        0x130 => DppCtrl::WaveShl,
        0x134 => DppCtrl::WaveRol,
        0x138 => DppCtrl::WaveShr,
        0x13c => DppCtrl::WaveRor,
        0x140 => DppCtrl::RowMirror,
        0x141 => DppCtrl::RowHalfMirror,
        0x142 => DppCtrl::RowBcast15,
        0x143 => DppCtrl::RowBcast31,
        0x150..=0x15f => DppCtrl::RowNewbcast(n),
        _ => return Err(format!("DPP control {code:#x}")),
    };
    let signature = row.opcode.signature();
    let double = signature.dst.first().is_some_and(|ty| ty.dwords() == 2)
        || signature.src.iter().any(|ty| ty.dwords() == 2 && *ty != OperandType::Mask);
    if double && !matches!(ctrl, DppCtrl::RowNewbcast(_)) {
        return Err(format!("DPP control {code:#x} of a 64-bit operation"));
    }
    for i in 0..2u32 {
        let flags = bits(word, 20 + 2 * i, 2);
        let float = signature.src.get(i as usize).is_some_and(|ty| ty.takes_float_modifiers());
        if !float {
            zero(flags, "DPP float modifiers of an integer source")?;
        }
        inst.mods.neg |= ((flags & 1) as u8) << i;
        inst.mods.abs |= ((flags >> 1) as u8) << i;
    }
    inst.src[0] = vgpr(bits(word, 0, 8), ty.dwords())?;
    inst.mods.dpp = Some(Dpp {
        ctrl,
        row_mask: bits(word, 28, 4) as u8,
        bank_mask: bits(word, 24, 4) as u8,
        bound_ctrl: bit(word, 19),
    });
    Ok(())
}

/// The row of a VOP3 code: its own, or that of the VOPC, VOP2 or VOP1 opcode whose wide form it is.
fn vop3_row(reader: &Reader<'_>, code: u32) -> Result<&'static Row, Fault> {
    let narrow = match code {
        0x000..=0x0ff => tables::VOPC.get(code, reader.arch),
        0x100..=0x13f => tables::VOP2.get(code - tables::WIDE_VOP2, reader.arch),
        0x140..=0x1bf => tables::VOP1.get(code - tables::WIDE_VOP1, reader.arch),
        _ => None,
    };
    match narrow {
        Some(row) if row.has(form::E64) => Ok(row),
        _ => find(&tables::VOP3, reader, code, "VOP3"),
    }
}

pub(super) fn vop3(reader: &mut Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    use Opcode::*;
    let row = vop3_row(reader, bits(word, 16, 10))?;
    let second = reader.word()?;
    let mut inst = blank(reader, Encoding::Vop3, row);
    let signature = row.opcode.signature();
    inst.dst = vector_dst(row, bits(word, 0, 8))?;
    let carries = signature.dst.len() > 1;
    let codes = [bits(second, 0, 9), bits(second, 9, 9), bits(second, 18, 9)];
    for (i, code) in codes.into_iter().enumerate() {
        match signature.src.get(i) {
            Some(ty) => inst.src[i] = src9(code, *ty)?,
            None => zero(code, "unused source")?,
        }
    }
    let (mut abs, mut omod, mut neg) = (bits(word, 8, 3), bits(second, 27, 2), bits(second, 29, 3));
    if matches!(row.opcode, VBitop3B32 | VBitop3B16) {
        inst.mods.imm = (omod << 6 | abs << 3 | neg) as u16;
        (abs, omod, neg) = (0, 0, 0);
    }
    if carries {
        inst.dst2 = sreg(bits(word, 8, 7), 2)?;
        abs = 0;
    } else {
        let op_sel = bits(word, 11, 4);
        let sources = row.opcode.op_sel_sources() as u32;
        let allowed = match (row.has(form::OP_SEL), row.opcode) {
            (false, _) => 0,
            (true, VPermlane16SwapB32 | VPermlane32SwapB32) => 3,
            (true, _) => ((1 << sources) - 1) | 8,
        };
        zero(op_sel & !allowed, "op_sel")?;
        inst.mods.op_sel = op_sel as u8;
    }
    let float = |i: usize| signature.src.get(i).is_some_and(|ty| ty.takes_float_modifiers());
    let floats = (0..3).filter(|i| float(*i)).fold(0, |mask, i| mask | 1 << i);
    zero(abs & !floats, "abs of an integer source")?;
    zero(neg & !floats, "neg of an integer source")?;
    if !row.has(form::OMOD) {
        zero(omod, "omod")?;
    }
    let clamp = bit(word, 15);
    if clamp && !row.has(form::CLAMP) {
        return Err(format!("clamp of {}", row.opcode));
    }
    inst.mods.abs = abs as u8;
    inst.mods.neg = neg as u8;
    inst.mods.omod = omod as u8;
    inst.mods.clamp = clamp;
    Ok(inst)
}
