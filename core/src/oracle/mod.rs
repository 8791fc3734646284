//! What the right answer is, and how far off a result may be.
//!
//! The oracle is a plain triple loop in `f64` (exact integers for `i8` and `i4`), kept slow and simple on
//! purpose: it shares no code with any backend. For every element it returns the value and the
//! *gauge* `|alpha·r·s| · Σ|a||b| + |beta||c| + |bias|` (r and s the scales of its row and column, a
//! and b with their block or group scales), the scale that rounding errors are measured against. Products of
//! fp8 and fp4 numbers are exact in `f64`, with any block scales. [`Reference::bound`] derives from it how far a correct result may be off, and
//! [`Reference::compare`] applies that; [`Reference::compare_exact`] is for data whose sums are
//! exact, where any difference is a defect.
//!
//! A bound that grows with K cannot find a lost tail at large K: with t of K equal terms missing the
//! error is t/K of the gauge, and `K · u` allows it up to t = K²·u (256 terms at K = 65,536 in
//! f32). Indexing is therefore tested on small integers, bit for bit, and at sizes where the triple
//! loop is too slow by [`freivalds`], which is exact as well.
//!
//! ```
//! # #[cfg(not(feature = "cpu"))]
//! # fn main() {}
//! # #[cfg(feature = "cpu")]
//! # fn main() -> Result<(), lapidary_core::Error> {
//! use lapidary_core::{Cpu, ElementType, Gemm, MatrixRef, Operands, oracle};
//!
//! let a = [0.1f32, 0.2, 0.3, 0.4];
//! let operands = Operands::new(MatrixRef::row_major(&a, 2, 2)?, MatrixRef::row_major(&a, 2, 2)?);
//! let problem = operands.problem(ElementType::F32)?;
//! let output = Gemm::<Cpu>::run(&Cpu::new(), &problem, &operands)?;
//! let comparison = oracle::reference(&problem, &operands)?.compare(&output.matrix.as_ref());
//! assert!(comparison.passed(), "{comparison}");
//! # Ok(())
//! # }
//! ```

mod bound;
mod compare;
mod freivalds;
mod sample;
mod sum;

use crate::element::ElementType;
use crate::error::Error;
use crate::operands::Operands;
use crate::problem::Problem;

pub use compare::{Comparison, Unjudged};
pub use freivalds::{FreivaldsReport, freivalds};
pub use sample::sample_positions;

/// An element of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(clippy::exhaustive_structs, reason = "a position has three coordinates")]
pub struct Position {
    /// Matrix of the batch.
    pub batch: usize,
    /// Row.
    pub row: usize,
    /// Column.
    pub col: usize,
}

impl core::fmt::Display for Position {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "({}, {}, {})", self.batch, self.row, self.col)
    }
}

/// Units for [`Reference::within_units`] that random sums stay within, whatever K is and whatever type they
/// are in.
///
/// Of K products ab with a and b uniform on [−1, 1], summed one after the other, the partial sum sᵢ has the
/// variance i/9, and the rounding of each adds an error of at most u·|sᵢ|, spread evenly: of variance
/// u²·sᵢ²/3. Together they have the standard deviation u·K/(3·√6), which is 0.54 units, as Σ|a||b| is about
/// K/4; any other order of summation has shorter partial sums. So 8 units are 15 standard deviations there.
/// Scales of rows, columns and groups, and types of few bits, make some products outweigh the others, so
/// that fewer of them count.
pub const RANDOM_UNITS: f64 = 8.0;

/// The oracle's answer for all elements of C, or for a sample of them.
#[derive(Clone, Debug)]
pub struct Reference {
    problem: Problem,
    positions: Vec<Position>,
    terms: Vec<sum::Term>,
    values: Vec<f64>,
    gauges: Vec<f64>,
    flushes_subnormals: bool,
    unspecified_non_finite: bool,
    roundoff: f64,
    units: f64,
    sums: Option<ElementType>,
}

