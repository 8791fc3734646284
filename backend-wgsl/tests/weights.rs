//! i8 and i4 weights of wider activations, with scales of rows, columns and groups: every kernel,
//! layout and route, bit for bit on small integers.

mod common;

use common::Uploaded;
use lapidary_core::policy::{
    CooperativeMatrix, KernelConfig, RegisterPrefetch, VectorFma, VectorMac,
};
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{
    Backend, ElementType, Error, Gemm, KernelChoice, PlanOptions, Problem, TensorSlice, oracle,
};
use lapidary_wgsl::decide::{Body, CopyOrder, Store, Tuning, decide, decide_with};
use lapidary_wgsl::{DeviceLimits, Wgsl, wgpu};

use ElementType as E;

/// Every pair whose B is narrower than A.
const PAIRS: [(E, E); 7] = [
    (E::F32, E::I8),
    (E::F32, E::I4),
    (E::F16, E::I8),
    (E::F16, E::I4),
    (E::BF16, E::I8),
    (E::BF16, E::I4),
    (E::I8, E::I4),
];

/// A problem of these types with scales that vary with `index`.
fn problem([m, n, k]: [usize; 3], (a, b): (E, E), index: usize) -> Problem {
    let c = if a == E::I8 { E::I32 } else { [E::F32, E::F16, E::BF16][index % 3] };
    let problem = Problem::new(m, n, k).elements(a, c).factors(a, b).batch(1 + index % 2);
    let problem = common::epilogue(problem, index % 3);
    if a == E::I8 {
        return problem;
    }
    let group = [None, Some(8), Some(32)][index % 3].filter(|length| k.is_multiple_of(*length));
    problem.col_scale(index.is_multiple_of(4)).row_scale(index.is_multiple_of(5)).b_group(group)
}

fn arranged(problem: Problem, index: usize) -> Case {
    let inputs = Arrangement::INPUTS;
    Case::new(problem, Values::SmallIntegers(3), index as u64).arranged(
        inputs[index % inputs.len()],
        inputs[index / 2 % inputs.len()],
        Arrangement::OUTPUTS[index % Arrangement::OUTPUTS.len()],
    )
}

fn check(device: &Wgsl, problem: Problem, options: &PlanOptions, index: usize) {
    let mut case = arranged(problem, index);
    let expected = common::expect(&mut case);
    Uploaded::new(device, &case).check_with(device, options, &expected);
}

/// The kernels that load single elements of B, on every pair.
fn steps(device: &Wgsl) {
    let kernels = [
        KernelChoice::Naive,
        KernelChoice::WorkgroupTile,
        KernelChoice::RegisterTile,
        KernelChoice::Vectorized { width: 1 },
    ];
    let mut index = 0;
    for pair in PAIRS {
        if pair.0 == E::F16 && !device.limits().f16 {
            continue;
        }
        for shape in [[5, 7, 64], [33, 18, 40], [17, 130, 19]] {
            let kernel = kernels[index % kernels.len()];
            check(device, problem(shape, pair, index), &PlanOptions::kernel(kernel), index);
            index += 1;
        }
    }
}

#[test]
fn the_steps_multiply_weights() {
    let Some(device) = common::device() else { return };
    steps(device);
}

/// Where there are four storage bindings and neither f16 nor subgroups.
#[test]
fn the_least_device_multiplies_weights() {
    let Some(device) = common::downlevel() else { return };
    assert_eq!(device.limits().storage_bindings, 4);
    let naive = PlanOptions::kernel(KernelChoice::Naive);
    let skinny = PlanOptions::kernel(KernelChoice::Skinny);
    let groups = Problem::new(3, 40, 64).factors(E::F32, E::I4).b_group(Some(16));
    for (index, options) in [naive, skinny].iter().enumerate() {
        for problem in
            [groups.clone(), groups.clone().bias(true), groups.clone().bias(true).col_scale(true)]
        {
            check(device, problem, options, index);
        }
    }
    let three = groups.bias(true).col_scale(true).row_scale(true);
    let error = device.decide(&three, KernelChoice::Naive).expect_err("five bindings");
    assert!(matches!(error, Error::LimitExceeded { requested: 5, limit: 4, .. }), "{error}");
}

#[test]
fn the_vector_kernel_dequantises_as_it_loads() {
    let Some(device) = common::device() else { return };
    let float =
        KernelChoice::Policy(KernelConfig::of::<RegisterPrefetch<64, 64, 16>, VectorFma<8, 8>>());
    let integer =
        KernelChoice::Policy(KernelConfig::of::<RegisterPrefetch<64, 64, 16>, VectorMac<8, 8>>());
    for (index, pair) in PAIRS.into_iter().enumerate() {
        let kernel = if pair.0 == E::I8 { integer } else { float };
        let shape = [[70, 65, 72], [64, 64, 64]][index % 2];
        check(device, problem(shape, pair, index), &PlanOptions::kernel(kernel), index);
    }
}

