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
    /// The type of the sums of products, where it is narrower than what the epilogue computes in.
    pub(super) sums: Option<ElementType>,
}

/// The type that `problem` may be summed in besides the one it is computed in: `sums`, if narrower.
/// Sums of integers are exact.
pub(super) fn narrower(problem: &Problem, sums: ElementType) -> Option<ElementType> {
    let own = problem.accumulator();
    let narrower = sums.is_float() && sums.unit_roundoff() > own.unit_roundoff();
    (own.is_float() && narrower).then_some(sums)
}

/// Roundings that the longest way of a product to the result passes, as numbers to compute with.
struct Lengths {
    /// K, as far as it is summed.
    k: f64,
    /// 1 with group scales.
    groups: f64,
    /// Those of the epilogue, scales of rows and columns among them.
    epilogue: f64,
}

fn lengths(problem: &Problem) -> Lengths {
    let [groups, row, col] = [problem.b_group.is_some(), problem.row_scale, problem.col_scale]
        .map(|scaled| f64::from(u8::from(scaled)));
    let k = if problem.reads_factors() { problem.k as f64 } else { 0.0 };
    Lengths { k, groups, epilogue: 4.0 + row + col }
}

/// Error ÷ gauge of the sum and the epilogue: the device's roundings and the oracle's own.
#[derive(Clone, Copy)]
struct Relative {
    /// What counts only for the part of the gauge that is the product's: 0 unless sums are narrower.
    product: f64,
    /// What counts for the whole gauge.
    whole: f64,
}

impl Relative {
    fn of(problem: &Problem, allowed: Allowance) -> Self {
        let Lengths { k, groups, epilogue } = lengths(problem);
        let u = allowed.roundoff * arithmetic(problem).unit_roundoff();
        let summed = groups + if problem.accumulator() == ElementType::I32 { 1.0 } else { k };
        let own = gamma(k + groups + epilogue, ElementType::F64.unit_roundoff());
        let Some(sums) = allowed.sums else {
            let whole = gamma(summed + epilogue, u).min(allowed.units * u) + own;
            return Self { product: 0.0, whole };
        };
        let narrow = allowed.roundoff * sums.unit_roundoff();
        let product = gamma(summed, narrow).min(allowed.units * narrow);
        let epilogue = gamma(epilogue, u);
        Self { product: product * (1.0 + epilogue), whole: epilogue + own }
    }

    fn total(self) -> f64 {
        self.product + self.whole
    }

    /// The error of the whole sum.
    fn error(self, term: &Term) -> f64 {
        let whole = self.whole * term.gauge;
        if self.product == 0.0 {
            return whole;
        }
        self.product * (term.factor.abs() * term.product_gauge) + whole
    }
}

/// What underflow loses of one element.
struct Lost {
    /// In sums of a narrower type, before alpha multiplies them.
    product: f64,
    /// In these and all the rest, at the end.
    whole: f64,
}

fn lost(problem: &Problem, term: &Term, allowed: Allowance) -> Lost {
    let Lengths { k, groups, epilogue } = lengths(problem);
    let growth = problem.alpha.abs().max(term.reach).max(1.0);
    // Gradual underflow loses at most half a subnormal a product; sums are then exact.
    let summed = groups + if allowed.flush { 2.0 * k } else { k };
    let step = |element: ElementType| match allowed.flush {
        true => element.min_normal(),
        false => element.min_subnormal(),
    };
    let arithmetic = step(arithmetic(problem));
    let Some(sums) = allowed.sums else {
        return Lost { product: 0.0, whole: (summed + epilogue) * growth * arithmetic };
    };
    let in_sums = summed * step(sums) * (1.0 + Relative::of(problem, allowed).total());
    let product = if problem.b_group.is_some() { growth * in_sums } else { in_sums };
    Lost { product, whole: growth * in_sums + epilogue * growth * arithmetic }
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
    let narrowest = allowed.sums.unwrap_or(arithmetic).max_finite();
    let largest = arithmetic.max_finite();
    let relative = Relative::of(problem, allowed);
    if term.non_finite {
        // An infinity among the operands decides, unless the rest reaches the other one.
        let most = 1.0 + relative.total();
        let invalid = most * term.finite_gauge > largest || most * term.finite_product > narrowest;
        return Overflow { invalid, ..Overflow::default() };
    }
    // Scales of groups may be applied within the sum, those of rows and columns after it.
    let reachable = if problem.b_group.is_some() { narrowest } else { largest };
    if (1.0 + relative.total()) * term.reach > reachable {
        return Overflow { positive: true, negative: true, invalid: true };
    }
    // The positive terms of a sum and, as a magnitude, its negative ones. Halved first: a gauge may
    // be half of what f64 holds.
    let sides = |sum: f64, gauge: f64, error: f64, limit: f64| {
        [0.5 * gauge + 0.5 * sum, 0.5 * gauge - 0.5 * sum].map(|side| side + error > limit)
    };
    let lost = if allowed.sums.is_some() {
        lost(problem, term, allowed)
    } else {
        // Nothing next to the largest number of a type as wide as the arithmetic.
        Lost { product: 0.0, whole: 0.0 }
    };
    let mut products = [false; 2];
    if problem.accumulator().is_float() {
        let error = relative.total() * term.product_gauge + lost.product;
        products = sides(term.product, term.product_gauge, error, narrowest);
        if term.factor < 0.0 {
            products.reverse();
        }
    }
    let error = relative.error(term) + lost.whole;
    let [positive, negative] = sides(term.sum, term.gauge, error, largest);
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
    let relative = Relative::of(problem, allowed);
    let mut error = relative.error(term);
    if relative.product == f64::INFINITY || error == f64::INFINITY {
        return f64::INFINITY;
    }
    let lost = lost(problem, term, allowed).whole;
    error += if flush { lost + term.subnormal } else { lost };
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
