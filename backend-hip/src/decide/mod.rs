//! What is computed how: plain data, decided without touching a device.
//!
//! A product is up to five launches, in this order, most of which most problems do without:
//!
//! 1. A to aligned rows ([`AWay::Packed`]),
//! 2. B, and its block scales, into the kernel's layout (unless B comes packed),
//! 3. the product ([`Product`]),
//! 4. raw sums to C ([`StoreWay`]).

mod elements;
mod operands;
mod preshuffle;
mod step;

use lapidary_core::{
    ElementType, Error, KernelChoice, MatrixKernel, PlanOptions, PlanSummary, Problem,
};

use crate::passes::{PackAConfig, StoreConfig, Sums};
use crate::preshuffle::{EpilogueTraits, PackedLayout, PreshuffleConfig, TooMany};
use crate::steps::StepConfig;
use crate::target::Target;

pub use preshuffle::PreshuffleProduct;
pub(crate) use step::params as step_params;

/// Matrices of one launch: HIP's limit along y and z.
pub(crate) const MATRICES_A_LAUNCH: usize = 65536;

/// What decisions depend on besides the problem.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "plain data that callers fill in")]
pub struct DeviceFacts {
    /// The architecture.
    pub target: Target,
    /// Compute units.
    pub compute_units: usize,
    /// What messages call the device.
    pub name: String,
}

/// Which kernel a caller asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Asked {
    /// One that every backend has a name for.
    Core(KernelChoice),
    /// The matrix-core kernel, with A copied to aligned rows first, or not.
    Matrix {
        /// The kernel.
        kernel: MatrixKernel,
        /// Whether A is copied first; `None` leaves it to the backend.
        copy_a: Option<bool>,
    },
    /// A step with everything that HIP has to choose.
    Step(StepConfig),
}

impl Asked {
    /// What a caller's options ask for. Slices of K and copies are the matrix-core kernel's alone; B
    /// is packed whatever they say.
    #[must_use]
    pub fn of_options(options: &PlanOptions, target: Target) -> Self {
        let copy_a = options.copies.map(|[a, _]| a);
        let mut kernel = match options.kernel {
            KernelChoice::Matrix(kernel) => kernel,
            KernelChoice::Auto if target.has_preshuffle() => MatrixKernel::default(),
            other => return Self::Core(other),
        };
        kernel.splits = kernel.splits.or(options.k_slices);
        Self::Matrix { kernel, copy_a }
    }
}

/// What multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Product {
    /// Nothing: C is empty, or A and B have no part in it.
    None,
    /// The matrix-core kernel.
    Preshuffle(PreshuffleProduct),
    /// A kernel of the course.
    Step(StepConfig),
}

/// How A reaches the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AWay {
    /// As it lies.
    InPlace,
    /// Copied to aligned rows first.
    Packed(PackAConfig),
}

/// How sums reach C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreWay {
    /// The kernel stores C itself.
    Kernel,
    /// The sums of split-K are added and stored by `reduce.hip`.
    Reduce,
    /// Any strides and types, by `store.hip`.
    Pass(StoreConfig),
}

/// What was decided.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// What multiplies.
    pub product: Product,
    /// How A reaches it.
    pub a: AWay,
    /// How B is packed, for the kernel that needs it.
    pub b: Option<PackedLayout>,
    /// How sums reach C.
    pub store: StoreWay,
    /// Bytes of raw sums between the product and the pass that stores them.
    pub sums_bytes: u64,
    /// The same in words and numbers.
    pub summary: PlanSummary,
}

/// Decides how a device computes a problem.
///
/// # Errors
/// Whatever [`Problem::validate`] finds; [`Error::ElementTypeUnavailable`],
/// [`Error::KernelUnsuitable`] or [`Error::LimitExceeded`], each with its numbers.
pub fn decide(problem: &Problem, facts: &DeviceFacts, asked: Asked) -> Result<Decision, Error> {
    let mut decision = undescribed(problem, facts, asked)?;
    decision.summary.passes = decision.passes(problem);
    Ok(decision)
}

/// The decision, before its summary lists the passes.
fn undescribed(problem: &Problem, facts: &DeviceFacts, asked: Asked) -> Result<Decision, Error> {
    problem.validate()?;
    elements::check(problem, facts)?;
    if problem.is_empty() {
        let summary = PlanSummary::new("nothing", "C has no element");
        return Ok(Decision::without_product(StoreWay::Kernel, summary));
    }
    if !problem.reads_factors() {
        return without_factors(problem, facts);
    }
    match asked {
        Asked::Step(config) => step::decide(problem, facts, config, "asked for"),
        Asked::Core(KernelChoice::Matrix(kernel)) => {
            preshuffle::decide(problem, facts, &kernel, None)
        }
        Asked::Matrix { kernel, copy_a } => preshuffle::decide(problem, facts, &kernel, copy_a),
        Asked::Core(KernelChoice::Auto) if facts.target.has_preshuffle() => {
            preshuffle::decide(problem, facts, &MatrixKernel::default(), None)
        }
        Asked::Core(KernelChoice::Auto) => step::automatic(problem, facts),
        Asked::Core(choice) => {
            let config = step::of_choice(facts.target, choice)?;
            step::decide(problem, facts, config, "asked for")
        }
    }
}

