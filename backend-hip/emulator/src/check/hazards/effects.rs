//! What an instruction touches, as far as hazards care; worked out once for each instruction of a kernel.

use super::table::Matrix;
use crate::Arch;
use crate::isa::{Encoding, Instruction, Opcode, Operand, SdwaSel, SdwaUnused, Special};
use crate::mfma::MfmaShape;

/// Consecutive vector registers: VGPRs from 0, AGPRs from 256.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Registers {
    pub(super) first: u16,
    pub(super) count: u16,
}

impl Registers {
    fn of(operand: Operand) -> Option<Registers> {
        match operand {
            Operand::Vgpr(span) => {
                Some(Registers { first: span.first.into(), count: span.dwords.into() })
            }
            Operand::Agpr(span) => {
                Some(Registers { first: 256 + u16::from(span.first), count: span.dwords.into() })
            }
            _ => None,
        }
    }

    pub(super) fn contains(self, register: u16) -> bool {
        (self.first..self.first + self.count).contains(&register)
    }

    pub(super) fn overlaps(self, other: Registers) -> bool {
        self.first < other.first + other.count && other.first < self.first + self.count
    }
}

impl std::fmt::Display for Registers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (file, first) =
            if self.first < 256 { ('v', self.first) } else { ('a', self.first - 256) };
        match self.count {
            1 => write!(f, "{file}{first}"),
            count => write!(f, "{file}[{first}:{}]", first + count - 1),
        }
    }
}

/// Up to `N` register runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs<const N: usize> {
    runs: [Registers; N],
    len: u8,
}

impl<const N: usize> Default for Runs<N> {
    fn default() -> Self {
        Runs { runs: [Registers::default(); N], len: 0 }
    }
}

impl<const N: usize> Runs<N> {
    fn push(&mut self, operand: Operand) {
        if let Some(run) = Registers::of(operand)
            && usize::from(self.len) < N
        {
            self.runs[usize::from(self.len)] = run;
            self.len += 1;
        }
    }

    pub(super) fn as_slice(&self) -> &[Registers] {
        &self.runs[..usize::from(self.len)]
    }
}

/// Classes of instructions, as bits: what an instruction is as a producer and as a consumer.
pub(super) mod class {
    pub(in super::super) const MATRIX: u32 = 1 << 0;
    /// A VALU instruction, matrix instructions included.
    pub(in super::super) const VECTOR: u32 = 1 << 1;
    /// Vector memory or LDS.
    pub(in super::super) const MEMORY: u32 = 1 << 2;
    /// Vector memory, without LDS.
    pub(in super::super) const VECTOR_MEMORY: u32 = 1 << 3;
    pub(in super::super) const DPP: u32 = 1 << 4;
    pub(in super::super) const READLANE: u32 = 1 << 5;
    /// `v_readlane`, `v_readfirstlane` and `v_writelane`.
    pub(in super::super) const LANE_ACCESS: u32 = 1 << 6;
    pub(in super::super) const PERMLANE_SWAP: u32 = 1 << 7;
    pub(in super::super) const DIV_FMAS: u32 = 1 << 8;
    pub(in super::super) const TRANSCENDENTAL: u32 = 1 << 9;
    pub(in super::super) const DOT: u32 = 1 << 10;
    /// Writes part of a register by SDWA or `op_sel`.
    pub(in super::super) const PARTIAL: u32 = 1 << 11;
    /// A VALU instruction that writes scalar registers.
    pub(in super::super) const WRITES_SCALAR: u32 = 1 << 12;
    /// A VALU instruction that writes EXEC.
    pub(in super::super) const WRITES_EXEC: u32 = 1 << 13;
    pub(in super::super) const WIDE_STORE: u32 = 1 << 14;
    /// A scalar instruction that writes M0.
    pub(in super::super) const WRITES_M0: u32 = 1 << 15;
    pub(in super::super) const USES_M0: u32 = 1 << 16;
    pub(in super::super) const SETREG: u32 = 1 << 17;
    /// `s_getreg` or `s_setreg`.
    pub(in super::super) const HARDWARE_REGISTER: u32 = 1 << 18;
    /// A VALU or vector memory instruction that reads scalar registers.
    pub(in super::super) const READS_SCALAR: u32 = 1 << 19;
}

