// A with any strides to rows without gaps that start at multiples of 16 bytes, which is what the
// preshuffle kernel's fast copies read.
//
//   [matrix] [M] [K rounded up to 16 bytes]
//
// One thread gathers the 16 bytes of one chunk; elements past K are zero.
//
//   BITS           of an element: 32, 16, 8 or 4
//   LANES_ALONG_M  1 where rows are closer to each other than elements along K
#include "common/gpu.h"

#define GLOBAL __attribute__((address_space(1)))
typedef long long i64;

// `backend-hip/src/passes/pack_a.rs` is the same in Rust. Strides count elements.
struct PackAArgs {
    GLOBAL const u8* from;
    GLOBAL u8* to;
    i64 row_stride, k_stride, batch_stride;
    u32 m, k, batch;
    u32 chunks;    // of a packed row
    u32 matrices;  // workgroups along y: each takes every `matrices`-th matrix
};

constexpr u32 PER_CHUNK = 128 / BITS;

DEVICE u32 element(const PackAArgs& p, u64 batch, u32 row, u32 k) {
    if (k >= p.k) return 0;
    i64 at = (i64)batch * p.batch_stride + (i64)row * p.row_stride + (i64)k * p.k_stride;
    if constexpr (BITS == 32) return ((GLOBAL const u32*)p.from)[at];
    if constexpr (BITS == 16) return ((GLOBAL const u16*)p.from)[at];
    if constexpr (BITS == 8) return p.from[at];
    return p.from[at >> 1] >> 4 * (at & 1) & 0xf;
}

extern "C" __global__ BLOCK_THREADS(256) void pack_a(PackAArgs p) {
    u32 id = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
    if (id >= p.m * p.chunks) return;
    u32 row = LANES_ALONG_M ? id % p.m : id / p.chunks;
    u32 chunk = LANES_ALONG_M ? id / p.m : id % p.chunks;
    for (u64 batch = __builtin_amdgcn_workgroup_id_y(); batch < p.batch; batch += p.matrices) {
        u32x4 out = {0, 0, 0, 0};
        UNROLL for (u32 i = 0; i < PER_CHUNK; ++i) {
            out[i * BITS / 32] |= element(p, batch, row, chunk * PER_CHUNK + i) << i * BITS % 32;
        }
        ((GLOBAL u32x4*)p.to)[(batch * p.m + row) * p.chunks + chunk] = out;
    }
}
