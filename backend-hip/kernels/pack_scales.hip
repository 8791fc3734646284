// The block scales of B into the preshuffle kernel's order, on the device: what PackedScales::pack
// does on the host.
//
//   from   [matrix] [N] [K/32]
//   to     [matrix] [N/64] [K/128] [lane: 64] [4 bytes]       see preshuffle/b_strip.h
//
// One thread gathers the four bytes of one lane. Scales past N and K are zero: they meet zeros only.
#include "common/gpu.h"

#define GLOBAL __attribute__((address_space(1)))

// `backend-hip/src/passes/pack_scales.rs` is the same in Rust.
struct PackScalesArgs {
    GLOBAL const u8* from;
    GLOBAL u32* to;
    u32 n, batch;
    u32 blocks;    // scales a column has: K/32
    u32 steps;     // words a lane has for 64 columns: K/128, padding of B included
    u32 matrices;  // workgroups along y: each takes every `matrices`-th matrix
};

extern "C" __global__ BLOCK_THREADS(256) void pack_scales(PackScalesArgs p) {
    u32 id = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
    u32 lane = id % WAVE, step = id / WAVE % p.steps, group = id / WAVE / p.steps;
    u32 groups = (p.n + 63) / 64;
    if (group >= groups) return;
    u32 block = step * 4 + lane / 16;
    for (u64 batch = __builtin_amdgcn_workgroup_id_y(); batch < p.batch; batch += p.matrices) {
        u32 word = 0;
        UNROLL for (u32 i = 0; i < 4; ++i) {
            u32 column = group * 64 + i * 16 + lane % 16;
            if (column < p.n && block < p.blocks) {
                word |= (u32)p.from[(batch * p.n + column) * p.blocks + block] << 8 * i;
            }
        }
        p.to[((batch * groups + group) * p.steps + step) * WAVE + lane] = word;
    }
}