impl Decision {
    /// The launches of an execution besides the kernel's, of [`PASSES`](crate::passes::PASSES), in their
    /// order. Where there is no product, the pass that stores C is the kernel.
    fn passes(&self, problem: &Problem) -> Vec<&'static str> {
        let stored = match self.store {
            StoreWay::Kernel => None,
            StoreWay::Reduce => Some("reduce"),
            StoreWay::Pass(_) => Some("store").filter(|_| self.product != Product::None),
        };
        [
            Some("pack_a").filter(|_| self.a != AWay::InPlace),
            Some("pack_b").filter(|_| self.b.is_some()),
            Some("pack_scales").filter(|_| self.b.is_some() && problem.block_scales),
            stored,
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn without_product(store: StoreWay, summary: PlanSummary) -> Self {
        Self { product: Product::None, a: AWay::InPlace, b: None, store, sums_bytes: 0, summary }
    }
}

/// alpha = 0 or K = 0: the epilogue alone.
fn without_factors(problem: &Problem, facts: &DeviceFacts) -> Result<Decision, Error> {
    let store = store_pass(problem, facts, Sums::None);
    let why = if problem.k == 0 { "K = 0" } else { "alpha = 0" };
    let mut summary = PlanSummary::new("epilogue", format!("{why}: A and B are not read"));
    describe_store(&mut summary, problem, &store, 1)?;
    summary.workgroup_threads = 256;
    summary.thread_tile = [1, 1];
    Ok(Decision::without_product(StoreWay::Pass(store), summary))
}

/// The epilogue of a problem, as far as it changes code.
fn traits(problem: &Problem) -> EpilogueTraits {
    EpilogueTraits {
        row_scale: problem.row_scale,
        col_scale: problem.col_scale,
        alpha: problem.alpha != 1.0,
        beta: problem.reads_c(),
        bias: problem.bias,
        activation: problem.activation,
    }
}

/// The pass that stores C with whatever strides and type it has.
fn store_pass(problem: &Problem, facts: &DeviceFacts, sums: Sums) -> StoreConfig {
    let mut epilogue = traits(problem);
    if sums == Sums::None {
        // Nothing of the product is left, and a code object less is compiled.
        (epilogue.row_scale, epilogue.col_scale, epilogue.alpha) = (false, false, false);
    }
    let along =
        |stride: isize, count: usize| if count > 1 { stride.unsigned_abs() } else { usize::MAX };
    let layout = problem.c_layout;
    StoreConfig {
        target: facts.target,
        sums,
        output: problem.c,
        lanes_along_m: along(layout.row_stride, problem.m) < along(layout.col_stride, problem.n),
        epilogue,
    }
}

/// Adds the storing pass to a summary, and checks that its grid fits.
fn describe_store(
    summary: &mut PlanSummary,
    problem: &Problem,
    config: &StoreConfig,
    splits: usize,
) -> Result<(), Error> {
    use crate::passes::StoreArgs;
    let sizes = [problem.m, problem.n];
    let launch = StoreArgs::sizes(config, sizes, problem.batch, splits)
        .and_then(|args| args.launch(config))
        .map_err(too_many)?;
    summary.dispatches.push(launch.grid);
    Ok(())
}

/// A size or a launch past what the kernels count.
pub(crate) fn too_many(error: TooMany) -> Error {
    let TooMany { what, requested, limit } = error;
    Error::LimitExceeded { what, requested, limit }
}

/// Bytes of raw sums: f32 or i32, rows padded to four.
fn sums_bytes(problem: &Problem, splits: usize) -> Result<u64, Error> {
    let row = problem.n.next_multiple_of(4).saturating_mul(4);
    let counts = [problem.m, problem.batch.saturating_mul(splits)];
    bytes_of_rows("bytes of sums between the product and C", row, counts)
}

/// `counts[0]` × `counts[1]` rows of `row` bytes, as far as a signed 64-bit offset reaches.
pub(crate) fn bytes_of_rows(
    what: &'static str,
    row: usize,
    counts: [usize; 2],
) -> Result<u64, Error> {
    let requested = counts.iter().fold(row as u128, |all, &n| all.saturating_mul(n as u128));
    let limit = i64::MAX as u128;
    let bytes = u64::try_from(requested).ok().filter(|_| requested <= limit);
    bytes.ok_or(Error::LimitExceeded { what, requested, limit })
}

/// Why sums take the general way to C, for a plan's notes.
fn why_store_pass(problem: &Problem, steps: bool) -> String {
    let what = if !operands::rows_of_c(problem).contiguous && !steps {
        format!("C has strides {}, {}", problem.c_layout.row_stride, problem.c_layout.col_stride)
    } else if steps && problem.has_scales() {
        "the kernel has no scales".to_owned()
    } else {
        format!("the kernel does not write {}", problem.c)
    };
    format!("sums go through scratch memory and a second pass stores C: {what}")
}

/// The error for a kernel that was asked for and cannot run.
fn unsuitable(kernel: impl Into<String>, reason: impl ToString) -> Error {
    Error::KernelUnsuitable { kernel: kernel.into(), reason: reason.to_string() }
}

/// The type that raw sums have.
fn sums_of(problem: &Problem) -> Sums {
    match (problem.a, problem.b) {
        // i4 is multiplied 16 times too large (preshuffle/mma.h).
        (ElementType::I8, ElementType::I4) => Sums::I32 { shift: 4 },
        (ElementType::I8, _) => Sums::I32 { shift: 0 },
        _ => Sums::F32,
    }
}

/// A configuration's rule, broken by a choice of the caller's or by the problem.
fn config_error(config: &PreshuffleConfig, error: &crate::preshuffle::ConfigError) -> Error {
    unsuitable(config.to_string(), error)
}

#[cfg(test)]
mod tests;
