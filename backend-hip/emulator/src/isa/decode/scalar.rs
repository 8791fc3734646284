//! SOP2, SOPK, SOP1, SOPC, SOPP and SMEM.

use super::operand::{LDS_DIRECT, LITERAL, Literals, sreg, ssrc};
use super::{Fault, Reader, bit, bits, zero};
use crate::isa::inst::{Encoding, Instruction, Modifiers, Operand};
use crate::isa::opcode::Opcode;
use crate::isa::tables::{self, Row};
use crate::isa::types::OperandType;

/// The first of the codes of M0 and EXEC, which scalar memory cannot load or store.
const M0_OR_EXEC: u32 = 124;

/// A fresh instruction of `row` with nothing but its opcode.
pub(super) fn blank(reader: &Reader<'_>, encoding: Encoding, row: &Row) -> Instruction {
    Instruction {
        address: reader.address,
        size: reader.size(),
        encoding,
        opcode: row.opcode,
        dst: Operand::None,
        dst2: Operand::None,
        src: [Operand::None; 5],
        mods: Modifiers::default(),
    }
}

/// Looks a code up, or says which is unknown.
pub(super) fn find<const N: usize>(
    table: &tables::Table<N>,
    reader: &Reader<'_>,
    code: u32,
    encoding: &str,
) -> Result<&'static Row, Fault> {
    table
        .get(code, reader.arch)
        .ok_or_else(|| format!("{encoding} opcode {code:#x} is not known on {}", reader.arch))
}

/// The scalar encodings share their first two bits.
pub(super) fn scalar(reader: &mut Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    match word >> 23 {
        0x17d => sop1(reader, word),
        0x17e => sopc(reader, word),
        0x17f => sopp(reader, word),
        _ if word >> 28 == 0xb => sopk(reader, word),
        _ => sop2(reader, word),
    }
}

fn source(
    reader: &mut Reader<'_>,
    literals: &mut Literals,
    code: u32,
    ty: OperandType,
) -> Result<Operand, Fault> {
    match code {
        LITERAL => literals.take(reader),
        LDS_DIRECT => Err("a scalar source cannot be LDS".to_owned()),
        _ => ssrc(code, ty.dwords()),
    }
}

fn destination(row: &Row, code: u32) -> Result<Operand, Fault> {
    match row.opcode.signature().dst.first() {
        Some(ty) => sreg(code, ty.dwords()),
        None => zero(code, "sdst").map(|()| Operand::None),
    }
}

fn sop2(reader: &mut Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    let row = find(&tables::SOP2, reader, bits(word, 23, 7), "SOP2")?;
    let mut inst = blank(reader, Encoding::Sop2, row);
    inst.dst = destination(row, bits(word, 16, 7))?;
    let mut literals = Literals::new();
    for (i, ty) in row.opcode.signature().src.iter().enumerate() {
        inst.src[i] = source(reader, &mut literals, bits(word, 8 * i as u32, 8), *ty)?;
    }
    inst.size = reader.size();
    Ok(inst)
}

fn sop1(reader: &mut Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    use Opcode::*;
    let row = find(&tables::SOP1, reader, bits(word, 8, 8), "SOP1")?;
    let mut inst = blank(reader, Encoding::Sop1, row);
    inst.dst = destination(row, bits(word, 16, 7))?;
    let code = bits(word, 0, 8);
    inst.src[0] = match (row.opcode, row.opcode.signature().src.first()) {
        (_, None) => zero(code, "ssrc0").map(|()| Operand::None)?,
        // A register number relative to M0, or a program counter: constants make no sense.
        (SMovrelsB32 | SMovrelsB64 | SRfeB64 | SSetpcB64 | SCbranchJoin, Some(ty)) => {
            match ssrc(code, ty.dwords())? {
                Operand::Int(_) | Operand::Float(_) => {
                    return Err(format!("constant source code {code}"));
                }
                _ if code == LDS_DIRECT => return Err("a scalar source cannot be LDS".to_owned()),
                register => register,
            }
        }
        (_, Some(ty)) => source(reader, &mut Literals::new(), code, *ty)?,
    };
    inst.size = reader.size();
    Ok(inst)
}

fn sopc(reader: &mut Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    let row = find(&tables::SOPC, reader, bits(word, 16, 7), "SOPC")?;
    let mut inst = blank(reader, Encoding::Sopc, row);
    let mut literals = Literals::new();
    for (i, ty) in row.opcode.signature().src.iter().enumerate() {
        inst.src[i] = source(reader, &mut literals, bits(word, 8 * i as u32, 8), *ty)?;
    }
    if row.opcode == Opcode::SSetGprIdxOn {
        // The second source field is the index mode itself.
        zero(bits(word, 12, 4), "gpr_idx")?;
        inst.mods.imm = bits(word, 8, 8) as u16;
    }
    inst.size = reader.size();
    Ok(inst)
}

