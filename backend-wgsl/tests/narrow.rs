//! Outputs whose elements share words, stored by the kernel that multiplies: four at a time where C allows
//! it, by a second pass where it does not.

mod common;

use common::Uploaded;
use lapidary_core::policy::{DirectSplit, KernelConfig, RegisterPrefetch, VectorDot4, VectorFma};
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{Backend, ElementType, KernelChoice, PlanOptions, Problem};
use lapidary_wgsl::decide::{Store, matrix_blocks};

use Arrangement::{Aligned, ColMajor, Dense, Padded, ReversedAligned, RowMajor};
use ElementType as E;

/// Kernels that store four neighbours of a row, with operands that they take.
fn kernels(device: &lapidary_wgsl::Wgsl) -> Vec<(ElementType, KernelChoice)> {
    let vector = KernelConfig::of::<RegisterPrefetch<32, 64, 16>, VectorFma<4, 8>>();
    let split = KernelConfig::of::<DirectSplit<8, 32, 16>, VectorFma<4, 4>>();
    let dot4 = KernelConfig::of::<RegisterPrefetch<64, 64, 64>, VectorDot4<8, 8>>();
    let mut all: Vec<_> =
        [(E::F32, vector), (E::BF16, vector), (E::F32, split), (E::I8, dot4)].into();
    if device.limits().f16 {
        all.push((E::F16, vector));
    }
    let units = [false, true].map(|f16_sums| matrix_blocks(device.limits(), f16_sums));
    all.extend(units.into_iter().flatten().map(|config| (E::F16, config)));
    all.into_iter().map(|(operand, config)| (operand, KernelChoice::Policy(config))).collect()
}

/// Every kernel, output, epilogue and place of C: the same bits, and nothing outside C.
#[test]
fn narrow_outputs_are_exact_wherever_c_lies() {
    let Some(device) = common::tuned() else { return };
    let (mut fused, mut apart, mut run) = (0, 0, 0);
    for (operand, kernel) in kernels(device) {
        let outputs: &[E] = match operand {
            E::I8 => &[E::I8, E::F16, E::BF16],
            E::F16 => &[E::F16],
            _ => &[E::F16, E::BF16],
        };
        for (&output, c) in outputs.iter().flat_map(|output| {
            [Dense, Aligned, ReversedAligned, RowMajor, Padded, ColMajor].map(|c| (output, c))
        }) {
            let [m, n, k] = [[64, 128, 64], [70, 68, 35], [9, 64, 130], [33, 72, 16]][run % 4];
            let problem = Problem::new(m, n, k).elements(operand, output).batch(1 + run / 2 % 2);
            let problem = common::epilogue(problem, run % 3);
            let mut case = Case::new(problem, Values::SmallIntegers(3), run as u64)
                .arranged(Dense, Aligned, c);
            let expected = common::expect(&mut case);
            let uploaded = Uploaded::new(device, &case);
            let options = PlanOptions::kernel(kernel).copies([false, true]);
            let decision = uploaded.check_with(device, &options, &expected);
            let quads = matches!(c, Dense | Aligned | ReversedAligned | RowMajor);
            assert_eq!(decision.stores_quads(), quads, "{} {c:?}", kernel.name());
            // Rows one after the other lie behind a margin, at the start of no word.
            match c {
                RowMajor => apart += 1,
                _ if quads => fused += 1,
                _ => {}
            }
            run += 1;
        }
    }
    println!("{fused} stored four at a time, {apart} by another plan");
    assert!(fused >= 27 && apart >= 9);
}

