//! The per-instruction part of checked runs: registers in flight, registers without a value, operations that complete.

use super::group::Group;
use super::ops::MemoryOp;
use super::plan::{Carry, Kind, Step};
use super::wave::{Track, Wave};
use crate::check::FindingKind;
use crate::check::races::{Flight, Shadow};
use crate::check::waits::Counter;
use crate::isa::{Encoding, Opcode};

/// The name of a unified vector register.
fn vector_name(register: usize, accum: usize) -> String {
    if register < accum { format!("v{register}") } else { format!("a{}", register - accum) }
}

/// The name of the lowest scalar register in a mask.
fn scalar_name(mask: u128) -> String {
    match mask.trailing_zeros() {
        n @ 0..=101 => format!("s{n}"),
        102 | 103 => "flat_scratch".to_owned(),
        104 | 105 => "xnack_mask".to_owned(),
        106 | 107 => "vcc".to_owned(),
        n @ 108..=123 => format!("ttmp{}", n - 108),
        124 => "m0".to_owned(),
        125 => "scc".to_owned(),
        _ => "exec".to_owned(),
    }
}

fn counter_name(counter: Counter) -> &'static str {
    match counter {
        Counter::Vm => "vmcnt",
        Counter::Lgkm => "lgkmcnt",
    }
}

/// Checks an instruction's registers before it executes.
#[inline]
pub(crate) fn before(g: &mut Group<'_>, w: &mut Wave, step: &Step, index: usize) {
    let plan = g.plan;
    if g.checks.hazards
        && let Some(track) = &mut w.track
        && let Some(hazard) = track.hazards.issue(&plan.hazards, index)
    {
        let producer = &plan.steps[hazard.producer].inst;
        g.sink.add(FindingKind::Hazard, index as u32, None, None, || {
            hazard.describe(format_args!("`{producer}` at {:#x}", producer.address))
        });
    }
    let Some(track) = &w.track else { return };
    if g.checks.waits {
        let waits = &track.waits;
        let mut flying = 0;
        for n in 0..8 {
            flying |= step.uses.touched[n] & waits.vector[n];
        }
        let scalar = (step.uses.scalar_reads | step.uses.scalar_writes) & waits.scalar;
        if flying != 0 || scalar != 0 {
            in_flight(g, track, step, index, scalar);
        }
    }
    if g.checks.uninitialised {
        initialised(g, w, track, step, index);
    }
}

/// The counter that an instruction's own result counts in, if it completes in order.
fn own_counter(step: &Step) -> Option<Counter> {
    match step.kind {
        Kind::Memory(_) if step.inst.encoding != Encoding::Flat => Some(Counter::Vm),
        Kind::Lds(_) => Some(Counter::Lgkm),
        _ => None,
    }
}

#[cold]
fn in_flight(g: &mut Group<'_>, track: &Track, step: &Step, index: usize, scalar: u128) {
    let plan = g.plan;
    let reads: Vec<usize> = step.uses.reads.iter().flat_map(|run| run.registers()).collect();
    let writes = step.uses.writes.iter().flat_map(|run| run.registers());
    for register in reads.iter().copied().chain(writes) {
        let Some((counter, op)) = track.waits.vector_writer(register as u16) else { continue };
        let read = reads.contains(&register);
        // A later load of the same in-order kind cannot be overtaken by the earlier one.
        if !read && op.in_order && own_counter(step) == Some(counter) {
            continue;
        }
        let source = &plan.steps[op.step as usize].inst;
        g.sink.add(FindingKind::RegisterBeforeWait, index as u32, None, None, || {
            format!(
                "{} {} while `{source}` at {:#x} is still loading it: no s_waitcnt {} covers the load",
                if read { "reads" } else { "overwrites" },
                vector_name(register, plan.accum),
                source.address,
                counter_name(counter)
            )
        });
        return;
    }
    if let Some((counter, op)) = track.waits.scalar_writer(scalar) {
        let source = &plan.steps[op.step as usize].inst;
        g.sink.add(FindingKind::RegisterBeforeWait, index as u32, None, None, || {
            format!(
                "uses {} while `{source}` at {:#x} is still loading it: no s_waitcnt {} covers the load",
                scalar_name(scalar & op.scalar),
                source.address,
                counter_name(counter)
            )
        });
    }
}

