//! The matrix-core kernel: its configuration, and the passes it needs.

use lapidary_core::{ElementType, Error, MatrixKernel, Movement, Operand, PlanSummary, Problem};

use super::operands::{RowsOfA, rows_of_a, rows_of_c};
use super::{
    AWay, Decision, DeviceFacts, MATRICES_A_LAUNCH, Product, StoreWay, bytes_of_rows, config_error,
    describe_store, store_pass, sums_bytes, sums_of, too_many, traits, unsuitable, why_store_pass,
};
use crate::passes::{PackAArgs, PackAConfig, PackScalesArgs, Sums};
use crate::preshuffle::{
    ACopy, Args, ConfigError, EpilogueTraits, PackArgs, PackedLayout, PreshuffleConfig,
    ProblemClass, THREADS, choose,
};

/// Columns of C up to which an unaligned A is copied in place, shifted. Each tile along N shifts A
/// again; past a few of them one pass that aligns A costs less.
const GUARDED_COLUMNS: usize = 1024;

/// A configuration, and how far it may change with the addresses of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PreshuffleProduct {
    /// The configuration for an A whose first element lies at a multiple of 16 bytes, and a C whose
    /// first element lies at a multiple of [`c_vector`](PreshuffleConfig::c_vector) elements.
    pub config: PreshuffleConfig,
    /// Ranges of K that workgroups share.
    pub splits: usize,
    /// Whether the caller asked for A's copy, so that it may not change.
    pub insists_on_copy: bool,
}

impl PreshuffleProduct {
    /// The configuration for operands at these device addresses.
    ///
    /// # Errors
    /// [`Error::Misaligned`] if the caller insists on a copy that this A does not allow;
    /// [`Error::KernelUnsuitable`] if no variant fits the budgets.
    pub fn at_addresses(&self, a: u64, c: u64) -> Result<PreshuffleConfig, Error> {
        let mut config = self.config;
        if !a.is_multiple_of(16) && config.copy != ACopy::Guarded {
            if self.insists_on_copy {
                return Err(Error::Misaligned {
                    operand: Operand::A,
                    width: 128 / config.a.bits(),
                    what: "the index of its first element from a multiple of 16 bytes",
                    value: i128::from(a % 16) * 8 / config.a.bits() as i128,
                });
            }
            config.copy = ACopy::Guarded;
        }
        while config.c_vector > 1
            && !c.is_multiple_of((config.c_vector * config.output.size()) as u64)
        {
            config.c_vector = if config.c_vector == 8 { 4 } else { 1 };
        }
        // What passes the registers otherwise takes some here.
        while let Err(error) = config.validate() {
            let half = config.tile[0] / 2;
            if config == self.config || half == 0 || !half.is_multiple_of(16) {
                return Err(config_error(&config, &error));
            }
            config.tile[0] = half;
        }
        Ok(config)
    }
}

