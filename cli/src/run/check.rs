//! `--check`: the result against the oracle.

use std::fmt;

use lapidary_core::oracle::{self, Comparison, Unjudged};
use lapidary_core::{AnyMatrixRef, ElementType, Error, Operands, PlanSummary, Problem};
use serde::Serialize;

use crate::progress::Parts;

/// Products the oracle computes before it turns to a sample: a second or a few of its plain loop.
const BUDGET: usize = 1 << 26;

/// Fewest elements of a sample.
const SAMPLE: usize = 4096;

/// Products between two updates of the progress bar.
const PART: usize = 1 << 20;

/// Any fixed number: the same product is checked in the same places every time.
const SEED: u64 = 0x1a91_da47;

/// What a check comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Passed,
    Failed,
    /// No element of those looked at could be judged.
    NothingChecked,
}

/// Elements looked at of which nothing can be said, by the reason.
#[derive(Serialize)]
#[serde(remote = "Unjudged")]
struct UnjudgedFields {
    non_finite: usize,
    overflow: usize,
    oracle_overflow: usize,
    unbounded: usize,
}

/// How the result compares.
#[derive(Serialize)]
pub(super) struct Checked {
    /// Whether every element that was judged is within its bound, and any was.
    pub(super) passed: bool,
    verdict: Verdict,
    checked: usize,
    /// Elements of C.
    elements: usize,
    mismatches: usize,
    unjudged: usize,
    #[serde(with = "UnjudgedFields")]
    why_unjudged: Unjudged,
    max_error: f64,
    max_error_over_bound: f64,
    /// Matrix, row and column of the element nearest to its bound, or furthest past it.
    worst: Option<[usize; 3]>,
    expected: f64,
    found: f64,
}

/// Compares `found` with the oracle: all elements, or, where that would take long, a sample that
/// holds the corners and one element of every tile at the border.
///
/// `summary` says where the tiles' borders are, and whether the sums were f16. `finite_only` leaves out
/// elements that a NaN or infinity among the inputs reaches, for devices that promise nothing about them.
///
/// # Errors
/// [`Error::OutOfMemory`].
pub(super) fn against_oracle(
    problem: &Problem,
    operands: &Operands<'_>,
    found: AnyMatrixRef<'_>,
    summary: &PlanSummary,
    finite_only: bool,
) -> Result<Checked, Error> {
    let products = if problem.reads_factors() { problem.k } else { 1 };
    let at_least = (BUDGET / products).max(SAMPLE);
    let positions = oracle::sample_positions(problem, summary.block_tile, at_least, SEED);
    let mut checked = Checked {
        passed: false,
        verdict: Verdict::NothingChecked,
        checked: 0,
        elements: problem.c_shape().len().unwrap_or(usize::MAX),
        mismatches: 0,
        unjudged: 0,
        why_unjudged: Unjudged::default(),
        max_error: 0.0,
        max_error_over_bound: 0.0,
        worst: None,
        expected: 0.0,
        found: 0.0,
    };
    let bar = Parts::new("check");
    for part in positions.chunks((PART / products).max(1)) {
        let mut reference = oracle::reference_at(problem, operands, part)?;
        if finite_only {
            reference = reference.with_unspecified_non_finite();
        }
        if summary.f16_sums {
            reference = reference.summing_in(ElementType::F16);
        }
        checked.add(&reference.compare(&found));
        bar.update(checked.checked as u64, positions.len() as u64);
    }
    checked.verdict = match (checked.mismatches, checked.checked - checked.unjudged) {
        (0, 0) if checked.elements > 0 => Verdict::NothingChecked,
        (0, _) => Verdict::Passed,
        _ => Verdict::Failed,
    };
    checked.passed = checked.verdict == Verdict::Passed;
    Ok(checked)
}

