//! `lapidary conformance`: every kernel of every backend against the oracle.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use lapidary_conformance::adapter::{Adapter, CpuAdapter, HipAdapter, WgslAdapter};
use lapidary_conformance::file;
use lapidary_conformance::names::shell_word;
use lapidary_conformance::planted::{self, Selection};
use lapidary_conformance::report::{Markdown, Report};
use lapidary_conformance::spec::Spec;
use lapidary_conformance::suite::{self, Mode, Options, Share};
use lapidary_conformance::tier::Tier;
use lapidary_hip::Target;
use lapidary_wgsl::{AdapterChoice, WgslOptions};

use crate::failure::Failure;
use crate::print;
use crate::progress::Parts;

/// What the exit code says.
const EXIT_CODES: &str = "\
Exit codes:
  0  everything was run, and passed
  1  something failed, or a planted bug was not noticed or not planted
  2  the options are wrong, a file cannot be read or written, a backend that was asked for by name is
     not here, or there is nothing to check
  3  everything that was run passed, but a backend that is checked by default is not here: the last
     line names it, and --backend leaves it out";

/// Exit code for what passed, but without a backend that is checked by default.
const INCOMPLETE: u8 = 3;

/// Check every kernel of every backend against the oracle
///
/// Cases run on small integers (every bit compared), on random data (within a few units of roundoff
/// whatever K is) and on worst-case data; with canaries round every operand; again, and in other
/// orders of workgroups. Forbidden calls, special values, every code of every type, related products and large
/// products follow. Each failure is printed with the command that runs it alone, the first of them with the
/// smallest case that fails too.
#[derive(Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// Check this backend only (several times for several); by default the CPU, WGSL and both emulators
    #[arg(long, value_enum)]
    backend: Vec<Which>,
    /// The adapter of the WGSL backend: an index, a part of its name, or pci:ADDRESS
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    device: Option<String>,
    /// Only cases and other checks whose name or kernel contains this
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
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
    /// picks some. Those in host code need a checkout of the sources, and cargo; those in kernels their
    /// device or compiler. A bug that cannot be planted is a failure
    #[arg(
        long,
        conflicts_with_all = [
            "tier", "full", "quick", "backend", "device", "cases", "record", "seed", "jobs"
        ]
    )]
    planted_bugs: bool,
    /// Seed of cases and data
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads that run cases; 0 stands for one a core
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=MOST_JOBS))]
    jobs: u16,
    /// More cases, from a TOML file
    #[arg(long)]
    cases: Option<PathBuf>,
    /// Append failing cases to this TOML file, as small as they were made
    #[arg(long)]
    record: Option<PathBuf>,
    /// Write the report as JSON to this file; to standard output if it is -, and what is printed to
    /// standard error then
    #[arg(long)]
    report: Option<PathBuf>,
    /// Print the report as Markdown
    #[arg(long)]
    markdown: bool,
}

