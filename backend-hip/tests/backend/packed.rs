//! B packed once: reuse, and refusal by plans of another layout.

use lapidary_core::testing::{Arrangement, Case, Values, block_on};
use lapidary_core::{
    Args, Backend, ElementType, Error, Gemm, KernelChoice, MatrixKernel, PlanOptions, Problem,
};
use lapidary_hip::preshuffle::{PackedB, SourceB};
use lapidary_hip::{Hip, HipPackedB, Target};

use super::support::{OnDevice, TARGETS, compare, device};

/// Executes a case with a packed B and demands the exact result.
fn check(device: &Hip, case: &Case, options: &PlanOptions, packed: &HipPackedB) {
    let plan = Gemm::<Hip>::plan(device, &case.problem, options).expect("a plan");
    let on_device = OnDevice::new(device, case);
    let mut args = Args::with_packed_b(on_device.a.slice(), packed, on_device.c.slice());
    on_device.add_vectors(&mut args);
    for _ in 0..2 {
        plan.execute(&args).expect("it runs");
        let after = block_on(device.download(&on_device.c.tensor)).expect("C");
        let comparison = compare(case, &after, true);
        assert!(comparison.passed(), "{:?}: {comparison}", case.problem);
    }
}

fn pack(device: &Hip, case: &Case, options: &PlanOptions) -> HipPackedB {
    let plan = Gemm::<Hip>::plan(device, &case.problem, options).expect("a plan");
    plan.pack_b(OnDevice::new(device, case).b.slice()).expect("B packs")
}

#[test]
fn a_packed_b_serves_many_products() {
    for target in TARGETS {
        let Some(device) = device(target) else { return };
        let fp8 =
            if target == Target::Gfx950 { ElementType::F8E5M2 } else { ElementType::F8E4M3Fnuz };
        let mut problems = vec![
            Problem::new(9, 70, 100).elements(fp8, ElementType::F32).col_scale(true).batch(2),
            Problem::new(40, 33, 50).elements(ElementType::BF16, ElementType::BF16),
            Problem::new(20, 30, 40),
        ];
        if target == Target::Gfx950 {
            let mx = Problem::new(20, 70, 160).block_scales(true).batch(2);
            problems.push(mx.elements(ElementType::F4E2M1, ElementType::F32));
        }
        for (i, problem) in problems.into_iter().enumerate() {
            let case = Case::new(problem, Values::SmallIntegers(3), i as u64).arranged(
                Arrangement::Dense,
                [Arrangement::ColMajor, Arrangement::Padded][i % 2],
                Arrangement::Dense,
            );
            let mut kernels = vec![PlanOptions::default()];
            if case.problem.a == ElementType::F32 {
                kernels.push(PlanOptions::kernel(KernelChoice::RegisterTile));
            }
            for options in kernels {
                let packed = pack(&device, &case, &options);
                check(&device, &case, &options, &packed);
            }
        }
    }
}

#[test]
fn a_matrix_that_serves_the_whole_batch_is_packed_once() {
    let Some(device) = device(Target::Gfx942) else { return };
    let problem = Problem::new(17, 20, 33).batch(3).elements(ElementType::F16, ElementType::F32);
    let mut case = Case::new(problem, Values::SmallIntegers(3), 1);
    case.problem.b_layout.batch_stride = 0;
    let plan = Gemm::<Hip>::plan(&device, &case.problem, &PlanOptions::default()).expect("a plan");
    let on_device = OnDevice::new(&device, &case);
    plan.execute(&on_device.args()).expect("it runs");
    let after = block_on(device.download(&on_device.c.tensor)).expect("C");
    let mut reference = case.clone();
    reference.b = case.b.clone();
    let b = lapidary_core::AnyMatrixRef::new(
        case.b.bytes(),
        ElementType::F16,
        lapidary_core::Placement { layout: case.problem.b_layout, ..case.b.placement() },
    )
    .expect("a view");
    let operands = lapidary_core::Operands::new(case.a.view(), b);
    let reference = lapidary_core::oracle::reference(&case.problem, &operands).expect("it");
    let found =
        lapidary_core::AnyMatrixRef::new(&after, ElementType::F32, case.c.placement()).expect("C");
    assert!(reference.compare_exact(&found).passed());
    let launches = device.emulator().expect("an emulator").launches();
    let pack = launches.iter().find(|launch| launch.kernel == "pack_b").expect("a pass");
    assert_eq!(pack.grid[1], 1);
}

#[test]
fn a_b_packed_on_the_host_is_the_same() {
    let Some(device) = device(Target::Gfx942) else { return };
    let problem = Problem::new(9, 70, 100).elements(ElementType::I8, ElementType::I32);
    let case = Case::new(problem, Values::SmallIntegers(3), 1);
    let source = SourceB {
        bytes: case.b.bytes(),
        element: ElementType::I8,
        k: 100,
        n: 70,
        batch: 1,
        k_stride: 70,
        n_stride: 1,
        batch_stride: 0,
    };
    let packed = PackedB::pack(&source, 512).expect("it packs");
    let packed = device.upload_packed_b(&packed).expect("an upload");
    check(&device, &case, &PlanOptions::default(), &packed);
}

#[test]
fn another_layout_is_refused() {
    let Some(device) = device(Target::Gfx942) else { return };
    let case = |problem: Problem| Case::new(problem, Values::SmallIntegers(3), 1);
    let problem = Problem::new(64, 70, 70).elements(ElementType::BF16, ElementType::F32);
    let base = case(problem.clone());
    let packed = pack(&device, &base, &PlanOptions::default());
    let short_strips = PlanOptions::kernel(KernelChoice::Matrix(MatrixKernel::tile([64, 64, 32])));
    let short = pack(&device, &base, &short_strips);
    let refused = |case: &Case, options: &PlanOptions, packed: &HipPackedB| {
        let plan = Gemm::<Hip>::plan(&device, &case.problem, options).expect("a plan");
        let on_device = OnDevice::new(&device, case);
        let args = Args::with_packed_b(on_device.a.slice(), packed, on_device.c.slice());
        match plan.execute(&args) {
            Err(Error::PackedMismatch { found, expected }) => {
                assert_ne!(found, expected);
                (found, expected)
            }
            other => panic!("{other:?}"),
        }
    };
    let default = PlanOptions::default();
    let (found, expected) = refused(
        &case(problem.clone().factors(ElementType::F16, ElementType::F16)),
        &default,
        &packed,
    );
    assert!(found.contains("bf16") && expected.contains("f16"), "{found} / {expected}");
    for other in [
        Problem::new(64, 71, 70).elements(ElementType::BF16, ElementType::F32),
        Problem::new(64, 70, 71).elements(ElementType::BF16, ElementType::F32),
        problem.batch(2),
    ] {
        refused(&case(other), &default, &packed);
    }
    // K = 70 filled up to strips of 32 is no multiple of strips of 64.
    let (_, expected) = refused(&base, &default, &short);
    assert!(expected.contains("multiple of 64"), "{expected}");
    // The other way round it fits.
    check(&device, &base, &short_strips, &packed);
    let f32_case = case(Problem::new(64, 70, 70));
    let rows = PlanOptions::kernel(KernelChoice::Naive);
    let packed_rows = pack(&device, &f32_case, &rows);
    refused(&f32_case, &default, &packed_rows);
    refused(&f32_case, &rows, &pack(&device, &f32_case, &default));
    // Of another device.
    let elsewhere = Hip::emulated(Target::Gfx942).expect("a device");
    let foreign = pack(&elsewhere, &base, &default);
    refused(&base, &default, &foreign);
}
