// Conversions between all narrow types.
#include "prelude.h"

typedef vec<bf16, 2> bf16x2;
typedef vec<bf16, 8> bf16x8;
typedef vec<f16, 2> f16x2;
typedef vec<float, 8> f32x8;

KERNEL WORKGROUP(64) from_fp8(const int *in, float *out) {
  int t = thread_x(), x = in[t];
  out[t] = __builtin_amdgcn_cvt_f32_fp8(x, 0) + __builtin_amdgcn_cvt_f32_fp8(x, 1) * __builtin_amdgcn_cvt_f32_fp8(x, 2) -
           __builtin_amdgcn_cvt_f32_fp8(x, 3);
  out[t + 64] = __builtin_amdgcn_cvt_f32_bf8(x, 0) + __builtin_amdgcn_cvt_f32_bf8(x, 1) * __builtin_amdgcn_cvt_f32_bf8(x, 2) -
                __builtin_amdgcn_cvt_f32_bf8(x, 3);
  f32x2 p = __builtin_amdgcn_cvt_pk_f32_fp8(x, false) * __builtin_amdgcn_cvt_pk_f32_fp8(x, true) -
            __builtin_amdgcn_cvt_pk_f32_bf8(x, true) + __builtin_amdgcn_cvt_pk_f32_bf8(x, false);
  ((f32x2 *)out)[t + 64] = p;
}
KERNEL WORKGROUP(64) bf16_both_ways(const bf16x8 *in, bf16x8 *out, float s) {
  f32x8 x = __builtin_convertvector(in[thread_x()], f32x8) * s;
  out[thread_x()] = __builtin_convertvector(x, bf16x8);
}
KERNEL WORKGROUP(64) f16_both_ways(const f16 *in, f16 *out, f16x2 *packed, float s) {
  int t = thread_x();
  float x = (float)in[t] * s, y = (float)in[t + 64];
  out[t] = (f16)(x + y);
  packed[t] = __builtin_bit_cast(f16x2, __builtin_amdgcn_cvt_pkrtz(x, y));
  packed[t + 64] = f16x2{(f16)x, (f16)y};
}
KERNEL WORKGROUP(64) integers(const float *f, int *i, u32 *u, signed char *b, short *s, const u8 *bytes) {
  int t = thread_x();
  float x = f[t];
  i[t] = (int)x;
  u[t] = (u32)x;
  b[t] = (signed char)x;
  s[t] = (short)(x * 2);
  u32 w = ((const u32 *)bytes)[t];
  float y = (float)(w & 255) + (float)(w >> 8 & 255) * (float)(w >> 16 & 255) - (float)(w >> 24);
  i[t + 64] = (int)(y + (float)(int)w + (float)u[t + 1] + (float)b[t + 1] + (float)s[t + 1]);
  u64 l = (u64)x + (u64)(long)-x;
  u[t + 64] = (u32)(float)l + (u32)(float)(long)l;
}
KERNEL WORKGROUP(64) int4(const u32 *in, int *out, bf16x2 *scaled, float s) {
  int t = thread_x();
  u32 w = in[t];
  for (int j = 0; j < 8; j++) {
    int q = (int)(w << (28 - 4 * j)) >> 28;
    out[t * 8 + j] = q;
  }
  for (int j = 0; j < 4; j++) {
    f32x2 p = {(float)((int)(w << (28 - 8 * j)) >> 28), (float)((int)(w << (24 - 8 * j)) >> 28)};
    scaled[t * 4 + j] = __builtin_convertvector(p * s, bf16x2);
  }
}
