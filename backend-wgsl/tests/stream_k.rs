//! All blocks shared evenly by a number of workgroups: the same bits as the oracle's on small integers,
//! whatever the number, and the same bits twice.

mod common;

use common::Uploaded;
use lapidary_core::policy::{KernelConfig, RegisterPrefetch, ScalarFma, SingleBuffer, VectorFma};
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{ElementType, Error, KernelChoice, PlanOptions, Problem};
use lapidary_wgsl::decide::{Decision, Tuning, decide};
use lapidary_wgsl::{DeviceLimits, WgslOptions, wgpu};

fn small_blocks(workgroups: usize) -> PlanOptions {
    let config = KernelConfig::of::<RegisterPrefetch<32, 64, 16>, VectorFma<4, 8>>();
    PlanOptions::kernel(KernelChoice::StreamK { config, workgroups })
}

fn is_streamed(decision: &Decision) -> bool {
    decision.parts().stream.is_some()
}

#[test]
fn any_number_of_workgroups_gives_the_product() {
    let Some(device) = common::tuned() else { return };
    let (mut streamed, mut whole) = (0, 0);
    let shapes = [([70, 130, 100], 7), ([33, 65, 160], 4), ([64, 64, 96], 5), ([20, 50, 300], 3)];
    for (index, (shape, workgroups)) in shapes.into_iter().enumerate() {
        let [m, n, k] = shape;
        // 16-bit outputs leave the sums to the packing passes.
        for output in [ElementType::F32, [ElementType::F16, ElementType::BF16][index % 2]] {
            let problem =
                Problem::new(m, n, k).elements(ElementType::F32, output).batch(1 + index % 2);
            let problem = common::epilogue(problem, index % 3);
            let mut case = Case::new(problem, Values::SmallIntegers(3), index as u64).arranged(
                Arrangement::INPUTS[index],
                Arrangement::INPUTS[index + 1],
                Arrangement::OUTPUTS[index + 2],
            );
            let expected = common::expect(&mut case);
            let uploaded = Uploaded::new(device, &case);
            let options = small_blocks(workgroups);
            let decision = uploaded.check_with(device, &options, &expected);
            match is_streamed(&decision) {
                true => streamed += 1,
                false => whole += 1,
            }
            assert!(decision.summary.dispatches.iter().all(|d| d[0] as usize <= workgroups));
        }
    }
    assert!(streamed >= 6, "{streamed} streamed, {whole} of whole blocks");
}

/// Where a binding holds a part of C only, each part is shared anew.
#[test]
fn every_piece_of_a_split_product_is_shared() {
    let options = WgslOptions::default()
        .restrict(
            wgpu::Limits { max_storage_buffer_binding_size: 1 << 16, ..wgpu::Limits::default() },
            wgpu::Features::empty(),
        )
        .tuning(Tuning::HOPPER);
    let Some(device) = common::own(&options) else { return };
    let mut case = Case::new(Problem::new(150, 140, 90), Values::SmallIntegers(3), 8);
    let expected = common::expect(&mut case);
    let options = small_blocks(11);
    let decision = Uploaded::new(&device, &case).check_with(&device, &options, &expected);
    assert!(is_streamed(&decision) && decision.chunks.len() > 1, "{:?}", decision.chunks);
}

#[test]
fn the_same_plan_gives_the_same_bits() {
    let Some(device) = common::tuned() else { return };
    let case = Case::new(Problem::new(60, 120, 200), Values::Uniform, 2);
    let uploaded = Uploaded::new(device, &case);
    let options = small_blocks(5);
    let run = || uploaded.run_with(device, &options).expect("runs").0;
    assert_eq!(run(), run());
}

/// The limits of a large GPU.
fn large() -> DeviceLimits {
    let limits = wgpu::Limits {
        max_compute_workgroup_storage_size: 49152,
        max_storage_buffer_binding_size: 1 << 31,
        max_buffer_size: 1 << 32,
        ..wgpu::Limits::defaults()
    };
    let mut limits = DeviceLimits::from_limits(&limits, wgpu::Features::empty(), false);
    limits.tuning = Tuning::HOPPER;
    limits
}

/// The model shares blocks where slices would leave a round of them half empty, and nowhere else.
#[test]
fn the_model_takes_it_where_it_is_faster() {
    let limits = large();
    let planned = |m, n, k| {
        decide(&Problem::new(m, n, k), &limits, KernelChoice::Auto, "a large GPU").expect("planned")
    };
    // Products whose times docs/speed.md has.
    for [m, n, k] in [
        [4096, 4096, 4096],
        [8192, 8192, 8192],
        [2048, 2048, 2048],
        [1024, 1024, 1024],
        [1000, 1000, 1000],
        [4095, 4097, 4099],
        [105, 384, 1536],
        [64, 4096, 4096],
        [64, 64, 262_144],
    ] {
        assert!(!is_streamed(&planned(m, n, k)), "{m}x{n}x{k}");
    }
    let mut shared = Vec::new();
    for m in (512..=2048).step_by(128) {
        for k in [2048, 8192] {
            let decision = planned(m, m, k);
            if is_streamed(&decision) {
                assert!(decision.summary.reason.contains("shared by"), "{:?}", decision.summary);
                shared.push([m, m, k]);
            }
        }
    }
    println!("shared: {shared:?}");
    assert!(!shared.is_empty());
}

/// Other kernels than the vector kernel have no text for it.
#[test]
fn other_policies_are_refused() {
    let config = KernelConfig::of::<SingleBuffer<16, 16, 16>, ScalarFma<1, 1>>();
    let choice = KernelChoice::StreamK { config, workgroups: 3 };
    let error = decide(&Problem::new(64, 64, 200), &large(), choice, "a large GPU")
        .expect_err("no such kernel");
    assert!(matches!(error, Error::KernelUnsuitable { .. }), "{error}");
}
