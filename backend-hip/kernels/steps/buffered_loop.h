// The loop of steps 4 and 5.
#pragma once

extern "C" __global__ BLOCK_THREADS(THREADS) void gemm(Params p) {
    __shared__ Tiles tiles;
    At at = here();
    u32 thread_row = at.tid / (BN / TN) * TM;
    u32 thread_col = at.tid % (BN / TN) * TN;
    u32 strips = (p.k + KT - 1) / KT;

    float acc[TM][TN] = {};
    prologue(p, tiles, at);
    for (u32 t = 0; t < strips; ++t) {
        prefetch(p, tiles, at, t, strips);
        acquire();
        u32 buf = buf_idx(t);
        for (u32 ki = 0; ki < KT; ++ki) {
            float frag_a[TM], frag_b[TN];
            UNROLL for (int i = 0; i < TM; ++i) frag_a[i] = tiles.a[buf][thread_row + i][ki];
            UNROLL for (int j = 0; j < TN; ++j) frag_b[j] = tiles.b_t[buf][thread_col + j][ki];
            UNROLL for (int i = 0; i < TM; ++i) {
                UNROLL for (int j = 0; j < TN; ++j) acc[i][j] += frag_a[i] * frag_b[j];
            }
        }
        release();
    }

    UNROLL for (int i = 0; i < TM; ++i) {
        UNROLL for (int j = 0; j < TN; ++j) {
            u32 row = at.row0 + thread_row + i, col = at.col0 + thread_col + j;
            if (row < p.m && col < p.n) store_c(p, at.batch, row, col, acc[i][j]);
        }
    }
}
