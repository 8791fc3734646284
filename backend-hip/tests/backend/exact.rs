//! Small integers, whose products are exact in every order: compared bit for bit.

use lapidary_core::testing::{Case, Values};
use lapidary_core::{Activation, ElementType, PlanOptions, Problem};
use lapidary_hip::Target;

use super::support::{TARGETS, check_exact, device};

/// Operand pairs that a target multiplies, and the outputs each may have.
fn families(target: Target) -> Vec<(Problem, &'static [ElementType])> {
    use ElementType as E;
    const FLOATS: &[ElementType] = &[E::F32, E::F16, E::BF16];
    let of = |a, b| Problem::new(33, 65, 96).factors(a, b);
    let mut all = vec![
        (of(E::F32, E::F32), FLOATS),
        (of(E::F16, E::F16), FLOATS),
        (of(E::BF16, E::BF16), FLOATS),
        (of(E::I8, E::I8), &[E::I32, E::F32, E::F16, E::BF16, E::I8]),
        (of(E::I8, E::I4), &[E::I32, E::F32, E::F16, E::BF16]),
    ];
    match target {
        Target::Gfx950 => {
            for (a, b) in [(E::F8E4M3, E::F8E4M3), (E::F8E5M2, E::F8E5M2), (E::F8E4M3, E::F8E5M2)] {
                all.push((of(a, b), FLOATS));
                all.push((of(a, b).block_scales(true), FLOATS));
            }
            for (a, b) in [(E::F4E2M1, E::F4E2M1), (E::F8E4M3, E::F4E2M1), (E::F4E2M1, E::F8E5M2)] {
                all.push((of(a, b).block_scales(true), FLOATS));
            }
        }
        _ => {
            for (a, b) in [
                (E::F8E4M3Fnuz, E::F8E4M3Fnuz),
                (E::F8E5M2Fnuz, E::F8E5M2Fnuz),
                (E::F8E5M2Fnuz, E::F8E4M3Fnuz),
            ] {
                all.push((of(a, b), FLOATS));
            }
        }
    }
    all
}

#[test]
fn every_type_and_output_and_epilogue() {
    for target in TARGETS {
        let Some(device) = device(target) else { return };
        let mut seed = 0;
        for (problem, outputs) in families(target) {
            for &output in outputs {
                seed += 1;
                let mut problem = problem.clone();
                problem.c = output;
                let floats = problem.bias_element() == ElementType::F32;
                let problem = problem
                    .batch(1 + seed as usize % 2)
                    .row_scale(floats && seed % 3 != 0)
                    .col_scale(floats && seed % 3 != 1)
                    .alpha([1.0, 2.0][seed as usize % 2])
                    .beta([0.0, -1.0][seed as usize / 2 % 2])
                    .bias(seed % 4 < 2)
                    .activation([Activation::None, Activation::Relu][seed as usize % 2]);
                let case = Case::new(problem, Values::SmallIntegers(3), seed);
                check_exact(&device, &case, &PlanOptions::default());
            }
        }
    }
}
