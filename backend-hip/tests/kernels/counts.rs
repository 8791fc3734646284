//! The hot loops against FlyDSL's, tile by tile; `examples/hip_preshuffle_counts` prints the table.

/// The page of the figures.
const PAGE: &str = include_str!("../../../docs/hip_preshuffle_counts.md");
/// The compiler whose figures they are.
const LLVM: u32 = 22;

#[path = "../../examples/hip_preshuffle_counts/table.rs"]
mod table;

use super::emulate::compiler;
use lapidary_hip::Target;
use rayon::prelude::*;

/// Static figures are no worse than the anchor's, tile by tile, but for the cases named here.
#[test]
fn hot_loops_are_no_worse_than_flydsls() {
    let Some(compiler) = compiler() else { return };
    let measure =
        |row: &table::Row| row.measure(&compiler).unwrap_or_else(|e| panic!("{row:?}: {e}"));
    let figures: Vec<_> = table::ROWS.par_iter().map(measure).collect();
    for (row, found) in table::ROWS.iter().zip(&figures) {
        let anchor = row.anchor;
        let [tile_m, tile_n, _] = row.tile;
        // Tiles of at most 64 columns or 16 rows are bound by the latency of memory on gfx950, whose
        // matrix cores are twice as fast: the model's cycles then differ by where a load is issued.
        let latency_bound = row.target == Target::Gfx950 && (tile_m <= 16 || tile_n <= 64);
        let cycles = if latency_bound { anchor.cycles * 1.15 } else { anchor.cycles };
        assert!(found.cycles <= cycles, "{row:?}: {found:?}");
        // A rolled loop sets M0 once a direct load of 16 bytes a thread, and counts its turns.
        let strip = row.tile[0] * row.config().row_bytes();
        let rolled = if row.direct { 2 * (strip / (16 * 256)) as u32 + 2 } else { 0 };
        assert!(found.instructions <= anchor.instructions + rolled, "{row:?}: {found:?}");
        // The tiles of the worked example hold as many waves.
        if [64, 256] == [tile_m, tile_n] && row.lds_stage == 2 {
            assert!(found.waves >= anchor.waves, "{row:?}: {found:?}");
        }
    }
    if compiler.major() == LLVM {
        let page = table::page(&figures);
        assert!(PAGE == page, "docs/hip_preshuffle_counts.md should be:\n{page}");
    } else {
        println!("skipped: the page is LLVM {LLVM}'s, this is {}", compiler.version());
    }
}
