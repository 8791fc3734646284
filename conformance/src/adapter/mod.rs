//! What the suite asks of a backend: one small adapter each.
//!
//! An adapter says what the backend promises and has (types, kernels), what it refuses and why, and
//! runs a [`Job`]. [`execute_on`] does the last for anything that implements
//! [`Backend`](lapidary_core::Backend).

mod cpu;
mod execute;
#[cfg(feature = "hip")]
mod hip;
mod misuse;
#[cfg(feature = "wgsl")]
mod wgsl;

use lapidary_core::oracle::RANDOM_UNITS;
use lapidary_core::testing::Case;
use lapidary_core::{DeviceInfo, ElementType, Error, KernelChoice, PlanOptions, Problem};

use crate::check::{Attempt, Fault, Misuse};
use crate::spec::{Route, Spec};

pub use cpu::CpuAdapter;
pub use execute::execute_on;
#[cfg(feature = "hip")]
pub use hip::HipAdapter;
pub use misuse::misuse_on;
#[cfg(feature = "wgsl")]
pub use wgsl::WgslAdapter;
#[cfg(feature = "wgsl")]
pub(crate) use wgsl::kernels_for;

/// Whether A's elements are adjacent along K and its rows, upwards, and matrices a multiple of `width`
/// elements apart.
#[cfg(any(feature = "hip", feature = "wgsl"))]
pub(crate) fn has_rows(case: &Outline, width: usize) -> bool {
    let (problem, layout) = (&case.problem, case.problem.a_layout);
    let whole = |stride: isize| stride.unsigned_abs().is_multiple_of(width);
    (problem.k <= 1 || layout.col_stride == 1)
        && (problem.m <= 1 || (layout.row_stride >= 0 && whole(layout.row_stride)))
        && (problem.batch <= 1 || whole(layout.batch_stride))
}

/// Whether A's rows are such and its first element is at a multiple of `width`: what vector loads of
/// that width need.
#[cfg(any(feature = "hip", feature = "wgsl"))]
pub(crate) fn has_vectors(case: &Outline, width: usize) -> bool {
    has_rows(case, width) && case.a_offset.is_multiple_of(width)
}

/// A case without its operands' elements: what a backend decides by.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "a problem and where A starts")]
pub struct Outline {
    /// The problem, with the layouts of the operands.
    pub problem: Problem,
    /// The first element of A in its storage.
    pub a_offset: usize,
}

impl From<&Case> for Outline {
    fn from(case: &Case) -> Self {
        Self { problem: case.problem.clone(), a_offset: case.a.placement().offset }
    }
}

impl Outline {
    /// The outline of what `spec` describes.
    ///
    /// # Errors
    /// As [`Spec::laid_out`].
    pub fn of_spec(spec: &Spec) -> Result<Self, Error> {
        let (problem, _) = spec.laid_out()?;
        let (placement, _) = spec.layouts[0].place_for(problem.a, problem.a_shape());
        Ok(Self { problem, a_offset: placement.offset })
    }
}

/// One combination of element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "three types, and what scales they have")]
pub struct Types {
    /// Of A, B and C.
    pub elements: [ElementType; 3],
    /// Whether blocks along K have scales.
    pub block_scales: bool,
    /// Whether groups along K of B's columns have scales.
    pub groups: bool,
}

impl Types {
    /// A, B and C without block scales.
    #[must_use]
    pub const fn of(a: ElementType, b: ElementType, c: ElementType) -> Self {
        Self { elements: [a, b, c], block_scales: false, groups: false }
    }

    /// The combination of a spec.
    #[must_use]
    pub fn of_spec(spec: &Spec) -> Self {
        Self {
            elements: spec.types,
            block_scales: spec.block_scales,
            groups: spec.b_group.is_some(),
        }
    }

    /// Whether K is a whole number of blocks or groups of 32.
    #[must_use]
    pub const fn in_blocks(&self) -> bool {
        self.block_scales || self.groups
    }
}

/// What a backend promises beyond the contract that all share.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Promises {
    /// Whether NaN and infinity propagate; otherwise what they give is observed and reported.
    pub non_finite: bool,
    /// Whether subnormal numbers are kept; otherwise they may count as zero.
    pub subnormals: bool,
    /// Whether f16 operands are decoded exactly, subnormal ones included; otherwise it is observed.
    pub f16: bool,
    /// Whether additions may truncate: the unit of roundoff counts twice.
    pub truncates: bool,
    /// Largest error of random sums in units of u·Σ|a||b|, whatever K is; see [`RANDOM_UNITS`].
    pub units: f64,
}

impl Promises {
    /// Everything: IEEE arithmetic throughout, and random sums within [`RANDOM_UNITS`].
    #[must_use]
    pub const fn all() -> Self {
        Self {
            non_finite: true,
            subnormals: true,
            f16: true,
            truncates: false,
            units: RANDOM_UNITS,
        }
    }
}

