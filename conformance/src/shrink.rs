//! Making a failing case as small as it can be and still fail in the same tier.

use lapidary_core::testing::Arrangement;
use lapidary_core::{Activation, KernelChoice};

use crate::adapter::{Adapter, Types};
use crate::check::{Depth, Verdict, check};
use crate::names::{self, SHRUNK};
use crate::spec::{Route, Spec, Tag};
use crate::tier::Tier;

/// Executions that shrinking may take.
const ATTEMPTS: usize = 120;

/// The smallest case found that fails in `tier`; `spec` itself if none smaller does.
///
/// Each step that still fails is kept: sizes halved and decremented, batch to one, dense layouts, no
/// epilogue.
pub fn shrink(
    adapter: &dyn Adapter,
    kernel: KernelChoice,
    spec: &Spec,
    seed: u64,
    tier: Tier,
) -> Spec {
    let depth = match tier {
        Tier::Exact | Tier::Statistical | Tier::WorstCase => Depth::of(&[tier]),
        Tier::Determinism => Depth::full(),
        _ => Depth::of(&[Tier::Exact, Tier::Statistical, Tier::WorstCase]),
    };
    let mut attempts = 0;
    let mut fails = |candidate: &Spec| {
        attempts += 1;
        attempts <= ATTEMPTS
            && candidate.laid_out().is_ok()
            && matches!(
                check(adapter, kernel, candidate, seed, &depth).verdict,
                Verdict::Failed(fault) if fault.tier == tier
            )
    };
    let mut best = spec.clone();
    loop {
        let next = candidates(&best).into_iter().find(|candidate| fails(candidate));
        match next {
            Some(smaller) => best = smaller,
            None => break,
        }
    }
    as_regression(&best, SHRUNK, tier, adapter.name())
}

/// A case that failed in `tier` on `backend`, to be kept: named as made `from` what it comes from, so
/// that its data stays the same and its name is not that of a case that exists.
pub(crate) fn as_regression(spec: &Spec, from: &str, tier: Tier, backend: &str) -> Spec {
    Spec {
        name: names::derived(from, 1, &spec.name),
        reason: format!("failed in the {} tier on {backend}", tier.name()),
        tags: vec![Tag::Regression],
        backends: vec![backend.to_owned()],
        ..spec.clone()
    }
}

/// Simpler specs, the boldest steps first.
fn candidates(spec: &Spec) -> Vec<Spec> {
    let mut all = Vec::new();
    let mut add = |change: &dyn Fn(&mut Spec)| {
        let mut candidate = spec.clone();
        change(&mut candidate);
        if candidate != *spec {
            all.push(candidate);
        }
    };
    add(&|s| s.batch = s.batch.min(1));
    add(&|s| s.layouts = [Arrangement::Dense; 3]);
    add(&|s| s.route = Route::Device);
    add(&|s| s.k_slices = None);
    add(&|s| s.copies = None);
    for axis in 0..3 {
        let unit = if axis == 2 && Types::of_spec(spec).in_blocks() { 32 } else { 1 };
        add(&|s| {
            s.shape[axis] = (s.shape[axis] / 2).max(1).next_multiple_of(unit).min(s.shape[axis])
        });
        add(&|s| s.shape[axis] = s.shape[axis].saturating_sub(unit).max(unit.min(s.shape[axis])));
        add(&|s| s.layouts[axis] = Arrangement::Dense);
    }
    add(&|s| s.activation = Activation::None);
    add(&|s| s.bias = false);
    add(&|s| (s.row_scale, s.col_scale) = (false, false));
    add(&|s| s.beta = 0.0);
    add(&|s| s.alpha = 1.0);
    all
}