/// Hardware numbers of VCC, M0 and EXEC among the scalar registers.
pub(super) const VCC: u32 = 106;
const M0: u32 = 124;
const EXEC: u32 = 126;

/// What hazards care about in one instruction.
#[derive(Clone, Debug)]
pub struct HazardInfo {
    pub(super) opcode: Opcode,
    pub(super) class: u32,
    /// The classes of producers that it can depend on.
    pub(super) listens: u32,
    /// Wait states that the instruction is worth.
    pub(super) worth: u32,
    pub(super) reads: Runs<6>,
    pub(super) writes: Runs<2>,
    /// C of a matrix instruction, the accumulator of a dot product.
    pub(super) accumulator: Option<Registers>,
    /// The destination, read because SDWA keeps its other part.
    pub(super) preserved: Option<Registers>,
    /// Data of a wide store.
    pub(super) store: Option<Registers>,
    /// Scalar registers read, a bit for each hardware number.
    pub(super) scalar_reads: u128,
    /// Scalar registers written.
    pub(super) scalar_writes: u128,
    /// The scalar registers that choose a lane.
    pub(super) lane_select: u128,
    /// Number of the hardware register of `s_getreg` and `s_setreg`.
    pub(super) hardware_register: u16,
    pub(super) matrix: Option<Matrix>,
    /// Wait states after which no rule cares for this instruction as a producer; 0 if none ever does.
    pub(super) reach: u32,
}

/// Bits of the scalar registers that an operand names.
fn scalar_bits(operand: Operand) -> u128 {
    let bits = |first: u32, count: u32| ((1u128 << count) - 1) << first;
    match operand {
        Operand::Sgpr(span) => bits(span.first.into(), span.dwords.into()),
        Operand::Special(special) => match special {
            Special::VccLo => bits(VCC, 1),
            Special::VccHi => bits(VCC + 1, 1),
            Special::Vcc => bits(VCC, 2),
            Special::M0 => bits(M0, 1),
            Special::ExecLo => bits(EXEC, 1),
            Special::ExecHi => bits(EXEC + 1, 1),
            Special::Exec => bits(EXEC, 2),
            _ => 0,
        },
        _ => 0,
    }
}

