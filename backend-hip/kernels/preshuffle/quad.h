// Four neighbouring elements of C, as they lie in memory.
#pragma once

struct Quad {
    u32 word[OUT_BYTES];
};

DEVICE Quad to_quad(Result x) {
    Quad q;
    if constexpr (OUT_BYTES == 4) {
        u32x4 words = __builtin_bit_cast(u32x4, x);
        UNROLL for (int i = 0; i < 4; ++i) q.word[i] = words[i];
    } else {
        f32x4 f = __builtin_bit_cast(f32x4, x);
        UNROLL for (int i = 0; i < 2; ++i) {
            f32x2 pair = {f[2 * i], f[2 * i + 1]};
            if constexpr (OUT_TYPE == T_F16) {
                q.word[i] = __builtin_bit_cast(u32, __builtin_convertvector(pair, f16x2));
            } else {
                q.word[i] = __builtin_bit_cast(u32, __builtin_convertvector(pair, bf16x2));
            }
        }
    }
    return q;
}

DEVICE Result from_quad(Quad q) {
    if constexpr (OUT_BYTES == 4) {
        u32x4 words = {q.word[0], q.word[1], q.word[2], q.word[3]};
        return __builtin_bit_cast(Result, words);
    } else {
        f32x4 f;
        UNROLL for (int i = 0; i < 2; ++i) {
            f32x2 pair;
            if constexpr (OUT_TYPE == T_F16) {
                pair = __builtin_convertvector(__builtin_bit_cast(f16x2, q.word[i]), f32x2);
            } else {
                pair[0] = __builtin_bit_cast(float, q.word[i] << 16);
                pair[1] = __builtin_bit_cast(float, q.word[i] & 0xffff0000u);
            }
            f[2 * i] = pair[0];
            f[2 * i + 1] = pair[1];
        }
        return __builtin_bit_cast(Result, f);
    }
}
