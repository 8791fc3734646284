//! A kernel's instructions prepared for execution: what each does, where it branches, and which registers it touches.
//!
//! Everything that can be known before a wave runs is worked out here, once for each instruction.

use super::ops::{self, Compare, LdsOp, MemoryOp, ScalarMemoryOp};
use super::wave::{number, scalar_number, special_number};
use crate::check::hazards::HazardInfo;
use crate::check::uninit::SCC;
use crate::isa::{Encoding, Instruction, Opcode, Operand, Program, Special};
use crate::loader::{CodeObject, Kernel};
use crate::mfma::MfmaShape;
use crate::{Arch, Error, Result};

/// What executes an instruction.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Scalar,
    Control,
    ScalarMemory(ScalarMemoryOp),
    Vector,
    Compare(Compare),
    Matrix(MfmaShape),
    Memory(MemoryOp),
    Lds(LdsOp),
    /// It decodes, but has no execution semantics here; the text says why.
    Unsupported(String),
}

/// How a result's mark of being initialised follows from the sources'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carry {
    /// Every source must hold a value; the result then does.
    None,
    /// A lane mask combined with EXEC: bits of lanes that are off may hold nothing, and nothing depends on them.
    LaneMask,
    /// A copy of source 0.
    Copy,
    /// Source 0 or 1, by the mask in source 2.
    Select,
    /// Two words, from sources 0 and 1.
    Packed,
    /// 64-bit integers whose low halves do not depend on high ones: compilers leave high halves undefined where only the low
    /// half of the result is used.
    Wide,
    /// Two singles, each from the halves that the modifiers pick of every source.
    Halves,
    /// Destination and source 0 exchange lanes.
    Exchange,
    /// One lane of source 0 goes to a scalar register.
    Lane,
}

/// A run of unified vector registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u16,
    pub(crate) count: u8,
}

impl Run {
    pub(crate) fn registers(self) -> std::ops::Range<usize> {
        usize::from(self.first)..usize::from(self.first) + usize::from(self.count)
    }
}

/// The registers that an instruction touches.
#[derive(Clone, Debug)]
pub(crate) struct Uses {
    /// Vector registers read.
    pub(crate) reads: Vec<Run>,
    /// Vector registers written.
    pub(crate) writes: Vec<Run>,
    /// Both, one bit each.
    pub(crate) touched: [u64; 8],
    /// Scalar registers read, by hardware number, and SCC.
    pub(crate) scalar_reads: u128,
    /// Scalar registers written.
    pub(crate) scalar_writes: u128,
    pub(crate) carry: Carry,
    /// Whether all lanes are read and written whatever EXEC says.
    pub(crate) all_lanes: bool,
}

/// One instruction, prepared.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) inst: Instruction,
    pub(crate) kind: Kind,
    /// Index of the branch target, or [`NOWHERE`].
    pub(crate) target: u32,
    pub(crate) uses: Uses,
}

/// The target of an instruction that does not branch to any instruction.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// A kernel prepared for execution.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) arch: Arch,
    pub(crate) kernel: String,
    pub(crate) steps: Vec<Step>,
    /// What hazards care about, by instruction.
    pub(crate) hazards: Vec<HazardInfo>,
    pub(crate) program: Program,
    /// Unified vector registers of a wave.
    pub(crate) registers: usize,
    /// Index of `a0`.
    pub(crate) accum: usize,
}

impl Plan {
    /// Decodes and prepares a kernel.
    ///
    /// # Errors
    /// The decoder's, and [`Error::BadDescriptor`] if an instruction names a register beyond the descriptor's allocation.
    pub(crate) fn new(object: &CodeObject, kernel: &Kernel) -> Result<Plan> {
        let program = Program::decode(object, kernel)?;
        let mut plan = Plan {
            arch: object.arch,
            kernel: kernel.meta.name.clone(),
            steps: Vec::with_capacity(program.instructions.len()),
            registers: usize::from(kernel.descriptor.vector_registers),
            accum: usize::from(kernel.descriptor.accum_offset),
            hazards: program
                .instructions
                .iter()
                .map(|inst| HazardInfo::new(object.arch, inst))
                .collect(),
            program,
        };
        for index in 0..plan.program.instructions.len() {
            let inst = plan.program.instructions[index];
            let uses = uses(&inst, plan.accum);
            let last = uses.reads.iter().chain(&uses.writes).map(|run| run.registers().end).max();
            // A function that the kernel never calls may use more than the kernel allocates; it matters when it runs.
            let beyond = last.is_some_and(|last| last > plan.registers);
            let kind = if beyond {
                Kind::Unsupported(format!(
                    "it names a vector register beyond the {} that the descriptor allocates",
                    plan.registers
                ))
            } else {
                kind(&inst, plan.arch)
            };
            let target = match inst.encoding {
                Encoding::Sopp => plan.program.index_of(inst.branch_target()),
                _ => None,
            };
            let target = target.map_or(NOWHERE, |target| target as u32);
            plan.steps.push(Step { inst, kind, target, uses });
        }
        Ok(plan)
    }

