//! Related products agree, whatever the oracle says.

use lapidary_core::testing::{Case, Values};
use lapidary_core::{KernelChoice, Problem};

use super::{Attempt, Fault, exact, poison, unsuitable, view};
use crate::adapter::{Adapter, Job, Types};
use crate::spec::{Route, Spec};
use crate::tier::Tier;

/// A relation between products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Relation {
    /// (A·B)ᵀ = Bᵀ·Aᵀ on integers.
    Transpose,
    /// Rows of A permuted permute rows of C, on integers.
    Permutation,
    /// (2A)·B = 2(A·B) on random data: doubling is exact, where nothing is subnormal.
    Doubling,
    /// A·B = A₁·B₁ + A₂·B₂ with K cut in two, the second added by beta = 1, on integers.
    Split,
}

impl Relation {
    /// Every relation.
    pub const ALL: [Self; 4] = [Self::Transpose, Self::Permutation, Self::Doubling, Self::Split];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transpose => "transpose",
            Self::Permutation => "permutation",
            Self::Doubling => "doubling",
            Self::Split => "k-split",
        }
    }
}

/// Checks a relation at the size of `spec`, where these types have it and the backend both products.
///
/// # Errors
/// [`Fault`] if the products disagree in a bit, or one cannot be run.
pub fn metamorphic(
    adapter: &dyn Adapter,
    kernel: KernelChoice,
    spec: &Spec,
    relation: Relation,
    seed: u64,
) -> Result<Attempt<()>, Fault> {
    let left_out = |reason: &str| Ok(Attempt::LeftOut(reason.to_owned()));
    if relation == Relation::Transpose && Types::of_spec(spec).in_blocks() {
        return left_out("blocks of A and B differ");
    }
    let sums = adapter.sum_type(&kernel);
    let values = match relation {
        Relation::Doubling => Values::Uniform,
        _ => match exact::small_integers(&spec.problem(), 4, sums) {
            Some(values) => values,
            None => return left_out("K is too long for sums of integers that are exact"),
        },
    };
    let first = spec.case(values, seed);
    let Problem { m, n, k, batch, .. } = first.problem;
    let mut other = spec.clone();
    if relation == Relation::Transpose {
        other.shape = [n, m, k];
        other.types = [spec.types[1], spec.types[0], spec.types[2]];
    }
    let mut second = other.case(values, seed);
    // Types of B need not be types of A.
    if second.problem.validate().is_err() {
        return left_out("A has not B's type, or B not A's");
    }
    // Twice the largest number of a narrow type is none.
    let narrow = !first.problem.a.is_float() || first.problem.a.is_packed();
    if relation == Relation::Doubling && narrow {
        return left_out("twice a number may be none of the type");
    }
    let mut first = first;
    if let (Relation::Doubling, Some(sums)) = (relation, sums) {
        // Products of multiples of 2⁻⁷, and so their sums, are no subnormal numbers of f16.
        let step = sums.min_normal().sqrt();
        for case in [&mut first, &mut second] {
            case.a.map(|_, _, _, value| (value / step).round() * step);
            case.b.map(|_, _, _, value| (value / step).round() * step);
        }
    }
    for case in [&mut first, &mut second] {
        // Rows that change places would take their scales with them.
        case.fill_block_scales();
    }
    let runner = Runner { adapter, kernel };
    let permuted = |row: usize| (row * 7 + 3) % m;
    // 7 and m share no factor, so the map is a permutation.
    if relation == Relation::Permutation && m.is_multiple_of(7) {
        return left_out("M is a multiple of 7, by which rows are permuted");
    }
    match relation {
        Relation::Transpose => {
            second.a.map(|b, r, c, _| first.b.view().get(b, c, r));
            second.b.map(|b, r, c, _| first.a.view().get(b, c, r));
        }
        Relation::Permutation => second.a.map(|b, r, c, _| first.a.view().get(b, permuted(r), c)),
        Relation::Doubling => second.a.map(|_, _, _, value| 2.0 * value),
        Relation::Split => return runner.split(spec, &first),
    }
    let (one, two) = match (runner.run(&first)?, runner.run(&second)?) {
        (Attempt::Done(one), Attempt::Done(two)) => (one, two),
        (Attempt::LeftOut(reason), _) | (_, Attempt::LeftOut(reason)) => return left_out(&reason),
    };
    let (one, two) = (view(&first, &one)?, view(&second, &two)?);
    for b in 0..batch {
        for r in 0..m {
            for c in 0..n {
                let (expected, found) = match relation {
                    Relation::Transpose => (one.get(b, r, c), two.get(b, c, r)),
                    Relation::Permutation => (one.get(b, permuted(r), c), two.get(b, r, c)),
                    _ => (2.0 * one.get(b, r, c), two.get(b, r, c)),
                };
                if expected != found {
                    return Err(disagree(relation, [b, r, c], expected, found));
                }
            }
        }
    }
    Ok(Attempt::Done(()))
}

