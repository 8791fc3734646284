//! Bugs planted on purpose: proof that the suite would notice them.
//!
//! A bug is a patch of one or two lines of the real source. Kernels are patched when they are compiled;
//! host code, the checker included, is patched in a copy of the sources, which is built and run. A bug
//! counts as noticed only if the tier that it names is the first to notice.

mod host;
#[cfg(any(feature = "hip", feature = "wgsl"))]
mod kernels;

use lapidary_core::KernelChoice;
use lapidary_core::testing::Values;
use serde::{Deserialize, Serialize};

use crate::adapter::{Adapter, CpuAdapter, Expectation, Job, Promises, Types};
use crate::check::{self, Depth, Fault, Misuse, Verdict};
use crate::spec::{Route, Spec};
use crate::tier::Tier;

pub use host::HostLab;
#[cfg(feature = "wgsl")]
pub use kernels::emitted;

const FILES: [(&str, &str); 6] = [
    ("planted/wgsl.toml", include_str!("../../planted/wgsl.toml")),
    ("planted/emitted.toml", include_str!("../../planted/emitted.toml")),
    ("planted/matrix_units.toml", include_str!("../../planted/matrix_units.toml")),
    ("planted/hip.toml", include_str!("../../planted/hip.toml")),
    ("planted/host.toml", include_str!("../../planted/host.toml")),
    ("planted/backends.toml", include_str!("../../planted/backends.toml")),
];

/// A planted bug as data.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Bug {
    /// Its name.
    pub name: String,
    /// What it does, in words.
    pub what: String,
    /// The adapter that runs it, or `oracle` for the checker.
    pub backend: String,
    /// The tier that must notice it first.
    pub expected: Tier,
    /// The name of the kernel that has it, or `#n` for number n of the kernels for these types.
    #[serde(default = "auto")]
    pub kernel: String,
    /// The case that shows it.
    #[serde(default)]
    pub case: Option<Spec>,
    /// Whether the patch is one of the text that the file emits for the case's kernel, not of the file.
    #[serde(default)]
    pub emitted: bool,
    /// Whether its kernel is one of a software device with matrix units, which few have.
    #[serde(default)]
    pub matrix_units: bool,
    /// The difference to the real source, in the form of `diff -u` from the repository's root.
    pub patch: String,
}

fn auto() -> String {
    "auto".into()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Bugs {
    bug: Vec<Bug>,
}

/// Why a bug cannot be planted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlantError {
    /// The list of bugs is broken.
    #[error("{file}: {message}")]
    List {
        /// The file.
        file: &'static str,
        /// What is wrong.
        message: String,
    },
    /// The patch does not fit the source.
    #[error("{bug}: the patch does not fit {file}: {message}")]
    Patch {
        /// The bug.
        bug: String,
        /// The file it changes.
        file: String,
        /// What does not fit.
        message: String,
    },
    /// There is no such kernel.
    #[error("{bug}: there is no kernel {kernel} for its types")]
    Kernel {
        /// The bug.
        bug: String,
        /// The kernel.
        kernel: String,
    },
    /// The device cannot be opened.
    #[error("{bug}: {error}")]
    Device {
        /// The bug.
        bug: String,
        /// Why not.
        error: Box<lapidary_core::Error>,
    },
    /// The copy of the sources cannot be made, built or run.
    #[error("{what}: {message}")]
    Host {
        /// What was attempted.
        what: String,
        /// What came back.
        message: String,
    },
}

/// What became of a planted bug.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Kill {
    /// The bug's name.
    pub name: String,
    /// The adapter that ran it.
    pub backend: String,
    /// The file that it is in.
    pub place: String,
    /// What it does.
    pub what: String,
    /// The tier that must notice it.
    pub expected: Tier,
    /// The tier that noticed it first, if any did.
    pub noticed: Option<Tier>,
    /// What it saw.
    pub message: String,
    /// Whether the bug passes a plain γ_K check at 128×128×128; `None` where there is no product to
    /// check so.
    pub passes_bound: Option<bool>,
}

impl Kill {
    /// Whether the right tier noticed.
    #[must_use]
    pub fn as_expected(&self) -> bool {
        self.noticed == Some(self.expected)
    }

