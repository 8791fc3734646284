//! The backend's own choice.
//!
//! Blocks are rated by a model of the device: blocks run in rounds of as many as all processors
//! hold, and a round that is not full takes nearly as long. Large blocks reuse more of what they
//! load, small ones fill the device with small matrices, and slices of K make blocks of a C too
//! small for any.

use lapidary_core::policy::{
    ComputePolicy, CooperativeMatrix, CooperativeMatrixF16, DirectSplit, KernelConfig,
    RegisterPrefetch, Staging, TilePolicy, VectorDot4, VectorFma, VectorMac,
};
use lapidary_core::{ElementType, KernelChoice, Problem};

use super::fetch::Lines;
use super::skinny;
use super::stream::Stream;
use super::tuning::Tuning;
use crate::limits::DeviceLimits;
use crate::workarounds::SOFTWARE_LOOP_ITERATIONS;

/// Rows from which the split kernel takes a C of few rows.
const LEAST_SHARED_ROWS: usize = 8;

/// A choice of kernel and slices, and why.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pick {
    pub(super) choice: KernelChoice,
    pub(super) slices: usize,
    pub(super) reason: String,
}

impl Pick {
    fn new(choice: KernelChoice, reason: String) -> Self {
        Self { choice, slices: 1, reason }
    }
}

/// A block a device may be filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BlockRow {
    /// The pair of policies.
    pub config: KernelConfig,
    /// Workgroups one processor holds at once.
    pub resident: usize,
    /// Speed on large matrices, in units of [`Tuning::flops`].
    pub rate: f64,
    /// Time that one workgroup alone on a processor takes, as a part of what as many as it holds
    /// take together.
    pub alone: f64,
    /// Strips that the start and the end of a block take as long as.
    pub overhead: f64,
}

impl BlockRow {
    fn new<T: TilePolicy, C: ComputePolicy>(
        resident: usize,
        rate: f64,
        alone: f64,
        overhead: f64,
    ) -> Self {
        Self { config: KernelConfig::of::<T, C>(), resident, rate, alone, overhead }
    }
}

/// The blocks for float operands on f32 arithmetic. Those of the split kernel come last.
#[must_use]
pub fn float_blocks() -> [BlockRow; 8] {
    [
        BlockRow::new::<RegisterPrefetch<128, 128, 16>, VectorFma<8, 16>>(2, 1.0, 0.8, 7.0),
        BlockRow::new::<RegisterPrefetch<128, 64, 16>, VectorFma<8, 8>>(3, 0.92, 0.45, 7.0),
        BlockRow::new::<RegisterPrefetch<64, 64, 16>, VectorFma<8, 8>>(5, 0.91, 0.31, 5.0),
        BlockRow::new::<RegisterPrefetch<64, 64, 16>, VectorFma<4, 8>>(4, 0.78, 0.6, 3.5),
        BlockRow::new::<RegisterPrefetch<32, 64, 16>, VectorFma<4, 8>>(6, 0.72, 0.3, 4.0),
        BlockRow::new::<DirectSplit<32, 32, 8>, VectorFma<4, 4>>(2, 0.5, 0.52, 0.5),
        BlockRow::new::<DirectSplit<16, 32, 24>, VectorFma<4, 4>>(1, 0.55, 1.0, 1.9),
        BlockRow::new::<DirectSplit<8, 32, 32>, VectorFma<4, 4>>(1, 0.43, 1.0, 0.5),
    ]
}

/// The blocks for i8 operands, one product at a time.
#[must_use]
pub fn integer_blocks() -> [BlockRow; 2] {
    [
        BlockRow::new::<RegisterPrefetch<128, 128, 16>, VectorMac<8, 16>>(2, 0.5, 0.8, 7.0),
        BlockRow::new::<RegisterPrefetch<64, 64, 16>, VectorMac<8, 8>>(5, 0.45, 0.31, 5.0),
    ]
}

/// The blocks for i8 operands, four products at a time.
#[must_use]
pub fn dot4_blocks() -> [BlockRow; 2] {
    [
        BlockRow::new::<RegisterPrefetch<128, 128, 64>, VectorDot4<8, 8>>(2, 2.0, 0.7, 5.0),
        BlockRow::new::<RegisterPrefetch<64, 64, 64>, VectorDot4<8, 8>>(5, 2.1, 0.31, 5.0),
    ]
}

