// Fragments and the matrix instruction of each operand type.
//
//   lane l of a wave: group g = l / 16, index r = l % 16
//
//   fragment of A   row r of a 16-row block,      bytes 16g..16g+15 of each 64-byte block of K
//   fragment of B   column r of a 16-column block, the same bytes of K
//
// The first operand of an MFMA supplies the rows of its result. B goes first, so the result is C
// transposed: lane l holds row r of C and columns 4g..4g+3, four neighbours that one store writes.
//
//            columns of C
//            0 1 2 3 | 4 5 6 7 | 8 …  |
//   row 0    lane 0  | lane 16 | 32   | 48
//   row 1    lane 1  | lane 17 | 33   | 49
//
// Which k an element of a fragment stands for does not matter as long as A and B agree, except for
// block scales, where it has to be the order the hardware assigns to scales: element i of group g of
// an 8-bit operand is k = 64·(i/16) + 16g + i%16, of a 4-bit operand k = 32g + i. Both are the order
// of bytes in memory when a lane takes chunk g of each 64-byte block, which is what it does.
#pragma once

struct FragmentA {
    u32x4 chunk[A_CHUNKS];
};
struct FragmentB {
    u32x4 chunk[B_CHUNKS];
};

template <bool IS_INTEGER>
struct AccumulatorOf {
    typedef f32x4 type;
};
template <>
struct AccumulatorOf<true> {
    typedef i32x4 type;
};
typedef AccumulatorOf<INTEGER>::type Accumulator;

// Four elements of an accumulator of 32-bit scalars, and a scalar of it.
typedef AccumulatorOf<OUT_TYPE == T_I32>::type Result;

DEVICE u64 half_of(u32x4 chunk, int which) {
    return (u64)chunk[2 * which + 1] << 32 | chunk[2 * which];
}

// Format codes of the f8f6f4 instructions.
constexpr int mx_format(int type) { return type == T_E4M3 ? 0 : type == T_E5M2 ? 1 : 4; }
// Named constants: a call as an immediate argument is not folded, and crashes clang 22.
constexpr int FORMAT_A = mx_format(A_TYPE), FORMAT_B = mx_format(B_TYPE);

#if defined(__gfx950__)
// 32 bytes of an 8-bit operand, or 16 of a 4-bit one (the upper half is not read).
template <int CHUNKS>
DEVICE i32x8 wide(const u32x4 (&chunk)[CHUNKS]) {
    if constexpr (CHUNKS == 2) {
        return (i32x8)__builtin_shufflevector(chunk[0], chunk[1], 0, 1, 2, 3, 4, 5, 6, 7);
    } else {
        return (i32x8)__builtin_shufflevector(chunk[0], chunk[0], 0, 1, 2, 3, -1, -1, -1, -1);
    }
}

// SCALE_B and SCALE_A pick the byte of `scale_b` and `scale_a`.
template <int SCALE_B, int SCALE_A>
DEVICE f32x4 scaled_mma(f32x4 acc, i32x8 b, i32x8 a, u32 scale_b, u32 scale_a) {
    return __builtin_amdgcn_mfma_scale_f32_16x16x128_f8f6f4(
        b, a, acc, FORMAT_B, FORMAT_A, SCALE_B, (int)scale_b, SCALE_A,
        (int)scale_a);
}
#endif

// i4 → i8: each dword of B holds eight values, byte j elements j (low nibble) and 4 + j (high).
// A nibble moved to the upper half of its byte is the value times 16, sign included; the sum is
// divided by 16 at the end, which is exact.
DEVICE i32x4 undo_shift(i32x4 sum) { return IS_W4A8 ? sum >> 4 : sum; }
DEVICE f32x4 undo_shift(f32x4 sum) { return sum; }

DEVICE void unpack_i4(u32x4 packed, u32x4* low_k) {
    UNROLL for (int i = 0; i < 4; ++i) {
        low_k[i / 2][2 * (i % 2)] = (packed[i] << 4) & 0xf0f0f0f0u;
        low_k[i / 2][2 * (i % 2) + 1] = packed[i] & 0xf0f0f0f0u;
    }
}

// What the MFMAs consume of a fragment of B: i4 is unpacked once and used for every row block.
struct OperandB {
    u32x4 chunk[IS_W4A8 ? 2 : B_CHUNKS];
};

DEVICE OperandB prepare(const FragmentB& packed) {
    OperandB b;
    if constexpr (IS_W4A8) {
        unpack_i4(packed.chunk[0], b.chunk);
    } else {
        UNROLL for (int i = 0; i < B_CHUNKS; ++i) b.chunk[i] = packed.chunk[i];
    }
    return b;
}

