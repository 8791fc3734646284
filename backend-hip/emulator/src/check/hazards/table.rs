//! The wait states that the hardware does not enforce and software must provide.
//!
//! A wait state is an issue slot of the wave: each instruction between producer and consumer is one, `s_nop n` is n + 1.
//! The numbers are those of the "manually inserted wait states" tables of the CDNA3 and CDNA4 ISA documents as clang applies
//! them; a test has `llc` insert the `s_nop`s for every pair and compares.
//!
//! Matrix results, by passes P of the producer (4, 8 or 16; one pass is four cycles):
//!
//! | what touches the result D | gfx942 | gfx950 | P = 4, 8, 16 |
//! |---|---|---|---|
//! | VALU or memory instruction reads or overwrites it; A, B or scale of a matrix instruction | P + 3 | P + 4 | 7, 11, 19 / 8, 12, 20 |
//! | the same, D of an f32 instruction (P = 8, 16) | P + 2 | P + 2 | 10, 18 |
//! | C of a matrix instruction, the same registers exactly | 0 | 0 | 0 |
//! | C of a matrix instruction, overlapping | P + 1 | P + 2 | 5, 9, 17 / 6, 10, 18 |
//! | the same, D of an f32 instruction, C of one too | P | P | 8, 16 |
//! | the same, D of an f32 instruction, C of any other | 0 | 0 | 0 |
//! | VALU or load overwrites its C (not of f32 instructions) | P - 1 | P - 1 | 3, 7, 15 |
//!
//! The single-number rules stand in [`Rule::wait_states`].

use crate::Arch;
use crate::mfma::{Format, MfmaShape};