    fn new(bug: &Bug, fault: Option<Fault>, passes_bound: Option<bool>) -> Self {
        Self {
            name: bug.name.clone(),
            backend: bug.backend.clone(),
            place: bug.file().unwrap_or_default().to_owned(),
            what: bug.what.clone(),
            expected: bug.expected,
            noticed: fault.as_ref().map(|fault| fault.tier),
            message: fault.map(|fault| fault.message).unwrap_or_default(),
            passes_bound,
        }
    }
}

/// Every planted bug.
///
/// # Errors
/// [`PlantError::List`]; a test sees to it that there is none.
pub fn bugs() -> Result<Vec<Bug>, PlantError> {
    let mut all = Vec::new();
    for (file, text) in FILES {
        let list: Bugs = toml::from_str(text)
            .map_err(|error| PlantError::List { file, message: error.to_string() })?;
        all.extend(list.bug);
    }
    Ok(all)
}

impl Bug {
    /// The file that it changes, from the repository's root.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.patch.lines().find_map(|line| line.strip_prefix("+++ b/"))
    }

    /// `source` with the bug in it.
    ///
    /// # Errors
    /// [`PlantError::Patch`] if it does not fit.
    pub fn apply(&self, source: &str) -> Result<String, PlantError> {
        let wrong = |message: String| PlantError::Patch {
            bug: self.name.clone(),
            file: self.file().unwrap_or_default().to_owned(),
            message,
        };
        let patch = diffy::Patch::from_str(&self.patch).map_err(|e| wrong(e.to_string()))?;
        diffy::apply(source, &patch).map_err(|error| wrong(error.to_string()))
    }

    /// Whether it is in host code, which is patched in a copy of the sources.
    fn is_in_host_code(&self) -> bool {
        !self.emitted && self.file().is_some_and(|file| file.ends_with(".rs"))
    }

    /// The feature of this crate that its backend takes, if it takes one.
    fn feature(&self) -> Option<&'static str> {
        match self.backend.as_str() {
            "wgsl" => Some("wgsl"),
            "gfx942" | "gfx950" => Some("hip"),
            _ => None,
        }
    }

    /// The element types of its case.
    fn types(&self) -> Types {
        self.case.as_ref().map_or(Types::of_spec(&Spec::new("", "", [1; 3])), Types::of_spec)
    }

    /// The kernel that has it, of `kernels`, which are those for its types.
    fn choice(&self, kernels: &[KernelChoice]) -> Result<KernelChoice, PlantError> {
        let found = match self.kernel.strip_prefix('#').and_then(|n| n.parse::<usize>().ok()) {
            Some(number) => kernels.get(number),
            None => kernels.iter().find(|kernel| kernel.name() == self.kernel),
        };
        found.copied().ok_or_else(|| PlantError::Kernel {
            bug: self.name.clone(),
            kernel: self.kernel.clone(),
        })
    }
}

/// Plants a bug of host code in this very process's library and says who noticed: what the program in
/// the patched copy of the sources does.
///
/// # Errors
/// [`PlantError`] if the bug cannot be run.
pub fn run_here(bug: &Bug) -> Result<Kill, PlantError> {
    match bug.backend.as_str() {
        "oracle" => Ok(Kill::new(bug, check::oracle().err(), None)),
        "cpu" => hunt(&CpuAdapter::new(), bug),
        #[cfg(any(feature = "hip", feature = "wgsl"))]
        _ => hunt(&*kernels::open(bug, None)?, bug),
        #[cfg(not(any(feature = "hip", feature = "wgsl")))]
        _ => Err(PlantError::Device {
            bug: bug.name.clone(),
            error: Box::new(lapidary_core::Error::NoDevice {
                reason: "its backend is not built in".into(),
            }),
        }),
    }
}

/// Runs a bug's case through every tier on an adapter that has the bug.
fn hunt(adapter: &dyn Adapter, bug: &Bug) -> Result<Kill, PlantError> {
    let kernel = bug.choice(&adapter.kernels(bug.types()))?;
    let Some(spec) = &bug.case else {
        return Ok(Kill::new(bug, None, None));
    };
    let mut fault = match check::check(adapter, kernel, spec, 1, &Depth::full()).verdict {
        Verdict::Failed(fault) => Some(fault),
        Verdict::Passed => None,
        other => Some(Fault::new(Tier::Acceptance, format!("not run: {other:?}"))),
    };
    let types = bug.types();
    if fault.is_none() && bug.expected == Tier::SpecialValues {
        fault = check::special_values(adapter, kernel, types, spec.activation)
            .faults
            .into_iter()
            .next()
            .map(|(_, fault)| fault);
    }
    if fault.is_none() && bug.expected == Tier::Acceptance {
        let made = |misuse| check::caught(|| adapter.misuse(misuse)).unwrap_or_else(Err);
        fault = Misuse::ALL.into_iter().find_map(|misuse| made(misuse).err());
    }
    if fault.is_none() && bug.expected == Tier::Codes {
        fault =
            check::codes(adapter, kernel, types).faults.into_iter().next().map(|(_, fault)| fault);
    }
    Ok(Kill::new(bug, fault, passes_bound(adapter, kernel, spec)))
}

