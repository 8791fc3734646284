//! What a compiled kernel consists of: registers, and the instructions of its hot loop.
//!
//! The static MFMA utilisation is a scheduling figure, not a speed: MFMA issue time over the cycles
//! that llvm-mca's in-order model of one wave takes for the loop, with fixed memory latencies, no
//! bandwidth and no bank conflicts. One model cycle is four clocks. The command is
//!
//! ```text
//! llvm-mca -mtriple=amdgcn-amd-amdhsa -mcpu=gfx942 -iterations=100 loop.s
//! ```
//!
//! with `loop.s` the loop's instructions without branches ([`HotLoop::for_mca`]).

mod loops;
#[cfg(feature = "emulator")]
mod object;
mod occupancy;

use std::io::Write;
use std::process::{Command, Stdio};

use crate::compile::Compiler;
use crate::error::HipError;
use crate::target::Target;

pub use occupancy::{Limit, Occupancy};

/// The llvm-mca of a compiler's version: beside it, or by its versioned name on `PATH`.
#[must_use]
pub fn llvm_mca(compiler: &Compiler) -> String {
    let beside =
        compiler.path().canonicalize().ok().and_then(|p| Some(p.parent()?.join("llvm-mca")));
    match beside {
        Some(path) if path.is_file() => path.display().to_string(),
        _ => format!("llvm-mca-{}", compiler.major()),
    }
}

/// Registers and memory of a kernel, from the metadata of its assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Resources {
    /// Vector registers, accumulation registers included.
    pub vgprs: u32,
    /// Accumulation registers.
    pub agprs: u32,
    /// Scalar registers.
    pub sgprs: u32,
    /// Bytes of scratch memory a lane: spilled registers.
    pub scratch: u32,
    /// Bytes of LDS a workgroup.
    pub lds: u32,
}

impl Resources {
    /// Reads the metadata of the first kernel in `assembly`.
    ///
    /// # Errors
    /// [`HipError::Inspect`] if a field is missing.
    pub fn of(assembly: &str) -> Result<Self, HipError> {
        let field = |name: &str| {
            assembly
                .lines()
                .find_map(|line| {
                    line.trim_start_matches([' ', '-']).strip_prefix(name)?.trim().parse().ok()
                })
                .ok_or_else(|| HipError::Inspect { what: format!("no {name} in the assembly") })
        };
        Ok(Self {
            vgprs: field(".vgpr_count:")?,
            agprs: field(".agpr_count:")?,
            sgprs: field(".sgpr_count:")?,
            scratch: field(".private_segment_fixed_size:")?,
            lds: field(".group_segment_fixed_size:")?,
        })
    }
}

/// Instructions of a loop by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Mix {
    /// Matrix instructions.
    pub mfma: usize,
    /// Fused multiply-adds of the vector unit.
    pub fma: usize,
    /// LDS reads.
    pub lds_read: usize,
    /// LDS writes.
    pub lds_write: usize,
    /// Loads from global memory to registers.
    pub load: usize,
    /// Loads from global memory to LDS.
    pub load_lds: usize,
    /// Stores to global memory.
    pub store: usize,
    /// Scratch accesses.
    pub scratch: usize,
    /// Barriers.
    pub barrier: usize,
    /// Waits.
    pub wait: usize,
    /// `s_nop`.
    pub nop: usize,
    /// Moves of a lane's value to a scalar register.
    pub readfirstlane: usize,
    /// Writes of the lane mask, as a loop over lanes has.
    pub exec_mask: usize,
    /// Other vector instructions.
    pub vector: usize,
    /// Other scalar instructions, branches included.
    pub scalar: usize,
}

impl Mix {
    /// Counts instructions.
    #[must_use]
    pub fn of(instructions: &[String]) -> Self {
        let mut mix = Self::default();
        for instruction in instructions {
            let name = instruction.split_whitespace().next().unwrap_or_default();
            let slot = if name.starts_with("v_mfma") || name.starts_with("v_smfmac") {
                &mut mix.mfma
            } else if ["v_fma_", "v_fmac_", "v_pk_fma_"].iter().any(|fma| name.starts_with(fma)) {
                &mut mix.fma
            } else if name.starts_with("ds_read") {
                &mut mix.lds_read
            } else if name.starts_with("ds_write") {
                &mut mix.lds_write
            } else if name.contains("scratch") {
                &mut mix.scratch
            } else if name.starts_with("buffer_load") || name.starts_with("global_load") {
                if instruction.ends_with(" lds") || name.contains("_lds") {
                    &mut mix.load_lds
                } else {
                    &mut mix.load
                }
            } else if name.starts_with("buffer_store") || name.starts_with("global_store") {
                &mut mix.store
            } else if name == "s_barrier" {
                &mut mix.barrier
            } else if name == "s_waitcnt" {
                &mut mix.wait
            } else if name == "s_nop" {
                &mut mix.nop
            } else if name.starts_with("v_readfirstlane") {
                &mut mix.readfirstlane
            } else if name.contains("saveexec") {
                &mut mix.exec_mask
            } else if name.starts_with("v_") {
                &mut mix.vector
            } else {
                &mut mix.scalar
            };
            *slot += 1;
        }
        mix
    }