/// Sizes written into the text, slices of K and copies of B.
#[test]
fn the_tuned_vector_kernel_dequantises_as_it_loads() {
    let Some(device) = common::tuned() else { return };
    let kernel =
        KernelChoice::Policy(KernelConfig::of::<RegisterPrefetch<64, 64, 16>, VectorFma<8, 8>>());
    for (index, pair) in [(E::F16, E::I4), (E::F32, E::I8), (E::BF16, E::I4)].iter().enumerate() {
        let options = PlanOptions::kernel(kernel).k_slices(1 + index % 2);
        let problem = problem([64, 128, 96], *pair, index + 1);
        check(device, problem.clone(), &options, index);
        check(device, problem, &options.copies([false, true]), index + 3);
    }
}

#[test]
fn the_skinny_kernel_dequantises_as_it_loads() {
    let Some(device) = common::device() else { return };
    let mut index = 0;
    for pair in PAIRS {
        for shape in [[1, 130, 256], [40, 2, 72]] {
            for larger in [Arrangement::RowMajor, Arrangement::ColMajor] {
                let problem = problem(shape, pair, index);
                let few = Arrangement::Dense;
                let (a, b) = if shape[0] < shape[1] { (few, larger) } else { (larger, few) };
                let mut case = Case::new(problem, Values::SmallIntegers(3), index as u64).arranged(
                    a,
                    b,
                    Arrangement::OUTPUTS[index % Arrangement::OUTPUTS.len()],
                );
                let expected = common::expect(&mut case);
                let options = PlanOptions::kernel(KernelChoice::Skinny).k_slices(1 + index % 4 / 3);
                Uploaded::new(device, &case).check_with(device, &options, &expected);
                index += 1;
            }
        }
    }
}

#[test]
fn packed_weights_and_host_views_are_right() {
    let Some(device) = common::device() else { return };
    for (index, pair) in PAIRS.into_iter().enumerate() {
        for kernel in [KernelChoice::Naive, KernelChoice::Skinny] {
            let mut case = arranged(problem([6, 37, 64], pair, index), index);
            let expected = common::expect(&mut case);
            let uploaded = Uploaded::new(device, &case);
            let options = PlanOptions::kernel(kernel);
            let plan = Gemm::<Wgsl>::plan(device, &uploaded.problem, &options).expect("planned");
            let packed = plan.pack_b(uploaded.b()).expect("packs");
            let c = common::upload(device, &case.c);
            plan.execute(&uploaded.args_packed(&packed, &c)).expect("runs");
            let after = common::download(device, &c);
            common::assert_canaries(&case.c, &after, || format!("{pair:?}"));
            let comparison = expected.compare_exact(&common::found(&case.c, &after));
            assert!(comparison.passed(), "packed {pair:?}: {comparison}");
        }
        let case = Case::new(problem([6, 37, 64], pair, index), Values::SmallIntegers(3), 1);
        let output = Gemm::<Wgsl>::run(device, &case.problem, &case.operands()).expect("runs");
        let expected = oracle::reference(&case.problem, &case.operands()).expect("valid");
        let comparison = expected.compare_exact(&output.matrix.as_ref());
        assert!(comparison.passed(), "host {pair:?}: {comparison}");
    }
}

/// Scales of each chunk, where one dispatch does not cover C.
#[test]
fn a_split_product_takes_the_scales_of_its_part() {
    let options = lapidary_wgsl::WgslOptions::default().restrict(
        wgpu::Limits { max_storage_buffer_binding_size: 1 << 14, ..wgpu::Limits::default() },
        wgpu::Features::empty(),
    );
    let Some(device) = common::own(&options) else { return };
    let problem = Problem::new(150, 170, 64)
        .factors(E::F32, E::I4)
        .batch(3)
        .row_scale(true)
        .col_scale(true)
        .b_group(Some(16));
    let mut case = Case::new(problem, Values::SmallIntegers(2), 3);
    let expected = common::expect(&mut case);
    let decision = Uploaded::new(&device, &case).check_with(
        &device,
        &PlanOptions::kernel(KernelChoice::Naive),
        &expected,
    );
    let chunks = decision.chunks;
    assert!(chunks.iter().any(|c| c.batch0 > 0 && c.row0 > 0 && c.col0 > 0), "{chunks:?}");
}

/// i8 by i8 with the scales that quantisation by rows and columns gives.
#[test]
fn integer_sums_are_scaled_in_the_epilogue() {
    let Some(device) = common::device() else { return };
    for (index, output) in [E::F32, E::F16, E::I8].into_iter().enumerate() {
        let problem = Problem::new(9, 70, 33)
            .elements(E::I8, output)
            .batch(2)
            .alpha(0.5)
            .row_scale(true)
            .col_scale(index != 1)
            .bias(true);
        for kernel in [KernelChoice::Naive, KernelChoice::Skinny] {
            check(device, problem.clone(), &PlanOptions::kernel(kernel), index);
        }
    }
}

