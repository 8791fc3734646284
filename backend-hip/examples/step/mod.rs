//! One step of the course in HIP as a program: what it compiles and runs, and how it reports.

mod lab;
mod options;
mod report;
mod watch;

use std::process::ExitCode;

use clap::Parser;
use lapidary_hip::Target;
use lapidary_hip::steps::{StepConfig, StepError};

use lab::Lab;
use options::Options;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A step of the course.
pub(crate) struct Step<'a> {
    /// Its number.
    pub(crate) number: u8,
    /// Its name.
    pub(crate) name: &'a str,
    /// Its kernels: one, or the variants it compares.
    pub(crate) kernels: fn(Target) -> Vec<StepConfig>,
    /// What to look at in the figures, and why.
    pub(crate) observe: &'a str,
}

/// Compiles, inspects and checks the kernels of one step of the course in HIP, and times them on ROCm
///
/// Exits with 0 if every check passed, with 1 if one failed, and with 2 if nothing could be run.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

/// Runs a step as its command line says.
pub(crate) fn run(step: &Step<'_>) -> ExitCode {
    match try_run(step, &Cli::parse().options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn try_run(step: &Step<'_>, options: &Options) -> Result<bool> {
    let lab = Lab::open(options)?;
    report::head(step, &lab, options.sizes());
    let mut passed = true;
    for config in (step.kernels)(lab.target()) {
        let request = match config.request() {
            Ok(request) => request,
            Err(error @ StepError::Target { .. }) => {
                report::refused(&config, &error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let object = lab.compiler.compile(&request)?;
        report::machine_code(&lab, &config, &request, &object, options.sizes())?;
        let (checks, counters) = match lab.check(&config, &object, options.sizes()) {
            Ok(checked) => checked,
            Err(error) if matches!(error.downcast_ref(), Some(StepError::Misaligned { .. })) => {
                report::not_run(&*error);
                continue;
            }
            Err(error) => return Err(error),
        };
        passed &= checks.iter().all(|check| check.passed);
        report::checks(&lab, &checks);
        if let Some(counters) = counters {
            report::executed(&config, &counters);
        }
        if let Some((seconds, check)) = lab.time(&config, &object, options.time, options.runs)? {
            passed &= check.passed;
            report::checks(&lab, &[check]);
            report::time(&config, seconds, options.time);
        }
    }
    report::tail(step, lab.target(), passed);
    Ok(passed)
}