/// Whether a VALU instruction reads its destination's old value as an operand.
fn reads_destination(name: &str) -> bool {
    const PREFIXES: [&str; 15] = [
        "v_fmac_",
        "v_mac_",
        "v_pk_fmac_",
        "v_dot2c_",
        "v_dot4c_",
        "v_dot8c_",
        "v_cvt_pk_fp8_f32",
        "v_cvt_pk_bf8_f32",
        "v_cvt_sr_",
        "v_cvt_scalef32_pk_fp",
        "v_cvt_scalef32_pk_bf8",
        "v_cvt_scalef32_sr_",
        "v_cvt_scalef32_f16_",
        "v_writelane_",
        "v_fma_mix",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && name != "v_fma_mix_f32"
}

/// Whether `op_sel` makes a VALU instruction write only a part of its destination.
///
/// Asked for VOP3 only. LLVM also keeps a wait state after packed instructions, whose high-half selection it takes for this
/// bit; the documents have no such rule.
fn selects_part(name: &str, op_sel: u8) -> bool {
    // These merge into the destination whatever byte they choose.
    if name.starts_with("v_cvt_scalef32_sr_pk_fp4_") {
        return true;
    }
    // Conversions to one or two narrow elements choose among four bytes, by two bits.
    let byte = name.starts_with("v_cvt_sr_") || name.starts_with("v_cvt_scalef32_");
    op_sel & if byte { 0b1100 } else { 0b1000 } != 0
}

fn is_transcendental(name: &str) -> bool {
    ["v_rcp_", "v_rsq_", "v_sqrt_", "v_exp_", "v_log_", "v_sin_", "v_cos_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// The classes of producers that a consumer's class can depend on.
fn listens(consumer: u32) -> u32 {
    let across_lanes =
        class::MATRIX | class::DPP | class::LANE_ACCESS | class::READLANE | class::PERMLANE_SWAP;
    let pairs = [
        (class::VECTOR | class::MEMORY, class::MATRIX | class::DOT),
        (class::VECTOR, class::TRANSCENDENTAL | class::PARTIAL | class::WIDE_STORE),
        (class::READS_SCALAR, class::WRITES_SCALAR),
        (across_lanes, class::VECTOR),
        (class::USES_M0, class::WRITES_M0),
        (class::HARDWARE_REGISTER, class::SETREG),
    ];
    pairs
        .into_iter()
        .filter(|(consumers, _)| consumer & consumers != 0)
        .fold(0, |all, (_, producers)| all | producers)
}

impl HazardInfo {
    /// What hazards care about in an instruction of an architecture.
    pub fn new(arch: Arch, inst: &Instruction) -> HazardInfo {
        let name = inst.opcode.mnemonic();
        let mut info = HazardInfo {
            opcode: inst.opcode,
            class: 0,
            listens: 0,
            worth: if inst.opcode == Opcode::SNop { u32::from(inst.mods.imm & 15) + 1 } else { 1 },
            reads: Runs::default(),
            writes: Runs::default(),
            accumulator: None,
            preserved: None,
            store: None,
            scalar_reads: 0,
            scalar_writes: 0,
            lane_select: 0,
            hardware_register: 0,
            matrix: None,
            reach: 0,
        };
        for source in inst.src {
            info.reads.push(source);
            info.scalar_reads |= scalar_bits(source);
        }
        for destination in [inst.dst, inst.dst2] {
            info.writes.push(destination);
            info.scalar_writes |= scalar_bits(destination);
        }
        match inst.encoding {
            Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc | Encoding::Vop3 | Encoding::Vop3p => {
                info.vector(arch, inst, name)
            }
            Encoding::Mubuf | Encoding::Flat | Encoding::Global | Encoding::Scratch => {
                info.class |= class::MEMORY | class::VECTOR_MEMORY | class::READS_SCALAR;
                info.scalar_reads |= scalar_bits(Operand::Special(Special::Exec));
                info.wide_store(inst);
                if inst.mods.lds {
                    info.class |= class::USES_M0;
                }
            }
            Encoding::Ds => {
                info.class |= class::MEMORY;
                if name.ends_with("_addtid_b32") {
                    info.class |= class::USES_M0;
                }
            }
            Encoding::Sop1 | Encoding::Sop2 | Encoding::Sopk | Encoding::Sopc | Encoding::Sopp => {
                info.scalar(inst, name);
            }
            Encoding::Smem => {}
        }
        info.listens = listens(info.class);
        info.reach = info.reach();
        info
    }

    fn vector(&mut self, arch: Arch, inst: &Instruction, name: &str) {
        self.class |= class::VECTOR;
        if inst.opcode.is_matrix() {
            self.class |= class::MATRIX;
            let m = inst.mods;
            // An instruction that does not resolve is not executed either: the emulator stops at it.
            self.matrix = MfmaShape::resolve(arch, inst.opcode, m.cbsz, m.abid, m.blgp)
                .ok()
                .map(|shape| Matrix::of(arch, &shape));
            self.accumulator = Registers::of(inst.src[2]);
            self.reads = Runs::default();
            for factor in [inst.src[0], inst.src[1], inst.src[3], inst.src[4]] {
                self.reads.push(factor);
            }
        }
        if reads_destination(name) || inst.mods.dpp.is_some() {
            self.reads.push(inst.dst);
        }
        if inst.mods.dpp.is_some() {
            self.class |= class::DPP;
        }
        if name.starts_with("v_cmpx_") {
            self.scalar_writes |= scalar_bits(Operand::Special(Special::Exec));
            self.class |= class::WRITES_EXEC;
        }
        if name.starts_with("v_div_fmas_") {
            self.class |= class::DIV_FMAS;
            self.scalar_reads |= scalar_bits(Operand::Special(Special::Vcc));
        }
        if is_transcendental(name) {
            self.class |= class::TRANSCENDENTAL;
        }
        if name.starts_with("v_dot") {
            self.class |= class::DOT;
            let carried = reads_destination(name);
            self.accumulator = Registers::of(if carried { inst.dst } else { inst.src[2] });
            self.reads = Runs::default();
            let factors = if inst.mods.dpp.is_some() { 3 } else { 2 };
            [inst.src[0], inst.src[1], inst.dst][..factors]
                .iter()
                .for_each(|o| self.reads.push(*o));
        }
        match inst.opcode {
            Opcode::VReadlaneB32 => {
                self.class |= class::READLANE | class::LANE_ACCESS;
                self.lane_select = scalar_bits(inst.src[1]);
            }
            Opcode::VReadfirstlaneB32 => self.class |= class::READLANE | class::LANE_ACCESS,
            Opcode::VWritelaneB32 => {
                self.class |= class::LANE_ACCESS;
                self.lane_select = scalar_bits(inst.src[1]);
            }
            Opcode::VPermlane16SwapB32 | Opcode::VPermlane32SwapB32 => {
                self.class |= class::PERMLANE_SWAP;
                self.reads.push(inst.dst);
                self.writes.push(inst.src[0]);
            }
            _ => {}
        }
        match inst.mods.sdwa {
            Some(sdwa) if inst.encoding != Encoding::Vopc => {
                if sdwa.dst_sel != SdwaSel::Dword {
                    self.class |= class::PARTIAL;
                }
                if sdwa.dst_unused == SdwaUnused::Preserve {
                    self.preserved = Registers::of(inst.dst);
                }
            }
            _ => {
                let wide = inst.encoding == Encoding::Vop3;
                if wide && selects_part(name, inst.mods.op_sel) {
                    self.class |= class::PARTIAL;
                }
            }
        }
        if self.scalar_writes != 0 {
            self.class |= class::WRITES_SCALAR;
        }
        if self.scalar_reads != 0 {
            self.class |= class::READS_SCALAR;
        }
    }

    /// Notes the data of a store, or of an atomic operation, of more than 8 bytes. Buffer stores with a scalar register as
    /// offset take a cycle longer to issue and are safe.
    fn wide_store(&mut self, inst: &Instruction) {
        let (data, safe) = if inst.encoding == Encoding::Mubuf {
            let register =
                matches!(inst.src[2], Operand::Sgpr(_) | Operand::Ttmp(_) | Operand::Special(_));
            (inst.src[3], register)
        } else {
            (inst.src[2], false)
        };
        self.store = Registers::of(data).filter(|data| data.count > 2 && !safe);
        if self.store.is_some() {
            self.class |= class::WIDE_STORE;
        }
    }

    fn scalar(&mut self, inst: &Instruction, name: &str) {
        if self.scalar_writes >> M0 & 1 == 1 {
            self.class |= class::WRITES_M0;
        }
        if name.starts_with("s_movrel") || name.starts_with("s_sendmsg") || name == "s_ttracedata" {
            self.class |= class::USES_M0;
        }
        match inst.opcode {
            Opcode::SGetregB32 => self.class |= class::HARDWARE_REGISTER,
            Opcode::SSetregB32 | Opcode::SSetregImm32B32 => {
                self.class |= class::HARDWARE_REGISTER | class::SETREG;
            }
            _ => {}
        }
        // The register's number is the low six bits; the rest selects its bits.
        self.hardware_register = inst.mods.imm & 63;
    }

    /// The longest wait that any rule asks for after this instruction.
    fn reach(&self) -> u32 {
        let mut reach = 0;
        let mut at_least = |states: u32| reach = reach.max(states);
        if let Some(matrix) = self.matrix {
            at_least(matrix.result());
        }
        if self.class & class::VECTOR != 0 && self.writes.len > 0 {
            at_least(2);
        }
        if self.class & class::DOT != 0 {
            at_least(3);
        }
        if self.class & class::WRITES_SCALAR != 0 {
            at_least(5);
        }
        if self.class & class::WIDE_STORE != 0 || self.class & class::SETREG != 0 {
            at_least(2);
        }
        if self.class & class::WRITES_M0 != 0 {
            at_least(1);
        }
        reach
    }
}
