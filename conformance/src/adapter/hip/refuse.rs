//! What the HIP backend refuses, and why: the suite's own knowledge, which plans must agree with.

use lapidary_core::{Error, KernelChoice, MatrixKernel, Movement};
use lapidary_hip::HipError;
use lapidary_hip::runtime::RuntimeError;

use crate::adapter::{Expectation, Outline, Refusal, Types, has_rows, has_vectors};
use crate::spec::Route;

/// What should become of `case` with `kernel` on a target that knows these types.
pub(super) fn expect(
    kernel: &KernelChoice,
    case: &Outline,
    route: Route,
    known: &[Types],
) -> Expectation {
    let problem = &case.problem;
    let types = Types {
        elements: [problem.a, problem.b, problem.c],
        block_scales: problem.block_scales,
        groups: problem.b_group.is_some(),
    };
    if !known.contains(&types) {
        return Expectation::Refused(Refusal::ElementType);
    }
    if problem.is_empty() || !problem.reads_factors() {
        return Expectation::Runs;
    }
    match *kernel {
        // Single elements are loaded whatever the strides.
        KernelChoice::Vectorized { width } if width > 1 && !has_vectors(case, width) => {
            Expectation::Refused(Refusal::Loads)
        }
        KernelChoice::Policy(config)
            if config.tile.load_width > 1 && !has_vectors(case, config.tile.load_width) =>
        {
            Expectation::Refused(Refusal::Loads)
        }
        KernelChoice::Occupancy(_) if !has_vectors(case, 4) => Expectation::Refused(Refusal::Loads),
        KernelChoice::Matrix(MatrixKernel { tile: Some(tile), splits, movement, .. }) => {
            // Rows whole vectors apart are read in place: then the first must start at one too.
            let width = 128 / problem.a.bits();
            let offset_alone = has_rows(case, width) && !has_vectors(case, width);
            if splits.is_some_and(|splits| splits > problem.k.div_ceil(tile[2])) {
                Expectation::Refused(Refusal::KernelUnsuitable)
            } else if movement != Some(Movement::Guarded) && offset_alone && route != Route::Host {
                Expectation::Refused(Refusal::Loads)
            } else {
                Expectation::Runs
            }
        }
        _ => Expectation::Runs,
    }
}

/// Whether an error is something that the emulator's checks found.
pub(super) fn is_finding(error: &Error) -> bool {
    matches!(error, Error::Backend { source, .. } if matches!(
        source.downcast_ref::<HipError>(),
        Some(HipError::Runtime(RuntimeError::Finding { .. }))
    ))
}
