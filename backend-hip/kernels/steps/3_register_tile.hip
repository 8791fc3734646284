// Step 3, register tiling: every thread keeps a TM×TN patch of C in registers.
//
// For each k a thread reads TM values of A and TN of B from LDS and does TM·TN multiply-adds with
// them: 64 for 16 reads instead of 1 for 2.
//
//   block BM×BN, threads along N first:   ┌──┬──┬──┬──┐
//                                         │t0│t1│ …│  │  each cell TM×TN
//                                         ├──┼──┼──┼──┤
//                                         │  │  │  │  │
//                                         └──┴──┴──┴──┘
//
// B's tile is stored transposed, so that both fragments step along k with stride 1.
#include "steps/common.h"

extern "C" __global__ BLOCK_THREADS(THREADS) void gemm(Params p) {
    __shared__ float tile_a[BM][KT];
    __shared__ float tile_b_t[BN][KT];
    At at = here();
    u32 thread_row = at.tid / (BN / TN) * TM;
    u32 thread_col = at.tid % (BN / TN) * TN;

    float acc[TM][TN] = {};
    for (u32 k0 = 0; k0 < p.k; k0 += KT) {
        for (u32 i = at.tid; i < BM * KT; i += THREADS) {
            tile_a[i / KT][i % KT] = load_a_or_zero(p, at.batch, at.row0 + i / KT, k0 + i % KT);
        }
        for (u32 i = at.tid; i < BN * KT; i += THREADS) {
            tile_b_t[i / KT][i % KT] = load_b_or_zero(p, at.batch, k0 + i % KT, at.col0 + i / KT);
        }
        barrier();
        for (u32 ki = 0; ki < KT; ++ki) {
            float frag_a[TM], frag_b[TN];
            UNROLL for (int i = 0; i < TM; ++i) frag_a[i] = tile_a[thread_row + i][ki];
            UNROLL for (int j = 0; j < TN; ++j) frag_b[j] = tile_b_t[thread_col + j][ki];
            UNROLL for (int i = 0; i < TM; ++i) {
                UNROLL for (int j = 0; j < TN; ++j) acc[i][j] += frag_a[i] * frag_b[j];
            }
        }
        barrier();
    }

    UNROLL for (int i = 0; i < TM; ++i) {
        UNROLL for (int j = 0; j < TN; ++j) {
            u32 row = at.row0 + thread_row + i, col = at.col0 + thread_col + j;
            if (row < p.m && col < p.n) store_c(p, at.batch, row, col, acc[i][j]);
        }
    }
}
