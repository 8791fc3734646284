//! `lapidary tune`: which kernel is fastest here, measured.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use lapidary_core::{Backend, ElementType, Layout, Problem};
use lapidary_wgsl::tune::{Measured, Outcome, TuneCache, TuneOptions, TuneReport};
use lapidary_wgsl::{AdapterChoice, PipelineCache, Wgsl, WgslOptions};
use serde::Serialize;

use crate::failure::Failure;
use crate::print;
use crate::run::element;

/// Time every kernel of the WGSL backend on a product, and remember the fastest.
///
/// Each candidate is checked against the oracle first, then timed with a warm clock. `lapidary run`
/// and programs that open a device with the same cache use what was found for every product of the
/// class: sizes up to an eighth smaller, the same element types, strides of the same alignment and the
/// same epilogue. The cache is a folder, LAPIDARY_TUNE_CACHE or lapidary/tune among the user's caches;
/// deleting it forgets everything.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Rows of A and C
    #[arg(value_parser = size())]
    m: usize,

    /// Columns of B and C
    #[arg(value_parser = size())]
    n: usize,

    /// Columns of A, rows of B
    #[arg(value_parser = size())]
    k: usize,

    /// Matrices of a batch
    #[arg(long, default_value_t = 1, value_parser = size())]
    batch: usize,

    /// Element type of A and B
    #[arg(long, default_value = "f32", value_parser = element(&["f32", "f16", "bf16", "i8"]))]
    dtype: ElementType,

    /// Element type of B where it is not A's: i8 or i4 weights
    #[arg(long, value_parser = element(&["i8", "i4"]))]
    weights: Option<ElementType>,

    /// Elements along K of a column of weights that share a scale; one scale a column by default
    #[arg(long, value_name = "LENGTH", requires = "weights", value_parser = size())]
    group: Option<usize>,

    /// Element type of C; that of A by default, i32 for i8
    #[arg(long, value_parser = element(&["f32", "f16", "bf16", "i8", "i32"]))]
    out_dtype: Option<ElementType>,

    /// Let sums of integers wrap where K is so large that they may leave the range of an i32
    #[arg(long)]
    wrapping: bool,

    /// Let products of f16 be summed in f16; what is fastest then is remembered for runs with --f16-sums
    #[arg(long)]
    f16_sums: bool,

    /// A is stored transposed, K×M
    #[arg(long)]
    trans_a: bool,

    /// B is stored transposed, N×K
    #[arg(long)]
    trans_b: bool,

    /// Timed runs of each candidate
    #[arg(long, default_value_t = 20, value_parser = size())]
    runs: usize,

    /// Milliseconds that a candidate runs before it is timed; an idle GPU runs at a fraction of its
    /// clock
    #[arg(long, value_name = "MS", default_value_t = 250)]
    warm_up: u64,

    /// Remember nothing
    #[arg(long)]
    no_cache: bool,

    /// Use this device: an index or part of a name of `lapidary devices`, or pci:ADDRESS; the default
    /// is LAPIDARY_ADAPTER, then the best
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,

    /// Print the table as JSON
    #[arg(long)]
    json: bool,
}

/// 1 to 2³¹ − 1, the range shaders count in.
fn size() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=u64::from(u32::MAX / 2))
}

/// A device's options with the user's measurements and compiled kernels.
pub(crate) fn options() -> WgslOptions {
    let mut options = WgslOptions::default();
    options.tune_cache = TuneCache::user();
    options.pipeline_cache = PipelineCache::user();
    options
}

/// The table; its JSON form has these names.
#[derive(Serialize)]
struct Table {
    device: String,
    driver: String,
    problem: String,
    /// The class of problems the winner stands for.
    class: String,
    /// `device` or `wall`.
    clock: &'static str,
    candidates: Vec<Entry>,
    winner: Option<String>,
    /// The file that remembers the winner.
    stored: Option<String>,
    /// Why it is not remembered.
    not_stored: Option<String>,
}

#[derive(Serialize)]
struct Entry {
    candidate: String,
    kernel: String,
    /// `timed`, `slow`, `refused` or `wrong`.
    status: &'static str,
    /// Median of the runs; for a slow one its first run.
    us: Option<f64>,
    tflops: Option<f64>,
    spread: Option<f64>,
    /// Why there is no time.
    reason: Option<String>,
}

