//! Scalar operations, their structured immediates, and the swizzle pattern.

use std::fmt::{self, Formatter};

use super::List;
use super::operand::{constant, plain};
use crate::isa::inst::{Encoding, Instruction, Operand};
use crate::isa::opcode::Opcode;
use crate::isa::types::OperandType;

/// Hardware registers of `s_getreg` and `s_setreg` by number.
const HARDWARE_REGISTERS: [&str; 25] = [
    "",
    "HW_REG_MODE",
    "HW_REG_STATUS",
    "HW_REG_TRAPSTS",
    "HW_REG_HW_ID",
    "HW_REG_GPR_ALLOC",
    "HW_REG_LDS_ALLOC",
    "HW_REG_IB_STS",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "HW_REG_SH_MEM_BASES",
    "HW_REG_TBA_LO",
    "HW_REG_TBA_HI",
    "HW_REG_TMA_LO",
    "HW_REG_TMA_HI",
    "HW_REG_XCC_ID",
    "HW_REG_SQ_PERF_SNAPSHOT_DATA",
    "HW_REG_SQ_PERF_SNAPSHOT_DATA1",
    "HW_REG_SQ_PERF_SNAPSHOT_PC_LO",
    "HW_REG_SQ_PERF_SNAPSHOT_PC_HI",
];

/// Messages of `s_sendmsg` by number.
const MESSAGES: [&str; 16] = [
    "",
    "MSG_INTERRUPT",
    "MSG_GS",
    "MSG_GS_DONE",
    "MSG_SAVEWAVE",
    "MSG_STALL_WAVE_GEN",
    "MSG_HALT_WAVES",
    "MSG_ORDERED_PS_DONE",
    "MSG_EARLY_PRIM_DEALLOC",
    "MSG_GS_ALLOC_REQ",
    "MSG_GET_DOORBELL",
    "",
    "",
    "",
    "",
    "MSG_SYSMSG",
];

const GS_OPERATIONS: [&str; 4] = ["GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT"];

/// GFX9 lacks the third operation of later targets.
const SYSTEM_OPERATIONS: [&str; 5] =
    ["", "SYSMSG_OP_ECC_ERR_INTERRUPT", "SYSMSG_OP_REG_RD", "", "SYSMSG_OP_TTRACE_PC"];

pub(super) fn scalar(inst: &Instruction, f: &mut Formatter<'_>) -> fmt::Result {
    match inst.encoding {
        Encoding::Sopp => sopp(inst, f),
        Encoding::Sopk => sopk(inst, f),
        _ => {
            let mut list = List::new();
            list.register(f, inst.dst)?;
            for (i, ty) in inst.opcode.signature().src.iter().enumerate() {
                list.item(f, constant(inst.src[i], *ty))?;
            }
            if inst.opcode == Opcode::SSetGprIdxOn {
                list.item(f, index_mode(inst.mods.imm))?;
            }
            Ok(())
        }
    }
}

fn sopk(inst: &Instruction, f: &mut Formatter<'_>) -> fmt::Result {
    use Opcode::*;
    let imm = inst.mods.imm;
    match inst.opcode {
        SSetregB32 | SSetregImm32B32 => {
            let value = match inst.src[0] {
                Operand::Literal(value) => unmarked(value),
                register => plain(register),
            };
            write!(f, " {}, {value}", hardware_register(imm))
        }
        SGetregB32 => write!(f, " {}, {}", plain(inst.dst), hardware_register(imm)),
        SCallB64 => write!(f, " {}, {imm}", plain(inst.dst)),
        SCbranchIFork => write!(f, " {}, {imm}", plain(inst.src[0])),
        _ => {
            let register = if inst.dst.is_some() { inst.dst } else { inst.src[0] };
            write!(f, " {}, {imm:#x}", plain(register))
        }
    }
}

/// A literal that no inline constant could stand for in its place: numbers print as inline constants do.
fn unmarked(value: u32) -> String {
    let signed = value as i32;
    if (-16..=64).contains(&signed) {
        return signed.to_string();
    }
    let float = crate::isa::InlineFloat::ALL.into_iter().find(|f| f.bits32() == value);
    match float {
        Some(float) => constant(Operand::Float(float), OperandType::B32),
        None => format!("{value:#x}"),
    }
}

fn hardware_register(imm: u16) -> String {
    let (id, offset, width) = (imm & 0x3f, imm >> 6 & 0x1f, (imm >> 11) + 1);
    let name = match HARDWARE_REGISTERS.get(usize::from(id)) {
        Some(name) if !name.is_empty() => (*name).to_owned(),
        _ => id.to_string(),
    };
    if (offset, width) == (0, 32) {
        format!("hwreg({name})")
    } else {
        format!("hwreg({name}, {offset}, {width})")
    }
}

/// The sources and the destination that `s_set_gpr_idx_on` makes relative.
fn index_mode(imm: u16) -> String {
    if imm > 15 {
        return format!("{imm:#x}");
    }
    let names = ["SRC0", "SRC1", "SRC2", "DST"];
    let set: Vec<&str> =
        names.into_iter().enumerate().filter(|(i, _)| imm >> i & 1 == 1).map(|(_, n)| n).collect();
    format!("gpr_idx({})", set.join(","))
}

