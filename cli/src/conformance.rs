//! `lapidary conformance`: every kernel of every backend against the oracle.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Args, ValueEnum};
use lapidary_conformance::adapter::{Adapter, CpuAdapter, HipAdapter, WgslAdapter};
use lapidary_conformance::file;
use lapidary_conformance::planted::{self, Selection};
use lapidary_conformance::report::{Markdown, Report};
use lapidary_conformance::suite::{self, Mode, Options, Share};
use lapidary_conformance::tier::Tier;
use lapidary_hip::Target;
use lapidary_wgsl::{AdapterChoice, WgslOptions};

use crate::failure::Failure;
use crate::print;
use crate::progress::Parts;

/// Check every kernel of every backend against the oracle; exit with 1 if anything is wrong.
///
/// Cases run on small integers (every bit compared), on random data (within a few units of roundoff
/// whatever K is) and on worst-case data; with canaries round every operand; again, and in other
/// orders of workgroups. Special values, every code of every type, related products and large products
/// follow. Each failure is shrunk and printed with the command that runs it alone.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Check this backend only (several times for several); by default the CPU, WGSL and both emulators
    #[arg(long, value_enum)]
    backend: Vec<Which>,
    /// The adapter of the WGSL backend: an index, a part of its name, or pci:ADDRESS
    #[arg(long)]
    device: Option<String>,
    /// Only cases whose name or kernel contains this
    #[arg(long)]
    filter: Option<String>,
    /// Only this tier (several times for several)
    #[arg(long, value_parser = tier)]
    tier: Vec<Tier>,
    /// A few thousand cases in minutes; the default
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Ten times as many
    #[arg(long)]
    full: bool,
    /// Plant known bugs in kernels and host code instead, and show which tier notices each; --filter
    /// picks some. Those in host code need a checkout of the sources, and cargo
    #[arg(long, conflicts_with_all = ["tier", "full", "quick", "backend", "cases", "record"])]
    planted_bugs: bool,
    /// Seed of cases and data
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads that run cases; 0 stands for one a core
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// More cases, from a TOML file
    #[arg(long)]
    cases: Option<PathBuf>,
    /// Append failing cases, shrunk, to this TOML file
    #[arg(long)]
    record: Option<PathBuf>,
    /// Write the report as JSON to this file
    #[arg(long)]
    report: Option<PathBuf>,
    /// Print the report as Markdown
    #[arg(long)]
    markdown: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    Cpu,
    Wgsl,
    /// The emulator of CDNA3
    Gfx942,
    /// The emulator of CDNA4
    Gfx950,
    /// A ROCm device
    Rocm,
}

impl Which {
    /// What runs where nothing is asked for.
    const ALL: [Self; 4] = [Self::Cpu, Self::Wgsl, Self::Gfx942, Self::Gfx950];

    /// Generated cases: the CPU's are a quarter at most. In full the built-in ones, each with every
    /// kernel, are some 8,000 besides.
    fn share(self, mode: Mode) -> Share {
        // Cases, and how many of them share a compilation.
        let (quick, full) = match self {
            Self::Cpu => ([700, 4], [7_000, 4]),
            Self::Wgsl => ([1_300, 4], [7_000, 10]),
            Self::Gfx942 | Self::Gfx950 => ([600, 6], [5_000, 8]),
            Self::Rocm => ([2_000, 6], [20_000, 6]),
        };
        let [cases, per_build] = if mode == Mode::Full { full } else { quick };
        Share { cases, per_build }
    }
}

fn tier(name: &str) -> Result<Tier, String> {
    Tier::parse(name).ok_or_else(|| {
        format!("there are the tiers {}", Tier::ALL.map(|tier| tier.name()).join(", "))
    })
}

