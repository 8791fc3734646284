//! Times products shape by shape and prints one CSV row each.
//!
//! ```text
//! cargo bench -p lapidary-bench                   # every shape on the best adapter
//! cargo bench -p lapidary-bench -- --quick        # small shapes, for a machine without a GPU
//! cargo bench -p lapidary-bench -- --cpu          # the CPU backend next to faer and matrixmultiply
//! ```
//!
//! The kernel is what the backend picks by itself. Data is random, clocks are warmed for at least
//! 250 ms, a figure is the median of the runs, and a sample of C is compared with the oracle before it
//! counts. `host` in the column `clock` marks times that include submission and waiting.

mod cpu;
mod device;
mod row;
mod shapes;

use std::process::ExitCode;

use clap::Parser;

use row::Row;

/// Time Lapidary's products and print CSV
#[derive(Parser)]
struct Cli {
    /// Only small shapes and few runs
    #[arg(long)]
    quick: bool,
    /// The CPU backend and other crates instead of a GPU
    #[arg(long)]
    cpu: bool,
    /// Adapter: an index, a part of its name, or pci:ADDRESS
    #[arg(long, default_value = "")]
    device: String,
    /// Only shapes whose name, like f32-4096x4096x4096, contains this text
    #[arg(long, default_value = "")]
    filter: String,
    /// Runs a figure is the median of
    #[arg(long, default_value_t = 61)]
    runs: usize,
    /// Given by cargo; without a meaning here
    #[arg(long, hide = true)]
    bench: bool,
}

/// Errors end the program with a message.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether every product was right.
fn run(cli: &Cli) -> Result<bool> {
    let runs = if cli.quick { cli.runs.min(5) } else { cli.runs };
    println!("{}", Row::HEAD);
    let mut right = true;
    let mut print = |row: Row| {
        right &= row.right;
        println!("{row}");
    };
    let shapes = shapes::list(cli.quick).filter(|shape| shape.name().contains(&cli.filter));
    if cli.cpu {
        for shape in shapes.filter(|shape| shape.runs_on_cpu()) {
            cpu::measure(&shape, runs, &mut print)?;
        }
    } else {
        device::measure(&cli.device, shapes, runs, &mut print)?;
    }
    Ok(right)
}
