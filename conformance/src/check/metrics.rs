//! What executions measured: errors, repetitions, canaries.

use lapidary_core::oracle::Reference;
use lapidary_core::{Activation, AnyMatrixRef, ElementType, Problem, element};
use serde::Serialize;

use crate::spec::Spec;
use crate::tier::Tier;

/// Buckets a unit of the histogram.
const PER_UNIT: f64 = 64.0;

/// Buckets in all: errors from 16 units on share the last.
const BUCKETS: usize = 16 * PER_UNIT as usize + 1;

/// A largest value, and the case that has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(clippy::exhaustive_structs, reason = "a value and its place")]
pub struct Extreme {
    /// The value.
    pub value: f64,
    /// The case, with its sizes.
    pub at: String,
}

impl Extreme {
    /// Keeps the larger one.
    pub fn raise(&mut self, value: f64, at: impl FnOnce() -> String) {
        if value > self.value {
            *self = Self { value, at: at() };
        }
    }

    fn merge(&mut self, other: &Self) {
        self.raise(other.value, || other.at.clone());
    }
}

/// Measurements of one kernel, or of one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "Published")]
#[non_exhaustive]
pub struct Metrics {
    /// Elements compared with the oracle.
    pub elements: u64,
    /// Of these, how many equal the oracle's value rounded once.
    pub exact_elements: u64,
    /// Largest error in units of u·Σ|a||b| on random data, u that of the type of the sums, what the output's own rounding explains
    /// left out.
    pub units: Extreme,
    /// Largest distance from the oracle's rounded value in units of the output's last place, on random
    /// data, where the sum did not cancel below an eighth of Σ|a||b|.
    pub ulps: Extreme,
    /// Largest error ÷ bound on worst-case data.
    pub worst_ratio: Extreme,
    /// Repetitions that were compared.
    pub reruns: u64,
    /// Repetitions that gave other bits.
    pub rerun_differences: u64,
    /// Elements outside C, and inputs, that changed.
    pub broken_canaries: u64,
    /// Elements that nothing could be said of, because sums of finite numbers may overflow on the way.
    pub unjudged: u64,
    /// Executions on small integers compared within the bound: their activation is a smooth one, or
    /// alpha, beta or the scales are such that products round.
    pub bounded: u64,
    histogram: Vec<u64>,
}

/// What reports have of [`Metrics`].
#[derive(Serialize)]
struct Published {
    elements: u64,
    bit_exact_share: f64,
    units_max: Extreme,
    units_p99: f64,
    ulps_max: Extreme,
    worst_case_ratio: Extreme,
    reruns: u64,
    rerun_differences: u64,
    broken_canaries: u64,
    unjudged: u64,
    bounded: u64,
}

impl From<Metrics> for Published {
    fn from(metrics: Metrics) -> Self {
        Self {
            elements: metrics.elements,
            bit_exact_share: metrics.exact_share(),
            units_p99: metrics.units_p99(),
            units_max: metrics.units,
            ulps_max: metrics.ulps,
            worst_case_ratio: metrics.worst_ratio,
            reruns: metrics.reruns,
            rerun_differences: metrics.rerun_differences,
            broken_canaries: metrics.broken_canaries,
            unjudged: metrics.unjudged,
            bounded: metrics.bounded,
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            elements: 0,
            exact_elements: 0,
            units: Extreme::default(),
            ulps: Extreme::default(),
            worst_ratio: Extreme::default(),
            reruns: 0,
            rerun_differences: 0,
            broken_canaries: 0,
            unjudged: 0,
            bounded: 0,
            histogram: vec![0; BUCKETS],
        }
    }
}

impl Metrics {
    /// Adds another case's measurements.
    pub fn merge(&mut self, other: &Self) {
        self.elements += other.elements;
        self.exact_elements += other.exact_elements;
        self.units.merge(&other.units);
        self.ulps.merge(&other.ulps);
        self.worst_ratio.merge(&other.worst_ratio);
        self.reruns += other.reruns;
        self.rerun_differences += other.rerun_differences;
        self.broken_canaries += other.broken_canaries;
        self.unjudged += other.unjudged;
        self.bounded += other.bounded;
        for (sum, count) in self.histogram.iter_mut().zip(&other.histogram) {
            *sum += count;
        }
    }

