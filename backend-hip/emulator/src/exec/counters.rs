//! What a launch did: instructions by class and opcode, matrix passes, LDS bank conflicts, cache lines, bytes.

use std::collections::BTreeMap;

use super::plan::{Kind, Plan};
use crate::Arch;
use crate::isa::Opcode;

/// Bytes in a cache line of both architectures' L1 and L2.
pub const CACHE_LINE: u64 = 128;

/// A class of instructions, as profilers count them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// Scalar arithmetic.
    Salu,
    /// Vector arithmetic other than matrix instructions.
    Valu,
    /// Matrix instructions.
    Mfma,
    /// Scalar memory.
    Smem,
    /// Vector memory.
    Vmem,
    /// LDS.
    Lds,
    /// Branches.
    Branch,
    /// `s_waitcnt`.
    Wait,
    /// `s_barrier`.
    Barrier,
    /// Anything else: `s_nop`, `s_endpgm`, `s_setprio`, …
    Other,
}

/// Traffic with one allocation, in bytes that lanes asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written; atomics count here and as read.
    pub written: u64,
}

/// Memory behaviour of one instruction, summed over its executions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// LDS cycles beyond the conflict-free count, by the architecture's phase rules.
    pub conflict_cycles: u64,
    /// Distinct cache lines touched, summed over executions.
    pub cache_lines: u64,
}

/// One executed instruction of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Address in the code object's address space.
    pub pc: u64,
    /// Disassembly.
    pub text: String,
    /// Waves that executed it, each execution counted.
    pub executed: u64,
    /// Its memory behaviour; zero unless [`Launch::count_memory`](super::Launch::count_memory) is on.
    pub access: Access,
}

/// The counters of a launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Workgroups run.
    pub workgroups: u64,
    /// Waves run.
    pub waves: u64,
    /// Wave-instructions executed.
    pub instructions: u64,
    /// The same by class.
    pub by_class: BTreeMap<Class, u64>,
    /// The same by mnemonic.
    pub by_opcode: BTreeMap<&'static str, u64>,
    /// Passes of four cycles that matrix instructions occupy the matrix core.
    pub matrix_passes: u64,
    /// LDS cycles beyond the conflict-free count.
    pub lds_conflict_cycles: u64,
    /// Cache lines that vector memory instructions touched, each counted once for each instruction.
    pub cache_lines: u64,
    /// Traffic by allocation name.
    pub traffic: BTreeMap<String, Traffic>,
    /// Barriers that whole workgroups passed.
    pub barriers: u64,
    /// Highest VGPR used by an executed instruction, plus one.
    pub vgprs: u32,
    /// Highest AGPR used by an executed instruction, plus one.
    pub agprs: u32,
    /// Highest SGPR (of `s0` to `s101`) used by an executed instruction, plus one.
    pub sgprs: u32,
    /// Executed instructions in address order.
    pub lines: Vec<Line>,
}

/// Counts of a workgroup or a set of them, by position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) hits: Vec<u64>,
    pub(crate) access: Vec<Access>,
    pub(crate) traffic: Vec<Traffic>,
    pub(crate) barriers: u64,
    pub(crate) waves: u64,
    pub(crate) workgroups: u64,
}

impl Tally {
    pub(crate) fn new(steps: usize, allocations: usize) -> Tally {
        Tally {
            hits: vec![0; steps],
            access: vec![Access::default(); steps],
            traffic: vec![Traffic::default(); allocations],
            ..Tally::default()
        }
    }

    pub(crate) fn merge(mut self, other: Tally) -> Tally {
        for (a, b) in self.hits.iter_mut().zip(&other.hits) {
            *a += b;
        }
        for (a, b) in self.access.iter_mut().zip(&other.access) {
            a.conflict_cycles += b.conflict_cycles;
            a.cache_lines += b.cache_lines;
        }
        for (a, b) in self.traffic.iter_mut().zip(&other.traffic) {
            a.read += b.read;
            a.written += b.written;
        }
        self.barriers += other.barriers;
        self.waves += other.waves;
        self.workgroups += other.workgroups;
        self
    }

