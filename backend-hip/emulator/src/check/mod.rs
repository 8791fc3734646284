//! Checks of what hardware would not report: missing waits, races, hazards, uninitialised and out-of-bounds reads.
//!
//! A check never changes what a kernel computes: it adds a [`Finding`] and execution goes on as the hardware might, so one
//! run shows every fault. Equal findings (same kind at the same instruction) are merged and counted.

pub mod hazards;
pub(crate) mod races;
pub(crate) mod uninit;
pub(crate) mod waits;

use std::collections::HashMap;

/// Which checks run. Bounds, the instruction budget and endless waits are always checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Registers, LDS and memory used before the `s_waitcnt` that covers their load, and LDS accesses that a barrier does
    /// not order because no wait precedes it.
    pub waits: bool,
    /// LDS accesses of two waves, one a write, with no barrier between.
    pub races: bool,
    /// Barriers reached with part of EXEC, or not by every wave.
    pub barriers: bool,
    /// Registers, LDS bytes and memory bytes read before anything wrote them.
    pub uninitialised: bool,
    /// Accesses below their natural alignment.
    pub alignment: bool,
    /// Buffer offsets that are in range by one reading of `soffset` and out of range by the other.
    pub ambiguous_offsets: bool,
    /// Results read inside the wait states that the hardware does not enforce.
    pub hazards: bool,
    /// Loads and stores past a descriptor's `num_records`. They are defined (zero, and dropped), and kernels use them for
    /// tails, so this is off even in [`Checks::ALL`]. Offsets of 0x8000_0000 and more count as deliberate.
    pub descriptor_bounds: bool,
}

impl Checks {
    /// Everything that is a fault in every kernel.
    pub const ALL: Checks = Checks {
        waits: true,
        races: true,
        barriers: true,
        uninitialised: true,
        alignment: true,
        ambiguous_offsets: true,
        hazards: true,
        descriptor_bounds: false,
    };

    /// [`Checks::ALL`] and the out-of-range buffer accesses that kernels may intend.
    pub const STRICT: Checks = Checks { descriptor_bounds: true, ..Checks::ALL };

    /// None: the fastest run.
    pub const NONE: Checks = Checks {
        waits: false,
        races: false,
        barriers: false,
        uninitialised: false,
        alignment: false,
        ambiguous_offsets: false,
        hazards: false,
        descriptor_bounds: false,
    };

    /// Whether any check is on that needs per-instruction tracking.
    pub(crate) fn any(&self) -> bool {
        *self != Checks::NONE
    }
}

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FindingKind {
    /// A register is read or overwritten while a load into it is in flight.
    RegisterBeforeWait,
    /// LDS bytes are read while a direct-to-LDS load or another wave's unwaited write to them is in flight.
    LdsBeforeWait,
    /// LDS bytes are overwritten while another wave's read of them is in flight across a barrier.
    LdsOverwriteBeforeWait,
    /// Two waves access the same LDS bytes, one writing, with no barrier between.
    LdsRace,
    /// A barrier is executed with part of the wave's lanes switched off.
    DivergentBarrier,
    /// A wave ended while others of its workgroup wait for it at a barrier.
    MismatchedBarrier,
    /// An access outside every allocation, or outside LDS or scratch.
    OutOfBounds,
    /// An access past a descriptor's `num_records`.
    DescriptorBounds,
    /// A store into a read-only allocation.
    ReadOnly,
    /// A register is read that nothing wrote.
    UninitialisedRegister,
    /// LDS bytes are read that nothing wrote.
    UninitialisedLds,
    /// Memory or scratch bytes are read that nothing wrote.
    UninitialisedMemory,
    /// An address below the natural alignment of its access.
    Misaligned,
    /// A buffer offset in range by one reading of `soffset` only.
    AmbiguousOffset,
    /// A result is read inside the wait states it needs.
    Hazard,
    /// The wave executed more instructions than the budget.
    InstructionBudget,
    /// No wave of the workgroup can go on.
    Deadlock,
    /// The wave executed a trap or left its code.
    Trap,
}

