//! One step of the course as a program: what it runs, and how it reports.

mod report;

use std::process::ExitCode;

use clap::Parser;
use lapidary_core::KernelChoice;

use crate::common::args::Options;
use crate::common::lab::{Lab, Subject};
use crate::common::{self, Result};

/// A step of the course.
pub(crate) struct Step<'a> {
    /// Its number.
    pub(crate) number: u8,
    /// Its name.
    pub(crate) name: &'a str,
    /// Its kernels: one, or the variants it compares.
    pub(crate) kernels: &'a [KernelChoice],
    /// The kernel of the step before, timed in the same run.
    pub(crate) previous: Option<KernelChoice>,
    /// What to look at in the figures, and why.
    pub(crate) observe: &'a str,
}

/// Checks and times the kernels of one step of the course
///
/// Exits with 0 if every check passed, with 1 if one failed, and with 2 if nothing could be measured.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Runs a step as its command line says.
pub(crate) fn run(step: &Step<'_>) -> ExitCode {
    common::log_to_stderr();
    match try_run(step, &Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn try_run(step: &Step<'_>, cli: &Cli) -> Result<bool> {
    let lab = Lab::open(&cli.options)?;
    if !cli.json {
        report::head(step, &lab.device(), lab.sizes());
    }
    let subjects: Vec<Subject> = step
        .kernels
        .iter()
        .map(|&kernel| Subject { step: step.number, kernel, previous: step.previous })
        .collect();
    let record = lab.measure(&subjects, common::command())?;
    if cli.json {
        println!("{}", serde_json::to_string_pretty(&record)?);
    } else {
        report::results(&record, step.observe);
    }
    Ok(record.passed())
}
