//! What a run found, as data: printed as a table, written as JSON, or put in a page as Markdown.

mod document;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::adapter::Adapter;
use crate::check::{CodeReport, Fault, Metrics, Observation};
use crate::file::{self, FileError};
use crate::generate::Item;
use crate::names::{FAILED, shell_word};
use crate::planted::Kill;
use crate::shrink::as_regression;
use crate::spec::Spec;
use crate::suite::{self, Options};
use crate::tier::Tier;

pub use table::Markdown;

/// A whole run. As JSON it has its verdict too, as `passed`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// `quick` or `full`.
    pub mode: String,
    /// Seed of cases and data.
    pub seed: u64,
    /// Version of the library.
    pub version: String,
    /// Seconds it took.
    pub seconds: f64,
    /// Each backend's part.
    pub backends: Vec<BackendReport>,
    /// Backends that could not be opened, and why.
    pub unavailable: Vec<String>,
    /// The caller's cases that are for none of the backends, by name, with those they are for.
    pub idle: Vec<String>,
    /// What became of planted bugs, if they were planted.
    pub planted: Vec<Kill>,
    /// Planted bugs whose case fails without the bug too, and how.
    pub spoiled: Vec<String>,
    /// Bugs that were left out because the device has not the kernels that they are in, and why.
    pub left_out: Vec<String>,
    /// Bugs that were asked for and could not be planted, and what is missing for each.
    pub not_planted: Vec<String>,
}

impl Report {
    /// An empty report.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self {
            mode: options.mode.name().to_owned(),
            seed: options.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seconds: 0.0,
            backends: Vec::new(),
            unavailable: Vec::new(),
            idle: Vec::new(),
            planted: Vec::new(),
            spoiled: Vec::new(),
            left_out: Vec::new(),
            not_planted: Vec::new(),
        }
    }

    /// Whether nothing failed, every kernel that exists ran where nothing was left out, and every bug
    /// that was asked for and not left out was planted and noticed by the tier that should.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.backends.iter().all(BackendReport::passed)
            && self.planted.iter().all(Kill::as_expected)
            && self.spoiled.is_empty()
            && self.not_planted.is_empty()
    }

    /// Whether there was anything to pass: a case that was not skipped, another check, a planted bug.
    #[must_use]
    pub fn ran_anything(&self) -> bool {
        let ran = |backend: &BackendReport| {
            backend.checks > backend.total().skipped.values().sum::<usize>()
        };
        !self.planted.is_empty() || self.backends.iter().any(ran)
    }

    /// Appends every case that failed to a case file, as small as it was made, under a name that keeps
    /// its data. Says how many were not in it yet.
    ///
    /// # Errors
    /// [`FileError`] if the file is no list of cases or cannot be written.
    pub fn record(&self, path: &Path) -> Result<usize, FileError> {
        let mut added = 0;
        for backend in &self.backends {
            for spec in backend.failures.iter().filter_map(|f| f.regression(&backend.name)) {
                added += usize::from(file::append(path, &spec)?);
            }
        }
        Ok(added)
    }

    /// Cases of all backends.
    #[must_use]
    pub fn cases(&self) -> usize {
        self.backends.iter().map(|backend| backend.cases).sum()
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // All of them, so that a new one is not forgotten.
        let Self {
            mode,
            seed,
            version,
            seconds,
            backends,
            unavailable,
            idle,
            planted,
            spoiled,
            left_out,
            not_planted,
        } = self;
        let mut fields = to.serialize_struct("Report", 12)?;
        fields.serialize_field("passed", &self.passed())?;
        fields.serialize_field("mode", mode)?;
        fields.serialize_field("seed", seed)?;
        fields.serialize_field("version", version)?;
        fields.serialize_field("seconds", seconds)?;
        fields.serialize_field("backends", backends)?;
        fields.serialize_field("unavailable", unavailable)?;
        fields.serialize_field("idle", idle)?;
        fields.serialize_field("planted", planted)?;
        fields.serialize_field("spoiled", spoiled)?;
        fields.serialize_field("left_out", left_out)?;
        fields.serialize_field("not_planted", not_planted)?;
        fields.end()
    }
}

/// One backend's part.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct BackendReport {
    /// The adapter's name.
    pub name: String,
    /// The device.
    pub device: String,
    /// Its driver.
    pub driver: String,
    /// Limits and features seen.
    pub properties: Vec<(String, String)>,
    /// Everything looked at: cases, and special values, codes, related and large products of a kernel
    /// and types, forbidden calls, and the oracle.
    pub checks: usize,
    /// Cases run, refused and skipped ones included.
    pub cases: usize,
    /// Of these, distinct by the kernel that ran, shape class, layouts, types, epilogue and route.
    pub distinct: usize,
    /// By the plans' own names of kernels.
    pub kernels: BTreeMap<String, KernelReport>,
    /// Cases that each pass besides the kernels ran in, by the plans' own names.
    pub passes: BTreeMap<String, usize>,
    /// Kernels and passes that exist.
    pub existing: usize,
    /// Of these, the ones that no case ran.
    pub missing: Vec<String>,
    /// Kernels and passes that ran and that the adapter does not list.
    pub unlisted: Vec<String>,
    /// Whether a filter or a choice of tiers left cases out, so that not every kernel need run.
    pub partial: bool,
    /// Non-finite, subnormal and extreme operands.
    pub special: Vec<Observation>,
    /// Codes decoded and ties rounded.
    pub codes: Vec<CodeReport>,
    /// Relations checked.
    pub relations: BTreeMap<String, usize>,
    /// Large products checked by Freivalds' test.
    pub large: usize,
    /// Forbidden calls made.
    pub misuses: usize,
    /// Forbidden calls, special values, codes, related and large products that some types, kernels or
    /// the backend do not have, and tiers that were asked for of which it has nothing, by tier and reason.
    pub left_out: BTreeMap<String, usize>,
    /// Everything that went wrong.
    pub failures: Vec<FailureReport>,
    /// Seconds it took.
    pub seconds: f64,
}