/// The blocks for f16 operands on matrix units.
#[must_use]
pub fn cooperative_blocks() -> [BlockRow; 7] {
    [
        BlockRow::new::<RegisterPrefetch<128, 128, 32>, CooperativeMatrix<64, 64>>(
            2, 6.6, 0.65, 5.0,
        ),
        BlockRow::new::<RegisterPrefetch<128, 256, 32>, CooperativeMatrix<64, 64>>(
            1, 6.3, 1.0, 2.0,
        ),
        BlockRow::new::<RegisterPrefetch<64, 128, 64>, CooperativeMatrix<32, 32>>(1, 3.0, 1.0, 0.5),
        BlockRow::new::<RegisterPrefetch<64, 64, 64>, CooperativeMatrix<32, 32>>(2, 3.2, 0.6, 2.0),
        BlockRow::new::<RegisterPrefetch<64, 64, 128>, CooperativeMatrix<32, 32>>(1, 2.5, 1.0, 1.0),
        BlockRow::new::<RegisterPrefetch<32, 128, 64>, CooperativeMatrix<32, 32>>(2, 1.8, 0.6, 2.0),
        BlockRow::new::<RegisterPrefetch<16, 128, 64>, CooperativeMatrix<16, 32>>(2, 1.0, 0.6, 2.0),
    ]
}

/// The same for sums in f16, which are taken where the caller allows them and the model expects them to be
/// faster: half the registers leave room for larger blocks.
#[must_use]
pub fn cooperative_f16_blocks() -> [BlockRow; 6] {
    [
        BlockRow::new::<RegisterPrefetch<256, 256, 32>, CooperativeMatrixF16<128, 64>>(
            1, 8.4, 1.0, 2.0,
        ),
        BlockRow::new::<RegisterPrefetch<128, 128, 32>, CooperativeMatrixF16<64, 64>>(
            2, 6.6, 0.65, 5.0,
        ),
        BlockRow::new::<RegisterPrefetch<128, 256, 32>, CooperativeMatrixF16<64, 64>>(
            1, 6.3, 1.0, 2.0,
        ),
        BlockRow::new::<RegisterPrefetch<64, 128, 64>, CooperativeMatrixF16<32, 32>>(
            1, 3.0, 1.0, 0.5,
        ),
        BlockRow::new::<RegisterPrefetch<64, 64, 64>, CooperativeMatrixF16<32, 32>>(
            2, 3.2, 0.6, 2.0,
        ),
        BlockRow::new::<RegisterPrefetch<16, 128, 64>, CooperativeMatrixF16<16, 32>>(
            2, 1.0, 0.6, 2.0,
        ),
    ]
}

/// Blocks of few enough products for a software device to compile. It multiplies faster without, so
/// nothing takes them by itself: they are for tests, which hold the kernel that a GPU gets in larger
/// blocks to its results.
fn small_cooperative_blocks(f16_sums: bool) -> [KernelConfig; 2] {
    if f16_sums {
        [
            KernelConfig::of::<RegisterPrefetch<32, 64, 16>, CooperativeMatrixF16<16, 32>>(),
            KernelConfig::of::<RegisterPrefetch<64, 64, 16>, CooperativeMatrixF16<32, 32>>(),
        ]
    } else {
        [
            KernelConfig::of::<RegisterPrefetch<32, 64, 16>, CooperativeMatrix<16, 32>>(),
            KernelConfig::of::<RegisterPrefetch<64, 64, 16>, CooperativeMatrix<32, 32>>(),
        ]
    }
}

/// The policies of every block on the matrix units that a device with these limits lists, with sums in
/// f32 or in f16; none if it lists no such ones.
#[must_use]
pub fn matrix_blocks(limits: &DeviceLimits, f16_sums: bool) -> Vec<KernelConfig> {
    let listed = if f16_sums { limits.cooperative_f16 } else { limits.cooperative };
    match (listed, limits.software) {
        (false, _) => Vec::new(),
        (true, true) => small_cooperative_blocks(f16_sums).to_vec(),
        (true, false) if f16_sums => cooperative_f16_blocks().map(|row| row.config).to_vec(),
        (true, false) => cooperative_blocks().map(|row| row.config).to_vec(),
    }
}

