//! The cases: which there are for an adapter, how deep each is checked, and what came of them.

use std::collections::HashSet;

use lapidary_core::KernelChoice;

use super::{Mode, Options, Share, data_seed, in_parallel};
use crate::adapter::{Adapter, Types};
use crate::check::{self, Depth, Outcome, Verdict};
use crate::file::{self, FileError};
use crate::generate::{Item, generate};
use crate::report::{BackendReport, FailureReport};
use crate::shrink::shrink;
use crate::spec::{Spec, Tag};
use crate::tier::Tier;

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

/// Whether cases of an adapter go through `tier`.
pub(super) fn has_tier(adapter: &dyn Adapter, tier: Tier) -> bool {
    OF_CASES.contains(&tier) && (tier != Tier::Checks || adapter.has_checks())
}

/// Failing cases that are shrunk; the others are reported as they are.
const SHRUNK: usize = 5;

/// A case for an adapter, and why it is not run if it is not.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    item: Item,
    skipped: Option<String>,
}

/// Every case of `options` for an adapter.
///
/// # Errors
/// [`FileError`] if the built-in cases are broken.
pub(super) fn plan(
    adapter: &dyn Adapter,
    options: &Options,
    share: Share,
) -> Result<Vec<Planned>, FileError> {
    if !OF_CASES.into_iter().any(|tier| options.has(tier) && has_tier(adapter, tier)) {
        return Ok(Vec::new());
    }
    let mut planned = curated(adapter, options)?;
    let generated = generate(adapter, share.cases, share.per_build, options.seed);
    planned.extend(generated.into_iter().map(|item| Planned { item, skipped: None }));
    planned.retain(|planned| keeps(adapter, options, planned));
    Ok(planned)
}

/// Whether the filter finds the case by its name, the kernel's, or the kernel's that a plan names.
fn keeps(adapter: &dyn Adapter, options: &Options, Planned { item, skipped }: &Planned) -> bool {
    options.keeps(&format!("{} {}", item.spec.name, item.kernel.name()))
        || (skipped.is_none()
            && adapter
                .planned(&item.kernel, &item.spec)
                .is_some_and(|kernel| options.keeps(&kernel)))
}

/// Multiplications of a case, zero sizes counted as ones.
fn size(spec: &Spec) -> f64 {
    let sides = spec.shape.iter().chain([&spec.batch]);
    sides.map(|&side| side.max(1) as f64).product()
}

/// The built-in cases and the caller's with the backend's own choice, and with one other kernel each,
/// or with all.
fn curated(adapter: &dyn Adapter, options: &Options) -> Result<Vec<Planned>, FileError> {
    let mut all = Vec::new();
    let specs = file::built_in()?.into_iter().chain(options.cases.iter().cloned());
    for (index, spec) in specs.enumerate() {
        if !spec.is_for_backend(adapter.name()) {
            continue;
        }
        let mut skip = |spec: &Spec, reason: String| {
            let item = Item { spec: spec.clone(), kernel: KernelChoice::Auto };
            all.push(Planned { item, skipped: Some(reason) });
        };
        if size(&spec) > adapter.reach() {
            let reach = adapter.reach();
            skip(&spec, format!("more multiplications than the {reach:.0e} tried on this backend"));
            continue;
        }
        if let Some(reason) = spec.obstacle() {
            skip(&spec, reason);
            continue;
        }
        if !adapter.routes().contains(&spec.route) {
            skip(&spec, format!("this backend has no route \"{}\"", spec.route.name()));
            continue;
        }
        let kernels = adapter.kernels(Types::of_spec(&spec));
        let every = options.mode == Mode::Full || spec.tags.contains(&Tag::Regression);
        let mut fits = false;
        for (number, &kernel) in kernels.iter().enumerate() {
            let chosen = number == 0 || every || number == 1 + index % (kernels.len() - 1).max(1);
            // A kernel asked for by name is taken whichever its turn.
            if (chosen || spec.kernel.is_some()) && spec.is_for_kernel(&kernel.name()) {
                fits = true;
                all.push(Planned { item: Item { spec: spec.clone(), kernel }, skipped: None });
            }
        }
        if kernels.is_empty() {
            // Types that the backend lacks must be refused.
            let item = Item { spec, kernel: KernelChoice::Auto };
            all.push(Planned { item, skipped: None });
        } else if let (false, Some(name)) = (fits, &spec.kernel) {
            let item = Item { spec: spec.clone(), kernel: KernelChoice::Auto };
            let reason = format!("no kernel named {name:?} for these types");
            all.push(Planned { item, skipped: Some(reason) });
        }
    }
    Ok(all)
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
    // Repeated are some of those with random data.
    Depth { tiers, rerun: again || index.is_multiple_of(4), reorder: again || index % 8 == 2 }
}

/// Runs the cases and adds what came of them.
pub(super) fn run(
    adapter: &dyn Adapter,
    options: &Options,
    planned: &[Planned],
    tick: &(dyn Fn() + Sync),
    report: &mut BackendReport,
) {
    let outcomes = in_parallel(options.jobs, planned, |index, Planned { item, skipped }| {
        let outcome = match skipped {
            Some(reason) => Outcome::skipped(reason.clone()),
            None => check::check(
                adapter,
                item.kernel,
                &item.spec,
                data_seed(options.seed, &item.spec),
                &depth(options, index),
            ),
        };
        tick();
        outcome
    });
    let mut distinct = HashSet::new();
    let mut shrunk = 0;
    for (Planned { item, .. }, outcome) in planned.iter().zip(outcomes) {
        report.cases += 1;
        let name = outcome.kernel.clone().unwrap_or_else(|| item.kernel.name());
        if !matches!(outcome.verdict, Verdict::Skipped(_)) {
            distinct.insert(format!("{name} {}", item.spec.class()));
        }
        let kernel = report.kernels.entry(name).or_default();
        kernel.cases += 1;
        kernel.metrics.merge(&outcome.metrics);
        for pass in outcome.passes {
            *report.passes.entry(pass.to_owned()).or_default() += 1;
        }
        for what in outcome.left_out {
            *report.left_out.entry(what).or_default() += 1;
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
                failure.spec = Some(item.spec.clone());
                if shrunk < SHRUNK {
                    shrunk += 1;
                    let seed = data_seed(options.seed, &item.spec);
                    failure.shrunk = Some(shrink(adapter, item.kernel, &item.spec, seed, tier));
                }
                report.failures.push(failure);
            }
        }
    }
    report.distinct = distinct.len();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of small integers the sums are the same in any order: a repetition would show nothing.
    #[test]
    fn executions_are_repeated_on_random_data() {
        for index in 0..16 {
            let depth = depth(&Options::new(Mode::Quick), index);
            if depth.rerun || depth.reorder {
                assert!(depth.tiers.contains(&Tier::Statistical), "case {index}");
            }
        }
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
                let depth = super::depth(&alone, index);
                assert!(depth.tiers.iter().any(|&t| t != Tier::Determinism), "{tier:?}");
                assert_eq!(depth.tiers.contains(&Tier::Determinism), tier == Tier::Determinism);
            }
        }
    }
}
