// Step 2, workgroup tiling: a strip of A and of B is loaded to LDS once and shared by the workgroup.
//
//        K strip                      tile_a    KT wide: one row a thread row
//      ┌────┐                         tile_b    BN wide: one column a thread column
//   BM │ A  │   K strip ┌────┐
//      └────┘           │ B  │  BN    A 16×16 workgroup reads 2·256 elements a strip and uses each
//                       └────┘        of them 16 times.
//
// Bank conflicts: threads of one row read the same word of tile_a (a broadcast) and neighbouring
// words of tile_b, so this layout has none.
#include "steps/common.h"

extern "C" __global__ BLOCK_THREADS(BM * BN) void gemm(Params p) {
    __shared__ float tile_a[BM][KT];
    __shared__ float tile_b[KT][BN];
    u32 x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y();
    u32 row = __builtin_amdgcn_workgroup_id_y() * BM + y;
    u32 col = __builtin_amdgcn_workgroup_id_x() * BN + x;
    u32 batch = __builtin_amdgcn_workgroup_id_z();

    float sum = 0;
    for (u32 k0 = 0; k0 < p.k; k0 += KT) {
        // Each thread loads one element of each tile; what lies outside the matrices is 0.
        if (x < KT) tile_a[y][x] = load_a_or_zero(p, batch, row, k0 + x);
        if (y < KT) tile_b[y][x] = load_b_or_zero(p, batch, k0 + y, col);
        barrier();
        for (u32 ki = 0; ki < KT; ++ki) sum += tile_a[y][ki] * tile_b[ki][x];
        // Nobody may overwrite a tile that another thread still reads.
        barrier();
    }
    if (row < p.m && col < p.n) store_c(p, batch, row, col, sum);
}