/// Choices, best first; the last one runs wherever anything does. `f16_sums` says whether products may be
/// summed in f16.
pub(super) fn automatic(problem: &Problem, limits: &DeviceLimits, f16_sums: bool) -> Vec<Pick> {
    let tuning = &limits.tuning;
    let (m, n) = (problem.m, problem.n);
    // The vector kernel's loops over a strip are written out, so it has one iteration a strip.
    let too_deep = limits.software && problem.k > SOFTWARE_LOOP_ITERATIONS;
    let halves = problem.a == ElementType::F16
        && matches!(problem.b, ElementType::F16 | ElementType::I8 | ElementType::I4)
        && problem.b_group.is_none();
    let f16_sums = f16_sums && limits.cooperative_f16;
    let listed = (limits.cooperative || f16_sums) && !limits.software;
    let units = listed && halves && problem.k >= 32;
    // Matrix units do sixteen rows in the time of one.
    let matrix_units = units && m.min(n) > 4 && m.max(n) >= 64;
    if !too_deep && !matrix_units && m.min(n) <= tuning.skinny_lines && !shares(problem, limits) {
        let slices = skinny::slices(problem, tuning);
        let cut = if slices > 1 { format!(", K in {slices} slices") } else { String::new() };
        let reason = format!("{m}x{n} outputs: one operand is streamed once{cut}");
        return vec![
            Pick { choice: KernelChoice::Skinny, slices, reason },
            Pick::new(KernelChoice::Naive, format!("{m}x{n} outputs: one thread an output")),
        ];
    }
    // Below 24 rows or columns most threads of a block would lie outside the matrix, but for the split
    // kernel's.
    let fills = matrix_units || any_may_split(problem, limits);
    if m.min(n) < 24 && !too_deep && !fills {
        let why = format!("{m}x{n} outputs do not fill a block: one thread an output");
        return vec![Pick::new(KernelChoice::Naive, why)];
    }
    let mut picks = Vec::new();
    if problem.accumulator() == ElementType::I32 {
        if tuning.dot4 && m.min(n) >= 64 && problem.k >= 64 {
            picks.push(best(problem, limits, &dot4_blocks()));
        }
        picks.push(best(problem, limits, &integer_blocks()));
    } else {
        if matrix_units {
            // Of two that are as fast the first is taken, which is the one with f32 sums.
            let mut rows = Vec::new();
            if limits.cooperative {
                rows.extend(cooperative_blocks());
            }
            if f16_sums {
                rows.extend(cooperative_f16_blocks());
            }
            picks.push(best(problem, limits, &rows));
        }
        picks.push(best(problem, limits, &float_blocks()));
    }
    picks
}

/// The row and number of slices that the model takes least time for.
fn best(problem: &Problem, limits: &DeviceLimits, rows: &[BlockRow]) -> Pick {
    let tuning = &limits.tuning;
    let mut best: Option<(f64, Pick)> = None;
    for row in rows.iter().filter(|row| !splits(row) || may_split(problem, limits, row)) {
        for slices in slice_counts(problem, tuning, row) {
            let seconds = estimate(problem, tuning, row, slices);
            if best.as_ref().is_some_and(|(least, _)| *least <= seconds) {
                continue;
            }
            let [bm, bn] = [row.config.tile.block_tile_m, row.config.tile.block_tile_n];
            let blocks = blocks(problem, row);
            let cut = if slices > 1 { format!(", K in {slices} slices") } else { String::new() };
            let reason = format!(
                "{blocks} blocks of {bm}x{bn}{cut}: least time by the model of a {}, {:.3} ms",
                tuning.class,
                seconds * 1e3
            );
            let choice = KernelChoice::Policy(row.config);
            best = Some((seconds, Pick { choice, slices, reason }));
        }
        let Some((workgroups, seconds)) = stream(problem, tuning, row) else { continue };
        // The model is good to a few percent, and slices are the simpler way.
        if best.as_ref().is_some_and(|(least, _)| 0.95 * *least <= seconds) {
            continue;
        }
        let [bm, bn] = [row.config.tile.block_tile_m, row.config.tile.block_tile_n];
        let reason = format!(
            "{} blocks of {bm}x{bn} shared by {workgroups} workgroups: least time by the model of a {}, \
             {:.3} ms",
            blocks(problem, row),
            tuning.class,
            seconds * 1e3
        );
        let choice = KernelChoice::StreamK { config: row.config, workgroups };
        best = Some((seconds, Pick { choice, slices: 1, reason }));
    }
    best.map_or_else(
        || Pick::new(KernelChoice::Naive, "there is no block".to_owned()),
        |(_, pick)| pick,
    )
}

/// Whether a block's groups of threads share out K.
const fn splits(row: &BlockRow) -> bool {
    row.config.tile.k_groups > 1
}

/// Whether the rows are so many that the skinny kernel has few threads, for want of registers, and the
/// split kernel is faster: eight of f32 take 30 µs and not 36, sixteen 38 and not 60 (4096 columns, K of
/// 4096; `docs/speed.md`). Weights stay with the skinny kernel, which converts each only once.
fn shares(problem: &Problem, limits: &DeviceLimits) -> bool {
    problem.m >= LEAST_SHARED_ROWS
        && problem.m <= problem.n
        && !matches!(problem.b, ElementType::I8 | ElementType::I4)
        && any_may_split(problem, limits)
}

