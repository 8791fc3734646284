// The five hooks of step 4, for one or two pairs of tiles. The includer defines Tiles and load_tile.
//
//   prologue   before the loop
//   prefetch   start the load of a strip
//   acquire    make the strip about to be read visible
//   release    allow its buffer to be overwritten
//   buf_idx    which buffer strip t lives in
#pragma once

#if NUM_BUFFERS == 1
// One pair of tiles: load strip t, wait, multiply, wait.
DEVICE void prologue(const Params&, Tiles&, At) {}
DEVICE void prefetch(const Params& p, Tiles& tiles, At at, u32 t, u32) {
    load_tile(p, tiles, at, t, 0);
}
DEVICE void acquire() { barrier(); }
DEVICE void release() { barrier(); }
DEVICE u32 buf_idx(u32) { return 0; }
#else
// Two pairs: strip t + 1 is loaded into one while strip t is multiplied from the other. One barrier
// a strip: after it, the buffer just read is free and the one just filled is visible.
DEVICE void prologue(const Params& p, Tiles& tiles, At at) {
    load_tile(p, tiles, at, 0, 0);
    barrier();
}
DEVICE void prefetch(const Params& p, Tiles& tiles, At at, u32 t, u32 strips) {
    if (t + 1 < strips) load_tile(p, tiles, at, t + 1, (t + 1) % 2);
}
DEVICE void acquire() {}
DEVICE void release() { barrier(); }
DEVICE u32 buf_idx(u32 t) { return t % 2; }
#endif
