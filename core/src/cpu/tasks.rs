//! C cut into blocks that threads write without sharing.

use core::ops::Range;

use faer::MatMut;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

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

/// Cuts the matrix at `place` in `c`, which [`is_row_major`], into blocks and runs `body` on each,
/// in parallel, in waves of whole rows of blocks; `progress` is called between waves.
pub(super) fn for_each<T: Send, W: Default>(
    pool: Option<&rayon::ThreadPool>,
    c: &mut [T],
    place: &Placement,
    [block_rows, block_cols]: [usize; 2],
    k: usize,
    progress: &dyn Fn(Progress),
    body: impl Fn(&mut W, Task<'_, T>) + Sync,
) {
    let Shape { batch, rows, cols } = place.shape;
    let multiplications = batch as f64 * rows as f64 * cols as f64 * (k as f64).max(1.0);
    let panel = block_rows.min(rows) as f64 * cols as f64 * (k as f64).max(1.0);
    let blocks = cols.div_ceil(block_cols).max(1);
    let per_wave = ((PER_REPORT / panel) as usize).min(MAX_BLOCKS / blocks).max(1);
    let total = (batch * rows.div_ceil(block_rows)) as u64;
    let mut done: u64 = 0;
    let mut serial = W::default();
    let mut wave = Vec::new();
    let mut panels = panels(c, place, block_rows).peekable();
    while let Some(panel) = panels.next() {
        cut(panel, block_cols, place, &mut wave);
        done += 1;
        if panels.peek().is_some() && !done.is_multiple_of(per_wave as u64) {
            continue;
        }
        let tasks = core::mem::take(&mut wave);
        if multiplications < SERIAL || tasks.len() == 1 {
            for task in tasks {
                body(&mut serial, task);
            }
        } else {
            let run = || {
                tasks.into_par_iter().for_each_init(W::default, |workspace, task| {
                    body(workspace, task);
                });
            };
            match pool {
                Some(pool) => pool.install(run),
                None => run(),
            }
        }
        progress(Progress { done, total });
    }
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
                for_each(None, &mut storage, &place, [4, 3], 1 << 40, &progress, body);
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
