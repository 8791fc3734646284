// Step 1, naive: one thread computes one element of C straight from global memory.
//
// A 16×16 workgroup covers a 16×16 patch of C. Every thread walks a whole row of A and a whole
// column of B, so each element of A is fetched by all N threads of its row and each element of B by
// all M threads of its column: 2·M·N·K loads where M·K + K·N would do.
#include "steps/common.h"

extern "C" __global__ BLOCK_THREADS(BM * BN) void gemm(Params p) {
    u32 row = __builtin_amdgcn_workgroup_id_y() * BM + __builtin_amdgcn_workitem_id_y();
    u32 col = __builtin_amdgcn_workgroup_id_x() * BN + __builtin_amdgcn_workitem_id_x();
    u32 batch = __builtin_amdgcn_workgroup_id_z();
    if (row >= p.m || col >= p.n) return;
    float sum = 0;
    for (u32 k = 0; k < p.k; ++k) sum += *at_a(p, batch, row, k) * *at_b(p, batch, k, col);
    store_c(p, batch, row, col, sum);
}