/// Why a backend refuses a problem; the error it gives must be of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The kernel asked for cannot run this problem.
    KernelUnsuitable,
    /// The operands' strides or addresses do not allow the vector loads asked for.
    Loads,
    /// A limit of the device is exceeded.
    LimitExceeded,
    /// The backend lacks an element type, or the combination.
    ElementType,
    /// The backend lacks scales.
    Scales,
}

impl Refusal {
    /// Whether `error` is the one this stands for.
    #[must_use]
    pub const fn matches(self, error: &Error) -> bool {
        match self {
            Self::KernelUnsuitable => matches!(error, Error::KernelUnsuitable { .. }),
            Self::Loads => {
                matches!(error, Error::Misaligned { .. } | Error::KernelUnsuitable { .. })
            }
            Self::LimitExceeded => matches!(error, Error::LimitExceeded { .. }),
            Self::ElementType => matches!(
                error,
                Error::ElementTypeUnavailable { .. } | Error::ElementTypesUnsupported { .. }
            ),
            Self::Scales => matches!(error, Error::ScalesUnavailable { .. }),
        }
    }

    /// The reason in words, for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::KernelUnsuitable => "the kernel cannot run this problem",
            Self::Loads => "the operands do not allow vector loads of this width",
            Self::LimitExceeded => "past a limit of the device",
            Self::ElementType => "the backend lacks the element type",
            Self::Scales => "the backend lacks scales",
        }
    }
}

/// What should happen to a case.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expectation {
    /// It runs and is right.
    Runs,
    /// It is refused, for this reason; a result is a failure of the suite's knowledge.
    Refused(Refusal),
    /// It is not run, for a reason that the report counts.
    Skipped(String),
}

/// In which order a device takes the workgroups of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Order {
    /// As it likes.
    #[default]
    Natural,
    /// From the last to the first.
    Reversed,
    /// In an order that follows from the seed.
    Shuffled(u64),
}

/// One execution.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Job<'c> {
    /// The problem and its operands.
    pub case: &'c Case,
    /// The kernel asked for.
    pub kernel: KernelChoice,
    /// The way into the library.
    pub route: Route,
    /// Pieces that K is cut into, where the backend and the kernel can.
    pub k_slices: Option<usize>,
    /// Whether A and B are copied first, where the backend and the kernel can.
    pub copies: Option<[bool; 2]>,
    /// The order of workgroups.
    pub order: Order,
    /// Whether inputs are read back and compared with what they were.
    pub reads_inputs_back: bool,
    /// Whether the plan is executed once with another tensor for one operand before, and for which, by
    /// turn: what a plan remembers of its operands must not show.
    pub after_another: Option<usize>,
}

impl<'c> Job<'c> {
    /// An execution in the device's own order, with all inputs read back.
    #[must_use]
    pub const fn new(case: &'c Case, kernel: KernelChoice, route: Route) -> Self {
        Self {
            case,
            kernel,
            route,
            k_slices: None,
            copies: None,
            order: Order::Natural,
            reads_inputs_back: true,
            after_another: None,
        }
    }

    /// An execution of `case`, which `spec` describes, the way it asks for.
    #[must_use]
    pub fn of_spec(spec: &Spec, case: &'c Case, kernel: KernelChoice) -> Self {
        Self { k_slices: spec.k_slices, copies: spec.copies, ..Self::new(case, kernel, spec.route) }
    }

    /// What a plan is asked for.
    #[must_use]
    pub fn options(&self) -> PlanOptions {
        options(self.kernel, self.k_slices, self.copies)
    }

    /// The same in another order.
    #[must_use]
    pub const fn in_order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// The same on a plan that was executed before with another tensor for the operand whose turn it is.
    #[must_use]
    pub const fn after_another(self, turn: usize) -> Self {
        Self { after_another: Some(turn), ..self }
    }

    /// The same without reading inputs back, which takes a device longer than a small product.
    #[must_use]
    pub const fn without_inputs(self) -> Self {
        Self { reads_inputs_back: false, ..self }
    }
}

/// What a plan is asked for with a kernel, pieces of K, and copies.
pub(crate) fn options(
    kernel: KernelChoice,
    k_slices: Option<usize>,
    copies: Option<[bool; 2]>,
) -> PlanOptions {
    let mut options = PlanOptions::kernel(kernel);
    (options.k_slices, options.copies) = (k_slices, copies);
    options
}

/// What an execution left behind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Executed {
    /// The kernel that ran, by the plan's own name for it.
    pub kernel: String,
    /// The passes that ran besides it, by the plan's own names.
    pub passes: Vec<&'static str>,
    /// All of C's storage afterwards.
    pub c: Vec<u8>,
    /// Operands that changed although they are inputs.
    pub changed_inputs: Vec<&'static str>,
}