/// Threads that may be asked for: more than any machine gains from, and fewer than one refuses.
const MOST_JOBS: i64 = 512;

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

    /// The name on the command line, in case files and in reports.
    const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Wgsl => "wgsl",
            Self::Gfx942 => "gfx942",
            Self::Gfx950 => "gfx950",
            Self::Rocm => "rocm",
        }
    }

    /// Generated cases: the CPU's are a quarter at most. In full the built-in ones, each with every
    /// kernel, are some 8,000 besides.
    fn share(self, mode: Mode) -> Share {
        // Cases, and how many of them share a compilation.
        let (quick, full) = match self {
            Self::Cpu => ([700, 4], [7_000, 4]),
            Self::Wgsl => ([1_300, 4], [7_200, 10]),
            Self::Gfx942 | Self::Gfx950 => ([600, 6], [6_700, 8]),
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

impl Arguments {
    /// The backends to be checked, each once, in the order given.
    fn wanted(&self) -> Vec<Which> {
        let given = if self.backend.is_empty() { &Which::ALL[..] } else { &self.backend };
        let mut wanted = Vec::new();
        for &which in given {
            if !wanted.contains(&which) {
                wanted.push(which);
            }
        }
        wanted
    }

    /// Where JSON goes if not to standard output.
    fn report_file(&self) -> Option<&Path> {
        self.report.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// What to run.
    fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::new(if self.full { Mode::Full } else { Mode::Quick });
        options.filter.clone_from(&self.filter);
        options.tiers.clone_from(&self.tier);
        options.seed = self.seed;
        options.jobs = usize::from(self.jobs);
        if let Some(path) = &self.cases {
            options.cases = file::read_more(path)?;
            known_backends(path, &options.cases)?;
            options.replay.push(format!("--cases={}", word(path)));
        }
        Ok(options)
    }

    /// Finds out now, not after minutes, what cannot be written then. No file is left behind.
    fn check_files(&self) -> Result<(), Failure> {
        let report = self.report_file();
        for (option, path) in [("--cases", &self.cases), ("--record", &self.record)] {
            if path.as_deref() == Some(Path::new("-")) {
                return Err(Failure::NoStream { option });
            }
        }
        let given = [
            ("--report", report),
            ("--cases", self.cases.as_deref()),
            ("--record", self.record.as_deref()),
        ];
        if let Some(report) = report {
            for (option, path) in given.into_iter().skip(1) {
                if path.is_some_and(|path| is_same(path, report)) {
                    return Err(Failure::SameFile { option, file: report.display().to_string() });
                }
            }
            writable(report)?;
        }
        if let Some(record) = &self.record {
            file::appendable(record)?;
            writable(record)?;
        }
        Ok(())
    }

    /// What was asked for, for the case that there is no such thing.
    fn asked_for(&self) -> String {
        let names: Vec<_> = self.wanted().into_iter().map(Which::name).collect();
        let mut text = format!("no case or other check of {}", names.join(", "));
        if let Some(filter) = &self.filter {
            text.push_str(&format!(" has {filter:?} in its name or its kernel's"));
        }
        if !self.tier.is_empty() {
            let tiers: Vec<_> = self.tier.iter().map(|tier| tier.name()).collect();
            let and = if self.filter.is_some() { " and" } else { "" };
            text.push_str(&format!("{and} is of the tier {}", tiers.join(" or ")));
        }
        text
    }
}

/// Checks that the backends which cases are for exist: a misspelt one would never be run.
fn known_backends(path: &Path, cases: &[Spec]) -> Result<(), Failure> {
    let known: Vec<_> = Which::value_variants().iter().map(|which| which.name()).collect();
    for spec in cases {
        if let Some(backend) = spec.backends.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(Failure::CaseBackend {
                file: path.display().to_string(),
                case: spec.name.clone(),
                backend: backend.clone(),
                known: known.join(", "),
            });
        }
    }
    Ok(())
}

/// Whether two paths lead to one file, or will.
fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// Whether a file can be written: opened as it is, or made and removed again.
fn writable(path: &Path) -> Result<(), Failure> {
    let failure = |error| Failure::Report { file: path.display().to_string(), error };
    match fs::metadata(path) {
        // A pipe would wait for its reader.
        Ok(found) if !found.is_file() && !found.is_dir() => Ok(()),
        Ok(_) => OpenOptions::new().append(true).open(path).map(drop).map_err(failure),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            OpenOptions::new().append(true).create_new(true).open(path).map_err(failure)?;
            fs::remove_file(path).map_err(failure)
        }
        Err(error) => Err(failure(error)),
    }
}

/// A path as one word of a shell; bytes that no text shows as octal numbers, as bash and zsh read them.
fn word(path: &Path) -> String {
    match path.to_str() {
        Some(text) if !text.contains(char::is_control) => shell_word(text),
        _ => {
            let bytes = path.as_os_str().as_encoded_bytes().iter();
            let escaped: String = bytes.map(|byte| format!("\\{byte:03o}")).collect();
            format!("$'{escaped}'")
        }
    }
}

