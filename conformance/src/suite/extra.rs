//! Checks that are no cases: the checker itself, forbidden calls, special values, codes, related and large
//! products.

use lapidary_core::{Activation, ElementType, KernelChoice};

use super::{Mode, Options, in_parallel};
use crate::adapter::{Adapter, Types};
use crate::check::{self, Attempt, CodeReport, Fault, Misuse, Observation, Relation};
use crate::generate::Item;
use crate::report::{BackendReport, FailureReport};
use crate::spec::Spec;
use crate::tier::Tier;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// The oracle.
    Checker,
    /// A call that the contract forbids.
    Misuse(Misuse),
    /// Special numbers in every operand, with this activation.
    SpecialValues(Activation),
    /// Every code and rounding tie.
    Codes,
    /// Two products of this relation.
    Related(Relation),
    /// A large product of integers.
    Large,
}

/// One check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extra {
    what: What,
    types: Types,
    kernel: KernelChoice,
}

impl Extra {
    fn tier(&self) -> Tier {
        match self.what {
            What::Checker => Tier::Oracle,
            What::Misuse(_) => Tier::Acceptance,
            What::SpecialValues(_) => Tier::SpecialValues,
            What::Codes => Tier::Codes,
            What::Related(_) => Tier::Metamorphic,
            What::Large => Tier::Freivalds,
        }
    }

    /// Its name, which a filter finds: the tier, what is looked at, the types where there are several.
    fn name(&self) -> String {
        let mut spec = Spec::new("", "", [1, 1, 32]);
        spec.set_types(self.types);
        let tier = self.tier().name();
        match self.what {
            What::Checker => tier.to_owned(),
            What::Misuse(misuse) => format!("{tier}.{}", misuse.name()),
            What::SpecialValues(Activation::None) | What::Codes | What::Large => {
                format!("{tier}.{}", spec.type_name())
            }
            What::SpecialValues(activation) => format!("{tier}.{activation}.{}", spec.type_name()),
            What::Related(relation) => format!("{tier}.{}.{}", relation.name(), spec.type_name()),
        }
    }
}

/// Whether an output holds sums as they are.
fn is_widest(types: &Types) -> bool {
    matches!(types.elements[2], ElementType::F32 | ElementType::F64 | ElementType::I32)
}

/// Every check of `options` for an adapter.
pub(super) fn extras(adapter: &dyn Adapter, options: &Options) -> Vec<Extra> {
    let mut all = all_extras(adapter, options.mode);
    all.retain(|extra| {
        options.has(extra.tier())
            && options.keeps(&format!("{} {}", extra.name(), extra.kernel.name()))
    });
    all
}

/// Whether there are checks of `tier` for an adapter.
pub(super) fn has_tier(adapter: &dyn Adapter, mode: Mode, tier: Tier) -> bool {
    all_extras(adapter, mode).iter().any(|extra| extra.tier() == tier)
}

/// Every check of `mode` for an adapter.
fn all_extras(adapter: &dyn Adapter, mode: Mode) -> Vec<Extra> {
    let full = mode == Mode::Full;
    let f32 = Types::of(ElementType::F32, ElementType::F32, ElementType::F32);
    let mut all = vec![Extra { what: What::Checker, types: f32, kernel: KernelChoice::Auto }];
    all.extend(Misuse::ALL.map(|misuse| Extra {
        what: What::Misuse(misuse),
        types: f32,
        kernel: KernelChoice::Auto,
    }));
    for (index, types) in adapter.types().into_iter().enumerate() {
        let kernels = adapter.kernels(types);
        let others = kernels.len().max(2) - 1;
        for (number, &kernel) in kernels.iter().enumerate() {
            let mut add = |what| all.push(Extra { what, types, kernel });
            // In quick the backend's own choice, and one of the others in turn.
            let in_turn = number == 0 || number == 1 + index % others;
            let chosen = full || in_turn;
            if chosen {
                add(What::SpecialValues(Activation::None));
            }
            // Relu by a maximum would lose a NaN; it is the same code whichever kernel sums.
            if in_turn && is_widest(&types) {
                add(What::SpecialValues(Activation::Relu));
            }
            if chosen {
                add(What::Codes);
            }
            if is_widest(&types) && (full || number % 4 == index % 4) {
                Relation::ALL.into_iter().for_each(|relation| add(What::Related(relation)));
            }
            if is_widest(&types) && chosen {
                add(What::Large);
            }
        }
    }
    all
}

