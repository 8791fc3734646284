//! C cut into blocks that threads write without sharing.

use core::ops::Range;

use faer::MatMut;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};

use crate::backend::Progress;
use crate::layout::{Placement, Shape};

/// One block of C, row by row.
pub(super) struct Task<'c, T> {
    pub(super) batch: usize,
    pub(super) rows: Range<usize>,
    pub(super) cols: Range<usize>,
    /// The block's elements.
    pub(super) out: MatMut<'c, T>,
}

impl<T> Task<'_, T> {
    /// Calls `f` with the index of each row and the block's part of it.
    pub(super) fn for_each_row(self, mut f: impl FnMut(usize, &mut [T])) {
        for (row, out) in self.rows.zip(self.out.row_iter_mut()) {
            // Blocks are parts of rows without gaps.
            if let Some(out) = out.try_as_row_major_mut() {
                f(row, out.as_slice_mut());
            }
        }
    }
}

/// Products below this many multiplications run on the calling thread: waking others costs more.
const SERIAL: f64 = 1e6;

/// Multiplications between two reports of progress.
const PER_REPORT: f64 = 4e9;

/// Blocks handed out in one wave.
const MAX_BLOCKS: usize = 1 << 16;

/// Whether rows lie one after the other, each without gaps, matrix after matrix.
pub(super) fn is_row_major(place: &Placement) -> bool {
    let Shape { batch, rows, cols } = place.shape;
    let row = if rows == 1 { cols as i128 } else { place.layout.row_stride as i128 };
    let matrix = (rows as i128 - 1) * row + cols as i128;
    (place.layout.col_stride == 1 || cols == 1)
        && row >= cols as i128
        && (batch == 1 || place.layout.batch_stride as i128 >= matrix)
}

/// Blocks of C that are handed out together, in whole rows of blocks.
pub(super) struct Wave<'c, T> {
    pub(super) tasks: Vec<Task<'c, T>>,
    /// Whether the product is worth waking other threads.
    parallel: bool,
}

impl<T: Send> Wave<'_, T> {
    /// Runs `body` on each task, with a workspace a thread.
    pub(super) fn run<W>(
        self,
        pool: Option<&rayon::ThreadPool>,
        workspace: impl Fn() -> W + Sync + Send,
        body: impl Fn(&mut W, Task<'_, T>) + Sync + Send,
    ) {
        let Self { tasks, parallel } = self;
        if !parallel || tasks.len() == 1 {
            let mut serial = workspace();
            for task in tasks {
                body(&mut serial, task);
            }
        } else {
            within(pool, || {
                tasks.into_par_iter().with_max_len(1).for_each_init(workspace, body);
            });
        }
    }
}

/// Runs `f` on the pool, or, without one, where its parallel parts find the process's own.
pub(super) fn within(pool: Option<&rayon::ThreadPool>, f: impl FnOnce() + Send) {
    match pool {
        Some(pool) => pool.install(f),
        None => f(),
    }
}

/// Cuts the matrix at `place` in `c`, which [`is_row_major`], into blocks and hands them to `run` in
/// waves, each of one matrix if `by_matrix` says so; `progress` is called between waves.
pub(super) fn for_each_wave<'c, T>(
    c: &'c mut [T],
    place: &Placement,
    [block_rows, block_cols]: [usize; 2],
    k: usize,
    by_matrix: bool,
    progress: &dyn Fn(Progress),
    mut run: impl FnMut(Wave<'c, T>),
) {
    let Shape { batch, rows, cols } = place.shape;
    let parallel = is_worth_sharing(place.shape, k);
    let panel = block_rows.min(rows) as f64 * cols as f64 * (k as f64).max(1.0);
    let blocks = cols.div_ceil(block_cols).max(1);
    let per_wave = ((PER_REPORT / panel) as usize).min(MAX_BLOCKS / blocks).max(1);
    let total = (batch * rows.div_ceil(block_rows)) as u64;
    let (mut done, mut in_wave) = (0, 0);
    let mut tasks = Vec::new();
    let mut panels = panels(c, place, block_rows).peekable();
    while let Some(panel) = panels.next() {
        let batch = panel.batch;
        cut(panel, block_cols, place, &mut tasks);
        (done, in_wave) = (done + 1, in_wave + 1);
        let last = match panels.peek() {
            Some(next) => in_wave == per_wave || (by_matrix && next.batch != batch),
            None => true,
        };
        if last {
            run(Wave { tasks: core::mem::take(&mut tasks), parallel });
            progress(Progress { done, total });
            in_wave = 0;
        }
    }
}

/// Whether a product over `k` is large enough to wake other threads for.
pub(super) fn is_worth_sharing(shape: Shape, k: usize) -> bool {
    let Shape { batch, rows, cols } = shape;
    batch as f64 * rows as f64 * cols as f64 * (k as f64).max(1.0) >= SERIAL
}

/// Rows of one matrix: which, and the storage from the first element to the last.
struct Panel<'c, T> {
    batch: usize,
    rows: Range<usize>,
    storage: &'c mut [T],
}