    /// A vector instruction with its register operands moved by the index in `m0`'s bits 7:0: sources 0 to 2 and the
    /// destination, as bits 12 to 15 say.
    ///
    /// # Errors
    /// [`Error::UnsupportedInstruction`] if a register leaves the file.
    pub(crate) fn relative(&self, step: usize, m0: u32) -> Result<Step> {
        let mut moved = self.steps[step].clone();
        let index = m0 & 0xff;
        let [s0, s1, s2, ..] = &mut moved.inst.src;
        for (n, operand) in [s0, s1, s2, &mut moved.inst.dst].into_iter().enumerate() {
            if let (Operand::Vgpr(span), 1) = (operand, m0 >> (12 + n) & 1) {
                let first = u32::from(span.first) + index;
                let end = (first + u32::from(span.dwords)) as usize;
                if end > self.registers || first > 0xff {
                    return Err(
                        self.unsupported(step, format!("its index {index} leaves the registers"))
                    );
                }
                span.first = first as u8;
            }
        }
        moved.uses = uses(&moved.inst, self.accum);
        Ok(moved)
    }

    /// The error for an instruction that is not executed.
    pub(crate) fn unsupported(&self, step: usize, reason: impl Into<String>) -> Error {
        let inst = &self.steps[step].inst;
        Error::UnsupportedInstruction {
            kernel: self.kernel.clone(),
            address: inst.address,
            text: inst.to_string(),
            reason: reason.into(),
        }
    }
}

fn kind(inst: &Instruction, arch: Arch) -> Kind {
    let no = |reason: &str| Kind::Unsupported(reason.to_owned());
    match inst.encoding {
        Encoding::Sop1 | Encoding::Sop2 | Encoding::Sopc | Encoding::Sopk => Kind::Scalar,
        Encoding::Sopp => Kind::Control,
        Encoding::Smem => match ops::scalar_memory(inst.opcode) {
            Some(op) => Kind::ScalarMemory(op),
            None => {
                no("scalar stores, atomics and scratch do not exist on these targets' hardware")
            }
        },
        Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc | Encoding::Vop3 | Encoding::Vop3p => {
            if let Some(compare) = ops::compare(inst.opcode) {
                return Kind::Compare(compare);
            }
            if !inst.opcode.is_matrix() {
                return Kind::Vector;
            }
            let mods = &inst.mods;
            match MfmaShape::resolve(arch, inst.opcode, mods.cbsz, mods.abid, mods.blgp) {
                Ok(shape) => Kind::Matrix(shape),
                Err(error) => Kind::Unsupported(error.to_string()),
            }
        }
        Encoding::Ds => match ops::lds(inst.opcode) {
            Some(op) => Kind::Lds(op),
            None => no("the LDS operation has no execution semantics here"),
        },
        Encoding::Mubuf | Encoding::Flat | Encoding::Global | Encoding::Scratch => {
            match ops::memory(inst) {
                Some(op) => Kind::Memory(op),
                None => no("typed buffer formats are not modelled"),
            }
        }
    }
}

fn vector_run(operand: Operand, accum: usize) -> Option<Run> {
    match operand {
        Operand::Vgpr(span) => Some(Run { first: u16::from(span.first), count: span.dwords }),
        Operand::Agpr(span) => {
            Some(Run { first: accum as u16 + u16::from(span.first), count: span.dwords })
        }
        _ => None,
    }
}

/// The mask of a scalar operand's registers.
fn scalar_mask(operand: Operand) -> u128 {
    let width = match operand {
        Operand::Sgpr(span) | Operand::Ttmp(span) => usize::from(span.dwords),
        Operand::Special(Special::SrcVccz) => return 3 << number::VCC,
        Operand::Special(Special::SrcScc) => return SCC,
        Operand::Special(special) => special_number(special).map_or(0, |(_, width)| width),
        _ => 0,
    };
    match scalar_number(operand) {
        Some(first) => ((1u128 << width) - 1).checked_shl(first as u32).unwrap_or(0),
        None => 0,
    }
}

