// ComputePolicies. COMPUTE_POLICY picks one: 0 ScalarFma, 1 MfmaF32, 2 MfmaXf32, 3 MfmaF16.
//
// A policy has K_STEP, Accumulator, FragmentA, FragmentB, and: the first row and column a thread (or
// its wave) owns in the block, loads of both fragments from tiles, the multiply-accumulate, and the
// store of what it owns.
#pragma once

// A TM×TN outer product of scalars a thread, threads along N first. Any architecture, any wave size.
struct ScalarFma {
    static constexpr u32 K_STEP = 1;
    typedef float Accumulator[TM][TN];
    typedef float FragmentA[TM];
    typedef float FragmentB[TN];
    static DEVICE u32 row(u32 tid) { return tid / (BN / TN) * TM; }
    static DEVICE u32 col(u32 tid) { return tid % (BN / TN) * TN; }
    static DEVICE void zero(Accumulator& acc) {
        UNROLL for (int i = 0; i < TM; ++i) {
            UNROLL for (int j = 0; j < TN; ++j) acc[i][j] = 0;
        }
    }
    static DEVICE void load_a(const Elem (*tile)[KT], u32 row, u32 ki, u32, FragmentA& a) {
        UNROLL for (int i = 0; i < TM; ++i) a[i] = (float)tile[row + i][ki];
    }
    static DEVICE void load_b(const Elem (*tile_t)[KT], u32 col, u32 ki, u32, FragmentB& b) {
        UNROLL for (int j = 0; j < TN; ++j) b[j] = (float)tile_t[col + j][ki];
    }
    static DEVICE void mma(Accumulator& acc, const FragmentA& a, const FragmentB& b) {
        UNROLL for (int i = 0; i < TM; ++i) {
            UNROLL for (int j = 0; j < TN; ++j) acc[i][j] += a[i] * b[j];
        }
    }
    static DEVICE void store(const Params& p, At at, u32 row, u32 col, u32, const Accumulator& acc) {
        UNROLL for (int i = 0; i < TM; ++i) {
            UNROLL for (int j = 0; j < TN; ++j) {
                u32 r = at.row0 + row + i, c = at.col0 + col + j;
                if (r < p.m && c < p.n) store_c(p, at.batch, r, c, acc[i][j]);
            }
        }
    }
};

#if COMPUTE_POLICY != 0
// Matrix cores: a wave owns WM×WN of the block, in 16×16 blocks; waves run along N first. A lane holds
// 4 rows of one column of each 16×16 block, TM×TN outputs in all.
//
//   lane l of A: row l % 16, FRAGMENT neighbours along k from (l / 16) · FRAGMENT; B likewise by column
//   lane l of C: rows 4·(l / 16) to + 3, column l % 16
constexpr int WM = TM * 4, WN = TN * 16, MI = WM / 16, NI = WN / 16;
static_assert(WM % 16 == 0, "TM must be a multiple of 4: a lane holds 4 rows of each 16×16 block");
static_assert(BM % WM == 0 && BN % WN == 0, "whole waves cover the block");

template <typename Instruction>
struct Mfma {
    static constexpr int FRAGMENT = Instruction::FRAGMENT;
    static constexpr u32 K_STEP = 4 * FRAGMENT;
    typedef Elem Vector __attribute__((ext_vector_type(FRAGMENT)));
    typedef f32x4 Accumulator[MI][NI];
    typedef Vector FragmentA[MI];
    typedef Vector FragmentB[NI];
    static DEVICE u32 row(u32 tid) { return tid / WAVE / (BN / WN) * WM; }
    static DEVICE u32 col(u32 tid) { return tid / WAVE % (BN / WN) * WN; }
    static DEVICE void zero(Accumulator& acc) {
        UNROLL for (int i = 0; i < MI; ++i) {
            UNROLL for (int j = 0; j < NI; ++j) acc[i][j] = f32x4{0, 0, 0, 0};
        }
    }
    template <int COUNT>
    static DEVICE void load(const Elem (*tile)[KT], u32 first, u32 ki, u32 lane, Vector (&to)[COUNT]) {
        UNROLL for (int i = 0; i < COUNT; ++i) {
            const Elem* from = &tile[first + i * 16 + lane % 16][ki + lane / 16 * FRAGMENT];
            UNROLL for (int e = 0; e < FRAGMENT; ++e) to[i][e] = from[e];
        }
    }
    static DEVICE void load_a(const Elem (*tile)[KT], u32 row, u32 ki, u32 lane, FragmentA& a) {
        load(tile, row, ki, lane, a);
    }
    static DEVICE void load_b(const Elem (*tile_t)[KT], u32 col, u32 ki, u32 lane, FragmentB& b) {
        load(tile_t, col, ki, lane, b);
    }
    static DEVICE void mma(Accumulator& acc, const FragmentA& a, const FragmentB& b) {
        UNROLL for (int i = 0; i < MI; ++i) {
            UNROLL for (int j = 0; j < NI; ++j) acc[i][j] = Instruction::run(a[i], b[j], acc[i][j]);
        }
    }
    static DEVICE void store(const Params& p, At at, u32 row, u32 col, u32 lane,
                             const Accumulator& acc) {
        UNROLL for (int i = 0; i < MI; ++i) {
            UNROLL for (int j = 0; j < NI; ++j) {
                UNROLL for (int v = 0; v < 4; ++v) {
                    u32 r = at.row0 + row + i * 16 + lane / 16 * 4 + v;
                    u32 c = at.col0 + col + j * 16 + lane % 16;
                    if (r < p.m && c < p.n) store_c(p, at.batch, r, c, acc[i][j][v]);
                }
            }
        }
    }
};
#endif

#if COMPUTE_POLICY == 1
// f32 exactly: 16×16×4.
struct F32 {
    static constexpr int FRAGMENT = 1;
    typedef float Vector __attribute__((ext_vector_type(1)));
    static DEVICE f32x4 run(Vector a, Vector b, f32x4 acc) {
        return __builtin_amdgcn_mfma_f32_16x16x4f32(a[0], b[0], acc, 0, 0, 0);
    }
};
typedef Mfma<F32> ComputePolicy;
#elif COMPUTE_POLICY == 2
// f32 with 10 bits of significand: 16×16×8, four times as fast. CDNA3 only.
struct Xf32 {
    static constexpr int FRAGMENT = 2;
    static DEVICE f32x4 run(f32x2 a, f32x2 b, f32x4 acc) {
        return __builtin_amdgcn_mfma_f32_16x16x8_xf32(a, b, acc, 0, 0, 0);
    }
};
typedef Mfma<Xf32> ComputePolicy;
#elif COMPUTE_POLICY == 3
// f16 to f32, 32 along K: one 16×16×32 on CDNA4, two 16×16×16 on CDNA3. The latter take half of the
// lane's eight neighbours each: which k an instruction calls first does not matter, as long as A and B
// agree on it.
struct F16 {
    static constexpr int FRAGMENT = 8;
    static DEVICE f32x4 run(f16x8 a, f16x8 b, f32x4 acc) {
#if defined(__gfx950__)
        return __builtin_amdgcn_mfma_f32_16x16x32_f16(a, b, acc, 0, 0, 0);
#else
        acc = __builtin_amdgcn_mfma_f32_16x16x16f16(a.lo, b.lo, acc, 0, 0, 0);
        return __builtin_amdgcn_mfma_f32_16x16x16f16(a.hi, b.hi, acc, 0, 0, 0);
#endif
    }
};
typedef Mfma<F16> ComputePolicy;
#else
typedef ScalarFma ComputePolicy;
#endif
