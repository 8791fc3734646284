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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::ops;
    use crate::exec::wave::{Mode, State, number};
    use crate::isa::{Encoding, Modifiers, Opcode, Operand, Span};

    /// A wave whose registers hold ones.
    pub(super) fn wave() -> Wave {
        let mut s = vec![1; 144];
        s[number::EXEC..number::EXEC + 2].fill(u32::MAX);
        Wave {
            id: 0,
            s,
            scc: false,
            mode: Mode { bits: 0xf0 },
            v: vec![[1; 64]; 300],
            accum: 128,
            pc: 0,
            lanes: !0,
            state: State::Running,
            write_mask: !0,
            written: 0,
            relative: false,
            hollow: [0; 4],
            scratch: Vec::new(),
            scratch_initialised: Vec::new(),
            scratch_bytes: 0,
            executed: 0,
            track: None,
        }
    }

    /// An instruction with vector registers for all operands: destination `v0`, sources `v32`, `v64`, `v96`.
    fn instruction(opcode: Opcode) -> Instruction {
        let register = |first: u8| Operand::Vgpr(Span { first, dwords: 2 });
        Instruction {
            address: 0,
            size: 8,
            encoding: Encoding::Vop3,
            opcode,
            dst: register(0),
            dst2: Operand::None,
            src: [register(32), register(64), register(96), Operand::None, Operand::None],
            mods: Modifiers::default(),
        }
    }

    #[test]
    fn the_vector_opcodes_without_semantics_are_known() {
        let missing: Vec<&str> = Opcode::ALL
            .iter()
            .filter(|op| op.mnemonic().starts_with("v_") && !op.is_matrix())
            .filter(|op| ops::compare(**op).is_none())
            .filter(|op| execute(&mut wave(), &instruction(**op), Arch::Gfx950).is_err())
            .map(|op| op.mnemonic())
            .collect();
        let known = [
            // Graphics.
            "v_screen_partition_4se_b32",
            "v_cubeid_f32",
            "v_cubesc_f32",
            "v_cubetc_f32",
            "v_cubema_f32",
            // Sums of absolute differences over sliding windows.
            "v_qsad_pk_u16_u8",
            "v_mqsad_pk_u16_u8",
            "v_mqsad_u32_u8",
            // Six-bit packing whose element order is not published, and its stochastic forms.
            "v_cvt_scalef32_2xpk16_fp6_f32",
            "v_cvt_scalef32_2xpk16_bf6_f32",
            "v_cvt_scalef32_sr_pk32_fp6_f32",
            "v_cvt_scalef32_sr_pk32_bf6_f32",
            "v_cvt_scalef32_sr_pk32_fp6_f16",
            "v_cvt_scalef32_sr_pk32_fp6_bf16",
            "v_cvt_scalef32_sr_pk32_bf6_f16",
            "v_cvt_scalef32_sr_pk32_bf6_bf16",
            // Table of 2/pi.
            "v_trig_preop_f64",
        ];
        assert_eq!(missing, known);
    }
}
