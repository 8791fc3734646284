//! Medians and spreads of repeated measurements.

/// The middle of some measurements, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "three numbers of a sample")]
pub struct Summary {
    /// The median; of an even number the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Of finite measurements; `None` if there is none, or one is not finite.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if !values.iter().all(|value| value.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            0.5 * (sorted[middle - 1] + sorted[middle])
        } else {
            sorted[middle]
        };
        Some(Self { median, min, max })
    }

    /// (max − min) / median.
    #[must_use]
    pub fn spread(&self) -> f64 {
        (self.max - self.min) / self.median
    }
}

/// The ratios `a / b` of measurements taken in turn, pair by pair.
#[must_use]
pub fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

/// Runs of a round, so that a round takes about `budget` seconds: 1 to `most`.
#[must_use]
pub fn runs_within(budget: f64, seconds: f64, most: u64) -> u64 {
    // A time of zero gives infinity, which saturates.
    ((budget / seconds) as u64).clamp(1, most.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        let odd = Summary::of(&[3.0, 1.0, 2.0]);
        assert_eq!(odd, Some(Summary { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(odd.map(|s| s.spread()), Some(1.0));
        let even = Summary::of(&[4.0, 1.0, 2.0, 3.0]);
        assert_eq!(even, Some(Summary { median: 2.5, min: 1.0, max: 4.0 }));
    }

    #[test]
    fn nothing_and_nonsense_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Summary::of(&[1.0, f64::INFINITY]), None);
    }

    #[test]
    fn ratios_go_pair_by_pair() {
        assert_eq!(ratios(&[2.0, 9.0], &[1.0, 3.0]), [2.0, 3.0]);
    }

    #[test]
    fn rounds_keep_to_their_budget() {
        assert_eq!(runs_within(1.0, 0.1, 70), 10);
        assert_eq!(runs_within(1.0, 1e-6, 70), 70);
        assert_eq!(runs_within(1.0, 30.0, 70), 1);
        assert_eq!(runs_within(1.0, 0.0, 70), 70);
    }
}
