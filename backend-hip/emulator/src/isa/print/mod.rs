//! The text of an instruction, as `llvm-objdump -d` writes it.

mod control;
mod operand;

use std::fmt::{self, Display, Formatter};

use super::inst::{DppCtrl, Encoding, Instruction, Operand, Sdwa, SdwaSel, SdwaUnused};
use super::opcode::Opcode;
use super::tables::{form, forms};
use super::types::OperandType;
use operand::{constant, plain, with_modifiers};

impl Display for Instruction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.opcode.mnemonic())?;
        f.write_str(self.suffix())?;
        match self.encoding {
            Encoding::Sop1 | Encoding::Sop2 | Encoding::Sopc | Encoding::Sopk | Encoding::Sopp => {
                control::scalar(self, f)
            }
            Encoding::Smem => smem(self, f),
            Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc | Encoding::Vop3 => vector(self, f),
            Encoding::Vop3p => packed(self, f),
            Encoding::Ds => ds(self, f),
            Encoding::Mubuf => mubuf(self, f),
            Encoding::Flat | Encoding::Global | Encoding::Scratch => flat(self, f),
        }
    }
}

impl Instruction {
    /// The suffix that names the encoding where an opcode has more than one.
    fn suffix(&self) -> &'static str {
        let both = forms(self.opcode) & form::E32 != 0;
        match self.encoding {
            _ if self.mods.dpp.is_some() => "_dpp",
            _ if self.mods.sdwa.is_some() => "_sdwa",
            Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc if both => "_e32",
            Encoding::Vop3 if both => "_e64",
            _ => "",
        }
    }
}

/// Writes operands after the mnemonic: a space before the first, a comma and a space before the others.
struct List {
    first: bool,
}

impl List {
    fn new() -> List {
        List { first: true }
    }

    fn item(&mut self, f: &mut Formatter<'_>, text: impl Display) -> fmt::Result {
        let separator = if self.first { " " } else { ", " };
        self.first = false;
        write!(f, "{separator}{text}")
    }

    /// A register, if there is one.
    fn register(&mut self, f: &mut Formatter<'_>, operand: Operand) -> fmt::Result {
        if operand.is_some() { self.item(f, plain(operand)) } else { Ok(()) }
    }

    /// A register, or `off` where there is none.
    fn register_or_off(&mut self, f: &mut Formatter<'_>, operand: Operand) -> fmt::Result {
        if operand.is_some() { self.item(f, plain(operand)) } else { self.item(f, "off") }
    }
}

fn flag(f: &mut Formatter<'_>, on: bool, name: &str) -> fmt::Result {
    if on { write!(f, " {name}") } else { Ok(()) }
}

/// `name:[a,b,c]` with the low bits of `value`.
fn bit_list(f: &mut Formatter<'_>, name: &str, value: u8, count: usize) -> fmt::Result {
    write!(f, " {name}:[")?;
    for i in 0..count {
        let comma = if i > 0 { "," } else { "" };
        write!(f, "{comma}{}", value >> i & 1)?;
    }
    f.write_str("]")
}

/// ` offset:n` unless it is zero.
fn offset(f: &mut Formatter<'_>, value: i32) -> fmt::Result {
    if value == 0 { Ok(()) } else { write!(f, " offset:{value}") }
}

fn signed_hex(value: i32) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{:#x}", value.unsigned_abs())
}

fn smem(inst: &Instruction, f: &mut Formatter<'_>) -> fmt::Result {
    let mut list = List::new();
    let signature = inst.opcode.signature();
    if matches!(inst.opcode, Opcode::SAtcProbe | Opcode::SAtcProbeBuffer) {
        list.item(f, control::short(inst.mods.imm))?;
    } else if inst.src[2].is_some() {
        list.register(f, inst.src[2])?;
    } else {
        list.register(f, inst.dst)?;
    }
    if signature.src.is_empty() {
        return Ok(());
    }
    list.register(f, inst.src[0])?;
    if inst.src[1].is_some() {
        list.register(f, inst.src[1])?;
        // The form with a register and an immediate says so even when the immediate is zero.
        if inst.mods.offen {
            write!(f, " offset:{}", signed_hex(inst.mods.offset))?;
        }
    } else {
        list.item(f, signed_hex(inst.mods.offset))?;
    }
    flag(f, inst.mods.sc0, "glc")
}

