//! Checking a whole product in O(n²), exactly, on integer data.

use core::fmt;

use super::Position;
use crate::element::ElementType;
use crate::epilogue::Activation;
use crate::error::{Error, Operand};
use crate::operands::Operands;
use crate::problem::Problem;
use crate::random::Random;
use crate::view::AnyMatrixRef;

/// What [`freivalds`] found.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FreivaldsReport {
    /// Rows of C checked, over all matrices: all of them.
    pub rows: usize,
    /// Random vectors that each row was multiplied by.
    pub vectors: u32,
    /// Rows with at least one wrong element.
    pub wrong_rows: usize,
    /// The first of them; the column is 0, the test knows only the row.
    pub first: Option<Position>,
}

impl FreivaldsReport {
    /// Whether no row is wrong.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.wrong_rows == 0
    }
}

impl fmt::Display for FreivaldsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.passed() { "PASSED" } else { "FAILED" };
        write!(
            f,
            "{verdict}: {} rows against {} vectors, {} wrong",
            self.rows, self.vectors, self.wrong_rows
        )?;
        if let Some(at) = self.first {
            write!(f, ", the first is row {} of matrix {}", at.row, at.batch)?;
        }
        Ok(())
    }
}

/// Checks every row of `found` by C·r = alpha·A·(B·r) + beta·C₀·r + (bias·r) for random vectors r.
///
/// This is Freivalds' test (1977) in the ring of integers modulo 2⁶⁴, where wrapping arithmetic is
/// exact: r is uniform over all 64-bit integers, so a row that is off by an error e = 2ᵛ·odd in any
/// element passes one vector with probability 2ᵛ⁻⁶⁴ at most. i32 results are compared modulo 2³²
/// and errors divisible by 2ᵛ pass with probability 2ᵛ⁻³².
///
/// The data must be integers (in whatever type), small enough that the accumulator and the output
/// hold every sum exactly; then any difference is a defect, a lost tail of K included.
///
/// # Errors
/// What [`Problem::validate`] and [`Operands::check`] find; [`Error::ShapeMismatch`] if `found` is
/// no result of the problem; [`Error::NotInteger`] for a fractional operand, alpha or beta;
/// [`Error::LimitExceeded`] if sums could be inexact; [`Error::ActivationUnsupported`] with an
/// activation, which is not linear; [`Error::ScalesUnavailable`] with scales.
pub fn freivalds(
    problem: &Problem,
    operands: &Operands<'_>,
    found: &AnyMatrixRef<'_>,
    vectors: u32,
    seed: u64,
) -> Result<FreivaldsReport, Error> {
    problem.validate()?;
    operands.check(problem)?;
    problem.check_operand(Operand::C, found.shape(), found.element())?;
    if problem.activation != Activation::None {
        return Err(Error::ActivationUnsupported {
            activation: problem.activation.name(),
            element: problem.c,
        });
    }
    if problem.has_scales() {
        return Err(Error::ScalesUnavailable {
            what: "Freivalds' test".into(),
            scales: problem.scale_names(),
            needs: "integers throughout; check a sample of positions instead",
        });
    }
    let alpha = integer(problem.alpha, "alpha")?;
    let beta = integer(problem.beta, "beta")?;
    check_exact(problem, operands)?;

    let width = vectors as usize;
    let mut random = Random::new(seed);
    // Column j of every vector: r[j·width ..].
    let r: Vec<i64> = (0..problem.n * width).map(|_| random.bits() as i64).collect();
    let mask = if problem.c == ElementType::I32 { u64::from(u32::MAX) } else { u64::MAX };
    let mut report =
        FreivaldsReport { rows: problem.batch * problem.m, vectors, wrong_rows: 0, first: None };
    for batch in 0..problem.batch {
        let br = if problem.reads_factors() {
            times(&operands.b, "B", batch, 0..problem.k, &r, width)?
        } else {
            Vec::new()
        };
        for row in 0..problem.m {
            let mut expected = vec![0i64; width];
            let mut add = |factor: i64, values: &[i64]| {
                for (sum, value) in expected.iter_mut().zip(values) {
                    *sum = sum.wrapping_add(factor.wrapping_mul(*value));
                }
            };
            if problem.reads_factors() {
                add(alpha, &times(&operands.a, "A", batch, row..row + 1, &br, width)?);
            }
            if let (true, Some(c)) = (problem.reads_c(), operands.c) {
                add(beta, &times(&c, "C", batch, row..row + 1, &r, width)?);
            }
            if let Some(bias) = operands.bias {
                for (col, values) in r.chunks_exact(width.max(1)).enumerate() {
                    add(integer(bias.get(col), "an element of the bias")?, values);
                }
            }
            // A result that is no integer is wrong, not a bad input.
            let right = match times(found, "the result", batch, row..row + 1, &r, width) {
                Ok(product) => product
                    .iter()
                    .zip(&expected)
                    .all(|(x, y)| (x.wrapping_sub(*y) as u64) & mask == 0),
                Err(_) => false,
            };
            if !right {
                report.wrong_rows += 1;
                report.first.get_or_insert(Position { batch, row, col: 0 });
            }
        }
    }
    Ok(report)
}