/// Runs the suite and prints the report.
///
/// # Errors
/// [`Failure`] for files that cannot be read or written, or a backend asked for that is not there.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let start = Instant::now();
    let wanted = arguments.wanted();
    if arguments.device.is_some() && !wanted.contains(&Which::Wgsl) {
        return Err(Failure::DeviceOfNone);
    }
    arguments.check_files()?;
    let options = arguments.options()?;
    let mut report = Report::new(&options);
    if arguments.planted_bugs {
        plant(arguments, &mut report)?;
        report.seconds = start.elapsed().as_secs_f64();
        return finish(arguments, &report);
    }
    // All of them first: one that is missing must not cost what the others found.
    let mut adapters = Vec::new();
    for which in wanted {
        match open(which, arguments) {
            Ok(adapter) => adapters.push((which, adapter)),
            // A device that was asked for has to be there.
            Err(error)
                if arguments.backend.is_empty()
                    && !(which == Which::Wgsl && arguments.device.is_some()) =>
            {
                report.unavailable.push(format!("{}: {error}", which.name()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    if options.filter.is_none() {
        let is_idle = |spec: &&Spec| !adapters.iter().any(|(_, a)| spec.is_for_backend(a.name()));
        let name = |spec: &Spec| format!("case {}: for {}", spec.name, spec.backends.join(", "));
        report.idle.extend(options.cases.iter().filter(is_idle).map(name));
    }
    for (which, adapter) in &adapters {
        let bar = Parts::new(adapter.name().to_owned());
        let progress = |done: usize, total: usize| bar.update(done as u64, total as u64);
        let mut options = options.clone();
        if let (Which::Wgsl, Some(device)) = (which, &arguments.device) {
            options.replay.push(format!("--device={}", shell_word(device)));
        }
        let share = which.share(options.mode);
        report.backends.push(suite::run(&**adapter, &options, share, &progress)?);
    }
    report.seconds = start.elapsed().as_secs_f64();
    if report.backends.iter().all(|backend| backend.checks == 0) {
        let mut reason = arguments.asked_for();
        if !report.unavailable.is_empty() {
            reason.push_str(&format!("; not here: {}", report.unavailable.join("; ")));
        }
        return Err(Failure::NothingToCheck { reason });
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
        report.not_planted.push(format!("{name}: {reason}"));
    }
    for (name, reason) in harvest.left_out {
        report.left_out.push(format!("{name}: {reason}"));
    }
    for (name, fault) in harvest.spoiled {
        report.spoiled.push(format!("{name}: {}: {}", fault.tier.name(), fault.message));
    }
    report.planted = harvest.kills;
    let named = [&report.not_planted, &report.left_out];
    if report.planted.is_empty() && named.iter().all(|list| list.is_empty()) {
        let filter = arguments.filter.as_deref().unwrap_or_default();
        let reason = format!("no planted bug has {filter:?} in its name");
        return Err(Failure::NothingToCheck { reason });
    }
    Ok(())
}

/// Prints the report, writes it, and records what failed; each of these although another one fails.
fn finish(arguments: &Arguments, report: &Report) -> Result<ExitCode, Failure> {
    let to_stdout = arguments.report.is_some() && arguments.report_file().is_none();
    let printed = match (to_stdout, arguments.markdown) {
        (false, false) => print::report(report, false),
        (false, true) => print::report(&Markdown(report), false),
        (true, false) => {
            print::aside(report);
            print::report(report, true)
        }
        (true, true) => {
            print::aside(&Markdown(report));
            print::report(report, true)
        }
    };
    let written = arguments.report_file().map_or(Ok(()), |path| {
        let json = serde_json::to_string_pretty(report).map_err(io::Error::from);
        json.and_then(|json| fs::write(path, json + "\n"))
            .map_err(|error| Failure::Report { file: path.display().to_string(), error })
    });
    let recorded = arguments.record.as_ref().map_or(Ok(0), |path| report.record(path));
    printed?;
    written?;
    recorded?;
    if report.passed() && report.unavailable.is_empty() && !report.ran_anything() {
        let reason = "all that was asked for was skipped, and the report says why".into();
        return Err(Failure::NothingToCheck { reason });
    }
    Ok(match (report.passed(), report.unavailable.is_empty()) {
        (false, _) => ExitCode::FAILURE,
        (true, false) => ExitCode::from(INCOMPLETE),
        (true, true) => ExitCode::SUCCESS,
    })
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
