//! The oracle's bound against the formula that [`Reference::bound`] documents, written out anew.

use lapidary_core::oracle::Reference;
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{Activation, ElementType, Problem};

use super::{Fault, ensure, reference};

/// Largest relative difference of two evaluations of the formula: it tells the oracle's own rounding,
/// 2⁻²⁹ of the whole in f32, from nothing.
const HAIR: f64 = 1e-10;

/// Elements of A, B and C, and what scales there are besides those of rows and columns.
struct Types {
    elements: [ElementType; 3],
    groups: bool,
    blocks: bool,
}

impl Types {
    const fn of(a: ElementType, b: ElementType, c: ElementType) -> Self {
        Self { elements: [a, b, c], groups: false, blocks: false }
    }
}

const TYPES: [Types; 11] = {
    use ElementType as E;
    [
        Types::of(E::F32, E::F32, E::F32),
        Types::of(E::F16, E::F16, E::F16),
        Types::of(E::F16, E::F16, E::F32),
        Types::of(E::BF16, E::BF16, E::BF16),
        Types::of(E::F64, E::F64, E::F64),
        Types::of(E::I8, E::I8, E::I8),
        Types::of(E::I8, E::I8, E::F32),
        Types::of(E::I8, E::I8, E::F16),
        Types::of(E::I8, E::I8, E::I32),
        Types { elements: [E::BF16, E::I4, E::F32], groups: true, blocks: false },
        Types { elements: [E::F4E2M1, E::F4E2M1, E::F32], groups: false, blocks: true },
    ]
};

/// Alpha, beta, bias, scales of rows, scales of columns.
const EPILOGUES: [(f64, f64, bool, bool, bool); 6] = [
    (1.0, 0.0, false, false, false),
    (-2.0, 3.0, true, false, false),
    (3.0, 0.0, false, true, false),
    (1.0, -2.0, true, true, true),
    (0.0, 2.0, true, false, false),
    (-5.0, 0.0, true, false, true),
];

/// What a device is allowed: subnormal numbers as zero, truncating additions, units of random sums, sums
/// in another type.
#[derive(Clone, Copy, Debug)]
struct Device {
    flushes: bool,
    truncates: bool,
    units: Option<f64>,
    sums: Option<ElementType>,
}

/// Compares both, both ways, for every output type, activation, epilogue and allowance.
pub(super) fn bounds() -> Result<(), Fault> {
    let devices = [(false, false), (true, false), (false, true), (true, true)]
        .into_iter()
        .zip([Some(8.0), None, None, Some(40.0)])
        .flat_map(|((flushes, truncates), units)| {
            [None, units].map(|units| Device { flushes, truncates, units, sums: None })
        })
        .flat_map(|device| {
            [None, Some(ElementType::F16), Some(ElementType::BF16), Some(ElementType::F32)]
                .map(|sums| Device { sums, ..device })
        });
    let devices: Vec<Device> = devices.collect();
    for types in &TYPES {
        for (alpha, beta, bias, row_scale, col_scale) in EPILOGUES {
            for activation in Activation::ALL {
                let [a, b, c] = types.elements;
                let integer = c == ElementType::I32;
                let smooth = !matches!(activation, Activation::None | Activation::Relu);
                let scaled = row_scale || col_scale;
                // Neither smooth activations nor scales have integers, scales have no f64.
                if (integer && (smooth || scaled)) || (c == ElementType::F64 && scaled) {
                    continue;
                }
                let k = if types.groups || types.blocks { 64 } else { 33 };
                let problem = Problem::new(4, 5, k)
                    .elements(a, c)
                    .factors(a, b)
                    .alpha(alpha)
                    .beta(beta)
                    .bias(bias)
                    .row_scale(row_scale)
                    .col_scale(col_scale)
                    .b_group(types.groups.then_some(32))
                    .block_scales(types.blocks)
                    .activation(activation);
                for &device in &devices {
                    check(&case(problem.clone()), device)?;
                }
            }
        }
    }
    Ok(())
}

/// Random operands; where A is a float its first row is 0 and its second has nothing but a subnormal
/// number, and C and the bias leave the first column to them, so that underflow is all there is.
fn case(problem: Problem) -> Case {
    let [rows, columns] = [Arrangement::Dense, Arrangement::ColMajor];
    let mut case = Case::build(problem, Values::Uniform, 23, [rows, columns, rows]);
    let element = case.problem.a;
    if element.is_float() {
        case.a.map(|_, row, k, value| match (row, k) {
            (1, 2) => element.min_subnormal(),
            (0 | 1, _) => 0.0,
            _ => value,
        });
        case.c.map(|_, _, col, value| if col == 0 { 0.0 } else { value });
        case.bias[..case.problem.bias_element().size()].fill(0);
    }
    case
}

