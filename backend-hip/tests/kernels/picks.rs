//! Everything the chooser can pick, compiled: no spill, no loop over lanes, registers as the rules say.

use std::collections::BTreeMap;

use super::configs;
use super::emulate::compiler;
use lapidary_core::{Activation, ElementType};
use lapidary_hip::Target;
use lapidary_hip::compile::Compiler;
use lapidary_hip::inspect::{HotLoop, Resources};
use lapidary_hip::preshuffle::{EpilogueTraits, PreshuffleConfig, ProblemClass, choose};
use rayon::prelude::*;

const TARGETS: [Target; 2] = [Target::Gfx942, Target::Gfx950];

/// Every combination of operand types, tile, copy and split-K that [`choose`] gives, each with one of
/// three ways through the epilogue in turn.
fn picks(target: Target) -> Vec<PreshuffleConfig> {
    let mut picks = BTreeMap::new();
    let scaled = EpilogueTraits {
        row_scale: true,
        col_scale: true,
        bias: true,
        activation: Activation::GeluErf,
        ..EpilogueTraits::default()
    };
    let epilogues = [
        (ElementType::BF16, scaled, 8),
        (ElementType::F32, EpilogueTraits { alpha: true, beta: true, ..scaled }, 4),
        (ElementType::F16, EpilogueTraits { beta: true, ..scaled }, 8),
    ];
    for pair in configs::operand_pairs(target) {
        for m in [1, 17, 33, 4096] {
            for n in [64, 264, 40960] {
                for k in [512, 8192] {
                    for a_aligned in [true, false] {
                        let (output, epilogue, c_alignment) = epilogues[picks.len() % 3];
                        let plain = pair.output == ElementType::I32;
                        let class = ProblemClass {
                            m,
                            n,
                            k,
                            batch: 1,
                            a: pair.a,
                            b: pair.b,
                            output: if plain { pair.output } else { output },
                            block_scaled: pair.block_scaled,
                            epilogue: if plain { EpilogueTraits::default() } else { epilogue },
                            a_aligned,
                            c_alignment,
                            compute_units: 304,
                        };
                        let config = choose(target, &class).expect("a configuration").config;
                        let PreshuffleConfig { a, b, tile, copy, split_k, .. } = config;
                        let key = format!("{a} {b} {plain} {tile:?} {copy:?} {split_k}");
                        picks.entry(key).or_insert(config);
                    }
                }
            }
        }
    }
    picks.into_values().collect()
}

/// What a kernel must not do, whatever it computes.
fn check(compiler: &Compiler, config: &PreshuffleConfig) -> Resources {
    let name = format!("{} {config}, {:?} waves", config.target, config.waves_per_simd);
    let request = config.request().unwrap_or_else(|e| panic!("{name}: {e}"));
    let assembly = compiler.assembly(&request).unwrap_or_else(|e| panic!("{name}: {e}"));
    let resources = Resources::of(&assembly).expect("metadata");
    assert_eq!((resources.scratch, resources.agprs), (0, 0), "{name}: {resources:?}");
    let mix = HotLoop::of(&assembly).unwrap_or_else(|e| panic!("{name}: {e}")).mix;
    assert_eq!((mix.scratch, mix.store), (0, 0), "{name}: {mix:?}");
    assert_eq!((mix.readfirstlane, mix.exec_mask), (0, 0), "{name}: a loop over lanes");
    assert_eq!(mix.mfma, 2 * config.mfma_per_strip(), "{name}");
    assert_eq!(resources.lds as usize, config.lds_bytes(), "{name}");
    resources
}

/// Workgroups a compute unit holds, each one wave a SIMD, by LDS.
fn by_lds(config: &PreshuffleConfig) -> u32 {
    (config.target.lds_bytes() / config.lds_bytes() as u32).min(8)
}

/// No spill, no accumulation register, no loop over lanes; and as many waves a SIMD as the estimate
/// of registers promises, wherever registers are what limits them.
#[test]
fn every_pick_compiles_to_what_the_rules_promise() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        let picks = picks(target);
        println!("{target}: {} kernels", picks.len());
        assert!(picks.len() > 100);
        picks.par_iter().for_each(|config| {
            let found = check(&compiler, config);
            assert!(found.vgprs <= 256, "{target} {config}: {found:?}");
            let waves = |registers: usize| (512 / registers.next_multiple_of(8) as u32).min(8);
            let promised = waves(config.register_estimate() + MARGIN).min(by_lds(config));
            let held = found.waves_per_simd().min(by_lds(config));
            assert!(held >= promised, "{target} {config}: {held} of {promised} waves, {found:?}");
        });
    }
}

/// What a compiled kernel may take over the estimate.
const MARGIN: usize = 32;

/// A number of waves that the rules accept is reached without a spill.
#[test]
fn accepted_numbers_of_waves_do_not_spill() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        let accepted: Vec<_> = picks(target)
            .into_iter()
            .filter(|config| !config.split_k && config.output != ElementType::F16)
            .filter_map(|config| {
                // The most waves that pass.
                (2..=8).rev().find_map(|waves| {
                    let config = PreshuffleConfig { waves_per_simd: Some(waves), ..config };
                    config.validate().is_ok().then_some(config)
                })
            })
            .collect();
        println!("{target}: {} kernels", accepted.len());
        accepted.par_iter().for_each(|config| {
            let found = check(&compiler, config);
            let waves = config.waves_per_simd.unwrap_or(1) as u32;
            assert!(found.waves_per_simd() >= waves, "{target} {config}: {found:?}");
        });
    }
}