fn vector(inst: &Instruction, f: &mut Formatter<'_>) -> fmt::Result {
    let signature = inst.opcode.signature();
    let mut list = List::new();
    list.register(f, inst.dst)?;
    list.register(f, inst.dst2)?;
    for (i, ty) in signature.src.iter().enumerate() {
        list.item(f, with_modifiers(inst, i, *ty))?;
    }
    if let Some(sdwa) = &inst.mods.sdwa {
        flag(f, inst.mods.clamp, "clamp")?;
        output_modifier(inst, f)?;
        return sdwa_word(inst, sdwa, f);
    }
    if inst.mods.dpp.is_some() {
        return dpp_word(inst, f);
    }
    if inst.encoding != Encoding::Vop3 {
        return Ok(());
    }
    if matches!(inst.opcode, Opcode::VBitop3B32 | Opcode::VBitop3B16) && inst.mods.imm != 0 {
        let table = inst.mods.imm;
        if table <= 10 {
            write!(f, " bitop3:{table}")?;
        } else {
            write!(f, " bitop3:{table:#x}")?;
        }
    }
    if matches!(inst.opcode, Opcode::VPermlane16SwapB32 | Opcode::VPermlane32SwapB32) {
        flag(f, inst.mods.op_sel & 2 != 0, "bound_ctrl:1")?;
        return flag(f, inst.mods.op_sel & 1 != 0, "fi:1");
    }
    if inst.mods.op_sel != 0 {
        let sources = inst.opcode.op_sel_sources();
        let low = inst.mods.op_sel & ((1 << sources) - 1);
        bit_list(f, "op_sel", low | (inst.mods.op_sel >> 3 & 1) << sources, sources + 1)?;
    }
    flag(f, inst.mods.clamp, "clamp")?;
    output_modifier(inst, f)
}

fn output_modifier(inst: &Instruction, f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str(match inst.mods.omod {
        1 => " mul:2",
        2 => " mul:4",
        3 => " div:2",
        _ => "",
    })
}

fn sdwa_word(inst: &Instruction, sdwa: &Sdwa, f: &mut Formatter<'_>) -> fmt::Result {
    let selects_dst = inst.encoding != Encoding::Vopc && inst.opcode.sdwa_selects_dst();
    if selects_dst {
        let unused = match sdwa.dst_unused {
            SdwaUnused::Pad => "UNUSED_PAD",
            SdwaUnused::Sext => "UNUSED_SEXT",
            SdwaUnused::Preserve => "UNUSED_PRESERVE",
        };
        write!(f, " dst_sel:{} dst_unused:{unused}", selector(sdwa.dst_sel))?;
    }
    write!(f, " src0_sel:{}", selector(sdwa.src_sel[0]))?;
    if inst.encoding != Encoding::Vop1 {
        write!(f, " src1_sel:{}", selector(sdwa.src_sel[1]))?;
    }
    Ok(())
}

fn selector(sel: SdwaSel) -> &'static str {
    match sel {
        SdwaSel::Byte0 => "BYTE_0",
        SdwaSel::Byte1 => "BYTE_1",
        SdwaSel::Byte2 => "BYTE_2",
        SdwaSel::Byte3 => "BYTE_3",
        SdwaSel::Word0 => "WORD_0",
        SdwaSel::Word1 => "WORD_1",
        SdwaSel::Dword => "DWORD",
    }
}

fn dpp_word(inst: &Instruction, f: &mut Formatter<'_>) -> fmt::Result {
    let Some(dpp) = &inst.mods.dpp else { return Ok(()) };
    match dpp.ctrl {
        DppCtrl::QuadPerm([a, b, c, d]) => write!(f, " quad_perm:[{a},{b},{c},{d}]")?,
        DppCtrl::RowShl(n) => write!(f, " row_shl:{n}")?,
        DppCtrl::RowShr(n) => write!(f, " row_shr:{n}")?,
        DppCtrl::RowRor(n) => write!(f, " row_ror:{n}")?,
        DppCtrl::WaveShl => f.write_str(" wave_shl:1")?,
        DppCtrl::WaveRol => f.write_str(" wave_rol:1")?,
        DppCtrl::WaveShr => f.write_str(" wave_shr:1")?,
        DppCtrl::WaveRor => f.write_str(" wave_ror:1")?,
        DppCtrl::RowMirror => f.write_str(" row_mirror")?,
        DppCtrl::RowHalfMirror => f.write_str(" row_half_mirror")?,
        DppCtrl::RowBcast15 => f.write_str(" row_bcast:15")?,
        DppCtrl::RowBcast31 => f.write_str(" row_bcast:31")?,
        DppCtrl::RowNewbcast(n) => write!(f, " row_newbcast:{n}")?,
    }
    write!(f, " row_mask:{:#x} bank_mask:{:#x}", dpp.row_mask, dpp.bank_mask)?;
    flag(f, dpp.bound_ctrl, "bound_ctrl:1")
}

