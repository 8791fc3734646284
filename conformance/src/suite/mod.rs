//! Runs everything on some adapters and gathers a report.

mod cases;
mod extra;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::adapter::Adapter;
use crate::file::FileError;
use crate::names;
use crate::report::BackendReport;
use crate::spec::Spec;
use crate::tier::Tier;

use extra::extras;

/// How much to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Enough to find what is broken, in minutes.
    Quick,
    /// Ten times as many cases, and every check with every kernel.
    Full,
}

impl Mode {
    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How much.
    pub mode: Mode,
    /// Only cases and other checks whose name, or kernel by the name it is asked for or that its plan
    /// gives it, contains this.
    pub filter: Option<String>,
    /// Only these tiers; all if empty.
    pub tiers: Vec<Tier>,
    /// Seed of cases and data.
    pub seed: u64,
    /// Threads that run cases; 0 stands for one a core.
    pub jobs: usize,
    /// Cases besides the built-in ones.
    pub cases: Vec<Spec>,
    /// What the command that runs a failure again needs besides: where `cases` came from, say.
    pub replay: Vec<String>,
}

impl Options {
    /// Everything of `mode`.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            filter: None,
            tiers: Vec::new(),
            seed: 1,
            jobs: 0,
            cases: Vec::new(),
            replay: Vec::new(),
        }
    }

    fn has(&self, tier: Tier) -> bool {
        self.tiers.is_empty() || self.tiers.contains(&tier)
    }

    /// Whether the filter, if there is one, is a part of `name`.
    fn keeps(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()))
    }
}

/// Generated cases of an adapter, and how many share a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "two numbers")]
pub struct Share {
    /// Cases.
    pub cases: usize,
    /// Cases for each combination of kernel, types and epilogue.
    pub per_build: usize,
}

/// Runs the suite on one adapter; `progress` is told how many of how many checks are done.
///
/// # Errors
/// [`FileError`] if the built-in cases are broken.
pub fn run(
    adapter: &dyn Adapter,
    options: &Options,
    share: Share,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<BackendReport, FileError> {
    let start = Instant::now();
    let planned = cases::plan(adapter, options, share)?;
    let extras = extras(adapter, options);
    let total = planned.len() + extras.len();
    let done = AtomicUsize::new(0);
    let tick = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
    let mut report = BackendReport::new(adapter);
    for &tier in &options.tiers {
        let exists = cases::has_tier(adapter, tier) || extra::has_tier(adapter, options.mode, tier);
        if !exists {
            let what = format!("{}: there is nothing of this tier on this backend", tier.name());
            report.left_out.insert(what, 1);
        }
    }
    report.partial = options.filter.is_some() || !options.tiers.is_empty();
    cases::run(adapter, options, &planned, &tick, &mut report);
    extra::run(adapter, options, &extras, &tick, &mut report);
    report.checks = total;
    report.seconds = start.elapsed().as_secs_f64();
    report.finish(adapter);
    Ok(report)
}

/// What `check` says of each of `items`, in their order, found by as many threads as `jobs` says.
fn in_parallel<T: Sync, R: Send>(
    jobs: usize,
    items: &[T],
    check: impl Fn(usize, &T) -> R + Sync,
) -> Vec<R> {
    let jobs = match jobs {
        0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
        jobs => jobs,
    };
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, R)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = check(index, item);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The seed of a case's data: the same whatever else runs, and of what a case was shrunk to.
#[must_use]
pub fn data_seed(seed: u64, spec: &Spec) -> u64 {
    let name = names::origin(&spec.name);
    // FNV-1a of the name: stable between versions and machines.
    name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Whether `name`, as [`Adapter::kernel_names`] gives it, stands for `kernel`.
fn stands_for(name: &str, kernel: &str) -> bool {
    match name.strip_suffix('*') {
        Some(start) => kernel.starts_with(start),
        None => kernel == name,
    }
}

/// Names that stand for nothing that ran: what exists and did not run.
pub(crate) fn missing(names: &[String], ran: &BTreeSet<&str>) -> Vec<String> {
    let idle = |name: &&String| !ran.iter().any(|kernel| stands_for(name, kernel));
    names.iter().filter(idle).cloned().collect()
}

/// What ran and has no name: kernels that the adapter does not know of.
pub(crate) fn unlisted(names: &[String], ran: &BTreeSet<&str>) -> Vec<String> {
    let unknown = |kernel: &&&str| !names.iter().any(|name| stands_for(name, kernel));
    ran.iter().filter(unknown).map(|&kernel| kernel.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_did_not_run_and_kernels_without_a_name_are_told_apart() {
        let names = ["plain", "row *", "idle"].map(str::to_owned);
        let ran = BTreeSet::from(["plain", "row 1x64", "new"]);
        assert_eq!(missing(&names, &ran), ["idle"]);
        assert_eq!(unlisted(&names, &ran), ["new"]);
    }

    #[test]
    fn a_shrunk_case_keeps_its_data() {
        let case = |name: &str| Spec::new(name.to_owned(), "", [1; 3]);
        let seed = data_seed(3, &case("tail"));
        for kept in ["shrunk.tail", "failed.tail", "shrunk-12.tail", "shrunk.failed-2.tail"] {
            assert_eq!(data_seed(3, &case(kept)), seed, "{kept}");
        }
        assert_ne!(data_seed(3, &case("tails")), seed);
    }
}
