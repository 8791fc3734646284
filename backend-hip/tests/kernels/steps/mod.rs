//! The seven steps: compiled for every target; run on the emulator over tails, views, batches and
//! epilogues.

mod registers;
mod run;

use super::emulate::compiler;
use lapidary_cdna::exec::Order;
use lapidary_core::oracle;
use lapidary_core::policy::{
    DirectLoad, KernelConfig, MfmaF16, MfmaF32, MfmaXf32, ScalarFma, SingleBuffer,
    SoftwareDoubleBuffer,
};
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{Activation, ElementType, Problem, element};
use lapidary_hip::Target;
use lapidary_hip::steps::{Arithmetic, LaunchHint, Step, StepConfig, StepError, TileMovement};
use run::{check_exact, expect, found, name, operand, run};

const EMULATED: [Target; 2] = [Target::Gfx942, Target::Gfx950];

/// Every step and variant that the target has, with the tutorial's sizes.
pub(super) fn steps(target: Target) -> Vec<StepConfig> {
    let of = |step| StepConfig::new(target, step);
    let mut steps = vec![of(Step::Naive), of(Step::WorkgroupTile), of(Step::RegisterTile)];
    steps.extend([1, 2].map(|buffers| of(Step::Buffered { buffers })));
    steps.extend([1, 2, 4].map(|width| of(Step::Vectorized).with_load_width(width)));
    steps.extend(LaunchHint::ALL.map(|hint| of(Step::Occupancy(hint))));
    for movement in TileMovement::ALL {
        for arithmetic in Arithmetic::ALL {
            steps.push(of(Step::Generic(movement, arithmetic)));
        }
    }
    steps.retain(available);
    steps
}

/// Pairs of core's policies in other sizes, and other numbers of waves, than the tutorial's.
fn policies(target: Target) -> Vec<StepConfig> {
    type Single<const KT: usize, const W: usize> = SingleBuffer<32, 64, KT, W>;
    type Double<const KT: usize, const W: usize> = SoftwareDoubleBuffer<64, 32, KT, W>;
    type Direct = DirectLoad<32, 32, 16>;
    let mut steps: Vec<StepConfig> = [
        KernelConfig::of::<Single<8, 2>, ScalarFma<4, 4>>(),
        KernelConfig::of::<Single<4, 4>, MfmaF32<16, 32>>(),
        KernelConfig::of::<Single<16, 1>, MfmaXf32<32, 16>>(),
        KernelConfig::of::<Single<64, 4>, MfmaF16<32, 64>>(),
        KernelConfig::of::<Double<6, 1>, ScalarFma<2, 8>>(),
        KernelConfig::of::<Double<20, 4>, MfmaF32<64, 16>>(),
        KernelConfig::of::<Double<8, 2>, MfmaXf32<16, 16>>(),
        KernelConfig::of::<Double<32, 2>, MfmaF16<32, 32>>(),
        KernelConfig::of::<Direct, ScalarFma<2, 2>>(),
        KernelConfig::of::<Direct, MfmaF32<16, 32>>(),
        KernelConfig::of::<Direct, MfmaXf32<32, 16>>(),
    ]
    .iter()
    .map(|config| StepConfig::of_policies(target, config).expect("there is such a kernel"))
    .collect();
    steps.retain(available);
    steps
}

fn available(config: &StepConfig) -> bool {
    match config.request() {
        Ok(_) => true,
        Err(StepError::Target { .. }) => false,
        Err(error) => panic!("{config}: {error}"),
    }
}

#[test]
fn every_step_compiles_for_every_target() {
    let Some(compiler) = compiler() else { return };
    for target in Target::ALL {
        let steps: Vec<StepConfig> = steps(target).into_iter().chain(policies(target)).collect();
        assert!(steps.len() >= 15, "{target}: {}", steps.len());
        for config in steps {
            let request = config.request().unwrap_or_else(|e| panic!("{config}: {e}"));
            compiler.compile(&request).unwrap_or_else(|e| panic!("{target} {config}: {e}"));
        }
    }
}

/// Which pairs exist where.
#[test]
fn every_target_has_the_pairs_it_should() {
    let pairs = |target| {
        steps(target).iter().filter(|config| matches!(config.step, Step::Generic(..))).count()
    };
    // Three movements by four kinds of arithmetic, less direct loads of f16; CDNA4 has no xf32.
    // Without matrix cores three movements, on RDNA two.
    assert_eq!(Target::ALL.map(pairs), [3, 11, 8, 2, 2]);
}

/// A problem and how its operands lie, so that sizes, views, batches and epilogues meet in turn.
fn cases(operand: ElementType) -> Vec<Case> {
    use Arrangement as A;
    use lapidary_core::Activation::{None, Relu};
    // M, N, K, batch; alpha, beta, bias, activation; A, B, C.
    [
        ([17, 35, 50, 1], (2.0, -1.0, true, Relu), [A::Padded, A::Padded, A::Padded]),
        ([129, 3, 16, 1], (1.0, 0.0, false, None), [A::ColMajor, A::RowMajor, A::ColMajor]),
        ([1, 130, 33, 2], (-0.5, 0.0, true, None), [A::RowMajor, A::ColMajor, A::Spread]),
        ([16, 16, 15, 3], (1.0, 1.0, false, Relu), [A::Spread, A::ReversedRows, A::Padded]),
        ([33, 1, 64, 1], (1.5, 0.0, false, Relu), [A::ReversedCols, A::Spread, A::ReversedRows]),
        ([15, 64, 1, 2], (3.0, 2.0, true, None), [A::PaddedColMajor, A::Padded, A::ReversedCols]),
        ([65, 31, 0, 1], (1.0, 0.5, true, None), [A::RowMajor, A::RowMajor, A::RowMajor]),
        ([5, 7, 20, 2], (0.0, -2.0, false, None), [A::Padded, A::Padded, A::PaddedColMajor]),
        ([20, 40, 31, 1], (1.0, 0.0, false, None), [A::RepeatedRow, A::PaddedColMajor, A::Padded]),
    ]
    .into_iter()
    .enumerate()
    .map(|(index, ([m, n, k, batch], (alpha, beta, bias, activation), [a, b, c]))| {
        let problem = Problem::new(m, n, k)
            .batch(batch)
            .elements(operand, ElementType::F32)
            .alpha(alpha)
            .beta(beta)
            .bias(bias)
            .activation(activation);
        Case::new(problem, Values::SmallIntegers(3), index as u64).arranged(a, b, c)
    })
    .collect()
}

