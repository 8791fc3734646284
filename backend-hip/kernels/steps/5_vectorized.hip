// Step 5, vector loads: the double buffer of step 4 with A fetched W elements an instruction.
//
// A's elements are adjacent along k, so a thread can fetch W = 2 or 4 of them at once: the same
// bytes through the caches, fewer instructions. B is read along k, N elements apart, and stays
// scalar.
#include "steps/common.h"
#include "steps/vector_load.h"

struct Tiles {
    float a[NUM_BUFFERS][BM][KT];
    float b_t[NUM_BUFFERS][BN][KT];
};

DEVICE void load_tile(const Params& p, Tiles& tiles, At at, u32 t, u32 buf) {
    u32 k0 = t * KT;
    load_a_vectors(p, tiles.a[buf], at, k0);
    for (u32 i = at.tid; i < BN * KT; i += THREADS) {
        tiles.b_t[buf][i / KT][i % KT] =
            load_b_or_zero(p, at.batch, k0 + i % KT, at.col0 + i / KT);
    }
}

#include "steps/buffers.h"
#include "steps/buffered_loop.h"
