//! Vector instructions: each reads its sources as 64-lane arrays, computes lane by lane in a loop that vectorises, and
//! writes the lanes that EXEC (and DPP) enables.

#![allow(
    clippy::needless_range_loop,
    reason = "lane loops index several arrays of the same fixed length; that is what vectorises"
)]

pub(crate) mod compare;
mod convert;
mod cross;
mod divide;
mod float;
mod fused;
mod half;
mod integer;
pub(crate) mod matrix;
pub(crate) mod operands;
mod packed;
mod wide;

use super::wave::Wave;
use crate::Arch;
use crate::isa::Instruction;

/// Executes a vector instruction other than a compare or a matrix one.
///
/// # Errors
/// Why the instruction is not executed.
pub(crate) fn execute(w: &mut Wave, i: &Instruction, arch: Arch) -> Result<(), &'static str> {
    if wide::needs_nearest(i.opcode) && !wide::rounds_to_nearest(w) {
        return Err("directed rounding of doubles is not modelled");
    }
    let done = float::execute(w, i)
        || integer::execute(w, i)
        || packed::execute(w, i)
        || cross::execute(w, i)
        || half::execute(w, i)
        || convert::execute(w, i, arch)
        || wide::execute(w, i)
        || divide::execute(w, i);
    if i.mods.dpp.is_some() {
        w.write_mask = !0;
    }
    if done { Ok(()) } else { Err("the opcode has no execution semantics here") }
}
