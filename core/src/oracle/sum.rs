//! The triple loop.

use super::Position;
use crate::element::ElementType;
use crate::epilogue::Activation;
use crate::operands::Operands;
use crate::problem::{MX_BLOCK, Problem};
use crate::view::AnyVectorRef;

/// One element of C before the activation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    /// alpha·r·s·Σab + beta·c + bias; for i32 output modulo 2³² and after the activation.
    pub(super) sum: f64,
    /// |alpha·r·s|·Σ|a||b| + |beta||c| + |bias|, r and s the scales of the row and the column.
    pub(super) gauge: f64,
    /// With row, column or group scales, more than the product of any of Σ|a||b|, |r|, |s| and
    /// |alpha|, and with group scales also max |a|, max |b| and Σ|a||q|, q what is stored of B: what
    /// is between them, in whatever order they are multiplied. Otherwise 0.
    pub(super) reach: f64,
    /// alpha·r·s, what Σab is multiplied by; 0 where A and B are not read.
    pub(super) factor: f64,
    /// Σab alone.
    pub(super) product: f64,
    /// Σ|a||b| alone: what the accumulator may hold before alpha scales it.
    pub(super) product_gauge: f64,
    /// The most that the finite terms of the sum come to, before and after alpha scales them, where
    /// others are not finite.
    pub(super) finite_gauge: f64,
    /// The most that the finite terms of Σab alone come to.
    pub(super) finite_product: f64,
    /// The part of the gauge whose operands are subnormal numbers of their type.
    pub(super) subnormal: f64,
    /// Whether an operand or a factor is NaN or infinite.
    pub(super) non_finite: bool,
}

/// Σab of one element of C.
#[derive(Clone, Copy, Debug, Default)]
struct Product {
    /// The sum of float operands.
    float: f64,
    /// The sum of integer operands, exact.
    integer: i64,
    gauge: f64,
    /// The part of the gauge that is finite.
    finite_gauge: f64,
    subnormal: f64,
    non_finite: bool,
    /// With group scales, the product of max |a|, max |b| and Σ|a||q|, of each where it exceeds 1.
    reach: [f64; 3],
}

/// Elements whose sums advance together: few enough to stay in a near cache.
const CHUNK: usize = 4096;

/// Every position's sum and gauge, in the order of the positions.
pub(super) fn elements(
    problem: &Problem,
    operands: &Operands<'_>,
    positions: &[Position],
) -> Vec<Term> {
    let mut terms = Vec::with_capacity(positions.len());
    for chunk in positions.chunks(CHUNK) {
        for (product, &at) in products(problem, operands, chunk).into_iter().zip(chunk) {
            terms.push(match problem.c {
                ElementType::I32 => integer_element(problem, operands, at, product),
                _ => float_element(problem, operands, at, product),
            });
        }
    }
    terms
}

/// Σab of some elements; K is the outer loop so that a row of B is read while it is near.
fn products(problem: &Problem, operands: &Operands<'_>, positions: &[Position]) -> Vec<Product> {
    let mut products = vec![Product::default(); positions.len()];
    let k = if problem.reads_factors() { problem.k } else { 0 };
    for k in 0..k {
        // Neighbours mostly share their row of A.
        let mut row = None;
        let mut a = 0.0;
        for (product, at) in products.iter_mut().zip(positions) {
            if row != Some((at.batch, at.row)) {
                row = Some((at.batch, at.row));
                a = operands.a.get(at.batch, at.row, k);
            }
            let b = operands.b.get(at.batch, k, at.col);
            if problem.accumulator() == ElementType::I32 {
                product.integer += a as i64 * b as i64;
                product.gauge += (a * b).abs();
                continue;
            }
            if let (Some(length), Some(scales)) = (problem.b_group, operands.b_group_scales) {
                let line = at.batch * problem.n + at.col;
                let scale = scales.get(line * (problem.k / length) + k / length);
                product.add_weight(a, b, scale, problem.a);
                continue;
            }
            let ab = a * b * block_scale(problem, operands, *at, k);
            product.float += ab;
            product.non_finite |= !(a.is_finite() && b.is_finite() && !ab.is_nan());
            product.gauge += ab.abs();
            product.finite_gauge += if ab.is_finite() { ab.abs() } else { 0.0 };
            if is_subnormal(a, problem.a) || is_subnormal(b, problem.b) {
                product.subnormal += ab.abs();
            }
        }
    }
    products
}

impl Product {
    /// Adds a·(s·q), q the integer that is stored of a weight. s·q is exact in `f64`, its product with
    /// a rounds once.
    fn add_weight(&mut self, a: f64, q: f64, scale: f64, element: ElementType) {
        let b = scale * q;
        let ab = a * b;
        self.float += ab;
        self.non_finite |= !(a.is_finite() && scale.is_finite());
        self.gauge += ab.abs();
        self.finite_gauge += if ab.is_finite() { ab.abs() } else { 0.0 };
        if is_subnormal(a, element) || is_subnormal(scale, ElementType::F32) {
            self.subnormal += ab.abs();
        }
        let [largest_a, largest_b, unscaled] = &mut self.reach;
        *largest_a = largest_a.max(a.abs());
        *largest_b = largest_b.max(b.abs());
        *unscaled += (a * q).abs();
    }
}

