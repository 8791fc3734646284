//! How far a right result may be from the exact one.

use lapidary_core::{Activation, ElementType};
use lapidary_hip::preshuffle::PreshuffleConfig;

use super::emulate::Outcome;

/// Half a unit in the last place of f32, relative.
const U: f64 = 1.0 / (1u64 << 24) as f64;

/// The error of the kernel's activation at `x`, an argument in f32.
///
/// Each operation rounds to `U`; exp2 and the reciprocal are right to one unit, 2·`U`.
///
/// - silu, x·rcp(1 + exp2(−log2(e)·x)): the exponent's error of 2·`U` relative is |x|·2·`U` relative
///   to the exponential, of which the part σ(−x) reaches the sum; exp2, the sum, the reciprocal and
///   the product add 6·`U`.
/// - gelu's tanh form is the same of 2u, u = √(2/π)·(x + 0.044715·x³), whose constants and five
///   operations give 8·`U` relative; with the factor 2·log2(e), 10·`U`.
/// - gelu's erf form is x/2·(2 − erfc) or x/2·erfc: the series is right to 1.5e-7 absolute; five steps
///   of Horner's rule on values below 1.5 add 8·`U` for their roundings and 3·`U` for the constants',
///   t = rcp(1 + p·z) 4·`U` times the slope of the series, below 1.5; exp2's argument −log2(e)·z² has
///   4·`U` relative, which is at most 4·`U`·z²·exp(−z²) < 2·`U`; exp2 and three products 5·`U`.
///
/// Where the exponential overflows the result is a zero in place of x·exp(−|x|) < 2⁻¹¹⁸. The reference,
/// in f64, forms 1 + tanh and 1 + erf, which cancel: x·2⁻⁵².
pub(crate) fn activation_error(activation: Activation, x: f64) -> f64 {
    let logistic = |t: f64| 1.0 / (1.0 + (-t).exp());
    let y = activation.apply(x).abs();
    let tiny = 2f64.powi(-118) + x.abs() * 2f64.powi(-52);
    match activation {
        Activation::Silu => y * (2.0 * x.abs() * logistic(-x) + 6.0) * U + tiny,
        Activation::GeluTanh => {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            y * (10.0 * 2.0 * u.abs() * logistic(-2.0 * u) + 6.0) * U + tiny
        }
        Activation::GeluErf => {
            x.abs() / 2.0 * (1.5e-7 + (8.0 + 3.0 + 6.0 + 2.0 + 5.0) * U) + 2.0 * y * U + tiny
        }
        _ => 0.0,
    }
}

/// The error an element may have before it is rounded to the output type.
///
/// Every addition of the sum rounds or truncates to 24 bits relative to the largest term: 2·`U`, K of
/// them. The epilogue's six operations round once each. The activation passes the error on with its
/// steepest slope, and adds its own.
pub(crate) fn reached(config: &PreshuffleConfig, k: usize, outcome: &Outcome, index: usize) -> f64 {
    let [sum, added] = outcome.magnitudes[index];
    let activation = config.epilogue.activation;
    // An integer sum is exact, and so is an epilogue in i32.
    let of_sum = if config.a.is_float() { 2.0 * k as f64 * U * sum } else { 0.0 };
    let of_epilogue = if config.output == ElementType::I32 { 0.0 } else { 7.0 * U * (sum + added) };
    let argument = of_sum + of_epilogue;
    let x = outcome.arguments[index];
    activation.lipschitz() * argument + activation_error(activation, x)
}

/// Whether `found` is `expected`, off by at most `error` and then rounded to the output type.
pub(crate) fn is_within(output: ElementType, found: f64, expected: f64, error: f64) -> bool {
    // Half a unit in the last place, relative; half the least subnormal; the largest number, and
    // what rounds to infinity past it.
    let (relative, least, limit) = match output {
        ElementType::F16 => (2f64.powi(-11), 2f64.powi(-25), 65_520.0),
        ElementType::BF16 => (2f64.powi(-8), 2f64.powi(-134), f64::from(f32::MAX)),
        ElementType::I32 => (0.0, 0.0, f64::INFINITY),
        _ => (U, 2f64.powi(-150), f64::from(f32::MAX)),
    };
    if found.is_infinite() {
        return found.signum() == expected.signum() && expected.abs() + error >= limit;
    }
    let largest = expected.abs() + error;
    (found - expected).abs() <= error + largest * relative + least
}
