//! A product shared by two devices, opened on one adapter.

mod common;

use lapidary_core::testing::{Arrangement, Case, Values, block_on};
use lapidary_core::{
    Activation, Devices, ElementType, Error, Gemm, KernelChoice, PlanOptions, Problem, oracle,
};
use lapidary_wgsl::{Wgsl, WgslOptions};

fn two() -> Option<[Wgsl; 2]> {
    let options = WgslOptions::default();
    Some([common::own(&options)?, common::own(&options)?])
}

#[test]
fn two_devices_have_the_bits_of_one() {
    let Some([first, second]) = two() else { return };
    let devices = Devices::weighted([(first.clone(), 1.0), (second, 2.0)]).expect("two");
    for (operand, output, kernel) in [
        (ElementType::F32, ElementType::F32, KernelChoice::WorkgroupTile),
        (ElementType::F32, ElementType::F32, KernelChoice::RegisterTile),
        (ElementType::BF16, ElementType::BF16, KernelChoice::Naive),
    ] {
        let problem = Problem::new(100, 333, 77)
            .elements(operand, output)
            .batch(2)
            .alpha(0.3)
            .beta(0.7)
            .bias(true)
            .activation(Activation::GeluTanh);
        let case = Case::new(problem, Values::Uniform, 4).arranged(
            Arrangement::Dense,
            Arrangement::ColMajor,
            Arrangement::Padded,
        );
        let options = PlanOptions::kernel(kernel);
        let operands = case.operands();
        let one = Gemm::<Wgsl>::run_with(&first, &case.problem, &operands, &options, &|_| {});
        let one = block_on(one).expect("runs");
        let both = devices.run(&case.problem, &operands, &options, &|_| {}).expect("runs");
        assert_eq!(both.matrix, one.matrix, "{}", kernel.name());
        let parts = both.summary.notes.iter().filter(|note| note.starts_with("columns "));
        assert_eq!(parts.count(), 2, "{:?}", both.summary.notes);
    }
}

/// Whatever kernels the two pick by themselves: integers are exact.
#[test]
fn shares_are_exact_whatever_kernels_compute_them() {
    if common::device().is_none() {
        return;
    }
    let devices = Wgsl::share(&WgslOptions::default(), Some(&[0, 0, 0])).expect("one adapter");
    assert_eq!(devices.iter().len(), 3);
    for (m, n, k) in [(65, 129, 300), (1, 4000, 70), (300, 64, 5)] {
        let case = Case::new(Problem::new(m, n, k), Values::SmallIntegers(3), 8);
        let expected = oracle::reference(&case.problem, &case.operands()).expect("valid");
        let output = devices.run(&case.problem, &case.operands(), &PlanOptions::default(), &|_| {});
        let comparison = expected.compare_exact(&output.expect("runs").matrix.as_ref());
        assert!(comparison.passed(), "{m} {n} {k}: {comparison}");
    }
    let all = Wgsl::share(&WgslOptions::default(), None).expect("an adapter");
    assert!(all.iter().len() > 0);
}

#[test]
fn the_device_that_fails_is_named() {
    let Some([first, second]) = two() else { return };
    let name = second.adapter_info().name.clone();
    second.device().destroy();
    let devices = Devices::new([first, second]).expect("two");
    let case = Case::new(Problem::new(8, 256, 8), Values::SmallIntegers(3), 8);
    match devices.run(&case.problem, &case.operands(), &PlanOptions::default(), &|_| {}) {
        Err(Error::OnDevice { device, number: 1, first: 128, end: 256, source }) => {
            assert_eq!(device, name);
            assert!(matches!(*source, Error::DeviceLost { .. }), "{source}");
        }
        other => panic!("{other:?}"),
    }
    match Wgsl::share(&WgslOptions::default(), Some(&[0, 999])) {
        Err(Error::NoDevice { reason }) => assert!(reason.contains("999"), "{reason}"),
        other => panic!("{other:?}"),
    }
}
