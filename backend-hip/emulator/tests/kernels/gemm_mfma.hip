// MFMA GEMM inner loops of every type both targets have, with and without accumulation registers.
#include "prelude.h"

#define LOOP(NAME, ATTR, A, B, C, BUILTIN)                                                                          \
  KERNEL ATTR NAME(const A *a, const B *b, C *c, int k) {                                                            \
    int lane = thread_x() & 63, wave = __builtin_amdgcn_readfirstlane(thread_x() >> 6);                              \
    a += lane + wave * 64 * k;                                                                                       \
    b += lane + block_x() * 64 * k;                                                                                  \
    C acc[4] = {};                                                                                                   \
    for (int i = 0; i < k; i++) {                                                                                    \
      A av = a[i * 64];                                                                                              \
      B bv = b[i * 64];                                                                                              \
      for (int j = 0; j < 4; j++)                                                                                    \
        acc[j] = BUILTIN(av, bv, acc[j], 0, 0, 0);                                                                   \
    }                                                                                                                \
    for (int j = 0; j < 4; j++)                                                                                      \
      c[(block_x() * 4 + j) * 64 + lane] = acc[j];                                                                   \
  }
#define BOTH(NAME, A, B, C, BUILTIN)                                                                                 \
  LOOP(NAME, WORKGROUP(256) WAVES(2), A, B, C, BUILTIN)                                                              \
  LOOP(NAME##_agpr, WORKGROUP(64) __attribute__((amdgpu_waves_per_eu(1, 1))), A, B, C, BUILTIN)

typedef vec<f16, 4> f16x4;
typedef vec<short, 4> s16x4;
typedef vec<double, 4> f64x4;
#define M(X) __builtin_amdgcn_mfma_##X
BOTH(mfma_16x16x4_f32, float, float, f32x4, M(f32_16x16x4f32))
BOTH(mfma_32x32x2_f32, float, float, f32x16, M(f32_32x32x2f32))
BOTH(mfma_16x16x16_f16, f16x4, f16x4, f32x4, M(f32_16x16x16f16))
BOTH(mfma_32x32x8_f16, f16x4, f16x4, f32x16, M(f32_32x32x8f16))
BOTH(mfma_16x16x16_bf16, s16x4, s16x4, f32x4, M(f32_16x16x16bf16_1k))
BOTH(mfma_32x32x8_bf16, s16x4, s16x4, f32x16, M(f32_32x32x8bf16_1k))
BOTH(mfma_16x16x32_i8, long, long, i32x4, M(i32_16x16x32_i8))
BOTH(mfma_32x32x16_i8, long, long, i32x16, M(i32_32x32x16_i8))
BOTH(mfma_16x16x32_fp8, long, long, f32x4, M(f32_16x16x32_fp8_fp8))
BOTH(mfma_16x16x32_bf8, long, long, f32x4, M(f32_16x16x32_bf8_bf8))
BOTH(mfma_16x16x32_fp8_bf8, long, long, f32x4, M(f32_16x16x32_fp8_bf8))
BOTH(mfma_32x32x16_fp8, long, long, f32x16, M(f32_32x32x16_fp8_fp8))
BOTH(mfma_32x32x16_bf8_fp8, long, long, f32x16, M(f32_32x32x16_bf8_fp8))
LOOP(mfma_32x32x1_2b_f32, WORKGROUP(64), float, float, f32x32, M(f32_32x32x1f32))
LOOP(mfma_16x16x1_4b_f32, WORKGROUP(64), float, float, f32x16, M(f32_16x16x1f32))
LOOP(mfma_4x4x1_16b_f32, WORKGROUP(64), float, float, f32x4, M(f32_4x4x1f32))
LOOP(mfma_16x16x4_f64, WORKGROUP(64), double, double, f64x4, M(f64_16x16x4f64))
#ifdef __gfx942__
BOTH(mfma_16x16x8_xf32, f32x2, f32x2, f32x4, M(f32_16x16x8_xf32))
BOTH(mfma_32x32x4_xf32, f32x2, f32x2, f32x16, M(f32_32x32x4_xf32))
#endif
