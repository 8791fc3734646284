//! The triple loop.

use super::Position;
use crate::element::ElementType;
use crate::epilogue::Activation;
use crate::operands::Operands;
use crate::problem::Problem;

/// One element of C before the activation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    /// alpha·Σab + beta·c + bias; for i32 output modulo 2³² and after the activation.
    pub(super) sum: f64,
    /// |alpha|·Σ|a||b| + |beta||c| + |bias|.
    pub(super) gauge: f64,
    /// Σ|a||b| alone: what the accumulator may hold before alpha scales it.
    pub(super) product_gauge: f64,
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
    /// The sum of i8 operands, exact.
    integer: i64,
    gauge: f64,
    subnormal: f64,
    non_finite: bool,
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
            } else {
                product.float += a * b;
                product.non_finite |= !(a.is_finite() && b.is_finite());
            }
            product.gauge += (a * b).abs();
            if is_subnormal(a, problem.a) || is_subnormal(b, problem.b) {
                product.subnormal += (a * b).abs();
            }
        }
    }
    products
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
        product_gauge: product.gauge,
        subnormal: alpha.abs() * product.subnormal,
        non_finite: product.non_finite || !(alpha.is_finite() && beta.is_finite()),
    };
    if problem.reads_factors() {
        let sum = match problem.accumulator() {
            // The cast keeps the low 32 bits: the accumulator is modulo 2³².
            ElementType::I32 => f64::from(product.integer as i32),
            _ => product.float,
        };
        term.sum += alpha * sum;
        term.gauge += alpha.abs() * product.gauge;
    }
    if let (true, Some(c)) = (problem.reads_c(), operands.c) {
        term.add(beta, c.get(at.batch, at.row, at.col), problem.c);
    }
    if let Some(bias) = operands.bias {
        term.add(1.0, bias.get(at.col), bias.element());
    }
    term
}

impl Term {
    /// Adds `factor · value`, the value stored as `element`.
    fn add(&mut self, factor: f64, value: f64, element: ElementType) {
        let added = factor * value;
        self.sum += added;
        self.gauge += added.abs();
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
        product_gauge: product.gauge,
        subnormal: 0.0,
        non_finite: false,
    }
}

fn is_subnormal(value: f64, element: ElementType) -> bool {
    value != 0.0 && value.abs() < element.min_normal()
}