/// Rows `rows` of a matrix times `width` vectors, modulo 2⁶⁴.
fn times(
    matrix: &AnyMatrixRef<'_>,
    what: &'static str,
    batch: usize,
    rows: core::ops::Range<usize>,
    vectors: &[i64],
    width: usize,
) -> Result<Vec<i64>, Error> {
    let mut product = vec![0i64; rows.len() * width];
    for (row, sums) in rows.zip(product.chunks_exact_mut(width.max(1))) {
        for (col, values) in vectors.chunks_exact(width.max(1)).enumerate() {
            let element = integer(matrix.get(batch, row, col), what)?;
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = sum.wrapping_add(element.wrapping_mul(*value));
            }
        }
    }
    Ok(product)
}

fn integer(value: f64, what: &'static str) -> Result<i64, Error> {
    if value.fract() == 0.0 && value.abs() <= 2f64.powi(53) {
        Ok(value as i64)
    } else {
        Err(Error::NotInteger { what, value })
    }
}

/// Refuses data whose sums could leave the integers that the accumulator and the output hold.
fn check_exact(problem: &Problem, operands: &Operands<'_>) -> Result<(), Error> {
    if problem.c == ElementType::I32 {
        return Ok(());
    }
    let mut gauge = 0.0;
    if problem.reads_factors() {
        gauge +=
            problem.alpha.abs() * problem.k as f64 * largest(&operands.a) * largest(&operands.b);
    }
    if let (true, Some(c)) = (problem.reads_c(), operands.c) {
        gauge += problem.beta.abs() * largest(&c);
    }
    if let Some(bias) = operands.bias {
        gauge += (0..bias.len()).map(|i| bias.get(i).abs()).fold(0.0, f64::max);
    }
    // Integers up to 1/u are exact in a format with unit roundoff u.
    let limit = match (problem.accumulator(), problem.c) {
        (_, ElementType::I8) => ElementType::I8.max_finite(),
        (ElementType::I32, output) => 1.0 / output.unit_roundoff(),
        (accumulator, output) => 1.0 / accumulator.unit_roundoff().max(output.unit_roundoff()),
    };
    if gauge <= limit {
        return Ok(());
    }
    Err(Error::LimitExceeded {
        what: "largest sum of integers for an exact check",
        requested: gauge as u128,
        limit: limit as u128,
    })
}

fn largest(matrix: &AnyMatrixRef<'_>) -> f64 {
    let shape = matrix.shape();
    let mut largest: f64 = 0.0;
    for b in 0..shape.batch {
        for r in 0..shape.rows {
            for c in 0..shape.cols {
                // A NaN is ignored here; the products refuse it as no integer.
                largest = largest.max(matrix.get(b, r, c).abs());
            }
        }
    }
    largest
}