/// Whether some block of the split kernel is worth a look.
fn any_may_split(problem: &Problem, limits: &DeviceLimits) -> bool {
    float_blocks().iter().any(|row| splits(row) && may_split(problem, limits, row))
}

/// Whether the split kernel is worth a look. Its threads share what they load by loading it at once,
/// which takes vectors, and columns of B next to each other.
fn may_split(problem: &Problem, limits: &DeviceLimits, row: &BlockRow) -> bool {
    let a = Lines::of_a(problem.a_layout, problem.batch);
    let b = Lines::of_b(problem.b_layout, problem.batch);
    limits.tuning.groups
        && problem.accumulator() == ElementType::F32
        && row.config.workgroup_threads() <= limits.workgroup_threads
        && row.config.workgroup_bytes() <= limits.workgroup_bytes
        && (a.allows(true, 4) || a.allows(false, 4))
        && b.allows(false, 4)
}

fn blocks(problem: &Problem, row: &BlockRow) -> usize {
    let tile = &row.config.tile;
    let [rows, cols] =
        [problem.m.div_ceil(tile.block_tile_m), problem.n.div_ceil(tile.block_tile_n)];
    rows.saturating_mul(cols).saturating_mul(problem.batch)
}

/// Numbers of slices worth looking at: until the device is full twice over, and of eight strips at
/// least.
fn slice_counts(problem: &Problem, tuning: &Tuning, row: &BlockRow) -> Vec<usize> {
    let mut counts = vec![1];
    // Groups of threads share out K already.
    if tuning.slices && !splits(row) {
        let strips = problem.k / row.config.tile.k_tile_size;
        let full = 2 * tuning.processors * row.resident;
        let most = (strips / 8).min(full / blocks(problem, row).max(1));
        counts.extend((2..=most.min(16)).chain((20..=most).step_by(4)));
    }
    counts
}

/// Workgroups that fill the device once and share all blocks, and the seconds that the model takes.
fn stream(problem: &Problem, tuning: &Tuning, row: &BlockRow) -> Option<(usize, f64)> {
    let tiled = row.config.tile.staging == Staging::Workgroup;
    if !tuning.slices || !tiled || !row.config.compute.multiply.is_vector() {
        return None;
    }
    let tile = &row.config.tile;
    let strips = problem.k.div_ceil(tile.k_tile_size);
    let workgroups = tuning.processors * row.resident;
    let stream = Stream::of(blocks(problem, row), strips, workgroups)?;
    // As with slices: runs of fewer strips are mostly starts and ends.
    if stream.run < 8 {
        return None;
    }
    let outputs = (tile.block_tile_m * tile.block_tile_n) as f64;
    let strip_flops = 2.0 * outputs * tile.k_tile_size as f64;
    // A run starts and ends as many blocks as it touches.
    let (run, strips) = (f64::from(stream.run), f64::from(stream.strips));
    let touched = 1.0 + run / strips;
    let processor = tuning.flops * row.rate / tuning.processors as f64;
    let compute = row.resident as f64 * strip_flops * (run + touched * row.overhead) / processor;
    let elements = problem.m as f64 * problem.n as f64 * problem.batch as f64;
    let parts = 1.0 + strips / run;
    let sums = tuning.dispatch + elements * 4.0 * (2.0 * parts + 1.0) / tuning.bytes;
    Some((workgroups, compute + sums))
}

/// Seconds that the model takes for a problem.
fn estimate(problem: &Problem, tuning: &Tuning, row: &BlockRow, slices: usize) -> f64 {
    let tile = &row.config.tile;
    let strip = tile.k_tile_size;
    let strips = problem.k.div_ceil(strip).div_ceil(slices) as f64 + row.overhead;
    let outputs = (tile.block_tile_m * tile.block_tile_n) as f64;
    let block_flops = 2.0 * outputs * strip as f64 * strips;
    // Of a processor that holds as many blocks as it can.
    let processor = tuning.flops * row.rate / tuning.processors as f64;
    let full = row.resident as f64 * block_flops / processor;
    let each = blocks(problem, row).saturating_mul(slices).div_ceil(tuning.processors);
    let rounds = (each / row.resident) as f64;
    let rest = match each % row.resident {
        0 => 0.0,
        // Fewer blocks than it can hold hide less of each other's waiting.
        some => row.alone + (1.0 - row.alone) * (some - 1) as f64 / (row.resident - 1) as f64,
    };
    let compute = (rounds + rest) * full;
    let outputs = problem.m as f64 * problem.n as f64 * problem.batch as f64;
    let sums = if slices > 1 {
        tuning.dispatch + outputs * 4.0 * (2 * slices + 1) as f64 / tuning.bytes
    } else {
        0.0
    };
    compute + sums
}
