// Which tile of C a workgroup computes.
//
// Workgroups go round-robin to the XCDs of a chip, 8 of them, each with its own L2. Taken in order,
// neighbouring tiles land on different XCDs and every L2 fetches nearly all of A and B. So workgroup
// i, which runs on XCD i mod 8, is given its place in that XCD's own contiguous share of the tiles,
// and the share is walked XCD_GROUP rows of tiles at a time, M first:
//
//            tiles along N →                     XCD_GROUP = 2
//        ┌───┬───┬───┬───┐
//   M ↓  │ 0 │ 2 │ 4 │ 6 │
//        │ 1 │ 3 │ 5 │ 7 │
//        ├───┼───┼───┼───┤
//        │ 8 │10 │12 │14 │
//
// Both maps are bijective for every grid: shares differ by at most one tile, and the last group of
// rows may be smaller. `src/preshuffle/order.rs` is the same in Rust, with a test of that.
#pragma once

struct Tile {
    u32 m, n;
};

constexpr u32 XCDS = 8;

DEVICE Tile tile_of(const Args& args, u32 id) {
    u32 tiles_m = args.tiles_m, tiles_n = args.tiles_n;
    if constexpr (XCD_GROUP == 0) {
        u32 n = uniform(id / tiles_m);
        return Tile{uniform(id - n * tiles_m), n};
    } else {
        u32 total = tiles_m * tiles_n;
        u32 share = total / XCDS, larger = total % XCDS;
        u32 xcd = id % XCDS;
        u32 place = xcd * share + (xcd < larger ? xcd : larger) + id / XCDS;
        u32 group_tiles = XCD_GROUP * tiles_n;
        u32 group = uniform(place / group_tiles);
        u32 first = group * XCD_GROUP;
        u32 rows = tiles_m - first < XCD_GROUP ? tiles_m - first : XCD_GROUP;
        u32 within = place - group * group_tiles;
        u32 n = uniform(within / rows);
        return Tile{uniform(first + within - n * rows), n};
    }
}