impl BackendReport {
    pub(crate) fn new(adapter: &dyn Adapter) -> Self {
        let info = adapter.info();
        Self {
            name: adapter.name().to_owned(),
            device: info.name,
            driver: info.driver,
            properties: info.properties,
            ..Self::default()
        }
    }

    /// Fills in what follows from the rest.
    pub(crate) fn finish(&mut self, adapter: &dyn Adapter) {
        let ran: BTreeSet<&str> = self
            .kernels
            .iter()
            .filter(|(_, kernel)| kernel.passed > 0 || kernel.metrics.elements > 0)
            .map(|(name, _)| name.as_str())
            .collect();
        let names = adapter.kernel_names();
        self.missing = suite::missing(&names, &ran);
        self.unlisted = suite::unlisted(&names, &ran);
        self.existing = names.len();
        let ran = self.passes.keys().map(String::as_str).collect();
        let names: Vec<String> = adapter.pass_names().into_iter().map(str::to_owned).collect();
        self.missing.extend(suite::missing(&names, &ran));
        self.unlisted.extend(suite::unlisted(&names, &ran));
        self.existing += names.len();
    }

    /// Whether nothing failed, no unknown kernel ran, and every known one did, unless cases were left
    /// out.
    #[must_use]
    pub fn passed(&self) -> bool {
        let complete = self.partial || self.missing.is_empty();
        self.failures.is_empty() && self.unlisted.is_empty() && complete
    }

    /// All kernels' numbers together.
    #[must_use]
    pub fn total(&self) -> KernelReport {
        let mut total = KernelReport::default();
        for kernel in self.kernels.values() {
            total.merge(kernel);
        }
        total
    }
}

/// One kernel's cases.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct KernelReport {
    /// Cases run.
    pub cases: usize,
    /// Right in every tier.
    pub passed: usize,
    /// Wrong in one.
    pub failed: usize,
    /// Refused as expected, by reason.
    pub refused: BTreeMap<String, usize>,
    /// Not run, by reason.
    pub skipped: BTreeMap<String, usize>,
    /// Errors, repetitions, canaries.
    #[serde(flatten)]
    pub metrics: Metrics,
}

impl KernelReport {
    fn merge(&mut self, other: &Self) {
        self.cases += other.cases;
        self.passed += other.passed;
        self.failed += other.failed;
        for (into, from) in
            [(&mut self.refused, &other.refused), (&mut self.skipped, &other.skipped)]
        {
            for (reason, count) in from {
                *into.entry(reason.clone()).or_default() += count;
            }
        }
        self.metrics.merge(&other.metrics);
    }
}

/// A failing case.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FailureReport {
    /// The case's name.
    pub case: String,
    /// The kernel asked for.
    pub kernel: String,
    /// The tier that noticed.
    pub tier: Tier,
    /// What it saw.
    pub message: String,
    /// The command that runs this case alone.
    pub replay: String,
    /// The case as it failed; `None` where a check that is no case failed.
    pub spec: Option<Spec>,
    /// The smallest case that still fails; `None` if it was not looked for.
    pub shrunk: Option<Spec>,
}

impl FailureReport {
    pub(crate) fn new(
        adapter: &dyn Adapter,
        options: &Options,
        item: &Item,
        fault: &Fault,
    ) -> Self {
        let kernel = item.kernel.name();
        let case = item.spec.name.clone();
        let which = shell_word(&format!("{case} {kernel}"));
        let replay = format!(
            "lapidary conformance --backend {} --{} --seed {} --filter={which}{}",
            adapter.name(),
            options.mode.name(),
            options.seed,
            options.replay.iter().map(|more| format!(" {more}")).collect::<String>(),
        );
        Self {
            case,
            kernel,
            tier: fault.tier,
            message: fault.message.clone(),
            replay,
            spec: None,
            shrunk: None,
        }
    }

    /// The case to keep for later, if a case failed: the smallest one known that fails on `backend`.
    #[must_use]
    pub fn regression(&self, backend: &str) -> Option<Spec> {
        let failed =
            || self.spec.as_ref().map(|spec| as_regression(spec, FAILED, self.tier, backend));
        self.shrunk.clone().or_else(failed)
    }
}
