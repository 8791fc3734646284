//! Kernel arguments: from a plan and the addresses of operands, as plain data.

use lapidary_core::{ElementType, Problem};

use crate::decide::{AWay, MATRICES_A_LAUNCH, Product, StoreWay, step_params};
use crate::device::Kernel;
use crate::pack::PackedPlace;
use crate::passes::{PackAArgs, PackScalesArgs, StoreArgs, StoreConfig};
use crate::plan::HipPlan;
use crate::preshuffle::{Args, PreshuffleConfig};
use crate::steps::Params;

/// Device addresses of a product's operands; 0 for what it does not read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bound {
    pub(crate) a: u64,
    pub(crate) b: u64,
    /// How a B that comes packed lies.
    pub(crate) packed: Option<PackedPlace>,
    pub(crate) c: u64,
    pub(crate) bias: u64,
    pub(crate) row_scale: u64,
    pub(crate) col_scale: u64,
    pub(crate) a_block_scales: u64,
    pub(crate) b_block_scales: u64,
    pub(crate) scratch_a: u64,
    pub(crate) scratch_scales: u64,
    pub(crate) sums: u64,
}

/// Where A's rows lie, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) address: u64,
    stride: u64,
    batch: u64,
}

/// Bytes that `count` strides of elements span.
pub(crate) fn bytes(element: ElementType, stride: isize, count: usize) -> i64 {
    (stride as i64).wrapping_mul(count as i64).wrapping_mul(element.bits() as i64) / 8
}

/// alpha or beta as the kernels take it: the bits of an i32 with i32 output, else of an f32.
fn factor(problem: &Problem, value: f64) -> u32 {
    match problem.bias_element() {
        ElementType::I32 => (value as i32).cast_unsigned(),
        _ => (value as f32).to_bits(),
    }
}

/// The rows of A that the product reads.
pub(crate) fn a_place(plan: &HipPlan, bound: &Bound) -> Option<Place> {
    let problem = &plan.problem;
    match &plan.decision.a {
        AWay::Packed(config) => {
            let row = config.row_bytes(problem.k) as u64;
            let batch = row.checked_mul(problem.m as u64)?;
            Some(Place { address: bound.scratch_a, stride: row, batch })
        }
        AWay::InPlace => {
            let layout = problem.a_layout;
            // A single row has no distance to the next, and may have any stride.
            let stride = if problem.m > 1 {
                bytes(problem.a, layout.row_stride, 1)
            } else {
                problem.a.bytes_for(problem.k).next_multiple_of(16) as i64
            };
            let batch =
                if problem.batch > 1 { bytes(problem.a, layout.batch_stride, 1) } else { 0 };
            Some(Place {
                address: bound.a,
                stride: stride.cast_unsigned(),
                batch: batch.cast_unsigned(),
            })
        }
    }
}

/// The pass that copies A to aligned rows, where the plan has one.
pub(crate) fn pack_a<'p>(plan: &'p HipPlan, bound: &Bound) -> Option<(&'p Kernel, PackAArgs)> {
    let (AWay::Packed(config), Some(kernel)) = (&plan.decision.a, &plan.kernels.pack_a) else {
        return None;
    };
    let problem = &plan.problem;
    let args = PackAArgs {
        from: bound.a,
        to: bound.scratch_a,
        row_stride: problem.a_layout.row_stride as i64,
        k_stride: problem.a_layout.col_stride as i64,
        batch_stride: problem.a_layout.batch_stride as i64,
        ..PackAArgs::sizes(config, [problem.m, problem.k], problem.batch).ok()?
    };
    Some((kernel, args))
}

/// The pass that packs B's block scales, where the plan has one.
pub(crate) fn pack_scales<'p>(
    plan: &'p HipPlan,
    bound: &Bound,
) -> Option<(&'p Kernel, PackScalesArgs)> {
    let kernel = plan.kernels.pack_scales.as_ref()?;
    let sizes = PackScalesArgs::sizes(plan.decision.b.as_ref()?, plan.problem.batch).ok()?;
    let args = PackScalesArgs { from: bound.b_block_scales, to: bound.scratch_scales, ..sizes };
    Some((kernel, args))
}

