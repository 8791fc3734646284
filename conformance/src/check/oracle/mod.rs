//! The checker checked: what it must accept, what it must reject, and whom it must agree with.
//!
//! Every other tier leans on the oracle. Here its sums are compared with two others, an independent
//! product in f64 and Freivalds' test; its bound with the formula written out anew; its comparisons are
//! given results with known errors; and the formats that it reads are compared with published numbers
//! and with rounding done another way. The data that all this is tried on is looked at as well.

mod bounds;
mod data;
mod sums;

use lapidary_core::oracle::{self, Reference};
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{
    Activation, AnyMatrixRef, ElementType, FloatFormat, Matrix, Overflow, Problem,
};

use super::{Fault, Promises, metrics};
use crate::tier::Tier;

fn fail(message: impl Into<String>) -> Fault {
    Fault::new(Tier::Oracle, message)
}

fn ensure(right: bool, message: impl FnOnce() -> String) -> Result<(), Fault> {
    if right { Ok(()) } else { Err(fail(message())) }
}

/// Checks the oracle.
///
/// # Errors
/// [`Fault`] with the first thing that it gets wrong.
pub fn oracle() -> Result<(), Fault> {
    formats()?;
    for types in [[ElementType::F32; 3], [ElementType::F16, ElementType::F16, ElementType::F32]] {
        agrees_with_others(types)?;
    }
    bounds::bounds()?;
    comparisons()?;
    promised_units()?;
    sums::sums()?;
    freivalds()?;
    data::canaries()?;
    data::values()
}

/// A product with every term of the epilogue but an activation, and operands in odd places.
fn case(types: [ElementType; 3], values: Values) -> Case {
    let [a, b, c] = types;
    let problem = Problem::new(9, 7, 33)
        .elements(a, c)
        .factors(a, b)
        .batch(2)
        .alpha(-2.0)
        .beta(3.0)
        .bias(true);
    let [x, y, z] = [Arrangement::ColMajor, Arrangement::Padded, Arrangement::Spread];
    Case::new(problem, values, 5).arranged(x, y, z)
}

fn reference(case: &Case) -> Result<Reference, Fault> {
    oracle::reference(&case.problem, &case.operands()).map_err(|error| fail(error.to_string()))
}

/// The values rounded to the output type: a right result.
fn right(reference: &Reference, problem: &Problem) -> Result<Matrix, Fault> {
    let mut matrix =
        Matrix::zeros(problem.c, problem.c_shape()).map_err(|e| fail(e.to_string()))?;
    let mut view = matrix.as_mut();
    for (index, &value) in reference.values().iter().enumerate() {
        lapidary_core::element::write_f64(problem.c, view.bytes_mut(), index, value);
    }
    Ok(matrix)
}

fn set(matrix: &mut Matrix, index: usize, value: f64) {
    let element = matrix.element();
    lapidary_core::element::write_f64(element, matrix.as_mut().bytes_mut(), index, value);
}

/// An element as a row of dense f64 copies of A and B gives it.
fn agrees_with_others(types: [ElementType; 3]) -> Result<(), Fault> {
    let case = case(types, Values::Uniform);
    let reference = reference(&case)?;
    let Problem { m, n, k, alpha, beta, .. } = case.problem;
    let u = ElementType::F64.unit_roundoff();
    let dense = |view: AnyMatrixRef<'_>, batch: usize, absolute: bool| -> Vec<f64> {
        let shape = view.shape();
        (0..shape.rows * shape.cols)
            .map(|i| view.get(batch, i / shape.cols, i % shape.cols))
            .map(|x| if absolute { x.abs() } else { x })
            .collect()
    };
    let operands = case.operands();
    let bias = |col: usize| operands.bias.map_or(0.0, |bias| bias.get(col));
    for batch in 0..case.problem.batch {
        for absolute in [false, true] {
            let (a, b) =
                (dense(case.a.view(), batch, absolute), dense(case.b.view(), batch, absolute));
            let mut product = vec![0.0; m * n];
            product_f64([m, n, k], &a, &b, &mut product);
            for row in 0..m {
                for col in 0..n {
                    let index = (batch * m + row) * n + col;
                    let old = case.c.view().get(batch, row, col);
                    let sum = product[row * n + col];
                    let (expected, found) = if absolute {
                        let gauge = alpha.abs() * sum + beta.abs() * old.abs() + bias(col).abs();
                        (gauge, reference.gauges()[index])
                    } else {
                        (alpha * sum + beta * old + bias(col), reference.values()[index])
                    };
                    let gauge = reference.gauges()[index].abs();
                    let off = (expected - found).abs();
                    ensure(off <= 2.0 * (k as f64 + 4.0) * u * gauge, || {
                        format!(
                            "an independent product has {expected:e} at ({batch}, {row}, {col}) \
                             where the oracle has {found:e}{}",
                            if absolute { " (magnitudes)" } else { "" }
                        )
                    })?;
                }
            }
        }
    }
    Ok(())
}

