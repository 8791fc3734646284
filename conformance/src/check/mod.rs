//! One case through its tiers.

mod codes;
mod exact;
mod metamorphic;
mod metrics;
mod misuse;
mod oracle;
mod special;

use std::panic::{AssertUnwindSafe, catch_unwind};

use lapidary_core::oracle::Reference;
use lapidary_core::testing::{Case, Values};
use lapidary_core::{Activation, AnyMatrixRef, ElementType, Error, KernelChoice};

use crate::adapter::{Adapter, Executed, Expectation, Job, Order, Outline, Promises, Refusal};
use crate::spec::{Route, Spec};
use crate::tier::Tier;

pub use codes::{CodeReport, codes};
pub use metamorphic::{Relation, freivalds, metamorphic};
pub use metrics::{Extreme, Metrics};
pub(crate) use misuse::SHAPE;
pub use misuse::{Misuse, Rule};
pub use oracle::oracle;
pub use special::{Observation, Place, special_values};

/// Which tiers run, and how often an execution is repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Depth {
    /// Tiers to run, of those that a case has.
    pub tiers: Vec<Tier>,
    /// Whether an execution is repeated in the device's own order, by a plan used for another before.
    pub rerun: bool,
    /// Whether an execution is repeated in the adapter's other orders.
    pub reorder: bool,
}

impl Depth {
    /// Every tier, with repetitions.
    #[must_use]
    pub fn full() -> Self {
        Self { tiers: Tier::ALL.to_vec(), rerun: true, reorder: true }
    }

    /// These tiers, without repetitions.
    #[must_use]
    pub fn of(tiers: &[Tier]) -> Self {
        Self { tiers: tiers.to_vec(), rerun: false, reorder: false }
    }

    fn has(&self, tier: Tier) -> bool {
        self.tiers.contains(&tier)
    }

    /// The tier whose execution is repeated: random data, of which sums in another order differ in
    /// their bits, where it is to be had.
    fn repeated(&self) -> Tier {
        let wanted = [Tier::Statistical, Tier::WorstCase];
        wanted.into_iter().find(|&tier| self.has(tier)).unwrap_or(Tier::Exact)
    }
}

/// What went wrong, and in which tier.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a tier and a message")]
pub struct Fault {
    /// The tier that noticed.
    pub tier: Tier,
    /// What it saw, in one line.
    pub message: String,
}

impl Fault {
    pub(crate) fn new(tier: Tier, message: impl Into<String>) -> Self {
        Self { tier, message: message.into() }
    }

    /// An error of an execution that should have worked.
    pub(crate) fn of(adapter: &dyn Adapter, error: &Error) -> Self {
        let tier = if adapter.is_finding(error) { Tier::Checks } else { Tier::Acceptance };
        Self::new(tier, error.to_string())
    }
}

/// A check of something that not every kernel, type or backend has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "it was done or it was not")]
pub enum Attempt<T> {
    /// What was found.
    Done(T),
    /// Why there is nothing to find.
    LeftOut(String),
}

/// What a row of such checks found.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "three lists")]
pub struct Findings<T> {
    /// What was looked at.
    pub seen: Vec<T>,
    /// What is wrong, by name.
    pub faults: Vec<(String, Fault)>,
    /// Why things were not looked at.
    pub left_out: Vec<String>,
}

impl<T> Default for Findings<T> {
    fn default() -> Self {
        Self { seen: Vec::new(), faults: Vec::new(), left_out: Vec::new() }
    }
}

impl<T> Findings<T> {
    fn add(&mut self, name: impl FnOnce() -> String, result: Result<Attempt<T>, Fault>) {
        match result {
            Ok(Attempt::Done(seen)) => self.seen.push(seen),
            Ok(Attempt::LeftOut(reason)) => self.left_out.push(reason),
            Err(fault) => self.faults.push((name(), fault)),
        }
    }
}

/// What `check` gives, or what it panicked with: a backend that panics fails its check and no other.
pub(crate) fn caught<R>(check: impl FnOnce() -> R) -> Result<R, Fault> {
    catch_unwind(AssertUnwindSafe(check)).map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        Fault::new(Tier::Acceptance, format!("panicked: {}", text.unwrap_or("no message")))
    })
}