/// Random values are within the oracle's bound: the weights' products with their scales are f32.
#[test]
fn random_weights_are_within_the_bound() {
    let Some(device) = common::device() else { return };
    for (a, b) in PAIRS.into_iter().filter(|(a, _)| *a != E::I8) {
        let problem = Problem::new(7, 50, 512).factors(a, b).b_group(Some(64)).col_scale(true);
        let case = Case::new(problem, Values::Uniform, 9);
        let uploaded = Uploaded::new(device, &case);
        let after = uploaded.run(device, KernelChoice::Skinny).expect("runs");
        let expected =
            oracle::reference(&case.problem, &case.operands()).expect("valid").within_units(8.0);
        let comparison = expected.compare(&common::found(&case.c, &after));
        assert!(comparison.passed(), "{a} x {b}: {comparison}");
    }
}

#[test]
fn scales_may_start_anywhere_in_their_tensors() {
    let Some(device) = common::device() else { return };
    let problem = Problem::new(2, 5, 32).factors(E::F32, E::I8).col_scale(true).b_group(Some(8));
    let case = Case::new(problem, Values::SmallIntegers(3), 4);
    let expected = oracle::reference(&case.problem, &case.operands()).expect("valid");
    let uploaded = Uploaded::new(device, &case);
    let plan = device.plan(&case.problem, &PlanOptions::default()).expect("planned");
    let shifted = |values: &[u8]| {
        let mut bytes = f32::NAN.to_le_bytes().repeat(67);
        bytes.extend_from_slice(values);
        common::upload_bytes(device, E::F32, &bytes)
    };
    let (cols, groups) = (shifted(&case.col_scale), shifted(&case.b_group_scales));
    let c = common::upload(device, &case.c);
    let args = uploaded
        .args(&c)
        .col_scale(TensorSlice::new(&cols, 67))
        .group_scales(TensorSlice::new(&groups, 67));
    device.execute(&plan, &args).expect("runs");
    let after = common::download(device, &c);
    let comparison = expected.compare_exact(&common::found(&case.c, &after));
    assert!(comparison.passed(), "{comparison}");
}

/// The limits of a large GPU with matrix units.
fn with_matrix_units() -> DeviceLimits {
    let limits = wgpu::Limits {
        max_compute_workgroup_storage_size: 49152,
        max_storage_buffers_per_shader_stage: 8,
        ..wgpu::Limits::defaults()
    };
    let mut limits = DeviceLimits::from_limits(&limits, wgpu::Features::SHADER_F16, false);
    (limits.matrix_side, limits.cooperative) = (16, true);
    (limits.subgroup_lanes, limits.tuning) = (32, Tuning::HOPPER);
    limits
}

/// What is chosen where: matrix units for many rows of whole columns' scales, the vector kernel where
/// groups have scales, the skinny kernel for few rows, which then reads a quarter of f16's bytes.
#[test]
fn each_shape_has_a_kernel_that_reads_weights_as_they_are() {
    let limits = with_matrix_units();
    let body = |problem: &Problem| {
        let decision =
            decide(problem, &limits, KernelChoice::Auto, "a large GPU").expect("planned");
        assert_eq!(decision.store, Store::Fused);
        assert!(decision.operands.b.copy.is_none_or(|copy| copy.order != CopyOrder::AlongK));
        decision.kernel.expect("a product").body
    };
    for weights in [E::I8, E::I4] {
        let columns = |m| Problem::new(m, 4096, 4096).factors(E::F16, weights).col_scale(true);
        assert_eq!(body(&columns(4096)), Body::Cooperative);
        assert_eq!(body(&columns(1)), Body::Skinny);
        assert_eq!(body(&columns(4096).b_group(Some(128))), Body::Vector);
        assert_eq!(body(&columns(4).b_group(Some(128))), Body::Skinny);
    }
    let bytes = |weights| Problem::new(1, 4096, 4096).factors(E::F16, weights).min_bytes();
    assert!(bytes(E::F16) / bytes(E::I4) > 3.9);

    let units = KernelConfig::of::<RegisterPrefetch<64, 64, 64>, CooperativeMatrix<32, 32>>();
    let grouped = Problem::new(64, 64, 64).factors(E::F16, E::I4).b_group(Some(32));
    let options = PlanOptions::kernel(KernelChoice::Policy(units));
    let error = decide_with(&grouped, &limits, &options, "a large GPU").expect_err("not exact");
    assert!(error.to_string().contains("times a group's scale"), "{error}");
}
