//! What `lapidary run` says about a product it has computed.

use std::fmt::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use lapidary_core::{Activation, AnyMatrixRef, Output, Problem, Shape};
use serde::Serialize;

use super::arguments::Arguments;
use super::backend::Chosen;
use super::check::Checked;
use super::quantize::Quantization;

/// Rows and columns of the corner of C that is printed.
const CORNER: (usize, usize) = (4, 6);

/// Everything worth knowing about one product; its JSON form has these names.
#[derive(Serialize)]
pub(super) struct Report {
    formula: String,
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    element_a: &'static str,
    element_b: &'static str,
    element_c: &'static str,
    backend: &'static str,
    backend_reason: String,
    device: String,
    driver: String,
    kernel: String,
    kernel_reason: String,
    notes: Vec<String>,
    /// Planning, compilation, copies to and from the device, and the product.
    seconds: f64,
    gflops: f64,
    output: Option<String>,
    check: Option<Checked>,
    quantization: Option<Quantization>,
    #[serde(skip)]
    corner: Option<String>,
}

impl Report {
    pub(super) fn new(
        arguments: &Arguments,
        problem: &Problem,
        chosen: &Chosen,
        output: &Output,
        elapsed: Duration,
        check: Option<Checked>,
        quantization: Option<Quantization>,
    ) -> Self {
        let info = chosen.info();
        let seconds = elapsed.as_secs_f64();
        Self {
            formula: formula(arguments, problem),
            m: problem.m,
            n: problem.n,
            k: problem.k,
            batch: problem.batch,
            element_a: problem.a.name(),
            element_b: problem.b.name(),
            element_c: problem.c.name(),
            backend: info.backend,
            backend_reason: chosen.reason().to_owned(),
            device: info.name,
            driver: info.driver,
            kernel: output.summary.kernel.clone(),
            kernel_reason: output.summary.reason.clone(),
            notes: output.summary.notes.clone(),
            seconds,
            gflops: if seconds > 0.0 { problem.flops() / seconds / 1e9 } else { 0.0 },
            output: arguments.output.clone(),
            check,
            quantization,
            corner: arguments.output.is_none().then(|| corner(output.matrix.as_ref())),
        }
    }

    /// Success unless a check failed, or could not judge a single element.
    pub(super) fn exit_code(&self) -> ExitCode {
        match &self.check {
            Some(check) if !check.passed => ExitCode::FAILURE,
            _ => ExitCode::SUCCESS,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let batch =
            if self.batch == 1 { String::new() } else { format!(", batch of {}", self.batch) };
        let Self { formula, m, n, k, element_a, element_b, element_c, .. } = self;
        writeln!(f, "product   {formula}")?;
        writeln!(
            f,
            "sizes     M = {m}, N = {n}, K = {k}{batch}; {element_a} · {element_b} → {element_c}"
        )?;
        writeln!(
            f,
            "device    {} ({}), backend {}: {}",
            self.device, self.driver, self.backend, self.backend_reason
        )?;
        writeln!(f, "kernel    {}: {}", self.kernel, self.kernel_reason)?;
        for note in &self.notes {
            writeln!(f, "          {note}")?;
        }
        writeln!(
            f,
            "time      {:.3} ms with planning, compilation and copies, {:.2} GFLOP/s",
            self.seconds * 1e3,
            self.gflops
        )?;
        if let Some(check) = &self.check {
            writeln!(f, "check     {check}")?;
        }
        if let Some(quantization) = &self.quantization {
            writeln!(f, "quantised {quantization}")?;
        }
        if let Some(output) = &self.output {
            writeln!(f, "written   {output}")?;
        }
        if let Some(corner) = &self.corner {
            f.write_str(corner)?;
        }
        Ok(())
    }
}

/// The product as a formula, with only the parts it has.
fn formula(arguments: &Arguments, problem: &Problem) -> String {
    let transposed = |is: bool| if is { "ᵀ" } else { "" };
    let mut inner = String::new();
    if problem.alpha != 1.0 {
        inner += &format!("{} · ", problem.alpha);
    }
    inner += &format!("A{} · B{}", transposed(arguments.trans_a), transposed(arguments.trans_b));
    if problem.beta != 0.0 {
        inner += &format!(" + {} · C", problem.beta);
    }
    if problem.bias {
        inner += " + bias";
    }
    match problem.activation {
        Activation::None => format!("C = {inner}"),
        activation => format!("C = {activation}({inner})"),
    }
}

/// The first rows and columns of the first matrix.
fn corner(c: AnyMatrixRef<'_>) -> String {
    let Shape { batch, rows, cols } = c.shape();
    let mut text = match batch {
        1 => format!("C         {rows}×{cols}\n"),
        _ => format!("C         {batch} of {rows}×{cols}, the first:\n"),
    };
    if c.shape().is_empty() {
        return text;
    }
    for row in 0..rows.min(CORNER.0) {
        for col in 0..cols.min(CORNER.1) {
            // Writing to a string cannot fail.
            write!(text, " {:>12}", number(c.get(0, row, col))).ok();
        }
        text += if cols > CORNER.1 { "  …\n" } else { "\n" };
    }
    if rows > CORNER.0 {
        text += "            …\n";
    }
    text
}

/// Six significant digits, in the shorter of the two notations.
fn number(value: f64) -> String {
    let size = value.abs();
    if value == value.trunc() && size < 1e9 {
        format!("{value}")
    } else if (1e-4..1e6).contains(&size) {
        let digits = 5 - size.log10().floor() as i32;
        format!("{value:.*}", digits.clamp(0, 9) as usize)
    } else {
        format!("{value:.5e}")
    }
}

#[cfg(test)]
mod tests {
    use lapidary_core::MatrixRef;

    use super::*;

    #[test]
    fn numbers_show_six_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (-3.0, "-3"),
            (0.123_456_789, "0.123457"),
            (-12.345_678_9, "-12.3457"),
            (123_456.789, "123457"),
            (1.234_567e-5, "1.23457e-5"),
            (1.234_567_89e12, "1.23457e12"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn a_corner_says_that_there_is_more() {
        let values = [1.0f32; 70];
        let text = corner(MatrixRef::row_major(&values, 10, 7).unwrap().erase());
        assert_eq!(text.lines().count(), 1 + CORNER.0 + 1);
        assert_eq!(text.matches('…').count(), CORNER.0 + 1);
        let small = corner(MatrixRef::row_major(&values, 2, 2).unwrap().erase());
        assert_eq!(small.matches('…').count(), 0);
        assert_eq!(corner(MatrixRef::row_major(&values, 0, 5).unwrap().erase()).lines().count(), 1);
    }
}