/// The arguments of the matrix-core kernel, and the matrices of each launch.
pub(crate) fn preshuffle(
    plan: &HipPlan,
    config: &PreshuffleConfig,
    splits: usize,
    a: Place,
    b: u64,
    bound: &Bound,
) -> Option<Vec<(Args, usize)>> {
    let problem = &plan.problem;
    let Problem { m, n, k, batch, .. } = *problem;
    // A packed B may be padded further along K than this plan would.
    let layout = bound.packed.and_then(|packed| packed.layout).or(plan.decision.b)?;
    let stores = plan.decision.store != StoreWay::Kernel;
    let (c, c_layout) = (problem.c, problem.c_layout);
    let c_stride = if m > 1 { bytes(c, c_layout.row_stride, 1) } else { (n * c.size()) as i64 };
    let c_batch = if batch > 1 { bytes(c, c_layout.batch_stride, 1) } else { 0 };
    let b_batch = if layout.batch > 1 { layout.matrix_bytes()? as u64 } else { 0 };
    let all = Args {
        a: a.address,
        b,
        c: bound.c,
        row_scale: bound.row_scale,
        col_scale: bound.col_scale,
        bias: bound.bias,
        a_scale: bound.a_block_scales,
        b_scale: bound.scratch_scales,
        workspace: if stores { bound.sums } else { 0 },
        a_stride: a.stride,
        c_stride: c_stride.cast_unsigned(),
        a_batch: a.batch,
        b_batch,
        c_batch: c_batch.cast_unsigned(),
        alpha: factor(problem, problem.alpha),
        beta: factor(problem, problem.beta),
        ..Args::sizes(config, [m, n, k], layout.column_bytes(), splits).ok()?
    };
    let scales = PackScalesArgs::sizes(&layout, 1).map_or(0, |args| args.packed_bytes());
    let sums = all.workspace_bytes(1) as u64;
    let from = |first: usize| {
        let skip = |address: u64, matrix: u64| {
            if address == 0 { 0 } else { address.wrapping_add(matrix.wrapping_mul(first as u64)) }
        };
        Args {
            a: skip(all.a, all.a_batch),
            b: skip(all.b, all.b_batch),
            c: skip(all.c, all.c_batch),
            row_scale: skip(all.row_scale, 4 * m as u64),
            col_scale: skip(all.col_scale, 4 * n as u64),
            a_scale: skip(all.a_scale, m as u64 * (k as u64 / 32)),
            b_scale: skip(all.b_scale, scales),
            workspace: skip(all.workspace, sums),
            ..all
        }
    };
    let firsts = (0..batch).step_by(MATRICES_A_LAUNCH);
    Some(firsts.map(|first| (from(first), (batch - first).min(MATRICES_A_LAUNCH))).collect())
}

/// The arguments of a step, one for each launch.
pub(crate) fn step(plan: &HipPlan, bound: &Bound) -> Option<Vec<Params>> {
    let problem = &plan.problem;
    let mut all = Params {
        a: bound.a,
        b: bound.b,
        c: bound.c,
        bias: bound.bias,
        ..step_params(problem).ok()?
    };
    if let Some(packed) = bound.packed {
        let row = packed.row as i64;
        (all.b_row, all.b_col, all.b_batch) = (row, 1, row * problem.k as i64);
    }
    if plan.decision.store != StoreWay::Kernel {
        let row = (problem.n as i64 + 3) / 4 * 4;
        (all.c, all.alpha, all.beta) = (bound.sums, 1.0, 0.0);
        (all.c_row, all.c_col, all.c_batch) = (row, 1, row * problem.m as i64);
    }
    let c_size = if plan.decision.store == StoreWay::Kernel { problem.c.size() } else { 4 } as i64;
    let size = problem.a.size() as i64;
    let launches = (0..problem.batch).step_by(MATRICES_A_LAUNCH).map(|first| {
        let skip = |address: u64, batch: i64, size: i64| {
            address.wrapping_add_signed(batch.wrapping_mul(size).wrapping_mul(first as i64))
        };
        Params {
            a: skip(all.a, all.a_batch, size),
            b: skip(all.b, all.b_batch, size),
            c: skip(all.c, all.c_batch, c_size),
            batch: (problem.batch - first).min(MATRICES_A_LAUNCH) as u32,
            ..all
        }
    });
    Some(launches.collect())
}

/// The arguments of the pass that stores C.
pub(crate) fn store(plan: &HipPlan, config: &StoreConfig, bound: &Bound) -> Option<StoreArgs> {
    let problem = &plan.problem;
    let splits = match &plan.decision.product {
        Product::Preshuffle(product) => product.splits,
        _ => 1,
    };
    Some(StoreArgs {
        sums: bound.sums,
        c: bound.c,
        row_scale: bound.row_scale,
        col_scale: bound.col_scale,
        bias: bound.bias,
        c_row: problem.c_layout.row_stride as i64,
        c_col: problem.c_layout.col_stride as i64,
        c_batch: problem.c_layout.batch_stride as i64,
        alpha: factor(problem, problem.alpha),
        beta: factor(problem, problem.beta),
        ..StoreArgs::sizes(config, [problem.m, problem.n], problem.batch, splits).ok()?
    })
}
