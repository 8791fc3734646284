//! A layer of a real transformer, on every backend and by every step, against results that were
//! computed in float64 elsewhere.

mod support;

use lapidary_core::ElementType;
use support::{Folder, LAYER, has_wgsl_device, layer, succeed};

/// One product of the layer.
struct Case {
    weight: &'static str,
    bias: &'static str,
    expected: &'static str,
    activation: Option<&'static str>,
    /// Largest slope of the activation, by which an error in its argument can grow.
    slope: f64,
}

const CASES: [Case; 3] = [
    Case {
        weight: "query.weight",
        bias: "query.bias",
        expected: "query.linear",
        activation: None,
        slope: 1.0,
    },
    Case {
        weight: "ffn.weight",
        bias: "ffn.bias",
        expected: "ffn.linear",
        activation: None,
        slope: 1.0,
    },
    Case {
        weight: "ffn.weight",
        bias: "ffn.bias",
        expected: "ffn.gelu_erf",
        activation: Some("gelu-erf"),
        slope: 1.13,
    },
];

/// Rounding errors of an f32 evaluation of erf-form GELU, in units of |x|·u: the shader's
/// approximation of erf is good to 1.5e-7 (2.5 u), and three operations follow it.
const ACTIVATION_ROUNDINGS: f64 = 8.0;

/// What a case must give: shape, values, and how far off each value may be.
struct Expected {
    shape: Vec<u64>,
    values: Vec<f64>,
    bounds: Vec<f64>,
}

impl Case {
    /// The bound is that of a sum of K products and a bias, added in any order in arithmetic of the
    /// unit roundoff of `element`.
    fn expected(&self, element: ElementType) -> Expected {
        let (shape, values) = layer(self.expected);
        let (a_shape, a) = layer("activations");
        let (_, weight) = layer(self.weight);
        let (_, bias) = layer(self.bias);
        let (k, n) = (a_shape[1], shape[1]);
        let u = element.unit_roundoff();
        let roundings = (k + 1) as f64;
        let gamma = roundings * u / (1.0 - roundings * u);
        // The expected values come from sums in float64 themselves.
        let gamma = gamma + roundings * ElementType::F64.unit_roundoff();
        let bounds = values.iter().enumerate().map(|(index, value)| {
            let (row, col) = (index / n, index % n);
            let products = a[row * k..][..k].iter().zip(&weight[col * k..][..k]);
            let size = products.map(|(a, b)| (a * b).abs()).sum::<f64>() + bias[col].abs();
            let activation = self.activation.map_or(0.0, |_| ACTIVATION_ROUNDINGS * size);
            self.slope * gamma * size + u * (activation + value.abs())
        });
        let bounds = bounds.collect();
        Expected { shape: shape.iter().map(|&length| length as u64).collect(), values, bounds }
    }

    /// Runs the case with more arguments and checks each element.
    fn check(&self, element: ElementType, expected: &Expected, arguments: &[&str]) {
        let folder = Folder::new();
        let output = folder.at("c.npy");
        let operand = |name: &str| format!("{LAYER}:{name}");
        let (a, b, bias) = (operand("activations"), operand(self.weight), operand(self.bias));
        let mut line = vec!["run", &a, &b, "--trans-b", "--bias", &bias, "-o", &output];
        if let Some(activation) = self.activation {
            line.extend(["--activation", activation]);
        }
        line.extend(arguments);
        succeed(&line);

        let (shape, found) = match element {
            ElementType::F64 => folder.read::<f64>("c.npy"),
            _ => {
                let (shape, values) = folder.read::<f32>("c.npy");
                (shape, values.into_iter().map(f64::from).collect())
            }
        };
        assert_eq!(shape, expected.shape);
        assert_eq!(found.len(), expected.values.len());
        for (index, found) in found.iter().enumerate() {
            let (value, bound) = (expected.values[index], expected.bounds[index]);
            let error = (found - value).abs();
            // Written so that a NaN fails.
            assert!(
                error <= bound,
                "{} {arguments:?} [{index}]: {found} for {value}, off by {error:e}, bound {bound:e}",
                self.expected
            );
        }
    }
}

#[test]
fn the_cpu_reproduces_the_layer_in_f32() {
    for case in &CASES {
        let expected = case.expected(ElementType::F32);
        case.check(ElementType::F32, &expected, &["--backend", "cpu", "--check"]);
    }
}

#[test]
fn the_cpu_reproduces_the_layer_in_f64() {
    for case in &CASES {
        let expected = case.expected(ElementType::F64);
        let arguments = ["--backend", "cpu", "--dtype", "f64", "--check"];
        case.check(ElementType::F64, &expected, &arguments);
    }
}

#[test]
fn every_step_reproduces_the_layer() {
    if !has_wgsl_device() {
        return;
    }
    for case in &CASES {
        let expected = case.expected(ElementType::F32);
        case.check(ElementType::F32, &expected, &["--backend", "wgsl", "--check"]);
        for step in ["1", "2", "3", "4", "5", "6", "7"] {
            case.check(ElementType::F32, &expected, &["--backend", "wgsl", "--step", step]);
        }
    }
}
