//! The triple loop.

use super::Position;
use crate::element::ElementType;
use crate::epilogue::Activation;
use crate::operands::Operands;
use crate::problem::Problem;
use crate::view::AnyMatrixRef;

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

/// Every position's sum and gauge, one after the other.
pub(super) fn elements(
    problem: &Problem,
    operands: &Operands<'_>,
    positions: &[Position],
) -> Vec<Term> {
    let k = if problem.reads_factors() { problem.k } else { 0 };
    let mut row = Vec::new();
    let mut row_at = None;
    let mut terms = Vec::with_capacity(positions.len());
    for &at in positions {
        // Consecutive positions mostly share their row of A.
        if row_at != Some((at.batch, at.row)) {
            row_at = Some((at.batch, at.row));
            row = (0..k).map(|k| operands.a.get(at.batch, at.row, k)).collect();
        }
        let column = |k| operands.b.get(at.batch, k, at.col);
        terms.push(match problem.c {
            ElementType::I32 => integer_element(problem, operands, at, &row, column),
            _ => float_element(problem, operands, at, &row, column),
        });
    }
    terms
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
    row: &[f64],
    column: impl Fn(usize) -> f64,
) -> Term {
    let (alpha, beta) = factors(problem);
    let mut term = Term {
        sum: 0.0,
        gauge: 0.0,
        product_gauge: 0.0,
        subnormal: 0.0,
        non_finite: !(alpha.is_finite() && beta.is_finite()),
    };
    if problem.reads_factors() {
        let mut product = 0.0;
        for (k, &a) in row.iter().enumerate() {
            let b = column(k);
            product += a * b;
            term.product_gauge += (a * b).abs();
            if is_subnormal(a, problem.a) || is_subnormal(b, problem.b) {
                term.subnormal += alpha.abs() * (a * b).abs();
            }
            term.non_finite |= !(a.is_finite() && b.is_finite());
        }
        if problem.accumulator() == ElementType::I32 {
            product = f64::from(integer_product(row, column) as i32);
        }
        term.sum += alpha * product;
        term.gauge += alpha.abs() * term.product_gauge;
    }
    if let (true, Some(c)) = (problem.reads_c(), operands.c) {
        term.add(beta, get(&c, at), problem.c);
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
    row: &[f64],
    column: impl Fn(usize) -> f64,
) -> Term {
    let mut sum = 0i128;
    let mut gauge = 0.0;
    if problem.reads_factors() {
        let products: f64 = row.iter().enumerate().map(|(k, a)| (a * column(k)).abs()).sum();
        gauge += problem.alpha.abs() * products;
        sum += problem.alpha as i128 * i128::from(integer_product(row, column));
    }
    if let (true, Some(c)) = (problem.reads_c(), operands.c) {
        sum += problem.beta as i128 * get(&c, at) as i128;
        gauge += (problem.beta * get(&c, at)).abs();
    }
    if let Some(bias) = operands.bias {
        sum += bias.get(at.col) as i128;
        gauge += bias.get(at.col).abs();
    }
    // The cast keeps the low 32 bits: arithmetic modulo 2³².
    let wrapped = sum as i32;
    let value = if problem.activation == Activation::Relu { wrapped.max(0) } else { wrapped };
    Term { sum: f64::from(value), gauge, product_gauge: gauge, subnormal: 0.0, non_finite: false }
}

/// Σab of an i8 problem, exactly.
fn integer_product(row: &[f64], column: impl Fn(usize) -> f64) -> i64 {
    row.iter().enumerate().map(|(k, &a)| a as i64 * column(k) as i64).sum()
}

fn get(matrix: &AnyMatrixRef<'_>, at: Position) -> f64 {
    matrix.get(at.batch, at.row, at.col)
}

fn is_subnormal(value: f64, element: ElementType) -> bool {
    value != 0.0 && value.abs() < element.min_normal()
}
