//! What is generated, pinned: the header of every step's kernel, and step 7 written out.

use lapidary_core::policy::{
    CooperativeMatrix, CooperativeMatrixF16, DirectSplit, KernelConfig, RegisterPrefetch, VectorFma,
};
use lapidary_core::{Activation, ElementType, KernelChoice, Layout, PlanOptions, Problem};
use lapidary_wgsl::decide::{Decision, Tuning, decide, decide_with};
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

/// What a GPU with matrix units is planned for: numbers in the place of parameters.
#[test]
fn kernels_beyond_the_course() {
    let limits =
        wgpu::Limits { max_compute_workgroup_storage_size: 49152, ..wgpu::Limits::defaults() };
    let mut limits = DeviceLimits::from_limits(&limits, wgpu::Features::SHADER_F16, false);
    limits.matrix_side = 16;
    limits.cooperative = true;
    limits.cooperative_f16 = true;
    limits.subgroup_lanes = 32;
    limits.tuning = Tuning::HOPPER;
    limits.tuning.specialise_flops = 0.0;
    let module = |limits: &DeviceLimits, problem: &Problem, options: &PlanOptions| {
        let decision = decide_with(problem, limits, options, "snapshots").expect("plans");
        let kernel = decision.kernel.as_ref().expect("a product");
        emit::multiply(kernel, &decision.traits, decision.store, Access::ReadOnlyInputs)
    };
    let vector = KernelConfig::of::<RegisterPrefetch<32, 32, 8>, VectorFma<4, 8>>();
    let options = PlanOptions::kernel(KernelChoice::Policy(vector)).k_slices(2);
    insta::assert_snapshot!(
        "vector_two_slices",
        module(&limits, &Problem::new(64, 64, 32), &options)
    );
    let cooperative = KernelConfig::of::<RegisterPrefetch<64, 64, 32>, CooperativeMatrix<32, 32>>();
    let options = PlanOptions::kernel(KernelChoice::Policy(cooperative));
    for (name, m) in [("cooperative_whole", 64), ("cooperative_cut", 65)] {
        let problem = Problem::new(m, 64, 64).elements(ElementType::F16, ElementType::F32);
        insta::assert_snapshot!(name, module(&limits, &problem, &options));
    }
    let problem = Problem::new(64, 64, 64).elements(ElementType::F16, ElementType::F16).beta(1.0);
    insta::assert_snapshot!("cooperative_f16_output", module(&limits, &problem, &options));
    let mut small = limits;
    (small.matrix_side, small.subgroup_lanes) = (8, 8);
    insta::assert_snapshot!("cooperative_8x8", module(&small, &problem, &options));
    let f16_sums = KernelConfig::of::<RegisterPrefetch<64, 64, 32>, CooperativeMatrixF16<32, 32>>();
    let options = PlanOptions::kernel(KernelChoice::Policy(f16_sums));
    let problem = Problem::new(65, 64, 64).elements(ElementType::F16, ElementType::F32);
    insta::assert_snapshot!("cooperative_f16_sums", module(&limits, &problem, &options));
    let split = KernelConfig::of::<DirectSplit<8, 16, 4>, VectorFma<4, 4>>();
    let options = PlanOptions::kernel(KernelChoice::Policy(split));
    insta::assert_snapshot!("split", module(&limits, &Problem::new(16, 30, 65), &options));
    let options = PlanOptions::kernel(KernelChoice::Skinny);
    let problem = Problem::new(1, 64, 512);
    insta::assert_snapshot!("skinny_across", module(&limits, &problem, &options));
    let problem = problem.b_layout(Layout::col_major(512, 64));
    insta::assert_snapshot!("skinny_along", module(&limits, &problem, &options));
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
    let source =
        emit::pack_output(&decision.traits, 1.into(), decision.store, Access::ReadOnlyInputs);
    insta::assert_snapshot!("pack_output_i8", source);
}