fn check(case: &Case, device: Device) -> Result<(), Fault> {
    let mut reference = reference(case)?;
    if !device.flushes {
        reference = reference.keeping_subnormals();
    }
    if device.truncates {
        reference = reference.truncating();
    }
    if let Some(units) = device.units {
        reference = reference.within_units(units);
    }
    if let Some(sums) = device.sums {
        reference = reference.summing_in(sums);
    }
    let Problem { n, activation, c, .. } = case.problem;
    for index in 0..case.problem.m * n {
        let formula = formula(case, &reference, device, index);
        let found = reference.bound(index);
        // Multiples of f64's smallest number round as well.
        let hair = HAIR * formula + f64::from_bits(8);
        ensure((found - formula).abs() <= hair, || {
            format!(
                "the bound of element {index} is {found:e}, the formula gives {formula:e}: {} to {c}, \
                 {activation}, alpha {}, beta {}, {device:?}",
                case.problem.a, case.problem.alpha, case.problem.beta
            )
        })?;
    }
    Ok(())
}

/// Unit roundoff, smallest subnormal and smallest normal number, as the standards have them.
fn format(element: ElementType) -> [f64; 3] {
    let [bits, subnormal, normal] = match element {
        ElementType::F64 => [53, 1074, 1022],
        ElementType::F16 => [11, 24, 14],
        ElementType::BF16 => [8, 133, 126],
        _ => [24, 149, 126],
    };
    [bits, subnormal, normal].map(|exponent| match exponent {
        // 2⁻¹⁰⁷⁴ is no power that `powi` need get right.
        1074 => f64::from_bits(1),
        exponent => 2f64.powi(-exponent),
    })
}

/// An element's terms, as the bound's documentation names them.
#[derive(Default)]
struct Terms {
    sum: f64,
    gauge: f64,
    /// The part of the gauge that is the product's.
    product: f64,
    subnormal: f64,
    /// The most that anything lost on the way may grow by.
    growth: f64,
}