/// Measures, and prints the table.
///
/// # Errors
/// [`Failure`] where there is no device, it cannot compute the problem, or it was lost.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let mut options = if arguments.no_cache { WgslOptions::default() } else { options() };
    if let Some(device) = &arguments.device {
        options = options.adapter(AdapterChoice::parse(device));
    }
    let problem = problem(arguments);
    problem.validate()?;
    let device = Wgsl::with_options(&options)?;
    let how = TuneOptions::default()
        .runs(arguments.runs)
        .warm_up(Duration::from_millis(arguments.warm_up))
        .f16_sums(arguments.f16_sums);
    let report = device.tune(&problem, &how)?;
    let found = report.winner.is_some();
    print::report(&Table::new(&device, &problem, report), arguments.json)?;
    Ok(if found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn problem(arguments: &Arguments) -> Problem {
    let Arguments { m, n, k, batch, dtype, .. } = *arguments;
    let out = arguments.out_dtype.unwrap_or(match dtype {
        ElementType::I8 => ElementType::I32,
        other => other,
    });
    let mut problem = Problem::new(m, n, k).batch(batch).elements(dtype, out);
    if let Some(weights) = arguments.weights {
        // Integers have scales in the epilogue where there are floats to have them.
        problem = problem.factors(dtype, weights).b_group(arguments.group);
        problem.col_scale = arguments.group.is_none() && out != ElementType::I32;
    }
    problem.wrapping = arguments.wrapping;
    if arguments.trans_a {
        problem = problem.a_layout(batched(Layout::col_major(m, k), m * k, batch));
    }
    if arguments.trans_b {
        problem = problem.b_layout(batched(Layout::col_major(k, n), k * n, batch));
    }
    problem
}

/// Matrices one after the other.
fn batched(layout: Layout, len: usize, batch: usize) -> Layout {
    if batch > 1 { Layout { batch_stride: len as isize, ..layout } } else { layout }
}

impl Table {
    fn new(device: &Wgsl, problem: &Problem, report: TuneReport) -> Self {
        let info = device.info();
        let flops = problem.flops();
        let winner = report.winner.map(|index| report.candidates[index].candidate.clone());
        let (stored, not_stored) = match report.stored {
            None => (None, None),
            Some(Ok(path)) => (Some(path.display().to_string()), None),
            Some(Err(reason)) => (None, Some(reason)),
        };
        let mut candidates: Vec<Entry> =
            report.candidates.into_iter().map(|measured| Entry::new(measured, flops)).collect();
        // Timed ones first, the fastest on top.
        candidates.sort_by(|a, b| {
            let rank = |entry: &Entry| (entry.status != "timed", entry.us.unwrap_or(f64::INFINITY));
            rank(a).0.cmp(&rank(b).0).then(rank(a).1.total_cmp(&rank(b).1))
        });
        let batch = if problem.batch > 1 { format!("{} x ", problem.batch) } else { String::new() };
        Self {
            device: info.name,
            driver: info.driver,
            problem: format!(
                "{batch}{}x{}x{} {} to {}",
                problem.m,
                problem.n,
                problem.k,
                if problem.a == problem.b {
                    problem.a.to_string()
                } else {
                    format!("{} by {}", problem.a, problem.b)
                },
                problem.c
            ),
            class: report.key,
            clock: if report.device_clock { "device" } else { "wall" },
            candidates,
            winner,
            stored,
            not_stored,
        }
    }
}

impl Entry {
    fn new(measured: Measured, flops: f64) -> Self {
        let timed = |seconds: f64| (Some(seconds * 1e6), Some(flops / seconds * 1e-12));
        let (status, (us, tflops), spread, reason) = match measured.outcome {
            Outcome::Timed { seconds, spread } => ("timed", timed(seconds), Some(spread), None),
            Outcome::Slow { seconds } => {
                ("slow", timed(seconds), None, Some("its first run was too slow".to_owned()))
            }
            Outcome::Wrong { wrong, checked } => {
                let reason = format!("{wrong} of {checked} sampled elements are wrong");
                ("wrong", (None, None), None, Some(reason))
            }
            Outcome::Refused { reason } => ("refused", (None, None), None, Some(reason)),
            _ => ("unknown", (None, None), None, None),
        };
        let Measured { candidate, kernel, .. } = measured;
        Self { candidate, kernel, status, us, tflops, spread, reason }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {} ({})", self.problem, self.device, self.driver)?;
        writeln!(f, "times by the {} clock", self.clock)?;
        writeln!(f)?;
        writeln!(f, "{:>12}  {:>9}  {:>6}  candidate", "us", "TFLOP/s", "spread")?;
        for entry in &self.candidates {
            match (entry.us, entry.tflops, entry.spread) {
                (Some(us), Some(tflops), Some(spread)) => {
                    let spread = format!("{:.1} %", spread * 100.0);
                    writeln!(f, "{us:>12.2}  {tflops:>9.4}  {spread:>6}  {}", entry.candidate)?;
                }
                _ => {
                    let reason = entry.reason.as_deref().unwrap_or(entry.status);
                    writeln!(
                        f,
                        "{:>12}  {:>9}  {:>6}  {}: {reason}",
                        "-", "-", "-", entry.candidate
                    )?;
                }
            }
        }
        writeln!(f)?;
        match &self.winner {
            Some(winner) => writeln!(f, "fastest: {winner}")?,
            None => writeln!(f, "no candidate was right and could be timed")?,
        }
        if let Some(path) = &self.stored {
            writeln!(f, "remembered in {path} for {}", self.class)?;
        }
        if let Some(reason) = &self.not_stored {
            writeln!(f, "not remembered: {reason}")?;
        }
        Ok(())
    }
}
