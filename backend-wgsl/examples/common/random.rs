//! The random checks: uniform data against the oracle, and large products once more on integers.
//!
//! Up to 512³ the oracle computes every element. Above, its triple loop would take minutes, so it
//! computes a sample with every corner and every tile on the border of C; and since a bound that
//! grows with K cannot see one lost product among thousands, Freivalds' test then checks every row
//! exactly on small integers.

use std::collections::HashMap;

use lapidary_core::oracle::{self, Reference};
use lapidary_core::{AnyMatrixRef, Error, Matrix, Operands, Placement, Problem};

use super::record::Check;

/// Products up to this size are checked in full.
const FULL: u128 = 512 * 512 * 512;
/// Elements of a sample.
const SAMPLE: usize = 4096;
/// Random vectors of Freivalds' test: a wrong row passes with probability 2⁻⁴⁰ or less each.
const VECTORS: u32 = 2;
const SEED: u64 = 7;

/// Whether the oracle computes every element of `problem`.
pub(crate) fn is_full(problem: &Problem) -> bool {
    problem.m as u128 * problem.n as u128 * problem.k as u128 <= FULL
}

/// The largest integers whose sums over K are exact in f32, at most 4.
pub(crate) fn largest_integer(k: usize) -> i32 {
    ((f64::from(1 << 24) / k as f64).sqrt() as i32).clamp(1, 4)
}

/// The oracle's answers on one pair of operands, computed once for each shape of tile.
pub(crate) struct Answers<'a> {
    problem: &'a Problem,
    operands: Operands<'a>,
    by_tile: HashMap<[usize; 2], Reference>,
}

impl<'a> Answers<'a> {
    /// Answers for A·B; nothing is computed yet.
    pub(crate) fn new(problem: &'a Problem, a: &'a Matrix, b: &'a Matrix) -> Self {
        let operands = Operands::new(a.as_ref(), b.as_ref());
        Self { problem, operands, by_tile: HashMap::new() }
    }

    /// Compares `c`, computed in tiles of `tile`, with the oracle.
    pub(crate) fn check(&mut self, c: &[u8], tile: [usize; 2]) -> Result<Check, Error> {
        let (problem, full) = (self.problem, is_full(self.problem));
        let key = if full { [0; 2] } else { tile };
        let reference = match self.by_tile.remove(&key) {
            Some(reference) => reference,
            None if full => oracle::reference(problem, &self.operands)?,
            None => {
                let positions = oracle::sample_positions(problem, tile, SAMPLE, SEED);
                oracle::reference_at(problem, &self.operands, &positions)?
            }
        };
        let comparison = reference.compare(&result(problem, c)?);
        self.by_tile.insert(key, reference);
        let mut detail = format!(
            "largest error {:.2e}, {:.4} of the bound, {:.2} u·Σ|a||b|",
            comparison.max_error, comparison.max_ratio, comparison.max_units
        );
        if let (false, Some(at)) = (comparison.passed(), comparison.worst) {
            detail = format!(
                "{} elements out of bounds; the worst is C[{}][{}] = {:e}, expected {:e}",
                comparison.mismatches, at.row, at.col, comparison.found, comparison.expected
            );
        }
        Ok(Check {
            name: "random".to_owned(),
            passed: comparison.passed() && comparison.unjudged == 0,
            checked: comparison.checked,
            of: problem.m * problem.n,
            detail,
        })
    }

    /// Checks every row of `c` exactly; the operands hold small integers.
    pub(crate) fn check_exactly(&self, c: &[u8]) -> Result<Check, Error> {
        let found = result(self.problem, c)?;
        let report = oracle::freivalds(self.problem, &self.operands, &found, VECTORS, SEED)?;
        let detail = match report.first {
            None => format!("every row, Freivalds' test with {VECTORS} vectors"),
            Some(at) => format!("{} wrong rows; the first is {}", report.wrong_rows, at.row),
        };
        let elements = self.problem.m * self.problem.n;
        Ok(Check {
            name: "integers".to_owned(),
            passed: report.passed(),
            checked: elements,
            of: elements,
            detail,
        })
    }
}

/// C as it came back from the device.
fn result<'c>(problem: &Problem, bytes: &'c [u8]) -> Result<AnyMatrixRef<'c>, Error> {
    let place = Placement { offset: 0, shape: problem.c_shape(), layout: problem.c_layout };
    AnyMatrixRef::new(bytes, problem.c, place)
}