/// What a check found.
#[derive(Default)]
struct Found {
    special: Vec<Observation>,
    codes: Vec<CodeReport>,
    /// Whether there was a product to look at, right or wrong.
    done: bool,
    /// What failed, by name.
    faults: Vec<(String, Fault)>,
    /// What these types, this kernel or this backend have not.
    left_out: Vec<String>,
}

impl Found {
    fn of(name: String, result: Result<Attempt<()>, Fault>) -> Self {
        let mut found = Self::default();
        match result {
            Ok(Attempt::Done(())) => found.done = true,
            Ok(Attempt::LeftOut(reason)) => found.left_out.push(reason),
            Err(fault) => {
                found.done = true;
                found.faults.push((name, fault));
            }
        }
        found
    }
}

fn look(adapter: &dyn Adapter, options: &Options, extra: &Extra) -> Found {
    let Extra { what, types, kernel } = *extra;
    match what {
        What::Checker => Found::of(extra.name(), check::oracle().map(Attempt::Done)),
        What::Misuse(misuse) if misuse.has_scales() && !adapter.has_scales() => {
            Found::of(extra.name(), Ok(Attempt::LeftOut("the backend lacks scales".into())))
        }
        What::Misuse(misuse) => Found::of(extra.name(), adapter.misuse(misuse)),
        What::SpecialValues(activation) => {
            let findings = check::special_values(adapter, kernel, types, activation);
            Found {
                special: findings.seen,
                faults: findings.faults,
                left_out: findings.left_out,
                ..Found::default()
            }
        }
        What::Codes => {
            let findings = check::codes(adapter, kernel, types);
            Found {
                codes: findings.seen,
                faults: findings.faults,
                left_out: findings.left_out,
                ..Found::default()
            }
        }
        What::Related(relation) => {
            let k = if types.in_blocks() { 64 } else { 45 };
            let mut spec = Spec::new("metamorphic", "related products", [37, 50, k]);
            spec.set_types(types);
            let result = check::metamorphic(adapter, kernel, &spec, relation, options.seed);
            Found::of(extra.name(), result)
        }
        What::Large => {
            let side = adapter.large_side();
            let shape = [side, side + 1, side - 1];
            let result = check::freivalds(adapter, kernel, types, shape, options.seed);
            Found::of(extra.name(), result)
        }
    }
}

/// Runs the checks and adds what they found.
pub(super) fn run(
    adapter: &dyn Adapter,
    options: &Options,
    extras: &[Extra],
    tick: &(dyn Fn() + Sync),
    report: &mut BackendReport,
) {
    let found =
        in_parallel(options.jobs, extras, |_, extra| {
            let found = check::caught(|| look(adapter, options, extra)).unwrap_or_else(|fault| {
                Found { done: true, faults: vec![(extra.name(), fault)], ..Found::default() }
            });
            tick();
            found
        });
    for (extra, found) in extras.iter().zip(found) {
        report.special.extend(found.special);
        report.codes.extend(found.codes);
        match extra.what {
            What::Related(relation) if found.done => {
                *report.relations.entry(relation.name().into()).or_default() += 1;
            }
            What::Large if found.done => report.large += 1,
            What::Misuse(_) if found.done => report.misuses += 1,
            _ => {}
        }
        for reason in found.left_out {
            let what = format!("{}: {reason}", extra.tier().name());
            *report.left_out.entry(what).or_default() += 1;
        }
        let item = Item { spec: Spec::new(extra.name(), "", [0; 3]), kernel: extra.kernel };
        for (name, fault) in found.faults {
            let mut failure = FailureReport::new(adapter, options, &item, &fault);
            failure.case = name;
            report.failures.push(failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::CpuAdapter;

    #[test]
    fn a_filter_finds_each_check_by_the_name_its_failure_prints() {
        let adapter = CpuAdapter::new();
        let mut options = Options::new(Mode::Quick);
        let all = extras(&adapter, &options);
        for tier in [
            Tier::Oracle,
            Tier::Acceptance,
            Tier::SpecialValues,
            Tier::Codes,
            Tier::Metamorphic,
            Tier::Freivalds,
        ] {
            let one = *all.iter().find(|extra| extra.tier() == tier).expect("one of each tier");
            options.filter = Some(format!("{} {}", one.name(), one.kernel.name()));
            assert!(extras(&adapter, &options).contains(&one), "{options:?}");
        }
        options.filter = Some("codes.f32-f32 auto".into());
        assert_eq!(extras(&adapter, &options).len(), 1);
        options.filter = Some("acceptance.alias-of-a".into());
        assert_eq!(extras(&adapter, &options).len(), 1);
        options.tiers = vec![Tier::Freivalds];
        assert_eq!(extras(&adapter, &options).len(), 0);
    }
}
