//! The split kernel, whose groups of threads share out K: every layout, edges, tails of K shorter than
//! the groups are many, and where the backend takes it.

mod common;

use std::time::Duration;

use common::Uploaded;
use lapidary_core::policy::{DirectSplit, KernelConfig, VectorFma, VectorMac};
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{
    Args, Backend, ElementType, Error, Gemm, KernelChoice, Layout, PlanOptions, Problem,
};
use lapidary_wgsl::decide::{Body, Decision, Tuning, decide};
use lapidary_wgsl::{DeviceLimits, Wgsl, wgpu};

fn run(
    device: &Wgsl,
    operand: ElementType,
    output: ElementType,
    shapes: usize,
    configs: &[KernelConfig],
) {
    use Arrangement::{ColMajor, Dense, Padded, PaddedColMajor, RowMajor};
    for (index, [m, n, k]) in
        [[37, 68, 131], [8, 32, 64], [64, 64, 3], [3, 130, 70], [33, 5, 1], [16, 31, 257]]
            .into_iter()
            .take(shapes)
            .enumerate()
    {
        let layouts = [
            (RowMajor, RowMajor),
            (ColMajor, RowMajor),
            (Dense, ColMajor),
            (Padded, PaddedColMajor),
        ];
        for (turn, (a, b)) in layouts.into_iter().enumerate() {
            let problem =
                Problem::new(m, n, k).elements(operand, output).batch(1 + (index + turn) % 2);
            let problem = common::epilogue(problem, turn % 3);
            let c = Arrangement::OUTPUTS[(index + turn) % 8];
            let mut case =
                Case::new(problem, Values::SmallIntegers(3), index as u64).arranged(a, b, c);
            let expected = common::expect(&mut case);
            let uploaded = Uploaded::new(device, &case);
            let config = configs[(index + turn) % configs.len()];
            let slices = if turn == 1 { 2 } else { 1 };
            let options = PlanOptions::kernel(KernelChoice::Policy(config)).k_slices(slices);
            let decision = uploaded.check_with(device, &options, &expected);
            assert_eq!(decision.kernel.map(|kernel| kernel.body), Some(Body::Split));
        }
    }
}

#[test]
fn every_layout_and_edge_is_exact() {
    let Some(device) = common::device() else { return };
    let configs = [
        KernelConfig::of::<DirectSplit<8, 32, 32>, VectorFma<4, 4>>(),
        KernelConfig::of::<DirectSplit<32, 32, 8>, VectorFma<4, 4>>(),
        KernelConfig::of::<DirectSplit<16, 32, 24>, VectorFma<4, 4>>(),
        // Fewer groups than a tail of K may have steps, and none but one.
        KernelConfig::of::<DirectSplit<64, 64, 2>, VectorFma<8, 8>>(),
        KernelConfig::of::<DirectSplit<32, 64, 1>, VectorFma<4, 8>>(),
    ];
    run(device, ElementType::F32, ElementType::F32, 6, &configs);
    run(device, ElementType::BF16, ElementType::F32, 1, &configs[..1]);
    run(device, ElementType::F32, ElementType::BF16, 1, &configs[1..2]);
    let integers = [KernelConfig::of::<DirectSplit<32, 32, 4>, VectorMac<4, 8>>()];
    run(device, ElementType::I8, ElementType::I32, 1, &integers);
    if device.limits().f16 {
        run(device, ElementType::F16, ElementType::F32, 1, &configs[2..3]);
    } else {
        println!("skipped f16: the device lacks SHADER_F16");
    }
}

#[test]
fn groups_without_room_for_their_sums_are_refused() {
    let Some(device) = common::downlevel() else { return };
    let config = KernelConfig::of::<DirectSplit<64, 64, 4>, VectorFma<8, 8>>();
    let options = PlanOptions::kernel(KernelChoice::Policy(config));
    match Gemm::<Wgsl>::plan(device, &Problem::new(64, 64, 64), &options).map(|_| ()) {
        Err(Error::LimitExceeded { what, requested, limit }) => {
            assert_eq!(what, "bytes of workgroup memory");
            assert_eq!((requested, limit), (32768, 16352));
        }
        other => panic!("{other:?}"),
    }
}