/// What a plain test would say: 128×128×128, random data, dense, within γ_K.
/// `None` if the kernel is none for such a product.
fn passes_bound(adapter: &dyn Adapter, kernel: KernelChoice, shows: &Spec) -> Option<bool> {
    let mut spec = Spec::new("plain", "a plain tolerance check", [128; 3]);
    spec.set_types(Types::of_spec(shows));
    spec.b_group = shows.b_group;
    (spec.k_slices, spec.copies) = (shows.k_slices, shows.copies);
    let mut case = spec.case(Values::Uniform, 3);
    case.c.fill(0.0);
    let promises = Promises { ..adapter.promises() };
    if !matches!(adapter.expect(&kernel, &(&case).into(), Route::Device), Expectation::Runs) {
        return None;
    }
    let sums = adapter.sum_type(&kernel);
    let Ok(reference) = check::reference(Tier::WorstCase, &case, promises, sums) else {
        return Some(false);
    };
    let job = Job::of_spec(&spec, &case, kernel).without_inputs();
    let Ok(executed) = adapter.execute(&job) else { return Some(false) };
    let found = check::view(&case, &executed.c);
    Some(found.is_ok_and(|found| reference.compare(&found).passed()))
}

/// Which bugs to plant.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Selection {
    /// Only bugs whose name contains this.
    pub filter: Option<String>,
}

impl Selection {
    fn has(&self, bug: &Bug) -> bool {
        self.filter.as_ref().is_none_or(|filter| bug.name.contains(filter.as_str()))
    }
}

/// Bugs that were planted, and those that could not be, with the reason.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Harvest {
    /// What became of each.
    pub kills: Vec<Kill>,
    /// Name and reason of those that were not planted because something is not there.
    pub skipped: Vec<(String, String)>,
    /// Name and reason of those in kernels that the device has not.
    pub left_out: Vec<(String, String)>,
    /// Bugs whose case fails without the bug: no proof of anything.
    pub spoiled: Vec<(String, Fault)>,
}

impl Harvest {
    fn skip(&mut self, bug: &Bug, reason: &impl ToString) {
        self.skipped.push((bug.name.clone(), reason.to_string()));
    }
}

/// Plants every bug of `selection`, one after the other; `progress` is told how many are done.
///
/// # Errors
/// [`PlantError`] if a bug does not fit the source, or there is no such kernel. Where something that it
/// needs is missing or does not work, the harvest says so instead.
pub fn plant(
    selection: &Selection,
    progress: &dyn Fn(usize, usize),
) -> Result<Harvest, PlantError> {
    let bugs: Vec<Bug> = bugs()?.into_iter().filter(|bug| selection.has(bug)).collect();
    let mut harvest = Harvest::default();
    #[cfg(any(feature = "hip", feature = "wgsl"))]
    let mut lab = kernels::KernelLab::default();
    let mut host: Option<Result<HostLab, PlantError>> = None;
    for (index, bug) in bugs.iter().enumerate() {
        progress(index, bugs.len());
        if bug.is_in_host_code() {
            match host.get_or_insert_with(HostLab::new).as_ref().map(|lab| lab.run(bug)) {
                Ok(Ok(kill)) => harvest.kills.push(kill),
                Ok(Err(error @ PlantError::Host { .. })) => harvest.skip(bug, &error),
                Ok(Err(error)) => return Err(error),
                Err(error) => harvest.skip(bug, error),
            }
            continue;
        }
        #[cfg(any(feature = "hip", feature = "wgsl"))]
        lab.run(bug, &mut harvest)?;
        #[cfg(not(any(feature = "hip", feature = "wgsl")))]
        harvest.skip(bug, &"its backend is not built in");
    }
    progress(bugs.len(), bugs.len());
    Ok(harvest)
}
