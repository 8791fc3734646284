//! Every other kernel: no loop over lanes, no spill.

use std::collections::HashMap;

use super::emulate::compiler;
use super::{configs, steps};
use lapidary_core::{Activation, ElementType};
use lapidary_hip::Target;
use lapidary_hip::compile::Request;
use lapidary_hip::inspect::Resources;
use lapidary_hip::passes::{PackAConfig, StoreConfig, Sums, pack_scales_request};
use lapidary_hip::preshuffle::{EpilogueTraits, OPERANDS, PreshuffleConfig, pack_request};
use rayon::prelude::*;

/// The loops over lanes of an assembly: from a label to a branch back to it while lanes are left, with
/// a lane's value moved to a scalar register. The compiler makes one around an instruction that needs
/// a scalar and was given a vector.
fn loops_over_lanes(assembly: &str) -> Vec<String> {
    let lines: Vec<&str> =
        assembly.lines().map(|line| line.split(';').next().unwrap_or_default().trim()).collect();
    let labels: HashMap<&str, usize> = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| Some((line.strip_suffix(':')?, at)))
        .collect();
    let mut found = Vec::new();
    for (end, line) in lines.iter().enumerate() {
        let start = line.strip_prefix("s_cbranch_execnz").and_then(|to| labels.get(to.trim()));
        if let Some(&start) = start
            && start < end
            && lines[start..end].iter().any(|line| line.starts_with("v_readfirstlane"))
        {
            found.push(lines[start..=end].join("\n"));
        }
    }
    found
}

#[test]
fn a_loop_over_lanes_is_found() {
    let text = |reads: &str| format!("a\n.L1: ; first\n{reads}\ns_cbranch_execnz .L1\nc\n");
    assert_eq!(loops_over_lanes(&text("v_readfirstlane_b32 s2, v0")).len(), 1);
    assert!(loops_over_lanes(&text("v_mov_b32_e32 v1, v0")).is_empty());
    let forward = "s_cbranch_execnz .L1\nv_readfirstlane_b32 s2, v0\n.L1:\n";
    assert!(loops_over_lanes(forward).is_empty());
}

/// What runs before and after a product.
fn passes(target: Target) -> Vec<Request> {
    let epilogue = EpilogueTraits {
        row_scale: true,
        col_scale: true,
        alpha: true,
        beta: true,
        bias: true,
        activation: Activation::GeluErf,
    };
    let mut requests: Vec<Request> =
        OPERANDS.into_iter().map(|element| pack_request(target, element)).collect();
    if target == Target::Gfx950 {
        requests.push(pack_scales_request(target));
    }
    for lanes_along_m in [false, true] {
        requests.extend(
            OPERANDS.map(|element| PackAConfig { target, element, lanes_along_m }.request()),
        );
        for output in [ElementType::F32, ElementType::F16, ElementType::BF16] {
            for sums in [Sums::None, Sums::F32, Sums::I32 { shift: 4 }] {
                let store = StoreConfig { target, sums, output, lanes_along_m, epilogue };
                requests.extend(store.request());
            }
        }
    }
    for pair in configs::operand_pairs(target) {
        let epilogue = match pair.output {
            ElementType::I32 => EpilogueTraits::default(),
            _ => epilogue,
        };
        let config = PreshuffleConfig { split_k: true, epilogue, ..pair };
        requests.push(config.reduce_request().expect("valid"));
    }
    requests
}

#[test]
fn no_pass_or_step_spills_or_loops_over_lanes() {
    let Some(compiler) = compiler() else { return };
    for target in [Target::Gfx942, Target::Gfx950] {
        let mut requests = passes(target);
        requests.extend(steps::steps(target).iter().map(|step| step.request().expect("valid")));
        println!("{target}: {} kernels", requests.len());
        requests.par_iter().for_each(|request| {
            let assembly = compiler.assembly(request).unwrap_or_else(|e| panic!("{e}"));
            let resources = Resources::of(&assembly).expect("metadata");
            assert_eq!(resources.scratch, 0, "{request:?}");
            let found = loops_over_lanes(&assembly);
            assert!(found.is_empty(), "{request:?}: {}", found[0]);
        });
    }
}