/// The panels of `block` rows of a row-major placement, one after the other.
fn panels<'c, T>(
    c: &'c mut [T],
    place: &Placement,
    block: usize,
) -> impl Iterator<Item = Panel<'c, T>> + use<'c, T> {
    let Placement { offset, shape: Shape { batch, rows, cols }, layout } = *place;
    let mut rest = c;
    // Elements of the storage that lie before `rest`.
    let mut passed = 0;
    (0..batch).flat_map(move |batch| (0..rows).step_by(block).map(move |row| (batch, row))).map(
        move |(batch, row)| {
            let rows = row..rows.min(row + block);
            let start = (offset as i128 + layout.index(batch, row, 0)) as usize;
            let len = (rows.len() - 1) * layout.row_stride.unsigned_abs() + cols;
            let (_, tail) = core::mem::take(&mut rest).split_at_mut(start - passed);
            let (storage, tail) = tail.split_at_mut(len);
            rest = tail;
            passed = start + len;
            Panel { batch, rows, storage }
        },
    )
}

/// Adds the tasks of a panel, blocks of `block` columns, to `tasks`.
fn cut<'c, T>(panel: Panel<'c, T>, block: usize, place: &Placement, tasks: &mut Vec<Task<'c, T>>) {
    let Panel { batch, rows, storage } = panel;
    let cols = place.shape.cols;
    let pitch = place.layout.row_stride.unsigned_abs().max(cols);
    // faer 0.24.4 exchanges the strides of its row-major constructor.
    let columns = MatMut::from_column_major_slice_with_stride_mut(storage, cols, rows.len(), pitch);
    let mut rest = columns.transpose_mut();
    for col in (0..cols).step_by(block) {
        let cols = col..cols.min(col + block);
        let (out, tail) = rest.split_at_col_mut(cols.len());
        rest = tail;
        tasks.push(Task { batch, rows: rows.clone(), cols, out });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Arrangement;
    use std::cell::RefCell;

    #[test]
    fn blocks_cover_the_matrix_once_and_nothing_else() {
        for arrangement in [Arrangement::Dense, Arrangement::RowMajor, Arrangement::Padded] {
            for (batch, rows, cols) in [(1, 1, 1), (2, 1, 9), (3, 9, 1), (2, 10, 11), (1, 4, 8)] {
                let (place, len) = arrangement.place(Shape { batch, rows, cols });
                assert!(is_row_major(&place));
                let mut storage = vec![0u32; len];
                let reports = RefCell::new(Vec::new());
                let progress = |report: Progress| reports.borrow_mut().push(report.done);
                // K so large that every row of blocks is a wave of its own.
                let body = |_: &mut (), task: Task<'_, u32>| {
                    assert_eq!(task.out.nrows(), task.rows.len());
                    let (batch, cols) = (task.batch, task.cols.clone());
                    task.for_each_row(|row, out| {
                        assert_eq!(out.len(), cols.len());
                        for (col, out) in cols.clone().zip(out) {
                            *out += 1 + (batch * 10_000 + row * 100 + col) as u32;
                        }
                    });
                };
                let run = |wave: Wave<'_, u32>| wave.run(None, || (), body);
                for_each_wave(&mut storage, &place, [4, 3], 1 << 40, false, &progress, run);
                let panels = (batch * rows.div_ceil(4)) as u64;
                assert_eq!(reports.into_inner(), (1..=panels).collect::<Vec<_>>());
                let mut expected = vec![0; len];
                for b in 0..batch {
                    for r in 0..rows {
                        for c in 0..cols {
                            let index = place.offset as i128 + place.layout.index(b, r, c);
                            expected[index as usize] = 1 + (b * 10_000 + r * 100 + c) as u32;
                        }
                    }
                }
                assert_eq!(storage, expected, "{arrangement:?} {batch}x{rows}x{cols}");
            }
        }
    }

    #[test]
    fn waves_keep_to_one_matrix_where_they_must() {
        let (place, len) = Arrangement::Dense.place(Shape { batch: 3, rows: 10, cols: 4 });
        for (by_matrix, expected) in [(false, vec![9]), (true, vec![3, 3, 3])] {
            let mut waves = Vec::new();
            let mut storage = vec![0u32; len];
            for_each_wave(&mut storage, &place, [4, 4], 1, by_matrix, &|_| {}, |wave| {
                waves.push(wave.tasks.len());
            });
            assert_eq!(waves, expected);
        }
    }

    #[test]
    fn other_arrangements_are_not_row_major() {
        let shape = Shape { batch: 2, rows: 3, cols: 4 };
        for arrangement in [
            Arrangement::ColMajor,
            Arrangement::PaddedColMajor,
            Arrangement::Spread,
            Arrangement::ReversedRows,
            Arrangement::ReversedCols,
        ] {
            assert!(!is_row_major(&arrangement.place(shape).0), "{arrangement:?}");
        }
    }
}