/// Why `case` on device tensors is not for this backend or kernel, if it is not.
fn unsuitable(adapter: &dyn Adapter, kernel: &KernelChoice, case: &Case) -> Option<String> {
    match adapter.expect(kernel, &case.into(), Route::Device) {
        Expectation::Runs => None,
        Expectation::Refused(refusal) => Some(refusal.name().to_owned()),
        Expectation::Skipped(reason) => Some(reason),
    }
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// Right in every tier.
    Passed,
    /// Wrong, first in this tier.
    Failed(Fault),
    /// Refused, as it should be.
    Refused(Refusal),
    /// Not run, for this reason.
    Skipped(String),
}

/// A case's verdict and what was measured on the way.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Outcome {
    /// The verdict.
    pub verdict: Verdict,
    /// The kernel that ran, by its plan's name, if any did.
    pub kernel: Option<String>,
    /// The passes that ran besides it.
    pub passes: Vec<&'static str>,
    /// Tiers that saw less than all of it, or nothing, each with the reason.
    pub left_out: Vec<String>,
    /// Errors, repetitions, canaries.
    pub metrics: Metrics,
}

impl Outcome {
    /// Not run, for this reason.
    pub(crate) fn skipped(reason: String) -> Self {
        Self {
            verdict: Verdict::Skipped(reason),
            kernel: None,
            passes: Vec::new(),
            left_out: Vec::new(),
            metrics: Metrics::default(),
        }
    }
}

/// Largest integer in exact data: every type has it, and sums stay below 2²⁴ up to K = 2¹⁸.
const SMALL: i32 = 4;

/// Runs `spec` with `kernel` through the tiers of `depth`; the same data for the same seed.
pub fn check(
    adapter: &dyn Adapter,
    kernel: KernelChoice,
    spec: &Spec,
    seed: u64,
    depth: &Depth,
) -> Outcome {
    let mut run = Run {
        adapter,
        kernel,
        spec,
        depth,
        turn: seed as usize >> 8,
        metrics: Metrics::default(),
        ran: None,
        passes: Vec::new(),
        left_out: Vec::new(),
    };
    let verdict = match caught(|| run.tiers(seed)).unwrap_or_else(Err) {
        Ok(None) => Verdict::Passed,
        Ok(Some(other)) => other,
        Err(fault) => Verdict::Failed(fault),
    };
    let Run { ran, passes, left_out, metrics, .. } = run;
    Outcome { verdict, kernel: ran, passes, left_out, metrics }
}

struct Run<'r> {
    adapter: &'r dyn Adapter,
    kernel: KernelChoice,
    spec: &'r Spec,
    depth: &'r Depth,
    /// Which operand is another one before a repetition.
    turn: usize,
    metrics: Metrics,
    ran: Option<String>,
    passes: Vec<&'static str>,
    left_out: Vec<String>,
}

