//! Results used inside the wait states that hardware leaves to software.
//!
//! A [`HazardTracker`] follows one wave's instructions in the order they issue and reports each that comes too early after a
//! producer it depends on. What a wave executes is exact here, so a loop's back edge or a taken branch counts as the slots it
//! really took.
//!
//! The rules are those that LLVM applies, with these differences:
//!
//! * LLVM keeps a wait state before readers of packed results and two before DPP readers of loaded registers, and counts
//!   direct-to-LDS loads as VALU instructions. The ISA documents ask for none of that, and it is not asked for here.
//! * Where an operand overlaps the results of two matrix instructions, LLVM regards the nearer one; here each register waits
//!   for the last matrix instruction that wrote it.

mod effects;
mod table;

use std::fmt;

pub use effects::HazardInfo;
use effects::{Registers, VCC, class};
pub use table::{Matrix, Rule};

/// Producers that can still matter: the farthest reach is 20 wait states, and one instruction is at least one.
const RECENT: usize = 32;

/// An instruction that issued too early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HazardFinding {
    /// The rule broken.
    pub rule: Rule,
    /// The producer's index in the infos.
    pub producer: usize,
    /// Wait states needed between the two.
    pub required: u32,
    /// Wait states there were.
    pub actual: u32,
    /// The register they share, empty for EXEC, VCC and other state that the rule names.
    pub register: String,
}

impl HazardFinding {
    /// What is wrong, given the producer's name.
    pub fn describe(&self, producer: impl fmt::Display) -> String {
        let place = if self.register.is_empty() { "" } else { " in " };
        format!(
            "{}{place}{}: {} wait states after {producer}, {} are required",
            self.rule.consumer(),
            self.register,
            self.actual,
            self.required
        )
    }
}

/// A producer on its way out of reach.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    step: u32,
    /// The clock just after it issued.
    since: u64,
    /// The clock from which on it no longer matters.
    until: u64,
    class: u32,
}

/// The recent producers of one wave.
#[derive(Clone, Debug)]
pub struct HazardTracker {
    /// Wait states since the wave started.
    clock: u64,
    /// Oldest first.
    recent: [Recent; RECENT],
    len: usize,
    /// Union of the classes in `recent`.
    classes: u32,
    /// The clock from which on every producer is out of reach.
    quiet_from: u64,
}

impl Default for HazardTracker {
    fn default() -> HazardTracker {
        HazardTracker {
            clock: 0,
            recent: [Recent::default(); RECENT],
            len: 0,
            classes: 0,
            quiet_from: 0,
        }
    }
}

impl HazardTracker {
    /// A wave that has executed nothing.
    pub fn new() -> HazardTracker {
        HazardTracker::default()
    }

    /// Issues the instruction `step` of `infos` and reports the rule it breaks by most wait states, if any.
    ///
    /// `infos` holds one entry for each instruction of the kernel, the same at every call; a `step` beyond it is ignored.
    pub fn issue(&mut self, infos: &[HazardInfo], step: usize) -> Option<HazardFinding> {
        let info = infos.get(step)?;
        let mut worst: Option<HazardFinding> = None;
        if self.len > 0 {
            if self.clock >= self.quiet_from {
                self.len = 0;
                self.classes = 0;
            } else if info.listens & self.classes != 0 {
                worst = self.check(infos, info);
            }
        }
        self.clock += u64::from(info.worth);
        if info.reach > 0 {
            self.push(step, info);
        }
        worst
    }

    #[cold]
    fn report(
        &self,
        recent: Recent,
        rule: Rule,
        required: u32,
        register: Option<Registers>,
    ) -> HazardFinding {
        HazardFinding {
            rule,
            producer: recent.step as usize,
            required,
            actual: (self.clock - recent.since) as u32,
            register: register.map(|r| r.to_string()).unwrap_or_default(),
        }
    }

