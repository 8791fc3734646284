//! Measures all seven steps in one run, and writes the figures into documents.
//!
//! Measuring and writing are apart, so that figures from another machine can be written here:
//!
//! ```text
//! cargo run --release -p lapidary-wgsl --example step_table -- --measure steps.json
//! cargo run --release -p lapidary-wgsl --example step_table -- --write steps.json README.md docs/steps.md
//! ```

mod common;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use lapidary_core::policy::{
    KernelConfig, RegisterPrefetch, ScalarFma, SingleBuffer, SoftwareDoubleBuffer, VectorFma,
};
use lapidary_core::{ElementType, KernelChoice};

use common::Result;
use common::args::Options;
use common::lab::{Lab, Subject};
use common::record::Record;

/// Measure the kernels of all steps, or write measured figures into documents
///
/// Exits with 0 if every check passed, with 1 if one failed, and with 2 on any other error.
#[derive(Parser)]
#[command(group(clap::ArgGroup::new("task").required(true)))]
struct Cli {
    /// Check and time every kernel, and save the record as JSON
    #[arg(long, value_name = "OUT", group = "task")]
    measure: Option<PathBuf>,
    /// Write the table of a saved record between the markers of each FILE
    #[arg(long, value_name = "IN", group = "task", requires = "files")]
    write: Option<PathBuf>,
    /// Documents with the lines <!-- steps:begin --> and <!-- steps:end -->, or <!-- step 4:begin -->
    /// and <!-- step 4:end --> for one step
    #[arg(value_name = "FILE", requires = "write")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    common::log_to_stderr();
    match run(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(cli: &Cli) -> Result<bool> {
    if let Some(out) = &cli.measure {
        let record = measure(&cli.options)?;
        fs::write(out, serde_json::to_string_pretty(&record)? + "\n")
            .map_err(|error| format!("{}: {error}", out.display()))?;
        print!("{}", table::markdown(&record));
        return Ok(report(&record));
    }
    if let Some(path) = &cli.write {
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let record: Record =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        if !report(&record) {
            return Ok(false);
        }
        for file in &cli.files {
            write(&record, file).map_err(|error| format!("{}: {error}", file.display()))?;
        }
    }
    Ok(true)
}

/// Every kernel of every step, each against the one that stands for the step before.
fn measure(options: &Options) -> Result<Record> {
    let element = ElementType::F32;
    // Step 4's double buffer in the memory of a single one, and its single buffer.
    let halves = [
        KernelConfig::of::<SingleBuffer<128, 128, 8>, ScalarFma<8, 8>>(),
        KernelConfig::of::<SoftwareDoubleBuffer<128, 128, 8>, ScalarFma<8, 8>>(),
    ];
    // What the backend chooses by itself for large products.
    let fast = KernelConfig::of::<RegisterPrefetch<128, 128, 16>, VectorFma<8, 16>>();
    let mut subjects: Vec<Subject> = KernelChoice::all_steps(element)
        .into_iter()
        .chain([KernelChoice::Policy(fast)])
        .filter_map(|kernel| Some((kernel.step_number()?, kernel)))
        .chain(halves.map(|half| (4, KernelChoice::Policy(half))))
        .map(|(step, kernel)| {
            let previous = KernelChoice::step(step - 1, element);
            Subject { step, kernel, previous }
        })
        .collect();
    subjects.sort_by_key(|subject| subject.step);
    Lab::open(options)?.measure(&subjects, common::command())
}

/// Names what failed on standard error; true if nothing did.
fn report(record: &Record) -> bool {
    for kernel in &record.kernels {
        for check in kernel.checks.iter().filter(|check| !check.passed) {
            eprintln!("FAILED: {}, {}: {}", kernel.name, check.name, check.detail);
        }
    }
    record.passed()
}

fn write(record: &Record, file: &Path) -> Result<()> {
    let text = fs::read_to_string(file)?;
    let (updated, written) = table::replace(&text, record)?;
    if written == 0 {
        return Err("there is no line <!-- steps:begin --> or <!-- step N:begin -->".into());
    }
    if updated != text {
        fs::write(file, updated)?;
    }
    println!("{}: tables written: {written}", file.display());
    Ok(())
}
