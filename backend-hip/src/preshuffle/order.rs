//! Which tile a workgroup computes: `preshuffle/order.h` in Rust.

/// XCDs of MI300 and MI350.
const XCDS: usize = 8;

/// The tile (row of tiles, column of tiles) that workgroup `id` computes.
///
/// `group` is [`PreshuffleConfig::xcd_group`](super::PreshuffleConfig::xcd_group): 0 walks tiles in
/// order, M first.
#[must_use]
pub fn tile_of(id: usize, tiles_m: usize, tiles_n: usize, group: usize) -> (usize, usize) {
    if group == 0 {
        return (id % tiles_m, id / tiles_m);
    }
    let total = tiles_m * tiles_n;
    let (share, larger) = (total / XCDS, total % XCDS);
    let xcd = id % XCDS;
    let place = xcd * share + xcd.min(larger) + id / XCDS;
    let group_tiles = group * tiles_n;
    let first = place / group_tiles * group;
    let rows = (tiles_m - first).min(group);
    let within = place % group_tiles;
    (first + within % rows, within / rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_is_computed_once_for_every_grid() {
        for group in [0, 1, 2, 3, 4, 8] {
            for tiles_m in 1..40 {
                for tiles_n in 1..24 {
                    let mut seen = vec![false; tiles_m * tiles_n];
                    for id in 0..tiles_m * tiles_n {
                        let (m, n) = tile_of(id, tiles_m, tiles_n, group);
                        assert!(m < tiles_m && n < tiles_n);
                        assert!(!core::mem::replace(&mut seen[n * tiles_m + m], true));
                    }
                }
            }
        }
    }

    #[test]
    fn an_xcd_walks_a_contiguous_share() {
        // Workgroups 0, 8, 16, … of an XCD are neighbours within a group of two rows.
        let tiles: Vec<_> = (0..4).map(|i| tile_of(i * XCDS, 4, 16, 2)).collect();
        assert_eq!(tiles, [(0, 0), (1, 0), (0, 1), (1, 1)]);
    }
}
