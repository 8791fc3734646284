//! What the WGSL backend refuses, and why: the suite's own knowledge, which plans must agree with.

use lapidary_core::policy::Multiply;
use lapidary_core::{ElementType, KernelChoice, Layout, Problem, Shape};
use lapidary_wgsl::DeviceLimits;

use super::devices::BUDGET;
use super::kernels::has_ways;
use crate::adapter::{Expectation, Outline, Refusal, Types, has_rows, has_vectors};
use crate::spec::Route;

/// Rows or columns that the skinny kernel computes at most.
const SKINNY: usize = 16;

/// What should become of `case` with `kernel` by `route` on a device with these limits that knows these
/// types.
pub(super) fn expect(
    kernel: &KernelChoice,
    case: &Outline,
    route: Route,
    known: &[Types],
    limits: &DeviceLimits,
) -> Expectation {
    let whole = whole(kernel, case, known, limits);
    match route {
        _ if !is_planned(&whole, kernel, case) => whole,
        Route::Pieces => match in_pieces(kernel, &case.problem, limits) {
            Expectation::Runs => whole,
            cut => cut,
        },
        // Host operands are uploaded to where they are aligned.
        Route::Host => Expectation::Runs,
        Route::Streamed => streamed(&case.problem, BUDGET),
        _ => whole,
    }
}

/// The same on device tensors, in one piece.
fn whole(
    kernel: &KernelChoice,
    case: &Outline,
    known: &[Types],
    limits: &DeviceLimits,
) -> Expectation {
    let problem = &case.problem;
    if problem.block_scales {
        return Expectation::Refused(Refusal::Scales);
    }
    let groups = problem.b_group.is_some();
    let types = Types { groups, ..Types::of(problem.a, problem.b, problem.c) };
    if !known.contains(&types) {
        return Expectation::Refused(Refusal::ElementType);
    }
    // Whether there is anything to multiply or not.
    if *kernel == KernelChoice::Skinny && problem.m.min(problem.n) > SKINNY {
        return Expectation::Refused(Refusal::KernelUnsuitable);
    }
    // Buffers are whole vectors, so the last one is never cut off.
    let (width, reads) = (load_width(kernel), problem.reads_factors() && !problem.is_empty());
    if width > 1 && reads && !has_vectors(case, width) {
        return Expectation::Refused(Refusal::Loads);
    }
    // The pass from sums to C reads them, both scales and the bias, whether there is one or not.
    let scaled = problem.row_scale && problem.col_scale;
    let few = limits.storage_bindings < 5;
    if scaled && few && problem.reads_factors() && !problem.is_empty() {
        return Expectation::Refused(Refusal::LimitExceeded);
    }
    Expectation::Runs
}

/// Elements of A that a kernel loads at once. They start at multiples of it, in a row whose elements are
/// neighbours.
fn load_width(kernel: &KernelChoice) -> usize {
    match kernel {
        KernelChoice::Vectorized { width } => *width,
        KernelChoice::Policy(config) if !has_ways(kernel) => config.tile.load_width,
        _ => 1,
    }
}

/// Whether a plan knows of no obstacle: an operand's offset comes with the arguments, after the plan and
/// its limits.
fn is_planned(whole: &Expectation, kernel: &KernelChoice, case: &Outline) -> bool {
    match whole {
        Expectation::Runs => true,
        Expectation::Refused(Refusal::Loads) => has_rows(case, load_width(kernel)),
        _ => false,
    }
}

/// Rows, columns and K that a product is cut down to where a kernel's block is no limit.
const GRAIN: usize = 64;

/// The largest block of any kernel.
const LARGEST: [usize; 2] = [128; 2];

/// Rows and columns of the blocks of a kernel that is asked for by name.
fn block(kernel: &KernelChoice) -> Option<[usize; 2]> {
    match kernel {
        KernelChoice::Naive | KernelChoice::WorkgroupTile => Some([16; 2]),
        KernelChoice::Policy(config) | KernelChoice::StreamK { config, .. } => {
            Some([config.tile.block_tile_m, config.tile.block_tile_n])
        }
        _ => None,
    }
}

/// Bytes from the first to the last element.
fn bytes(layout: Layout, shape: Shape, element: ElementType) -> u128 {
    let elements = layout.extent(shape).map_or(0, |extent| (extent.max - extent.min + 1) as u128);
    (elements * element.bits() as u128).div_ceil(8)
}

/// Whether one matrix's `rows` by `cols` of C, their sums, and what `k` products of each read fit a
/// binding of these limits. It starts at a multiple of the alignment and ends with a whole vector.
fn fits(problem: &Problem, limits: &DeviceLimits, [rows, cols, k]: [usize; 3]) -> bool {
    let (rows, cols) = (rows.min(problem.m), cols.min(problem.n));
    let slack = u128::from(limits.binding_alignment) + 16;
    let within = |bytes: u128| bytes <= u128::from(limits.binding_bytes);
    let c = bytes(problem.c_layout, Shape::new(rows, cols), problem.c);
    if !problem.reads_factors() {
        return within(c + slack);
    }
    let a = bytes(problem.a_layout, Shape::new(rows, k), problem.a);
    let b = bytes(problem.b_layout, Shape::new(k, cols), problem.b);
    [a, b, c].into_iter().all(|bytes| within(bytes + slack)) && within((rows * cols * 4) as u128)
}