/// The scale of a product at K position `k`: that of A's block times that of B's. Both are powers of
/// two between 2⁻¹²⁷ and 2¹²⁷, so that it, and the product of narrow numbers with it, is exact.
fn block_scale(problem: &Problem, operands: &Operands<'_>, at: Position, k: usize) -> f64 {
    let blocks = problem.k / MX_BLOCK;
    let scale = |scales: Option<AnyVectorRef<'_>>, line: usize| {
        scales.map_or(1.0, |scales| scales.get(line * blocks + k / MX_BLOCK))
    };
    scale(operands.a_block_scales, at.batch * problem.m + at.row)
        * scale(operands.b_block_scales, at.batch * problem.n + at.col)
}

/// alpha and beta as the problem uses them: rounded to f32 unless the problem is f64.
fn factors(problem: &Problem) -> (f64, f64) {
    match problem.bias_element() {
        ElementType::F64 => (problem.alpha, problem.beta),
        _ => (f64::from(problem.alpha as f32), f64::from(problem.beta as f32)),
    }
}

fn float_element(
    problem: &Problem,
    operands: &Operands<'_>,
    at: Position,
    product: Product,
) -> Term {
    let (alpha, beta) = factors(problem);
    let mut term = Term {
        sum: 0.0,
        gauge: 0.0,
        reach: 0.0,
        factor: 0.0,
        product: 0.0,
        product_gauge: product.gauge,
        finite_gauge: 0.0,
        finite_product: product.finite_gauge,
        subnormal: 0.0,
        non_finite: product.non_finite || !(alpha.is_finite() && beta.is_finite()),
    };
    if problem.reads_factors() {
        let sum = match problem.accumulator() {
            // The cast keeps the low 32 bits: the accumulator is modulo 2³².
            ElementType::I32 => f64::from(product.integer as i32),
            _ => product.float,
        };
        let row = operands.row_scale.map(|r| r.get(at.batch * problem.m + at.row));
        let col = operands.col_scale.map(|s| s.get(at.batch * problem.n + at.col));
        let scales = [row, col].into_iter().flatten();
        let scale: f64 = scales.clone().product();
        let factor = alpha * scale;
        term.factor = factor;
        term.product = sum;
        term.sum += factor * sum;
        term.gauge += factor.abs() * product.gauge;
        if factor.is_finite() {
            term.finite_gauge += factor.abs() * product.finite_gauge;
        }
        term.non_finite |= !scale.is_finite();
        // A device that counts subnormal numbers as zero loses the whole with a subnormal scale.
        let lost_scale = scales.clone().any(|s| is_subnormal(s, ElementType::F32));
        let subnormal = if lost_scale { product.gauge } else { product.subnormal };
        term.subnormal += factor.abs() * subnormal;
        if problem.row_scale || problem.col_scale || problem.b_group.is_some() {
            term.reach = scales
                .chain([product.gauge, alpha])
                .chain(product.reach)
                .map(|factor| factor.abs().max(1.0))
                .product();
        }
    }
    if let (true, Some(c)) = (problem.reads_c(), operands.c) {
        term.add(beta, c.get(at.batch, at.row, at.col), problem.c);
    }
    if let Some(bias) = operands.bias {
        term.add(1.0, bias.get(at.col), bias.element());
    }
    term.finite_gauge = term.finite_gauge.max(product.finite_gauge);
    term
}

impl Term {
    /// Adds `factor · value`, the value stored as `element`.
    fn add(&mut self, factor: f64, value: f64, element: ElementType) {
        let added = factor * value;
        self.sum += added;
        self.gauge += added.abs();
        self.finite_gauge += if added.is_finite() { added.abs() } else { 0.0 };
        if is_subnormal(value, element) {
            self.subnormal += added.abs();
        }
        self.non_finite |= !value.is_finite();
    }
}

fn integer_element(
    problem: &Problem,
    operands: &Operands<'_>,
    at: Position,
    product: Product,
) -> Term {
    let mut sum = problem.alpha as i128 * i128::from(product.integer);
    let mut gauge = problem.alpha.abs() * product.gauge;
    if let (true, Some(c)) = (problem.reads_c(), operands.c) {
        let value = c.get(at.batch, at.row, at.col);
        sum += problem.beta as i128 * value as i128;
        gauge += (problem.beta * value).abs();
    }
    if let Some(bias) = operands.bias {
        sum += bias.get(at.col) as i128;
        gauge += bias.get(at.col).abs();
    }
    // The cast keeps the low 32 bits: arithmetic modulo 2³².
    let wrapped = sum as i32;
    let value = if problem.activation == Activation::Relu { wrapped.max(0) } else { wrapped };
    Term {
        sum: f64::from(value),
        gauge,
        reach: 0.0,
        factor: problem.alpha,
        product: product.integer as f64,
        product_gauge: product.gauge,
        finite_gauge: gauge,
        finite_product: product.gauge,
        subnormal: 0.0,
        non_finite: false,
    }
}

/// Whether a device may count `value` as zero. Types of less than 16 bits have no such device: they
/// are decoded to wider ones, where their subnormal numbers are normal.
fn is_subnormal(value: f64, element: ElementType) -> bool {
    value != 0.0 && element.bits() >= 16 && value.abs() < element.min_normal()
}