    /// The error in units that 99 % of the random data's elements stay within, to 1/64.
    #[must_use]
    pub fn units_p99(&self) -> f64 {
        let total: u64 = self.histogram.iter().sum();
        let mut seen = 0;
        for (bucket, count) in self.histogram.iter().enumerate() {
            seen += count;
            if total > 0 && seen * 100 >= total * 99 {
                return (bucket as f64 / PER_UNIT).min(self.units.value);
            }
        }
        0.0
    }

    /// The share of elements that equal the oracle's value rounded once; 1 where there are none.
    #[must_use]
    pub fn exact_share(&self) -> f64 {
        if self.elements == 0 { 1.0 } else { self.exact_elements as f64 / self.elements as f64 }
    }

    /// Measures a result.
    pub(crate) fn record(
        &mut self,
        tier: Tier,
        reference: &Reference,
        problem: &Problem,
        found: &AnyMatrixRef<'_>,
        spec: &Spec,
    ) {
        let sums = reference.sum_type();
        let u = sums.unit_roundoff();
        // Smaller sums in a narrower type show what underflow loses, which is no number of units.
        let narrow = problem.accumulator().is_float() && sums != problem.accumulator();
        let least = if narrow { problem.k as f64 * sums.min_normal() / u } else { 0.0 };
        let products: Vec<f64> = reference.product_gauges().collect();
        let output = problem.c;
        // The error of an activation's evaluation is no error of the sum.
        let plain = matches!(problem.activation, Activation::None | Activation::Relu);
        let (values, gauges) = (reference.values(), reference.gauges());
        for (index, &at) in reference.positions().iter().enumerate() {
            let value = found.get(at.batch, at.row, at.col);
            let expected = values[index];
            let rounded = round(output, expected);
            self.elements += 1;
            self.exact_elements +=
                u64::from(value == rounded || (value.is_nan() && rounded.is_nan()));
            if !(value.is_finite() && expected.is_finite()) {
                continue;
            }
            let error = (value - expected).abs();
            let place = || format!("{} at {at}, K {}", spec.name, problem.k);
            if tier == Tier::WorstCase && output.is_float() {
                let bound = reference.bound(index);
                if error > 0.0 && bound.is_finite() && bound > 0.0 {
                    self.worst_ratio.raise(error / bound, place);
                }
            }
            if tier != Tier::Statistical || products[index] < least {
                continue;
            }
            // A sum that cancels to nearly nothing is any number of its own units off.
            if expected.abs() >= gauges[index] / 8.0 {
                self.ulps.raise((value - rounded).abs() / ulp(output, rounded), place);
            }
            if plain && output.is_float() && gauges[index] > 0.0 {
                let explained = if output.unit_roundoff() > u {
                    output.unit_roundoff() * expected.abs().max(output.min_normal())
                } else {
                    0.0
                };
                let units = (error - explained).max(0.0) / (u * gauges[index]);
                self.units.raise(units, place);
                let bucket = ((units * PER_UNIT).ceil() as usize).min(BUCKETS - 1);
                self.histogram[bucket] += 1;
            }
        }
    }
}

/// `value` as the type stores it.
pub(crate) fn round(output: ElementType, value: f64) -> f64 {
    let mut bytes = [0; 8];
    element::write_f64(output, &mut bytes, 0, value);
    element::read_f64(output, &bytes, 0)
}

/// The distance from a value of the type to the next one away from 0.
fn ulp(output: ElementType, value: f64) -> f64 {
    if !output.is_float() {
        return 1.0;
    }
    let magnitude = value.abs().max(output.min_normal());
    // The exponent field of an f64 is floor(log2 |x|); normal numbers of every type are normal here.
    let exponent = f64::from_bits(magnitude.to_bits() & 0x7ff0_0000_0000_0000);
    exponent * 2.0 * output.unit_roundoff()
}
