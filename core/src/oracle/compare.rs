//! Comparing a result with the oracle.

use core::fmt;

use super::bound::overflow;
use super::{Position, Reference};
use crate::element::{self, ElementType};
use crate::view::AnyMatrixRef;

/// Elements that were not judged, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unjudged {
    /// NaN or infinity is among the operands of the element, and the device promises nothing then.
    pub non_finite: usize,
    /// Sums of finite operands may overflow on the way, and the result is one that this may lead to.
    pub overflow: usize,
    /// Sums of finite operands overflow f64, in which the oracle computes.
    pub oracle_overflow: usize,
    /// K is too long for an error bound: K · u reaches 1.
    pub unbounded: usize,
}

impl Unjudged {
    /// Elements not judged.
    #[must_use]
    pub fn total(&self) -> usize {
        self.non_finite + self.overflow + self.oracle_overflow + self.unbounded
    }

    /// Adds the counts of another part of the same result.
    pub fn add(&mut self, other: &Self) {
        self.non_finite += other.non_finite;
        self.overflow += other.overflow;
        self.oracle_overflow += other.oracle_overflow;
        self.unbounded += other.unbounded;
    }

    fn count(&mut self, reason: Reason) {
        *match reason {
            Reason::NonFinite => &mut self.non_finite,
            Reason::Overflow => &mut self.overflow,
            Reason::OracleOverflow => &mut self.oracle_overflow,
            Reason::Unbounded => &mut self.unbounded,
        } += 1;
    }
}

/// Each reason that there is, with its count: `3 not judged (…), 1 not judged (…)`.
impl fmt::Display for Unjudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons = [
            (self.non_finite, "NaN or infinity among their inputs, of which nothing is promised"),
            (self.overflow, "sums of finite inputs may overflow on the way, and did"),
            (self.oracle_overflow, "sums of finite inputs overflow float64, in which is checked"),
            (self.unbounded, "K is too long for an error bound"),
        ];
        let mut separator = "";
        for (count, reason) in reasons.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{separator}{count} not judged ({reason})")?;
            separator = ", ";
        }
        Ok(())
    }
}

/// How a result compares with the oracle.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// Elements compared.
    pub checked: usize,
    /// Elements further off than allowed.
    pub mismatches: usize,
    /// Of these, elements not judged: the sum of [`why_unjudged`](Self::why_unjudged).
    pub unjudged: usize,
    /// Why elements were not judged.
    pub why_unjudged: Unjudged,
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
    /// Whether no element is further off than allowed, and any was judged, if there are any.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.mismatches == 0 && !self.judged_nothing()
    }

    /// Whether there are elements, and none of them was judged.
    #[must_use]
    pub fn judged_nothing(&self) -> bool {
        self.checked > 0 && self.unjudged == self.checked
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (self.mismatches, self.judged_nothing()) {
            (0, true) => "NOTHING CHECKED",
            (0, false) => "PASSED",
            _ => "FAILED",
        };
        write!(
            f,
            "{verdict}: {} checked, {} mismatches, max error {:.3e}, {:.3} of the bound, \
             {:.2} units of u·Σ|a||b|",
            self.checked, self.mismatches, self.max_error, self.max_ratio, self.max_units
        )?;
        if self.unjudged > 0 {
            write!(f, ", {}", self.why_unjudged)?;
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
    /// Nothing can be said.
    Unjudged(Reason),
}

/// Why an element is not judged: the fields of [`Unjudged`].
#[derive(Clone, Copy)]
enum Reason {
    NonFinite,
    Overflow,
    OracleOverflow,
    Unbounded,
}

impl Verdict {
    fn is_right(&self) -> bool {
        match *self {
            Self::Equal => true,
            // False with a NaN on either side, so that a NaN is never within the bound.
            Self::Apart { error, bound } => error <= bound,
            Self::Different { .. } | Self::Unjudged(_) => false,
        }
    }
}

pub(super) fn compare(reference: &Reference, found: &AnyMatrixRef<'_>, exact: bool) -> Comparison {
    let mut result = Comparison {
        checked: reference.positions.len(),
        mismatches: 0,
        unjudged: 0,
        why_unjudged: Unjudged::default(),
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
    let u = reference.roundoff * reference.sum_type().unit_roundoff();
    let unit_scale = if problem.c.unit_roundoff() <= u && problem.c.is_float() { u } else { 0.0 };
    for (index, &at) in reference.positions.iter().enumerate() {
        let value = found.get(at.batch, at.row, at.col);
        let verdict = judge(reference, index, value, exact);
        let wrong = !verdict.is_right();
        let (error, ratio) = match verdict {
            Verdict::Equal => (0.0, 0.0),
            Verdict::Unjudged(reason) => {
                result.why_unjudged.count(reason);
                continue;
            }
            Verdict::Different { error } => (error, f64::INFINITY),
            Verdict::Apart { error, bound } => {
                (error, if error == 0.0 { 0.0 } else { error / bound })
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
    result.unjudged = result.why_unjudged.total();
    result
}

fn judge(reference: &Reference, index: usize, found: f64, exact: bool) -> Verdict {
    let term = &reference.terms[index];
    if term.non_finite && reference.unspecified_non_finite {
        return Verdict::Unjudged(Reason::NonFinite);
    }
    // A non-finite operand leaves infinity, NaN or what an activation makes of them: all exact.
    let bound = if term.non_finite { 0.0 } else { reference.bound(index) };
    if !exact && reference.problem.c.is_float() && !term.non_finite {
        if !(term.gauge.is_finite() && term.product_gauge.is_finite()) {
            return Verdict::Unjudged(Reason::OracleOverflow);
        }
        if bound == f64::INFINITY {
            return Verdict::Unjudged(Reason::Unbounded);
        }
    }
    let verdict = judge_value(reference, reference.values[index], found, bound, exact);
    if !exact && !verdict.is_right() && may_overflow_to(reference, index, found) {
        return Verdict::Unjudged(Reason::Overflow);
    }
    verdict
}

/// Whether `found` is what an overflow on the way may lead to; anything is where nothing is promised
/// about infinity.
fn may_overflow_to(reference: &Reference, index: usize, found: f64) -> bool {
    let problem = &reference.problem;
    let may = overflow(problem, &reference.terms[index], reference.allowance());
    if reference.unspecified_non_finite {
        return may.any();
    }
    [(may.positive, f64::INFINITY), (may.negative, f64::NEG_INFINITY), (may.invalid, f64::NAN)]
        .into_iter()
        .filter(|(may, _)| *may)
        .map(|(_, sum)| rounded(problem.c, problem.activation.apply(sum)))
        .any(|result| result == found || (result.is_nan() && found.is_nan()))
}

fn judge_value(reference: &Reference, value: f64, found: f64, bound: f64, exact: bool) -> Verdict {
    let output = reference.problem.c;
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