impl FindingKind {
    /// A short name for reports.
    pub fn name(self) -> &'static str {
        match self {
            FindingKind::RegisterBeforeWait => "register-before-wait",
            FindingKind::LdsBeforeWait => "lds-before-wait",
            FindingKind::LdsOverwriteBeforeWait => "lds-overwrite-before-wait",
            FindingKind::LdsRace => "lds-race",
            FindingKind::DivergentBarrier => "divergent-barrier",
            FindingKind::MismatchedBarrier => "mismatched-barrier",
            FindingKind::OutOfBounds => "out-of-bounds",
            FindingKind::DescriptorBounds => "descriptor-bounds",
            FindingKind::ReadOnly => "read-only",
            FindingKind::UninitialisedRegister => "uninitialised-register",
            FindingKind::UninitialisedLds => "uninitialised-lds",
            FindingKind::UninitialisedMemory => "uninitialised-memory",
            FindingKind::Misaligned => "misaligned",
            FindingKind::AmbiguousOffset => "ambiguous-offset",
            FindingKind::Hazard => "hazard",
            FindingKind::InstructionBudget => "instruction-budget",
            FindingKind::Deadlock => "deadlock",
            FindingKind::Trap => "trap",
        }
    }
}

/// One report of a check, with the place of its first occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was found.
    pub kind: FindingKind,
    /// The kernel.
    pub kernel: String,
    /// The workgroup's id.
    pub workgroup: [u32; 3],
    /// The wave within the workgroup.
    pub wave: u32,
    /// The lane, where one is at fault.
    pub lane: Option<u32>,
    /// Address of the instruction in the code object's address space.
    pub pc: u64,
    /// Its disassembly.
    pub text: String,
    /// The memory address, or the byte offset in LDS or scratch, where one is at fault.
    pub address: Option<u64>,
    /// What exactly is wrong, with the other party (register, wait, wave, buffer).
    pub detail: String,
    /// How often it occurred in the launch.
    pub count: u64,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x, y, z] = self.workgroup;
        write!(
            f,
            "{}: `{}` at {:#x} in `{}`, workgroup {x},{y},{z} wave {}",
            self.kind.name(),
            self.text,
            self.pc,
            self.kernel,
            self.wave
        )?;
        if let Some(lane) = self.lane {
            write!(f, " lane {lane}")?;
        }
        if let Some(address) = self.address {
            write!(f, " address {address:#x}")?;
        }
        write!(f, ": {}", self.detail)?;
        if self.count > 1 {
            write!(f, " ({} times)", self.count)?;
        }
        Ok(())
    }
}

/// A finding before its text is looked up.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) kind: FindingKind,
    pub(crate) step: u32,
    pub(crate) workgroup: [u32; 3],
    pub(crate) wave: u32,
    pub(crate) lane: Option<u32>,
    pub(crate) address: Option<u64>,
    pub(crate) detail: String,
    pub(crate) count: u64,
}

/// Collects the findings of a workgroup, one for each kind and instruction.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) raw: Vec<Raw>,
    seen: HashMap<(FindingKind, u32), usize>,
    pub(crate) workgroup: [u32; 3],
    pub(crate) wave: u32,
}

impl Sink {
    /// Adds a finding of the current wave; `detail` is asked for at the first occurrence only.
    #[cold]
    pub(crate) fn add(
        &mut self,
        kind: FindingKind,
        step: u32,
        lane: Option<u32>,
        address: Option<u64>,
        detail: impl FnOnce() -> String,
    ) {
        if let Some(&at) = self.seen.get(&(kind, step)) {
            self.raw[at].count += 1;
            return;
        }
        self.seen.insert((kind, step), self.raw.len());
        self.raw.push(Raw {
            kind,
            step,
            workgroup: self.workgroup,
            wave: self.wave,
            lane,
            address,
            detail: detail(),
            count: 1,
        });
    }

    /// Takes over the findings of another workgroup.
    pub(crate) fn merge(&mut self, other: Sink) {
        for raw in other.raw {
            if let Some(&at) = self.seen.get(&(raw.kind, raw.step)) {
                self.raw[at].count += raw.count;
            } else {
                self.seen.insert((raw.kind, raw.step), self.raw.len());
                self.raw.push(raw);
            }
        }
    }
}
