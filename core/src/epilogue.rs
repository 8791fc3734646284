//! What happens to the product before it is stored.

use core::fmt;

/// An activation function, applied after alpha, beta and bias and before the output conversion.
///
/// Each is defined by its `f64` formula; the values at the edges follow from it:
///
/// | | x = +∞ | x = −∞ | x = −0 | x = NaN |
/// |-|-|-|-|-|
/// | relu | +∞ | 0 | −0 | NaN |
/// | silu | +∞ | NaN (−∞·0) | −0 | NaN |
/// | gelu, both forms | +∞ | NaN (−∞·0) | −0 | NaN |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Activation {
    /// x.
    #[default]
    None,
    /// x if x > 0 or x is NaN, −0 for −0, else 0. A maximum would lose the NaN; this is a compare
    /// and a select.
    Relu,
    /// x / (1 + e⁻ˣ).
    Silu,
    /// ½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
    GeluTanh,
    /// ½·x·(1 + erf(x/√2)).
    GeluErf,
}

impl Activation {
    /// Every activation.
    pub const ALL: [Self; 5] = [Self::None, Self::Relu, Self::Silu, Self::GeluTanh, Self::GeluErf];

    /// The name used in plans, messages and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Relu => "relu",
            Self::Silu => "silu",
            Self::GeluTanh => "gelu-tanh",
            Self::GeluErf => "gelu-erf",
        }
    }

    /// The function's value in `f64`.
    #[must_use]
    pub fn apply(self, x: f64) -> f64 {
        match self {
            Self::None => x,
            Self::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Self::Silu => x * (1.0 / (1.0 + (-x).exp())),
            Self::GeluTanh => {
                let inner = SQRT_2_OVER_PI * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + inner.tanh())
            }
            Self::GeluErf => 0.5 * x * (1.0 + libm::erf(x * core::f64::consts::FRAC_1_SQRT_2)),
        }
    }

    /// An upper bound on |f′|: how much an error in the argument can grow.
    ///
    /// silu's steepest slope is 1.0998 (at x ≈ 2.3994), gelu's 1.1290 (at x = √2).
    #[must_use]
    pub const fn lipschitz(self) -> f64 {
        match self {
            Self::None | Self::Relu => 1.0,
            Self::Silu => 1.1,
            Self::GeluTanh | Self::GeluErf => 1.13,
        }
    }
}

/// √(2/π), the factor of the tanh form of gelu.
pub const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_at_the_edges() {
        for activation in Activation::ALL {
            assert!(activation.apply(f64::NAN).is_nan(), "{activation}");
            assert_eq!(activation.apply(f64::INFINITY), f64::INFINITY, "{activation}");
            assert_eq!(activation.apply(-0.0).to_bits(), (-0.0f64).to_bits(), "{activation}");
        }
        assert_eq!(Activation::Relu.apply(f64::NEG_INFINITY), 0.0);
        for activation in [Activation::Silu, Activation::GeluTanh, Activation::GeluErf] {
            assert!(activation.apply(f64::NEG_INFINITY).is_nan(), "{activation}");
        }
    }

    #[test]
    fn known_values() {
        approx::assert_relative_eq!(
            Activation::GeluErf.apply(1.0),
            0.841_344_746_068_542_9,
            epsilon = 1e-15
        );
        approx::assert_relative_eq!(
            Activation::Silu.apply(1.0),
            0.731_058_578_630_004_9,
            epsilon = 1e-15
        );
        approx::assert_relative_eq!(
            Activation::GeluTanh.apply(1.0),
            0.841_191_990_608_276,
            epsilon = 1e-12
        );
    }

    #[test]
    fn slopes_stay_below_the_stated_bound() {
        for activation in Activation::ALL {
            let mut steepest: f64 = 0.0;
            for i in -80_000..80_000 {
                let x = f64::from(i) * 1e-4;
                let slope = (activation.apply(x + 1e-4) - activation.apply(x)) / 1e-4;
                steepest = steepest.max(slope.abs());
            }
            assert!(steepest <= activation.lipschitz() + 1e-6, "{activation}: {steepest}");
        }
    }
}