    /// All instructions.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.mfma
            + self.fma
            + self.lds_read
            + self.lds_write
            + self.load
            + self.load_lds
            + self.store
            + self.scratch
            + self.barrier
            + self.wait
            + self.nop
            + self.readfirstlane
            + self.exec_mask
            + self.vector
            + self.scalar
    }

    /// Share of matrix instructions.
    #[must_use]
    pub fn mfma_share(&self) -> f64 {
        self.mfma as f64 / self.total().max(1) as f64
    }
}

/// The loop that a kernel spends its time in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HotLoop {
    /// Its instructions, comments removed, without those of loops inside it.
    pub instructions: Vec<String>,
    /// The same, counted.
    pub mix: Mix,
}

impl HotLoop {
    /// Finds the hot loop in clang's assembly: the loop with the most matrix instructions, else the most
    /// fused multiply-adds, the shorter of two equal ones. Loops that hold others count where no
    /// innermost loop multiplies.
    ///
    /// # Errors
    /// [`HipError::Inspect`] if no loop multiplies.
    pub fn of(assembly: &str) -> Result<Self, HipError> {
        loops::loops(assembly)
            .into_iter()
            .map(|found| {
                let mix = Mix::of(&found.own);
                (found.innermost, Self { instructions: found.own, mix })
            })
            .filter(|(_, hot)| hot.mix.mfma + hot.mix.fma > 0)
            .max_by_key(|(innermost, hot)| {
                (*innermost, hot.mix.mfma, hot.mix.fma, usize::MAX - hot.mix.total())
            })
            .map(|(_, hot)| hot)
            .ok_or_else(|| HipError::Inspect {
                what: "the assembly has no loop with a matrix instruction or multiply-add".into(),
            })
    }

    /// The loop as llvm-mca reads it: without branches, and with f8f6f4 instructions on 8-bit operands
    /// replaced by an f32 one with the same accumulators. llvm-mca counts 4 cycles for every f8f6f4
    /// instruction, but 8-bit operands take 8, as the f32 instruction does.
    #[must_use]
    pub fn for_mca(&self) -> String {
        let mut text = String::new();
        for instruction in &self.instructions {
            if !instruction.starts_with("s_branch") && !instruction.starts_with("s_cbranch") {
                let line = as_f32(instruction).unwrap_or_else(|| instruction.clone());
                text.push_str(&line);
                text.push('\n');
            }
        }
        text
    }

