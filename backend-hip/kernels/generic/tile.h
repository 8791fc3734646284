// TilePolicies. TILE_POLICY picks one: 0 SingleBuffer, 1 SoftwareDoubleBuffer, 2 DirectLoad.
//
// A policy has K_TILE_SIZE, Shared (the tiles, B's transposed) and the hooks of step 4.
#pragma once

#include "steps/vector_load.h"

template <int BUFFERS>
struct Tiles {
    Elem a[BUFFERS][BM][KT];
    Elem b_t[BUFFERS][BN][KT];
};

// Copies strip t into one pair of tiles, A by vectors of W, B element by element; zeros outside the
// matrices.
template <int BUFFERS>
DEVICE void copy_strip(const Params& p, Tiles<BUFFERS>& tiles, At at, u32 t, u32 buf) {
    u32 k0 = t * KT;
    load_a_vectors(p, tiles.a[buf], at, k0);
    for (u32 i = at.tid; i < BN * KT; i += THREADS) {
        tiles.b_t[buf][i / KT][i % KT] =
            load_b_or_zero(p, at.batch, k0 + i % KT, at.col0 + i / KT);
    }
}

// One pair of tiles: load strip t, wait, multiply, wait.
struct SingleBuffer {
    static constexpr u32 K_TILE_SIZE = KT;
    typedef Tiles<1> Shared;
    static DEVICE void prologue(const Params&, Shared&, At) {}
    static DEVICE void prefetch(const Params& p, Shared& s, At at, u32 t, u32) {
        copy_strip(p, s, at, t, 0);
    }
    static DEVICE void acquire() { barrier(); }
    static DEVICE void release() { barrier(); }
    static DEVICE u32 buf_idx(u32) { return 0; }
};

// Two pairs: strip t + 1 is loaded while strip t is multiplied.
struct SoftwareDoubleBuffer {
    static constexpr u32 K_TILE_SIZE = KT;
    typedef Tiles<2> Shared;
    static DEVICE void prologue(const Params& p, Shared& s, At at) {
        copy_strip(p, s, at, 0, 0);
        barrier();
    }
    static DEVICE void prefetch(const Params& p, Shared& s, At at, u32 t, u32 strips) {
        if (t + 1 < strips) copy_strip(p, s, at, t + 1, (t + 1) % 2);
    }
    static DEVICE void acquire() {}
    static DEVICE void release() { barrier(); }
    static DEVICE u32 buf_idx(u32 t) { return t % 2; }
};

// One pair of tiles, filled past the registers: a lane's four bytes go from global memory to LDS.
//
// The hardware writes lane l of a wave to a wave-uniform address + 4·l, so a wave fills 64 words of
// a tile in order, and a tile is BM·KT/64 such pieces dealt to the waves in turn. Lanes outside the
// matrices take no part and store a zero instead. The barrier of `acquire` waits for the loads.
#if TILE_POLICY == 2
struct DirectLoad {
    static constexpr u32 K_TILE_SIZE = KT;
    typedef Tiles<1> Shared;
    static_assert(W == 1, "a lane of a direct load moves one element");
    static_assert(sizeof(Elem) == 4, "a lane of a direct load moves four bytes");
    static_assert(BM * KT % WAVE == 0 && BN * KT % WAVE == 0, "a wave fills 64 words at a time");

    // `outer` counts rows of A, or columns of B: the tile's first index.
    static DEVICE void piece(GLOBAL const Elem* from, bool inside, Elem* tile, u32 first, u32 lane) {
        if (inside) {
            __builtin_amdgcn_global_load_lds((GLOBAL void*)from,
                                             (__attribute__((address_space(3))) void*)(tile + first),
                                             4, 0, 0);
        }
        // Away from the borders no lane is outside, and the store is not issued at all.
        if (__builtin_amdgcn_ballot_w64(!inside) != 0) {
            if (!inside) tile[first + lane] = 0;
        }
    }

    static DEVICE void prologue(const Params&, Shared&, At) {}
    static DEVICE void prefetch(const Params& p, Shared& s, At at, u32 t, u32) {
        u32 wave = uniform(at.tid / WAVE), lane = at.tid % WAVE;
        for (u32 first = wave * WAVE; first < BM * KT; first += THREADS) {
            u32 row = at.row0 + (first + lane) / KT, k = t * KT + (first + lane) % KT;
            piece(at_a(p, at.batch, row, k), row < p.m && k < p.k, &s.a[0][0][0], first, lane);
        }
        for (u32 first = wave * WAVE; first < BN * KT; first += THREADS) {
            u32 col = at.col0 + (first + lane) / KT, k = t * KT + (first + lane) % KT;
            piece(at_b(p, at.batch, k, col), col < p.n && k < p.k, &s.b_t[0][0][0], first, lane);
        }
    }
    static DEVICE void acquire() { barrier(); }
    static DEVICE void release() { barrier(); }
    static DEVICE u32 buf_idx(u32) { return 0; }
};
typedef DirectLoad TilePolicy;
#elif TILE_POLICY == 1
typedef SoftwareDoubleBuffer TilePolicy;
#else
typedef SingleBuffer TilePolicy;
#endif
