//! The table against what LLVM inserts: for every matrix instruction and every kind of consumer, and for every other rule,
//! `llc` adds the `s_nop`s that it holds necessary, and the tracker must ask for exactly as many.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol};

use super::*;
use crate::Arch;
use crate::isa::{Instruction, Opcode, decode};

/// Two instructions in LLVM's machine IR, and the rule that binds them on each architecture.
struct Case {
    name: String,
    producer: String,
    consumer: String,
    rule: Option<Rule>,
}

/// A matrix instruction: name in machine IR, registers of A, B and C, and its format fields.
#[derive(Clone, Copy)]
struct MatrixOp {
    mir: &'static str,
    a: usize,
    b: usize,
    c: usize,
    formats: Option<(u8, u8)>,
    scaled: bool,
    xdl: bool,
}

const fn matrix(mir: &'static str, factor: usize, c: usize) -> MatrixOp {
    MatrixOp { mir, a: factor, b: factor, c, formats: None, scaled: false, xdl: true }
}

const F32: [MatrixOp; 2] = [
    MatrixOp { xdl: false, ..matrix("V_MFMA_F32_16X16X4F32", 1, 4) },
    MatrixOp { xdl: false, ..matrix("V_MFMA_F32_32X32X2F32", 1, 16) },
];

const F16: MatrixOp = matrix("V_MFMA_F32_16X16X16F16", 2, 4);

/// The emulated matrix instructions of an architecture.
fn matrix_ops(arch: Arch) -> Vec<MatrixOp> {
    let mut ops = F32.to_vec();
    ops.extend([
        F16,
        matrix("V_MFMA_F32_32X32X8F16", 2, 16),
        matrix("V_MFMA_F32_16X16X16BF16_1K", 2, 4),
        matrix("V_MFMA_F32_32X32X8BF16_1K", 2, 16),
        matrix("V_MFMA_I32_16X16X32I8", 2, 4),
        matrix("V_MFMA_I32_32X32X16I8", 2, 16),
        matrix("V_MFMA_F32_16X16X32_FP8_FP8", 2, 4),
        matrix("V_MFMA_F32_16X16X32_FP8_BF8", 2, 4),
        matrix("V_MFMA_F32_16X16X32_BF8_FP8", 2, 4),
        matrix("V_MFMA_F32_16X16X32_BF8_BF8", 2, 4),
        matrix("V_MFMA_F32_32X32X16_FP8_FP8", 2, 16),
        matrix("V_MFMA_F32_32X32X16_FP8_BF8", 2, 16),
        matrix("V_MFMA_F32_32X32X16_BF8_FP8", 2, 16),
        matrix("V_MFMA_F32_32X32X16_BF8_BF8", 2, 16),
    ]);
    match arch {
        Arch::Gfx942 => ops.extend([
            matrix("V_MFMA_F32_16X16X8XF32", 2, 4),
            matrix("V_MFMA_F32_32X32X4XF32", 2, 16),
        ]),
        Arch::Gfx950 => {
            ops.extend([
                matrix("V_MFMA_F32_16X16X32_F16", 4, 4),
                matrix("V_MFMA_F32_32X32X16_F16", 4, 16),
                matrix("V_MFMA_F32_16X16X32_BF16", 4, 4),
                matrix("V_MFMA_F32_32X32X16_BF16", 4, 16),
                matrix("V_MFMA_I32_16X16X64_I8", 4, 4),
                matrix("V_MFMA_I32_32X32X32_I8", 4, 16),
            ]);
            let shapes = [("16X16X128", 4), ("32X32X64", 16)];
            for (shape, c) in shapes {
                for (a_name, a, cbsz) in [("f4", 4, 4), ("f6", 6, 2), ("f8", 8, 0)] {
                    for (b_name, b, blgp) in [("f4", 4, 4), ("f6", 6, 2), ("f8", 8, 0)] {
                        for (scale, scaled) in [("", false), ("SCALE_", true)] {
                            let mir = format!("V_MFMA_{scale}F32_{shape}_F8F6F4_{a_name}_{b_name}");
                            ops.push(MatrixOp {
                                mir: mir.leak(),
                                a,
                                b,
                                c,
                                formats: Some((cbsz, blgp)),
                                scaled,
                                xdl: true,
                            });
                        }
                    }
                }
            }
        }
    }
    ops
}

/// Registers as machine IR names them, such as `$vgpr4_vgpr5`.
fn regs(file: &str, first: usize, count: usize) -> String {
    let names: Vec<String> = (first..first + count).map(|r| format!("{file}{r}")).collect();
    format!("${}", names.join("_"))
}

fn v(first: usize, count: usize) -> String {
    regs("vgpr", first, count)
}

impl MatrixOp {
    /// The instruction on given first registers of D, A, B and C, all VGPRs.
    fn text(&self, d: usize, a: usize, b: usize, c: usize) -> String {
        let modifiers = match (self.formats, self.scaled) {
            (None, _) => "0, 0, 0".to_owned(),
            (Some((cbsz, blgp)), false) => format!("{cbsz}, {blgp}"),
            (Some((cbsz, blgp)), true) => format!("{cbsz}, {blgp}, $vgpr200, $vgpr201, 0, 0"),
        };
        format!(
            "{} = {}_vgprcd_e64 {}, {}, {}, {modifiers}, implicit $mode, implicit $exec",
            v(d, self.c),
            self.mir,
            v(a, self.a),
            v(b, self.b),
            v(c, self.c)
        )
    }
}