impl Run<'_> {
    fn tiers(&mut self, seed: u64) -> Result<Option<Verdict>, Fault> {
        let sums = self.adapter.sum_type(&self.kernel);
        let mut case = self.spec.case(exact_values(self.spec, sums), seed);
        match self.adapter.expect(&self.kernel, &Outline::from(&case), self.spec.route) {
            Expectation::Runs => {}
            Expectation::Skipped(reason) => return Ok(Some(Verdict::Skipped(reason))),
            Expectation::Refused(refusal) => return self.refused(&case, refusal).map(Some),
        }
        if self.depth.has(Tier::Exact) {
            if let (true, Some(sums)) = (exact::thin(&mut case, sums), sums) {
                let reason = format!("products are 0 where {sums} has no exact sum of all");
                self.leave_out(Tier::Exact, &reason);
            }
            self.tier(Tier::Exact, case)?;
        }
        if self.depth.has(Tier::Statistical) {
            self.tier(Tier::Statistical, self.spec.case(Values::Uniform, seed ^ 0x57a7))?;
        }
        if self.depth.has(Tier::WorstCase) {
            self.tier(Tier::WorstCase, self.spec.case(worst(self.spec, sums), seed ^ 0xe4e4))?;
        }
        Ok(None)
    }

    fn leave_out(&mut self, tier: Tier, reason: &str) {
        self.left_out.push(format!("{}: {reason}", tier.name()));
    }

    /// A case that must be refused, before anything is written.
    fn refused(&mut self, case: &Case, refusal: Refusal) -> Result<Verdict, Fault> {
        let job = Job::of_spec(self.spec, case, self.kernel);
        match self.adapter.execute(&job) {
            Err(error) if refusal.matches(&error) => Ok(Verdict::Refused(refusal)),
            Err(error) => Err(Fault::new(
                Tier::Acceptance,
                format!("refused for another reason than \"{}\": {error}", refusal.name()),
            )),
            Ok(executed) => Err(Fault::new(
                Tier::Acceptance,
                format!("{} ran, expected \"{}\"", executed.kernel, refusal.name()),
            )),
        }
    }

    /// One tier's data: executes, compares, repeats.
    fn tier(&mut self, tier: Tier, mut case: Case) -> Result<(), Fault> {
        shorten(self.adapter, &self.kernel, &mut case);
        let sums = self.adapter.sum_type(&self.kernel);
        let mut reference = reference(tier, &case, self.adapter.promises(), sums)?;
        if tier == Tier::Exact && exact::sums_exactly(&case.problem, &reference) {
            // Only the epilogue rounds.
            reference = reference.summing_in(case.problem.accumulator());
        }
        if let (Some(sums), f64::INFINITY) = (sums, reference.bound(0)) {
            self.leave_out(tier, &format!("K is too long for a bound of sums in {sums}"));
            return Ok(());
        }
        poison(&mut case);
        let executed = self.execute(&case, tier == Tier::Exact)?;
        self.check_untouched(&case, &executed)?;
        let found = view(&case, &executed.c)?;
        // Activations other than these are not exact, whatever the data.
        let exact = exact::rounds_once(&case.problem)
            || (tier == Tier::Exact
                && matches!(case.problem.activation, Activation::None | Activation::Relu)
                && exact::is_exact(&case.problem, &reference));
        self.metrics.bounded += u64::from(tier == Tier::Exact && !exact);
        let comparison =
            if exact { reference.compare_exact(&found) } else { reference.compare(&found) };
        self.metrics.unjudged += comparison.unjudged as u64;
        self.metrics.record(tier, &reference, &case.problem, &found, self.spec);
        if !comparison.passed() {
            return Err(Fault::new(tier, comparison.to_string()));
        }
        if !self.depth.has(Tier::Determinism) || tier != self.depth.repeated() {
            return Ok(());
        }
        let mut orders = Vec::new();
        if self.depth.rerun {
            orders.push(Order::Natural);
        }
        // A forced order needs a plan, as the one-shot function makes its own, and the device that has
        // it, as one that cuts products is another.
        if self.depth.reorder && self.spec.route.is_planned() && !self.spec.route.is_cut() {
            orders.extend(self.adapter.orders());
        }
        for order in orders {
            let again = self.repeat(&case, order)?;
            self.metrics.reruns += 1;
            if again.c != executed.c {
                self.metrics.rerun_differences += 1;
                let first = again.c.iter().zip(&executed.c).position(|(x, y)| x != y);
                let at = first.map_or_else(|| "in length".to_owned(), |i| format!("at byte {i}"));
                return Err(Fault::new(
                    Tier::Determinism,
                    format!("the same operands in order {order:?} gave other bits {at}"),
                ));
            }
        }
        Ok(())
    }

    /// An execution in another order, or in the device's own by a plan that has been used before.
    fn repeat(&mut self, case: &Case, order: Order) -> Result<Executed, Fault> {
        let job = Job::of_spec(self.spec, case, self.kernel).without_inputs();
        self.run(&match order {
            Order::Natural => job.after_another(self.turn),
            order => job.in_order(order),
        })
    }

    fn execute(&mut self, case: &Case, inputs: bool) -> Result<Executed, Fault> {
        let job = Job::of_spec(self.spec, case, self.kernel);
        self.run(&if inputs { job } else { job.without_inputs() })
    }

    fn run(&mut self, job: &Job<'_>) -> Result<Executed, Fault> {
        let executed =
            self.adapter.execute(job).map_err(|error| Fault::of(self.adapter, &error))?;
        self.ran = Some(executed.kernel.clone());
        self.passes.clone_from(&executed.passes);
        Ok(executed)
    }

    fn check_untouched(&mut self, case: &Case, executed: &Executed) -> Result<(), Fault> {
        let broken = case.c.broken_canaries(&executed.c);
        self.metrics.broken_canaries += broken.len() as u64;
        if let Some(first) = broken.first() {
            return Err(Fault::new(
                Tier::Canaries,
                format!("{} elements outside C changed, the first at index {first}", broken.len()),
            ));
        }
        if executed.changed_inputs.is_empty() {
            return Ok(());
        }
        self.metrics.broken_canaries += executed.changed_inputs.len() as u64;
        Err(Fault::new(
            Tier::Canaries,
            format!("inputs changed: {}", executed.changed_inputs.join(", ")),
        ))
    }
}

