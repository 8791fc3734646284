//! Decisions: which kernel, which tile, how many dispatches. No text and no device in here.

mod automatic;
mod bands;
mod choose;
mod chunk;
mod copies;
mod fetch;
mod kernel;
mod passes;
mod policy;
mod skinny;
mod stream;
mod tuning;
mod vectors;

use lapidary_core::{
    Activation, ElementType, Error, KernelChoice, PlanOptions, PlanSummary, Problem,
};

pub use automatic::{
    BlockRow, cooperative_blocks, cooperative_f16_blocks, dot4_blocks, float_blocks,
    integer_blocks, matrix_blocks,
};
pub use bands::CopyWay;
pub(crate) use bands::{bands, largest_band};
pub use chunk::Chunk;
pub(crate) use chunk::{PACK_THREADS, REDUCE_THREADS, pack_workgroups, reduce_workgroups};
pub(crate) use copies::packed_b;
pub use copies::{CopyOrder, OperandCopy, Operands, Reads};
pub use fetch::Fetch;
pub(crate) use kernel::register_type;
pub use kernel::{Body, Kernel, MatrixUnits, Sizes, Skinny, Slices, Team};
pub use passes::Pass;
pub use stream::{Parts, Stream};
pub use tuning::Tuning;
pub use vectors::Vector;
pub(crate) use vectors::{FIXED_BINDINGS, MOST_BINDINGS, Stage, bindings, further};

use crate::limits::DeviceLimits;
use choose::Chosen;
use fetch::Lines;

/// How a kernel's sums reach C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Store {
    /// The kernel applies the epilogue and stores C itself, elements of less than 32 bits four at a time;
    /// or where K is cut into slices, the pass that adds them up stores 32-bit elements.
    Fused,
    /// The kernel stores raw sums to a scratch buffer; a second pass applies the epilogue and writes
    /// whole words: of 16- or 8-bit elements that a thread does not have four of in a row, or of any where
    /// the device has too few bindings for the epilogue's vectors beside A and B.
    Packed,
    /// There is no product (alpha = 0 or K = 0): one pass scales C and applies the epilogue.
    NoProduct,
}

/// Everything about a problem that changes a pipeline's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Traits {
    /// Element type of A.
    pub a: ElementType,
    /// Element type of B.
    pub b: ElementType,
    /// Element type of C.
    pub output: ElementType,
    /// Type of alpha, beta and bias.
    pub scalar: ElementType,
    /// Whether C is read.
    pub beta: bool,
    /// Whether a bias is added.
    pub bias: bool,
    /// What is applied last.
    pub activation: Activation,
    /// Whether sums are multiplied by a scale of their row.
    pub row_scale: bool,
    /// Whether sums are multiplied by a scale of their column.
    pub col_scale: bool,
    /// Elements along K of a column of B that share a scale, if they do.
    pub group: Option<u32>,
}

impl Traits {
    /// The type products are summed in.
    #[must_use]
    pub const fn accumulator(&self) -> ElementType {
        self.a.accumulator()
    }
}

/// What a plan will do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// The kernel that multiplies, `None` where there is no product.
    pub kernel: Option<Kernel>,
    /// The kernel for operands whose offset does not allow the vector width, where the caller did
    /// not insist on the width and the kernel does not [store quads](Self::stores_quads).
    pub scalar_kernel: Option<Kernel>,
    /// How the kernel reads A and B.
    pub operands: Operands,
    /// How sums reach C.
    pub store: Store,
    /// What the pipelines depend on.
    pub traits: Traits,
    /// The pieces of C, each computed by one dispatch (or two).
    pub chunks: Vec<Chunk>,
    /// Bytes of the scratch buffer for raw sums, 0 where there is none.
    pub sum_bytes: u64,
    /// Whether every row of C is whole 32-bit words, or of 32-bit elements whole vectors of four, if
    /// its first element starts one.
    pub whole_rows: bool,
    /// The decision in words and numbers.
    pub summary: PlanSummary,
}

impl Decision {
    /// Whether the multiplying dispatch stores raw sums for another pass.
    #[must_use]
    pub fn stores_sums(&self) -> bool {
        self.store == Store::Packed || self.slices() > 1
    }

    /// Whether the kernel itself stores elements that share words, four at a time: where the first of C
    /// does not start a whole four, another plan has to.
    #[must_use]
    pub fn stores_quads(&self) -> bool {
        self.traits.output.size() < 4 && !self.stores_sums() && self.kernel.is_some()
    }

