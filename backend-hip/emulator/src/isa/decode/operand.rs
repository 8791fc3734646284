//! Source and destination fields.

use super::{Fault, Reader};
use crate::isa::inst::{InlineFloat, Operand, Span, Special};
use crate::isa::types::OperandType;

/// The source code that announces a literal.
pub(crate) const LITERAL: u32 = 255;
/// The source code that announces an SDWA word.
pub(crate) const SDWA: u32 = 249;
/// The source code that announces a DPP word.
pub(crate) const DPP: u32 = 250;

/// The source code of a value read from LDS.
pub(crate) const LDS_DIRECT: u32 = 254;

/// Consecutive vector registers; tuples start at an even register as GFX90A and later require.
pub(crate) fn vgpr(first: u32, dwords: u8) -> Result<Operand, Fault> {
    vector_span(first, dwords).map(Operand::Vgpr)
}

/// Consecutive registers of the vector or of the accumulation file.
pub(crate) fn vector(first: u32, dwords: u8, accumulation: bool) -> Result<Operand, Fault> {
    let span = vector_span(first, dwords)?;
    Ok(if accumulation { Operand::Agpr(span) } else { Operand::Vgpr(span) })
}

/// As [`vector`], for the one opcode whose tuple may start at an odd register.
pub(crate) fn unaligned(first: u32, dwords: u8, accumulation: bool) -> Result<Operand, Fault> {
    let mut operand = vector(first & !1, dwords, accumulation)?;
    if first + u32::from(dwords) > 256 {
        return Err(format!("vector register {} does not exist", first + u32::from(dwords) - 1));
    }
    if let Operand::Vgpr(span) | Operand::Agpr(span) = &mut operand {
        span.first = first as u8;
    }
    Ok(operand)
}

fn vector_span(first: u32, dwords: u8) -> Result<Span, Fault> {
    if first + u32::from(dwords) > 256 {
        return Err(format!(
            "vector registers {first} to {} do not exist",
            first + u32::from(dwords) - 1
        ));
    }
    if dwords > 1 && !first.is_multiple_of(2) {
        return Err(format!("a tuple of {dwords} vector registers starts at odd {first}"));
    }
    Ok(Span { first: first as u8, dwords })
}

/// A scalar register by its 7-bit code, as a destination or as a source that takes no constants.
pub(crate) fn sreg(code: u32, dwords: u8) -> Result<Operand, Fault> {
    let align = match dwords {
        1 => 1,
        2 => 2,
        _ => 4,
    };
    let wide = dwords > 1;
    let special = |lo: Special, hi: Special, both: Special| match (code % 2, dwords) {
        (0, 1) => Ok(Operand::Special(lo)),
        (1, 1) => Ok(Operand::Special(hi)),
        (0, 2) => Ok(Operand::Special(both)),
        _ => Err(format!("scalar operand code {code} cannot be {dwords} registers wide")),
    };
    let span = |base: u32, count: u32| {
        let first = code - base;
        if !first.is_multiple_of(align) || first + u32::from(dwords) > count {
            return Err(format!(
                "{dwords} scalar registers cannot start at number {first} of {count}"
            ));
        }
        Ok(Span { first: first as u8, dwords })
    };
    match code {
        0..=101 => span(0, 102).map(Operand::Sgpr),
        102 | 103 => special(Special::FlatScratchLo, Special::FlatScratchHi, Special::FlatScratch),
        104 | 105 => special(Special::XnackMaskLo, Special::XnackMaskHi, Special::XnackMask),
        106 | 107 => special(Special::VccLo, Special::VccHi, Special::Vcc),
        108..=123 => span(108, 16).map(Operand::Ttmp),
        124 if !wide => Ok(Operand::Special(Special::M0)),
        126 | 127 => special(Special::ExecLo, Special::ExecHi, Special::Exec),
        _ => Err(format!("scalar operand code {code} is no register {dwords} dwords wide")),
    }
}

/// An inline constant by its code.
pub(crate) fn inline(code: u32) -> Option<Operand> {
    match code {
        128..=192 => Some(Operand::Int((code - 128) as i8)),
        193..=208 => Some(Operand::Int(-((code - 192) as i8))),
        240..=248 => InlineFloat::ALL.get((code - 240) as usize).map(|f| Operand::Float(*f)),
        _ => None,
    }
}

/// An 8-bit scalar source: a register, a constant or a value; not a literal.
pub(crate) fn ssrc(code: u32, dwords: u8) -> Result<Operand, Fault> {
    if let Some(constant) = inline(code) {
        return Ok(constant);
    }
    let special = match code {
        125 => Special::Null,
        235 => Special::SharedBase,
        236 => Special::SharedLimit,
        237 => Special::PrivateBase,
        238 => Special::PrivateLimit,
        239 => Special::PopsExitingWaveId,
        251 => Special::SrcVccz,
        252 => Special::SrcExecz,
        253 => Special::SrcScc,
        LDS_DIRECT if dwords == 1 => Special::LdsDirect,
        _ if code < 128 => return sreg(code, dwords),
        _ => return Err(format!("source code {code} is reserved")),
    };
    Ok(Operand::Special(special))
}

/// A 9-bit source of a vector instruction, literals excepted.
pub(crate) fn src9(code: u32, ty: OperandType) -> Result<Operand, Fault> {
    use OperandType::*;
    if code >= 256 {
        return match ty {
            Lane | Mask => {
                Err(format!("a vector register (code {code}) where a scalar one belongs"))
            }
            A32 => vector(code - 256, 1, true),
            _ => vgpr(code - 256, ty.dwords()),
        };
    }
    match ty {
        V32 | V64 | A32 | B96 | B128 | B192 | B256 | B256F64 | B512 | B1024 => {
            Err(format!("source code {code} where only a vector register can stand"))
        }
        Mask => sreg(code, 2),
        _ => ssrc(code, ty.dwords()),
    }
}

/// The literal that follows, once: a second operand with the literal code shares it.
pub(crate) struct Literals(Option<u32>);

impl Literals {
    pub(crate) fn new() -> Literals {
        Literals(None)
    }

    pub(crate) fn take(&mut self, reader: &mut Reader<'_>) -> Result<Operand, Fault> {
        let value = match self.0 {
            Some(value) => value,
            None => *self.0.insert(reader.word()?),
        };
        Ok(Operand::Literal(value))
    }
}
