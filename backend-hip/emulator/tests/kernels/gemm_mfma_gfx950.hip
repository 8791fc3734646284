// gfx950: the wider MFMA, plain and scaled f8f6f4, transposing LDS reads, lane swaps and scaled conversions.
#include "prelude.h"

typedef vec<f16, 8> f16x8;
typedef vec<bf16, 8> bf16x8;
typedef vec<int, 2> i32x2;
typedef vec<short, 4> s16x4;
typedef vec<bf16, 2> bf16x2;
#define M(X) __builtin_amdgcn_mfma_##X
#define LOOP(NAME, A, C, CALL)                                                                                       \
  KERNEL WORKGROUP(256) WAVES(2) NAME(const A *a, const A *b, C *c, const int *sa, const int *sb, int k) {           \
    int lane = thread_x() & 63;                                                                                      \
    a += lane;                                                                                                       \
    b += lane;                                                                                                       \
    C acc = {};                                                                                                      \
    for (int i = 0; i < k; i++) {                                                                                    \
      A av = a[i * 64], bv = b[i * 64];                                                                              \
      int as = sa[i * 64 + lane], bs = sb[i];                                                                        \
      (void)as;                                                                                                      \
      (void)bs;                                                                                                      \
      acc = CALL;                                                                                                    \
    }                                                                                                                \
    c[block_x() * 64 + lane] = acc;                                                                                  \
  }
LOOP(mfma_16x16x32_f16, f16x8, f32x4, M(f32_16x16x32_f16)(av, bv, acc, 0, 0, 0))
LOOP(mfma_32x32x16_f16, f16x8, f32x16, M(f32_32x32x16_f16)(av, bv, acc, 0, 0, 0))
LOOP(mfma_16x16x32_bf16, bf16x8, f32x4, M(f32_16x16x32_bf16)(av, bv, acc, 0, 0, 0))
LOOP(mfma_32x32x16_bf16, bf16x8, f32x16, M(f32_32x32x16_bf16)(av, bv, acc, 0, 0, 0))
LOOP(mfma_16x16x64_i8, i32x4, i32x4, M(i32_16x16x64_i8)(av, bv, acc, 0, 0, 0))
LOOP(mfma_32x32x32_i8, i32x4, i32x16, M(i32_32x32x32_i8)(av, bv, acc, 0, 0, 0))
#define F8F6F4(N, SHAPE, C, CB, BL)                                                                                  \
  LOOP(f8f6f4_##N, i32x8, C, M(scale_f32_##SHAPE##_f8f6f4)(av, bv, acc, CB, BL, 0, 0, 0, 0))                         \
  LOOP(scaled_##N, i32x8, C, M(scale_f32_##SHAPE##_f8f6f4)(av, bv, acc, CB, BL, 1, as, 2, bs))
F8F6F4(16_fp8, 16x16x128, f32x4, 0, 0)
F8F6F4(16_bf8_fp6, 16x16x128, f32x4, 1, 2)
F8F6F4(16_bf6_fp4, 16x16x128, f32x4, 3, 4)
F8F6F4(16_fp4, 16x16x128, f32x4, 4, 4)
F8F6F4(32_fp8_bf8, 32x32x64, f32x16, 0, 1)
F8F6F4(32_fp4_fp6, 32x32x64, f32x16, 4, 2)

KERNEL WORKGROUP(64) transpose(const i32x4 *in, i32x2 *out) {
  SHARED i32x4 tile[256];
  int lane = thread_x();
  for (int i = 0; i < 4; i++)
    tile[i * 64 + lane] = in[i * 64 + lane];
  barrier();
  typedef vec<int, 3> i32x3;
  s16x4 x = __builtin_amdgcn_ds_read_tr16_b64_v4i16((__attribute__((address_space(3))) s16x4 *)&tile[lane]);
  i32x2 y = __builtin_amdgcn_ds_read_tr8_b64_v2i32((__attribute__((address_space(3))) i32x2 *)&tile[lane + 64]);
  i32x2 z = __builtin_amdgcn_ds_read_tr4_b64_v2i32((__attribute__((address_space(3))) i32x2 *)&tile[lane + 128]);
  i32x3 w = __builtin_amdgcn_ds_read_tr6_b96_v3i32((__attribute__((address_space(3))) i32x3 *)&tile[lane + 190]);
  out[lane] = __builtin_bit_cast(i32x2, x) + y + z + w.xy + w.zz;
}

KERNEL WORKGROUP(64) swaps(int *io) {
  int lane = thread_x();
  auto a = __builtin_amdgcn_permlane32_swap(io[lane], io[lane + 64], false, false);
  auto b = __builtin_amdgcn_permlane16_swap(a[0], a[1], false, true);
  io[lane] = b[0];
  io[lane + 64] = b[1];
}

KERNEL WORKGROUP(64) scaled_conversions(const float *in, int *out, float scale) {
  int lane = thread_x();
  float x = in[lane * 2], y = in[lane * 2 + 1];
  typedef vec<short, 2> s16x2;
  s16x2 fp8 = __builtin_amdgcn_cvt_scalef32_pk_fp8_f32(s16x2{0, 0}, x, y, scale, true);
  s16x2 bf8 = __builtin_amdgcn_cvt_scalef32_pk_bf8_f32(fp8, x, y, scale, false);
  u32 fp4 = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(0, x, y, scale, 2);
  f32x2 back = __builtin_amdgcn_cvt_scalef32_pk_f32_fp4(fp4, scale, 1);
  f32x2 back8 = __builtin_amdgcn_cvt_scalef32_pk_f32_fp8(__builtin_bit_cast(int, bf8), scale, true);
  bf16x2 pair = __builtin_convertvector(back + back8, bf16x2);
  out[lane] = __builtin_bit_cast(int, pair) ^ fp4;
}

KERNEL WORKGROUP(256) wide_direct_to_lds(const i32x4 *in, i32x4 *out) {
  SHARED i32x4 tile[256];
  int wave = __builtin_amdgcn_readfirstlane(thread_x() >> 6);
  __builtin_amdgcn_global_load_lds((__attribute__((address_space(1))) void *)(in + thread_x()),
                                   (__attribute__((address_space(3))) void *)(tile + wave * 64), 16, 0, 0);
  __builtin_amdgcn_s_waitcnt(0x0070);
  barrier();
  out[thread_x()] = tile[255 - thread_x()];
}