/// Where the producers of the matrix cases have their operands.
const D: usize = 0;
const A: usize = 40;
const B: usize = 60;
const C: usize = 80;

/// Every kind of consumer after (and producer before) one matrix instruction.
fn matrix_cases(op: &MatrixOp) -> Vec<Case> {
    let mut cases = Vec::new();
    let producer = op.text(D, A, B, C);
    let mut after = |name: &str, rule: Option<Rule>, consumer: String| {
        let name = format!("{} -> {name}", op.mir);
        cases.push(Case { name, producer: producer.clone(), consumer, rule });
    };
    let last = D + op.c - 1;
    let c_last = C + op.c - 1;
    let read = Some(Rule::MatrixResultRead);
    after("v_mov reads", read, format!("$vgpr220 = V_MOV_B32_e32 $vgpr{last}, implicit $exec"));
    after(
        "v_cmp reads",
        read,
        format!("V_CMP_EQ_U32_e32 $vgpr{last}, $vgpr221, implicit-def $vcc, implicit $exec"),
    );
    after(
        "v_readfirstlane reads",
        read,
        format!("$sgpr4 = V_READFIRSTLANE_B32 $vgpr{last}, implicit $exec"),
    );
    after(
        "DPP reads",
        read,
        format!("$vgpr220 = V_MOV_B32_dpp $vgpr220, $vgpr{last}, 257, 15, 15, 0, implicit $exec"),
    );
    after(
        "ds_write data",
        read,
        format!("DS_WRITE_B32_gfx9 $vgpr221, $vgpr{last}, 0, 0, implicit $exec"),
    );
    after(
        "ds_write address",
        read,
        format!("DS_WRITE_B32_gfx9 $vgpr{last}, $vgpr221, 0, 0, implicit $exec"),
    );
    after(
        "global_store data",
        read,
        format!("GLOBAL_STORE_DWORD $vgpr222_vgpr223, $vgpr{last}, 0, 0, implicit $exec"),
    );
    after(
        "global_load address",
        read,
        format!("$vgpr220 = GLOBAL_LOAD_DWORD {}, 0, 0, implicit $exec", v(D, 2)),
    );
    after(
        "global_load_lds address",
        read,
        format!("GLOBAL_LOAD_LDS_DWORD {}, 0, 0, implicit $m0, implicit $exec", v(D, 2)),
    );
    after(
        "flat_store data",
        read,
        format!(
            "FLAT_STORE_DWORD $vgpr222_vgpr223, $vgpr{last}, 0, 0, implicit $exec, implicit $flat_scr"
        ),
    );
    after(
        "buffer_store data",
        read,
        format!(
            "BUFFER_STORE_DWORD_OFFSET $vgpr{last}, $sgpr0_sgpr1_sgpr2_sgpr3, 0, 0, 0, 0, implicit $exec"
        ),
    );
    let overwrite = Some(Rule::MatrixResultOverwritten);
    after("v_mov overwrites", overwrite, format!("$vgpr{last} = V_MOV_B32_e32 0, implicit $exec"));
    after(
        "ds_read overwrites",
        overwrite,
        format!("$vgpr{last} = DS_READ_B32_gfx9 $vgpr221, 0, 0, implicit $exec"),
    );
    after(
        "global_load overwrites",
        overwrite,
        format!("$vgpr{last} = GLOBAL_LOAD_DWORD $vgpr222_vgpr223, 0, 0, implicit $exec"),
    );
    after("v_mov overwrites A", None, format!("$vgpr{A} = V_MOV_B32_e32 0, implicit $exec"));
    after("v_mov overwrites B", None, format!("$vgpr{B} = V_MOV_B32_e32 0, implicit $exec"));
    let overwrite_c = op.xdl.then_some(Rule::MatrixCOverwritten);
    after(
        "v_mov overwrites C",
        overwrite_c,
        format!("$vgpr{c_last} = V_MOV_B32_e32 0, implicit $exec"),
    );
    after(
        "ds_read overwrites C",
        overwrite_c,
        format!("$vgpr{c_last} = DS_READ_B32_gfx9 $vgpr221, 0, 0, implicit $exec"),
    );
    after("unrelated v_mov", None, "$vgpr220 = V_MOV_B32_e32 $vgpr221, implicit $exec".to_owned());
    after("same C", None, op.text(D, 120, 140, D));
    let overlap = Some(Rule::MatrixResultOverlapsC);
    after("overlapping C", overlap, op.text(160, 120, 140, D + 2));
    for other in [F32[0], F16] {
        let forwarded = op.xdl || !other.xdl;
        let rule = overlap.filter(|_| forwarded);
        after(&format!("overlapping C of {}", other.mir), rule, other.text(160, 120, 140, D + 2));
    }
    let factor = Some(Rule::MatrixResultAsFactor);
    after("A", factor, op.text(160, D, 140, 180));
    after("B", factor, op.text(160, 120, D, 180));
    after("D again", None, op.text(D, 120, 140, 180));
    after("C written by the next", None, op.text(C, 120, 140, 180));

    let mut before = |name: &str, rule: Option<Rule>, producer: &str| {
        let name = format!("{name} -> {}", op.mir);
        let consumer = op.text(D, A, B, C);
        cases.push(Case { name, producer: producer.to_owned(), consumer, rule });
    };
    let feed = Some(Rule::VectorToMatrix);
    before("v_mov A", feed, "$vgpr40 = V_MOV_B32_e32 0, implicit $exec");
    before("v_mov B", feed, "$vgpr60 = V_MOV_B32_e32 0, implicit $exec");
    before("v_mov C", feed, "$vgpr80 = V_MOV_B32_e32 0, implicit $exec");
    before("v_mov D", None, "$vgpr0 = V_MOV_B32_e32 0, implicit $exec");
    before("v_cmpx", Some(Rule::ExecToMatrix), CMPX);
    if op.scaled {
        before("v_mov scale", feed, "$vgpr200 = V_MOV_B32_e32 0, implicit $exec");
        before("matrix result as scale", factor, &F16.text(200, A, B, C));
    }
    cases
}