    fn check(&self, infos: &[HazardInfo], info: &HazardInfo) -> Option<HazardFinding> {
        let mut worst: Option<HazardFinding> = None;
        for (at, recent) in self.recent[..self.len].iter().enumerate() {
            if recent.until <= self.clock {
                continue;
            }
            let Some(producer) = infos.get(recent.step as usize) else { continue };
            let elapsed = (self.clock - recent.since) as u32;
            let mut found = |rule, required: u32, register| {
                let deficit = required.saturating_sub(elapsed);
                if deficit > worst.as_ref().map_or(0, |w| w.required - w.actual) {
                    worst = Some(self.report(*recent, rule, required, register));
                }
            };
            pair(producer, info, &mut found);
            if let Some(matrix) = producer.matrix {
                let later = &self.recent[at + 1..self.len];
                let later = Later { infos, recent: later };
                matrix_pair(producer, matrix, info, &later, &mut found);
            }
        }
        worst
    }

    fn push(&mut self, step: usize, info: &HazardInfo) {
        if self.len == RECENT || self.recent[..self.len].iter().any(|r| r.until <= self.clock) {
            let clock = self.clock;
            let mut kept = 0;
            let mut classes = 0;
            for at in 0..self.len {
                let recent = self.recent[at];
                if recent.until > clock {
                    self.recent[kept] = recent;
                    classes |= recent.class;
                    kept += 1;
                }
            }
            self.len = kept;
            self.classes = classes;
        }
        let mut until = self.clock + u64::from(info.reach);
        if info.matrix.is_some() {
            // It has to be remembered as long as what it hides.
            until = until.max(self.quiet_from);
        }
        // Producers reach at most 20 wait states and take at least one each, so there is always room.
        if self.len < RECENT {
            self.recent[self.len] =
                Recent { step: step as u32, since: self.clock, until, class: info.class };
            self.len += 1;
        }
        self.classes |= info.class;
        self.quiet_from = self.quiet_from.max(until);
    }
}

/// The first of `touched` that overlaps one of `written`.
fn common<'a>(
    written: &[Registers],
    touched: impl IntoIterator<Item = &'a Registers>,
) -> Option<Registers> {
    touched.into_iter().find(|run| written.iter().any(|other| other.overlaps(**run))).copied()
}

/// The matrix instructions after a producer. They issue in order, so what one of them wrote, or took as C, is no longer the
/// producer's concern.
struct Later<'a> {
    infos: &'a [HazardInfo],
    recent: &'a [Recent],
}

impl Later<'_> {
    /// The first run of `touched` with a register that overlaps `own`, and that no later matrix instruction has in `theirs`.
    fn visible<'t>(
        &self,
        own: &[Registers],
        theirs: fn(&HazardInfo) -> &[Registers],
        touched: impl IntoIterator<Item = &'t Registers>,
    ) -> Option<Registers> {
        let hidden = |register: u16| {
            self.recent.iter().any(|recent| {
                self.infos.get(recent.step as usize).is_some_and(|info| {
                    info.matrix.is_some() && theirs(info).iter().any(|run| run.contains(register))
                })
            })
        };
        let concerned = |run: &&Registers| {
            (run.first..run.first + run.count)
                .any(|register| own.iter().any(|o| o.contains(register)) && !hidden(register))
        };
        touched.into_iter().find(concerned).copied()
    }
}

