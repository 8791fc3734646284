// Step 6, occupancy: the compiler told how many waves a SIMD is to hold.
//
// A thread's registers decide how many waves a SIMD can hold: 512 registers on CDNA, handed out in
// eights. The kernel is the single buffer of step 4 with step 5's vector loads; only the hint differs:
//
//   MIN_WAVES  MAX_WAVES   as in HIP                      asks for
//   -          -           no attribute                   what the compiler thinks best
//   2          -           __launch_bounds__(256, 2)      at least 2 waves a SIMD
//   2          4           amdgpu_waves_per_eu(2, 4)      2 to 4: no registers saved for more
//
// A hint that leaves too few registers makes the compiler spill to scratch memory; the registers,
// scratch and waves that each variant got are in its code object.
#include "steps/common.h"
#include "steps/vector_load.h"

#if defined(MAX_WAVES)
#define HINTED BLOCK_THREADS(THREADS) __attribute__((amdgpu_waves_per_eu(MIN_WAVES, MAX_WAVES)))
#elif defined(MIN_WAVES)
#define HINTED BLOCK_THREADS(THREADS) WAVES_PER_SIMD(MIN_WAVES)
#else
#define HINTED BLOCK_THREADS(THREADS)
#endif

extern "C" __global__ HINTED void gemm(Params p) {
    __shared__ float tile_a[BM][KT];
    __shared__ float tile_b_t[BN][KT];
    At at = here();
    u32 thread_row = at.tid / (BN / TN) * TM;
    u32 thread_col = at.tid % (BN / TN) * TN;

    float acc[TM][TN] = {};
    for (u32 k0 = 0; k0 < p.k; k0 += KT) {
        load_a_vectors(p, tile_a, at, k0);
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
