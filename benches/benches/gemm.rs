//! Every kernel of the WGSL backend and the CPU backend beside its peers, through criterion.
//!
//! `cargo bench -p lapidary-bench --bench gemm -- [--quick] [FILTER]`. On a device with timestamps the
//! times are the device's own, else the host's; which it was stands in each row. The rows go to
//! `target/bench.csv`, or where `LAPIDARY_BENCH_CSV` says. `LAPIDARY_ADAPTER` picks the device, and
//! `MATMUL_NUM_THREADS` the threads of all products on the CPU.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode};
use lapidary_bench::commit;
use lapidary_bench::cpu::{Arena, ContestError, Peer};
use lapidary_bench::device::{BATCH, DeviceArena};
use lapidary_bench::row::{self, Clock, Context, Row};
use lapidary_bench::shape::{Extent, Shape, device_shapes, host_shapes};
use lapidary_bench::stats::runs_within;
use lapidary_core::{Backend, Error, KernelChoice, PlanOptions};
use lapidary_wgsl::{Wgsl, WgslOptions, WgslPlan};

/// Runs of a round on anything fast enough.
const RUNS: u64 = 70;

/// Rounds that criterion takes: no fewer are possible.
const ROUNDS: usize = 10;

/// The last rounds, whose median a row reports.
const REPORTED: usize = 7;

/// Seconds a round may take; slower products get fewer runs.
const ROUND: f64 = 0.3;

/// An idle device runs at a fraction of its clock, and needs about this long to leave it.
const WARM_UP: Duration = Duration::from_millis(250);

/// The host's share of an execution, and of one in a batch of [`BATCH`].
const EXECUTE: &str = "lapidary-wgsl execute (host)";
const BATCHED: &str = "lapidary-wgsl one of a batch of 16 (host)";

/// What all benchmarks write to.
struct Bench {
    criterion: Criterion,
    extent: Extent,
    rows: Vec<Row>,
    commit: String,
}

fn main() -> ExitCode {
    let given = |name: &str| std::env::args().any(|argument| argument == name);
    let extent = match (given("--bench"), given("--quick")) {
        (false, _) => Extent::Smoke,
        (true, true) => Extent::Quick,
        (true, false) => Extent::Full,
    };
    let criterion = Criterion::default()
        .sample_size(ROUNDS)
        .warm_up_time(WARM_UP)
        .without_plots()
        .configure_from_args();
    let mut bench = Bench { criterion, extent, rows: Vec::new(), commit: commit() };
    bench.host();
    match Wgsl::with_options(&WgslOptions::default()) {
        Ok(device) => bench.device(&device),
        Err(error) => eprintln!("skipped: the WGSL kernels: {error}"),
    }
    bench.criterion.final_summary();
    bench.finish()
}

impl Bench {
    /// Writes the rows; a wrong result is a failure.
    fn finish(self) -> ExitCode {
        let wrong = self.rows.iter().filter(|row| row.status.contains("wrong")).count();
        if self.extent != Extent::Smoke {
            let path = std::env::var_os("LAPIDARY_BENCH_CSV").map_or_else(
                || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench.csv")),
                PathBuf::from,
            );
            // A build elsewhere leaves no folder `target` here.
            let written = path
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| File::create(&path))
                .map_err(csv_error)
                .and_then(|file| row::write(&self.rows, file).map_err(csv_error));
            match written {
                Ok(()) => println!("{} rows in {}", self.rows.len(), path.display()),
                Err(error) => {
                    eprintln!("{} cannot be written: {error}", path.display());
                    return ExitCode::FAILURE;
                }
            }
        }
        if wrong > 0 {
            eprintln!("{wrong} results were wrong");
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }

    fn context(&self, device: &str, clock: Clock) -> Context {
        Context { device: device.to_owned(), commit: self.commit.clone(), clock }
    }