impl Checked {
    fn add(&mut self, part: &Comparison) {
        self.checked += part.checked;
        self.mismatches += part.mismatches;
        self.unjudged += part.unjudged;
        self.why_unjudged.add(&part.why_unjudged);
        self.max_error = self.max_error.max(part.max_error);
        if part.max_ratio > self.max_error_over_bound || self.worst.is_none() {
            self.max_error_over_bound = part.max_ratio;
            self.worst = part.worst.map(|at| [at.batch, at.row, at.col]);
            self.expected = part.expected;
            self.found = part.found;
        }
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Passed => "PASSED",
            Verdict::Failed => "FAILED",
            Verdict::NothingChecked => "NOTHING CHECKED",
        };
        let checked = self.checked - self.unjudged;
        write!(
            f,
            "{verdict}: {checked} of {} elements compared with a float64 product",
            self.elements
        )?;
        if self.mismatches > 0 {
            write!(f, ", {} off by more than their bound", self.mismatches)?;
        }
        if self.unjudged > 0 {
            write!(f, ", {}", self.why_unjudged)?;
        }
        if self.verdict == Verdict::NothingChecked {
            return Ok(());
        }
        write!(f, "; largest error {:.3e}", self.max_error)?;
        if let Some([batch, row, col]) = self.worst {
            write!(
                f,
                "; nearest to its bound, at {:.4} of it, is C[{batch}, {row}, {col}] = {:e} for {:e}",
                self.max_error_over_bound, self.found, self.expected
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use lapidary_core::MatrixRef;

    use super::*;

    fn summary(block_tile: [usize; 2]) -> PlanSummary {
        let mut summary = PlanSummary::new("", "");
        summary.block_tile = block_tile;
        summary
    }

    #[test]
    fn an_error_anywhere_is_found_and_placed() {
        let a = [1.0f32, 2.0, 3.0, 4.0];
        let view = || MatrixRef::row_major(&a, 2, 2);
        let operands = Operands::new(view().unwrap(), view().unwrap());
        let problem = operands.problem(ElementType::F32).unwrap();
        let check = |c: &[f32; 4]| {
            let c = MatrixRef::row_major(c, 2, 2).unwrap().erase();
            against_oracle(&problem, &operands, c, &summary([0, 0]), false).unwrap()
        };
        let right = check(&[7.0, 10.0, 15.0, 22.0]);
        assert!(right.passed && right.checked == 4 && right.mismatches == 0, "{right}");
        let wrong = check(&[7.0, 10.0, 15.5, 22.0]);
        assert!(!wrong.passed && wrong.worst == Some([0, 1, 0]), "{wrong}");
        assert!(wrong.to_string().starts_with("FAILED: 4 of 4"));
        assert!(!check(&[7.0, f32::NAN, 15.0, 22.0]).passed);
    }

    #[test]
    fn a_check_that_judges_nothing_does_not_pass() {
        let check = |a: &[f32; 2], c: f32, finite_only: bool| {
            let operands = Operands::new(
                MatrixRef::row_major(a, 1, 2).unwrap(),
                MatrixRef::row_major(&[1.0f32, 1.0], 2, 1).unwrap(),
            );
            let problem = operands.problem(ElementType::F32).unwrap();
            let c = [c];
            let c = MatrixRef::row_major(&c, 1, 1).unwrap().erase();
            against_oracle(&problem, &operands, c, &summary([0, 0]), finite_only).unwrap()
        };
        // Beyond f32 for any order: judged. A NaN where it propagates: judged.
        assert!(check(&[3e38, 3e38], f32::INFINITY, false).passed);
        assert!(!check(&[3e38, 3e38], f32::NAN, false).passed);
        assert!(check(&[f32::NAN, 1.0], f32::NAN, false).passed);
        assert!(!check(&[f32::NAN, 1.0], 1.0, false).passed);
        // Where it need not: nothing is.
        let nothing = check(&[f32::NAN, 1.0], 1.0, true);
        assert_eq!((nothing.passed, nothing.verdict), (false, Verdict::NothingChecked));
        let text = nothing.to_string();
        assert!(text.starts_with("NOTHING CHECKED: 0 of 1 elements"), "{text}");
        assert!(text.contains("1 not judged (NaN or infinity among their inputs"), "{text}");
    }

    /// Sums in f16 may be as far off as f16 makes them, where the plan says that they are f16.
    #[test]
    fn f16_sums_are_held_to_f16() {
        let halves = |len| vec![half::f16::from_f32(0.75); len];
        let (a, b) = (halves(64), halves(64));
        let operands = Operands::new(
            MatrixRef::row_major(&a, 1, 64).unwrap(),
            MatrixRef::row_major(&b, 64, 1).unwrap(),
        );
        let problem = operands.problem(ElementType::F32).unwrap();
        let check = |c: f32, f16_sums| {
            let c = [c];
            let c = MatrixRef::row_major(&c, 1, 1).unwrap().erase();
            let mut summary = summary([0, 0]);
            summary.f16_sums = f16_sums;
            against_oracle(&problem, &operands, c, &summary, false).unwrap().passed
        };
        assert!(check(36.0, false) && check(36.0, true));
        assert!(!check(36.5, false) && check(36.5, true));
        assert!(!check(39.0, true), "more than 64 roundings of 2⁻¹¹");
    }

    #[test]
    fn large_products_are_sampled() {
        let k = 1 << 10;
        let (m, n) = (600, 500);
        let a = vec![1.0f32; m * k];
        let b = vec![0.5f32; k * n];
        let operands = Operands::new(
            MatrixRef::row_major(&a, m, k).unwrap(),
            MatrixRef::row_major(&b, k, n).unwrap(),
        );
        let problem = operands.problem(ElementType::F32).unwrap();
        let mut c = vec![512.0f32; m * n];
        // The last corner is part of every sample.
        c[m * n - 1] = 511.0;
        let c = MatrixRef::row_major(&c, m, n).unwrap().erase();
        let checked = against_oracle(&problem, &operands, c, &summary([128, 128]), false).unwrap();
        assert!(checked.checked < checked.elements && checked.checked >= SAMPLE);
        assert_eq!((checked.mismatches, checked.worst), (1, Some([0, m - 1, n - 1])));
    }
}
