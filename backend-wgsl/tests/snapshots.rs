//! What is generated, pinned: the header of every step's kernel, and step 7 written out.

use lapidary_core::{Activation, ElementType, KernelChoice, Problem};
use lapidary_wgsl::decide::{Decision, decide};
use lapidary_wgsl::emit::{self, Access};
use lapidary_wgsl::{DeviceLimits, wgpu};

fn decision(problem: &Problem, choice: KernelChoice) -> Decision {
    let limits =
        wgpu::Limits { max_compute_workgroup_storage_size: 32768, ..wgpu::Limits::defaults() };
    let limits = DeviceLimits::from_limits(&limits, wgpu::Features::SHADER_F16, false);
    decide(problem, &limits, choice, "snapshots").expect("plans")
}

fn module(problem: &Problem, choice: KernelChoice, access: Access) -> String {
    let decision = decision(problem, choice);
    let kernel = decision.kernel.expect("a product");
    emit::multiply(&kernel, &decision.traits, decision.store, access)
}

/// The text before the first function.
fn header(source: &str) -> &str {
    &source[..source.find("fn ").unwrap_or(source.len())]
}

#[test]
fn headers() {
    let problem = Problem::new(512, 512, 512);
    for step in 1..=7 {
        let choice = KernelChoice::step(step, ElementType::F32).expect("a step");
        let source = module(&problem, choice, Access::ReadOnlyInputs);
        insta::assert_snapshot!(format!("header_step{step}"), header(&source));
    }
    let packed = Problem::new(512, 512, 512).elements(ElementType::F16, ElementType::F16);
    let choice = KernelChoice::Vectorized { width: 4 };
    let source = module(&packed, choice, Access::AllReadWrite);
    insta::assert_snapshot!("header_f16_packed_all_read_write", header(&source));
}

#[test]
fn generic_kernels() {
    let problem = Problem::new(512, 512, 512);
    for choice in KernelChoice::generic(ElementType::F32) {
        let KernelChoice::Policy(config) = choice else { panic!("a policy") };
        let name = format!("generic_{}", config.tile.name.replace('-', "_"));
        insta::assert_snapshot!(name, module(&problem, choice, Access::ReadOnlyInputs));
    }
}

#[test]
fn a_fused_epilogue() {
    let problem = Problem::new(512, 512, 512).beta(0.5).bias(true).activation(Activation::GeluErf);
    let source = module(&problem, KernelChoice::Naive, Access::ReadOnlyInputs);
    insta::assert_snapshot!("epilogue_gelu_erf_naive", source);
}

#[test]
fn a_packed_output() {
    let problem = Problem::new(512, 512, 512)
        .elements(ElementType::I8, ElementType::I8)
        .bias(true)
        .activation(Activation::Relu);
    let decision = decision(&problem, KernelChoice::Naive);
    let source = emit::pack_output(&decision.traits, decision.store, Access::ReadOnlyInputs);
    insta::assert_snapshot!("pack_output_i8", source);
}