#[inline]
fn initialised(g: &mut Group<'_>, w: &Wave, track: &Track, step: &Step, index: usize) {
    let uses = &step.uses;
    let missing = uses.scalar_reads & !track.initialised.scalar;
    if missing != 0 && !matches!(uses.carry, Carry::Copy | Carry::LaneMask) {
        g.sink.add(FindingKind::UninitialisedRegister, index as u32, None, None, || {
            format!("reads {}, which nothing wrote", scalar_name(missing))
        });
    }
    if !matches!(uses.carry, Carry::None | Carry::Wide) {
        return;
    }
    let lanes = if uses.all_lanes { !0 } else { w.exec() };
    if lanes == 0 {
        return;
    }
    // A spill moves a register to scratch, which takes over its mark.
    let spill = step.inst.encoding == Encoding::Scratch
        && matches!(step.kind, Kind::Memory(MemoryOp::Store(_)));
    let data = if spill { w.vector(step.inst.src[2]) } else { None };
    for run in &uses.reads {
        if data == Some(usize::from(run.first)) && spill {
            continue;
        }
        let needed = if uses.carry == Carry::Wide { 1 } else { usize::MAX };
        for register in run.registers().take(needed) {
            if let Some(lane) = track.initialised.missing(register, lanes) {
                let accum = g.plan.accum;
                g.sink.add(
                    FindingKind::UninitialisedRegister,
                    index as u32,
                    Some(lane),
                    None,
                    || format!("reads {}, which nothing wrote", vector_name(register, accum)),
                );
                return;
            }
        }
    }
}

/// Marks results after an instruction executed, and completes what a wait or a full counter has shown complete.
#[inline]
pub(crate) fn after(g: &mut Group<'_>, w: &mut Wave, step: &Step) {
    if let Some(mut track) = w.track.take() {
        mark(&mut track, w, step);
        w.track = Some(track);
    }
    if !g.done.is_empty() {
        land(g, w.id);
    }
}

fn mark(track: &mut Track, w: &Wave, step: &Step) {
    let uses = &step.uses;
    let marks = &mut track.initialised;
    match uses.carry {
        Carry::None | Carry::LaneMask => {
            marks.scalar |= uses.scalar_writes;
            let written = if uses.all_lanes { !0 } else { w.written };
            // Only scratch gives back what holds nothing; more than four registers no load has.
            let loads = matches!(step.kind, Kind::Memory(MemoryOp::Load(_)));
            for (n, register) in uses.writes.iter().flat_map(|run| run.registers()).enumerate() {
                let hollow = if loads { w.hollow[n & 3] } else { 0 };
                marks.vector[register] = marks.vector[register] & !hollow | written & !hollow;
            }
        }
        Carry::Copy => {
            // Register by register: a compiler copies a pair of which only one half holds anything.
            let sources = match step.inst.opcode {
                // Its second scalar is no part of what is moved.
                Opcode::VWritelaneB32 => 0,
                _ => uses.scalar_reads & !EXEC,
            };
            let whole = uses.scalar_reads & !marks.scalar == 0;
            let holds_scalar = |n: usize, marks: u128| match nth(sources, n) {
                Some(source) => marks & source != 0,
                None => whole,
            };
            let before = marks.scalar;
            for (n, register) in (0..).map_while(|n| Some((n, nth(uses.scalar_writes, n)?))) {
                if holds_scalar(n, before) {
                    marks.scalar |= register;
                } else {
                    marks.scalar &= !register;
                }
            }
            let source = uses.reads.first().copied();
            for (n, register) in uses.writes.iter().flat_map(|run| run.registers()).enumerate() {
                let holds = match source {
                    Some(run) if n < usize::from(run.count) => {
                        // Under DPP a lane takes another lane's value; the register counts as a whole.
                        let marked = marks.vector[usize::from(run.first) + n];
                        let active = w.exec();
                        match step.inst.mods.dpp {
                            Some(_) if marked & active == active => !0,
                            Some(_) => 0,
                            None => marked,
                        }
                    }
                    _ if holds_scalar(n, before) => !0,
                    _ => 0,
                };
                set(&mut marks.vector[register], holds, w.written);
            }
        }
        Carry::Select => {
            let chosen = w.scalar64(step.inst.src[2], false);
            let value =
                |n: usize| w.vector(step.inst.src[n]).map_or(!0, |register| marks.vector[register]);
            let holds = chosen & value(1) | !chosen & value(0);
            if let Some(register) = w.vector(step.inst.dst) {
                set(&mut marks.vector[register], holds, w.written);
            }
        }
        Carry::Packed => {
            let holds = [0, 1].map(|n| {
                let half = usize::from(step.inst.mods.op_sel >> n & 1);
                w.vector(step.inst.src[n]).map_or(!0, |register| marks.vector[register + half])
            });
            if let Some(register) = w.vector(step.inst.dst) {
                set(&mut marks.vector[register], holds[0], w.written);
                set(&mut marks.vector[register + 1], holds[1], w.written);
            }
        }
        Carry::Wide => {
            marks.scalar |= uses.scalar_writes;
            let high = uses.reads.iter().filter(|run| run.count == 2);
            let holds =
                high.fold(!0, |holds, run| holds & marks.vector[usize::from(run.first) + 1]);
            if let Some(register) = w.vector(step.inst.dst) {
                set(&mut marks.vector[register], !0, w.written);
                set(&mut marks.vector[register + 1], holds, w.written);
            }
        }
        Carry::Halves => {
            let mods = &step.inst.mods;
            let holds = [mods.op_sel, mods.op_sel_hi].map(|select| {
                (0..3).fold(!0, |holds, n| match w.vector(step.inst.src[n]) {
                    Some(register) => holds & marks.vector[register + usize::from(select >> n & 1)],
                    None => holds,
                })
            });
            if let Some(register) = w.vector(step.inst.dst) {
                set(&mut marks.vector[register], holds[0], w.written);
                set(&mut marks.vector[register + 1], holds[1], w.written);
            }
        }
        Carry::Exchange => {
            if let (Some(a), Some(b)) = (w.vector(step.inst.dst), w.vector(step.inst.src[0])) {
                let (first, second) = (marks.vector[a], marks.vector[b]);
                let exchange = |distance: u32, low: u64| {
                    let a_new = first & low | (second & low) << distance;
                    let b_new = second & !low | (first & !low) >> distance;
                    (a_new, b_new)
                };
                let (a_new, b_new) = match step.inst.opcode {
                    Opcode::VPermlane32SwapB32 => exchange(32, 0x0000_0000_ffff_ffff),
                    Opcode::VPermlane16SwapB32 => exchange(16, 0x0000_ffff_0000_ffff),
                    _ => (second, first),
                };
                set(&mut marks.vector[a], a_new, w.written);
                set(&mut marks.vector[b], b_new, w.written);
            }
        }
        Carry::Lane => {
            let exec = w.exec();
            let lane = match step.inst.opcode {
                Opcode::VReadfirstlaneB32 if exec == 0 => 0,
                Opcode::VReadfirstlaneB32 => exec.trailing_zeros(),
                _ => w.scalar(step.inst.src[1]) & 63,
            };
            let holds = w
                .vector(step.inst.src[0])
                .is_none_or(|register| marks.vector[register] >> lane & 1 == 1);
            if holds {
                marks.scalar |= uses.scalar_writes;
            } else {
                marks.scalar &= !uses.scalar_writes;
            }
        }
    }
}

