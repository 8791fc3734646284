//! Movement between lanes and between the scalar and the vector file.

use super::operands::{Constant, copy};
use crate::exec::wave::{Wave, blend};
use crate::isa::{Instruction, Opcode as O};

/// Exchanges lanes of two registers: lane `l` of the second, where `pick(l)`, with lane `partner(l)` of the first.
fn exchange(w: &mut Wave, i: &Instruction, distance: usize) -> bool {
    let (Some(first), Some(second)) = (w.vector(i.dst), w.vector(i.src[0])) else { return true };
    let (mut a, mut b) = (w.v[first], w.v[second]);
    let exec = w.exec();
    for lane in (0..64).filter(|lane| (lane / distance).is_multiple_of(2)) {
        // Both lanes must be active: an inactive lane is neither read nor written.
        if exec >> lane & 1 == 1 && exec >> (lane + distance) & 1 == 1 {
            std::mem::swap(&mut a[lane + distance], &mut b[lane]);
        }
    }
    w.v[first] = a;
    w.v[second] = b;
    w.written = exec;
    true
}

/// Executes a cross-lane opcode; false if it is none.
pub(super) fn execute(w: &mut Wave, i: &Instruction) -> bool {
    match i.opcode {
        O::VReadfirstlaneB32 => {
            let exec = w.exec();
            let lane = if exec == 0 { 0 } else { exec.trailing_zeros() as usize };
            let value = w.raw(i, 0, Constant::Bits32)[lane];
            w.set_scalar(i.dst, value);
            true
        }
        O::VReadlaneB32 => {
            let lane = w.scalar(i.src[1]) as usize & 63;
            let value = w.raw(i, 0, Constant::Bits32)[lane];
            w.set_scalar(i.dst, value);
            true
        }
        O::VWritelaneB32 => {
            let (value, lane) = (w.scalar(i.src[0]), w.scalar(i.src[1]) & 63);
            if let Some(register) = w.vector(i.dst) {
                copy(w, register, &[value; 64], 1 << lane);
            }
            true
        }
        O::VSwapB32 => {
            if let (Some(first), Some(second)) = (w.vector(i.dst), w.vector(i.src[0])) {
                let (a, b, exec) = (w.v[first], w.v[second], w.exec());
                blend(&mut w.v[first], &b, exec);
                blend(&mut w.v[second], &a, exec);
                w.written = exec;
            }
            true
        }
        O::VPermlane32SwapB32 => exchange(w, i, 32),
        O::VPermlane16SwapB32 => exchange(w, i, 16),
        O::VNop | O::VClrexcp => true,
        _ => false,
    }
}
