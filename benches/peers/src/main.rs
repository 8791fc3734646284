//! Times CubeK's products through wgpu, one CSV row a shape and strategy, with the columns of
//! `cargo bench`'s rows.
//!
//! `cargo run --release --manifest-path benches/peers/Cargo.toml -- [--quick] [--every] [FILTER]`, where
//! FILTER is a part of `f16 4096x4096x4096`. Each strategy multiplies once, is compared with the oracle
//! and timed briefly; the fastest two are then timed in full, or all with `--every`. A figure is the
//! median of seven rounds: of products that are enqueued together and share the time between two of the
//! device's timestamps (`in a row`), or have two each (`one`), which the host delays less where products are
//! short. Operands are taken in turn.

mod cubek;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cubek::{CubekArena, CubekError, strategies};
use cubek_matmul::strategy::Strategy;
use lapidary_bench::commit;
use lapidary_bench::row::{self, Clock, Context, Row};
use lapidary_bench::shape::Shape;
use lapidary_bench::stats::{Summary, runs_within};
use lapidary_core::ElementType;

/// An idle device runs at a fraction of its clock, and needs about this long to leave it.
const WARM_UP: Duration = Duration::from_millis(250);

/// Rounds whose median is reported.
const ROUNDS: usize = 7;

/// Products of a round on anything fast enough, and seconds a round may take.
const RUNS: u64 = 70;
const ROUND: f64 = 0.15;

/// Products of a round that are timed one by one: the host's share of each is large.
const ONES: usize = 10;

/// Strategies that are timed in full.
const FINALISTS: usize = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let given = |name: &str| arguments.iter().any(|argument| argument == name);
    let filter = arguments.iter().find(|argument| !argument.starts_with("--"));
    let sizes: &[usize] = if given("--quick") { &[128] } else { &[1024, 2048, 4096, 8192] };
    let finalists = if given("--every") { usize::MAX } else { FINALISTS };
    let commit = commit();
    let mut rows = Vec::new();
    for input in [ElementType::F32, ElementType::F16] {
        for shape in sizes.iter().map(|&n| Shape::cube(n, input)) {
            let shape = Shape { output: input, ..shape };
            let name = format!("{} {}", shape.dtype(), shape.name());
            if filter.is_none_or(|filter| name.contains(filter)) {
                rows.extend(contest(&shape, finalists, &commit));
            }
        }
    }
    let wrong = rows.iter().filter(|row| row.status.contains("wrong")).count();
    if let Err(error) = row::write(&rows, std::io::stdout().lock()) {
        eprintln!("the rows cannot be written: {error}");
        return ExitCode::FAILURE;
    }
    if wrong > 0 {
        eprintln!("{wrong} results were wrong");
    }
    if rows.iter().any(|row| row.status == "ok") { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The rows of one shape, a row each for the strategies that were timed in full or could not be.
fn contest(shape: &Shape, finalists: usize, commit: &str) -> Vec<Row> {
    let context =
        |device: String| Context { device, commit: commit.to_owned(), clock: Clock::Device };
    let arena = match guarded(|| CubekArena::new(shape)) {
        Ok(arena) => arena,
        Err(error) => {
            return vec![Row::missing("cubek", shape, &error.to_string(), &context("".into()))];
        }
    };
    let context = context(arena.name());
    let mut rows = Vec::new();
    let mut ranked = Vec::new();
    for (name, strategy) in strategies(shape.input) {
        let screened = guarded(|| {
            arena.check(&strategy)?;
            warm(&arena, &strategy, WARM_UP / 5)?;
            let runs = 3;
            Ok(arena.time(&strategy, runs)?.as_secs_f64() / runs as f64)
        });
        match screened {
            Ok(seconds) => ranked.push((seconds, name, strategy)),
            Err(error) => {
                eprintln!("{name} {} {}: {error}", shape.dtype(), shape.name());
                let status = first_line(&error.to_string());
                rows.push(Row::missing(&format!("cubek {name}"), shape, &status, &context));
            }
        }
    }
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (once, name, strategy) in ranked.into_iter().take(finalists) {
        let runs = runs_within(ROUND, once, RUNS) as usize;
        for (way, together, times) in [("in a row", runs, 1), ("one", 1, runs.min(ONES))] {
            let op = format!("cubek {name} {way}");
            let row = match guarded(|| rounds(&arena, &strategy, together, times)) {
                Ok(seconds) => Row::measured(&op, shape, &seconds, &context),
                Err(error) => Row::missing(&op, shape, &first_line(&error.to_string()), &context),
            };
            rows.push(row);
        }
    }
    rows
}

/// Runs `f`; a panic inside the library is an error.
fn guarded<T>(f: impl FnOnce() -> Result<T, CubekError>) -> Result<T, CubekError> {
    catch_unwind(AssertUnwindSafe(f))
        .unwrap_or_else(|_| Err(CubekError::Refused("it panicked".into())))
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(120).collect()
}

/// Keeps the device busy for at least so long.
fn warm(arena: &CubekArena, strategy: &Strategy, time: Duration) -> Result<(), CubekError> {
    let start = Instant::now();
    while start.elapsed() < time {
        arena.time(strategy, 1)?;
    }
    Ok(())
}

/// Seconds of a product, a round each: the median of `times` times of `together` products.
fn rounds(
    arena: &CubekArena,
    strategy: &Strategy,
    together: usize,
    times: usize,
) -> Result<Vec<f64>, CubekError> {
    warm(arena, strategy, WARM_UP)?;
    let round = || {
        let times = (0..times)
            .map(|_| Ok(arena.time(strategy, together)?.as_secs_f64() / together as f64))
            .collect::<Result<Vec<f64>, CubekError>>()?;
        Ok(Summary::of(&times).map_or(f64::NAN, |times| times.median))
    };
    (0..ROUNDS).map(|_| round()).collect()
}