/// The value and the gauge of every element of C, row-major, matrix after matrix.
///
/// # Errors
/// What [`Problem::validate`] and [`Operands::check`] find; [`Error::OutOfMemory`].
pub fn reference(problem: &Problem, operands: &Operands<'_>) -> Result<Reference, Error> {
    let len = problem.c_shape().len().unwrap_or(usize::MAX);
    let mut positions = Vec::new();
    positions.try_reserve_exact(len).map_err(|_| Error::OutOfMemory {
        requested: (len as u64).saturating_mul(size_of::<Position>() as u64),
        what: "the oracle's positions".into(),
        device: "host".into(),
    })?;
    for batch in 0..problem.batch {
        for row in 0..problem.m {
            positions.extend((0..problem.n).map(|col| Position { batch, row, col }));
        }
    }
    evaluate(problem, operands, positions)
}

/// The value and the gauge of the elements at `positions`, in their order.
///
/// # Errors
/// What [`Problem::validate`] and [`Operands::check`] find; [`Error::LimitExceeded`] for a position
/// outside C.
pub fn reference_at(
    problem: &Problem,
    operands: &Operands<'_>,
    positions: &[Position],
) -> Result<Reference, Error> {
    for position in positions {
        for (what, value, end) in [
            ("matrix of an oracle position", position.batch, problem.batch),
            ("row of an oracle position", position.row, problem.m),
            ("column of an oracle position", position.col, problem.n),
        ] {
            if value >= end {
                return Err(Error::LimitExceeded {
                    what,
                    requested: value as u128,
                    limit: (end as u128).saturating_sub(1),
                });
            }
        }
    }
    evaluate(problem, operands, positions.to_vec())
}

fn evaluate(
    problem: &Problem,
    operands: &Operands<'_>,
    positions: Vec<Position>,
) -> Result<Reference, Error> {
    problem.validate()?;
    operands.check(problem)?;
    let terms = sum::elements(problem, operands, &positions);
    Ok(Reference {
        values: terms.iter().map(|t| problem.activation.apply(t.sum)).collect(),
        gauges: terms.iter().map(|t| t.gauge).collect(),
        terms,
        flushes_subnormals: true,
        problem: problem.clone(),
        positions,
        unspecified_non_finite: false,
        roundoff: 1.0,
        units: f64::INFINITY,
        sums: None,
    })
}

impl Reference {
    /// The values before they are rounded to the output type.
    ///
    /// With i8 operands and i32 output they are exact, modulo 2³².
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// `|alpha·r·s| · Σ|a||b| + |beta||c| + |bias|` of every element.
    #[must_use]
    pub fn gauges(&self) -> &[f64] {
        &self.gauges
    }