    /// The public counters, with `names` of the allocations by position.
    pub(crate) fn finish<'a>(&self, plan: &Plan, names: impl Iterator<Item = &'a str>) -> Counters {
        let mut counters = Counters {
            workgroups: self.workgroups,
            waves: self.waves,
            barriers: self.barriers,
            ..Counters::default()
        };
        for ((step, &executed), &access) in plan.steps.iter().zip(&self.hits).zip(&self.access) {
            if executed == 0 {
                continue;
            }
            counters.instructions += executed;
            *counters.by_class.entry(class(&step.kind, step.inst.opcode)).or_default() += executed;
            *counters.by_opcode.entry(step.inst.opcode.mnemonic()).or_default() += executed;
            if let Kind::Matrix(shape) = &step.kind {
                counters.matrix_passes += executed * u64::from(shape.passes);
            }
            counters.lds_conflict_cycles += access.conflict_cycles;
            counters.cache_lines += access.cache_lines;
            for run in step.uses.reads.iter().chain(&step.uses.writes) {
                let end = run.registers().end;
                if usize::from(run.first) < plan.accum {
                    counters.vgprs = counters.vgprs.max(end as u32);
                } else {
                    counters.agprs = counters.agprs.max((end - plan.accum) as u32);
                }
            }
            let scalars = (step.uses.scalar_reads | step.uses.scalar_writes) & ((1 << 102) - 1);
            counters.sgprs = counters.sgprs.max(128 - scalars.leading_zeros());
            counters.lines.push(Line {
                pc: step.inst.address,
                text: step.inst.to_string(),
                executed,
                access,
            });
        }
        for (name, traffic) in names.zip(&self.traffic) {
            if *traffic != Traffic::default() {
                let entry = counters.traffic.entry(name.to_owned()).or_default();
                entry.read += traffic.read;
                entry.written += traffic.written;
            }
        }
        counters
    }
}

fn class(kind: &Kind, opcode: Opcode) -> Class {
    match kind {
        Kind::Scalar => Class::Salu,
        Kind::ScalarMemory(_) => Class::Smem,
        Kind::Vector | Kind::Compare(_) => Class::Valu,
        Kind::Matrix(_) => Class::Mfma,
        Kind::Memory(_) => Class::Vmem,
        Kind::Lds(_) => Class::Lds,
        Kind::Control | Kind::Unsupported(_) => match opcode {
            Opcode::SWaitcnt => Class::Wait,
            Opcode::SBarrier => Class::Barrier,
            _ if opcode.mnemonic().contains("branch") => Class::Branch,
            _ => Class::Other,
        },
    }
}

/// How an LDS instruction is cut into phases, the lanes of each, and over how many banks of four bytes.
#[derive(Clone, Copy)]
struct Phases {
    banks: u32,
    masks: [u64; 16],
    count: usize,
}

/// Phases of `lanes` consecutive lanes, a power of two from 4 to 64.
const fn consecutive(banks: u32, lanes: u32) -> Phases {
    let mut masks = [0; 16];
    let count = (64 / lanes) as usize;
    let mut n = 0;
    while n < count {
        masks[n] = if lanes == 64 { !0 } else { ((1u64 << lanes) - 1) << (n as u32 * lanes) };
        n += 1;
    }
    Phases { banks, masks, count }
}

/// Phases of the lower half wave, and the same 32 lanes on.
const fn mirrored<const N: usize>(banks: u32, half: [u64; N]) -> Phases {
    let mut masks = [0; 16];
    let mut n = 0;
    while n < N {
        masks[n] = half[n];
        masks[N + n] = half[n] << 32;
        n += 1;
    }
    Phases { banks, masks, count: 2 * N }
}

/// Lanes 0-3 and 20-23, 4-7 and 16-19, 8-11 and 28-31, 12-15 and 24-27.
const EIGHTS: [u64; 4] = [0x00f0_000f, 0x000f_00f0, 0xf000_0f00, 0x0f00_f000];
/// Lanes 0-3, 12-15 and 20-27; 4-11, 16-19 and 28-31.
const SIXTEENS: [u64; 2] = [0x0ff0_f00f, 0xf00f_0ff0];

/// The published phase rules; where none is published, phases of consecutive lanes that fill the banks once.
fn phases(arch: Arch, bytes: u32, write: bool) -> Phases {
    match (arch, bytes, write) {
        (Arch::Gfx942, 16, false) | (Arch::Gfx950, 12, false) => mirrored(32, EIGHTS),
        (Arch::Gfx950, 16, false) => mirrored(64, SIXTEENS),
        (_, 16, true) => consecutive(32, 8),
        (Arch::Gfx950, 8, true) => consecutive(32, 16),
        _ => {
            let banks = arch.lds_banks();
            consecutive(banks, (banks * 4 / bytes.max(4)).next_power_of_two().min(64))
        }
    }
}