/// Decides for the matrix-core kernel; `asked` is what the caller wants of it, `copy_a` whether A is to
/// be copied to aligned rows first.
pub(super) fn decide(
    problem: &Problem,
    facts: &DeviceFacts,
    asked: &MatrixKernel,
    copy_a: Option<bool>,
) -> Result<Decision, Error> {
    if !facts.target.has_preshuffle() {
        let error = ConfigError::NoMatrixCores { target: facts.target };
        return Err(unsuitable("preshuffle", error));
    }
    let a = WayOfA::of(problem, asked, copy_a);
    let by_pass = problem.c == ElementType::I8 || !rows_of_c(problem).contiguous;
    let (product, mut reasons) = product(problem, facts, asked, &a, by_pass)?;
    let PreshuffleProduct { config, splits, .. } = product;

    let reason = if reasons.is_empty() { "asked for".into() } else { reasons.remove(0) };
    let [m, n, k] = config.tile;
    let mut summary = PlanSummary::new(format!("preshuffle {m}x{n}x{k}"), reason);
    summary.notes = reasons;
    summary.notes.extend(a.note());
    summary.workgroup_threads = THREADS;
    summary.block_tile = [m, n];
    summary.thread_tile = [m / 16, n / 16];
    summary.k_tile_size = k;
    summary.load_width = 128 / config.a.bits();
    summary.workgroup_bytes = config.lds_bytes();

    // The kernel's own counts are the narrowest, so they are what a message names.
    let layout = packed_layout(problem, &config)?;
    let args =
        Args::sizes(&config, [problem.m, problem.n, problem.k], layout.column_bytes(), splits)
            .map_err(too_many)?;
    let mut scratch = 0u64;
    let a = match a.packed {
        false => AWay::InPlace,
        true => {
            let pack = PackAConfig {
                target: facts.target,
                element: problem.a,
                lanes_along_m: problem.m > 1
                    && problem.a_layout.row_stride.unsigned_abs()
                        < problem.a_layout.col_stride.unsigned_abs(),
            };
            let args = PackAArgs::sizes(&pack, [problem.m, problem.k], problem.batch);
            let launch = args.and_then(|args| args.launch()).map_err(too_many)?;
            summary.dispatches.push(launch.grid);
            scratch += bytes_of_rows(
                "bytes of the copied A",
                pack.row_bytes(problem.k),
                [problem.m, problem.batch],
            )?;
            AWay::Packed(pack)
        }
    };
    let pack_b =
        PackArgs::sizes(&layout).and_then(|args| args.launch(layout.batch.min(MATRICES_A_LAUNCH)));
    summary.dispatches.push(pack_b.map_err(too_many)?.grid);
    let columns = problem.n.next_multiple_of(16);
    scratch +=
        bytes_of_rows("bytes of the packed B", layout.column_bytes(), [columns, layout.batch])?;
    summary.notes.push(
        "B is packed into the kernel's layout before every product, unless it comes from pack_b"
            .into(),
    );
    if problem.block_scales {
        let args = PackScalesArgs::sizes(&layout, problem.batch).map_err(too_many)?;
        summary.dispatches.push(args.launch().map_err(too_many)?.grid);
        scratch += args.packed_bytes();
    }

    args.check_spans(&config).map_err(|error| limit(&error))?;
    let batch = problem.batch.min(MATRICES_A_LAUNCH);
    summary.dispatches.push(args.launch(batch).map_err(too_many)?.grid);
    let (store, sums) = if by_pass {
        let store = store_pass(problem, facts, sums_of(problem));
        describe_store(&mut summary, problem, &store, splits)?;
        summary.notes.push(why_store_pass(problem, false));
        (StoreWay::Pass(store), sums_bytes(problem, splits)?)
    } else if config.split_k {
        summary.dispatches.push(args.reduce_launch(batch).map_err(too_many)?.grid);
        (StoreWay::Reduce, sums_bytes(problem, splits)?)
    } else {
        (StoreWay::Kernel, 0)
    };
    summary.scratch_bytes = scratch.saturating_add(sums);
    let product = Product::Preshuffle(product);
    Ok(Decision { product, a, b: Some(layout), store, sums_bytes: sums, summary })
}

/// How A reaches the kernel.
struct WayOfA {
    rows: RowsOfA,
    packed: bool,
    guarded: bool,
}

impl WayOfA {
    fn of(problem: &Problem, asked: &MatrixKernel, copy_a: Option<bool>) -> Self {
        let rows = rows_of_a(problem);
        let guarded = match asked.movement {
            Some(Movement::Guarded) => true,
            Some(_) => false,
            None => {
                let few = problem.n <= GUARDED_COLUMNS;
                rows == RowsOfA::Unaligned && copy_a.map_or(few, |copy| !copy)
            }
        };
        let packed = rows == RowsOfA::Scattered
            || (rows == RowsOfA::Unaligned && !guarded)
            || (copy_a == Some(true) && !guarded);
        Self { rows, packed, guarded }
    }