/// A backend as the suite sees it.
pub trait Adapter: Sync {
    /// The name on the command line and in reports.
    fn name(&self) -> &str;

    /// The device.
    fn info(&self) -> DeviceInfo;

    /// What it promises.
    fn promises(&self) -> Promises;

    /// Every combination of element types it multiplies.
    fn types(&self) -> Vec<Types>;

    /// Every kernel it has for these types, variants included, the backend's own choice first.
    fn kernels(&self, types: Types) -> Vec<KernelChoice>;

    /// Names, as plans report them, of every kernel that exists. One whose name ends in `*` stands
    /// for all that start so. A kernel that none of them names, or that no case runs, is a failure.
    fn kernel_names(&self) -> Vec<String>;

    /// Names, as plans report them, of every pass that exists besides the kernels; likewise. The
    /// default is the pass that [`Backend::pack_b`](lapidary_core::Backend::pack_b) stands for alone.
    fn pass_names(&self) -> Vec<&'static str> {
        vec![execute::PACK_B]
    }

    /// Whether K may be cut into pieces, and operands copied first, as a caller asks, with this kernel.
    /// The default is no.
    fn has_ways(&self, kernel: &KernelChoice) -> bool {
        let _ = kernel;
        false
    }

    /// Bits of fraction that this kernel keeps of f32 operands, if not all: tests that compare give it
    /// operands that have no more. The default is all.
    fn fraction_bits(&self, kernel: &KernelChoice) -> Option<u32> {
        let _ = kernel;
        None
    }

    /// The type that this kernel sums products in, if narrower than the accumulator of their types:
    /// results are then allowed that type's roundings and range. Where the kernel leaves a product to a
    /// more accurate one, as for operands that it cannot load, that is allowed what it asked for. The
    /// default is that it is not narrower.
    fn sum_type(&self, kernel: &KernelChoice) -> Option<ElementType> {
        let _ = kernel;
        None
    }

    /// What should happen to `case` with `kernel` on `route`. The default is that it runs.
    fn expect(&self, kernel: &KernelChoice, case: &Outline, route: Route) -> Expectation {
        let _ = (kernel, case, route);
        Expectation::Runs
    }

    /// The ways into the library that there are. The default is all but those that need a device of
    /// their own to cut products into pieces; a case that asks for another one is skipped.
    fn routes(&self) -> &[Route] {
        &[Route::Device, Route::Packed, Route::Host]
    }

    /// Whether rows and columns may have scales. The default is yes.
    fn has_scales(&self) -> bool {
        true
    }

    /// What is compiled to run `spec` with `kernel`: specs of one program cost one compilation. The
    /// default is a program for each kernel, types and epilogue.
    fn program(&self, kernel: &KernelChoice, spec: &Spec) -> String {
        format!("{} {} {}", kernel.name(), spec.type_name(), spec.epilogue_name())
    }

    /// Whether what is compiled depends on layouts as well. The default is no.
    fn compiles_for_layouts(&self) -> bool {
        false
    }

    /// Orders of workgroups, other than the device's own, that results must not depend on. The default
    /// is none.
    fn orders(&self) -> Vec<Order> {
        Vec::new()
    }

    /// The kernel, by its plan's name, that would run `spec` with `kernel`, where it can be told without
    /// running it: a filter finds cases by it. The default is that it cannot.
    fn planned(&self, kernel: &KernelChoice, spec: &Spec) -> Option<String> {
        let _ = (kernel, spec);
        None
    }

    /// About what M, N and K of a large product of integers are, one of each kernel and combination of
    /// types.
    fn large_side(&self) -> usize;

    /// Multiplications that a case may have so that the backend takes a fraction of a second.
    fn reach(&self) -> f64;

    /// Whether kernels run under checks, for a missing wait for example, as an emulator's do: without
    /// there is nothing of [`Tier::Checks`](crate::tier::Tier::Checks). The default is no.
    fn has_checks(&self) -> bool {
        false
    }

    /// Whether an error of [`execute`](Self::execute) is something that these checks found in a kernel.
    /// The default is no.
    fn is_finding(&self, error: &Error) -> bool {
        let _ = error;
        false
    }

    /// Makes a forbidden call: [`misuse_on`] does for anything that implements
    /// [`Backend`](lapidary_core::Backend). The default leaves it out, which the report counts.
    ///
    /// # Errors
    /// A [`Fault`] unless it is refused as it should be.
    fn misuse(&self, misuse: Misuse) -> Result<Attempt<()>, Fault> {
        let _ = misuse;
        Ok(Attempt::LeftOut("the adapter makes no forbidden calls".into()))
    }

    /// Runs a job.
    ///
    /// # Errors
    /// The backend's.
    fn execute(&self, job: &Job<'_>) -> Result<Executed, Error>;
}