    /// `Σ|a||b|` of every element, what the sum of its products alone is measured against.
    pub fn product_gauges(&self) -> impl Iterator<Item = f64> + '_ {
        self.terms.iter().map(|term| term.product_gauge)
    }

    /// Where the elements lie in C.
    #[must_use]
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// How far a correct result may be from [`values`](Self::values)`[index]`.
    ///
    /// The sum of, with u the unit roundoff of the accumulator and u_out that of the output:
    ///
    /// 1. **Sum and epilogue:** `γ_{K+4}(u) · gauge`, `γ_n(u) = n·u / (1 − n·u)` (Higham, *Accuracy
    ///    and Stability of Numerical Algorithms*, 2nd ed., §3.1 and eq. 3.5: it holds for any order of
    ///    summation, with and without fused multiply-add). Each product passes at most K roundings
    ///    in the sum and three more (times alpha, plus beta·c, plus bias), each other term fewer. For
    ///    integer operands the sum is exact and only its conversion to f32 and the epilogue round:
    ///    `γ_5(u)`. A row scale, a column scale and group scales add one rounding each to either
    ///    index; block scales are powers of two and add none. For i32 output nothing rounds: the bound is 0.
    /// 2. **The oracle's own rounding:** `γ_{K+4}(2⁻⁵³) · gauge`, the index as above; for f64
    ///    problems that makes `2·γ`.
    /// 3. **Underflow:** a device may flush subnormals. Each of the 2K + 4 results may lose up to the
    ///    smallest normal number of the accumulator (scaled by alpha), and a subnormal operand may
    ///    count as zero: the part of the gauge that such operands make (all of the product's with a
    ///    subnormal scale). Not so subnormal numbers of less than 16 bits, which are decoded to
    ///    wider types first. With scales, what is lost may grow by any of the later factors.
    /// 4. **Activation:** the above times a bound on the slope
    ///    ([`lipschitz`](crate::Activation::lipschitz)), plus the error of evaluating it on a
    ///    number x:
    ///    - relu: none, it is a compare and a select;
    ///    - silu, `x / (1 + e⁻ˣ)`: relative `((3 + 2|x|) · σ(−x) + 4)` ulp, because WGSL allows
    ///      `(3 + 2|x|)` ulp for `exp`, of which the fraction σ(−x) = e⁻ˣ/(1 + e⁻ˣ) reaches the sum, and
    ///      2.5 ulp for the division; the addition and product round half an ulp each;
    ///    - both gelus: `½|x|` times the error allowed for tanh or erf, 10 ulp of 1. An `erf` good to
    ///      1.5·10⁻⁷ (Abramowitz and Stegun 7.1.26) evaluated in f32 stays below, as does tanh from
    ///      an `exp` of the accuracy above. WGSL's own `tanh` (allowed 10⁻⁵) does not;
    ///    - all three: 128 smallest normal numbers, where `e⁻ˣ` overflows before x·e⁻ˣ vanishes.
    ///
    ///    One ulp is 2u relative. f64 problems count this twice, the oracle rounds likewise.
    /// 5. **Output:** `u_out · (|value| + error so far) +` the smallest subnormal of the output type;
    ///    a value below the smallest normal number may count as zero. Half for i8, which rounds to
    ///    integers.
    ///
    /// **Sums in a narrower type** ([`summing_in`](Self::summing_in)), u_s its unit roundoff: the
    /// products pass K roundings there, and one more with group scales, which may be applied within
    /// the sum; what comes of them passes those of the epilogue, e = 4 and one for each of row and
    /// column scales, in the accumulator's type, to which the conversion is exact. With G the
    /// product's part of the gauge, |alpha·r·s| · Σ|a||b|, the sum and epilogue of 1 then come to
    /// `γ_K(u_s) · (1 + γ_e(u)) · G + γ_e(u) · gauge`: the epilogue loses γ_e(u) of a product that is
    /// up to γ_K(u_s) · G larger than the exact one. In 3 the 2K products and partial sums lose up to
    /// the smallest normal number of the *sum's* type each (K of its smallest subnormal ones on a
    /// device that keeps subnormals), which later roundings raise by no more than the factor 1 + the
    /// relative errors of 1 and 2; the e others lose as before. A kernel that sums in the
    /// accumulator's type after all, or partly so, is within this bound as well.
    ///
    /// This is for a finite result: what overflow may make of the sum on its way stands at
    /// [`compare`](Self::compare). Infinite where K · u reaches 1, and where the gauge exceeds
    /// f64; NaN for an index past the end.
    #[must_use]
    pub fn bound(&self, index: usize) -> f64 {
        match self.terms.get(index) {
            Some(term) => bound::bound(&self.problem, term, self.allowance()),
            None => f64::NAN,
        }
    }

    fn allowance(&self) -> bound::Allowance {
        bound::Allowance {
            flush: self.flushes_subnormals,
            roundoff: self.roundoff,
            units: self.units,
            sums: self.sums,
        }
    }

    /// For kernels whose sums of products are in a narrower type than the problem's accumulator: their
    /// roundings, underflow and overflow are then those of `sums`, and the epilogue's as before.
    ///
    /// Nothing changes for a type that is not narrower, nor for integer operands, whose sums are exact.
    #[must_use]
    pub fn summing_in(mut self, sums: ElementType) -> Self {
        self.sums = bound::narrower(&self.problem, sums);
        self
    }

    /// For random data of either sign whose products are summed in f16: units of f16, since from K = 2048 on
    /// there is no worst case.
    #[must_use]
    pub fn of_random_f16_sums(self) -> Self {
        self.summing_in(ElementType::F16).within_units(RANDOM_UNITS)
    }

    /// The type that products are summed in, as far as the bound goes: that of
    /// [`summing_in`](Self::summing_in), else the one that the epilogue is computed in.
    #[must_use]
    pub fn sum_type(&self) -> ElementType {
        self.sums.unwrap_or_else(|| bound::arithmetic(&self.problem))
    }

    /// For a device that keeps subnormals: the bound without the allowance for flushing them.
    #[must_use]
    pub fn keeping_subnormals(mut self) -> Self {
        self.flushes_subnormals = false;
        self
    }

    /// For random data of either sign: at most `units` of u·gauge for the sum, in place of γ_{K+4}
    /// where that is more.
    ///
    /// Rounding errors of either sign mostly cancel: the sums of such data stay within a few units
    /// whatever K is, while the worst case grows with K and so allows ever more lost terms.
    ///
    /// With sums in a narrower type the units are of its u and of the product's part of the gauge, in
    /// place of γ_K(u_s).
    #[must_use]
    pub fn within_units(mut self, units: f64) -> Self {
        self.units = units;
        self
    }

    /// For matrix units whose additions truncate instead of rounding: u counts twice.
    #[must_use]
    pub fn truncating(mut self) -> Self {
        self.roundoff = 2.0;
        self
    }

    /// For a device that promises nothing about NaN and infinity, as WGSL does: elements that a
    /// non-finite operand reaches are not judged, nor results of sums that may overflow on the way,
    /// unless they are within the bound.
    #[must_use]
    pub fn with_unspecified_non_finite(mut self) -> Self {
        self.unspecified_non_finite = true;
        self
    }

    /// Compares a result with the values, each within its [`bound`](Self::bound).
    ///
    /// Non-finite values are classified first: NaN wants NaN, infinity wants the same infinity, and
    /// infinity for a finite value is right only where the value may round to it.
    ///
    /// **Overflow** of finite operands depends on the order of the sum, so that a right result may be
    /// non-finite where the value is not. With P the sum of the positive terms of a sum, N that of
    /// the magnitudes of its negative ones and G = P + N its gauge, every partial sum, in whatever
    /// order, lies between −(N + γ·G) and P + γ·G (1 and 2 of [`bound`](Self::bound)). Let M be the
    /// largest finite number of the accumulator.
    ///
    /// - P + γ·G ≤ M and N + γ·G ≤ M: nothing overflows.
    /// - Only P + γ·G > M: a partial sum may become +∞, and then stays so, since no −∞ meets it. The
    ///   result is +∞ or within the bound; where the value exceeds M by more than the bound that
    ///   leaves +∞. Likewise −∞ for N.
    /// - Both: also NaN, from +∞ − ∞.
    ///
    /// With sums in a narrower type, G is that of Σab alone, and M the largest finite number of that
    /// type (65,504 of f16), γ·G what [`bound`](Self::bound) has for it, losses by underflow included;
    /// the epilogue's sum is in the accumulator's type and has the M of that.
    ///
    /// This holds for Σab before alpha multiplies it (a negative alpha turns the signs; one that may
    /// count as zero makes NaN of infinity) and for the whole sum. Factors in whatever order, with
    /// row, column or group scales, may overflow to either sign and meet a zero: all three. Beside an
    /// infinite operand the finite terms may reach the other infinity: NaN. The activation makes of
    /// these what it makes of infinity and NaN. A result that is none of the possible ones is a
    /// mismatch; one that is right without being what the value rounds to counts as
    /// [unjudged](Unjudged::overflow), since it says nothing about the element.
    #[must_use]
    pub fn compare(&self, found: &crate::AnyMatrixRef<'_>) -> Comparison {
        compare::compare(self, found, false)
    }

    /// Compares a result with the values rounded to the output type, bit for bit.
    ///
    /// For data whose sums are exact in the type that they are summed in, and activations that are
    /// exact (none and relu). NaN wants NaN with any payload; zeros of either sign are equal, because
    /// the sign of an exact zero depends on the order of the sum.
    #[must_use]
    pub fn compare_exact(&self, found: &crate::AnyMatrixRef<'_>) -> Comparison {
        compare::compare(self, found, true)
    }
}
