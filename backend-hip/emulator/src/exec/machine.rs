//! Running workgroups: instruction dispatch, barriers, scheduling of waves and of workgroups.

use super::checked;
use super::ds;
use super::group::Group;
use super::plan::{Kind, NOWHERE};
use super::salu::{self, Next};
use super::smem;
use super::valu;
use super::vmem;
use super::wave::{State, Wave, number};
use crate::check::FindingKind;
use crate::check::waits::{self, Counter};
use crate::isa::Opcode;
use crate::{Error, Result};

/// The order in which a workgroup's waves, and the launch's workgroups, run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Waves in turn, each until it waits; workgroups by rising id.
    RoundRobin,
    /// The same, last first.
    Reverse,
    /// A wave drawn at random for a random number of instructions, again and again; workgroups shuffled.
    Random(u64),
}

/// Instructions a wave runs in its turn, so that a wave that spins lets the others go on.
const TURN: u64 = 4096;
/// The most instructions of a turn in random order.
const RANDOM_TURN: u64 = 64;

/// A small random generator (SplitMix64): order, not quality, is what it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`, which is not zero.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Whether the workgroup ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Complete,
    /// A finding says why it did not.
    Stopped,
}

/// Runs the waves of a workgroup.
///
/// # Errors
/// [`Error::UnsupportedInstruction`].
pub(crate) fn run<const C: bool>(
    g: &mut Group<'_>,
    waves: &mut [Wave],
    order: Order,
    budget: u64,
) -> Result<Outcome> {
    let count = waves.len() as u32;
    let mut random = match order {
        Order::Random(seed) => {
            let [x, y, z] = g.sink.workgroup.map(u64::from);
            Random::new(seed ^ x ^ y << 21 ^ z << 42)
        }
        Order::RoundRobin | Order::Reverse => Random::new(0),
    };
    loop {
        let mut ran = false;
        for turn in 0..waves.len() {
            let (at, quantum) = match order {
                Order::RoundRobin => (turn, TURN),
                Order::Reverse => (waves.len() - 1 - turn, TURN),
                Order::Random(_) => {
                    (random.below(waves.len() as u64) as usize, 1 + random.below(RANDOM_TURN))
                }
            };
            let wave = &mut waves[at];
            if wave.state != State::Running {
                continue;
            }
            ran = true;
            g.sink.wave = wave.id;
            if turn_of::<C>(g, wave, quantum, budget, count)? == Outcome::Stopped {
                return Ok(Outcome::Stopped);
            }
        }
        if ran || waves.iter().any(|wave| wave.state == State::Running) {
            continue;
        }
        if waves.iter().all(|wave| wave.state == State::Ended) {
            return Ok(Outcome::Complete);
        }
        if let Some(halted) = waves.iter().find(|wave| wave.state == State::Halted) {
            let step = halted.pc.saturating_sub(1) as u32;
            g.sink.wave = halted.id;
            g.sink.add(FindingKind::Deadlock, step, None, None, || {
                "the wave is halted and every other wave has ended or waits at a barrier".to_owned()
            });
            return Ok(Outcome::Stopped);
        }
        release::<C>(g, waves);
    }
}

/// Every wave that has not ended waits at the barrier: it opens.
fn release<const C: bool>(g: &mut Group<'_>, waves: &mut [Wave]) {
    g.tally.barriers += 1;
    if C && g.checks.barriers {
        mismatch(g, waves);
    }
    if let Some(shadow) = &mut g.lds.shadow {
        shadow.barrier();
    }
    for wave in waves.iter_mut().filter(|wave| wave.state == State::AtBarrier) {
        wave.state = State::Running;
    }
}

/// Reports waves that ended before a barrier that others wait at. The hardware lets those go on.
fn mismatch(g: &mut Group<'_>, waves: &[Wave]) {
    let passed = |wave: &Wave| wave.track.as_ref().map_or(0, |track| track.barriers);
    let Some(ended) = waves.iter().find(|wave| wave.state == State::Ended) else { return };
    let Some(waiting) = waves.iter().find(|wave| wave.state == State::AtBarrier) else { return };
    let step = waiting.pc.saturating_sub(1) as u32;
    g.sink.wave = waiting.id;
    g.sink.add(FindingKind::MismatchedBarrier, step, None, None, || {
        format!(
            "wave {} ended after {} barriers while wave {} waits at its barrier {}",
            ended.id,
            passed(ended),
            waiting.id,
            passed(waiting)
        )
    });
}

