//! Matrices in 8-bit types, with one f32 scale for each row.
//!
//! A row is divided by `max|x| / largest finite number of the type`, so that it fills the type's range,
//! and rounded to nearest. The columns of B are rows of its transpose:
//!
//! ```
//! use lapidary_core::quantize::quantize_rows;
//! use lapidary_core::{Cpu, ElementType, Gemm, MatrixRef, Operands};
//! # fn main() -> Result<(), lapidary_core::Error> {
//! let a = [0.5f32, -1.0, 100.0, 25.0]; // 2×2, rows of different size
//! let b = [1.0f32, 0.0, 0.0, 1.0];
//! let a = quantize_rows(MatrixRef::row_major(&a, 2, 2)?, ElementType::F8E4M3)?;
//! let b = quantize_rows(MatrixRef::row_major(&b, 2, 2)?.transposed(), ElementType::F8E4M3)?;
//! let operands = Operands::new(a.matrix.as_ref(), b.matrix.as_ref().transposed())
//!     .row_scale(&a.scales)
//!     .col_scale(&b.scales);
//! let problem = operands.problem(ElementType::F32)?;
//! # #[cfg(feature = "cpu")]
//! # {
//! let c = Gemm::<Cpu>::run(&Cpu::new(), &problem, &operands)?.matrix.to_vec::<f32>()?;
//! // e4m3 keeps 4 bits of significand.
//! assert!(c.iter().zip([0.5, -1.0, 100.0, 25.0]).all(|(c, a)| (c - a).abs() <= a.abs() / 16.0));
//! # }
//! # Ok(())
//! # }
//! ```

use crate::element::{self, ElementType};
use crate::error::Error;
use crate::layout::Shape;
use crate::view::{AnyMatrixRef, Matrix};

/// A matrix in a narrow type, and what its rows are to be multiplied by.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Quantized {
    /// The elements, row-major without gaps, matrix after matrix.
    pub matrix: Matrix,
    /// One scale a row, matrix after matrix; 1 for a row of zeros.
    pub scales: Vec<f32>,
}

/// Rounds each row of `view` to `element`, i8 or an fp8, with a scale of its own.
///
/// # Errors
/// [`Error::NotFinite`] for a NaN or an infinity, which no scale takes into range;
/// [`Error::ElementTypeUnavailable`] for other types; [`Error::OutOfMemory`].
pub fn quantize_rows<'a>(
    view: impl Into<AnyMatrixRef<'a>>,
    element: ElementType,
) -> Result<Quantized, Error> {
    let view = view.into();
    if element != ElementType::I8 && !element.is_fp8() {
        return Err(Error::ElementTypeUnavailable {
            backend: "quantisation by rows".into(),
            element,
            needs: "i8 or an fp8 type",
        });
    }
    let Shape { batch, rows, cols } = view.shape();
    let mut matrix = Matrix::zeros(element, view.shape())?;
    let mut scales = Vec::with_capacity(batch.saturating_mul(rows));
    let bytes = matrix.bytes_mut();
    for (index, (b, row)) in (0..batch).flat_map(|b| (0..rows).map(move |r| (b, r))).enumerate() {
        let mut largest = 0.0f64;
        for col in 0..cols {
            let value = view.get(b, row, col);
            if !value.is_finite() {
                return Err(Error::NotFinite { row, col, value });
            }
            largest = largest.max(value.abs());
        }
        let scale = scale_of(largest, element.max_finite());
        for col in 0..cols {
            // The scale was rounded, so the largest element may leave the range by a little.
            let scaled = (view.get(b, row, col) / f64::from(scale))
                .clamp(-element.max_finite(), element.max_finite());
            element::write_f64(element, bytes, index * cols + col, scaled);
        }
        scales.push(scale);
    }
    Ok(Quantized { matrix, scales })
}

/// The scale that takes `largest` to `limit`; a number of f32 above zero.
fn scale_of(largest: f64, limit: f64) -> f32 {
    if largest == 0.0 {
        return 1.0;
    }
    let scale = (largest / limit) as f32;
    scale.clamp(f32::MIN_POSITIVE, f32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::view::MatrixRef;

    #[test]
    fn every_element_is_within_half_a_step_of_its_type() {
        let mut random = Random::new(1);
        let values: Vec<f64> =
            (0..20 * 33).map(|i| random.unit() * f64::from(i / 33 - 10).exp2()).collect();
        let view = MatrixRef::row_major(&values, 20, 33).expect("a view");
        for element in [
            ElementType::I8,
            ElementType::F8E4M3,
            ElementType::F8E4M3Fnuz,
            ElementType::F8E5M2,
            ElementType::F8E5M2Fnuz,
        ] {
            let quantized = quantize_rows(view, element).expect("finite values");
            for row in 0..20 {
                let scale = f64::from(quantized.scales[row]);
                for col in 0..33 {
                    let exact = values[row * 33 + col];
                    let found = quantized.matrix.as_ref().get(0, row, col) * scale;
                    let step = if element.is_float() {
                        (exact.abs() * element.unit_roundoff())
                            .max(element.min_subnormal() / 2.0 * scale)
                    } else {
                        scale / 2.0
                    };
                    // The scale is an f32: what is clamped at the range's end is off by its rounding.
                    let bound = step * (1.0 + 1e-6) + exact.abs() * 1e-7;
                    assert!((found - exact).abs() <= bound, "{element} {exact} {found}");
                }
                let top = (0..33)
                    .map(|col| quantized.matrix.as_ref().get(0, row, col).abs())
                    .fold(0.0, f64::max);
                assert_eq!(top, element.max_finite(), "{element}: the range is used");
            }
        }
    }

    #[test]
    fn zeros_have_scale_one_and_non_finite_values_are_refused() {
        let zeros = [0.0f32; 6];
        let view = MatrixRef::row_major(&zeros, 2, 3).expect("a view");
        let quantized = quantize_rows(view, ElementType::F8E4M3).expect("zeros");
        assert_eq!(quantized.scales, [1.0, 1.0]);
        for bad in [f32::NAN, f32::INFINITY] {
            let values = [0.0, 0.0, 0.0, 0.0, 0.0, bad];
            let view = MatrixRef::row_major(&values, 2, 3).expect("a view");
            assert!(matches!(
                quantize_rows(view, ElementType::I8),
                Err(Error::NotFinite { row: 1, col: 2, .. })
            ));
        }
        assert!(matches!(
            quantize_rows(view, ElementType::F16),
            Err(Error::ElementTypeUnavailable { .. })
        ));
        let tiny = [1e-300f64];
        let view = MatrixRef::row_major(&tiny, 1, 1).expect("a view");
        assert_eq!(quantize_rows(view, ElementType::I8).expect("it").scales, [f32::MIN_POSITIVE]);
    }
}