fn packed(inst: &Instruction, f: &mut Formatter<'_>) -> fmt::Result {
    let signature = inst.opcode.signature();
    let matrix = inst.opcode.is_matrix();
    let mut list = List::new();
    list.register(f, inst.dst)?;
    for (i, ty) in signature.src.iter().enumerate() {
        list.item(f, with_modifiers(inst, i, *ty))?;
    }
    if matrix {
        return matrix_modifiers(inst, f);
    }
    let count = signature.src.len();
    let mods = &inst.mods;
    let all = (1u8 << count) - 1;
    let mix = signature.src.first() == Some(&OperandType::Mix);
    if forms(inst.opcode) & form::OP_SEL != 0 {
        if mods.op_sel != 0 {
            bit_list(f, "op_sel", mods.op_sel, count)?;
        }
        let default = if mix { 0 } else { all };
        if mods.op_sel_hi & all != default {
            bit_list(f, "op_sel_hi", mods.op_sel_hi, count)?;
        }
    }
    if !mix {
        if mods.neg != 0 {
            bit_list(f, "neg_lo", mods.neg, count)?;
        }
        if mods.neg_hi != 0 {
            bit_list(f, "neg_hi", mods.neg_hi, count)?;
        }
    }
    flag(f, mods.clamp, "clamp")
}

fn matrix_modifiers(inst: &Instruction, f: &mut Formatter<'_>) -> fmt::Result {
    let mods = &inst.mods;
    if inst.src[3].is_some() {
        if mods.op_sel != 0 {
            bit_list(f, "op_sel", mods.op_sel, 3)?;
        }
        bit_list(f, "op_sel_hi", mods.op_sel_hi, 3)?;
    }
    if mods.cbsz != 0 {
        write!(f, " cbsz:{}", mods.cbsz)?;
    }
    if mods.abid != 0 {
        write!(f, " abid:{}", mods.abid)?;
    }
    if mods.blgp == 0 {
        Ok(())
    } else if inst.opcode.signature().src[2].const_class() == super::types::ConstClass::Float64 {
        bit_list(f, "neg", mods.blgp, 3)
    } else {
        write!(f, " blgp:{}", mods.blgp)
    }
}

fn ds(inst: &Instruction, f: &mut Formatter<'_>) -> fmt::Result {
    let mut list = List::new();
    list.register(f, inst.dst)?;
    for operand in &inst.src[..3] {
        list.register(f, *operand)?;
    }
    let mods = &inst.mods;
    if inst.opcode.has_two_offsets() {
        if mods.offset0 != 0 {
            write!(f, " offset0:{}", mods.offset0)?;
        }
        if mods.offset1 != 0 {
            write!(f, " offset1:{}", mods.offset1)?;
        }
    } else if inst.opcode == Opcode::DsSwizzleB32 {
        control::swizzle(mods.offset as u16, f)?;
    } else {
        offset(f, mods.offset)?;
    }
    Ok(())
}

fn cache_policy(inst: &Instruction, f: &mut Formatter<'_>) -> fmt::Result {
    flag(f, inst.mods.sc0, "sc0")?;
    flag(f, inst.mods.nt, "nt")?;
    flag(f, inst.mods.sc1, "sc1")
}

fn mubuf(inst: &Instruction, f: &mut Formatter<'_>) -> fmt::Result {
    let signature = inst.opcode.signature();
    if !signature.src.is_empty() || !signature.dst.is_empty() {
        let mut list = List::new();
        if inst.src[3].is_some() {
            list.register(f, inst.src[3])?;
        } else {
            list.register(f, inst.dst)?;
        }
        list.register_or_off(f, inst.src[0])?;
        list.register(f, inst.src[1])?;
        list.item(f, constant(inst.src[2], OperandType::B32))?;
        flag(f, inst.mods.idxen, "idxen")?;
        flag(f, inst.mods.offen, "offen")?;
        offset(f, inst.mods.offset)?;
    }
    cache_policy(inst, f)?;
    flag(f, inst.mods.lds, "lds")
}

fn flat(inst: &Instruction, f: &mut Formatter<'_>) -> fmt::Result {
    let mut list = List::new();
    list.register(f, inst.dst)?;
    list.register_or_off(f, inst.src[0])?;
    list.register(f, inst.src[2])?;
    if inst.encoding != Encoding::Flat {
        list.register_or_off(f, inst.src[1])?;
    }
    offset(f, inst.mods.offset)?;
    cache_policy(inst, f)
}