const CMPX: &str =
    "V_CMPX_EQ_U32_e32 $vgpr1, $vgpr2, implicit-def $exec, implicit-def $vcc, implicit $exec";
const CMP: &str = "V_CMP_EQ_U32_e32 $vgpr1, $vgpr2, implicit-def $vcc, implicit $exec";
const READFIRSTLANE: &str = "$sgpr4 = V_READFIRSTLANE_B32 $vgpr1, implicit $exec";
const WRITE_V1: &str = "$vgpr1 = V_MOV_B32_e32 0, implicit $exec";
const READ_V1: &str = "$vgpr9 = V_MOV_B32_e32 $vgpr1, implicit $exec";
const WRITE_M0: &str = "$m0 = S_MOV_B32 0";
const RCP: &str = "$vgpr1 = V_RCP_F32_e32 $vgpr2, implicit $mode, implicit $exec";
const SDWA: &str =
    "$vgpr1 = V_MOV_B32_sdwa 0, $vgpr2, 0, 1, 2, 5, implicit $exec, implicit $vgpr1(tied-def 0)";
const FP8_HIGH: &str =
    "$vgpr1 = V_CVT_PK_FP8_F32_e64 8, $vgpr2, 0, $vgpr3, $vgpr1, 0, implicit $mode, implicit $exec";
const FP8_LOW: &str =
    "$vgpr1 = V_CVT_PK_FP8_F32_e64 0, $vgpr2, 0, $vgpr3, $vgpr1, 0, implicit $mode, implicit $exec";
const DOT: &str = "$vgpr1 = V_DOT4_I32_I8 8, $vgpr2, 8, $vgpr3, 8, $vgpr4, 0, 0, 0, implicit $exec";
const DOT_C: &str = "$vgpr1 = V_DOT4C_I32_I8_e32 $vgpr2, $vgpr3, $vgpr1, implicit $exec";
const DPP_V1: &str = "$vgpr3 = V_MOV_B32_dpp $vgpr3, $vgpr1, 257, 15, 15, 0, implicit $exec";
const STORE_V1: &str = "GLOBAL_STORE_DWORD $vgpr2_vgpr3, $vgpr1, 0, 0, implicit $exec";
const STORE_128: &str =
    "GLOBAL_STORE_DWORDX4 $vgpr2_vgpr3, $vgpr4_vgpr5_vgpr6_vgpr7, 0, 0, implicit $exec";
const WRITE_V5: &str = "$vgpr5 = V_MOV_B32_e32 0, implicit $exec";
const SETREG: &str = "S_SETREG_B32 $sgpr0, 6145, implicit-def $mode, implicit $mode";
const SWAP: &str = "$vgpr1, $vgpr2 = V_PERMLANE32_SWAP_B32_e32 $vgpr1, $vgpr2, implicit $exec";

