//! Random data: every kernel within the bound derived for each element, every activation, bias.

mod common;

use common::Uploaded;
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{Activation, ElementType, Problem, oracle};
use lapidary_wgsl::Wgsl;

/// The largest error ÷ bound, and the largest error in units of u·Σ|a||b|, over every kernel.
fn worst(device: &Wgsl, problem: Problem, values: Values, seed: u64) -> [f64; 2] {
    let operand = problem.a;
    let case = Case::new(problem, values, seed).arranged(
        Arrangement::Dense,
        Arrangement::Padded,
        Arrangement::Padded,
    );
    let reference = oracle::reference(&case.problem, &case.operands()).expect("a valid case");
    let uploaded = Uploaded::aligned(device, &case);
    let mut worst = [0.0f64; 2];
    for kernel in common::kernels(operand) {
        let after = uploaded.run(device, kernel).expect("runs");
        common::assert_canaries(&case.c, &after, || kernel.name());
        let comparison = reference.compare(&common::found(&case.c, &after));
        assert!(
            comparison.passed(),
            "{} {operand}->{} {values:?} {}: {comparison}",
            kernel.name(),
            case.problem.c,
            case.problem.activation
        );
        assert_eq!(comparison.unjudged, 0, "every element is judged");
        worst = [worst[0].max(comparison.max_ratio), worst[1].max(comparison.max_units)];
    }
    worst
}

#[test]
fn every_kernel_and_value_range_stays_within_the_bound() {
    let Some(device) = common::device() else { return };
    for (index, values) in
        [Values::Uniform, Values::Positive, Values::Exponents(12)].into_iter().enumerate()
    {
        let problem = Problem::new(70, 133, 190).alpha(-0.7).beta(0.3).bias(true);
        let [ratio, units] = worst(device, problem, values, index as u64);
        println!(
            "f32 {values:?}: at most {ratio:.3} of the bound, {units:.2} units of u*sum|a||b|"
        );
        // Rounding errors of either sign add up to about λ·√(K + 4) units of u instead of K + 4
        // (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019, theorem 2.4); λ = 4.
        assert!(units < 4.0 * (190.0f64 + 4.0).sqrt(), "{units}");
    }
}

#[test]
fn every_activation_stays_within_the_bound() {
    let Some(device) = common::device() else { return };
    for (index, activation) in Activation::ALL.into_iter().enumerate() {
        // Arguments from far below 0 to far above.
        for (alpha, k) in [(0.5, 24), (9.0, 40)] {
            let problem = Problem::new(33, 48, k).alpha(alpha).bias(true).activation(activation);
            let [ratio, _] = worst(device, problem, Values::Uniform, 7 + index as u64);
            println!("f32 {activation}, alpha {alpha}: at most {ratio:.3} of the bound");
        }
    }
}

#[test]
fn every_type_stays_within_the_bound() {
    let Some(device) = common::device() else { return };
    for (index, (operand, output)) in common::COMBINATIONS.into_iter().enumerate().skip(1) {
        if operand == ElementType::F16 && !device.limits().f16 {
            println!("skipped: the device lacks SHADER_F16");
            continue;
        }
        let problem = Problem::new(37, 66, 75).elements(operand, output);
        let problem = match output {
            ElementType::I32 => problem.alpha(3.0).beta(-1.0).bias(true),
            // Keeps i8 outputs inside their range, and f16 outputs far from infinity.
            _ if operand == ElementType::I8 => problem.alpha(1e-3).beta(0.25).bias(true),
            _ => problem.alpha(0.3).beta(0.25).bias(true).activation(Activation::Silu),
        };
        let [ratio, _] = worst(device, problem, Values::Uniform, 20 + index as u64);
        println!("{operand} -> {output}: at most {ratio:.3} of the bound");
    }
}
