//! What a fresh clone needs: `cargo xtask demo` shows the main job at work, `cargo xtask test` runs
//! every check, both say what they install before they install it; `cargo xtask bench` runs the
//! benchmarks.

mod apt;
mod demo;
mod hip;
mod llvm;
mod mesa;
mod runner;
mod suite;
mod vulkan;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about, long_about = None)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Multiply the matrices of a real transformer layer and check the result.
    ///
    /// Uses the GPU if there is one. Where there is no Vulkan device, Debian and Ubuntu get the
    /// software one through apt-get (which takes root or sudo without a password); elsewhere the
    /// product runs on the CPU backend.
    Demo(Options),
    /// Run formatting, lints, documentation, every test, and the builds without default features.
    ///
    /// Installs the software Vulkan device as the demo does, so that the WGSL tests have a device,
    /// LLVM 22, so that the CDNA tests have a compiler, and Debian's HIP runtime, so that the ROCm tests
    /// have a library; what has none is counted as skipped. A newer software device, which has matrix units,
    /// is fetched to the folder `target` from Debian's archive, without root.
    Test(Options),
    /// Time every kernel beside its peers; the rows go to `target/bench.csv`.
    ///
    /// What follows `--` goes to the benchmarks: `cargo xtask bench -- --quick` needs no GPU.
    Bench {
        /// Options and a filter of the benchmarks.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
}

#[derive(clap::Args, Clone, Copy)]
pub(crate) struct Options {
    /// Install nothing; use what is there.
    #[arg(long)]
    no_install: bool,
}

fn main() -> ExitCode {
    let Cli { task } = Cli::parse();
    let succeeded = match task {
        Task::Demo(options) => demo::run(options),
        Task::Test(options) => suite::run(options),
        Task::Bench { arguments } => bench(&arguments),
    };
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs the benchmarks; true if they succeeded.
fn bench(arguments: &[String]) -> bool {
    let bench = ["bench", "-p", "lapidary-bench", "--bench", "gemm", "--"];
    let outcome = runner::run(runner::cargo(&bench).args(arguments));
    println!("{outcome}");
    outcome == runner::Outcome::Passed
}

/// The folder of the workspace.
fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}