/// One row, whose kernel streams B: four columns of a thread, and what a number of columns that is no
/// multiple of four takes.
#[test]
fn one_row_of_narrow_outputs() {
    let Some(device) = common::tuned() else { return };
    for (m, n, quads) in [(1, 512, true), (3, 132, true), (1, 514, false)] {
        for (operand, output) in [(E::F32, E::F16), (E::BF16, E::BF16), (E::I8, E::I8)] {
            for c in [Dense, RowMajor] {
                let problem =
                    Problem::new(m, n, 300).elements(operand, output).beta(1.0).bias(true);
                let mut case = Case::new(problem, Values::SmallIntegers(2), n as u64)
                    .arranged(Dense, Dense, c);
                let expected = common::expect(&mut case);
                let uploaded = Uploaded::new(device, &case);
                let options = PlanOptions::kernel(KernelChoice::Skinny).k_slices(1);
                let decision = uploaded.check_with(device, &options, &expected);
                assert_eq!(decision.stores_quads(), quads, "{m}x{n} {operand} {output} {c:?}");
            }
        }
    }
}

/// One plan takes a C that starts a word and one that does not, in turn, and holds no sums until it has to.
#[test]
fn a_plan_takes_both_kinds_of_c() {
    let Some(device) = common::tuned() else { return };
    let kernel = kernels(device)[0].1;
    let problem = Problem::new(40, 64, 50).elements(E::F32, E::F16);
    let options = PlanOptions::kernel(kernel).copies([false; 2]);
    let plan = device.plan(&problem, &options).expect("plans");
    assert_eq!(plan.decision().store, Store::Fused);
    assert_eq!(plan.decision().summary.scratch_bytes, 0);
    assert!(plan.decision().summary.notes.iter().any(|note| note.contains("multiple of 8 bytes")));
    assert!(plan.apart_summary().is_none());
    for c in [Dense, RowMajor, Dense, RowMajor] {
        let mut case =
            Case::new(problem.clone(), Values::SmallIntegers(3), 5).arranged(Dense, Dense, c);
        let expected = common::expect(&mut case);
        assert_eq!(case.problem.c_layout, problem.c_layout);
        let uploaded = Uploaded::new(device, &case);
        let tensor = common::upload(device, &case.c);
        device.execute(&plan, &uploaded.args(&tensor)).expect("executes");
        let after = common::download(device, &tensor);
        common::assert_canaries(&case.c, &after, || format!("{c:?}"));
        let comparison = expected.compare_exact(&common::found(&case.c, &after));
        assert!(comparison.passed(), "{c:?}: {comparison}");
    }
    let apart = plan.apart_summary().expect("there was such a C");
    assert_eq!(apart.passes, ["pack_rows"]);
    assert_eq!(apart.scratch_bytes, 40 * 64 * 4);
}

/// Numbers that are no values of the output: ties, ones past the largest, subnormal ones; for i8 all of its
/// own, half as large again. A column of them times ones is them.
#[test]
fn conversions_of_the_store_round_to_nearest() {
    let Some(device) = common::tuned() else { return };
    let all = kernels(device);
    let numbers: [f32; 17] = [
        1.0,
        1.000_488_3,
        65519.9,
        65520.0,
        1e30,
        2.5,
        6.1e-5,
        6.0e-8,
        3.0e-8,
        2.9e-8,
        0.0,
        -0.0,
        1.003_906_3,
        1.011_718_8,
        0.333_333_34,
        3.4e38,
        1e-30,
    ];
    for (output, (operand, kernel), alpha) in
        [(E::F16, all[0], 1.0), (E::BF16, all[0], 1.0), (E::I8, all[3], 1.5)]
    {
        let problem = Problem::new(256, 64, 1).elements(operand, output).alpha(alpha);
        let mut case =
            Case::new(problem, Values::SmallIntegers(1), 1).arranged(Dense, Dense, Dense);
        for row in 0..256 {
            let number = numbers[row % 128 % numbers.len()];
            let float = if row < 128 { number } else { -number };
            let code = if operand == E::I8 { row as u64 } else { u64::from(float.to_bits()) };
            case.a.set_code([0, row, 0], code);
        }
        case.b.fill(1.0);
        let expected = common::expect(&mut case);
        let uploaded = Uploaded::new(device, &case);
        let decision = uploaded.check_with(device, &PlanOptions::kernel(kernel), &expected);
        assert!(decision.stores_quads());
    }
}
