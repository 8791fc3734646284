//! What is read, what is written, and what a NaN does.

use lapidary_cdna::exec::{Order, Workgroups};
use lapidary_core::element::write_f64;
use lapidary_core::testing::{Arrangement, Case, SIZES, Values};
use lapidary_core::{
    Activation, AnyMatrixRef, ElementType, Gemm, KernelChoice, MatrixKernel, MatrixMut, MatrixRef,
    Operands, PlanOptions, Problem, oracle,
};
use lapidary_hip::{Hip, Target};

use super::support::{TARGETS, check_exact, compare, device, execute};

#[test]
fn beta_zero_never_reads_c() {
    for target in TARGETS {
        let Some(device) = device(target) else { return };
        for output in [ElementType::F32, ElementType::BF16] {
            for c in [Arrangement::Padded, Arrangement::ColMajor] {
                let problem =
                    Problem::new(17, 36, 40).elements(ElementType::BF16, output).bias(true);
                let mut case = Case::new(problem, Values::SmallIntegers(3), 1).arranged(
                    Arrangement::Dense,
                    Arrangement::Dense,
                    c,
                );
                case.c.fill(f64::NAN);
                check_exact(&device, &case, &PlanOptions::default());
            }
        }
    }
}

#[test]
fn without_a_product_the_factors_are_not_read() {
    for target in TARGETS {
        let Some(device) = device(target) else { return };
        for (alpha, k) in [(0.0, 24), (1.0, 0), (0.0, 0)] {
            for (element, output) in [
                (ElementType::F32, ElementType::F16),
                (ElementType::I8, ElementType::I32),
                (ElementType::I8, ElementType::I8),
            ] {
                let problem = Problem::new(19, 21, k)
                    .elements(element, output)
                    .batch(2)
                    .alpha(alpha)
                    .beta(3.0)
                    .bias(true)
                    .activation(Activation::Relu)
                    .row_scale(output == ElementType::F16);
                let mut case = Case::new(problem, Values::SmallIntegers(3), 2).arranged(
                    Arrangement::Dense,
                    Arrangement::ColMajor,
                    Arrangement::Padded,
                );
                case.a.fill(f64::NAN);
                case.b.fill(f64::NAN);
                case.row_scale.fill(0xff);
                check_exact(&device, &case, &PlanOptions::default());
                // Nor need they be there: storage of no element will do.
                let nothing = super::support::Uploaded::nothing(&device, element);
                let plan = Gemm::<Hip>::plan(&device, &case.problem, &PlanOptions::default());
                let plan = plan.expect("a plan");
                let on_device = super::support::OnDevice::new(&device, &case);
                let mut args = on_device.args();
                args.a = nothing.slice();
                args.b = lapidary_core::BOperand::Plain(nothing.slice());
                plan.execute(&args).expect("it runs");
            }
        }
    }
}

#[test]
fn nothing_is_done_for_empty_sizes() {
    let Some(device) = device(Target::Gfx942) else { return };
    for [m, n, k, batch] in [[0, 5, 6, 1], [5, 0, 6, 1], [5, 6, 7, 0], [0, 0, 0, 0]] {
        let problem = Problem::new(m, n, k).batch(batch).beta(2.0).bias(true);
        let case = Case::new(problem, Values::SmallIntegers(3), 3);
        let outcome = execute(&device, &case, &PlanOptions::default());
        assert_eq!((outcome.kernel.as_str(), outcome.after.len()), ("nothing", 0));
    }
    assert!(device.emulator().expect("an emulator").launches().is_empty());
}