    /// Cycles of llvm-mca's model for one turn of the loop (four clocks each).
    ///
    /// # Errors
    /// [`HipError::Io`] if `llvm_mca` does not run, [`HipError::Inspect`] if it refuses the loop.
    pub fn mca_cycles(&self, llvm_mca: &str, target: Target) -> Result<f64, HipError> {
        const TURNS: u32 = 100;
        let mut process = Command::new(llvm_mca)
            .arg("-mtriple=amdgcn-amd-amdhsa")
            .arg(format!("-mcpu={target}"))
            .arg(format!("-iterations={TURNS}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(HipError::io(format!("running {llvm_mca}")))?;
        if let Some(mut input) = process.stdin.take() {
            input
                .write_all(self.for_mca().as_bytes())
                .map_err(HipError::io(format!("writing to {llvm_mca}")))?;
        }
        let output =
            process.wait_with_output().map_err(HipError::io(format!("running {llvm_mca}")))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let total: Option<f64> =
            text.lines().find_map(|line| line.strip_prefix("Total Cycles:")?.trim().parse().ok());
        total.map(|cycles| cycles / f64::from(TURNS)).ok_or_else(|| HipError::Inspect {
            what: format!("{llvm_mca} gave no cycles: {}", String::from_utf8_lossy(&output.stderr)),
        })
    }

    /// Cycles the loop's matrix instructions occupy the matrix core, in llvm-mca's unit of four
    /// clocks: 4 for the 16×16 shapes of 16 clocks, 8 for f32 and for f8f6f4 with an 8-bit operand.
    #[must_use]
    pub fn mfma_cycles(&self) -> f64 {
        self.instructions
            .iter()
            .filter(|text| text.starts_with("v_mfma"))
            .map(|text| if text.contains("_16x16x4_f32") || is_wide_fp8(text) { 8.0 } else { 4.0 })
            .sum()
    }
}

/// Whether an instruction is an f8f6f4 one with an 8-bit operand. Without a field the format is e4m3.
fn is_wide_fp8(instruction: &str) -> bool {
    let four_bit = |field: &str| instruction.contains(&format!("{field}:4"));
    instruction.contains("f8f6f4") && !(four_bit("cbsz") && four_bit("blgp"))
}

/// `v_mfma_…_f8f6f4 D, A, B, C …` as `v_mfma_f32_16x16x4_f32 D, A0, B0, C`.
fn as_f32(instruction: &str) -> Option<String> {
    if !is_wide_fp8(instruction) {
        return None;
    }
    let (_, operands) = instruction.split_once(' ')?;
    let mut operands = operands.split(',').map(str::trim);
    let [d, a, b, c] = [operands.next()?, operands.next()?, operands.next()?, operands.next()?];
    let first = |span: &str| span.split(':').next().unwrap_or(span).replace('[', "");
    let c = c.split(' ').next()?;
    Some(format!("v_mfma_f32_16x16x4_f32 {d}, {}, {}, {c}", first(a), first(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASSEMBLY: &str = "
kernel:
	s_mov_b32 s0, 0
.LBB0_1:                                ; =>This Loop
	v_mov_b32_e32 v0, 0
.LBB0_2:                                ;   =>  Inner
	ds_read_b128 v[0:3], v9
	s_waitcnt lgkmcnt(0)                    ; a comment
	v_mfma_f32_16x16x32_fp8_fp8 v[4:7], v[0:1], v[2:3], v[4:7]
	buffer_load_dword v1, s[4:7], s3 offen lds
	buffer_load_dwordx4 v[8:11], v1, s[4:7], s3 offen
	s_cbranch_scc0 .LBB0_2
	s_cbranch_scc1 .LBB0_1
	s_endpgm
  - .agpr_count:     0
    .group_segment_fixed_size: 16384
    .private_segment_fixed_size: 0
    .sgpr_count:     55
    .vgpr_count:     166
";

    #[test]
    fn the_inner_loop_is_found_and_counted() {
        let hot = HotLoop::of(ASSEMBLY).expect("a loop");
        let expected = Mix {
            mfma: 1,
            lds_read: 1,
            wait: 1,
            load: 1,
            load_lds: 1,
            scalar: 1,
            ..Mix::default()
        };
        assert_eq!(hot.mix, expected);
        assert_eq!(hot.mix.total(), 6);
        assert!(!hot.for_mca().contains("cbranch"));
    }

    #[test]
    fn eight_bit_f8f6f4_counts_double() {
        let loop_of =
            |text: &str| HotLoop::of(&format!(".L1:\n{text}\ns_branch .L1\n")).expect("a loop");
        let fp8 = loop_of("v_mfma_f32_16x16x128_f8f6f4 v[0:3], v[16:23], v[8:15], v[0:3] cbsz:1");
        assert_eq!(fp8.for_mca(), "v_mfma_f32_16x16x4_f32 v[0:3], v16, v8, v[0:3]\n");
        assert_eq!(fp8.mfma_cycles(), 8.0);
        let fp4 = "v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:7], v[8:11], v[0:3], v12, v13 \
                   op_sel_hi:[0,0,0] cbsz:4 blgp:4";
        assert_eq!(loop_of(fp4).mfma_cycles(), 4.0);
        assert_eq!(loop_of(fp4).for_mca(), format!("{fp4}\n"));
        let mixed = loop_of(&fp4.replace("cbsz:4", "cbsz:0"));
        assert_eq!(mixed.for_mca(), "v_mfma_f32_16x16x4_f32 v[0:3], v4, v8, v[0:3]\n");
    }

    #[test]
    fn resources_are_read_from_metadata() {
        let resources = Resources::of(ASSEMBLY).expect("metadata");
        assert_eq!((resources.vgprs, resources.lds), (166, 16384));
        assert!(Resources::of("nothing").is_err());
    }

    #[test]
    fn assembly_without_a_loop_is_an_error() {
        assert!(matches!(HotLoop::of("s_endpgm"), Err(HipError::Inspect { .. })));
    }
}
