//! Bad input: a typed error with the numbers, and one line.

use lapidary_core::testing::{Case, Values};
use lapidary_core::{
    Backend, ElementType, Error, Gemm, KernelChoice, MatrixKernel, Movement, PlanOptions, Problem,
};
use lapidary_hip::decide::{AWay, Asked, DeviceFacts, Product, decide};
use lapidary_hip::runtime::{Runtime, Stream};
use lapidary_hip::{Hip, Target};

use super::support::{OnDevice, device};

fn facts(target: Target) -> DeviceFacts {
    DeviceFacts { target, compute_units: 100, name: format!("hip ({target})") }
}

/// The error of deciding, which is one line.
fn refused(target: Target, problem: &Problem, kernel: KernelChoice) -> Error {
    let error = decide(problem, &facts(target), Asked::Core(kernel)).expect_err("refused");
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
    error
}

fn square(element: ElementType, output: ElementType) -> Problem {
    Problem::new(64, 64, 64).elements(element, output)
}

#[test]
fn types_of_another_target() {
    use ElementType as E;
    for (target, problem, element, hint) in [
        (Target::Gfx950, square(E::F8E4M3Fnuz, E::F32), E::F8E4M3Fnuz, "OCP"),
        (Target::Gfx950, square(E::F8E5M2Fnuz, E::F32), E::F8E5M2Fnuz, "f8e5m2"),
        (Target::Gfx942, square(E::F8E4M3, E::F32), E::F8E4M3, "FNUZ"),
        (Target::Gfx942, square(E::F4E2M1, E::F32).block_scales(true), E::F4E2M1, "gfx950"),
        (Target::Gfx942, square(E::F64, E::F64), E::F64, "CPU"),
        (Target::Gfx90a, square(E::F16, E::F16), E::F16, "gfx942 or gfx950"),
        (Target::Gfx1100, square(E::I8, E::I32), E::I8, "gfx942 or gfx950"),
    ] {
        match refused(target, &problem, KernelChoice::Auto) {
            Error::ElementTypeUnavailable { backend, element: found, needs } => {
                assert_eq!(found, element);
                assert!(backend.contains(target.name()) && needs.contains(hint), "{needs}");
            }
            other => panic!("{other}"),
        }
    }
}

