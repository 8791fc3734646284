//! Devices that share a product give what one gives, and say which of them failed.
#![cfg(feature = "cpu")]

use std::cell::RefCell;

use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{
    Activation, Cpu, Devices, ElementType, Error, Gemm, KernelChoice, Operands, PlanOptions,
    Problem, Progress,
};

#[test]
fn shares_cover_every_column_once() {
    for weights in [vec![1.0], vec![1.0, 1.0], vec![3.0, 1e-3, 2.0], vec![1e-300, 1e300, 1.0, 7.0]]
    {
        let devices = Devices::weighted(weights.iter().map(|&w| (Cpu::new(), w))).expect("some");
        for n in (0..700).chain([usize::MAX >> 12]) {
            let shares = devices.columns(n);
            assert_eq!(shares.len(), weights.len());
            assert_eq!((shares[0].start, shares.last().expect("one").end), (0, n));
            for pair in shares.windows(2) {
                assert_eq!(pair[0].end, pair[1].start);
                assert!(pair[0].end % 64 == 0 || pair[0].end == n, "{shares:?}");
            }
            assert!(shares.iter().all(|share| share.start <= share.end));
        }
    }
    let devices = Devices::new([Cpu::new(), Cpu::new(), Cpu::new()]).expect("some");
    assert_eq!(devices.columns(640), [0..192, 192..448, 448..640]);
    assert_eq!(devices.iter().len(), 3);
}

#[test]
fn no_devices_and_no_weights_are_refused() {
    match Devices::<Cpu>::new([]) {
        Err(Error::NoDevice { reason }) => assert!(reason.contains("none"), "{reason}"),
        other => panic!("{other:?}"),
    }
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        match Devices::weighted([(Cpu::new(), 1.0), (Cpu::new(), weight)]) {
            Err(Error::NoDevice { reason }) => {
                assert!(reason.contains(&weight.to_string()), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Everything that belongs to columns goes with them: bias, scales, C, members of a batch.
#[test]
fn shared_products_have_the_values_of_whole_ones() {
    use ElementType as E;
    let devices =
        Devices::weighted([(Cpu::new(), 2.0), (Cpu::new(), 1.0), (Cpu::new(), 2.0)]).expect("some");
    let base = Problem::new(5, 203, 32).beta(2.0).bias(true).activation(Activation::Relu);
    // Rows of 4-bit elements are whole bytes.
    let mut blocks = base.clone().elements(E::F4E2M1, E::F32).block_scales(true);
    blocks.n = 202;
    let mut nothing = base.clone();
    nothing.k = 0;
    let mut compared = 0;
    for batch in [1, 3] {
        for problem in [
            base.clone().elements(E::F32, E::F32),
            base.clone().elements(E::F16, E::BF16).alpha(-1.0),
            base.clone().elements(E::I8, E::I32),
            base.clone().elements(E::F8E4M3, E::F32).row_scale(true).col_scale(true),
            blocks.clone(),
            base.clone().elements(E::F32, E::F32).alpha(0.0),
            nothing.clone(),
        ] {
            for arrangement in [Arrangement::Dense, Arrangement::ColMajor] {
                let dense = Arrangement::Dense;
                let case = Case::new(problem.clone().batch(batch), Values::SmallIntegers(3), 5)
                    .arranged(dense, arrangement, dense);
                let operands = case.operands();
                let one = Gemm::<Cpu>::run(&Cpu::new(), &case.problem, &operands).expect("runs");
                let seen = RefCell::new(Vec::<Progress>::new());
                let all = devices.run(&case.problem, &operands, &PlanOptions::default(), &|p| {
                    seen.borrow_mut().push(p);
                });
                let all = all.expect("runs");
                assert_eq!(all.matrix, one.matrix, "{:?} {arrangement:?}", case.problem);
                let notes = all.summary.notes.iter().filter(|n| n.starts_with("columns ")).count();
                assert_eq!(notes, 3, "{:?}", all.summary.notes);
                for pair in seen.borrow().windows(2) {
                    assert!(pair[0].done <= pair[1].done && pair[1].done <= pair[1].total);
                }
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 28);
}

#[test]
fn empty_products_and_few_columns_need_not_occupy_every_device() {
    let devices = Devices::new([Cpu::new(), Cpu::new()]).expect("some");
    for (m, n) in [(0, 5), (5, 0), (0, 0), (3, 1), (1, 65)] {
        let case = Case::new(Problem::new(m, n, 4), Values::SmallIntegers(3), 1);
        let run = devices.run(&case.problem, &case.operands(), &PlanOptions::default(), &|_| {});
        let one = Gemm::<Cpu>::run(&Cpu::new(), &case.problem, &case.operands()).expect("runs");
        assert_eq!(run.expect("runs").matrix, one.matrix, "{m} {n}");
    }
}

#[test]
fn a_device_that_fails_is_named_with_its_columns() {
    let devices = Devices::new([Cpu::new(), Cpu::new()]).expect("some");
    let case = Case::new(Problem::new(3, 128, 4), Values::SmallIntegers(3), 1);
    let options = PlanOptions::kernel(KernelChoice::Naive);
    let failure = devices.run(&case.problem, &case.operands(), &options, &|_| {});
    match failure {
        Err(Error::OnDevice { number: 0, first: 0, end: 64, source, .. }) => {
            assert!(matches!(*source, Error::KernelUnsuitable { .. }), "{source}");
        }
        other => panic!("{other:?}"),
    }
    // What is wrong with the operands is no device's fault.
    let wrong = Operands::new(case.b.view(), case.a.view());
    match devices.run(&case.problem, &wrong, &PlanOptions::default(), &|_| {}) {
        Err(Error::InnerDimensionMismatch { a_cols: 128, b_rows: 3 }) => {}
        other => panic!("{other:?}"),
    }
}
