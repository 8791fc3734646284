//! Operands of every arrangement, at sizes on both sides of every edge.

use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{ElementType, PlanOptions, Problem};
use lapidary_hip::Target;

use super::support::{TARGETS, check_exact, device};

const M: [usize; 8] = [1, 15, 16, 17, 33, 64, 65, 130];
const N: [usize; 7] = [1, 16, 63, 64, 65, 100, 256];
const K: [usize; 9] = [1, 15, 16, 17, 31, 64, 127, 128, 129];

/// Operand, output and batch of case `i`, so that each kind of element size meets each arrangement.
fn types(target: Target, i: usize) -> (ElementType, ElementType) {
    use ElementType as E;
    let fp8 = if target == Target::Gfx950 { E::F8E4M3 } else { E::F8E5M2Fnuz };
    [(E::F32, E::F32), (E::BF16, E::F16), (fp8, E::BF16), (E::I8, E::I32), (E::I8, E::I8)][i % 5]
}

#[test]
fn every_two_arrangements_meet_and_are_exact() {
    for target in TARGETS {
        let Some(device) = device(target) else { return };
        let mut passes = [0; 3];
        for (i, a) in Arrangement::INPUTS.into_iter().enumerate() {
            for (j, b) in Arrangement::INPUTS.into_iter().enumerate() {
                let c = Arrangement::OUTPUTS[(i + j) % Arrangement::OUTPUTS.len()];
                let at = Arrangement::INPUTS.len() * i + j;
                let (operand, output) = types(target, i + 2 * j);
                let problem = Problem::new(M[at % 8], N[at % 7], K[(i + 3 * j) % 9])
                    .elements(operand, output)
                    .batch(1 + at % 2)
                    // By type, so that few kernels are compiled.
                    .beta([0.0, 2.0][(i + 2 * j) % 5 % 2]);
                let case =
                    Case::new(problem, Values::SmallIntegers(2), at as u64).arranged(a, b, c);
                let outcome = check_exact(&device, &case, &PlanOptions::default());
                let seen = |what: &str| outcome.notes.iter().any(|note| note.contains(what));
                passes[0] += usize::from(seen("A is copied to aligned rows"));
                passes[1] += usize::from(seen("A is copied in place"));
                passes[2] += usize::from(seen("a second pass stores C"));
            }
        }
        assert!(passes.iter().all(|&count| count > 5), "every way was taken: {passes:?}");
    }
}

#[test]
fn packed_types_lie_in_rows_and_columns() {
    let Some(device) = device(Target::Gfx950) else { return };
    use ElementType as E;
    for (i, a) in Arrangement::INPUTS.into_iter().enumerate() {
        let b = Arrangement::INPUTS[(i + 4) % Arrangement::INPUTS.len()];
        let c = Arrangement::OUTPUTS[i % 8];
        let int4 =
            Problem::new(M[i % 8], N[i % 7], K[i % 9]).factors(E::I8, E::I4).batch(1 + i % 2);
        let mut int4 = int4;
        int4.c = [E::I32, E::F32][i % 2];
        let mut fp4 = Problem::new(M[7 - i % 8], N[i % 7], 32 * (1 + i))
            .factors(E::F4E2M1, [E::F4E2M1, E::F8E4M3][i % 2])
            .block_scales(true)
            .batch(1 + i % 3);
        fp4.c = E::F32;
        for problem in [int4, fp4] {
            let case = Case::new(problem, Values::SmallIntegers(2), i as u64).arranged(a, b, c);
            check_exact(&device, &case, &PlanOptions::default());
        }
    }
}