/// The halves of EXEC, which always hold something.
const EXEC: u128 = 3 << 126;

/// Bit number `n` of those set in `mask`, from the lowest.
fn nth(mask: u128, n: usize) -> Option<u128> {
    let rest = (0..n).fold(mask, |rest, _| rest & rest.wrapping_sub(1));
    (rest != 0).then(|| rest & rest.wrapping_neg())
}

/// Takes over the marks of the lanes that were written.
fn set(mark: &mut u64, holds: u64, written: u64) {
    *mark = *mark & !written | holds & written;
}

/// Completes the operations in `g.done`: LDS that they held in flight is settled.
fn land(g: &mut Group<'_>, wave: u32) {
    let mut done = std::mem::take(&mut g.done);
    for op in done.drain(..) {
        let Some(touch) = op.lds else { continue };
        if g.lds.shadow.as_ref().is_none_or(Shadow::is_settled) {
            continue;
        }
        let mut conflicts = Vec::new();
        if let Some(shadow) = &mut g.lds.shadow {
            touch.for_each(|dword| {
                conflicts.extend(shadow.land(dword, wave, op.step).map(|c| (dword, c)));
            });
        }
        for (dword, conflict) in conflicts {
            g.conflict(op.step, 0, dword as u32 * 4, conflict);
        }
    }
    g.done = done;
}

/// A wave of a workgroup of several reaches a barrier: what it has not waited for stays in flight across it.
pub(crate) fn barrier(g: &mut Group<'_>, w: &mut Wave, index: usize, waves: u32) {
    let Some(track) = &mut w.track else { return };
    track.barriers += 1;
    if g.checks.barriers && w.exec() != w.lanes {
        let track_lane = (w.lanes & !w.exec()).trailing_zeros();
        g.sink.add(FindingKind::DivergentBarrier, index as u32, Some(track_lane), None, || {
            format!(
                "the barrier is in divergent code: EXEC is {:#018x} of {:#018x}",
                w.exec(),
                w.lanes
            )
        });
    }
    let Some(track) = &w.track else { return };
    if waves > 1
        && let Some(shadow) = &mut g.lds.shadow
    {
        for (step, touch) in track.waits.lds() {
            let kind = if touch.write { Flight::Write } else { Flight::Read };
            touch.for_each(|dword| shadow.launch(dword, kind, w.id, step));
        }
    }
}

/// The scalar registers that hold a value when a wave starts, besides those the launch sets.
pub(crate) const ALWAYS_SET: u128 = 3 << 102 | 3 << 104 | 3 << 126;