    /// Whether the pass from sums to C finds whole words, or whole vectors of four 32-bit elements, in
    /// every row of C, first element aside.
    #[must_use]
    pub fn finishes_rows(&self) -> bool {
        self.whole_rows && self.stores_sums()
    }

    /// Bytes that the first element of C must be aligned to for that.
    #[must_use]
    pub fn row_alignment(&self) -> u64 {
        if self.store == Store::Packed { 4 } else { 16 }
    }

    /// Threads that share an output where slices of K are added up, or where `vectors` are added, four
    /// outputs.
    #[must_use]
    pub fn reduce_groups(&self, vectors: bool) -> u32 {
        let each = if vectors { 16 } else { 4 };
        let outputs = self.chunks.iter().map(|chunk| chunk.sum_bytes() / each).max().unwrap_or(0);
        chunk::reduce_groups(outputs, self.slices())
    }

    /// The decision for a problem without a product, with sums that are there already, row-major without
    /// gaps, in the place of the product.
    pub(crate) fn of_sums(self) -> Self {
        let sum_bytes = self.chunks.iter().map(Chunk::sum_bytes).max().unwrap_or(0);
        // Rows of words are for elements that share them.
        let whole_rows = self.whole_rows && self.traits.output.size() < 4;
        Self { store: Store::Packed, sum_bytes, whole_rows, ..self }
    }

    /// What the pass that adds up sums needs to know of them.
    #[must_use]
    pub fn parts(&self) -> Parts {
        let stream = self.kernel.as_ref().and_then(|kernel| {
            kernel.slices.and_then(|slices| slices.stream).map(|stream| (stream, kernel.block))
        });
        Parts { most: self.slices(), stream }
    }

    /// Slices that K is cut into, or the most parts of a block.
    #[must_use]
    pub fn slices(&self) -> u32 {
        self.kernel.as_ref().map_or(1, Kernel::slice_count)
    }
}

/// Decides how `problem` is computed on a device with `limits`.
///
/// # Errors
/// As [`decide_with`].
pub fn decide(
    problem: &Problem,
    limits: &DeviceLimits,
    choice: KernelChoice,
    device: &str,
) -> Result<Decision, Error> {
    decide_with(problem, limits, &PlanOptions::kernel(choice), device)
}

/// Decides how `problem` is computed on a device with `limits`, slices and copies as asked for.
///
/// # Errors
/// [`Error::ElementTypeUnavailable`], [`Error::KernelUnsuitable`], [`Error::Misaligned`] or
/// [`Error::LimitExceeded`].
pub fn decide_with(
    problem: &Problem,
    limits: &DeviceLimits,
    options: &PlanOptions,
    device: &str,
) -> Result<Decision, Error> {
    decide_store(problem, limits, options, device, true)
}

/// The same for a C of elements that share words whose first does not start a whole four of them.
///
/// # Errors
/// As [`decide_with`].
pub(crate) fn decide_apart(
    problem: &Problem,
    limits: &DeviceLimits,
    options: &PlanOptions,
    device: &str,
) -> Result<Decision, Error> {
    decide_store(problem, limits, options, device, false)
}