/// Every rule that is not about matrix instructions, with neighbours that need nothing.
fn other_cases(arch: Arch) -> Vec<Case> {
    let mut cases: Vec<(&str, Option<Rule>, &str, &str)> = vec![
        (
            "scalar -> buffer",
            Some(Rule::ScalarToMemory),
            READFIRSTLANE,
            "BUFFER_STORE_DWORD_OFFSET $vgpr0, $sgpr4_sgpr5_sgpr6_sgpr7, 0, 0, 0, 0, implicit $exec",
        ),
        (
            "scalar -> soffset",
            Some(Rule::ScalarToMemory),
            READFIRSTLANE,
            "$vgpr5 = BUFFER_LOAD_DWORD_OFFSET $sgpr8_sgpr9_sgpr10_sgpr11, $sgpr4, 0, 0, 0, implicit $exec",
        ),
        (
            "scalar -> saddr",
            Some(Rule::ScalarToMemory),
            READFIRSTLANE,
            "GLOBAL_STORE_DWORD_SADDR $vgpr0, $vgpr2, $sgpr4_sgpr5, 0, 0, implicit $exec",
        ),
        (
            "scalar -> scratch",
            Some(Rule::ScalarToMemory),
            READFIRSTLANE,
            "$vgpr5 = SCRATCH_LOAD_DWORD_SADDR $sgpr4, 0, 0, implicit $exec, implicit $flat_scr",
        ),
        (
            "vcc -> saddr",
            Some(Rule::ScalarToMemory),
            CMP,
            "GLOBAL_STORE_DWORD_SADDR $vgpr0, $vgpr2, $vcc, 0, 0, implicit $exec",
        ),
        ("exec -> global", Some(Rule::ScalarToMemory), CMPX, STORE_V1),
        ("exec -> LDS", None, CMPX, "DS_WRITE_B32_gfx9 $vgpr221, $vgpr1, 0, 0, implicit $exec"),
        ("exec -> VALU", None, CMPX, "$vgpr3 = V_MOV_B32_e32 $vgpr4, implicit $exec"),
        ("scalar -> SMEM", None, READFIRSTLANE, "$sgpr8 = S_LOAD_DWORD_IMM $sgpr4_sgpr5, 0, 0"),
        (
            "scalar -> SALU",
            None,
            READFIRSTLANE,
            "$sgpr8 = S_ADD_U32 $sgpr4, $sgpr5, implicit-def $scc",
        ),
        (
            "scalar -> VALU",
            Some(Rule::ScalarToVector),
            READFIRSTLANE,
            "$vgpr3 = V_MOV_B32_e32 $sgpr4, implicit $exec",
        ),
        (
            "vcc -> v_cndmask",
            Some(Rule::ScalarToVector),
            CMP,
            "$vgpr3 = V_CNDMASK_B32_e32 $vgpr4, $vgpr5, implicit $vcc, implicit $exec",
        ),
        (
            "vcc -> v_addc",
            Some(Rule::ScalarToVector),
            "$vgpr3 = V_ADD_CO_U32_e32 $vgpr4, $vgpr5, implicit-def $vcc, implicit $exec",
            "$vgpr6 = V_ADDC_U32_e32 $vgpr4, $vgpr5, implicit-def $vcc, implicit $vcc, implicit $exec",
        ),
        (
            "mask -> v_cndmask",
            Some(Rule::ScalarToVector),
            "$sgpr4_sgpr5 = V_CMP_EQ_U32_e64 $vgpr1, $vgpr2, implicit $exec",
            "$vgpr3 = V_CNDMASK_B32_e64 0, $vgpr4, 0, $vgpr5, $sgpr4_sgpr5, implicit $exec",
        ),
        (
            "exec -> VALU operand",
            Some(Rule::ScalarToVector),
            CMPX,
            "$vgpr3 = V_MOV_B32_e32 $exec_lo, implicit $exec",
        ),
        (
            "SALU -> VALU",
            None,
            "$sgpr4 = S_MOV_B32 0",
            "$vgpr3 = V_MOV_B32_e32 $sgpr4, implicit $exec",
        ),
        ("vcc written twice", None, CMP, CMP),
        (
            "scalar -> v_readlane",
            Some(Rule::ScalarToLaneSelect),
            READFIRSTLANE,
            "$sgpr8 = V_READLANE_B32 $vgpr3, $sgpr4",
        ),
        (
            "scalar -> v_writelane",
            Some(Rule::ScalarToLaneSelect),
            READFIRSTLANE,
            "$vgpr3 = V_WRITELANE_B32 3, $sgpr4, $vgpr3",
        ),
        (
            "scalar -> v_writelane data",
            Some(Rule::ScalarToVector),
            READFIRSTLANE,
            "$vgpr3 = V_WRITELANE_B32 $sgpr4, 3, $vgpr3",
        ),
        (
            "vcc -> v_div_fmas",
            Some(Rule::VccToDivFmas),
            CMP,
            "$vgpr3 = V_DIV_FMAS_F32_e64 0, $vgpr4, 0, $vgpr5, 0, $vgpr6, 0, 0, implicit $mode, implicit $vcc, implicit $exec",
        ),
        (
            "v_div_scale -> v_div_fmas",
            Some(Rule::VccToDivFmas),
            "$vgpr1, $vcc = V_DIV_SCALE_F32_e64 0, $vgpr2, 0, $vgpr2, 0, $vgpr4, 0, 0, implicit $mode, implicit $exec",
            "$vgpr3 = V_DIV_FMAS_F32_e64 0, $vgpr4, 0, $vgpr5, 0, $vgpr6, 0, 0, implicit $mode, implicit $vcc, implicit $exec",
        ),
        (
            "SALU vcc -> v_div_fmas",
            None,
            "$vcc = S_MOV_B64 -1",
            "$vgpr3 = V_DIV_FMAS_F32_e64 0, $vgpr4, 0, $vgpr5, 0, $vgpr6, 0, 0, implicit $mode, implicit $vcc, implicit $exec",
        ),
        ("VALU -> DPP", Some(Rule::VectorToDpp), WRITE_V1, DPP_V1),
        (
            "VALU -> DPP old value",
            Some(Rule::VectorToDpp),
            "$vgpr3 = V_MOV_B32_e32 0, implicit $exec",
            DPP_V1,
        ),
        (
            "VALU -> DPP second source",
            Some(Rule::VectorToDpp),
            WRITE_V1,
            "$vgpr4 = V_ADD_U32_dpp $vgpr4, $vgpr2, $vgpr1, 257, 15, 15, 0, implicit $exec",
        ),
        (
            "exec -> DPP",
            Some(Rule::ExecToDpp),
            CMPX,
            "$vgpr3 = V_MOV_B32_dpp $vgpr3, $vgpr4, 257, 15, 15, 0, implicit $exec",
        ),
        ("SALU exec -> DPP", None, "$exec = S_MOV_B64 -1", DPP_V1),
        (
            "VALU -> v_readlane",
            Some(Rule::VectorToReadlane),
            WRITE_V1,
            "$sgpr4 = V_READLANE_B32 $vgpr1, 3",
        ),
        ("VALU -> v_readfirstlane", Some(Rule::VectorToReadlane), WRITE_V1, READFIRSTLANE),
        ("VALU -> v_writelane", None, WRITE_V1, "$vgpr1 = V_WRITELANE_B32 $sgpr0, 3, $vgpr1"),
        (
            "exec -> v_readlane",
            Some(Rule::ExecToLaneAccess),
            CMPX,
            "$sgpr4 = V_READLANE_B32 $vgpr3, 3",
        ),
        (
            "exec -> v_readfirstlane",
            Some(Rule::ExecToLaneAccess),
            CMPX,
            "$sgpr4 = V_READFIRSTLANE_B32 $vgpr3, implicit $exec",
        ),
        (
            "exec -> v_writelane",
            Some(Rule::ExecToLaneAccess),
            CMPX,
            "$vgpr3 = V_WRITELANE_B32 $sgpr0, 3, $vgpr3",
        ),
        ("v_rcp -> VALU", Some(Rule::Transcendental), RCP, READ_V1),
        (
            "v_rcp -> v_fmac",
            Some(Rule::Transcendental),
            RCP,
            "$vgpr1 = V_FMAC_F32_e32 $vgpr3, $vgpr4, $vgpr1, implicit $mode, implicit $exec",
        ),
        (
            "v_sqrt -> VALU",
            Some(Rule::Transcendental),
            "$vgpr1 = V_SQRT_F32_e32 $vgpr2, implicit $mode, implicit $exec",
            READ_V1,
        ),
        (
            "v_sin -> VALU",
            Some(Rule::Transcendental),
            "$vgpr1 = V_SIN_F32_e32 $vgpr2, implicit $mode, implicit $exec",
            READ_V1,
        ),
        (
            "v_log -> VALU",
            Some(Rule::Transcendental),
            "$vgpr1 = V_LOG_F32_e32 $vgpr2, implicit $mode, implicit $exec",
            READ_V1,
        ),
        (
            "v_rcp_f64 -> VALU",
            Some(Rule::Transcendental),
            "$vgpr2_vgpr3 = V_RCP_F64_e32 $vgpr8_vgpr9, implicit $mode, implicit $exec",
            "$vgpr9 = V_MOV_B32_e32 $vgpr3, implicit $exec",
        ),
        (
            "v_rcp -> v_exp",
            None,
            RCP,
            "$vgpr3 = V_EXP_F32_e32 $vgpr1, implicit $mode, implicit $exec",
        ),
        ("v_rcp overwritten", None, RCP, WRITE_V1),
        ("v_rcp -> store", None, RCP, STORE_V1),
        ("v_rcp -> SDWA that keeps the rest", None, RCP, SDWA),
        (
            "v_frexp_mant -> VALU",
            None,
            "$vgpr1 = V_FREXP_MANT_F32_e32 $vgpr2, implicit $mode, implicit $exec",
            READ_V1,
        ),
        ("SDWA byte -> VALU", Some(Rule::PartialWrite), SDWA, READ_V1),
        (
            "SDWA byte -> SDWA that keeps it",
            Some(Rule::PartialWrite),
            SDWA,
            "$vgpr1 = V_MOV_B32_sdwa 0, $vgpr3, 0, 2, 2, 5, implicit $exec, implicit $vgpr1(tied-def 0)",
        ),
        (
            "SDWA dword -> VALU",
            None,
            "$vgpr1 = V_MOV_B32_sdwa 0, $vgpr2, 0, 6, 2, 5, implicit $exec, implicit $vgpr1(tied-def 0)",
            READ_V1,
        ),
        ("SDWA byte -> store", None, SDWA, STORE_V1),
        (
            "op_sel high -> VALU",
            Some(Rule::PartialWrite),
            "$vgpr1 = V_MAD_U16_gfx9_e64 8, $vgpr2, 0, $vgpr3, 0, $vgpr4, 0, 8, implicit $exec",
            READ_V1,
        ),
        ("fp8 high -> VALU", Some(Rule::PartialWrite), FP8_HIGH, READ_V1),
        ("fp8 low -> VALU", None, FP8_LOW, READ_V1),
        ("fp8 low -> fp8 high", None, FP8_LOW, FP8_HIGH),
        ("fp8 high -> fp8 low", Some(Rule::PartialWrite), FP8_HIGH, FP8_LOW),
        ("fp8 high -> store", None, FP8_HIGH, STORE_V1),
        ("dot -> VALU", Some(Rule::DotProduct), DOT, READ_V1),
        (
            "dot -> the same dot's C",
            None,
            DOT,
            "$vgpr1 = V_DOT4_I32_I8 8, $vgpr2, 8, $vgpr3, 8, $vgpr1, 0, 0, 0, implicit $exec",
        ),
        (
            "dot -> the same dot's A",
            Some(Rule::DotProduct),
            DOT,
            "$vgpr9 = V_DOT4_I32_I8 8, $vgpr1, 8, $vgpr3, 8, $vgpr4, 0, 0, 0, implicit $exec",
        ),
        ("dot -> another dot's C", Some(Rule::DotProduct), DOT, DOT_C),
        ("dotc -> dotc", None, DOT_C, DOT_C),
        ("dotc -> VALU", Some(Rule::DotProduct), DOT_C, READ_V1),
        (
            "dotc -> dotc's A",
            Some(Rule::DotProduct),
            DOT_C,
            "$vgpr7 = V_DOT4C_I32_I8_e32 $vgpr1, $vgpr3, $vgpr7, implicit $exec",
        ),
        ("dot overwritten", Some(Rule::DotProduct), DOT, WRITE_V1),
        ("dot overwritten by itself", None, DOT, DOT),
        (
            "dot overwritten by a load",
            Some(Rule::DotProduct),
            DOT,
            "$vgpr1 = GLOBAL_LOAD_DWORD $vgpr2_vgpr3, 0, 0, implicit $exec",
        ),
        ("dot -> store", Some(Rule::DotProduct), DOT, STORE_V1),
        (
            "dot -> LDS",
            Some(Rule::DotProduct),
            DOT,
            "DS_WRITE_B32_gfx9 $vgpr221, $vgpr1, 0, 0, implicit $exec",
        ),
        ("store of 16 bytes -> VALU", Some(Rule::StoreData), STORE_128, WRITE_V5),
        (
            "store of 12 bytes -> VALU",
            Some(Rule::StoreData),
            "GLOBAL_STORE_DWORDX3 $vgpr2_vgpr3, $vgpr4_vgpr5_vgpr6, 0, 0, implicit $exec",
            WRITE_V5,
        ),
        (
            "store of 8 bytes -> VALU",
            None,
            "GLOBAL_STORE_DWORDX2 $vgpr2_vgpr3, $vgpr4_vgpr5, 0, 0, implicit $exec",
            WRITE_V5,
        ),
        (
            "buffer store of 16 bytes -> VALU",
            Some(Rule::StoreData),
            "BUFFER_STORE_DWORDX4_OFFSET $vgpr4_vgpr5_vgpr6_vgpr7, $sgpr4_sgpr5_sgpr6_sgpr7, 0, 0, 0, 0, implicit $exec",
            WRITE_V5,
        ),
        (
            "buffer store with soffset -> VALU",
            None,
            "BUFFER_STORE_DWORDX4_OFFSET $vgpr4_vgpr5_vgpr6_vgpr7, $sgpr4_sgpr5_sgpr6_sgpr7, $sgpr9, 0, 0, 0, implicit $exec",
            WRITE_V5,
        ),
        (
            "scratch store of 16 bytes -> VALU",
            Some(Rule::StoreData),
            "SCRATCH_STORE_DWORDX4_SADDR $vgpr4_vgpr5_vgpr6_vgpr7, $sgpr32, 0, 0, implicit $exec, implicit $flat_scr",
            WRITE_V5,
        ),
        (
            "cmpswap_x2 -> VALU",
            Some(Rule::StoreData),
            "GLOBAL_ATOMIC_CMPSWAP_X2 $vgpr2_vgpr3, $vgpr4_vgpr5_vgpr6_vgpr7, 0, 0, implicit $exec",
            WRITE_V5,
        ),
        (
            "store of 16 bytes -> load",
            None,
            STORE_128,
            "$vgpr5 = DS_READ_B32_gfx9 $vgpr9, 0, 0, implicit $exec",
        ),
        (
            "ds_write_b128 -> VALU",
            None,
            "DS_WRITE_B128_gfx9 $vgpr2, $vgpr4_vgpr5_vgpr6_vgpr7, 0, 0, implicit $exec",
            WRITE_V5,
        ),
        (
            "s_setreg -> s_getreg",
            Some(Rule::HardwareRegister),
            SETREG,
            "$sgpr1 = S_GETREG_B32 6145, implicit $mode",
        ),
        ("s_setreg -> s_setreg", Some(Rule::HardwareRegister), SETREG, SETREG),
        (
            "s_setreg -> another s_setreg",
            None,
            SETREG,
            "S_SETREG_B32 $sgpr1, 6146, implicit-def $mode, implicit $mode",
        ),
        (
            "M0 -> global_load_lds",
            Some(Rule::M0),
            WRITE_M0,
            "GLOBAL_LOAD_LDS_DWORD $vgpr2_vgpr3, 0, 0, implicit $m0, implicit $exec",
        ),
        (
            "M0 -> buffer_load lds",
            Some(Rule::M0),
            WRITE_M0,
            "BUFFER_LOAD_DWORD_LDS_OFFSET $sgpr4_sgpr5_sgpr6_sgpr7, 0, 0, 0, 0, implicit $exec, implicit $m0",
        ),
        (
            "M0 -> ds_read_addtid",
            Some(Rule::M0),
            WRITE_M0,
            "$vgpr1 = DS_READ_ADDTID_B32 0, 0, implicit $m0, implicit $exec",
        ),
        (
            "M0 -> s_movrels",
            Some(Rule::M0),
            WRITE_M0,
            "$sgpr1 = S_MOVRELS_B32 $sgpr2, implicit $m0",
        ),
        ("M0 -> s_sendmsg", Some(Rule::M0), WRITE_M0, "S_SENDMSG 3, implicit $exec, implicit $m0"),
        ("M0 -> ds_read", None, WRITE_M0, "$vgpr1 = DS_READ_B32_gfx9 $vgpr5, 0, 0, implicit $exec"),
    ];
    if arch == Arch::Gfx950 {
        cases.extend([
            ("VALU -> v_permlane32_swap", Some(Rule::VectorToPermlaneSwap), WRITE_V1, SWAP),
            ("VALU -> v_permlane16_swap", Some(Rule::VectorToPermlaneSwap), "$vgpr2 = V_MOV_B32_e32 0, implicit $exec", "$vgpr1, $vgpr2 = V_PERMLANE16_SWAP_B32_e32 $vgpr1, $vgpr2, implicit $exec"),
            ("v_permlane32_swap twice", Some(Rule::VectorToPermlaneSwap), SWAP, SWAP),
            ("exec -> v_permlane32_swap", Some(Rule::ExecToPermlaneSwap), CMPX, "$vgpr3, $vgpr4 = V_PERMLANE32_SWAP_B32_e32 $vgpr3, $vgpr4, implicit $exec"),
            ("v_permlane32_swap -> VALU", None, SWAP, READ_V1),
            ("fp4 byte 0 -> VALU", None, "$vgpr1 = V_CVT_SCALEF32_PK_FP4_F32_e64 0, $vgpr2, 0, $vgpr3, 0, $vgpr4, $vgpr1, 0, implicit $mode, implicit $exec", READ_V1),
            ("fp4 byte 1 -> VALU", Some(Rule::PartialWrite), "$vgpr1 = V_CVT_SCALEF32_PK_FP4_F32_e64 0, $vgpr2, 0, $vgpr3, 4, $vgpr4, $vgpr1, 0, implicit $mode, implicit $exec", READ_V1),
            ("fp4 byte 2 -> VALU", Some(Rule::PartialWrite), "$vgpr1 = V_CVT_SCALEF32_PK_FP4_F32_e64 8, $vgpr2, 0, $vgpr3, 0, $vgpr4, $vgpr1, 0, implicit $mode, implicit $exec", READ_V1),
            ("scaled fp8 high -> VALU", Some(Rule::PartialWrite), "$vgpr1 = V_CVT_SCALEF32_PK_FP8_F32_e64 8, $vgpr2, 0, $vgpr3, 0, $vgpr4, $vgpr1, 0, implicit $mode, implicit $exec", READ_V1),
        ]);
    }
    cases
        .into_iter()
        .map(|(name, rule, producer, consumer)| Case {
            name: name.to_owned(),
            producer: producer.to_owned(),
            consumer: consumer.to_owned(),
            rule,
        })
        .collect()
}