/// Integer weights of float activations, with scales of groups or without, and what multiplies them.
#[test]
fn weights_of_wider_activations() {
    use ElementType as E;
    let mut refusals = 0;
    for target in [Target::Gfx90a, Target::Gfx942, Target::Gfx950, Target::Gfx1100] {
        for activations in [E::F32, E::F16, E::BF16] {
            for weights in [E::I8, E::I4] {
                for group in [None, Some(32)] {
                    let problem = square(activations, E::F32).factors(activations, weights);
                    let problem = problem.b_group(group);
                    problem.validate().expect("what the CPU multiplies");
                    match refused(target, &problem, KernelChoice::Auto) {
                        Error::ElementTypeUnavailable { backend, element, needs } => {
                            assert_eq!(element, weights);
                            assert!(backend.contains(target.name()), "{backend}");
                            assert!(needs.contains("i8") && needs.contains("WGSL"), "{needs}");
                        }
                        other => panic!("{target} {activations} {weights} {group:?}: {other}"),
                    }
                    refusals += 1;
                }
            }
        }
    }
    assert_eq!(refusals, 48);
    // The backend itself says the same before it compiles anything.
    let problem = square(E::F16, E::F32).factors(E::F16, E::I4);
    let Some(device) = device(Target::Gfx942) else { return };
    match Gemm::<Hip>::plan(&device, &problem, &PlanOptions::default()) {
        Err(Error::ElementTypeUnavailable { element: E::I4, .. }) => {}
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn tiles_that_no_machine_holds() {
    let problem = square(ElementType::F32, ElementType::F32);
    for tile in [[16, usize::MAX & !63, 64], [16, 64, 1 << 62], [1 << 40; 3], [1 << 20, 64, 64]] {
        let asked = KernelChoice::Matrix(MatrixKernel::tile(tile));
        let message = refused(Target::Gfx942, &problem, asked).to_string();
        let largest = tile.into_iter().find(|&side| side > 1 << 16).expect("one").to_string();
        assert!(message.contains(&largest) && message.contains("65536"), "{message}");
    }
}

#[test]
fn launches_past_the_limits_name_what_is_past_them() {
    let most = i32::MAX as usize;
    for [m, n, k] in [[most, 1, 1], [1, most, 64], [1, 1, most], [most, most, 1]] {
        let mut problem = Problem::new(m, n, k);
        (problem.a_layout.row_stride, problem.a_layout.col_stride) = (0, 0);
        (problem.b_layout.row_stride, problem.b_layout.col_stride) = (0, 0);
        for target in [Target::Gfx942, Target::Gfx950, Target::Gfx1100] {
            let asked = Asked::Core(KernelChoice::Auto);
            match decide(&problem, &facts(target), asked) {
                Ok(_) => {}
                Err(Error::LimitExceeded { what, requested, limit }) => {
                    assert!(requested > limit, "{m}x{n}x{k}: {what} is {requested} of {limit}");
                }
                Err(Error::KernelUnsuitable { reason, .. }) => {
                    assert!(reason.contains("the limit is"), "{m}x{n}x{k}: {reason}");
                }
                Err(other) => panic!("{m}x{n}x{k}: {other}"),
            }
        }
    }
}

#[test]
fn slices_and_copies_are_heeded() {
    let decided = |options: &PlanOptions| {
        let asked = Asked::of_options(options, Target::Gfx942);
        decide(&Problem::new(64, 64, 4096), &facts(Target::Gfx942), asked)
    };
    let splits = |options: &PlanOptions| match decided(options).expect("a decision").product {
        Product::Preshuffle(product) => product.splits,
        other => panic!("{other:?}"),
    };
    let options = PlanOptions::default();
    assert!(splits(&options) > 4, "few tiles and a long K share K unasked");
    assert_eq!(splits(&options.clone().k_slices(1)), 1);
    assert_eq!(splits(&options.clone().k_slices(3)), 3);
    for slices in [0, 1 << 20] {
        let error = decided(&options.clone().k_slices(slices)).expect_err("refused").to_string();
        assert!(error.contains(&slices.to_string()), "{error}");
    }
    let a = |options: &PlanOptions| decided(options).expect("a decision").a;
    assert_eq!(a(&options), AWay::InPlace);
    assert!(matches!(a(&options.clone().copies([true, false])), AWay::Packed(_)));
    assert_eq!(a(&options.copies([false, false])), AWay::InPlace);
}

#[test]
fn matrix_cores_where_there_are_none() {
    let problem = square(ElementType::F32, ElementType::F32);
    for target in [Target::Gfx90a, Target::Gfx1100, Target::Gfx1201] {
        let asked = KernelChoice::Matrix(MatrixKernel::default());
        let message = refused(target, &problem, asked).to_string();
        assert!(message.contains(target.name()) && message.contains("matrix cores"), "{message}");
        // Without asking, the scalar kernel runs.
        let decision = decide(&problem, &facts(target), Asked::Core(KernelChoice::Auto));
        let summary = decision.expect("a kernel").summary;
        assert!(summary.kernel.starts_with("7_generic") && summary.reason.contains(target.name()));
    }
}

#[test]
fn rules_of_problems_come_with_their_numbers() {
    use ElementType as E;
    let auto = KernelChoice::Auto;
    let mut problem = square(E::F4E2M1, E::F32).block_scales(true);
    problem.k = 40;
    assert!(matches!(
        refused(Target::Gfx950, &problem, auto),
        Error::PartialScaleBlock { k: 40, block: 32 }
    ));
    // f32 scales with i32 output, and an f4e2m1 without its scales.
    assert!(matches!(
        refused(Target::Gfx942, &square(E::I8, E::I32).row_scale(true), auto),
        Error::ScalesUnsupported { .. }
    ));
    assert!(matches!(
        refused(Target::Gfx950, &square(E::F4E2M1, E::F32), auto),
        Error::ElementTypesUnsupported { rule: "f4e2m1 operands need block scales", .. }
    ));
    let mut long = Problem::new(1, 1, 131_072).factors(E::I8, E::I4);
    long.c = E::I32;
    assert!(matches!(
        refused(Target::Gfx942, &long, auto),
        Error::LimitExceeded { requested: 131_072, limit: 131_071, .. }
    ));
    let wide = Problem::new(3, 1 << 32, 1);
    assert!(matches!(
        refused(Target::Gfx942, &wide, auto),
        Error::LimitExceeded { requested: 0x1_0000_0000, limit: 0x7fff_ffff, .. }
    ));
    let tall = Problem::new(1 << 24, 1, 1);
    let error = refused(Target::Gfx942, &tall, KernelChoice::Naive);
    assert!(error.to_string().contains("65536"), "{error}");
}

#[test]
fn tiles_over_a_budget_come_with_the_numbers() {
    use MatrixKernel as K;
    let problem = Problem::new(4096, 4096, 4096).elements(ElementType::F16, ElementType::F32);
    for (kernel, parts) in [
        (K::tile([512, 64, 64]), &["131072", "65536", "gfx942"][..]),
        (K::tile([256, 512, 64]), &["registers", "512"]),
        (K { waves_per_simd: Some(4), ..K::tile([64, 256, 64]) }, &["128", "4 waves"]),
        (K::tile([40, 64, 64]), &["tile M is 40", "16"]),
        (K::tile([64, 100, 64]), &["tile N is 100", "64"]),
        (K::tile([64, 64, 40]), &["tile K is 40", "32"]),
        (K { buffers: Some(3), ..K::default() }, &["LDS stages is 3", "1 or 2"]),
        (K { splits: Some(1000), ..K::tile([64, 64, 64]) }, &["1000 ranges", "64 strips"]),
        (K { splits: Some(0), ..K::default() }, &["0 ranges"]),
    ] {
        let error = refused(Target::Gfx942, &problem, KernelChoice::Matrix(kernel));
        assert!(matches!(error, Error::KernelUnsuitable { .. }), "{error}");
        let message = error.to_string();
        assert!(parts.iter().all(|part| message.contains(part)), "{message} lacks {parts:?}");
    }
}

#[test]
fn steps_refuse_what_they_cannot_do() {
    let half = square(ElementType::F16, ElementType::F16);
    let message = refused(Target::Gfx942, &half, KernelChoice::RegisterTile).to_string();
    assert!(message.contains("it multiplies f32, not f16 x f16"), "{message}");
    let mut columns = square(ElementType::F32, ElementType::F32);
    columns.a_layout = columns.a_layout.transposed();
    let message = refused(Target::Gfx942, &columns, KernelChoice::Vectorized { width: 4 });
    assert!(message.to_string().contains("column stride"), "{message}");
    let three = KernelChoice::Buffered { buffers: 3 };
    let message = refused(Target::Gfx942, &square(ElementType::F32, ElementType::F32), three);
    assert!(message.to_string().contains('3'), "{message}");
}

#[test]
fn devices_streams_and_plans_do_not_mix() {
    let Some(device) = device(Target::Gfx942) else { return };
    assert!(matches!(
        Hip::emulated(Target::Gfx1100),
        Err(Error::NoDevice { reason }) if reason.contains("gfx1100")
    ));
    let elsewhere = Hip::emulated(Target::Gfx942).expect("a device");
    let case = Case::new(Problem::new(4, 4, 4), Values::SmallIntegers(3), 1);
    let plan = Gemm::<Hip>::plan(&device, &case.problem, &PlanOptions::default()).expect("a plan");
    let there = OnDevice::new(&elsewhere, &case);
    assert!(matches!(plan.execute(&there.args()), Err(Error::Device { .. })));
    let foreign = elsewhere.plan(&case.problem, &PlanOptions::default()).expect("a plan");
    let here = OnDevice::new(&device, &case);
    assert!(matches!(device.execute(&foreign, &here.args()), Err(Error::KernelUnsuitable { .. })));
    assert!(elsewhere.upload(&here.a.tensor, 0, &[0; 4]).is_err());
    assert!(device.upload(&here.a.tensor, 0, &[0; 3]).is_err());
    assert!(device.upload(&here.a.tensor, 14, &[0; 12]).is_err());
    // SAFETY: the emulator refuses every stream but its own, so this one is never used.
    let streamed = unsafe { device.with_stream(Stream(7)) };
    let error = streamed.upload(&here.a.tensor, 0, &[0; 4]).expect_err("no such stream");
    assert!(error.to_string().contains("0x7"), "{error}");
}

#[test]
fn memory_that_is_not_there_is_an_error_with_the_size() {
    let Some(device) = device(Target::Gfx942) else { return };
    assert!(matches!(
        device.alloc(ElementType::F32, 1 << 33),
        Err(Error::OutOfMemory { requested, .. }) if requested >= 1 << 35
    ));
    // Scratch for sums of a C in columns: 64 GiB.
    let mut problem = Problem::new(1 << 17, 1 << 17, 8);
    problem.c_layout = problem.c_layout.transposed();
    problem.a_layout.row_stride = 8;
    assert!(matches!(
        device.plan(&problem, &PlanOptions::default()),
        Err(Error::OutOfMemory { .. })
    ));
}

#[test]
fn a_kernels_mistake_is_an_error_that_shows_the_place() {
    let Some(device) = device(Target::Gfx942) else { return };
    // A tensor that claims to be longer than its memory.
    let short = device.alloc(ElementType::F32, 16).expect("memory");
    // SAFETY: not sound on a GPU; the emulator checks every access.
    let long = unsafe {
        lapidary_hip::HipTensor::from_raw(&device, short.address(), ElementType::F32, 4096)
    };
    let case = Case::new(Problem::new(64, 64, 64), Values::SmallIntegers(3), 1);
    let here = OnDevice::new(&device, &case);
    let plan = Gemm::<Hip>::plan(&device, &case.problem, &PlanOptions::default()).expect("a plan");
    let args = lapidary_core::Args::new(here.a.slice(), here.b.slice(), &long);
    let error = plan.execute(&args).expect_err("out of bounds").to_string();
    assert!(error.contains("out-of-bounds") && error.contains("preshuffle"), "{error}");
}

#[test]
fn a_copy_that_the_strides_forbid_is_made_after_a_pass() {
    // 36 bytes a row: not for 16-byte copies, whether or not they are asked for.
    let problem = Problem::new(64, 64, 9);
    for movement in [Movement::Registers, Movement::Direct] {
        let kernel = MatrixKernel { movement: Some(movement), ..MatrixKernel::default() };
        let asked = Asked::Core(KernelChoice::Matrix(kernel));
        let decision = decide(&problem, &facts(Target::Gfx950), asked).expect("a decision");
        assert!(decision.summary.notes.iter().any(|note| note.contains("aligned rows first")));
    }
    let runtime: &dyn Runtime = &lapidary_hip::runtime::Emulated::new(Target::Gfx950).expect("it");
    assert!(runtime.description().emulated);
}