/// Every rule that binds a consumer to a producer, with its wait states, except those of matrix results and C.
fn pair(p: &HazardInfo, c: &HazardInfo, mut found: impl FnMut(Rule, u32, Option<Registers>)) {
    let mut fixed = |rule: Rule, register: Option<Registers>| {
        if let Some(states) = rule.wait_states() {
            found(rule, states, register);
        }
    };
    let is = |info: &HazardInfo, class: u32| info.class & class != 0;
    let matrix_consumer = is(c, class::MATRIX);
    let reads = || c.reads.as_slice().iter().chain(&c.accumulator);

    if is(p, class::VECTOR) {
        let written = p.writes.as_slice();
        let read = || common(written, reads());
        if is(c, class::VECTOR) {
            let plain = !is(p, class::MATRIX);
            if matrix_consumer
                && plain
                && !is(p, class::DOT)
                && let Some(register) = read()
            {
                fixed(Rule::VectorToMatrix, Some(register));
            }
            if is(c, class::DPP)
                && let Some(register) = read()
            {
                fixed(Rule::VectorToDpp, Some(register));
            }
            if is(c, class::READLANE)
                && let Some(register) = read()
            {
                fixed(Rule::VectorToReadlane, Some(register));
            }
            if is(c, class::PERMLANE_SWAP)
                && let Some(register) = read()
            {
                fixed(Rule::VectorToPermlaneSwap, Some(register));
            }
            if is(p, class::TRANSCENDENTAL)
                && !is(c, class::TRANSCENDENTAL)
                && let Some(register) = read()
            {
                fixed(Rule::Transcendental, Some(register));
            }
            if is(p, class::PARTIAL)
                && let Some(register) =
                    common(written, reads().chain(&c.preserved).chain(c.writes.as_slice()))
            {
                fixed(Rule::PartialWrite, Some(register));
            }
        }
        if is(p, class::WRITES_EXEC) {
            for (consumers, rule) in [
                (class::MATRIX, Rule::ExecToMatrix),
                (class::DPP, Rule::ExecToDpp),
                (class::LANE_ACCESS, Rule::ExecToLaneAccess),
                (class::PERMLANE_SWAP, Rule::ExecToPermlaneSwap),
            ] {
                if is(c, consumers) {
                    fixed(rule, None);
                }
            }
        }
        let scalars = p.scalar_writes;
        if scalars != 0 {
            let vcc = 3u128 << VCC;
            if is(c, class::DIV_FMAS) && vcc & scalars != 0 {
                fixed(Rule::VccToDivFmas, None);
            } else if is(c, class::VECTOR) && c.scalar_reads & scalars != 0 {
                fixed(Rule::ScalarToVector, None);
            }
            if is(c, class::VECTOR_MEMORY) && c.scalar_reads & scalars != 0 {
                fixed(Rule::ScalarToMemory, None);
            }
            if c.lane_select & scalars != 0 {
                fixed(Rule::ScalarToLaneSelect, None);
            }
        }
        if is(p, class::DOT) && is(c, class::VECTOR | class::MEMORY) && !matrix_consumer {
            let same = p.opcode == c.opcode;
            let carried = c.accumulator.iter().chain(c.writes.as_slice()).filter(|_| !same);
            if let Some(register) = common(written, c.reads.as_slice().iter().chain(carried)) {
                fixed(Rule::DotProduct, Some(register));
            }
        }
    }
    if let Some(data) = p.store
        && is(c, class::VECTOR)
        && let Some(register) = common(&[data], c.writes.as_slice())
    {
        fixed(Rule::StoreData, Some(register));
    }
    if is(p, class::WRITES_M0) && is(c, class::USES_M0) {
        fixed(Rule::M0, None);
    }
    if is(p, class::SETREG)
        && is(c, class::HARDWARE_REGISTER)
        && p.hardware_register == c.hardware_register
    {
        fixed(Rule::HardwareRegister, None);
    }
}

/// The rules of matrix results and C.
fn matrix_pair(
    p: &HazardInfo,
    matrix: Matrix,
    c: &HazardInfo,
    later: &Later<'_>,
    mut found: impl FnMut(Rule, u32, Option<Registers>),
) {
    let result = p.writes.as_slice();
    let results: fn(&HazardInfo) -> &[Registers] = |info| info.writes.as_slice();
    if c.class & class::MATRIX != 0 {
        if let Some(register) = later.visible(result, results, c.reads.as_slice()) {
            found(Rule::MatrixResultAsFactor, matrix.result(), Some(register));
        }
        // Exactly the same registers are forwarded.
        let other = c.accumulator.iter().filter(|run| !result.contains(run));
        if let Some(register) = later.visible(result, results, other) {
            let states = matrix.overlapping_c(c.matrix.is_some_and(|m| m.xdl));
            found(Rule::MatrixResultOverlapsC, states, Some(register));
        }
    } else if c.class & (class::VECTOR | class::MEMORY) != 0 {
        let reads = c.reads.as_slice().iter().chain(&c.accumulator).chain(&c.preserved);
        if let Some(register) = later.visible(result, results, reads) {
            found(Rule::MatrixResultRead, matrix.result(), Some(register));
        }
        if let Some(register) = later.visible(result, results, c.writes.as_slice()) {
            found(Rule::MatrixResultOverwritten, matrix.result(), Some(register));
        }
        let taken = p.accumulator.as_slice();
        let accumulators: fn(&HazardInfo) -> &[Registers] = |info| info.accumulator.as_slice();
        if let Some(register) = later.visible(taken, accumulators, c.writes.as_slice()) {
            found(Rule::MatrixCOverwritten, matrix.overwritten_c(), Some(register));
        }
    }
}

#[cfg(test)]
mod tests;
