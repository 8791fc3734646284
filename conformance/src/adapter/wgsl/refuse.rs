//! What the WGSL backend refuses, and why: the suite's own knowledge, which plans must agree with.

use lapidary_core::KernelChoice;
use lapidary_wgsl::DeviceLimits;

use super::has_ways;
use crate::adapter::{Expectation, Outline, Refusal, Types, has_vectors};

/// Rows or columns that the skinny kernel computes at most.
const SKINNY: usize = 16;

/// What should become of `case` with `kernel` on a device with these limits that knows these types.
pub(super) fn expect(
    kernel: &KernelChoice,
    case: &Outline,
    known: &[Types],
    limits: &DeviceLimits,
) -> Expectation {
    let problem = &case.problem;
    if problem.block_scales {
        return Expectation::Refused(Refusal::Scales);
    }
    let groups = problem.b_group.is_some();
    let types = Types { groups, ..Types::of(problem.a, problem.b, problem.c) };
    if !known.contains(&types) {
        return Expectation::Refused(Refusal::ElementType);
    }
    // Whether there is anything to multiply or not.
    if *kernel == KernelChoice::Skinny && problem.m.min(problem.n) > SKINNY {
        return Expectation::Refused(Refusal::KernelUnsuitable);
    }
    // Vectors of A start at multiples of the width, in a row whose elements are neighbours.
    let width = match kernel {
        KernelChoice::Vectorized { width } => *width,
        KernelChoice::Policy(config) if !has_ways(kernel) => config.tile.load_width,
        _ => 1,
    };
    // Buffers are whole vectors, so the last one is never cut off.
    let reads = problem.reads_factors() && !problem.is_empty();
    if width > 1 && reads && !has_vectors(case, width) {
        return Expectation::Refused(Refusal::Loads);
    }
    // The pass from sums to C reads them, both scales and the bias, whether there is one or not.
    let scaled = problem.row_scale && problem.col_scale;
    let few = limits.storage_bindings < 5;
    if scaled && few && problem.reads_factors() && !problem.is_empty() {
        return Expectation::Refused(Refusal::LimitExceeded);
    }
    Expectation::Runs
}