fn check_cases(configs: impl Fn(Target) -> Vec<StepConfig>) {
    let Some(compiler) = compiler() else { return };
    let expected = [ElementType::F32, ElementType::F16].map(|operand| {
        let cases = cases(operand).into_iter().map(|mut case| {
            let reference = expect(&mut case);
            (case, reference)
        });
        cases.collect::<Vec<_>>()
    });
    for target in EMULATED {
        for config in configs(target) {
            let [f32, f16] = &expected;
            let cases = if operand(&config) == ElementType::F16 { f16 } else { f32 };
            for (case, reference) in cases {
                check_exact(&compiler, &config, case, reference);
            }
        }
    }
}

#[test]
fn every_step_is_exact_over_tails_views_batches_and_epilogues() {
    check_cases(steps);
}

#[test]
fn every_pair_of_policies_is_exact_in_other_sizes() {
    check_cases(policies);
}

#[test]
fn activations_are_within_their_bounds() {
    let Some(compiler) = compiler() else { return };
    for target in EMULATED {
        for activation in [Activation::Silu, Activation::GeluTanh, Activation::GeluErf] {
            let problem = Problem::new(33, 17, 40).alpha(1.5).bias(true).activation(activation);
            let mut case = Case::new(problem, Values::Uniform, 5);
            let expected = expect(&mut case);
            for config in [
                StepConfig::new(target, Step::Naive),
                StepConfig::new(
                    target,
                    Step::Generic(TileMovement::SoftwareDoubleBuffer, Arithmetic::MfmaF32),
                ),
            ] {
                let after = run(&compiler, &config, &case, Order::RoundRobin);
                let comparison = expected.compare(&found(&case.c, &after));
                assert!(comparison.passed(), "{}: {comparison}", name(&config, &case));
            }
        }
    }
}

/// Random operands, in three orders of waves and workgroups: the same bits, and within the bound of
/// [`Arithmetic::accuracy`].
#[test]
fn random_operands_are_within_the_bound_in_any_order() {
    let Some(compiler) = compiler() else { return };
    for target in EMULATED {
        for config in steps(target).into_iter().chain(policies(target)) {
            let problem = Problem::new(70, 133, 100).elements(operand(&config), ElementType::F32);
            let mut case = Case::new(problem, Values::Uniform, 11);
            let expected = expect(&mut case);
            let after = run(&compiler, &config, &case, Order::RoundRobin);
            for order in [Order::Reverse, Order::Random(9)] {
                let again = run(&compiler, &config, &case, order);
                assert_eq!(after, again, "{}: {order:?}", name(&config, &case));
            }
            let accuracy = config.arithmetic().accuracy();
            let view = found(&case.c, &after);
            for (index, at) in expected.positions().iter().enumerate() {
                let error = (view.get(at.batch, at.row, at.col) - expected.values()[index]).abs();
                let bound = accuracy.roundings * expected.bound(index)
                    + accuracy.operands * expected.gauges()[index];
                assert!(error <= bound, "{}: {at}: {error} > {bound}", name(&config, &case));
            }
        }
    }
}

/// NaN and infinity in one row of A, and in A's padding, reach that row of C and nothing else; relu
/// keeps a NaN.
#[test]
fn a_nan_stays_in_its_row() {
    let Some(compiler) = compiler() else { return };
    const ROW: usize = 18;
    for target in EMULATED {
        for config in steps(target).into_iter().chain(policies(target)) {
            let problem = Problem::new(37, 35, 21)
                .elements(operand(&config), ElementType::F32)
                .activation(Activation::Relu);
            // The canaries between the rows are NaN.
            let case = Case::new(problem, Values::SmallIntegers(3), 2).arranged(
                Arrangement::Padded,
                Arrangement::Padded,
                Arrangement::Padded,
            );
            let clean = run(&compiler, &config, &case, Order::RoundRobin);
            for poison in [f64::NAN, f64::INFINITY] {
                let mut poisoned = case.clone();
                let place = case.a.placement();
                for k in 0..case.problem.k {
                    let index = place.offset + place.layout.index(0, ROW, k) as usize;
                    element::write_f64(operand(&config), poisoned.a.bytes_mut(), index, poison);
                }
                let expected = oracle::reference(&poisoned.problem, &poisoned.operands());
                let expected = expected.expect("a valid case");
                let after = run(&compiler, &config, &poisoned, Order::RoundRobin);
                let comparison = expected.compare_exact(&found(&case.c, &after));
                assert!(comparison.passed(), "{} {poison}: {comparison}", name(&config, &case));
                let (before, after) = (found(&case.c, &clean), found(&case.c, &after));
                for (row, col) in (0..37).flat_map(|row| (0..35).map(move |col| (row, col))) {
                    if row != ROW {
                        let [x, y] = [&before, &after].map(|view| view.get(0, row, col).to_bits());
                        assert_eq!(x, y, "{} {poison}: {row}, {col}", name(&config, &case));
                    }
                }
            }
        }
    }
}
