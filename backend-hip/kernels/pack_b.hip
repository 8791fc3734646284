// B into the preshuffled layout, on the device: what PackedB::pack does on the host.
//
//   [N/16] [K bytes/64] [g: 4] [r: 16] [16 bytes]       see preshuffle/b_strip.h
//
// One thread gathers one lane's 16 bytes, so a wave writes one block. Elements past N and K are zero.
//
//   BITS    of an element: 32, 16, 8 or 4
//   IS_I4   4-bit integers, whose order is that of an 8-bit operand (src/preshuffle/pack.rs)
#include "common/gpu.h"

#define GLOBAL __attribute__((address_space(1)))
typedef long long i64;

// `backend-hip/src/preshuffle/device_pack.rs` is the same in Rust. Strides count elements.
struct PackArgs {
    GLOBAL const u8* from;
    GLOBAL u8* to;
    i64 k_stride, n_stride, batch_stride;
    u32 k, n;
    u32 blocks;  // 64-byte blocks along K, padding included
    u32 groups;  // groups of 16 columns
};

constexpr int PER_CHUNK = 128 / BITS;

// Which k element `i` of chunk `g` of a block is.
DEVICE u32 k_of(u32 block, u32 g, u32 i) {
    if constexpr (IS_I4) {
        // Nibble i: byte i / 2 of the chunk, eight bytes a half; byte j of four holds j and 4 + j.
        u32 byte = i / 2, half = byte / 8, within = byte % 8;
        return block * 128 + half * 64 + g * 16 + within / 4 * 8 + within % 4 + i % 2 * 4;
    } else {
        return block * 4 * PER_CHUNK + g * PER_CHUNK + i;
    }
}

DEVICE u32 element(const PackArgs& p, u32 batch, u32 k, u32 n) {
    if (k >= p.k || n >= p.n) return 0;
    i64 at = batch * p.batch_stride + k * p.k_stride + n * p.n_stride;
    if constexpr (BITS == 32) return ((GLOBAL const u32*)p.from)[at];
    if constexpr (BITS == 16) return ((GLOBAL const u16*)p.from)[at];
    if constexpr (BITS == 8) return p.from[at];
    return p.from[at >> 1] >> 4 * (at & 1) & 0xf;
}

extern "C" __global__ BLOCK_THREADS(256) void pack_b(PackArgs p) {
    u32 chunk = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
    u32 batch = __builtin_amdgcn_workgroup_id_y();
    u32 r = chunk % 16, g = chunk / 16 % 4, block = chunk / 64 % p.blocks;
    u32 group = chunk / 64 / p.blocks;
    if (group >= p.groups) return;
    u32x4 out = {0, 0, 0, 0};
    UNROLL for (int i = 0; i < PER_CHUNK; ++i) {
        out[i * BITS / 32] |= element(p, batch, k_of(block, g, i), group * 16 + r)
                              << i * BITS % 32;
    }
    u64 matrix = (u64)p.groups * p.blocks * 64;
    ((GLOBAL u32x4*)p.to)[batch * matrix + chunk] = out;
}
