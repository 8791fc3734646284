// Step 4, buffering: the same arithmetic as step 3, with the movement of tiles behind five hooks
// (steps/buffers.h), for NUM_BUFFERS = 1 and 2; this file is the same for both.
#include "steps/common.h"

struct Tiles {
    float a[NUM_BUFFERS][BM][KT];
    float b_t[NUM_BUFFERS][BN][KT];
};

DEVICE void load_tile(const Params& p, Tiles& tiles, At at, u32 t, u32 buf) {
    u32 k0 = t * KT;
    for (u32 i = at.tid; i < BM * KT; i += THREADS) {
        tiles.a[buf][i / KT][i % KT] =
            load_a_or_zero(p, at.batch, at.row0 + i / KT, k0 + i % KT);
    }
    for (u32 i = at.tid; i < BN * KT; i += THREADS) {
        tiles.b_t[buf][i / KT][i % KT] =
            load_b_or_zero(p, at.batch, k0 + i % KT, at.col0 + i / KT);
    }
}

#include "steps/buffers.h"
#include "steps/buffered_loop.h"
