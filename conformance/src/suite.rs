//! Runs everything on some adapters and gathers a report.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use lapidary_core::{Activation, ElementType, KernelChoice};

use crate::adapter::{Adapter, Types};
use crate::check::{self, Depth, Fault, Outcome, Relation, Verdict};
use crate::file::{self, FileError};
use crate::generate::{Item, generate};
use crate::report::{BackendReport, FailureReport};
use crate::shrink::{SHRUNK_FROM, shrink};
use crate::spec::{Spec, Tag};
use crate::tier::Tier;

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
    /// Only cases whose name or kernel contains this.
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

    fn keeps(&self, item: &Item) -> bool {
        self.filter.as_ref().is_none_or(|filter| {
            format!("{} {}", item.spec.name, item.kernel.name()).contains(filter.as_str())
        })
    }
}

/// The tiers that cases pass through, by themselves or on the way of another.
const OF_CASES: [Tier; 7] = [
    Tier::Acceptance,
    Tier::Checks,
    Tier::Canaries,
    Tier::Exact,
    Tier::Statistical,
    Tier::WorstCase,
    Tier::Determinism,
];

/// Failing cases that are shrunk; the others are reported as they are.
const SHRUNK: usize = 5;

/// Generated cases of an adapter, and how many share a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "two numbers")]
pub struct Share {
    /// Cases.
    pub cases: usize,
    /// Cases for each combination of kernel, types and epilogue.
    pub per_build: usize,
}

/// Runs the suite on one adapter; `progress` is told how many of how many cases are done.
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
    let mut items = curated(adapter, options)?;
    items.extend(generate(adapter, share.cases, share.per_build, options.seed));
    items.retain(|item| options.keeps(item));
    let mut report = BackendReport::new(adapter);
    report.partial = options.filter.is_some() || !options.tiers.is_empty();
    if OF_CASES.into_iter().any(|tier| options.has(tier)) {
        cases(adapter, options, &items, progress, &mut report);
    }
    if options.filter.is_none() {
        others(adapter, options, &mut report);
    }
    report.seconds = start.elapsed().as_secs_f64();
    report.finish(adapter);
    Ok(report)
}

/// The built-in cases with the backend's own choice, and with one other kernel each, or with all.
fn curated(adapter: &dyn Adapter, options: &Options) -> Result<Vec<Item>, FileError> {
    let mut items = Vec::new();
    let specs = file::built_in()?.into_iter().chain(options.cases.iter().cloned());
    for (index, spec) in specs.enumerate() {
        let kernels = adapter.kernels(Types::of_spec(&spec));
        let all = options.mode == Mode::Full || spec.tags.contains(&Tag::Regression);
        let size = spec.shape.iter().map(|&x| x.max(1) as f64).product::<f64>();
        if size * spec.batch.max(1) as f64 > adapter.reach() {
            continue;
        }
        for (number, &kernel) in kernels.iter().enumerate() {
            let chosen = number == 0 || all || number == 1 + index % (kernels.len() - 1).max(1);
            if chosen && spec.is_for(adapter.name(), &kernel.name()) {
                items.push(Item { spec: spec.clone(), kernel });
            }
        }
        // Types that the backend lacks must be refused.
        if kernels.is_empty() && spec.is_for(adapter.name(), "auto") {
            items.push(Item { spec, kernel: KernelChoice::Auto });
        }
    }
    Ok(items)
}

/// The tiers of case number `index`: in full, or where a filter picks cases, every one; else the
/// exact one and one other. Data of small integers carries the tiers that need none of their own.
fn depth(options: &Options, index: usize) -> Depth {
    let full = options.mode == Mode::Full || options.filter.is_some();
    let wanted =
        |tier: Tier, turn: bool| options.has(tier) && (full || turn || !options.tiers.is_empty());
    let mut tiers = Vec::new();
    for (tier, turn) in [
        (Tier::Exact, true),
        (Tier::Statistical, index.is_multiple_of(2)),
        (Tier::WorstCase, index % 4 == 1),
    ] {
        if wanted(tier, turn) {
            tiers.push(tier);
        }
    }
    if tiers.is_empty() {
        tiers.push(Tier::Exact);
    }
    let again = full || options.tiers.contains(&Tier::Determinism);
    if options.has(Tier::Determinism) {
        tiers.push(Tier::Determinism);
    }
    Depth { tiers, rerun: again || index % 4 == 3, reorder: again || index % 8 == 2 }
}

fn cases(
    adapter: &dyn Adapter,
    options: &Options,
    items: &[Item],
    progress: &(dyn Fn(usize, usize) + Sync),
    report: &mut BackendReport,
) {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let outcomes: Mutex<BTreeMap<usize, Outcome>> = Mutex::default();
    let jobs = match options.jobs {
        0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
        jobs => jobs,
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(items.len()).max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let outcome = check::check(
                        adapter,
                        item.kernel,
                        &item.spec,
                        data_seed(options.seed, &item.spec),
                        &depth(options, index),
                    );
                    outcomes.lock().unwrap_or_else(PoisonError::into_inner).insert(index, outcome);
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, items.len());
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut distinct = HashSet::new();
    let mut shrunk = 0;
    for (index, outcome) in outcomes {
        let Some(item) = items.get(index) else { continue };
        report.cases += 1;
        let name = outcome.kernel.clone().unwrap_or_else(|| item.kernel.name());
        distinct.insert(format!("{name} {}", item.spec.class()));
        let kernel = report.kernels.entry(name).or_default();
        kernel.cases += 1;
        kernel.metrics.merge(&outcome.metrics);
        for pass in outcome.passes {
            *report.passes.entry(pass.to_owned()).or_default() += 1;
        }
        match outcome.verdict {
            Verdict::Passed => kernel.passed += 1,
            Verdict::Refused(refusal) => {
                *kernel.refused.entry(refusal.name().to_owned()).or_default() += 1;
            }
            Verdict::Skipped(reason) => *kernel.skipped.entry(reason).or_default() += 1,
            Verdict::Failed(fault) => {
                kernel.failed += 1;
                let tier = fault.tier;
                let mut failure = FailureReport::new(adapter, options, item, &fault);
                if shrunk < SHRUNK {
                    shrunk += 1;
                    let seed = data_seed(options.seed, &item.spec);
                    let mut spec = shrink(adapter, item.kernel, &item.spec, seed, tier);
                    spec.backends = vec![adapter.name().to_owned()];
                    failure.shrunk = Some(spec);
                }
                report.failures.push(failure);
            }
        }
    }
    report.distinct = distinct.len();
}