/// Runs one wave until it waits, ends, or has used up its turn.
fn turn_of<const C: bool>(
    g: &mut Group<'_>,
    w: &mut Wave,
    quantum: u64,
    budget: u64,
    waves: u32,
) -> Result<Outcome> {
    let plan = g.plan;
    for _ in 0..quantum {
        let index = w.pc;
        let Some(mut step) = plan.steps.get(index) else {
            return Ok(lost(g, index.saturating_sub(1), "runs past the end of its code"));
        };
        if w.executed >= budget {
            g.sink.add(FindingKind::InstructionBudget, index as u32, None, None, || {
                format!("the wave has executed {budget} instructions: an endless loop, or too small a budget")
            });
            return Ok(Outcome::Stopped);
        }
        w.executed += 1;
        w.pc = index + 1;
        g.tally.hits[index] += 1;
        let moved;
        if w.relative && matches!(step.kind, Kind::Vector | Kind::Compare(_)) {
            moved = plan.relative(index, w.s[number::M0])?;
            step = &moved;
        }
        if let Kind::Unsupported(reason) = &step.kind {
            return Err(plan.unsupported(index, reason.as_str()));
        }
        if C {
            checked::before(g, w, step, index);
        }
        match &step.kind {
            Kind::Vector => valu::execute(w, &step.inst, plan.arch)
                .map_err(|reason| plan.unsupported(index, reason))?,
            Kind::Scalar => {
                let next = salu::execute(w, &step.inst, plan)
                    .map_err(|reason| plan.unsupported(index, reason))?;
                match next {
                    Next::Through => {}
                    Next::To(target) => w.pc = target,
                    Next::Lost(address) => {
                        return Ok(lost(
                            g,
                            index,
                            &format!("jumps to {address:#x}, where no code is"),
                        ));
                    }
                }
            }
            Kind::Control => match control::<C>(g, w, index, waves)? {
                After::Go => {}
                After::Stop => return Ok(Outcome::Stopped),
                After::Yield => {
                    if C {
                        checked::after(g, w, step);
                    }
                    return Ok(Outcome::Complete);
                }
            },
            Kind::Compare(compare) => valu::compare::execute(w, &step.inst, *compare),
            Kind::Matrix(shape) => valu::matrix::execute(w, &step.inst, shape)
                .map_err(|error| plan.unsupported(index, error.to_string()))?,
            Kind::ScalarMemory(op) => smem::execute::<C>(g, w, index, *op),
            Kind::Memory(op) => vmem::execute::<C>(g, w, index, *op)
                .map_err(|reason| plan.unsupported(index, reason))?,
            Kind::Lds(op) => ds::execute::<C>(g, w, index, *op)
                .map_err(|reason| plan.unsupported(index, reason))?,
            Kind::Unsupported(_) => {}
        }
        if C {
            checked::after(g, w, step);
        }
    }
    Ok(Outcome::Complete)
}

fn lost(g: &mut Group<'_>, index: usize, how: &str) -> Outcome {
    g.sink.add(FindingKind::Trap, index as u32, None, None, || format!("the wave {how}"));
    Outcome::Stopped
}

/// What follows a control instruction.
enum After {
    Go,
    /// The turn is over: the wave waits, sleeps or has ended.
    Yield,
    Stop,
}

fn control<const C: bool>(
    g: &mut Group<'_>,
    w: &mut Wave,
    index: usize,
    waves: u32,
) -> Result<After> {
    use Opcode as O;
    let plan = g.plan;
    let step = &plan.steps[index];
    let taken = match step.inst.opcode {
        O::SBranch => true,
        O::SCbranchScc0 => !w.scc,
        O::SCbranchScc1 => w.scc,
        O::SCbranchVccz => w.vcc() == 0,
        O::SCbranchVccnz => w.vcc() != 0,
        O::SCbranchExecz => w.exec() == 0,
        O::SCbranchExecnz => w.exec() != 0,
        O::SWaitcnt => {
            if C && let Some(track) = &mut w.track {
                let (vm, lgkm) = waits::counts(step.inst.mods.imm);
                track.waits.wait(Counter::Vm, vm, &mut g.done);
                track.waits.wait(Counter::Lgkm, lgkm, &mut g.done);
            }
            return Ok(After::Go);
        }
        O::SBarrier => {
            if C {
                checked::barrier(g, w, index, waves);
            }
            w.state = State::AtBarrier;
            return Ok(After::Yield);
        }
        O::SEndpgm | O::SEndpgmSaved => {
            w.state = State::Ended;
            return Ok(After::Yield);
        }
        O::SSleep => return Ok(After::Yield),
        O::SSethalt if step.inst.mods.imm & 1 == 1 => {
            w.state = State::Halted;
            return Ok(After::Yield);
        }
        O::STrap => {
            let id = step.inst.mods.imm;
            lost(g, index, &format!("executes trap {id}"));
            return Ok(After::Stop);
        }
        O::SSetGprIdxOff => {
            w.relative = false;
            return Ok(After::Go);
        }
        O::SSetGprIdxMode => {
            w.s[number::M0] = w.s[number::M0] & !0xf000 | u32::from(step.inst.mods.imm & 0xf) << 12;
            return Ok(After::Go);
        }
        // Scheduling hints, cache control and profiling: nothing that a functional model shows.
        O::SNop
        | O::SSetprio
        | O::SSethalt
        | O::SWakeup
        | O::SIcacheInv
        | O::SIncperflevel
        | O::SDecperflevel
        | O::STtracedata => return Ok(After::Go),
        _ => return Err(no_semantics(g, index)),
    };
    if taken {
        match step.target {
            NOWHERE => {
                let address = step.inst.branch_target();
                lost(g, index, &format!("branches to {address:#x}, where no instruction starts"));
                return Ok(After::Stop);
            }
            target => w.pc = target as usize,
        }
    }
    Ok(After::Go)
}

fn no_semantics(g: &Group<'_>, index: usize) -> Error {
    g.plan.unsupported(index, "the control opcode has no execution semantics here")
}