    /// Times `run`, which takes a number of runs and gives the time they took together, once `once`
    /// has told how long one takes; seconds of a run, a round each. Nothing where a filter leaves it
    /// out.
    fn rounds(
        &mut self,
        op: &str,
        shape: &Shape,
        once: f64,
        mut run: impl FnMut(u64) -> Result<Duration, ContestError>,
    ) -> Result<Vec<f64>, ContestError> {
        let runs = runs_within(ROUND, once, RUNS);
        let mut group = self.criterion.benchmark_group(op);
        configure(&mut group, once, runs);
        let mut seconds = Vec::new();
        let mut failure = None;
        group.bench_function(format!("{} {}", shape.dtype(), shape.name()), |bencher| {
            bencher.iter_custom(|runs| match run(runs) {
                Ok(time) => {
                    seconds.push(time.as_secs_f64() / runs as f64);
                    // Criterion divides by it.
                    time.max(Duration::from_nanos(1))
                }
                Err(error) => {
                    failure.get_or_insert(error);
                    Duration::from_nanos(1)
                }
            });
        });
        group.finish();
        match failure {
            Some(error) => Err(error),
            // What came before the last rounds was the warm-up.
            None => Ok(seconds.split_off(seconds.len().saturating_sub(REPORTED))),
        }
    }

    /// The CPU backend and its peers.
    fn host(&mut self) {
        let threads = std::env::var("MATMUL_NUM_THREADS").ok().and_then(|n| n.parse().ok());
        for shape in host_shapes(self.extent) {
            let mut arena = match Arena::new(shape, threads.unwrap_or(0)) {
                Ok(arena) => arena,
                Err(error) => {
                    eprintln!("skipped: {}: {error}", shape.name());
                    continue;
                }
            };
            let device = format!("CPU, {} threads", arena.threads());
            let context = self.context(&device, Clock::Wall);
            for &peer in Peer::all(shape.input) {
                let result = self.host_product(&mut arena, peer, &shape);
                self.report(peer.name(), &shape, result, &context);
            }
        }
    }

    fn host_product(
        &mut self,
        arena: &mut Arena,
        peer: Peer,
        shape: &Shape,
    ) -> Result<Vec<f64>, ContestError> {
        arena.check(peer)?;
        let start = Instant::now();
        arena.run(peer)?;
        let once = start.elapsed().as_secs_f64();
        self.rounds(peer.name(), shape, once, |runs| {
            let start = Instant::now();
            for _ in 0..runs {
                arena.run(peer)?;
            }
            Ok(start.elapsed())
        })
    }

    /// Adds the row; a benchmark that a filter left out has none.
    fn report(
        &mut self,
        op: &str,
        shape: &Shape,
        result: Result<Vec<f64>, ContestError>,
        context: &Context,
    ) {
        match result {
            Ok(seconds) if seconds.is_empty() => {}
            Ok(seconds) => self.rows.push(Row::measured(op, shape, &seconds, context)),
            Err(error) => {
                eprintln!("{op} {} {}: {error}", shape.dtype(), shape.name());
                self.rows.push(Row::missing(op, shape, &error.to_string(), context));
            }
        }
    }

    /// The WGSL backend.
    fn device(&mut self, device: &Wgsl) {
        let software = device.limits().software;
        let shapes = device_shapes(self.extent, software);
        let steps_on = match (self.extent, software) {
            (Extent::Full, false) => Some(Shape::cube(4096, lapidary_core::ElementType::F32)),
            _ => shapes.first().copied(),
        };
        for shape in shapes {
            if !device.info().elements.contains(&shape.input) {
                eprintln!("skipped: {}: the device has no {}", shape.name(), shape.input);
                continue;
            }
            if let Err(error) = self.device_shape(device, &shape, steps_on == Some(shape)) {
                eprintln!("skipped: {} {}: {error}", shape.dtype(), shape.name());
            }
        }
    }

    fn device_shape(&mut self, device: &Wgsl, shape: &Shape, steps: bool) -> Result<(), Error> {
        let arena = DeviceArena::new(device, shape)?;
        let info = device.info();
        let name = format!("{}, {}", info.name, info.driver);
        let mut kernels = vec![KernelChoice::Auto];
        if steps && self.extent == Extent::Smoke {
            kernels.extend([1, 7].iter().filter_map(|&step| KernelChoice::step(step, shape.input)));
        } else if steps {
            kernels.extend(KernelChoice::all_steps(shape.input));
        }
        for kernel in kernels {
            let op = format!("lapidary-wgsl {}", kernel.name());
            let mut clock = Clock::Wall;
            let result = self.device_product(&arena, kernel, &op, shape, &mut clock);
            let context = self.context(&name, clock);
            self.report(&op, shape, result, &context);
        }
        if steps {
            let context = self.context(&name, Clock::Wall);
            for op in [EXECUTE, BATCHED] {
                let seconds = self.enqueue(&arena, shape, op);
                self.overhead(op, shape, seconds, &context);
            }
            self.packed(&arena, shape, &name);
        }
        Ok(())
    }