fn uses(inst: &Instruction, accum: usize) -> Uses {
    use Opcode as O;
    let mut uses = Uses {
        reads: Vec::new(),
        writes: Vec::new(),
        touched: [0; 8],
        scalar_reads: 0,
        scalar_writes: 0,
        carry: carry(inst),
        all_lanes: inst.opcode.is_matrix(),
    };
    for (n, operand) in inst.src.into_iter().enumerate() {
        uses.reads.extend(vector_run(operand, accum));
        let mask = scalar_mask(operand);
        uses.scalar_reads |= match scalar_number(operand) {
            // Of a pair, a packed operation reads the halves that its selectors name.
            Some(first) if uses.carry == Carry::Halves => {
                let halves =
                    1u128 << (inst.mods.op_sel >> n & 1) | 1 << (inst.mods.op_sel_hi >> n & 1);
                mask & halves << first
            }
            _ => mask,
        };
    }
    for operand in [inst.dst, inst.dst2] {
        uses.writes.extend(vector_run(operand, accum));
        uses.scalar_writes |= scalar_mask(operand);
    }
    let name = inst.opcode.mnemonic();
    if reads_destination(name) {
        uses.reads.extend(vector_run(inst.dst, accum));
    }
    match inst.opcode {
        O::VDivFmasF32 | O::VDivFmasF64 => uses.scalar_reads |= 3 << number::VCC,
        O::SCbranchVccz | O::SCbranchVccnz => uses.scalar_reads |= 3 << number::VCC,
        O::VSwapB32 | O::VPermlane16SwapB32 | O::VPermlane32SwapB32 => {
            uses.reads.extend(vector_run(inst.dst, accum));
            uses.writes.extend(vector_run(inst.src[0], accum));
        }
        O::SBitset0B32 | O::SBitset1B32 | O::SBitset0B64 | O::SBitset1B64 => {
            uses.scalar_reads |= scalar_mask(inst.dst);
        }
        O::DsReadAddtidB32 | O::DsWriteAddtidB32 => uses.scalar_reads |= 1 << number::M0,
        _ => {}
    }
    if inst.mods.lds && ops::is_vector_memory(inst.encoding) {
        uses.scalar_reads |= 1 << number::M0;
    }
    if name.ends_with("saveexec_b64") || name.ends_with("wrexec_b64") || name.starts_with("v_cmpx")
    {
        uses.scalar_writes |= 3 << number::EXEC;
    }
    if reads_scc(name) {
        uses.scalar_reads |= SCC;
    }
    if writes_scc(inst.encoding, name) {
        uses.scalar_writes |= SCC;
    }
    for run in uses.reads.iter().chain(&uses.writes) {
        for register in run.registers().filter(|&register| register < 512) {
            uses.touched[register / 64] |= 1 << (register % 64);
        }
    }
    uses
}

/// Whether the destination is an operand too.
fn reads_destination(name: &str) -> bool {
    name.contains("fmac")
        || name.starts_with("v_mac_")
        || name.starts_with("v_dot") && name.contains("c_")
}

fn reads_scc(name: &str) -> bool {
    name.starts_with("s_cselect")
        || name.starts_with("s_addc")
        || name.starts_with("s_subb")
        || name.starts_with("s_cbranch_scc")
        || name.starts_with("s_cmov")
}

fn writes_scc(encoding: Encoding, name: &str) -> bool {
    match encoding {
        Encoding::Sopc => true,
        Encoding::Sopk => name.starts_with("s_cmpk") || name.starts_with("s_addk"),
        Encoding::Sop2 => {
            let without = ["s_cselect", "s_bfm", "s_mul", "s_pack"];
            !without.iter().any(|prefix| name.starts_with(prefix))
        }
        Encoding::Sop1 => {
            let with = ["s_not", "s_wqm", "s_bcnt", "s_quadmask", "s_abs"];
            name.ends_with("exec_b64") || with.iter().any(|prefix| name.starts_with(prefix))
        }
        _ => false,
    }
}

fn carry(inst: &Instruction) -> Carry {
    use Opcode as O;
    match inst.opcode {
        // SDWA moves part of a register, which counts as a use.
        _ if inst.mods.sdwa.is_some() => Carry::None,
        O::VMovB32
        | O::VMovB64
        | O::VAccvgprReadB32
        | O::VAccvgprWriteB32
        | O::VAccvgprMovB32
        | O::SMovB32
        | O::SMovB64
        | O::VWritelaneB32 => Carry::Copy,
        O::SAndB64 | O::SOrB64 | O::SXorB64 | O::SAndn2B64 | O::SOrn2B64
            if inst.src.contains(&Operand::Special(Special::Exec)) =>
        {
            Carry::LaneMask
        }
        O::VCndmaskB32 => Carry::Select,
        O::VPkMovB32 => Carry::Packed,
        O::VMadU64U32 | O::VMadI64I32 | O::VLshlAddU64 | O::VLshlrevB64 => Carry::Wide,
        O::VPkFmaF32 | O::VPkMulF32 | O::VPkAddF32 => Carry::Halves,
        O::VSwapB32 | O::VPermlane16SwapB32 | O::VPermlane32SwapB32 => Carry::Exchange,
        O::VReadlaneB32 | O::VReadfirstlaneB32 => Carry::Lane,
        _ => Carry::None,
    }
}