    fn note(&self) -> Option<String> {
        let why = match self.rows {
            RowsOfA::Aligned if self.packed => "that was asked for",
            RowsOfA::Aligned => return None,
            RowsOfA::Unaligned => "its rows do not all start at multiples of 16 bytes",
            RowsOfA::Scattered => "its rows are not contiguous, upwards and within 2 GiB of a tile",
        };
        Some(if self.packed {
            format!("A is copied to aligned rows first: {why}")
        } else {
            format!("A is copied in place, shifted to aligned chunks: {why}")
        })
    }
}

/// The configuration, and the reasons for it.
fn product(
    problem: &Problem,
    facts: &DeviceFacts,
    asked: &MatrixKernel,
    a: &WayOfA,
    by_pass: bool,
) -> Result<(PreshuffleProduct, Vec<String>), Error> {
    let raw = match sums_of(problem) {
        Sums::I32 { .. } => ElementType::I32,
        _ => ElementType::F32,
    };
    let class = ProblemClass {
        m: problem.m,
        n: problem.n,
        k: problem.k,
        batch: problem.batch,
        a: problem.a,
        b: problem.b,
        output: if by_pass { raw } else { problem.c },
        block_scaled: problem.block_scales,
        epilogue: if by_pass { EpilogueTraits::default() } else { traits(problem) },
        a_aligned: !a.guarded || asked.movement.is_some(),
        c_alignment: if by_pass { 4 } else { rows_of_c(problem).alignment },
        compute_units: facts.compute_units,
    };
    let choice = choose(facts.target, &class).map_err(|error| unsuitable("preshuffle", error))?;
    let (mut config, mut splits, mut reasons) = (choice.config, choice.splits, choice.reasons);
    if let Some(tile) = asked.tile {
        config.tile = tile;
        splits = 1;
        reasons = vec!["the tile was asked for".into()];
    }
    match asked.movement {
        Some(Movement::Registers) => config.copy = ACopy::Synchronous,
        Some(Movement::Direct) => config.copy = ACopy::Direct,
        Some(Movement::Guarded) => config.copy = ACopy::Guarded,
        _ => {}
    }
    config.lds_stage = asked.buffers.unwrap_or(config.lds_stage);
    config.schedule = asked.scheduled.unwrap_or(config.schedule);
    config.waves_per_simd = asked.waves_per_simd.or(config.waves_per_simd);
    splits = asked.splits.unwrap_or(splits);
    config.split_k = splits > 1 || by_pass;
    let shuffle = asked.c_through_workgroup_memory.unwrap_or(config.c_shuffle);
    config.c_shuffle = shuffle && !config.split_k;
    config.validate().map_err(|error| config_error(&config, &error))?;
    let strips = problem.k.div_ceil(config.tile[2]);
    if splits == 0 || splits > strips {
        let reason = format!(
            "{splits} ranges of K: there are {strips} strips of {} elements to share",
            config.tile[2]
        );
        return Err(unsuitable(config.to_string(), reason));
    }
    let insists_on_copy = asked.movement.is_some_and(|movement| movement != Movement::Guarded);
    Ok((PreshuffleProduct { config, splits, insists_on_copy }, reasons))
}

/// B in the configuration's layout; a matrix that serves the whole batch is packed once.
fn packed_layout(problem: &Problem, config: &PreshuffleConfig) -> Result<PackedLayout, Error> {
    let strip = config.tile[2];
    let too_long = || Error::LimitExceeded {
        what: "bits of a packed column of B",
        requested: (problem.k as u128).next_multiple_of(strip as u128) * problem.b.bits() as u128,
        limit: usize::MAX as u128,
    };
    let k_padded = problem.k.checked_next_multiple_of(strip).ok_or_else(too_long)?;
    k_padded.checked_mul(problem.b.bits()).ok_or_else(too_long)?;
    let shared = problem.b_layout.batch_stride == 0;
    let batch = if shared { 1 } else { problem.batch };
    Ok(PackedLayout { element: problem.b, n: problem.n, k: problem.k, k_padded, batch })
}

fn limit(error: &ConfigError) -> Error {
    match *error {
        ConfigError::Span { what, requested, limit } => {
            Error::LimitExceeded { what, requested, limit }
        }
        _ => unsuitable("preshuffle", error),
    }
}
