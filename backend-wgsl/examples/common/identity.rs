//! The identity check: with B = I, C must be A, bit for bit.
//!
//! Every sum has one product that is not zero, so no rounding hides a wrong index, a missing strip
//! or a race. Columns past K of a wide B meet no one on the diagonal and must be 0.

use super::data;
use super::record::Check;

/// Compares every element of `c` (M×N) with A·I, where A is M×K.
pub(crate) fn check(a: &[u8], c: &[u8], [_, n, k]: [usize; 3]) -> Check {
    let shared = n.min(k);
    let mut expected = Vec::with_capacity(c.len() / 4);
    for row in a.chunks_exact(4 * k) {
        expected.extend(data::elements(row).take(shared));
        expected.extend(std::iter::repeat_n(0.0, n - shared));
    }
    let mut wrong = 0usize;
    let mut first = None;
    for (i, (found, &expected)) in data::elements(c).zip(&expected).enumerate() {
        // Also true for NaN: C was filled with it before.
        if found != expected {
            wrong += 1;
            first.get_or_insert((i / n, i % n, expected, found));
        }
    }
    let detail = match first {
        None => "C = A in every element".to_owned(),
        Some((row, col, expected, found)) => format!(
            "{wrong} elements differ; the first is C[{row}][{col}] = {found}, expected {expected}"
        ),
    };
    Check {
        name: "identity".to_owned(),
        passed: wrong == 0,
        checked: expected.len(),
        of: c.len() / 4,
        detail,
    }
}