#[test]
fn a_nan_and_an_infinity_stay_in_their_row() {
    for target in TARGETS {
        let Some(device) = device(target) else { return };
        for k in [33, 64] {
            for activation in [Activation::None, Activation::Relu] {
                let problem = Problem::new(18, 20, k)
                    .elements(ElementType::F16, ElementType::F32)
                    .activation(activation);
                let mut case = Case::new(problem, Values::SmallIntegers(3), 4);
                let whole = check_exact(&device, &case, &PlanOptions::default()).after;
                let row = case.problem.a_layout.row_stride as usize;
                write_f64(ElementType::F16, case.a.bytes_mut(), 5 * row, f64::NAN);
                write_f64(ElementType::F16, case.a.bytes_mut(), 6 * row, f64::INFINITY);
                let after = check_exact(&device, &case, &PlanOptions::default()).after;
                for (i, (was, is)) in whole.chunks(20 * 4).zip(after.chunks(20 * 4)).enumerate() {
                    assert!(was == is || i == 5 || i == 6, "row {i}");
                }
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_the_order_of_waves_and_workgroups() {
    for target in TARGETS {
        let Some(device) = device(target) else { return };
        let emulator = device.emulator().expect("an emulator");
        // Split over K, with a pass before and one after.
        let problem = Problem::new(70, 130, 4000)
            .elements(ElementType::BF16, ElementType::F32)
            .activation(Activation::GeluErf);
        let case = Case::new(problem, Values::Uniform, 5).arranged(
            Arrangement::ColMajor,
            Arrangement::Padded,
            Arrangement::ColMajor,
        );
        let [first, second, third] =
            [Order::RoundRobin, Order::Reverse, Order::Random(9)].map(|order| {
                emulator.configure(|settings| settings.order = order);
                execute(&device, &case, &PlanOptions::default()).after
            });
        assert!(first == second && second == third);
        let comparison = compare(&case, &first, false);
        assert!(comparison.passed(), "{comparison}");
    }
}

#[test]
fn random_operands_stay_within_the_bound() {
    use ElementType as E;
    for target in TARGETS {
        let Some(device) = device(target) else { return };
        let fp8 = if target == Target::Gfx950 { E::F8E4M3 } else { E::F8E4M3Fnuz };
        for (i, (element, output)) in [
            (E::F32, E::F32),
            (E::F16, E::F16),
            (E::BF16, E::BF16),
            (fp8, E::BF16),
            (E::I8, E::F32),
        ]
        .into_iter()
        .enumerate()
        {
            let problem = Problem::new(40, 72, 500)
                .elements(element, output)
                .alpha(0.7)
                .beta(-0.3)
                .bias(true)
                .row_scale(true)
                .col_scale(true)
                .activation(Activation::ALL[i]);
            let case = Case::new(problem, Values::Uniform, i as u64);
            let outcome = execute(&device, &case, &PlanOptions::default());
            let comparison = compare(&case, &outcome.after, false);
            assert!(comparison.passed(), "{target} {element}: {comparison}");
        }
    }
}

#[test]
fn every_pair_of_sizes_is_exact() {
    let Some(device) = device(Target::Gfx942) else { return };
    for (m, n, k) in SIZES
        .iter()
        .enumerate()
        .flat_map(|(i, &m)| {
            SIZES.iter().enumerate().map(move |(j, &n)| (m, n, SIZES[(i + j) % 14]))
        })
        .filter(|(m, n, k)| m * n * k <= 65 * 65 * 129)
    {
        let problem =
            Problem::new(m, n, k).elements(ElementType::BF16, ElementType::F32).bias(true);
        check_exact(
            &device,
            &Case::new(problem, Values::SmallIntegers(3), 6),
            &PlanOptions::default(),
        );
    }
}

#[test]
fn a_view_of_a_larger_matrix_is_written_and_nothing_else() {
    let Some(device) = device(Target::Gfx942) else { return };
    let a: Vec<f32> = (0..6).map(|x| x as f32).collect();
    let operands = Operands::new(
        MatrixRef::row_major(&a, 2, 3).expect("A"),
        MatrixRef::row_major(&a, 2, 3).expect("B").transposed(),
    );
    let problem = operands.problem(ElementType::F32).expect("a problem").beta(1.0);
    let mut all = vec![100.0f32; 20];
    let corner =
        MatrixMut::row_major(&mut all, 4, 5).expect("C").submatrix(1..3, 2..4).expect("it");
    Gemm::<Hip>::run_into(&device, &problem, &operands, corner).expect("it runs");
    let mut expected = vec![100.0f32; 20];
    for (at, value) in [(7, 5.0), (8, 14.0), (12, 14.0), (13, 50.0)] {
        expected[at] += value;
    }
    assert_eq!(all, expected);
}

#[test]
fn a_batch_past_one_launch_is_whole() {
    let Some(device) = device(Target::Gfx942) else { return };
    let emulator = device.emulator().expect("an emulator");
    // HIP allows 65,536 workgroups along y. The first three of every launch run.
    let first_three = (0..3).map(|y| [0, y, 0]).collect();
    emulator.configure(|settings| settings.workgroups = Workgroups::Only(first_three));
    let problem = Problem::new(1, 1, 2).batch(65_539).elements(ElementType::F16, ElementType::F32);
    let case = Case::new(problem, Values::SmallIntegers(3), 7);
    // Short strips, so that one workgroup packs a matrix of B.
    let kernel = KernelChoice::Matrix(MatrixKernel::tile([64, 64, 32]));
    let outcome = execute(&device, &case, &PlanOptions::kernel(kernel));
    let grids: Vec<u32> = emulator.launches().iter().map(|launch| launch.grid[1]).collect();
    assert_eq!(grids, [65_536, 3, 65_536, 3]);
    let positions: Vec<_> = [0, 1, 2, 65_536, 65_537, 65_538]
        .map(|batch| oracle::Position { batch, row: 0, col: 0 })
        .into();
    let reference = oracle::reference_at(&case.problem, &case.operands(), &positions);
    let found = AnyMatrixRef::new(&outcome.after, ElementType::F32, case.c.placement());
    let comparison = reference.expect("a reference").compare_exact(&found.expect("C"));
    assert!(comparison.passed(), "{comparison}");
}

#[test]
fn a_device_is_shared_by_the_workers_of_a_pool() {
    use rayon::prelude::*;
    let Some(device) = device(Target::Gfx950) else { return };
    (0..16u64).into_par_iter().for_each(|seed| {
        let problem = Problem::new(40, 300, 20).elements(ElementType::BF16, ElementType::F32);
        let case = Case::new(problem, Values::SmallIntegers(3), seed);
        check_exact(&device, &case, &PlanOptions::default());
    });
}