/// The oracle's answer, with the allowances of the tier, the backend, and a kernel that sums in `sums`.
pub(crate) fn reference(
    tier: Tier,
    case: &Case,
    promises: Promises,
    sums: Option<ElementType>,
) -> Result<Reference, Fault> {
    let mut reference = lapidary_core::oracle::reference(&case.problem, &case.operands())
        .map_err(|error| Fault::new(Tier::Acceptance, format!("the oracle refuses it: {error}")))?;
    if let Some(sums) = sums {
        reference = reference.summing_in(sums);
    }
    if promises.truncates {
        reference = reference.truncating();
    }
    if !promises.non_finite {
        reference = reference.with_unspecified_non_finite();
    }
    if promises.subnormals {
        reference = reference.keeping_subnormals();
    }
    if tier == Tier::Statistical {
        reference = reference.within_units(promises.units);
    }
    Ok(reference)
}

/// Cuts f32 operands to the bits of fraction that the kernel keeps.
pub(crate) fn shorten(adapter: &dyn Adapter, kernel: &KernelChoice, case: &mut Case) {
    let Some(bits) = adapter.fraction_bits(kernel) else { return };
    let mask = u32::MAX << (f32::MANTISSA_DIGITS - 1).saturating_sub(bits);
    for operand in [&mut case.a, &mut case.b] {
        if operand.element() == ElementType::F32 {
            for code in operand.bytes_mut().chunks_exact_mut(4) {
                for (byte, mask) in code.iter_mut().zip(mask.to_le_bytes()) {
                    *byte &= mask;
                }
            }
        }
    }
}

/// Fills C with what nothing computes where beta = 0 says that it is not read, and A and B where
/// alpha = 0 or K = 0 does; the oracle has been asked before.
pub(crate) fn poison(case: &mut Case) {
    let poison = |float: bool| if float { f64::NAN } else { 77.0 };
    if !case.problem.reads_c() {
        case.c.fill(poison(case.problem.c.is_float()));
    }
    if !case.problem.reads_factors() {
        case.a.fill(poison(case.problem.a.is_float()));
        case.b.fill(poison(case.problem.b.is_float()));
    }
}

/// The matrix in what C's storage has become.
pub(crate) fn view<'a>(case: &Case, after: &'a [u8]) -> Result<AnyMatrixRef<'a>, Fault> {
    AnyMatrixRef::new(after, case.c.element(), case.c.placement()).map_err(|error| {
        Fault::new(Tier::Canaries, format!("C's storage came back wrong: {error}"))
    })
}

/// Data whose results are known bit for bit: small integers, and large ones where a long sum of them
/// rounds in floats and the exact one once.
fn exact_values(spec: &Spec, sums: Option<ElementType>) -> Values {
    let passes = spec.shape[2] as f64 * f64::from(127 * 127) > 2f64.powi(24);
    match passes && exact::rounds_once(&spec.problem()) {
        true => Values::Large,
        // Ones are thinned out where K is too long for them.
        false => {
            exact::small_integers(&spec.problem(), SMALL, sums).unwrap_or(Values::SmallIntegers(1))
        }
    }
}

/// Worst-case data: exponents that are wide, but such that products and sums of them stay finite; for
/// integers, of which outputs hold large sums, those that sums in floats would round.
fn worst(spec: &Spec, sums: Option<ElementType>) -> Values {
    use lapidary_core::ElementType as E;
    let [a, _, c] = spec.types;
    // A product takes half of the sums' exponents, to leave room for many of the largest.
    let most = sums.map_or(i32::MAX, |sums| (sums.max_finite().log2() / 4.0).round() as i32);
    Values::Exponents(most.min(match a {
        E::I8 if matches!(c, E::F32 | E::I32) => return Values::Large,
        E::F64 => 300,
        E::F32 | E::BF16 => 50,
        E::F16 => 13,
        E::F8E5M2 | E::F8E5M2Fnuz => 13,
        _ => 6,
    }))
}
