// The second pass of split-K: adds the ranges' sums in order and applies the epilogue.
//
// One thread computes four neighbouring elements of a row. The sums lie in the workspace as
// [matrix][range][M][N rounded up to 4]; adding range 0 first, then 1, … gives the same bits on every
// run, whatever order the workgroups of the first pass took.
//
// Compiled with the options of the first pass, but for CFG_SPLIT_K = 0: the epilogue is this pass's.
#include "common/gpu.h"
#include "common/activation.h"
#include "preshuffle/config.h"
#include "preshuffle/args.h"
#include "preshuffle/mma.h"
#include "preshuffle/quad.h"
#include "preshuffle/finish.h"

#define GLOBAL __attribute__((address_space(1)))

extern "C" __global__ BLOCK_THREADS(256) void reduce(Args args) {
    u32 quads = (args.n + 3) / 4;
    u32 id = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
    u32 batch = __builtin_amdgcn_workgroup_id_y();
    u32 row = id / quads, col = id % quads * 4;
    if (row >= args.m) return;

    u64 range = (u64)args.m * quads;
    GLOBAL const Accumulator* sums =
        (GLOBAL const Accumulator*)args.workspace + (u64)batch * args.splits * range + id;
    Accumulator sum = sums[0];
    for (u32 i = 1; i < args.splits; ++i) sum += sums[i * range];

    int columns = (int)(args.n - col);
    Factors f;
    if constexpr (HAS_ROW_SCALE) f.row[0] = ((GLOBAL const float*)args.row_scale)[(u64)batch * args.m + row];
    UNROLL for (int i = 0; i < 4; ++i) {
        // Past N the last column's factors stand in; what they give is not stored.
        [[maybe_unused]] u32 c = col + (i < columns ? i : columns - 1);
        if constexpr (HAS_COL_SCALE) f.col[0][i] = ((GLOBAL const float*)args.col_scale)[(u64)batch * args.n + c];
        if constexpr (HAS_BIAS) {
            typedef decltype(Result{}[0] + 0) Scalar;
            f.bias[0][i] = ((GLOBAL const Scalar*)args.bias)[c];
        }
    }

    GLOBAL u8* c = (GLOBAL u8*)args.c + batch * args.c_batch + row * args.c_stride +
                   (u64)col * OUT_BYTES;
    Quad old = {};
    typedef u16 GLOBAL GlobalHalf;
    typedef u32 GLOBAL GlobalWord;
    if constexpr (HAS_BETA) {
        UNROLL for (int i = 0; i < 4; ++i) {
            if (i >= columns) continue;
            if constexpr (OUT_BYTES == 4) {
                old.word[i] = ((GlobalWord*)c)[i];
            } else {
                old.word[i / 2] |= (u32)((GlobalHalf*)c)[i] << 16 * (i % 2);
            }
        }
    }
    Quad quad = to_quad(finish<Result>(args, f, sum, 0, 0, from_quad(old)));
    if constexpr (C_VECTOR > 1) {
        // N and the rows' addresses are multiples of four elements.
        if constexpr (OUT_BYTES == 4) {
            *(GLOBAL u32x4*)c = u32x4{quad.word[0], quad.word[1], quad.word[2], quad.word[3]};
        } else {
            *(GLOBAL u32x2*)c = u32x2{quad.word[0], quad.word[1]};
        }
    } else {
        UNROLL for (int i = 0; i < 4; ++i) {
            if (i >= columns) continue;
            if constexpr (OUT_BYTES == 4) {
                ((GlobalWord*)c)[i] = quad.word[i];
            } else {
                ((GlobalHalf*)c)[i] = (u16)(quad.word[i / 2] >> 16 * (i % 2));
            }
        }
    }
}