/// C = A · B, dense and row-major, by the `matrixmultiply` crate.
fn product_f64([m, n, k]: [usize; 3], a: &[f64], b: &[f64], c: &mut [f64]) {
    assert!(a.len() == m * k && b.len() == k * n && c.len() == m * n, "dense operands");
    let (k_stride, n_stride) = (k as isize, n as isize);
    // SAFETY: the slices hold as many elements as the sizes and strides reach, as asserted, and C is
    // apart from A and B, being borrowed mutably.
    unsafe {
        matrixmultiply::dgemm(
            m,
            k,
            n,
            1.0,
            a.as_ptr(),
            k_stride,
            1,
            b.as_ptr(),
            n_stride,
            1,
            0.0,
            c.as_mut_ptr(),
            n_stride,
            1,
        );
    }
}

/// Comparisons accept the right result, and reject it with one element changed.
fn comparisons() -> Result<(), Fault> {
    let case = case([ElementType::F32; 3], Values::SmallIntegers(4));
    let reference = reference(&case)?;
    let good = right(&reference, &case.problem)?;
    for exact in [false, true] {
        let compare = |matrix: &Matrix| {
            let view = matrix.as_ref();
            if exact { reference.compare_exact(&view) } else { reference.compare(&view) }
        };
        let which = if exact { "exact" } else { "bounded" };
        ensure(compare(&good).passed(), || {
            format!("the {which} comparison rejects what is right")
        })?;
        for index in [0, 31, 2 * 9 * 7 - 1] {
            let value = reference.values()[index];
            let off = if exact { 1.0 } else { 2.0 * reference.bound(index) + 1e-3 };
            for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, value + off, value - off] {
                let mut bad = good.clone();
                set(&mut bad, index, wrong);
                let comparison = compare(&bad);
                ensure(comparison.mismatches == 1, || {
                    format!("the {which} comparison accepts {wrong} for {value} at {index}")
                })?;
            }
        }
    }
    // Infinity wants the same infinity.
    let mut infinite = case.clone();
    infinite.bias[4 * 3..4 * 4].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let reference = self::reference(&infinite)?;
    let mut bad = right(&reference, &infinite.problem)?;
    ensure(reference.compare(&bad.as_ref()).passed(), || "infinity is rejected".into())?;
    set(&mut bad, 7 + 3, f64::NEG_INFINITY);
    ensure(reference.compare(&bad.as_ref()).mismatches == 1, || {
        "an infinity of the wrong sign is accepted".into()
    })?;
    // A NaN wants a NaN.
    let mut poisoned = case;
    poisoned.a.map(|b, r, c, value| if (b, r, c) == (0, 2, 3) { f64::NAN } else { value });
    let reference = self::reference(&poisoned)?;
    let mut bad = right(&reference, &poisoned.problem)?;
    ensure(reference.compare(&bad.as_ref()).passed(), || "NaN for NaN is rejected".into())?;
    set(&mut bad, 2 * 7 + 1, 1.0);
    ensure(reference.compare(&bad.as_ref()).mismatches == 1, || {
        "a number for a NaN is accepted".into()
    })
}

