//! The kernels of the course.

use lapidary_core::{ElementType, Error, KernelChoice, Occupancy, PlanSummary, Problem};

use super::{
    AWay, Decision, DeviceFacts, Product, StoreWay, describe_store, store_pass, sums_bytes, traits,
    unsuitable, why_store_pass,
};
use crate::passes::Sums;
use crate::preshuffle::{EpilogueTraits, TooMany, count};
use crate::steps::{Arithmetic, LaunchHint, Params, Step, StepConfig, TileMovement};
use crate::target::Target;

/// Where there is no matrix-core kernel: the scalar policy kernel.
pub(super) fn automatic(problem: &Problem, facts: &DeviceFacts) -> Result<Decision, Error> {
    let step = Step::Generic(TileMovement::SoftwareDoubleBuffer, Arithmetic::ScalarFma);
    let reason = format!("{} has no kernel on matrix cores here", facts.target);
    decide(problem, facts, StepConfig::new(facts.target, step), &reason)
}

/// The step that a choice of core's stands for.
pub(super) fn of_choice(target: Target, choice: KernelChoice) -> Result<StepConfig, Error> {
    let config = |step| StepConfig::new(target, step);
    Ok(match choice {
        KernelChoice::Naive => config(Step::Naive),
        KernelChoice::WorkgroupTile => config(Step::WorkgroupTile),
        KernelChoice::RegisterTile => config(Step::RegisterTile),
        KernelChoice::Buffered { buffers } => {
            config(Step::Buffered { buffers: u32::try_from(buffers).unwrap_or(u32::MAX) })
        }
        KernelChoice::Vectorized { width } => config(Step::Vectorized).with_load_width(width),
        // HIP trades registers for waves by hints to the compiler.
        KernelChoice::Occupancy(Occupancy::Balanced) => config(Step::Occupancy(LaunchHint::ALL[1])),
        KernelChoice::Occupancy(Occupancy::Lean) => config(Step::Occupancy(LaunchHint::ALL[2])),
        KernelChoice::Occupancy(_) => config(Step::Occupancy(LaunchHint::ALL[0])),
        KernelChoice::Policy(policies) => StepConfig::of_policies(target, &policies)
            .map_err(|error| unsuitable(choice.name(), error))?,
        _ => return Err(unsuitable(choice.name(), "the HIP backend has no such kernel")),
    })
}

/// Decides for a step.
pub(super) fn decide(
    problem: &Problem,
    facts: &DeviceFacts,
    mut config: StepConfig,
    reason: &str,
) -> Result<Decision, Error> {
    let name = config.to_string();
    let element = match config.step {
        Step::Generic(_, Arithmetic::MfmaF16) => ElementType::F16,
        _ => ElementType::F32,
    };
    if [problem.a, problem.b] != [element; 2] {
        let reason = format!("it multiplies {element}, not {} x {}", problem.a, problem.b);
        return Err(unsuitable(name, reason));
    }
    if config.target != facts.target {
        let reason = format!("it is for {}, the device is {}", config.target, facts.target);
        return Err(unsuitable(name, reason));
    }
    let by_pass = problem.c != ElementType::F32 || problem.has_scales();
    config.epilogue = if by_pass { EpilogueTraits::default() } else { traits(problem) };
    config.request().map_err(|error| unsuitable(&name, error))?;
    let launch = params(problem)
        .map_err(super::too_many)?
        .launch(&config)
        .map_err(|error| unsuitable(&name, error))?;

    let mut summary = PlanSummary::new(name, reason);
    summary.dispatches.push(launch.grid);
    summary.workgroup_threads = (launch.threads[0] * launch.threads[1]) as usize;
    summary.block_tile = config.block;
    summary.thread_tile = config.thread;
    summary.k_tile_size = if config.step == Step::Naive { 0 } else { config.k_tile };
    summary.load_width = config.load_width;
    summary.workgroup_bytes = config.lds_bytes();
    let (store, sums) = if by_pass {
        let store = store_pass(problem, facts, Sums::F32);
        describe_store(&mut summary, problem, &store, 1)?;
        summary.notes.push(why_store_pass(problem, true));
        (StoreWay::Pass(store), sums_bytes(problem, 1)?)
    } else {
        (StoreWay::Kernel, 0)
    };
    summary.scratch_bytes = sums;
    let product = Product::Step(config);
    Ok(Decision { product, a: AWay::InPlace, b: None, store, sums_bytes: sums, summary })
}

/// The parameters of a step that follow from the problem alone; addresses are 0, and the batch is as
/// long as one launch allows.
pub(crate) fn params(problem: &Problem) -> Result<Params, TooMany> {
    let to = |what, size| count(what, size, i32::MAX as u32);
    let stride = |stride: isize| stride as i64;
    let (a, b, c) = (problem.a_layout, problem.b_layout, problem.c_layout);
    Ok(Params {
        a_row: stride(a.row_stride),
        a_col: stride(a.col_stride),
        a_batch: stride(a.batch_stride),
        b_row: stride(b.row_stride),
        b_col: stride(b.col_stride),
        b_batch: stride(b.batch_stride),
        c_row: stride(c.row_stride),
        c_col: stride(c.col_stride),
        c_batch: stride(c.batch_stride),
        m: to("M", problem.m)?,
        n: to("N", problem.n)?,
        k: to("K", problem.k)?,
        batch: to("the batch", problem.batch)?.min(super::MATRICES_A_LAUNCH as u32),
        alpha: problem.alpha as f32,
        beta: problem.beta as f32,
        ..Params::default()
    })
}
