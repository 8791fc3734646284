//! Which element types a target multiplies.

use lapidary_core::{ElementType, Error, Problem};

use super::DeviceFacts;
use crate::preshuffle::{OPERANDS, only_on};
use crate::target::Target;

/// The longest K of i8 × i4: the kernel sums products 16 times too large in 32 bits, and
/// 131,071 · 128 · 8 · 16 < 2³¹.
const MAX_K_W4A8: usize = 131_071;

/// Checks that the target multiplies what the problem asks for.
///
/// # Errors
/// [`Error::ElementTypeUnavailable`] with what would be needed, or [`Error::LimitExceeded`].
pub(super) fn check(problem: &Problem, facts: &DeviceFacts) -> Result<(), Error> {
    let unavailable = |element, needs| {
        Err(Error::ElementTypeUnavailable { backend: facts.name.clone(), element, needs })
    };
    if problem.is_weight_only() {
        return unavailable(
            problem.b,
            "activations of i8, or the CPU or WGSL backend for weights of wider activations",
        );
    }
    for element in [problem.a, problem.b] {
        if element == ElementType::F64 {
            return unavailable(element, "the CPU backend, or f32 operands");
        }
        if !facts.target.has_preshuffle() {
            if element != ElementType::F32 {
                return unavailable(
                    element,
                    "the matrix cores of gfx942 or gfx950; here the scalar kernel multiplies f32",
                );
            }
            continue;
        }
        if !OPERANDS.contains(&element) {
            return unavailable(element, "an operand type of the matrix cores");
        }
        match (only_on(element), facts.target) {
            (Some(only), target) if only != target => {
                return unavailable(element, needed(element, only));
            }
            _ => {}
        }
    }
    if problem.block_scales && facts.target != Target::Gfx950 {
        return unavailable(problem.a, "gfx950, whose matrix cores apply block scales");
    }
    if problem.b == ElementType::I4 && problem.reads_factors() && problem.k > MAX_K_W4A8 {
        return Err(Error::LimitExceeded {
            what: "K of i8 x i4, whose sums are kept 16 times too large,",
            requested: problem.k as u128,
            limit: MAX_K_W4A8 as u128,
        });
    }
    Ok(())
}

fn needed(element: ElementType, only: Target) -> &'static str {
    match (element, only) {
        (ElementType::F4E2M1, _) => "gfx950, whose matrix cores read f4e2m1",
        (_, Target::Gfx942) => "gfx942, or the OCP flavour, f8e4m3 or f8e5m2, which gfx950 reads",
        _ => "gfx950, or the FNUZ flavour, f8e4m3fnuz or f8e5m2fnuz, which gfx942 reads",
    }
}
