//! `lapidary run`: one product of matrices in files.

mod arguments;
mod backend;
mod check;
mod inputs;
mod quantize;
mod report;

use std::process::ExitCode;
use std::time::Instant;

pub(crate) use arguments::{Arguments, element};

use lapidary_core::ElementType;
use lapidary_hip::{Hip, Target};

use crate::failure::Failure;
use crate::hip;
use crate::io::Destination;
use crate::print;
use arguments::Quantize;
use backend::Chosen;
use inputs::Inputs;
use quantize::Quantization;
use report::Report;

/// Multiplies, checks, writes and reports, in that order.
///
/// # Errors
/// [`Failure`], before any device is opened where the files or the problem are at fault.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut inputs = Inputs::load(arguments)?;
    // A problem that cannot be is found before a device is opened.
    let stated = inputs.problem(arguments)?;
    // The device says which fp8 it reads, so it comes before the rounding.
    let mut hip = if arguments.quantize.is_some() { backend::hip(arguments)? } else { None };
    let exact = match arguments.quantize {
        None => None,
        Some(quantize) => {
            let element = match quantize {
                Quantize::I8 => ElementType::I8,
                Quantize::Fp8 => hip::fp8_of(hip.as_ref().map_or(Target::Gfx950, Hip::target)),
            };
            let rounded = inputs.quantized(element)?;
            let mut exact = std::mem::replace(&mut inputs, rounded);
            exact.convert_for(&stated, true)?;
            Some((element, exact))
        }
    };
    let problem = inputs.problem(arguments)?;
    inputs.convert_for(&problem, arguments.dtype.is_some())?;
    let operands = inputs.operands(problem.batch)?;
    operands.check(&problem)?;
    let destination =
        arguments.output.as_ref().map(|text| Destination::new(text, problem.c)).transpose()?;

    if hip.is_none() {
        hip = backend::hip(arguments)?;
    }
    let chosen = Chosen::new(arguments, &problem, hip)?;
    let start = Instant::now();
    let output = chosen.multiply(arguments, &problem, &operands)?;
    let elapsed = start.elapsed();

    let checked = arguments
        .check
        .then(|| {
            let (c, finite_only) = (output.matrix.as_ref(), !chosen.specifies_non_finite());
            check::against_oracle(&problem, &operands, c, &output.summary, finite_only)
        })
        .transpose()?;
    let quantization = match &exact {
        None => None,
        Some((element, exact)) => {
            let operands = exact.operands(stated.batch)?;
            let c = output.matrix.as_ref();
            Some(Quantization::measure(*element, &stated, &operands, c)?)
        }
    };
    if let Some(destination) = &destination {
        let shape = [problem.batch, problem.m, problem.n];
        let shape = if inputs.is_batch() { &shape[..] } else { &shape[1..] };
        destination.write(problem.c, shape, output.matrix.bytes())?;
    }
    let report = Report::new(arguments, &problem, &chosen, &output, elapsed, checked, quantization);
    print::report(&report, arguments.json)?;
    Ok(report.exit_code())
}