/// Special values, codes, relations and large products.
fn others(adapter: &dyn Adapter, options: &Options, report: &mut BackendReport) {
    let full = options.mode == Mode::Full;
    let note = |report: &mut BackendReport, name: String, kernel: KernelChoice, fault: Fault| {
        let item = Item { spec: Spec::new(name, "", [0; 3]), kernel };
        report.failures.push(FailureReport::new(adapter, options, &item, &fault));
    };
    if options.has(Tier::Oracle)
        && let Err(fault) = check::oracle()
    {
        note(report, "the checker itself".into(), KernelChoice::Auto, fault);
    }
    let widest = |types: &Types| {
        matches!(types.elements[2], ElementType::F32 | ElementType::F64 | ElementType::I32)
    };
    for (index, types) in adapter.types().into_iter().enumerate() {
        let kernels = adapter.kernels(types);
        let some: Vec<KernelChoice> = if full {
            kernels.clone()
        } else {
            // The backend's own choice, and one of the others in turn.
            let other = kernels.get(1 + index % (kernels.len().max(2) - 1)).copied();
            kernels.first().copied().into_iter().chain(other).collect()
        };
        for &kernel in &some {
            if options.has(Tier::SpecialValues) && widest(&types) {
                // Relu by a maximum would lose a NaN.
                for activation in [Activation::None, Activation::Relu] {
                    let (seen, faults) = check::special_values(adapter, kernel, types, activation);
                    report.special.extend(seen);
                    for (name, fault) in faults {
                        note(report, name, kernel, fault);
                    }
                }
            }
            if options.has(Tier::Codes) {
                let (seen, faults) = check::codes(adapter, kernel, types);
                report.codes.extend(seen);
                for (name, fault) in faults {
                    note(report, name, kernel, fault);
                }
            }
        }
        if !widest(&types) {
            continue;
        }
        for (number, &kernel) in kernels.iter().enumerate() {
            let name = |what: &str| format!("{what} {:?}", types.elements);
            if options.has(Tier::Metamorphic) && (full || number % 4 == index % 4) {
                let k = if types.in_blocks() { 64 } else { 45 };
                let mut spec = Spec::new("metamorphic", "related products", [37, 50, k]);
                spec.set_types(types);
                for relation in Relation::ALL {
                    if types.in_blocks() && relation == Relation::Transpose {
                        continue;
                    }
                    match check::metamorphic(adapter, kernel, &spec, relation, options.seed) {
                        Ok(Some(())) => {
                            *report.relations.entry(relation.name().into()).or_default() += 1
                        }
                        Ok(None) => {}
                        Err(fault) => {
                            *report.relations.entry(relation.name().into()).or_default() += 1;
                            note(report, name(relation.name()), kernel, fault);
                        }
                    }
                }
            }
            let large = options.has(Tier::Freivalds) && !types.in_blocks();
            if large && (full || number == 0 || number == 1 + index % kernels.len().max(1)) {
                let side = (2.0 * adapter.reach()).cbrt() as usize;
                let shape = [side, side + 1, side - 1];
                match check::freivalds(adapter, kernel, types, shape, options.seed) {
                    Ok(Some(())) => report.large += 1,
                    Ok(None) => {}
                    Err(fault) => {
                        report.large += 1;
                        note(report, name("freivalds"), kernel, fault);
                    }
                }
            }
        }
    }
}

/// The seed of a case's data: the same whatever else runs, and of what a case was shrunk to.
#[must_use]
pub fn data_seed(seed: u64, spec: &Spec) -> u64 {
    let name = spec.name.strip_prefix(SHRUNK_FROM).unwrap_or(&spec.name);
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
    /// A case run alone goes through every tier, whichever its place was; a tier asked for alone runs.
    #[test]
    fn depth_follows_what_is_asked_for() {
        let mut filtered = Options::new(Mode::Quick);
        filtered.filter = Some("a case".into());
        let all = depth(&filtered, 0);
        assert_eq!(all.tiers, [Tier::Exact, Tier::Statistical, Tier::WorstCase, Tier::Determinism]);
        assert!(all.rerun && all.reorder);
        for tier in OF_CASES {
            let mut alone = Options::new(Mode::Quick);
            alone.tiers = vec![tier];
            for index in 0..8 {
                let depth = depth(&alone, index);
                assert!(depth.tiers.iter().any(|&t| t != Tier::Determinism), "{tier:?}");
                assert_eq!(depth.tiers.contains(&Tier::Determinism), tier == Tier::Determinism);
            }
        }
    }

    #[test]
    fn a_shrunk_case_keeps_its_data() {
        let case = |name: &str| Spec::new(name.to_owned(), "", [1; 3]);
        let seed = data_seed(3, &case("tail"));
        assert_eq!(data_seed(3, &case("shrunk.tail")), seed);
        assert_ne!(data_seed(3, &case("tails")), seed);
    }
}
