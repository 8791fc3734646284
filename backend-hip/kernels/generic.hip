// Step 7, the generic kernel: one orchestration for every pair of policies.
//
// A TilePolicy moves data: tile shape, buffers, where barriers go (generic/tile.h). A ComputePolicy
// multiplies: which outputs a thread owns, and what one multiply-accumulate is made of
// (generic/compute.h). Nothing in this file knows either.
#include "steps/common.h"
#include "generic/tile.h"
#include "generic/compute.h"

template <typename Tile, typename Compute>
DEVICE void multiply(const Params& p, typename Tile::Shared& shared, At at) {
    static_assert(Tile::K_TILE_SIZE % Compute::K_STEP == 0,
                  "K_TILE_SIZE must be a multiple of K_STEP: a strip is consumed in whole steps");
    typename Compute::Accumulator acc;
    Compute::zero(acc);
    u32 row = Compute::row(at.tid), col = Compute::col(at.tid), lane = at.tid % WAVE;
    u32 strips = (p.k + Tile::K_TILE_SIZE - 1) / Tile::K_TILE_SIZE;

    Tile::prologue(p, shared, at);
    for (u32 t = 0; t < strips; ++t) {
        Tile::prefetch(p, shared, at, t, strips);
        Tile::acquire();
        u32 buf = Tile::buf_idx(t);
        for (u32 ki = 0; ki < Tile::K_TILE_SIZE; ki += Compute::K_STEP) {
            typename Compute::FragmentA a;
            typename Compute::FragmentB b;
            Compute::load_a(shared.a[buf], row, ki, lane, a);
            Compute::load_b(shared.b_t[buf], col, ki, lane, b);
            Compute::mma(acc, a, b);
        }
        Tile::release();
    }
    Compute::store(p, at, row, col, lane, acc);
}

extern "C" __global__ BLOCK_THREADS(THREADS) void gemm(Params p) {
    __shared__ TilePolicy::Shared shared;
    multiply<TilePolicy, ComputePolicy>(p, shared, here());
}
