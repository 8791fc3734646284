//! Which elements to check where all would take too long.

use std::collections::BTreeSet;

use super::Position;
use crate::problem::Problem;
use crate::random::Random;

/// At least `at_least` distinct positions of C (all of them if there are no more), in order.
///
/// They include the four corners of the first and the last matrix and, in both, one element of
/// every tile of `block_tile` rows × columns on the border of C, where kernels guard their loads and
/// stores; a side of 0 stands for the whole side. The rest is spread uniformly over all matrices.
#[must_use]
pub fn sample_positions(
    problem: &Problem,
    block_tile: [usize; 2],
    at_least: usize,
    seed: u64,
) -> Vec<Position> {
    if problem.is_empty() {
        return Vec::new();
    }
    let (batch, m, n) = (problem.batch, problem.m, problem.n);
    let total = problem.c_shape().len().unwrap_or(usize::MAX);
    if at_least >= total {
        return (0..total)
            .map(|i| Position { batch: i / (m * n), row: i / n % m, col: i % n })
            .collect();
    }
    let mut random = Random::new(seed);
    let mut chosen = BTreeSet::new();
    let tile_m = if block_tile[0] == 0 { m } else { block_tile[0] };
    let tile_n = if block_tile[1] == 0 { n } else { block_tile[1] };
    let (tiles_m, tiles_n) = (m.div_ceil(tile_m), n.div_ceil(tile_n));
    let border = (0..tiles_m)
        .flat_map(|i| [(i, 0), (i, tiles_n - 1)])
        .chain((0..tiles_n).flat_map(|j| [(0, j), (tiles_m - 1, j)]));
    for (i, j) in border {
        for batch in [0, batch - 1] {
            let row = i * tile_m + random.below(tile_m.min(m - i * tile_m));
            let col = j * tile_n + random.below(tile_n.min(n - j * tile_n));
            chosen.insert(Position { batch, row, col });
        }
    }
    for batch in [0, batch - 1] {
        for (row, col) in [(0, 0), (0, n - 1), (m - 1, 0), (m - 1, n - 1)] {
            chosen.insert(Position { batch, row, col });
        }
    }
    while chosen.len() < at_least {
        chosen.insert(Position {
            batch: random.below(batch),
            row: random.below(m),
            col: random.below(n),
        });
    }
    chosen.into_iter().collect()
}