// Instruction `j` of the MMAS that multiply one pair of fragments. A template so that only the
// branch of this configuration's types is compiled.
template <typename Acc>
DEVICE Acc mma([[maybe_unused]] int j, Acc acc, const OperandB& b, const FragmentA& a) {
#if defined(__gfx950__)
    if constexpr (IS_FP8) {
        // Without scales the instruction is the plain f8f6f4 one.
        return scaled_mma<0, 0>(acc, wide(b.chunk), wide(a.chunk), 0, 0);
    } else if constexpr (INTEGER) {
        return __builtin_amdgcn_mfma_i32_16x16x64_i8((i32x4)b.chunk[j], (i32x4)a.chunk[j], acc, 0, 0,
                                                     0);
    } else if constexpr (A_TYPE == T_F16) {
        return __builtin_amdgcn_mfma_f32_16x16x32_f16(
            __builtin_bit_cast(f16x8, b.chunk[0]), __builtin_bit_cast(f16x8, a.chunk[0]), acc, 0, 0, 0);
    } else if constexpr (A_TYPE == T_BF16) {
        return __builtin_amdgcn_mfma_f32_16x16x32_bf16(__builtin_bit_cast(bf16x8, b.chunk[0]),
                                                       __builtin_bit_cast(bf16x8, a.chunk[0]), acc, 0,
                                                       0, 0);
    }
#elif defined(__gfx942__)
    [[maybe_unused]] u64 bh = half_of(b.chunk[j / 2], j % 2), ah = half_of(a.chunk[j / 2], j % 2);
    if constexpr (IS_FP8 && A_TYPE == T_E4M3 && B_TYPE == T_E4M3) {
        return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8((long)bh, (long)ah, acc, 0, 0, 0);
    } else if constexpr (IS_FP8 && A_TYPE == T_E5M2 && B_TYPE == T_E4M3) {
        return __builtin_amdgcn_mfma_f32_16x16x32_fp8_bf8((long)bh, (long)ah, acc, 0, 0, 0);
    } else if constexpr (IS_FP8 && A_TYPE == T_E4M3 && B_TYPE == T_E5M2) {
        return __builtin_amdgcn_mfma_f32_16x16x32_bf8_fp8((long)bh, (long)ah, acc, 0, 0, 0);
    } else if constexpr (IS_FP8) {
        return __builtin_amdgcn_mfma_f32_16x16x32_bf8_bf8((long)bh, (long)ah, acc, 0, 0, 0);
    } else if constexpr (INTEGER) {
        return __builtin_amdgcn_mfma_i32_16x16x32_i8((long)bh, (long)ah, acc, 0, 0, 0);
    } else if constexpr (A_TYPE == T_F16) {
        return __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(f16x4, bh),
                                                     __builtin_bit_cast(f16x4, ah), acc, 0, 0, 0);
    } else if constexpr (A_TYPE == T_BF16) {
        return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(i16x4, bh),
                                                         __builtin_bit_cast(i16x4, ah), acc, 0, 0, 0);
    }
#endif
    if constexpr (A_TYPE == T_F32) {
        return __builtin_amdgcn_mfma_f32_16x16x4f32(__builtin_bit_cast(f32x4, b.chunk[0])[j],
                                                    __builtin_bit_cast(f32x4, a.chunk[0])[j], acc, 0,
                                                    0, 0);
    }
    return acc;
}

// One block-scaled instruction. Byte `which_b` of a lane's word of B's scales belongs to its columns,
// byte `which_a` of A's to its rows; the numbers are known once the loops are unrolled, and the
// instruction wants them as immediates.
template <typename Acc>
DEVICE Acc scaled(Acc acc, [[maybe_unused]] const OperandB& b, [[maybe_unused]] const FragmentA& a,
                  [[maybe_unused]] u32 scale_b, [[maybe_unused]] u32 scale_a,
                  [[maybe_unused]] int which_b, [[maybe_unused]] int which_a) {
#if defined(__gfx950__)
    if constexpr (BLOCK_SCALED) {
        i32x8 wb = wide(b.chunk), wa = wide(a.chunk);
        switch (which_b * 4 + which_a) {
#define LAPIDARY_SCALED(i)                                                                          \
    case i: return scaled_mma<i / 4, i % 4>(acc, wb, wa, scale_b, scale_a)
            LAPIDARY_SCALED(0); LAPIDARY_SCALED(1); LAPIDARY_SCALED(2); LAPIDARY_SCALED(3);
            LAPIDARY_SCALED(4); LAPIDARY_SCALED(5); LAPIDARY_SCALED(6); LAPIDARY_SCALED(7);
            LAPIDARY_SCALED(8); LAPIDARY_SCALED(9); LAPIDARY_SCALED(10); LAPIDARY_SCALED(11);
            LAPIDARY_SCALED(12); LAPIDARY_SCALED(13); LAPIDARY_SCALED(14); LAPIDARY_SCALED(15);
#undef LAPIDARY_SCALED
        }
    }
#endif
    return acc;
}