/// Marks a bank that no dword was counted in.
const NO_DWORD: u32 = u32::MAX;

/// LDS cycles beyond the conflict-free count of one instruction: in each phase, the most distinct dwords in one bank, less
/// one.
pub(crate) fn conflict_cycles(
    arch: Arch,
    bytes: u32,
    write: bool,
    at: &[u32; 64],
    lanes: u64,
) -> u64 {
    let rules = phases(arch, bytes, write);
    let dwords = bytes.div_ceil(4);
    let mut cycles = 0;
    for &phase in &rules.masks[..rules.count] {
        let mut first = [NO_DWORD; 64];
        let mut count = [0u8; 64];
        // Dwords beyond the first of their bank, of which a phase has at most 64.
        let mut more = [NO_DWORD; 64];
        let mut extra = 0;
        let mut most = 1;
        let mut active = phase & lanes;
        while active != 0 {
            let lane = active.trailing_zeros() as usize;
            active &= active - 1;
            for n in 0..dwords {
                let dword = at[lane] / 4 + n;
                let bank = (dword % rules.banks) as usize;
                if first[bank] == NO_DWORD {
                    first[bank] = dword;
                    count[bank] = 1;
                } else if first[bank] != dword && !more[..extra].contains(&dword) && extra < 64 {
                    more[extra] = dword;
                    extra += 1;
                    count[bank] += 1;
                    most = most.max(count[bank]);
                }
            }
        }
        cycles += u64::from(most - 1);
    }
    cycles
}

/// Distinct cache lines that accesses of `bytes` bytes touch.
pub(crate) fn cache_lines(at: &[u64; 64], lanes: u64, bytes: u64) -> u64 {
    let mut lines: Vec<u64> = Vec::with_capacity(128);
    for lane in (0..64).filter(|lane| lanes >> lane & 1 == 1) {
        let first = at[lane] / CACHE_LINE;
        let last = at[lane].saturating_add(bytes - 1) / CACHE_LINE;
        lines.extend(first..=last);
    }
    lines.sort_unstable();
    lines.dedup();
    lines.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(stride: u32) -> [u32; 64] {
        std::array::from_fn(|lane| lane as u32 * stride)
    }

    #[test]
    fn consecutive_accesses_do_not_conflict() {
        for arch in Arch::ALL {
            for (bytes, write) in [(4, false), (4, true), (8, false), (8, true), (16, true)] {
                assert_eq!(
                    conflict_cycles(arch, bytes, write, &rows(bytes), !0),
                    0,
                    "{arch} {bytes}"
                );
            }
        }
    }

    #[test]
    fn one_bank_serialises_a_phase() {
        // Every lane in bank 0: each phase of 32 lanes takes 32 cycles instead of one.
        assert_eq!(conflict_cycles(Arch::Gfx942, 4, false, &rows(128), !0), 62);
        assert_eq!(conflict_cycles(Arch::Gfx942, 4, false, &rows(128), 0xffff), 15);
        // The same dword is broadcast.
        assert_eq!(conflict_cycles(Arch::Gfx942, 4, false, &[64; 64], !0), 0);
    }

    #[test]
    fn a_64_byte_row_swizzle_is_free_under_the_published_groups() {
        // 16-byte chunks of 64-byte rows, lane l reads row l % 16, chunk (l / 16) xor (row / 2 % 4).
        let at: [u32; 64] = std::array::from_fn(|lane| {
            let (row, chunk) = (lane as u32 % 16, lane as u32 / 16);
            row * 64 + (chunk ^ (row / 2 % 4)) * 16
        });
        assert_eq!(conflict_cycles(Arch::Gfx942, 16, false, &at, !0), 0);
    }

    #[test]
    fn lines_are_counted_once() {
        let at: [u64; 64] = std::array::from_fn(|lane| (1 << 20) + lane as u64 * 4);
        assert_eq!(cache_lines(&at, !0, 4), 2);
        assert_eq!(cache_lines(&at, 1, 4), 1);
        let wide: [u64; 64] = std::array::from_fn(|lane| lane as u64 * 256);
        assert_eq!(cache_lines(&wide, !0, 16), 64);
    }
}
