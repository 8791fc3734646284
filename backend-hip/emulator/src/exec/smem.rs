//! Scalar memory: loads of kernel arguments, constants and descriptors.

use super::group::Group;
use super::ops::ScalarMemoryOp;
use super::wave::{Wave, scalar_number};
use crate::check::FindingKind;
use crate::check::waits::{Counter, Op};

/// Executes a scalar memory operation.
pub(crate) fn execute<const C: bool>(
    g: &mut Group<'_>,
    w: &mut Wave,
    index: usize,
    op: ScalarMemoryOp,
) {
    let plan = g.plan;
    let inst = &plan.steps[index].inst;
    match op {
        ScalarMemoryOp::Maintenance => return,
        // Time is not modelled; a clock that advances with the wave's own instructions serves for differences.
        ScalarMemoryOp::Time => w.set_scalar64(inst.dst, w.executed),
        ScalarMemoryOp::Load { dwords, buffer } => {
            let base = scalar_number(inst.src[0]).unwrap_or(0);
            let offset =
                (i64::from(w.scalar(inst.src[1])) + i64::from(inst.mods.offset)) as u64 & !3;
            let Some(first) = scalar_number(inst.dst) else { return };
            // Words 0 and 1: 48 bits of base and the stride; word 2: the number of records, in bytes where stride is 0.
            let (start, limit) = if buffer {
                let stride = u64::from(w.s[base + 1] >> 16 & 0x3fff);
                let records = u64::from(w.s[base + 2]);
                (
                    w.pair(base) & 0xffff_ffff_ffff,
                    if stride == 0 { records } else { records * stride },
                )
            } else {
                (w.pair(base), u64::MAX)
            };
            let mut values = [0u32; 16];
            for n in 0..u64::from(dwords) {
                let at = offset.wrapping_add(4 * n);
                if at.checked_add(4).is_none_or(|end| end > limit) && buffer {
                    continue;
                }
                values[n as usize] = load::<C>(g, index, start.wrapping_add(at) & !3);
            }
            w.s[first..first + dwords as usize].copy_from_slice(&values[..dwords as usize]);
        }
    }
    if C && let Some(track) = &mut w.track {
        let scalar = plan.steps[index].uses.scalar_writes;
        let op = Op { step: index as u32, in_order: false, vector: (0, 0), scalar, lds: None };
        track.waits.issue(Counter::Lgkm, op, &mut g.done);
    }
}

fn load<const C: bool>(g: &mut Group<'_>, index: usize, address: u64) -> u32 {
    let memory = g.memory;
    let Some(found) = memory.find(address, 4, &mut g.hint) else {
        g.outside_memory(index as u32, None, address, 4);
        return 0;
    };
    let offset = address - found.base;
    if C && g.checks.uninitialised && !found.is_initialised(offset, 4) {
        g.sink.add(FindingKind::UninitialisedMemory, index as u32, None, Some(address), || {
            format!("reads byte {offset} of `{}`, which nothing wrote", found.name)
        });
    }
    if let Some(traffic) = g.tally.traffic.get_mut(g.hint) {
        traffic.read += 4;
    }
    found.load32(offset)
}
