//! The same kernels on a device at `Limits::downlevel_defaults()` with no optional feature.

mod common;

use common::Uploaded;
use lapidary_core::testing::{Arrangement, Case, Values, pairwise_shapes};
use lapidary_core::{ElementType, Error, Gemm, KernelChoice, Occupancy, PlanOptions, Problem};
use lapidary_wgsl::Wgsl;

#[test]
fn the_device_has_the_least_limits_and_no_feature() {
    let Some(device) = common::downlevel() else { return };
    let limits = device.limits();
    assert_eq!(limits.workgroup_bytes, 16352);
    assert_eq!(limits.workgroup_threads, 256);
    assert!(!limits.f16);
    assert!(!device.device().features().contains(lapidary_wgsl::wgpu::Features::SHADER_F16));
    assert_eq!(device.device().limits().max_storage_buffers_per_shader_stage, 4);
}

#[test]
fn every_kernel_and_type_is_exact() {
    let Some(device) = common::downlevel() else { return };
    let mut runs = 0;
    for (operand, output) in common::COMBINATIONS {
        if operand == ElementType::F16 {
            continue;
        }
        // 17 has no factor in common with the number of sizes: every size occurs along every axis.
        let shapes = pairwise_shapes();
        let shapes = shapes.iter().skip(3).step_by(if output.size() == 4 { 11 } else { 17 });
        for (index, &[m, n, k]) in shapes.enumerate() {
            let problem = Problem::new(m, n, k).elements(operand, output);
            // Where the kernel itself stores C, each epilogue is a kernel to compile: the fullest, and
            // those without a product.
            let plain = if output.size() == 4 { 1 } else { 0 };
            let problem = common::epilogue(problem, [plain, 4, 1, 5, plain][index % 5]);
            let mut case = Case::new(problem, Values::SmallIntegers(3), index as u64).arranged(
                Arrangement::Dense,
                Arrangement::PaddedColMajor,
                Arrangement::OUTPUTS[index % 8],
            );
            let expected = common::expect(&mut case);
            let uploaded = Uploaded::aligned(device, &case);
            for kernel in common::kernels(operand) {
                uploaded.check(device, kernel, &expected);
                runs += 1;
            }
        }
    }
    println!("{runs} runs, all bits equal");
}

#[test]
fn strips_shrink_to_the_limit_and_the_plan_says_so() {
    let Some(device) = common::downlevel() else { return };
    let problem = Problem::new(128, 128, 64);
    let mut shrunk = 0;
    for kernel in common::kernels(ElementType::F32) {
        let plan = Gemm::<Wgsl>::plan(device, &problem, &PlanOptions::kernel(kernel));
        let plan = plan.unwrap_or_else(|error| panic!("{}: {error}", kernel.name()));
        let summary = plan.summary();
        assert!(summary.workgroup_bytes <= 16352, "{summary:?}");
        let strip = match kernel {
            KernelChoice::Naive => 0,
            // 2·(128 + 128)·16·4 = 32,768 bytes become 8,192, 16,384 become 8,192 as well.
            KernelChoice::Buffered { buffers: 2 } | KernelChoice::Vectorized { .. } => 4,
            KernelChoice::RegisterTile | KernelChoice::Buffered { .. } => 8,
            KernelChoice::Occupancy(Occupancy::Wide) => 8,
            KernelChoice::Policy(config) => match config.workgroup_bytes() {
                0..=16352 => 16,
                16353..=32704 => 8,
                _ => 4,
            },
            _ => 16,
        };
        assert_eq!(summary.k_tile_size, strip, "{summary:?}");
        if matches!(strip, 4 | 8) {
            let note = format!("K strip shrunk from 16 to {strip}: ");
            assert!(summary.notes.iter().any(|n| n.starts_with(&note)), "{summary:?}");
            assert!(summary.notes.iter().any(|n| n.contains("16352 available")), "{summary:?}");
            shrunk += 1;
        } else {
            assert!(summary.notes.is_empty(), "{summary:?}");
        }
    }
    assert_eq!(shrunk, 10);
}

#[test]
fn f16_operands_are_refused_and_f16_outputs_are_not() {
    let Some(device) = common::downlevel() else { return };
    let plan = |operand, output| {
        let problem = Problem::new(2, 2, 2).elements(operand, output);
        Gemm::<Wgsl>::plan(device, &problem, &PlanOptions::default()).map(|_| ())
    };
    match plan(ElementType::F16, ElementType::F32) {
        Err(Error::ElementTypeUnavailable { element: ElementType::F16, needs, backend }) => {
            assert_eq!(needs, "the device lacks the feature SHADER_F16");
            assert!(backend.starts_with("wgsl on "), "{backend}");
        }
        other => panic!("{other:?}"),
    }
    plan(ElementType::F32, ElementType::F16).expect("f16 outputs are packed with integers");
}