/// Runs LLVM's hazard recognizer over the cases and decodes the result, a list of instructions for each case; `None` if
/// there is no `llc-22`.
fn with_noops(arch: Arch, cases: &[Case]) -> Option<Vec<Vec<Instruction>>> {
    if Command::new("llc-22").arg("--version").output().is_err() {
        println!("skipped: no llc-22");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let (input, output) = (directory.path().join("in.mir"), directory.path().join("out.o"));
    let mut text = String::new();
    for (number, case) in cases.iter().enumerate() {
        write!(
            text,
            "---\nname: case{number}\nbody: |\n  bb.0:\n    {}\n    {}\n    S_ENDPGM 0\n...\n",
            case.producer, case.consumer
        )
        .unwrap();
    }
    std::fs::write(&input, text).unwrap();
    let run = Command::new("llc-22")
        .args(["-mtriple=amdgcn-amd-amdhsa", "-start-before=post-RA-hazard-rec", "-filetype=obj"])
        .arg(format!("-mcpu={arch}"))
        .args([input.as_path(), Path::new("-o"), output.as_path()])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let bytes = std::fs::read(&output).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let code = file.section_by_name(".text").unwrap().data().unwrap();
    let functions = (0..cases.len()).map(|number| {
        let name = format!("case{number}");
        let symbol = file.symbols().find(|s| s.name() == Ok(&name)).unwrap();
        let mut at = symbol.address() as usize;
        let mut instructions = Vec::new();
        loop {
            let instruction = decode(arch, &name, at as u64, &code[at..]).unwrap();
            if instruction.opcode == Opcode::SEndpgm {
                break;
            }
            at += usize::from(instruction.size);
            instructions.push(instruction);
        }
        instructions
    });
    Some(functions.collect())
}

/// The first finding in a sequence.
fn first_finding(arch: Arch, instructions: &[Instruction]) -> Option<HazardFinding> {
    let infos: Vec<HazardInfo> = instructions.iter().map(|i| HazardInfo::new(arch, i)).collect();
    let mut tracker = HazardTracker::new();
    (0..infos.len()).find_map(|step| tracker.issue(&infos, step))
}

fn check(arch: Arch, cases: &[Case]) {
    let Some(compiled) = with_noops(arch, cases) else { return };
    for (case, instructions) in cases.iter().zip(compiled) {
        let name = format!("{arch} {}", case.name);
        let is_noop = |i: &Instruction| i.opcode == Opcode::SNop;
        let inserted: u32 =
            instructions.iter().filter(|i| is_noop(i)).map(|i| u32::from(i.mods.imm) + 1).sum();
        assert_eq!(first_finding(arch, &instructions), None, "{name}: as LLVM emits it");
        let bare: Vec<Instruction> = instructions.iter().copied().filter(|i| !is_noop(i)).collect();
        let finding = first_finding(arch, &bare);
        assert_eq!(finding.as_ref().map(|f| f.rule), case.rule, "{name}");
        assert_eq!(finding.as_ref().map_or(0, |f| f.required), inserted, "{name}: wait states");
        // Each s_nop shortened by one.
        for (at, noop) in instructions.iter().enumerate().filter(|(_, i)| is_noop(i)) {
            let mut short = instructions.clone();
            if noop.mods.imm == 0 {
                short.remove(at);
            } else {
                short[at].mods.imm -= 1;
            }
            let finding =
                first_finding(arch, &short).unwrap_or_else(|| panic!("{name}: not caught"));
            assert_eq!((finding.rule, finding.producer), (case.rule.unwrap(), 0), "{name}");
            assert_eq!((finding.required, finding.actual), (inserted, inserted - 1), "{name}");
        }
    }
    println!("{arch}: {} pairs agree with LLVM", cases.len());
}

#[test]
fn matrix_rules_ask_for_what_llvm_inserts() {
    for arch in Arch::ALL {
        let cases: Vec<Case> = matrix_ops(arch).iter().flat_map(matrix_cases).collect();
        check(arch, &cases);
    }
}

#[test]
fn other_rules_ask_for_what_llvm_inserts() {
    for arch in Arch::ALL {
        check(arch, &other_cases(arch));
    }
}

#[test]
fn accumulation_registers_follow_the_same_rules() {
    let product = |d: &str, c: &str| {
        let d = regs(d, 0, 4);
        let c = regs(c, 20, 4);
        format!(
            "{d} = V_MFMA_F32_16X16X16F16_e64 $vgpr10_vgpr11, $vgpr12_vgpr13, {c}, 0, 0, 0, \
             implicit $mode, implicit $exec"
        )
    };
    let case = |name: &str, rule: Option<Rule>, producer: String, consumer: &str| Case {
        name: name.to_owned(),
        producer,
        consumer: consumer.to_owned(),
        rule,
    };
    let in_agprs = || product("agpr", "agpr");
    let cases = [
        case(
            "AGPR result -> v_accvgpr_read",
            Some(Rule::MatrixResultRead),
            in_agprs(),
            "$vgpr9 = V_ACCVGPR_READ_B32_e64 $agpr0, implicit $exec",
        ),
        case(
            "AGPR result -> v_accvgpr_write",
            Some(Rule::MatrixResultOverwritten),
            in_agprs(),
            "$agpr3 = V_ACCVGPR_WRITE_B32_e64 $vgpr9, implicit $exec",
        ),
        case(
            "AGPR C -> v_accvgpr_write",
            Some(Rule::MatrixCOverwritten),
            in_agprs(),
            "$agpr20 = V_ACCVGPR_WRITE_B32_e64 $vgpr9, implicit $exec",
        ),
        case(
            "AGPR result, VGPR of the same number",
            None,
            in_agprs(),
            "$vgpr9 = V_MOV_B32_e32 $vgpr0, implicit $exec",
        ),
        case(
            "AGPR result -> store",
            Some(Rule::MatrixResultRead),
            in_agprs(),
            "GLOBAL_STORE_DWORD $vgpr2_vgpr3, $agpr1, 0, 0, implicit $exec",
        ),
        case(
            "v_accvgpr_write -> matrix factor",
            Some(Rule::VectorToMatrix),
            "$agpr10 = V_ACCVGPR_WRITE_B32_e64 $vgpr3, implicit $exec".to_owned(),
            "$vgpr0_vgpr1_vgpr2_vgpr3 = V_MFMA_F32_16X16X16F16_vgprcd_e64 $agpr10_agpr11, \
             $vgpr12_vgpr13, $vgpr20_vgpr21_vgpr22_vgpr23, 0, 0, 0, implicit $mode, implicit $exec",
        ),
        case(
            "v_accvgpr_mov -> matrix factor",
            Some(Rule::VectorToMatrix),
            "$agpr10 = V_ACCVGPR_MOV_B32 $agpr2, implicit $exec".to_owned(),
            "$vgpr0_vgpr1_vgpr2_vgpr3 = V_MFMA_F32_16X16X16F16_vgprcd_e64 $agpr10_agpr11, \
             $vgpr12_vgpr13, $vgpr20_vgpr21_vgpr22_vgpr23, 0, 0, 0, implicit $mode, implicit $exec",
        ),
    ];
    for arch in Arch::ALL {
        check(arch, &cases);
    }
}

#[test]
fn intervening_instructions_count_as_wait_states() {
    let cases = [Case {
        name: "matrix result read".to_owned(),
        producer: F16.text(D, A, B, C),
        consumer: "$vgpr220 = V_MOV_B32_e32 $vgpr0, implicit $exec".to_owned(),
        rule: Some(Rule::MatrixResultRead),
    }];
    let Some(compiled) = with_noops(Arch::Gfx942, &cases) else { return };
    let producer = compiled[0][0];
    let consumer = *compiled[0].last().unwrap();
    let filler = decode(Arch::Gfx942, "", 0, &0x7e00_0280_u32.to_le_bytes()).unwrap();
    let unrelated = Instruction { dst: consumer.dst, ..filler };
    for between in 0..9 {
        let mut sequence = vec![producer];
        sequence.extend(std::iter::repeat_n(unrelated, between));
        sequence.push(consumer);
        let found = first_finding(Arch::Gfx942, &sequence);
        assert_eq!(found.map(|f| f.actual as usize), (between < 7).then_some(between));
    }
    // The producer is named through many later ones, and forgotten after its reach.
    let infos: Vec<HazardInfo> =
        [producer, unrelated, consumer].iter().map(|i| HazardInfo::new(Arch::Gfx942, i)).collect();
    let mut tracker = HazardTracker::new();
    for round in 0..100 {
        assert_eq!(tracker.issue(&infos, 0), None, "round {round}");
        for _ in 0..6 {
            assert_eq!(tracker.issue(&infos, 1), None, "round {round}");
        }
        let finding = tracker.issue(&infos, 2).unwrap();
        assert_eq!((finding.producer, finding.required, finding.actual), (0, 7, 6));
        assert_eq!(
            finding.describe("`v_mfma`"),
            "reads a matrix result in v0: 6 wait states after `v_mfma`, 7 are required"
        );
    }
    assert_eq!(tracker.issue(&infos, 3), None, "no such step");
}

#[test]
fn the_documents_numbers() {
    // The CDNA3 and CDNA4 ISA documents, VALU read of a result, by passes.
    let result = |arch, passes, xdl| Matrix { passes, xdl, arch }.result();
    for (passes, cdna3, cdna4) in [(4, 7, 8), (8, 11, 12), (16, 19, 20)] {
        assert_eq!(result(Arch::Gfx942, passes, true), cdna3);
        assert_eq!(result(Arch::Gfx950, passes, true), cdna4);
    }
    for (passes, both) in [(8, 10), (16, 18)] {
        for arch in Arch::ALL {
            assert_eq!(result(arch, passes, false), both);
        }
    }
}
