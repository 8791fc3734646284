//! `lapidary run`: one product of matrices in files.

mod arguments;
mod backend;
mod check;
mod inputs;
mod report;

use std::process::ExitCode;
use std::time::Instant;

pub(crate) use arguments::Arguments;

use crate::failure::Failure;
use crate::io::Destination;
use crate::print;
use backend::Chosen;
use inputs::Inputs;
use report::Report;

/// Multiplies, checks, writes and reports, in that order.
///
/// # Errors
/// [`Failure`], before any device is opened where the files or the problem are at fault.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut inputs = Inputs::load(arguments)?;
    let problem = inputs.problem(arguments)?;
    let operands = inputs.operands(problem.batch)?;
    operands.check(&problem)?;
    let destination =
        arguments.output.as_ref().map(|text| Destination::new(text, problem.c)).transpose()?;

    let chosen = Chosen::new(arguments, &problem)?;
    let start = Instant::now();
    let output = chosen.multiply(arguments, &problem, &operands)?;
    let elapsed = start.elapsed();

    let checked = arguments
        .check
        .then(|| {
            let (c, tile) = (output.matrix.as_ref(), output.summary.block_tile);
            check::against_oracle(&problem, &operands, c, tile, !chosen.specifies_non_finite())
        })
        .transpose()?;
    if let Some(destination) = &destination {
        let shape = [problem.batch, problem.m, problem.n];
        let shape = if inputs.is_batch() { &shape[..] } else { &shape[1..] };
        destination.write(problem.c, shape, output.matrix.bytes())?;
    }
    let report = Report::new(arguments, &problem, &chosen, &output, elapsed, checked);
    print::report(&report, arguments.json)?;
    Ok(report.exit_code())
}
