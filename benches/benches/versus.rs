//! What the WGSL backend picks by itself, in the way and with the rows of CSV that `cublas.py` and the
//! peers have, so that runs of them can alternate.
//!
//! `cargo bench -p lapidary-bench --bench versus -- [--quick] [FILTER …]`, where a FILTER is a part of
//! `f32 4096x4096x4096`. Each row is the median of seven rounds of up to 70 products, on operands taken
//! in turn. `one` is a product between its own two timestamps; `in a row` are products recorded into one
//! pass, the time divided by their number, as a CUDA graph's is; `outputs apart` the same with an output
//! for each, so that none waits for another; `B packed` the same with B packed before; `f16 sums` the
//! same where they are allowed, if the backend takes a kernel that has them. The rows go to standard
//! output; `cargo run -p lapidary-bench --example versus_table` turns those of several runs into a table.
//!
//! With the feature `peers` CubeK's rows follow, of the package in `peers/`, which is built first.

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use lapidary_bench::commit;
use lapidary_bench::cpu::ContestError;
use lapidary_bench::device::DeviceArena;
use lapidary_bench::row::{self, Clock, Context, Row};
use lapidary_bench::shape::{Extent, Shape, versus_shapes};
use lapidary_bench::stats::{Summary, runs_within};
use lapidary_core::{Backend, ElementType, PlanOptions};
use lapidary_wgsl::{Wgsl, WgslOptions};

/// Rounds whose median is reported.
const ROUNDS: usize = 7;

/// Products of a round on anything fast enough, and seconds a round may take.
const RUNS: u64 = 70;
const ROUND: f64 = 0.1;

/// Bytes of all outputs of a row, up to which each product has one of its own.
const OUTPUTS: f64 = 1e9;

/// An idle device runs at a fraction of its clock, and needs about this long to leave it.
const WARM_UP: Duration = Duration::from_millis(250);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |name: &str| arguments.iter().any(|argument| argument == name);
    let extent = match (given("--bench"), given("--quick")) {
        (false, _) => Extent::Smoke,
        (true, true) => Extent::Quick,
        (true, false) => Extent::Full,
    };
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with("--")).collect();
    let device = match Wgsl::with_options(&WgslOptions::default()) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("skipped: {error}");
            return ExitCode::SUCCESS;
        }
    };
    let commit = commit();
    let mut rows = Vec::new();
    for shape in versus_shapes(extent, device.limits().software) {
        let name = format!("{} {}", shape.dtype(), shape.name());
        let chosen = filters.is_empty() || filters.iter().any(|filter| name.contains(*filter));
        if chosen && device.info().elements.contains(&shape.input) {
            measure(&device, &shape, extent, &commit, &mut rows);
        }
    }
    let failed = rows.iter().filter(|row| row.status != "ok").count();
    let peers_wanted = cfg!(feature = "peers") && extent != Extent::Smoke;
    if peers_wanted && device.limits().software {
        eprintln!("skipped: CubeK, whose SPIR-V Mesa's software device crashes on");
    } else if peers_wanted {
        match peers(extent, &filters) {
            Ok(theirs) => rows.extend(theirs),
            Err(reason) => {
                eprintln!("the peers cannot be timed: {reason}");
                return ExitCode::FAILURE;
            }
        }
    }
    if let Err(error) = row::write(&rows, std::io::stdout().lock()) {
        eprintln!("the rows cannot be written: {error}");
        return ExitCode::FAILURE;
    }
    if failed > 0 {
        eprintln!("{failed} rows have no figure");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The rows of the package in `peers/`, which takes one filter.
fn peers(extent: Extent, filters: &[&String]) -> Result<Vec<Row>, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/Cargo.toml");
    let mut command = Command::new(cargo);
    command.args(["run", "--release", "--quiet", "--manifest-path", manifest, "--"]);
    if extent == Extent::Quick {
        command.arg("--quick");
    }
    let output = command
        .args(filters.iter().take(1))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| error.to_string())?;
    let rows = row::read(output.stdout.as_slice()).map_err(|error| error.to_string())?;
    if rows.is_empty() && !output.status.success() {
        return Err(format!("they ended with {}", output.status));
    }
    Ok(rows)
}