/// A dependency that needs wait states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// A VALU or memory instruction reads a matrix result.
    MatrixResultRead,
    /// A VALU instruction or a load overwrites a matrix result.
    MatrixResultOverwritten,
    /// A matrix instruction takes a matrix result as A, B or scale.
    MatrixResultAsFactor,
    /// A matrix instruction takes registers that partly overlap a matrix result as C.
    MatrixResultOverlapsC,
    /// A VALU instruction or a load overwrites C of a matrix instruction.
    MatrixCOverwritten,
    /// A matrix instruction reads a register that a VALU instruction wrote.
    VectorToMatrix,
    /// A matrix instruction after a VALU instruction that writes EXEC (`v_cmpx`).
    ExecToMatrix,
    /// A VALU instruction reads a scalar register, VCC included, that a VALU instruction wrote.
    ScalarToVector,
    /// A vector memory instruction reads a scalar register, EXEC included, that a VALU instruction wrote.
    ScalarToMemory,
    /// `v_readlane` or `v_writelane` takes its lane from a scalar register that a VALU instruction wrote.
    ScalarToLaneSelect,
    /// `v_div_fmas` after a VALU instruction that writes VCC.
    VccToDivFmas,
    /// A DPP instruction reads a vector register that a VALU instruction wrote.
    VectorToDpp,
    /// A DPP instruction after a VALU instruction that writes EXEC.
    ExecToDpp,
    /// `v_readlane` or `v_readfirstlane` of a register that a VALU instruction wrote.
    VectorToReadlane,
    /// `v_readlane`, `v_readfirstlane` or `v_writelane` after a VALU instruction that writes EXEC.
    ExecToLaneAccess,
    /// `v_permlane16_swap` or `v_permlane32_swap` of a register that a VALU instruction wrote (gfx950).
    VectorToPermlaneSwap,
    /// `v_permlane16_swap` or `v_permlane32_swap` after a VALU instruction that writes EXEC (gfx950).
    ExecToPermlaneSwap,
    /// Another VALU instruction reads the result of a transcendental one.
    Transcendental,
    /// A VALU instruction reads or overwrites a register of which SDWA or `op_sel` wrote a part.
    PartialWrite,
    /// Another instruction reads or overwrites the result of a dot product; as the accumulator of the same opcode it may
    /// follow at once.
    DotProduct,
    /// A VALU instruction overwrites the data of a store of more than 8 bytes.
    StoreData,
    /// An instruction that uses M0 (direct-to-LDS, add-TID, `s_movrel`, `s_sendmsg`) after a scalar write of it.
    M0,
    /// `s_getreg` or `s_setreg` of the hardware register that an `s_setreg` wrote.
    HardwareRegister,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 23] = [
        Rule::MatrixResultRead,
        Rule::MatrixResultOverwritten,
        Rule::MatrixResultAsFactor,
        Rule::MatrixResultOverlapsC,
        Rule::MatrixCOverwritten,
        Rule::VectorToMatrix,
        Rule::ExecToMatrix,
        Rule::ScalarToVector,
        Rule::ScalarToMemory,
        Rule::ScalarToLaneSelect,
        Rule::VccToDivFmas,
        Rule::VectorToDpp,
        Rule::ExecToDpp,
        Rule::VectorToReadlane,
        Rule::ExecToLaneAccess,
        Rule::VectorToPermlaneSwap,
        Rule::ExecToPermlaneSwap,
        Rule::Transcendental,
        Rule::PartialWrite,
        Rule::DotProduct,
        Rule::StoreData,
        Rule::M0,
        Rule::HardwareRegister,
    ];

    /// Wait states, except for the rules of matrix results and C, which depend on the producer: see [`Matrix`].
    pub const fn wait_states(self) -> Option<u32> {
        Some(match self {
            Rule::MatrixResultRead
            | Rule::MatrixResultOverwritten
            | Rule::MatrixResultAsFactor
            | Rule::MatrixResultOverlapsC
            | Rule::MatrixCOverwritten => return None,
            Rule::VectorToMatrix => 2,
            Rule::ExecToMatrix => 4,
            Rule::ScalarToVector => 2,
            Rule::ScalarToMemory => 5,
            Rule::ScalarToLaneSelect => 4,
            Rule::VccToDivFmas => 4,
            Rule::VectorToDpp => 2,
            Rule::ExecToDpp => 5,
            Rule::VectorToReadlane => 1,
            Rule::ExecToLaneAccess => 4,
            Rule::VectorToPermlaneSwap => 2,
            Rule::ExecToPermlaneSwap => 4,
            Rule::Transcendental => 1,
            Rule::PartialWrite => 1,
            Rule::DotProduct => 3,
            Rule::StoreData => 2,
            Rule::M0 => 1,
            Rule::HardwareRegister => 2,
        })
    }

    /// What the consumer does, to follow its name in a report.
    pub const fn consumer(self) -> &'static str {
        match self {
            Rule::MatrixResultRead => "reads a matrix result",
            Rule::MatrixResultOverwritten => "overwrites a matrix result",
            Rule::MatrixResultAsFactor => "takes a matrix result as a factor",
            Rule::MatrixResultOverlapsC => "takes registers that overlap a matrix result as C",
            Rule::MatrixCOverwritten => "overwrites C of a matrix instruction",
            Rule::VectorToMatrix => "feeds a VALU result to a matrix instruction",
            Rule::ExecToMatrix => "is a matrix instruction after a VALU write of EXEC",
            Rule::ScalarToVector => "reads a scalar register that the VALU wrote",
            Rule::ScalarToMemory => "accesses memory with a scalar register that the VALU wrote",
            Rule::ScalarToLaneSelect => "selects a lane by a scalar register that the VALU wrote",
            Rule::VccToDivFmas => "needs VCC that the VALU wrote",
            Rule::VectorToDpp => "reads a VALU result across lanes",
            Rule::ExecToDpp => "reads across lanes after a VALU write of EXEC",
            Rule::VectorToReadlane => "reads a lane of a VALU result",
            Rule::ExecToLaneAccess => "accesses a lane after a VALU write of EXEC",
            Rule::VectorToPermlaneSwap => "swaps rows of a VALU result",
            Rule::ExecToPermlaneSwap => "swaps rows after a VALU write of EXEC",
            Rule::Transcendental => "reads a transcendental result",
            Rule::PartialWrite => "touches a register of which a part was written",
            Rule::DotProduct => "touches a dot product's result",
            Rule::StoreData => "overwrites the data of a wide store",
            Rule::M0 => "uses M0 after a scalar write of it",
            Rule::HardwareRegister => "accesses a hardware register after `s_setreg`",
        }
    }
}

/// What decides the wait states after a matrix instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Passes of four cycles: 4, 8 or 16.
    pub passes: u32,
    /// Whether the instruction runs in the matrix pipe proper; f32 does not (the documents' XDL and SMFMA).
    pub xdl: bool,
    /// The architecture.
    pub arch: Arch,
}

impl Matrix {
    /// Of an instruction on an architecture.
    pub fn of(arch: Arch, shape: &MfmaShape) -> Matrix {
        Matrix { passes: shape.passes, xdl: shape.a != Format::F32, arch }
    }

    /// gfx950 needs one wait state more after instructions of the matrix pipe.
    fn late(self) -> u32 {
        u32::from(self.xdl && self.arch == Arch::Gfx950)
    }

    /// Before a VALU or memory instruction reads or overwrites the result, or a matrix instruction takes it as A, B or scale.
    pub fn result(self) -> u32 {
        self.passes + 2 + u32::from(self.xdl) + self.late()
    }

    /// Before a matrix instruction (`consumer_xdl` as [`Matrix::xdl`]) takes registers as C that overlap the result but
    /// are not exactly the same.
    pub fn overlapping_c(self, consumer_xdl: bool) -> u32 {
        match (self.xdl, consumer_xdl) {
            (true, _) => self.passes + 1 + self.late(),
            (false, true) => 0,
            (false, false) => self.passes,
        }
    }

    /// Before a VALU instruction or a load overwrites C.
    pub fn overwritten_c(self) -> u32 {
        if self.xdl { self.passes.saturating_sub(1) } else { 0 }
    }
}
