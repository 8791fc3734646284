//! `--quantize`: what rounding the inputs costs.

use std::fmt;

use lapidary_core::oracle;
use lapidary_core::{AnyMatrixRef, ElementType, Error, Operands, Problem};
use serde::Serialize;

/// Elements of C that are compared where all would take long.
const SAMPLE: usize = 4096;

/// Products the oracle computes before it turns to a sample.
const BUDGET: usize = 1 << 26;

/// Any fixed number: the same product is compared in the same places every time.
const SEED: u64 = 0x9a17_71e5;

/// The result against the product of the inputs as they were.
#[derive(Serialize)]
pub(super) struct Quantization {
    /// The type that A and B were rounded to.
    element: &'static str,
    /// Elements of C compared.
    compared: usize,
    /// ‖C − exact‖ / ‖exact‖ over them, in the Frobenius norm.
    relative_error: f64,
    /// The largest |C − exact|.
    max_error: f64,
}

impl Quantization {
    /// Compares `found` with the float64 product of `operands`, which `problem` states.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn measure(
        element: ElementType,
        problem: &Problem,
        operands: &Operands<'_>,
        found: AnyMatrixRef<'_>,
    ) -> Result<Self, Error> {
        let at_least = (BUDGET / problem.k.max(1)).max(SAMPLE);
        let positions = oracle::sample_positions(problem, [1, 1], at_least, SEED);
        let reference = oracle::reference_at(problem, operands, &positions)?;
        let (mut error, mut size, mut largest) = (0.0f64, 0.0f64, 0.0f64);
        for (position, &exact) in positions.iter().zip(reference.values()) {
            let off = found.get(position.batch, position.row, position.col) - exact;
            error += off * off;
            size += exact * exact;
            // Written so that a NaN stays.
            largest = if off.abs() <= largest { largest } else { off.abs() };
        }
        let relative_error = if size > 0.0 { (error / size).sqrt() } else { error.sqrt() };
        Ok(Self {
            element: element.name(),
            compared: positions.len(),
            relative_error,
            max_error: largest,
        })
    }
}

impl fmt::Display for Quantization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "A by rows and B by columns to {}: C is off the float64 product of the inputs as they were \
             by {:.3e} of its norm, at most {:.3e}, over {} elements",
            self.element, self.relative_error, self.max_error, self.compared
        )
    }
}