fn decide_store(
    problem: &Problem,
    limits: &DeviceLimits,
    options: &PlanOptions,
    device: &str,
    narrow: bool,
) -> Result<Decision, Error> {
    problem.validate()?;
    check_elements(problem, limits, device)?;
    check_sizes(problem)?;
    let traits = Traits {
        a: problem.a,
        b: problem.b,
        output: problem.c,
        scalar: problem.bias_element(),
        beta: problem.reads_c(),
        bias: problem.bias,
        activation: problem.activation,
        // Scales belong to a product.
        row_scale: problem.row_scale && problem.reads_factors(),
        col_scale: problem.col_scale && problem.reads_factors(),
        group: problem.b_group.filter(|_| problem.reads_factors()).map(|length| length as u32),
    };
    let needed = |store, sliced| vectors::storage_bindings(&traits, store, sliced);
    let Chosen { kernel, operands, reason, mut notes } =
        choose::choose(problem, limits, options, narrow)?;
    let quads = kernel.store_width == 4 && kernel.slices.is_none() && kernel::has_quads(problem);
    let (store, kernel, operands) = if !problem.reads_factors() {
        notes.clear();
        (Store::NoProduct, None, Operands::plain(problem))
    } else if problem.c.size() < 4 && !(narrow && quads) {
        notes.push(format!(
            "{} output is packed by a second pass that owns whole 32-bit words",
            problem.c
        ));
        (Store::Packed, Some(kernel), operands)
    } else if needed(Store::Fused, kernel.slices.is_some()) <= limits.storage_bindings {
        if problem.c.size() < 4 {
            notes.push(format!(
                "stores four {} at a time; a C that does not start at a multiple of {} bytes takes another \
                 plan, with sums of its own and a second pass",
                problem.c,
                4 * problem.c.size()
            ));
        }
        (Store::Fused, Some(kernel), operands)
    } else {
        notes.push(format!(
            "scales are applied by a second pass: {} storage bindings needed for one, {} available",
            needed(Store::Fused, false),
            limits.storage_bindings
        ));
        // Sums as they come out of the matrices, not as a C that is stored directly.
        (Store::Packed, Some(kernel), operands)
    };
    let bindings = needed(store, kernel.as_ref().is_some_and(|kernel| kernel.slices.is_some()));
    if bindings > limits.storage_bindings {
        return Err(Error::LimitExceeded {
            what: "storage bindings of a pass that applies scales",
            requested: u128::from(bindings),
            limit: u128::from(limits.storage_bindings),
        });
    }
    let chunks = chunk::split(problem, limits, kernel.as_ref(), &operands, store)?;
    let kernel = if chunks.iter().all(|chunk| chunk.cols == problem.n) {
        kernel.map(|kernel| kernel.full_width(problem.n))
    } else {
        kernel
    };
    if chunks.len() > 1 {
        notes.push(format!("split into {} dispatches", chunks.len()));
    }
    let slices = kernel.as_ref().map_or(1, Kernel::slice_count);
    let sum_bytes = if store == Store::Packed || slices > 1 {
        let bytes = chunks.iter().map(Chunk::sum_bytes).max().unwrap_or(0);
        bytes * u64::from(slices)
    } else {
        0
    };
    // One with narrower stores cannot store elements that share words.
    let stores_quads = store == Store::Fused && problem.c.size() < 4;
    let scalar_kernel = kernel
        .as_ref()
        .filter(|_| !stores_quads)
        .and_then(|kernel| kernel.scalar_fallback(options.kernel));
    let copy_bytes = [operands.a, operands.b]
        .iter()
        .filter_map(|reads| Some(reads.element.bytes_for(reads.copy?.len) as u64))
        .sum::<u64>();
    let scratch_bytes = sum_bytes + copy_bytes;
    let unit = if store == Store::Fused { 4 } else { 4 / problem.c.size().min(4) };
    let whole_rows =
        chunks.iter().all(|c| c.cols.is_multiple_of(unit) && c.col0.is_multiple_of(unit))
            && Lines::of_a(problem.c_layout, problem.batch).allows(true, unit as isize);
    let summary = summarise(kernel.as_ref(), reason, notes, &chunks, limits, scratch_bytes);
    let mut decision = Decision {
        kernel,
        scalar_kernel,
        operands,
        store,
        traits,
        chunks,
        sum_bytes,
        whole_rows,
        summary,
    };
    decision.summary.passes = decision.passes().into_iter().map(Pass::name).collect();
    Ok(decision)
}

fn check_elements(problem: &Problem, limits: &DeviceLimits, device: &str) -> Result<(), Error> {
    if problem.block_scales {
        return Err(Error::ScalesUnavailable {
            what: format!("wgsl on {device}"),
            scales: problem.scale_names(),
            needs: "use the CPU backend, or multiply the scales into A and B",
        });
    }
    for element in [problem.a, problem.b] {
        let needs = match element {
            ElementType::F64 => "WGSL has no 64-bit floats; use the CPU backend or convert to f32",
            ElementType::F16 if !limits.f16 => "the device lacks the feature SHADER_F16",
            ElementType::F32
            | ElementType::F16
            | ElementType::BF16
            | ElementType::I8
            | ElementType::I4 => continue,
            _ => "no shader decodes it; use the CPU backend or convert to f16, bf16 or i8",
        };
        return Err(Error::ElementTypeUnavailable {
            backend: format!("wgsl on {device}"),
            element,
            needs,
        });
    }
    Ok(())
}

