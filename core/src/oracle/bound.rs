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

/// Roundings that the longest way of a product to the result passes, as numbers to compute with: K
/// as far as it is summed, and the scales.
fn lengths(problem: &Problem) -> (f64, f64) {
    let k = if problem.reads_factors() { problem.k as f64 } else { 0.0 };
    let scales = [problem.row_scale, problem.col_scale, problem.b_group.is_some()];
    (k, scales.into_iter().filter(|&scaled| scaled).count() as f64)
}

/// Error ÷ gauge of the sum and the epilogue: the device's roundings and the oracle's own.
fn relative_error(problem: &Problem, allowed: Allowance) -> f64 {
    let (k, scales) = lengths(problem);
    let u = allowed.roundoff * arithmetic(problem).unit_roundoff();
    let roundings = scales + if problem.accumulator() == ElementType::I32 { 5.0 } else { k + 4.0 };
    gamma(roundings, u).min(allowed.units * u)
        + gamma(k + 4.0 + scales, ElementType::F64.unit_roundoff())
}

/// What a sum of finite numbers may become on its way to the activation, through overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Overflow {
    /// +∞.
    pub(super) positive: bool,
    /// −∞.
    pub(super) negative: bool,
    /// NaN: ∞ − ∞, or ∞ · 0.
    pub(super) invalid: bool,
}

impl Overflow {
    /// Whether anything may overflow.
    pub(super) fn any(self) -> bool {
        self.positive || self.negative || self.invalid
    }
}

/// What may overflow in one element; [`super::Reference::compare`] states the derivation.
pub(super) fn overflow(problem: &Problem, term: &Term, allowed: Allowance) -> Overflow {
    if problem.c == ElementType::I32 {
        return Overflow::default();
    }
    let arithmetic = arithmetic(problem);
    let relative = relative_error(problem, allowed);
    let exceeds = |magnitude: f64| magnitude > arithmetic.max_finite();
    if term.non_finite {
        // An infinity among the operands decides, unless the rest reaches the other one.
        let invalid = exceeds((1.0 + relative) * term.finite_gauge);
        return Overflow { invalid, ..Overflow::default() };
    }
    if exceeds((1.0 + relative) * term.reach) {
        return Overflow { positive: true, negative: true, invalid: true };
    }
    // The positive terms of a sum and, as a magnitude, its negative ones. Halved first: a gauge may
    // be half of what f64 holds.
    let sides = |sum: f64, gauge: f64| {
        [0.5 * gauge + 0.5 * sum, 0.5 * gauge - 0.5 * sum]
            .map(|side| exceeds(side + relative * gauge))
    };
    let mut products = [false; 2];
    if problem.accumulator().is_float() {
        products = sides(term.product, term.product_gauge);
        if term.factor < 0.0 {
            products.reverse();
        }
    }
    let [positive, negative] = sides(term.sum, term.gauge);
    let [positive, negative] = [positive || products[0], negative || products[1]];
    let vanishing = term.factor.abs() < arithmetic.min_normal();
    let invalid = (positive && negative) || ((products[0] || products[1]) && vanishing);
    Overflow { positive, negative, invalid }
}

/// The bound for one element, were there no overflow.
pub(super) fn bound(problem: &Problem, term: &Term, allowed: Allowance) -> f64 {
    if problem.c == ElementType::I32 {
        return 0.0;
    }
    let arithmetic = arithmetic(problem);
    let flush = allowed.flush;
    let (k, scales) = lengths(problem);
    let mut error = relative_error(problem, allowed) * term.gauge;
    if error == f64::INFINITY {
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
