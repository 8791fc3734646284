//! Comparing a result with the oracle.

use core::fmt;

use super::bound::arithmetic;
use super::{Position, Reference};
use crate::element::{self, ElementType};
use crate::view::AnyMatrixRef;

/// How a result compares with the oracle.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// Elements compared.
    pub checked: usize,
    /// Elements further off than allowed.
    pub mismatches: usize,
    /// Elements not judged: non-finite operands where nothing is promised about them, or sums that
    /// may overflow on the way.
    pub unjudged: usize,
    /// The largest difference of finite values.
    pub max_error: f64,
    /// The largest error ÷ bound; above 1 is a mismatch. Infinite when a class differs (NaN or
    /// infinity against a finite value).
    pub max_ratio: f64,
    /// The largest error ÷ (u·gauge), u the unit roundoff the sums are computed with; only where
    /// the output type is not coarser than that. A few units for data of either sign, whatever K is;
    /// more where all terms have one sign and partial sums grow.
    pub max_units: f64,
    /// The element of the largest ratio, if any element differs at all.
    pub worst: Option<Position>,
    /// What the oracle expects there.
    pub expected: f64,
    /// What was found there.
    pub found: f64,
}

impl Comparison {
    /// Whether no element is further off than allowed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.mismatches == 0
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.passed() { "PASSED" } else { "FAILED" };
        write!(
            f,
            "{verdict}: {} checked, {} mismatches, max error {:.3e}, {:.3} of the bound, \
             {:.2} units of u·Σ|a||b|",
            self.checked, self.mismatches, self.max_error, self.max_ratio, self.max_units
        )?;
        if self.unjudged > 0 {
            write!(f, ", {} not judged", self.unjudged)?;
        }
        if let Some(at) = self.worst {
            write!(f, "; worst at {at}: expected {:e}, found {:e}", self.expected, self.found)?;
        }
        Ok(())
    }
}

/// One element's verdict.
enum Verdict {
    /// Finite values this far apart, of an allowance.
    Apart { error: f64, bound: f64 },
    /// Equal, or of one class.
    Equal,
    /// Of different classes, or different where equality was asked for.
    Different { error: f64 },
    /// Nothing is promised here.
    Unjudged,
}

pub(super) fn compare(reference: &Reference, found: &AnyMatrixRef<'_>, exact: bool) -> Comparison {
    let mut result = Comparison {
        checked: reference.positions.len(),
        mismatches: 0,
        unjudged: 0,
        max_error: 0.0,
        max_ratio: 0.0,
        max_units: 0.0,
        worst: None,
        expected: 0.0,
        found: 0.0,
    };
    let problem = &reference.problem;
    if found.shape() != problem.c_shape() || found.element() != problem.c {
        // Not a result of this problem at all: there is no element that could be right.
        result.mismatches = result.checked.max(1);
        result.max_ratio = f64::INFINITY;
        result.expected = f64::NAN;
        result.found = f64::NAN;
        return result;
    }
    let u = reference.roundoff * arithmetic(problem).unit_roundoff();
    let unit_scale = if problem.c.unit_roundoff() <= u && problem.c.is_float() { u } else { 0.0 };
    for (index, &at) in reference.positions.iter().enumerate() {
        let value = found.get(at.batch, at.row, at.col);
        let verdict = judge(reference, index, value, exact);
        let (error, ratio, wrong) = match verdict {
            Verdict::Equal => (0.0, 0.0, false),
            Verdict::Unjudged => {
                result.unjudged += 1;
                continue;
            }
            Verdict::Different { error } => (error, f64::INFINITY, true),
            Verdict::Apart { error, bound } => {
                // False with a NaN on either side, so that a NaN is never within the bound.
                let within = error <= bound;
                (error, if error == 0.0 { 0.0 } else { error / bound }, !within)
            }
        };
        result.mismatches += usize::from(wrong);
        result.max_error = result.max_error.max(error);
        let scale = unit_scale * reference.gauges[index];
        if scale > 0.0 {
            result.max_units = result.max_units.max(error / scale);
        }
        if ratio > result.max_ratio || (wrong && result.worst.is_none()) {
            result.max_ratio = result.max_ratio.max(ratio);
            result.worst = Some(at);
            result.expected = reference.values[index];
            result.found = value;
        }
    }
    result
}

fn judge(reference: &Reference, index: usize, found: f64, exact: bool) -> Verdict {
    let output = reference.problem.c;
    let value = reference.values[index];
    let non_finite = reference.terms[index].non_finite;
    // A non-finite operand leaves infinity, NaN or what an activation makes of them: all exact.
    let bound = if non_finite { 0.0 } else { reference.bound(index) };
    if (non_finite && reference.unspecified_non_finite)
        || (bound == f64::INFINITY && !exact && output.is_float())
    {
        return Verdict::Unjudged;
    }
    if !output.is_float() {
        return judge_integer(reference, value, found, bound, exact);
    }
    if value.is_nan() || found.is_nan() {
        return if value.is_nan() && found.is_nan() {
            Verdict::Equal
        } else {
            Verdict::Different { error: 0.0 }
        };
    }
    if exact {
        let rounded = rounded(output, value);
        return if rounded == found {
            Verdict::Equal
        } else {
            let error = (rounded - found).abs();
            Verdict::Different { error: if error.is_finite() { error } else { 0.0 } }
        };
    }
    if value.is_infinite() || found.is_infinite() {
        let same = value == found;
        // From half a step past the largest finite number on, rounding gives infinity.
        let threshold = output.max_finite() * (1.0 + output.unit_roundoff() / 2.0);
        let may_overflow = value.signum() == found.signum() && value.abs() + bound >= threshold;
        return if same || (found.is_infinite() && may_overflow) {
            Verdict::Equal
        } else {
            Verdict::Different { error: 0.0 }
        };
    }
    Verdict::Apart { error: (value - found).abs(), bound }
}

/// Integer outputs saturate (i8) or are exact (i32).
fn judge_integer(
    reference: &Reference,
    value: f64,
    found: f64,
    bound: f64,
    exact: bool,
) -> Verdict {
    if reference.problem.c == ElementType::I32 || exact {
        let expected = rounded(reference.problem.c, value);
        return if expected == found {
            Verdict::Equal
        } else {
            Verdict::Different { error: (expected - found).abs() }
        };
    }
    if value.is_nan() {
        // An integer has no NaN; the conversion gives 0.
        return if found == 0.0 {
            Verdict::Equal
        } else {
            Verdict::Different { error: found.abs() }
        };
    }
    Verdict::Apart { error: (value.clamp(-128.0, 127.0) - found).abs(), bound }
}

/// `value` as the output type stores it.
fn rounded(output: ElementType, value: f64) -> f64 {
    let mut bytes = [0; 8];
    element::write_f64(output, &mut bytes, 0, value);
    element::read_f64(output, &bytes, 0)
}