fn limits(threads: u32, tuning: Tuning) -> DeviceLimits {
    let limits = wgpu::Limits {
        max_compute_workgroup_storage_size: 49152,
        max_compute_invocations_per_workgroup: threads,
        ..wgpu::Limits::defaults()
    };
    let mut limits = DeviceLimits::from_limits(&limits, wgpu::Features::SHADER_F16, false);
    limits.tuning = tuning;
    limits
}

fn pick(problem: &Problem, limits: &DeviceLimits) -> Decision {
    decide(problem, limits, KernelChoice::Auto, "groups").expect("plans")
}

/// Small matrices, and flat ones that no other block fits, while K does not dwarf them.
#[test]
fn small_matrices_take_it() {
    let hopper = limits(1024, Tuning::HOPPER);
    let body = |problem: &Problem, limits| pick(problem, limits).kernel.map(|kernel| kernel.body);
    for [m, n, k] in
        [[64, 64, 64], [256, 256, 256], [512, 512, 512], [105, 384, 1536], [17, 4096, 512]]
    {
        let problem = Problem::new(m, n, k);
        assert_eq!(body(&problem, &hopper), Some(Body::Split), "{m}x{n}x{k}");
        // Its loads are shared by being the same vector.
        let columns = problem.b_layout(Layout::col_major(k, n));
        assert_ne!(body(&columns, &hopper), Some(Body::Split), "{m}x{n}x{k}");
    }
    // Few rows, but more than the skinny kernel has registers for at full speed.
    for [m, n, k] in [[8, 4096, 4096], [16, 4096, 4096], [16, 1000, 300]] {
        assert_eq!(body(&Problem::new(m, n, k), &hopper), Some(Body::Split), "{m}x{n}x{k}");
        let weights = Problem::new(m, n, k).factors(ElementType::F32, ElementType::I8);
        assert_eq!(body(&weights, &hopper), Some(Body::Skinny), "{m}x{n}x{k}");
    }
    for [m, n, k] in
        [[1024, 1024, 1024], [64, 64, 262_144], [1, 4096, 4096], [7, 4096, 4096], [4096, 16, 4096]]
    {
        assert_ne!(body(&Problem::new(m, n, k), &hopper), Some(Body::Split), "{m}x{n}x{k}");
    }
}

#[test]
fn devices_that_cannot_hold_a_group_get_another_kernel() {
    let problem = Problem::new(256, 256, 256);
    let few_threads = pick(&problem, &limits(256, Tuning::HOPPER));
    assert!(few_threads.summary.workgroup_threads <= 256, "{:?}", few_threads.summary);
    let software = pick(&problem, &limits(1024, Tuning::SOFTWARE));
    assert_ne!(software.kernel.map(|kernel| kernel.body), Some(Body::Split));
}

/// A run of several executions in a row has the time of one.
#[test]
fn rows_are_timed_a_product_each() {
    let Some(device) = common::device() else { return };
    let problem = Problem::new(24, 40, 48);
    let plan = Gemm::<Wgsl>::plan(device, &problem, &PlanOptions::default()).expect("plans");
    let tensor = |len: usize| device.alloc(ElementType::F32, len).expect("allocates");
    let (a, b, c) = (tensor(24 * 48), tensor(48 * 40), tensor(24 * 40));
    let sets = [Args::new(&a, &b, &c)];
    for row in [0, 1, 5] {
        let timing =
            device.time_rows(plan.inner(), &sets, 3, row, Duration::ZERO).expect("is timed");
        assert_eq!(timing.runs.len(), 3, "rows of {row}");
        assert!(timing.runs.iter().all(|time| !time.is_zero()), "{timing:?}");
    }
}
