//! Registers, constants and source modifiers.

use crate::isa::inst::{InlineFloat, Instruction, Operand, Span, Special};
use crate::isa::types::{ConstClass, OperandType};

/// A register, or a constant of 32 bits.
pub(super) fn plain(operand: Operand) -> String {
    constant(operand, OperandType::B32)
}

/// An operand without modifiers; constants by the rules of `ty`.
pub(super) fn constant(operand: Operand, ty: OperandType) -> String {
    match operand {
        Operand::None => String::new(),
        Operand::Sgpr(span) => registers("s", span),
        Operand::Ttmp(span) => registers("ttmp", span),
        Operand::Vgpr(span) => registers("v", span),
        Operand::Agpr(span) => registers("a", span),
        Operand::Special(special) => name(special).to_owned(),
        Operand::Int(value) => value.to_string(),
        Operand::Float(value) => inline_float(value, ty.const_class()),
        Operand::Literal(value) => literal(value, ty.const_class()),
    }
}

fn registers(file: &str, span: Span) -> String {
    if span.dwords == 1 {
        format!("{file}{}", span.first)
    } else {
        format!("{file}[{}:{}]", span.first, u32::from(span.first) + u32::from(span.dwords) - 1)
    }
}

fn name(special: Special) -> &'static str {
    match special {
        Special::FlatScratchLo => "flat_scratch_lo",
        Special::FlatScratchHi => "flat_scratch_hi",
        Special::FlatScratch => "flat_scratch",
        Special::XnackMaskLo => "xnack_mask_lo",
        Special::XnackMaskHi => "xnack_mask_hi",
        Special::XnackMask => "xnack_mask",
        Special::VccLo => "vcc_lo",
        Special::VccHi => "vcc_hi",
        Special::Vcc => "vcc",
        Special::M0 => "m0",
        Special::ExecLo => "exec_lo",
        Special::ExecHi => "exec_hi",
        Special::Exec => "exec",
        Special::SrcVccz => "src_vccz",
        Special::SrcExecz => "src_execz",
        Special::SrcScc => "src_scc",
        Special::SharedBase => "src_shared_base",
        Special::SharedLimit => "src_shared_limit",
        Special::PrivateBase => "src_private_base",
        Special::PrivateLimit => "src_private_limit",
        Special::PopsExitingWaveId => "src_pops_exiting_wave_id",
        Special::LdsDirect => "src_lds_direct",
        Special::Null => "null",
    }
}

fn inline_float(value: InlineFloat, class: ConstClass) -> String {
    if class == ConstClass::Int16 {
        // An integer operand sees the half precision bits.
        return format!("{:#x}", value.bits16());
    }
    let text = match value {
        InlineFloat::Half => "0.5",
        InlineFloat::MinusHalf => "-0.5",
        InlineFloat::One => "1.0",
        InlineFloat::MinusOne => "-1.0",
        InlineFloat::Two => "2.0",
        InlineFloat::MinusTwo => "-2.0",
        InlineFloat::Four => "4.0",
        InlineFloat::MinusFour => "-4.0",
        InlineFloat::InvTwoPi => match class {
            ConstClass::Int64 | ConstClass::Float64 => "0.15915494309189532",
            _ => "0.15915494",
        },
    };
    text.to_owned()
}

/// A literal; one that an inline constant could have expressed is marked, so that it assembles back to a literal. A
/// 16-bit operand shows the half it takes, unless the whole has to be marked.
fn literal(value: u32, class: ConstClass) -> String {
    let small = |value: i64| (-16..=64).contains(&value);
    let float = |bits: &dyn Fn(&InlineFloat) -> bool| InlineFloat::ALL.iter().any(bits);
    let (signed, half) = (i64::from(value as i32), value as u16);
    let (inlinable, text) = match class {
        ConstClass::Int16 => (small(signed), format!("{half:#x}")),
        ConstClass::Float16 => {
            (small(i64::from(half as i16)) || float(&|f| f.bits16() == half), format!("{half:#x}"))
        }
        ConstClass::PackedFloat16 => {
            (small(signed) || float(&|f| u32::from(f.bits16()) == value), format!("{value:#x}"))
        }
        ConstClass::PackedBfloat16 => {
            (small(signed) || float(&|f| f.bits32() >> 16 == value), format!("{value:#x}"))
        }
        ConstClass::Bits32 => {
            (small(signed) || float(&|f| f.bits32() == value), format!("{value:#x}"))
        }
        ConstClass::Int64 => (small(i64::from(value)), format!("{value:#x}")),
        ConstClass::Float64 => return double_literal(value),
    };
    if inlinable { format!("lit({value:#x})") } else { text }
}

/// The high half of a double is not marked: it prints as the constant it equals, if any.
fn double_literal(high: u32) -> String {
    let float = InlineFloat::ALL.into_iter().find(|f| f.bits64() == u64::from(high) << 32);
    match float {
        Some(float) => inline_float(float, ConstClass::Float64),
        None if high == 0 => "0".to_owned(),
        None => format!("{high:#x}"),
    }
}

/// Source `index` of `inst` with its negation, absolute value or sign extension.
pub(super) fn with_modifiers(inst: &Instruction, index: usize, ty: OperandType) -> String {
    let operand = inst.src[index];
    if inst.opcode.constant_source() == Some(index)
        && let Operand::Literal(value) = operand
    {
        // No inline constant can stand in this place.
        return format!("{value:#x}");
    }
    let text = constant(operand, ty);
    if let Some(sdwa) = &inst.mods.sdwa
        && sdwa.sext.get(index) == Some(&true)
    {
        return format!("sext({text})");
    }
    // VOP3P states the negation of its halves in lists of their own.
    let listed = inst.encoding == crate::isa::Encoding::Vop3p && ty != OperandType::Mix;
    let neg = !listed && inst.mods.neg >> index & 1 == 1;
    let abs = inst.mods.abs >> index & 1 == 1;
    let number = matches!(operand, Operand::Int(_) | Operand::Float(_) | Operand::Literal(_));
    match (neg, abs) {
        (false, false) => text,
        (false, true) => format!("|{text}|"),
        (true, true) => format!("-|{text}|"),
        // A minus sign before a number would be part of the number.
        (true, false) if number => format!("neg({text})"),
        (true, false) => format!("-{text}"),
    }
}