fn terms(case: &Case, row: usize, col: usize) -> Terms {
    let problem = &case.problem;
    let operands = case.operands();
    let small = |value: f64, element: ElementType| {
        value != 0.0
            && element.is_float()
            && element.bits() >= 16
            && value.abs() < format(element)[2]
    };
    let mut terms = Terms { growth: problem.alpha.abs().max(1.0), ..Terms::default() };
    if problem.alpha != 0.0 {
        let mut product = Terms::default();
        let (mut largest_a, mut largest_b, mut unscaled) = (0.0f64, 0.0f64, 0.0);
        for k in 0..problem.k {
            let (a, b) = (operands.a.get(0, row, k), operands.b.get(0, k, col));
            let of = |line: usize| line * (problem.k / 32) + k / 32;
            let group = operands.b_group_scales.map_or(1.0, |scales| scales.get(of(col)));
            let a_block = operands.a_block_scales.map_or(1.0, |scales| scales.get(of(row)));
            let b_block = operands.b_block_scales.map_or(1.0, |scales| scales.get(of(col)));
            let term = a * (b * group) * (a_block * b_block);
            product.sum += term;
            product.gauge += term.abs();
            let lost = small(a, problem.a) || small(b, problem.b);
            product.subnormal += if lost { term.abs() } else { 0.0 };
            largest_a = largest_a.max(a.abs());
            largest_b = largest_b.max((b * group).abs());
            unscaled += (a * b).abs();
        }
        let scale = |given: Option<_>, line| {
            given.map(|scales: lapidary_core::AnyVectorRef<'_>| scales.get(line))
        };
        let scales = [scale(operands.row_scale, row), scale(operands.col_scale, col)];
        let factor = scales.into_iter().flatten().fold(problem.alpha, |product, s| product * s);
        terms.sum = factor * product.sum;
        terms.gauge = factor.abs() * product.gauge;
        terms.product = terms.gauge;
        terms.subnormal = factor.abs() * product.subnormal;
        let mut growing = vec![product.gauge, problem.alpha.abs()];
        growing.extend(scales.into_iter().flatten());
        if problem.b_group.is_some() {
            growing.extend([largest_a, largest_b, unscaled]);
        }
        if growing.len() > 2 {
            terms.growth = growing.into_iter().map(|factor| factor.max(1.0)).product();
        }
    }
    if problem.beta != 0.0 {
        let old = case.c.view().get(0, row, col);
        terms.sum += problem.beta * old;
        terms.gauge += (problem.beta * old).abs();
        terms.subnormal += if small(old, problem.c) { (problem.beta * old).abs() } else { 0.0 };
    }
    if let Some(bias) = operands.bias {
        terms.sum += bias.get(col);
        terms.gauge += bias.get(col).abs();
    }
    terms
}

/// What [`Reference::bound`] documents, its five steps one after the other.
fn formula(case: &Case, reference: &Reference, device: Device, index: usize) -> f64 {
    let problem = &case.problem;
    if problem.c == ElementType::I32 {
        return 0.0;
    }
    let integers = matches!(problem.a, ElementType::I8 | ElementType::I4);
    let wide = problem.a == ElementType::F64;
    let [u, subnormal, normal] = format(if wide { ElementType::F64 } else { ElementType::F32 });
    let terms = terms(case, index / problem.n, index % problem.n);
    let k = if problem.alpha == 0.0 { 0.0 } else { problem.k as f64 };
    let outer = f64::from(u8::from(problem.row_scale) + u8::from(problem.col_scale));
    let inner = f64::from(u8::from(problem.b_group.is_some()));
    let scales = outer + inner;
    let gamma = |n: f64, u: f64| 1.0 / (1.0 / (n * u) - 1.0);
    // 1 and 2: the sum and the epilogue, the oracle's own rounding.
    let device_u = if device.truncates { 2.0 * u } else { u };
    let roundings = if integers { 5.0 + scales } else { k + 4.0 + scales };
    let mut relative = gamma(roundings, device_u);
    if let Some(units) = device.units {
        relative = relative.min(units * device_u);
    }
    let own = gamma(k + 4.0 + scales, 2f64.powi(-53));
    let mut error = (relative + own) * terms.gauge;
    // 3: underflow.
    let ways = if device.flushes { 2.0 * k } else { k } + inner;
    let step = |[_, subnormal, normal]: [f64; 3]| if device.flushes { normal } else { subnormal };
    let mut lost = (ways + 4.0 + outer) * step([u, subnormal, normal]);
    // Both anew where sums are narrower: those first, and the epilogue of what comes of them.
    let narrow = device.sums.map(format).filter(|[of_sums, ..]| !integers && *of_sums > u);
    if let Some(sums) = narrow {
        let roundoff = device_u / u;
        let u = sums[0] * roundoff;
        let sum = gamma(k + inner, u).min(device.units.unwrap_or(f64::INFINITY) * u);
        let epilogue = gamma(4.0 + outer, device_u);
        // A relative error of one after the other: (1 + sum) · (1 + epilogue) − 1 of the product.
        let both = sum + epilogue + sum * epilogue;
        error = both * terms.product + epilogue * (terms.gauge - terms.product) + own * terms.gauge;
        lost = ways * step(sums) * (1.0 + both + own);
        lost += (4.0 + outer) * step([device_u, subnormal, normal]);
    }
    error += lost * terms.growth;
    error += if device.flushes { terms.subnormal } else { 0.0 };
    // 4: the activation, its slope and its evaluation at the farthest number.
    let value = reference.values()[index].abs();
    let farthest = terms.sum.abs() + error;
    let (slope, evaluation) = match problem.activation {
        Activation::Silu => {
            let reflected = 1.0 / (1.0 + (terms.sum - error).exp());
            let ulps = 4.0 + reflected * (3.0 + 2.0 * farthest);
            (1.1, 2.0 * u * ulps * (value + 1.1 * error) + 128.0 * normal)
        }
        Activation::GeluTanh | Activation::GeluErf => {
            (1.13, farthest / 2.0 * (10.0 * 2.0 * u) + 128.0 * normal)
        }
        _ => (1.0, 0.0),
    };
    error = slope * error + if wide { 2.0 * evaluation } else { evaluation };
    // 5: the output.
    if problem.c == ElementType::I8 {
        return error + 0.5;
    }
    let [u, subnormal, normal] = format(problem.c);
    let flushed = if device.flushes && value - error < normal { value.min(normal) } else { 0.0 };
    error + u * (value + error) + subnormal + flushed
}
