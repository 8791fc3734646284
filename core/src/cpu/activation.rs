//! Activations in f32, written so that loops over them vectorise.

use core::f32::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use crate::epilogue::{Activation, SQRT_2_OVER_PI};

/// Replaces each value by the activation of it.
///
/// Both sigmoid forms are x / (1 + e⁻ᶻ), which for gelu is the tanh form rewritten:
/// ½(1 + tanh y) = 1 / (1 + e⁻²ʸ). Infinite x gives +∞ and −∞/∞ = NaN, as the definition does.
pub(super) fn apply(activation: Activation, values: &mut [f32]) {
    const FACTOR: f32 = -2.0 * SQRT_2_OVER_PI as f32;
    match activation {
        Activation::None => {}
        Activation::Relu => map(values, |x| if x < 0.0 { 0.0 } else { x }),
        Activation::Silu => map(values, |x| x / (1.0 + (-x).exp())),
        Activation::GeluTanh => {
            map(values, |x| x / (1.0 + (FACTOR * (x + 0.044715 * x * x * x)).exp()));
        }
        Activation::GeluErf => map(values, |x| 0.5 * x * (1.0 + erf(x * FRAC_1_SQRT_2))),
    }
}

fn map(values: &mut [f32], f: impl Fn(f32) -> f32) {
    for value in values {
        *value = f(*value);
    }
}

/// erf within 4·10⁻⁷ (measured 3.7); NaN counts as ±1, its caller multiplies by it.
///
/// x · P(x²) / Q(x²) with both of degree 5, fitted to the absolute error of erf on [0, 3.92]
/// (1.6·10⁻⁸ before rounding to f32; iteratively reweighted least squares on Chebyshev points). All
/// coefficients are positive, so nothing cancels. From 3.92 on erf is 1 to the precision of f32.
fn erf(x: f32) -> f32 {
    const P: [f32; 6] =
        [FRAC_2_SQRT_PI, 0.192_759_78, 0.053_059_917, 3.868_142e-3, 2.874_748_7e-4, 2.034_764_8e-6];
    const Q: [f32; 6] =
        [1.0, 0.504_160_6, 0.115_082_85, 0.015_171_929, 1.188_069_3e-3, 3.807_071e-5];
    let t = x * x;
    let horner = |c: [f32; 6]| c[0] + t * (c[1] + t * (c[2] + t * (c[3] + t * (c[4] + t * c[5]))));
    let inner = x * horner(P) / horner(Q);
    if x.abs() < 3.92 { inner } else { 1f32.copysign(x) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_is_as_close_as_stated() {
        let mut worst: f64 = 0.0;
        for i in -60_000..=60_000 {
            let x = i as f32 * 1e-4;
            worst = worst.max((f64::from(erf(x)) - libm::erf(f64::from(x))).abs());
        }
        assert!(worst < 4e-7, "{worst}");
        assert_eq!(erf(f32::INFINITY), 1.0);
        assert_eq!(erf(-4.0), -1.0);
        assert_eq!(erf(-0.0).to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn values_are_those_of_the_definition() {
        for activation in Activation::ALL {
            for i in -2000..2000 {
                let x = i as f32 * 0.01;
                let mut y = [x];
                apply(activation, &mut y);
                let expected = activation.apply(f64::from(x));
                let error = (f64::from(y[0]) - expected).abs();
                // Half of |x| times a few ulp of 1, as the oracle allows.
                assert!(error <= 5e-7 * f64::from(x.abs()) + 1e-35, "{activation}({x}): {error}");
            }
        }
    }
}