/// Runs the suite and prints the report.
///
/// # Errors
/// [`Failure`] for files that cannot be read or written, or a backend asked for that is not there.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let start = Instant::now();
    let mut options = Options::new(if arguments.full { Mode::Full } else { Mode::Quick });
    options.filter.clone_from(&arguments.filter);
    options.tiers.clone_from(&arguments.tier);
    options.seed = arguments.seed;
    options.jobs = arguments.jobs;
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    if let Some(path) = &arguments.cases {
        options.cases = file::read(path)?;
        options.replay.push(format!("--cases {}", quoted(&path.display().to_string())));
    }
    if let Some(device) = &arguments.device {
        options.replay.push(format!("--device {}", quoted(device)));
    }
    // Found out now, not after minutes.
    if let Some(path) = &arguments.report {
        std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|error| Failure::Report { file: path.display().to_string(), error })?;
    }
    let mut report = Report::new(&options);
    if arguments.planted_bugs {
        plant(arguments, &mut report)?;
        report.seconds = start.elapsed().as_secs_f64();
        return finish(arguments, &report);
    }
    let wanted = if arguments.backend.is_empty() { &Which::ALL[..] } else { &arguments.backend };
    for &which in wanted {
        match open(which, arguments) {
            Ok(adapter) => {
                let bar = Parts::new(adapter.name().to_owned());
                let progress = |done: usize, total: usize| bar.update(done as u64, total as u64);
                let share = which.share(options.mode);
                report.backends.push(suite::run(&*adapter, &options, share, &progress)?);
            }
            // A device that was asked for has to be there.
            Err(error)
                if arguments.backend.is_empty()
                    && !(which == Which::Wgsl && arguments.device.is_some()) =>
            {
                report.unavailable.push(format!("{which:?}: {error}").to_lowercase());
            }
            Err(error) => return Err(error.into()),
        }
    }
    report.seconds = start.elapsed().as_secs_f64();
    if report.cases() == 0 && options.filter.is_some() {
        return Err(Failure::NothingToCheck { reason: "no case fits the filter".into() });
    }
    if let Some(path) = &arguments.record {
        for shrunk in
            report.backends.iter().flat_map(|b| &b.failures).filter_map(|f| f.shrunk.as_ref())
        {
            file::append(path, shrunk)?;
        }
    }
    finish(arguments, &report)
}

/// Plants bugs and adds what became of them.
fn plant(arguments: &Arguments, report: &mut Report) -> Result<(), Failure> {
    let bar = Parts::new("planted");
    let mut selection = Selection::default();
    selection.filter.clone_from(&arguments.filter);
    let progress = |done: usize, total: usize| bar.update(done as u64, total as u64);
    let harvest = planted::plant(&selection, &progress)?;
    for (name, reason) in harvest.skipped {
        report.unavailable.push(format!("{name}: {reason}"));
    }
    for (name, fault) in harvest.spoiled {
        report.spoiled.push(format!("{name}: {}: {}", fault.tier.name(), fault.message));
    }
    report.planted = harvest.kills;
    if report.planted.is_empty() {
        return Err(Failure::NothingToCheck { reason: "no bug was planted".into() });
    }
    Ok(())
}

/// Writes and prints the report.
fn finish(arguments: &Arguments, report: &Report) -> Result<ExitCode, Failure> {
    if let Some(path) = &arguments.report {
        let json = serde_json::to_string_pretty(report).map_err(std::io::Error::from);
        json.and_then(|json| std::fs::write(path, json + "\n"))
            .map_err(|error| Failure::Report { file: path.display().to_string(), error })?;
    }
    if arguments.markdown {
        print::report(&Markdown(report), false)?;
    } else {
        print::report(report, false)?;
    }
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn open(which: Which, arguments: &Arguments) -> Result<Box<dyn Adapter>, lapidary_core::Error> {
    Ok(match which {
        Which::Cpu => Box::new(CpuAdapter::new()),
        Which::Wgsl => {
            let mut options = WgslOptions::default();
            if let Some(device) = &arguments.device {
                options = options.adapter(AdapterChoice::parse(device));
            }
            Box::new(WgslAdapter::open(&options)?)
        }
        Which::Gfx942 => Box::new(HipAdapter::emulated(Target::Gfx942)?),
        Which::Gfx950 => Box::new(HipAdapter::emulated(Target::Gfx950)?),
        Which::Rocm => Box::new(HipAdapter::rocm()?),
    })
}