/// Shaders count in 32 bits.
///
/// # Errors
/// [`Error::LimitExceeded`] for a size past half their range.
pub(crate) fn check_sizes(problem: &Problem) -> Result<(), Error> {
    for (what, size) in
        [("M", problem.m), ("N", problem.n), ("K", problem.k), ("the batch", problem.batch)]
    {
        if size > u32::MAX as usize / 2 {
            return Err(Error::LimitExceeded {
                what,
                requested: size as u128,
                limit: u128::from(u32::MAX / 2),
            });
        }
    }
    Ok(())
}

fn summarise(
    kernel: Option<&Kernel>,
    reason: String,
    notes: Vec<String>,
    chunks: &[Chunk],
    limits: &DeviceLimits,
    scratch_bytes: u64,
) -> PlanSummary {
    let Some(kernel) = kernel else {
        let mut summary = PlanSummary::new(
            "epilogue_only",
            "there is no product: alpha or K is 0, so A and B are not read",
        );
        summary.notes = notes;
        summary.workgroup_threads = PACK_THREADS as usize;
        summary.dispatches =
            chunks.iter().map(|c| pack_workgroups(c.words, limits.workgroups_per_axis)).collect();
        return summary;
    };
    let mut summary = PlanSummary::new(kernel.name.clone(), reason);
    summary.notes = notes;
    summary.dispatches = chunks.iter().map(|c| c.workgroups(kernel)).collect();
    summary.workgroup_threads = kernel.threads() as usize;
    summary.block_tile = kernel.block.map(|x| x as usize);
    summary.thread_tile = kernel.thread.map(|x| x as usize);
    summary.k_tile_size = kernel.k_tile as usize;
    summary.load_width = kernel.a.width as usize;
    summary.f16_sums = kernel.sums_in_f16();
    summary.workgroup_bytes = kernel.workgroup_bytes();
    summary.scratch_bytes = scratch_bytes;
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_types_and_scales_are_refused_by_name() {
        use ElementType as E;
        let features = wgpu::Features::empty();
        let limits = DeviceLimits::from_limits(&wgpu::Limits::downlevel_defaults(), features, true);
        let refusal = |problem: &Problem| {
            assert!(problem.validate().is_ok(), "{problem:?}");
            decide(problem, &limits, KernelChoice::Auto, "a device").expect_err("unsupported")
        };
        let problem = Problem::new(8, 8, 32);
        for (a, b) in [
            (E::F8E4M3Fnuz, E::F8E4M3Fnuz),
            (E::F8E5M2Fnuz, E::F8E4M3Fnuz),
            (E::F8E4M3, E::F8E4M3),
            (E::F8E5M2, E::F8E5M2),
        ] {
            let error = refusal(&problem.clone().factors(a, b));
            assert!(
                matches!(error, Error::ElementTypeUnavailable { element, .. } if element == a),
                "{a} x {b}: {error}"
            );
        }
        let error = refusal(&problem.elements(E::F4E2M1, E::F32).block_scales(true));
        assert!(matches!(error, Error::ScalesUnavailable { .. }), "{error}");
    }

    /// A device with four storage bindings applies scales in a pass of their own, one with eight on
    /// the way to C; for three vectors beside the sums four bindings are too few.
    #[test]
    fn scales_take_as_many_passes_as_the_bindings_ask_for() {
        let limits = |storage_bindings| DeviceLimits {
            storage_bindings,
            ..DeviceLimits::from_limits(
                &wgpu::Limits::downlevel_defaults(),
                wgpu::Features::empty(),
                true,
            )
        };
        let problem = Problem::new(8, 8, 32).bias(true).col_scale(true);
        let store = |problem: &Problem, bindings| {
            decide(problem, &limits(bindings), KernelChoice::Auto, "a device").map(|d| d.store)
        };
        assert_eq!(store(&problem, 8).expect("planned"), Store::Fused);
        assert_eq!(store(&problem, 4).expect("planned"), Store::Packed);
        let both = problem.row_scale(true);
        assert_eq!(store(&both, 8).expect("planned"), Store::Fused);
        assert!(matches!(
            store(&both, 4),
            Err(Error::LimitExceeded { requested: 5, limit: 4, .. })
        ));
        let unread = both.alpha(0.0);
        assert_eq!(store(&unread, 4).expect("planned"), Store::NoProduct);
    }
}
