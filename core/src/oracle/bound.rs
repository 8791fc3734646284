//! The error a correct result may have; [`super::Reference::bound`] states the derivation.

use super::sum::Term;
use crate::element::ElementType;
use crate::epilogue::Activation;
use crate::problem::Problem;

/// γ_n(u) = n·u / (1 − n·u); infinite where n·u reaches 1 and the formula ends.
pub(super) fn gamma(n: f64, u: f64) -> f64 {
    let nu = n * u;
    if nu < 1.0 { nu / (1.0 - nu) } else { f64::INFINITY }
}

/// The type that alpha, beta, the bias and the activation are computed in.
pub(super) fn arithmetic(problem: &Problem) -> ElementType {
    match problem.accumulator() {
        ElementType::I32 => ElementType::F32,
        float => float,
    }
}

/// What a device is allowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    /// Whether subnormal numbers may count as zero.
    pub(super) flush: bool,
    /// Units of roundoff that an addition may be off by: 1 where it rounds, 2 where it truncates.
    pub(super) roundoff: f64,
    /// At most so many units of u·gauge for the sum, whatever K is; infinite for the worst case.
    pub(super) units: f64,
}

/// The bound for one element.
pub(super) fn bound(problem: &Problem, term: &Term, allowed: Allowance) -> f64 {
    if problem.c == ElementType::I32 {
        return 0.0;
    }
    let arithmetic = arithmetic(problem);
    let Allowance { flush, roundoff, units } = allowed;
    let u = roundoff * arithmetic.unit_roundoff();
    let k = if problem.reads_factors() { problem.k as f64 } else { 0.0 };
    let scales = f64::from(u8::from(problem.row_scale) + u8::from(problem.col_scale));
    let roundings = scales + if problem.accumulator() == ElementType::I32 { 5.0 } else { k + 4.0 };
    let mut error = gamma(roundings, u).min(units * u) * term.gauge;
    error += gamma(k + 4.0 + scales, ElementType::F64.unit_roundoff()) * term.gauge;
    let largest = term.gauge.max(term.product_gauge).max(term.reach) + error;
    if problem.accumulator().is_float() && largest > arithmetic.max_finite() {
        return f64::INFINITY;
    }
    if flush {
        let lost = (2.0 * k + 4.0 + scales) * problem.alpha.abs().max(term.reach).max(1.0);
        error += lost * arithmetic.min_normal() + term.subnormal;
    } else {
        // Gradual underflow loses at most half a subnormal a product; sums are then exact.
        let lost = (k + 4.0 + scales) * problem.alpha.abs().max(term.reach).max(1.0);
        error += lost * arithmetic.min_subnormal();
    }
    let twice = if arithmetic == ElementType::F64 { 2.0 } else { 1.0 };
    error = problem.activation.lipschitz() * error
        + twice * evaluation_error(problem.activation, term.sum, error, arithmetic);

    let value = problem.activation.apply(term.sum);
    error + output_error(problem.c, value, error, flush)
}

/// The error of evaluating an activation, in floats of type `arithmetic`, at a number no further
/// than `off` from `x`.
fn evaluation_error(activation: Activation, x: f64, off: f64, arithmetic: ElementType) -> f64 {
    let ulp = 2.0 * arithmetic.unit_roundoff();
    let vanishing = 128.0 * arithmetic.min_normal();
    let magnitude = x.abs() + off;
    match activation {
        Activation::None | Activation::Relu => 0.0,
        Activation::Silu => {
            let reflected = 1.0 / (1.0 + (x - off).exp());
            let ulps = (3.0 + 2.0 * magnitude) * reflected + 4.0;
            let value = activation.apply(x).abs() + activation.lipschitz() * off;
            ulps * ulp * value + vanishing
        }
        Activation::GeluTanh | Activation::GeluErf => 0.5 * magnitude * 10.0 * ulp + vanishing,
    }
}

/// What the conversion of `value`, known up to `error`, to the output type adds.
fn output_error(output: ElementType, value: f64, error: f64, flush: bool) -> f64 {
    if output == ElementType::I8 {
        return 0.5;
    }
    let rounded = output.unit_roundoff() * (value.abs() + error) + output.min_subnormal();
    let flushed = if flush && value.abs() - error < output.min_normal() {
        value.abs().min(output.min_normal())
    } else {
        0.0
    };
    rounded + flushed
}