fn disagree(relation: Relation, at: [usize; 3], expected: f64, found: f64) -> Fault {
    let message = format!("{}: {at:?} is {found:e}, not {expected:e}", relation.name());
    Fault::new(Tier::Metamorphic, message)
}

struct Runner<'r> {
    adapter: &'r dyn Adapter,
    kernel: KernelChoice,
}

impl Runner<'_> {
    fn run(&self, case: &Case) -> Result<Attempt<Vec<u8>>, Fault> {
        let mut case = case.clone();
        if let Some(reason) = unsuitable(self.adapter, &self.kernel, &case) {
            return Ok(Attempt::LeftOut(reason));
        }
        poison(&mut case);
        match self.adapter.execute(&Job::new(&case, self.kernel, Route::Device).without_inputs()) {
            Ok(executed) => Ok(Attempt::Done(executed.c)),
            Err(error) => Err(Fault::of(self.adapter, &error)),
        }
    }

    fn split(&self, spec: &Spec, whole: &Case) -> Result<Attempt<()>, Fault> {
        let Problem { m, n, k, batch, .. } = whole.problem;
        let cut = k / 2;
        if cut == 0 || spec.beta != 0.0 || Types::of_spec(spec).in_blocks() {
            let reason = "products of blocks, or with beta, are not cut along K here";
            return Ok(Attempt::LeftOut(reason.to_owned()));
        }
        let part = |range: core::ops::Range<usize>, beta: f64| {
            let mut part = spec.clone();
            part.shape[2] = range.len();
            part.beta = beta;
            let mut case = part.case(Values::SmallIntegers(4), 1);
            let (a, b) = (whole.a.view(), whole.b.view());
            case.a.map(|batch, r, c, _| a.get(batch, r, range.start + c));
            case.b.map(|batch, r, c, _| b.get(batch, range.start + r, c));
            case
        };
        let first = part(0..cut, 0.0);
        let mut second = part(cut..k, 1.0);
        let (all, head) = match (self.run(whole)?, self.run(&first)?) {
            (Attempt::Done(all), Attempt::Done(head)) => (all, head),
            (Attempt::LeftOut(reason), _) | (_, Attempt::LeftOut(reason)) => {
                return Ok(Attempt::LeftOut(reason));
            }
        };
        let (all, head) = (view(whole, &all)?, view(&first, &head)?);
        second.c.map(|b, r, c, _| head.get(b, r, c));
        let sum = match self.run(&second)? {
            Attempt::Done(sum) => sum,
            Attempt::LeftOut(reason) => return Ok(Attempt::LeftOut(reason)),
        };
        let sum = view(&second, &sum)?;
        for b in 0..batch {
            for r in 0..m {
                for c in 0..n {
                    let (expected, found) = (all.get(b, r, c), sum.get(b, r, c));
                    if expected != found {
                        return Err(disagree(Relation::Split, [b, r, c], expected, found));
                    }
                }
            }
        }
        Ok(Attempt::Done(()))
    }
}

/// Checks a large product of integers by Freivalds' test, where the backend has it.
///
/// # Errors
/// [`Fault`] if a row is wrong, or the product cannot be run.
pub fn freivalds(
    adapter: &dyn Adapter,
    kernel: KernelChoice,
    types: Types,
    shape: [usize; 3],
    seed: u64,
) -> Result<Attempt<()>, Fault> {
    let mut spec = Spec::new("freivalds", "a large product of integers", shape);
    if types.in_blocks() {
        return Ok(Attempt::LeftOut("scales of blocks or groups are no integers".into()));
    }
    spec.types = types.elements;
    let sums = adapter.sum_type(&kernel);
    let values = exact::small_integers(&spec.problem(), 2, sums).unwrap_or_else(|| {
        // As long a K as sums of ones are exact with.
        spec.shape[2] = exact::longest(&spec.problem(), sums);
        Values::SmallIntegers(1)
    });
    let case = spec.case(values, seed);
    let after = match (Runner { adapter, kernel }).run(&case)? {
        Attempt::Done(after) => after,
        Attempt::LeftOut(reason) => return Ok(Attempt::LeftOut(reason)),
    };
    let found = view(&case, &after)?;
    let report = lapidary_core::oracle::freivalds(&case.problem, &case.operands(), &found, 2, seed)
        .map_err(|error| Fault::new(Tier::Freivalds, error.to_string()))?;
    if report.passed() {
        Ok(Attempt::Done(()))
    } else {
        Err(Fault::new(Tier::Freivalds, report.to_string()))
    }
}
