//! What is chosen for a problem, what the compiler makes of it, and whether it computes the right thing.
//!
//! ```text
//! cargo run --release -p lapidary-hip --example hip_preshuffle -- --arch gfx942 --m 5120 --n 5120 --k 8320
//! ```

#[path = "preshuffle/report.rs"]
mod report;
#[path = "preshuffle/run.rs"]
mod run;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::RangedU64ValueParser;
use clap::{Parser, ValueEnum};
use lapidary_hip::decide::Product;
use lapidary_hip::prelude::*;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Types of A and B; C is bf16 with scales of rows and columns for 8-bit types, and a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Operands {
    /// e4m3 in the flavour of the architecture
    Fp8,
    I8,
    F16,
    Bf16,
    F32,
}

/// Plans a product, shows registers and hot loop of its kernel, and checks a small one like it
///
/// Exits with 0 if every check passed, with 1 if one failed, and with 2 if nothing could be run.
#[derive(Parser)]
struct Cli {
    /// gfx942 or gfx950: emulate it; by default the ROCm device's, or an emulated gfx942
    #[arg(long, value_parser = |text: &str| Target::from_name(text).ok_or("it is no architecture"))]
    arch: Option<Target>,
    /// Rows of A and C
    #[arg(long, default_value_t = 5120, value_parser = size())]
    m: usize,
    /// Columns of B and C
    #[arg(long, default_value_t = 5120, value_parser = size())]
    n: usize,
    /// Columns of A, rows of B
    #[arg(long, default_value_t = 8320, value_parser = size())]
    k: usize,
    /// The element types
    #[arg(long, value_enum, default_value_t = Operands::Fp8)]
    operands: Operands,
    /// Writes the hot loop for llvm-mca
    #[arg(long = "loop", value_name = "FILE")]
    loop_file: Option<PathBuf>,
    /// Timed runs on a ROCm device
    #[arg(long, default_value_t = 20, value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    runs: usize,
}

fn size() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=1 << 20)
}

fn main() -> ExitCode {
    match try_main(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// The problem of these sizes.
fn problem(target: Target, operands: Operands, [m, n, k]: [usize; 3]) -> Problem {
    let element = match operands {
        Operands::Fp8 if target == Target::Gfx950 => ElementType::F8E4M3,
        Operands::Fp8 => ElementType::F8E4M3Fnuz,
        Operands::I8 => ElementType::I8,
        Operands::F16 => ElementType::F16,
        Operands::Bf16 => ElementType::BF16,
        Operands::F32 => ElementType::F32,
    };
    let scaled = matches!(operands, Operands::Fp8 | Operands::I8);
    Problem::new(m, n, k)
        .elements(element, ElementType::BF16)
        .row_scale(scaled)
        .col_scale(scaled)
        .bias(true)
}

fn try_main(cli: &Cli) -> Result<bool> {
    let (device, no_rocm) = match cli.arch {
        Some(target) => (Hip::emulated(target)?, None),
        None => match Hip::new() {
            Ok(device) => (device, None),
            Err(error) => (Hip::emulated(Target::Gfx942)?, Some(error.to_string())),
        },
    };
    let target = device.target();
    report::device(&device, no_rocm.as_deref());
    let whole = problem(target, cli.operands, [cli.m, cli.n, cli.k]);
    let decision = device.decide(&whole, &PlanOptions::default())?;
    report::decision(&whole, &decision);
    let Product::Preshuffle(product) = decision.product else {
        return Err(format!("{target} computes this product without the preshuffle kernel").into());
    };
    report::figures(&product, [cli.m, cli.n, cli.k]);
    report::machine_code(&product.config, cli.loop_file.as_deref())?;

    let mut passed = true;
    for check in
        run::checks(&device, &product.config, |sizes| problem(target, cli.operands, sizes))?
    {
        passed &= check.passed();
        report::check(&check);
    }
    if let Some(times) = run::time(&device, &whole, cli.runs)? {
        report::time(&whole, times);
    }
    report::watch(target);
    println!("\n{}", if passed { "PASSED" } else { "FAILED" });
    Ok(passed)
}