/// Adds the rows of one shape.
fn measure(device: &Wgsl, shape: &Shape, extent: Extent, commit: &str, rows: &mut Vec<Row>) {
    let info = device.info();
    let context = |device_clock| Context {
        device: format!("{}, {}", info.name, info.driver),
        commit: commit.to_owned(),
        clock: if device_clock { Clock::Device } else { Clock::Wall },
    };
    match figures(device, shape, extent) {
        Ok((device_clock, figures)) => {
            let context = context(device_clock);
            rows.extend(figures.iter().map(|Figure { way, kernel, seconds }| {
                Row::measured(&format!("lapidary-wgsl {way} [{kernel}]"), shape, seconds, &context)
            }));
        }
        Err(error) => {
            eprintln!("{} {}: {error}", shape.dtype(), shape.name());
            rows.push(Row::missing("lapidary-wgsl", shape, &error.to_string(), &context(true)));
        }
    }
}

/// One way of running a product.
struct Figure {
    way: &'static str,
    /// The kernel that was picked.
    kernel: String,
    /// Seconds of a product, a round each.
    seconds: Vec<f64>,
}

/// Whether the times are the device's own, and the figures.
fn figures(
    device: &Wgsl,
    shape: &Shape,
    extent: Extent,
) -> Result<(bool, Vec<Figure>), ContestError> {
    let arena = DeviceArena::new(device, shape)?;
    let plan = arena.plan(&PlanOptions::default())?;
    let kernel_of = |plan| device.summary(plan).kernel.clone();
    let warm_up = if extent == Extent::Smoke { Duration::ZERO } else { WARM_UP };
    let (once, device_clock) = arena.time(&plan, 3, warm_up)?;
    let once = Summary::of(&once).map_or(ROUND, |once| once.median);
    let rounds = if extent == Extent::Smoke { 1 } else { ROUNDS };
    let runs = if extent == Extent::Smoke { 2 } else { runs_within(ROUND, once, RUNS).max(2) };
    let runs = runs as usize;
    let (all, _) = arena.time(&plan, rounds * runs, Duration::ZERO)?;
    let one = all.chunks(runs).filter_map(Summary::of).map(|round| round.median).collect();
    let figure = |way, seconds| Figure { way, kernel: kernel_of(&plan), seconds };
    let mut figures =
        vec![figure("one", one), figure("in a row", arena.time_in_a_row(&plan, rounds, runs)?)];
    if output_bytes(shape) * runs as f64 <= OUTPUTS {
        let seconds = arena.time_outputs_apart(&plan, rounds, runs)?;
        figures.push(figure("in a row, outputs apart", seconds));
    }
    if packing_is_of_use(shape) {
        let (packed, _) = arena.pack(&plan)?;
        let seconds = arena.time_packed_in_a_row(&plan, &packed, rounds, runs)?;
        figures.push(figure("in a row, B packed", seconds));
    }
    // A permission that makes no difference where no kernel with f16 sums is expected to be faster.
    let allowed = arena.plan(&PlanOptions::default().f16_sums(true))?;
    if device.summary(&allowed).f16_sums {
        arena.time(&allowed, 1, warm_up)?;
        let seconds = arena.time_in_a_row(&allowed, rounds, runs)?;
        figures.push(Figure { way: "in a row, f16 sums", kernel: kernel_of(&allowed), seconds });
    }
    Ok((device_clock, figures))
}

fn output_bytes(shape: &Shape) -> f64 {
    let elements = shape.batch as f64 * shape.m as f64 * shape.n as f64;
    elements * shape.output.bits() as f64 / 8.0
}

/// Weights that are used many times are packed once: for large products of f32.
fn packing_is_of_use(shape: &Shape) -> bool {
    shape.input == ElementType::F32 && shape.batch == 1 && shape.m == shape.n && shape.n == shape.k
}
