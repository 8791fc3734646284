// C = epilogue(A · B) on the matrix cores of CDNA3 and CDNA4, B shuffled once into the order in which
// the matrix cores take it.
//
//   one workgroup, 256 threads = 4 waves, TILE_M × TILE_N of C:
//
//                    TILE_N
//           wave 0 │ wave 1 │ wave 2 │ wave 3      each wave: TILE_M × TILE_N/4
//          ┌───────┬────────┬────────┬───────┐     in 16×16 blocks, M_REPEAT × N_REPEAT of them,
//   TILE_M │       │        │        │       │     kept in registers throughout
//          └───────┴────────┴────────┴───────┘
//
//   A   global ──16 B a lane──▶ LDS, swizzled ──16 B a lane──▶ registers     every wave reads all of it
//   B   global, preshuffled ─────────16 B a lane─────────────▶ registers     every wave its own columns
//
// K is walked in strips of TILE_K. While strip t is multiplied, strip t + 1 of B is loaded to
// registers and strip t + 1 of A to the other half of LDS:
//
//   matrix cores   │ strip t, group 0 … G-2                      │ group G-1      │ strip t+1 …
//   global loads   │ A(t+1) B(t+1), early                        │                │ A(t+2) …
//   LDS reads      │ fragment 1 … G-1, one group ahead           │ fragment 0(t+1)│
//   LDS writes     │                                       A(t+1)│                │
//   barrier        │                                             ▲
//
// The barrier comes before the last group, so that its matrix instructions cover the latency of the
// next strip's first fragment.
#include "common/gpu.h"
#include "common/activation.h"
#include "preshuffle/config.h"
#include "preshuffle/args.h"
#include "preshuffle/mma.h"
#include "preshuffle/a_strip.h"
#include "preshuffle/block_scales.h"
#include "preshuffle/b_strip.h"
#include "preshuffle/schedule.h"
#include "preshuffle/quad.h"
#include "preshuffle/finish.h"
#include "preshuffle/epilogue.h"
#include "preshuffle/order.h"

// What a wave carries from strip to strip.
struct Wave {
    StripOfA a;
    SourceOfB b;
    u32 tid, index;
    Accumulator acc[CHAINS][M_REPEAT][N_REPEAT];
    FragmentA ahead;  // the next fragment of A to be multiplied
};

// The matrix instructions of one fragment of A: all column blocks, all instructions of a K step.
DEVICE void multiply_group(Wave& w, int group, const FragmentA& a, const OperandB (&b)[N_REPEAT],
                           const StripOfB& strip, const OperandScales& scales) {
    int step = group / M_REPEAT, block = group % M_REPEAT;
    UNROLL for (int j = 0; j < MMAS; ++j) {
        UNROLL for (int i = 0; i < N_REPEAT; ++i) {
            Accumulator& acc = w.acc[(step * MMAS + j) % CHAINS][block][i];
            if constexpr (BLOCK_SCALED) {
                acc = scaled(acc, b[i], a, strip.scale.b[step][i / 4], scales.a[block / 4], i % 4,
                             block % 4);
            } else {
                acc = mma(j, acc, b[i], a);
            }
        }
    }
}

// Multiplies a strip. `hand_over` runs once the last fragment of the strip is in registers and
// before its matrix instructions.
template <typename HandOver>
DEVICE void multiply_strip(Wave& w, const StripOfB& strip, u32 in_lds, HandOver hand_over) {
    OperandB b[N_REPEAT];
    OperandScales scales;
    UNROLL for (int group = 0; group < GROUPS; ++group) {
        FragmentA a = w.ahead;
        if (group % M_REPEAT == 0) {
            UNROLL for (int i = 0; i < N_REPEAT; ++i) {
                b[i] = prepare(strip.fragment[group / M_REPEAT][i]);
            }
            if constexpr (BLOCK_SCALED) {
                scales = operand_scales(w.b.scales, strip.scale, group / M_REPEAT);
            }
        }
        if (group + 1 < GROUPS) {
            w.ahead = read_fragment(w.a, group + 1, in_lds);
        } else {
            hand_over();
        }
        multiply_group(w, group, a, b, strip, scales);
    }
}