fn sopp(reader: &Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    use Opcode::*;
    let row = find(&tables::SOPP, reader, bits(word, 16, 7), "SOPP")?;
    let mut inst = blank(reader, Encoding::Sopp, row);
    let imm = bits(word, 0, 16);
    match row.opcode {
        SWakeup | SBarrier | SIcacheInv | STtracedata | SEndpgmSaved | SSetGprIdxOff
        | SEndpgmOrderedPsDone => zero(imm, "simm16")?,
        SSetGprIdxMode => zero(imm >> 4, "gpr_idx")?,
        _ => (),
    }
    inst.mods.imm = imm as u16;
    Ok(inst)
}

fn sopk(reader: &mut Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    use Opcode::*;
    let row = find(&tables::SOPK, reader, bits(word, 23, 5), "SOPK")?;
    let mut inst = blank(reader, Encoding::Sopk, row);
    let register = bits(word, 16, 7);
    let signature = row.opcode.signature();
    if row.opcode == SSetregImm32B32 {
        zero(register, "sdst")?;
        inst.src[0] = Operand::Literal(reader.word()?);
    } else {
        if let Some(ty) = signature.dst.first() {
            inst.dst = sreg(register, ty.dwords())?;
        }
        if let Some(ty) = signature.src.first() {
            inst.src[0] = sreg(register, ty.dwords())?;
        }
    }
    inst.mods.imm = bits(word, 0, 16) as u16;
    inst.size = reader.size();
    Ok(inst)
}

pub(super) fn smem(reader: &mut Reader<'_>, word: u32) -> Result<Instruction, Fault> {
    use Opcode::*;
    let row = find(&tables::SMEM, reader, bits(word, 18, 8), "SMEM")?;
    let second = reader.word()?;
    let mut inst = blank(reader, Encoding::Smem, row);
    let (sbase, sdata) = (bits(word, 0, 6) * 2, bits(word, 6, 7));
    let (imm, glc, soffset_en) = (bit(word, 17), bit(word, 16), bit(word, 14));
    zero(bits(word, 15, 1), "nv")?;
    zero(bits(word, 13, 1), "bit 13")?;
    let signature = row.opcode.signature();
    let Some(base) = signature.src.first() else {
        // Cache control and clocks address nothing.
        zero(word & 0x0003_0000, "imm, glc")?;
        zero(second, "offset")?;
        zero(sbase, "sbase")?;
        zero(u32::from(soffset_en), "soffset_en")?;
        match signature.dst.first() {
            Some(ty) => inst.dst = sreg(sdata, ty.dwords())?,
            None => zero(sdata, "sdata")?,
        }
        return Ok(inst);
    };
    inst.src[0] = sreg(sbase, base.dwords())?;
    match (imm, soffset_en) {
        (true, true) => inst.src[1] = soffset(bits(second, 25, 7))?,
        (true, false) => zero(bits(second, 25, 7), "soffset")?,
        (false, false) => {
            zero(second >> 7, "offset above the register")?;
            inst.src[1] = soffset(bits(second, 0, 7))?;
        }
        (false, true) => return Err("soffset_en without imm".to_owned()),
    }
    if imm {
        zero(bits(second, 21, 4), "offset above bit 20")?;
        inst.mods.offset = (second << 11) as i32 >> 11;
    }
    let buffer = base.dwords() == 4;
    if buffer && inst.mods.offset < 0 {
        return Err(format!("negative offset {} into a buffer", inst.mods.offset));
    }
    inst.mods.offen = soffset_en;
    inst.mods.sc0 = glc;
    match row.opcode {
        SAtcProbe | SAtcProbeBuffer => {
            zero(u32::from(glc), "glc")?;
            inst.mods.imm = sdata as u16;
        }
        SDcacheDiscard | SDcacheDiscardX2 => {
            zero(u32::from(glc), "glc")?;
            zero(sdata, "sdata")?;
        }
        _ if sdata >= M0_OR_EXEC => return Err(format!("scalar memory data in code {sdata}")),
        _ => {
            let data = match (signature.src.get(1), signature.dst.first()) {
                (Some(ty), _) | (None, Some(ty)) => sreg(sdata, ty.dwords())?,
                (None, None) => Operand::None,
            };
            if signature.src.len() > 1 {
                inst.src[2] = data;
            }
            if let Some(ty) = signature.dst.first() {
                // An atomic returns the old value only with GLC.
                if signature.src.len() == 1 || glc {
                    inst.dst = sreg(sdata, ty.dwords())?;
                }
            }
        }
    }
    Ok(inst)
}

fn soffset(code: u32) -> Result<Operand, Fault> {
    sreg(code, 1)
}
