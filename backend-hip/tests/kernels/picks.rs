//! Everything the chooser can pick, compiled: registers against the rule, and the hot loop.

use std::collections::BTreeMap;

use super::configs;
use super::emulate::compiler;
use lapidary_core::Activation;
use lapidary_hip::Target;
use lapidary_hip::inspect::{HotLoop, Resources};
use lapidary_hip::preshuffle::{
    EpilogueTraits, OutputType, PreshuffleConfig, ProblemClass, choose,
};
use rayon::prelude::*;

fn all(target: Target, full: bool) -> Vec<PreshuffleConfig> {
    let mut picks = BTreeMap::new();
    let e = EpilogueTraits::default();
    let epilogues = [
        e,
        EpilogueTraits { row_scale: true, col_scale: true, bias: true, ..e },
        EpilogueTraits {
            row_scale: true,
            col_scale: true,
            bias: true,
            alpha: true,
            beta: true,
            activation: Activation::GeluErf,
        },
    ];
    for pair in configs::operand_pairs(target) {
        for m in [1, 17, 33, 4096] {
            for n in [64, 264, 8192, 40960] {
                for k in [512, 8192] {
                    for (a_aligned, c_alignment) in [(true, 8), (true, 4), (false, 1)] {
                        for (i, epilogue) in epilogues.into_iter().enumerate() {
                            for output in
                                [pair.output, OutputType::F32, OutputType::F16, OutputType::BF16]
                            {
                                if output == OutputType::I32 && i > 0 {
                                    continue;
                                }
                                if !full && (output == OutputType::F16 || i == 1) {
                                    continue;
                                }
                                let class = ProblemClass {
                                    m,
                                    n,
                                    k,
                                    batch: 1,
                                    a: pair.a,
                                    b: pair.b,
                                    output,
                                    block_scaled: pair.block_scaled,
                                    epilogue,
                                    a_aligned,
                                    c_alignment,
                                    compute_units: 304,
                                };
                                match choose(target, &class) {
                                    Ok(c) => {
                                        picks.insert(format!("{:?}", c.config), c.config);
                                    }
                                    Err(e) => println!("{class:?}: {e}"),
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    picks.into_values().collect()
}

#[test]
fn survey() {
    let Some(compiler) = compiler() else { return };
    let full = std::env::var("FULL").is_ok();
    for target in [Target::Gfx942, Target::Gfx950] {
        let picks = all(target, full);
        println!("{target}: {} picks", picks.len());
        let rows: Vec<_> = picks
            .par_iter()
            .map(|config| {
                let request = config.request().expect("valid");
                let assembly = compiler.assembly(&request).unwrap_or_else(|e| panic!("{e}"));
                let r = Resources::of(&assembly).expect("metadata");
                let hot = HotLoop::of(&assembly).expect("loop");
                let m = hot.mix;
                let cycles = hot.mca_cycles("llvm-mca-22", target).unwrap_or(0.0);
                format!(
                    "ROW|{target}|{config}|e{}{}|cv{}|xcd{}|vgpr {}|agpr {}|scr {}|est {}|rfl {}|exec {}|mfma {}|tot {}|util {:.3}|v {}|s {}",
                    u32::from(config.epilogue.bias), u32::from(config.epilogue.beta),
                    config.c_vector,
                    config.xcd_group,
                    r.vgprs, r.agprs, r.scratch, config.register_estimate(),
                    m.readfirstlane, m.exec_mask, m.mfma, m.total(), hot.mfma_cycles() / cycles, m.vector, m.scalar
                )
            })
            .collect();
        for row in rows {
            println!("{row}");
        }
    }
}