    fn device_product(
        &mut self,
        arena: &DeviceArena<'_>,
        kernel: KernelChoice,
        op: &str,
        shape: &Shape,
        clock: &mut Clock,
    ) -> Result<Vec<f64>, ContestError> {
        let plan = arena.plan(&PlanOptions::kernel(kernel))?;
        let (once, device_clock) = self.once(arena, &plan)?;
        if device_clock {
            *clock = Clock::Device;
        }
        self.rounds(op, shape, once, |runs| {
            let (seconds, _) = arena.time(&plan, runs as usize, Duration::ZERO)?;
            Ok(Duration::from_secs_f64(seconds.iter().sum()))
        })
    }

    /// Seconds of a run with a warm clock, and whether they are the device's own.
    fn once(&self, arena: &DeviceArena<'_>, plan: &WgslPlan) -> Result<(f64, bool), Error> {
        let warm_up = if self.extent == Extent::Smoke { Duration::ZERO } else { WARM_UP };
        let (seconds, device_clock) = arena.time(plan, 1, warm_up)?;
        Ok((seconds.iter().sum(), device_clock))
    }

    /// The host's share of an execution.
    fn enqueue(
        &mut self,
        arena: &DeviceArena<'_>,
        shape: &Shape,
        op: &str,
    ) -> Result<Vec<f64>, ContestError> {
        let plan = arena.plan(&PlanOptions::default())?;
        let (once, _) = self.once(arena, &plan)?;
        if op == EXECUTE {
            return self.rounds(op, shape, once, |runs| Ok(arena.enqueue(&plan, runs)?));
        }
        let once = once * f64::from(BATCH);
        self.rounds(op, shape, once, |runs| Ok(arena.enqueue_batch(&plan, runs)?))
    }

    fn overhead(
        &mut self,
        op: &str,
        shape: &Shape,
        seconds: Result<Vec<f64>, ContestError>,
        context: &Context,
    ) {
        match seconds {
            Ok(seconds) if seconds.is_empty() => {}
            Ok(seconds) => self.rows.push(Row::overhead(op, shape, &seconds, context)),
            Err(error) => self.rows.push(Row::missing(op, shape, &error.to_string(), context)),
        }
    }

    /// Packing B, and products with B packed before.
    fn packed(&mut self, arena: &DeviceArena<'_>, shape: &Shape, name: &str) {
        let (op, wall) = ("lapidary-wgsl pack_b", self.context(name, Clock::Wall));
        let plan = match arena.plan(&PlanOptions::default()) {
            Ok(plan) => plan,
            Err(error) => {
                self.rows.push(Row::missing(op, shape, &error.to_string(), &wall));
                return;
            }
        };
        let mut packed = Vec::new();
        let seconds = self.rounds(op, shape, ROUND, |runs| {
            let mut total = Duration::ZERO;
            for _ in 0..runs {
                let (all, each) = arena.pack(&plan)?;
                (packed, total) = (all, total + each);
            }
            Ok(total)
        });
        self.overhead(op, shape, seconds, &wall);
        if packed.is_empty() {
            return;
        }
        let op = "lapidary-wgsl auto, B packed";
        let (once, device_clock) = self.once(arena, &plan).unwrap_or((ROUND, false));
        let result = self.rounds(op, shape, once, |runs| {
            let seconds = arena.time_packed(&plan, &packed, runs as usize, Duration::ZERO)?;
            Ok(Duration::from_secs_f64(seconds.iter().sum()))
        });
        let clock = if device_clock { Clock::Device } else { Clock::Wall };
        let context = self.context(name, clock);
        self.report(op, shape, result, &context);
    }
}

/// Rounds of `runs` runs each, all of the same length.
fn configure(group: &mut BenchmarkGroup<'_, WallTime>, once: f64, runs: u64) {
    let seconds = (once * runs as f64 * ROUNDS as f64).clamp(1e-3, 3600.0);
    group.sampling_mode(SamplingMode::Flat);
    group.measurement_time(Duration::from_secs_f64(seconds));
}

fn csv_error(error: impl std::fmt::Display) -> String {
    error.to_string()
}