fn sopp(inst: &Instruction, f: &mut Formatter<'_>) -> fmt::Result {
    use Opcode::*;
    let imm = inst.mods.imm;
    match inst.opcode {
        SWaitcnt => wait(imm, f),
        SSendmsg | SSendmsghalt => write!(f, " {}", message(imm)),
        SSetGprIdxMode => write!(f, " {}", index_mode(imm)),
        SWakeup | SBarrier | SIcacheInv | STtracedata | SEndpgmSaved | SSetGprIdxOff
        | SEndpgmOrderedPsDone => Ok(()),
        SEndpgm if imm == 0 => Ok(()),
        SEndpgm
        | SBranch
        | SCbranchScc0
        | SCbranchScc1
        | SCbranchVccz
        | SCbranchVccnz
        | SCbranchExecz
        | SCbranchExecnz
        | SCbranchCdbgsys
        | SCbranchCdbguser
        | SCbranchCdbgsysOrUser
        | SCbranchCdbgsysAndUser => write!(f, " {imm}"),
        _ => write!(f, " {}", short(imm)),
    }
}

/// A 16-bit number: decimal where an inline constant could express it.
pub(super) fn short(imm: u16) -> String {
    if imm <= 64 { imm.to_string() } else { format!("{imm:#x}") }
}

/// The counters that are waited for; all of them if none is.
fn wait(imm: u16, f: &mut Formatter<'_>) -> fmt::Result {
    let counters = crate::isa::WaitCounts::from_imm(imm);
    let all = counters == crate::isa::WaitCounts::NONE;
    if all || counters.vm != crate::isa::WaitCounts::NONE.vm {
        write!(f, " vmcnt({})", counters.vm)?;
    }
    if all || counters.exp != crate::isa::WaitCounts::NONE.exp {
        write!(f, " expcnt({})", counters.exp)?;
    }
    if all || counters.lgkm != crate::isa::WaitCounts::NONE.lgkm {
        write!(f, " lgkmcnt({})", counters.lgkm)?;
    }
    Ok(())
}

fn message(imm: u16) -> String {
    let (id, operation, stream) = (imm & 15, imm >> 4 & 7, imm >> 8 & 3);
    let operations: &[&str] = match id {
        2 | 3 => &GS_OPERATIONS,
        15 => &SYSTEM_OPERATIONS,
        _ => &[],
    };
    let name = MESSAGES[usize::from(id)];
    let operation_name = operations.get(usize::from(operation)).copied().unwrap_or("");
    // A plain message has no operation; a geometry message needs one, and a real one to name a stream.
    let valid_operation = if operations.is_empty() {
        operation == 0
    } else {
        !operation_name.is_empty() && (id, operation) != (2, 0)
    };
    let has_stream = matches!(id, 2 | 3) && operation != 0;
    if !name.is_empty() && valid_operation && (has_stream || stream == 0) {
        return match (operations.is_empty(), has_stream) {
            (true, _) => format!("sendmsg({name})"),
            (false, false) => format!("sendmsg({name}, {operation_name})"),
            (false, true) => format!("sendmsg({name}, {operation_name}, {stream})"),
        };
    }
    if imm == id | operation << 4 | stream << 8 {
        format!("sendmsg({id}, {operation}, {stream})")
    } else {
        imm.to_string()
    }
}

/// The pattern of `ds_swizzle_b32`: a quad permutation, a rotation or FFT order of 32 lanes, or masks applied to the
/// lane number within 32 lanes.
pub(super) fn swizzle(imm: u16, f: &mut Formatter<'_>) -> fmt::Result {
    if imm == 0 {
        return Ok(());
    }
    f.write_str(" offset:")?;
    if imm & 0xff00 == 0x8000 {
        let lanes = [0, 2, 4, 6].map(|at| imm >> at & 3);
        return write!(f, "swizzle(QUAD_PERM,{},{},{},{})", lanes[0], lanes[1], lanes[2], lanes[3]);
    }
    match imm {
        0xe000.. => return write!(f, "swizzle(FFT,{})", imm & 31),
        0xc000.. => return write!(f, "swizzle(ROTATE,{},{})", imm >> 10 & 1, imm >> 5 & 31),
        0x8000.. => return write!(f, "{imm}"),
        _ => (),
    }
    let (and, or, xor) = (imm & 31, imm >> 5 & 31, imm >> 10 & 31);
    if (and, or) == (31, 0) && xor.is_power_of_two() {
        return write!(f, "swizzle(SWAP,{xor})");
    }
    if (and, or) == (31, 0) && xor > 0 && (xor + 1).is_power_of_two() {
        return write!(f, "swizzle(REVERSE,{})", xor + 1);
    }
    let group = 32 - and;
    if group > 1 && group.is_power_of_two() && xor == 0 && or < group {
        return write!(f, "swizzle(BROADCAST,{group},{or})");
    }
    f.write_str("swizzle(BITMASK_PERM,\"")?;
    for at in (0..5).rev() {
        let (keep, set, flip) = (and >> at & 1, or >> at & 1, xor >> at & 1);
        let letter = match (keep, set, flip) {
            (0, set, flip) if set ^ flip == 1 => '1',
            (0, ..) => '0',
            (_, 0, 0) => 'p',
            (_, 0, _) => 'i',
            (_, _, 0) => '1',
            _ => '0',
        };
        write!(f, "{letter}")?;
    }
    f.write_str("\")")
}