/// Of random sums the promises let 4 units of u·Σ|a||b| pass, and not 10, where K alone allows far more.
fn promised_units() -> Result<(), Fault> {
    let problem = Problem::new(6, 5, 700);
    let case = Case::new(problem, Values::Uniform, 11);
    let reference = super::reference(Tier::Statistical, &case, Promises::all(), None)?;
    let good = right(&reference, &case.problem)?;
    let u = ElementType::F32.unit_roundoff();
    for (index, (value, gauge)) in reference.values().iter().zip(reference.gauges()).enumerate() {
        for (units, mismatches) in [(4.0, 0), (-4.0, 0), (10.0, 1), (-10.0, 1)] {
            let mut changed = good.clone();
            set(&mut changed, index, value + units * u * gauge);
            let found = reference.compare(&changed.as_ref()).mismatches;
            ensure(found == mismatches, || {
                format!("an error of {units} units at {index} makes {found} mismatches")
            })?;
        }
    }
    Ok(())
}

/// Freivalds' test agrees with the triple loop, and finds an error in any bit of any element.
fn freivalds() -> Result<(), Fault> {
    for types in [
        [ElementType::F32; 3],
        [ElementType::I8, ElementType::I8, ElementType::I32],
        [ElementType::I8, ElementType::I8, ElementType::F32],
    ] {
        let case = case(types, Values::SmallIntegers(4));
        let good = right(&reference(&case)?, &case.problem)?;
        let wrong_rows = |matrix: &Matrix| {
            oracle::freivalds(&case.problem, &case.operands(), &matrix.as_ref(), 2, 3)
                .map(|report| report.wrong_rows)
                .map_err(|error| fail(error.to_string()))
        };
        let wrong = wrong_rows(&good)?;
        ensure(wrong == 0, || format!("Freivalds' test finds {wrong} wrong rows of none"))?;
        for bit in [0, 1, 7, 15, 16, 20] {
            for index in [0, 40, 2 * 9 * 7 - 1] {
                let mut bad = good.clone();
                let value = lapidary_core::element::read_f64(types[2], good.bytes(), index);
                set(&mut bad, index, value + f64::from(1 << bit));
                let wrong = wrong_rows(&bad)?;
                ensure(wrong == 1, || {
                    format!(
                        "Freivalds' test finds {wrong} wrong rows where element {index} is 2^{bit} off"
                    )
                })?;
            }
        }
    }
    Ok(())
}

/// Published numbers of each narrow format, and rounding done another way.
fn formats() -> Result<(), Fault> {
    // Largest number, exponent of the smallest normal one, exponent of the smallest subnormal one.
    for (name, format, largest, normal, subnormal) in [
        ("f16", FloatFormat::F16, 65504.0, -14, -24),
        ("bf16", FloatFormat::BF16, f64::from(f32::from_bits(0x7f7f_0000)), -126, -133),
        ("e4m3", FloatFormat::E4M3, 448.0, -6, -9),
        ("e5m2", FloatFormat::E5M2, 57344.0, -14, -16),
        ("e4m3fnuz", FloatFormat::E4M3_FNUZ, 240.0, -7, -10),
        ("e5m2fnuz", FloatFormat::E5M2_FNUZ, 57344.0, -15, -17),
        ("e2m1", FloatFormat::E2M1, 6.0, 0, -1),
    ] {
        let published = [largest, 2f64.powi(normal), 2f64.powi(subnormal)];
        let found = [format.max_finite(), format.min_normal(), format.decode(1)];
        ensure(published == found, || {
            format!("{name}: largest, smallest normal, smallest are {found:?}, not {published:?}")
        })?;
        for code in 0..format.max_code() {
            let (low, high) = (format.decode(code), format.decode(code + 1));
            let tie = low + (high - low) / 2.0;
            for value in [tie.next_down(), tie, tie.next_up()] {
                // The nearer of the two; of equally near ones the one whose code is even.
                let (down, up) = (value - low, high - value);
                let nearer =
                    if down < up || (down == up && code % 2 == 0) { code } else { code + 1 };
                let found = format.encode(value, Overflow::NonFinite);
                ensure(found == nearer, || {
                    format!("{name}: {value:e} is rounded to code {found:#x}, not {nearer:#x}")
                })?;
            }
        }
    }
    ensure(metrics::round(ElementType::I8, 200.0) == 127.0, || "i8 does not saturate".into())?;
    let relu = Activation::Relu.apply(f64::NAN).is_nan() && Activation::Relu.apply(-1.0) == 0.0;
    ensure(relu, || "relu loses NaN".into())
}