// Multiplies the strip in half `in_lds` of LDS while strip `next + AHEAD` is fetched.
//
// MASKED: that strip may reach past K; its A takes the synchronous way with the rest zeroed.
template <bool MASKED, int AHEAD>
DEVICE void step(Wave& w, const StripOfB& strip, StripOfB& following, u32 next, u32 in_lds) {
    constexpr bool DIRECT = A_COPY == COPY_DIRECT && !MASKED;
    u32 to_lds = LDS_STAGE == 2 ? in_lds ^ 1 : 0;
    u32 k_bytes = next * ROW_BYTES;
    if constexpr (!MASKED) {
        UNROLL for (int i = 0; i < N_REPEAT; ++i) opaque(w.b.column[i]);
        UNROLL for (int i = 0; i < (A_COPY == COPY_DIRECT ? 0 : A_LOADS); ++i) opaque(w.a.loads[i]);
    }
    Staged staged;
    if constexpr (!DIRECT) {
        staged = load_strip<MASKED>(w.a, w.tid, k_bytes, AHEAD * ROW_BYTES);
    } else if constexpr (LDS_STAGE == 2) {
        load_strip_direct(w.a, w.index, k_bytes + AHEAD * ROW_BYTES, to_lds);
        // The wait at the hand-over counts the loads after these.
        __builtin_amdgcn_sched_barrier(0);
    }
    following = load_strip_b<MASKED, AHEAD>(w.b, next);
    multiply_strip(w, strip, in_lds, [&]() __attribute__((always_inline)) {
        if constexpr (DIRECT && LDS_STAGE == 2) {
            prescribe<B_LOADS + SCALE_LOADS>();
            direct_barrier<B_LOADS + SCALE_LOADS>();
        } else {
            if constexpr (LDS_STAGE == 1) lds_barrier();
            if constexpr (DIRECT) {
                load_strip_direct(w.a, w.index, k_bytes + AHEAD * ROW_BYTES, to_lds);
                direct_barrier<0>();
            } else {
                write_strip(w.a, staged, to_lds);
                lds_barrier();
            }
        }
        w.ahead = read_fragment(w.a, 0, to_lds);
    });
    if constexpr (!MASKED && A_COPY != COPY_DIRECT) {
        prescribe<A_LOADS * CHUNK_LOADS + B_LOADS + SCALE_LOADS>();
        prescribe_hand_over();
    }
    __builtin_amdgcn_sched_barrier(0);
}

extern "C" __global__ BLOCK_THREADS(THREADS)
#if CFG_WAVES_PER_SIMD > 0
WAVES_PER_SIMD(CFG_WAVES_PER_SIMD)
#endif
void preshuffle(Args args) {
    __shared__ u32x4 shared[SHARED_BYTES / 16];
    LdsByte* lds = (LdsByte*)shared;
    u32 tid = __builtin_amdgcn_workitem_id_x();
    u32 batch = __builtin_amdgcn_workgroup_id_y();
    u32 split = __builtin_amdgcn_workgroup_id_z();
    Tile tile = tile_of(args, __builtin_amdgcn_workgroup_id_x());
    u32 row0 = tile.m * TILE_M, col0 = tile.n * TILE_N;

    Wave w;
    w.tid = tid;
    w.index = uniform(tid / WAVE);
    u32 wave_col0 = col0 + w.index * WAVE_N;
    w.a = strip_of_a(args, batch, row0, tid, lds);
    w.b = source_of_b(args, batch, row0, wave_col0, tid % WAVE);
    UNROLL for (int c = 0; c < CHAINS; ++c) {
        UNROLL for (int m = 0; m < M_REPEAT; ++m) {
            UNROLL for (int n = 0; n < N_REPEAT; ++n) w.acc[c][m][n] = Accumulator{0, 0, 0, 0};
        }
    }

    // The strips of this split: a contiguous range of K.
    u32 first = 0, end = args.tiles_k;
    if constexpr (SPLIT_K) {
        first = uniform(split * args.tiles_k / args.splits);
        end = uniform((split + 1) * args.tiles_k / args.splits);
    }

    StripOfB b0 = load_strip_b<true, 0>(w.b, first), b1;
    write_strip(w.a, load_strip<true>(w.a, tid, first * ROW_BYTES, 0), 0);
    lds_barrier();
    w.ahead = read_fragment(w.a, 0, 0);

    // Two strips a turn, so that registers and halves of LDS have fixed names. Neither strip fetched
    // here is the last, so no load reaches past K.
    u32 next = first + 1;
    for (; next + 2 < end; next += 2) {
        step<false, 0>(w, b0, b1, next, 0);
        step<false, 1>(w, b1, b0, next, LDS_STAGE - 1);
    }
    u32 in_lds = 0;
    for (; next < end; ++next) {
        step<true, 0>(w, b0, b1, next, in_lds);
        b0 = b1;
        if constexpr (LDS_STAGE == 2) in_lds ^= 1;
    }
    // The loads of the epilogue's factors travel while the last strip is multiplied.
    Factors factors = load_factors(args, batch, row0, wave_col0, tid % WAVE);
    multiply_strip(w, b0, in_lds, []() __attribute__((always_inline)) {});
    // Nothing of the epilogue may start before: its addresses would need registers next to the
    // fragments.
    __builtin_amdgcn_sched_barrier(0);

    UNROLL for (int c = 1; c < CHAINS; ++c) {
        UNROLL for (int m = 0; m < M_REPEAT; ++m) {
            UNROLL for (int n = 0; n < N_REPEAT; ++n) w.acc[0][m][n] += w.acc[c][m][n];
        }
    }
    store_tile(args, w.acc[0], factors, Place{batch, split, row0, col0, w.index, tid}, lds);
}