/// What becomes of `problem`, which runs where it is not cut, where it is one of pieces with these limits.
/// C is cut down to blocks of the kernel. Where even those exceed a limit, C and K are cut further, unless
/// there are scales. A copy of an operand may need less than the operand.
fn in_pieces(kernel: &KernelChoice, problem: &Problem, limits: &DeviceLimits) -> Expectation {
    if problem.is_empty() {
        return Expectation::Runs;
    }
    let refused = Expectation::Refused(Refusal::LimitExceeded);
    let unknown =
        || Expectation::Skipped("whether it fits a binding is for the kernel to choose".into());
    let copies = matches!(kernel, KernelChoice::Auto) || has_ways(kernel);
    // Words of four along K, or eight neighbours of matrix units, may have to be those of copies, each of
    // which is in one binding. Without scales it is cut along K.
    let reads_copies = matches!(kernel, KernelChoice::Policy(config) | KernelChoice::StreamK { config, .. }
        if matches!(config.compute.multiply, Multiply::VectorDot4 | Multiply::CooperativeMatrix));
    let whole = [(problem.a_shape(), problem.a), (problem.b_shape(), problem.b)];
    let exceeds = |(shape, element): (Shape, ElementType)| {
        let line = Layout::row_major(shape.rows, shape.cols);
        bytes(line, shape, element) + GRAIN as u128 > u128::from(limits.binding_bytes)
    };
    if reads_copies && problem.has_scales() && whole.into_iter().any(exceeds) {
        return unknown();
    }
    if problem.has_scales() || !problem.reads_factors() {
        let least = if problem.reads_factors() { block(kernel) } else { Some([16; 2]) };
        let [rows, cols] = least.unwrap_or(LARGEST);
        let line = (problem.k * problem.a.bits().min(problem.b.bits()) / 8) as u64;
        return if fits(problem, limits, [rows, cols, problem.k]) {
            Expectation::Runs
        } else if least.is_some() && !copies
            || (problem.reads_factors() && line > limits.binding_bytes)
        {
            refused
        } else {
            unknown()
        };
    }
    match fits(problem, limits, [1, 1, problem.k.min(GRAIN)]) {
        true => Expectation::Runs,
        false if copies => unknown(),
        false => refused,
    }
}

/// What becomes of `problem`, which runs where it is not cut, as a one-shot product that holds no more
/// than `budget` bytes of device memory. It is cut if it needs more, unless there are scales or elements
/// that share a byte. Besides the operands, sums and copies count, which a kernel may or may not have.
fn streamed(problem: &Problem, budget: u64) -> Expectation {
    if problem.is_empty() {
        return Expectation::Runs;
    }
    let budget = u128::from(budget);
    let vector = |given: bool, len: usize| if given { 4 * len as u128 } else { 0 };
    let bias = vector(problem.bias, problem.n);
    let judge = |held: u128, at_most: u128| {
        if held > budget {
            Expectation::Refused(Refusal::LimitExceeded)
        } else if held + at_most <= budget {
            Expectation::Runs
        } else {
            Expectation::Skipped("whether it fits the budget is for the kernel to choose".into())
        }
    };
    let elements = |shape: Shape| shape.to_array().iter().map(|&len| len as u128).product::<u128>();
    let spans = |shapes: [Shape; 3]| {
        let [a, b, c] = shapes;
        let factors = if problem.reads_factors() {
            bytes(problem.a_layout, a, problem.a) + bytes(problem.b_layout, b, problem.b)
        } else {
            0
        };
        factors + bytes(problem.c_layout, c, problem.c)
    };
    let [a, b, c] = [problem.a_shape(), problem.b_shape(), problem.c_shape()];
    if problem.has_scales() || problem.b.is_packed() {
        let groups = problem.b_group.map_or(0, |length| problem.k / length.max(1));
        let scales = vector(problem.row_scale, problem.batch * problem.m)
            + vector(problem.col_scale, problem.batch * problem.n)
            + vector(problem.b_group.is_some(), problem.batch * problem.n * groups);
        let more = [a, b, c].into_iter().map(elements).sum::<u128>() * 4;
        return judge(spans([a, b, c]) + bias + scales, more);
    }
    // The smallest pieces, two of each operand, and sums; for both plans sums and copies.
    let [m, n, k] = [problem.m, problem.n, problem.k].map(|len| len.min(GRAIN));
    let tiles = [(m * k, problem.a), (k * n, problem.b), (m * n, problem.c)];
    let tiles = tiles.iter().map(|(len, element)| 2 * (len * element.size()) as u128).sum::<u128>();
    judge(tiles + bias, (3 * m * n + 2 * m * k + 2 * k * n) as u128 * 4)
}
