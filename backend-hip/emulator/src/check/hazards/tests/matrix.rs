//! Every emulated matrix instruction with every kind of consumer, in LLVM's machine IR.

use super::Case;
use crate::Arch;
use crate::check::hazards::Rule;

/// A matrix instruction: name in machine IR, registers of A, B and C, and its format fields.
#[derive(Clone, Copy)]
pub(super) struct MatrixOp {
    pub(super) mir: &'static str,
    a: usize,
    b: usize,
    c: usize,
    formats: Option<(u8, u8)>,
    scaled: bool,
    xdl: bool,
}

pub(super) const fn matrix(mir: &'static str, factor: usize, c: usize) -> MatrixOp {
    MatrixOp { mir, a: factor, b: factor, c, formats: None, scaled: false, xdl: true }
}

pub(super) const F32: [MatrixOp; 2] = [
    MatrixOp { xdl: false, ..matrix("V_MFMA_F32_16X16X4F32", 1, 4) },
    MatrixOp { xdl: false, ..matrix("V_MFMA_F32_32X32X2F32", 1, 16) },
];

pub(super) const F16: MatrixOp = matrix("V_MFMA_F32_16X16X16F16", 2, 4);

/// The emulated matrix instructions of an architecture.
pub(super) fn matrix_ops(arch: Arch) -> Vec<MatrixOp> {
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
pub(super) fn regs(file: &str, first: usize, count: usize) -> String {
    let names: Vec<String> = (first..first + count).map(|r| format!("{file}{r}")).collect();
    format!("${}", names.join("_"))
}

fn v(first: usize, count: usize) -> String {
    regs("vgpr", first, count)
}

impl MatrixOp {
    /// The instruction on given first registers of D, A, B and C, all VGPRs.
    pub(super) fn text(&self, d: usize, a: usize, b: usize, c: usize) -> String {
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
pub(super) const D: usize = 0;
pub(super) const A: usize = 40;
pub(super) const B: usize = 60;
pub(super) const C: usize = 80;

/// Every kind of consumer after (and producer before) one matrix instruction.
pub(super) fn matrix_cases(op: &MatrixOp) -> Vec<Case> {
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
    before(
        "v_cmpx",
        Some(Rule::ExecToMatrix),
        "V_CMPX_EQ_U32_e32 $vgpr1, $vgpr2, implicit-def $exec, implicit-def $vcc, implicit $exec",
    );
    if op.scaled {
        before("v_mov scale", feed, "$vgpr200 = V_MOV_B32_e32 0, implicit $exec");
        before("matrix result as scale", factor, &F16.text(200, A, B, C));
    }
    cases
}
