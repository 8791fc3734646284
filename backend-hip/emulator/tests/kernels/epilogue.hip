// Epilogues: scales, bias, relu, silu, gelu, softmax pieces, divisions and roots, conversion to narrow types.
#include "prelude.h"

DEVICE inline float silu(float x) { return x * __builtin_amdgcn_rcpf(1.0f + __builtin_amdgcn_exp2f(-1.44269504f * x)); }
DEVICE inline float gelu(float x) {
  float u = 0.79788456f * (x + 0.044715f * x * x * x);
  return x * __builtin_amdgcn_rcpf(1.0f + __builtin_amdgcn_exp2f(-2.88539008f * u));
}
typedef vec<bf16, 2> bf16x2;
typedef vec<bf16, 4> bf16x4;
typedef vec<f16, 4> f16x4;

KERNEL WORKGROUP(256) epilogue_bf16(const f32x4 *acc, bf16x4 *out, const float *sa, const f32x4 *sb, const f32x4 *bias, int act, float alpha) {
  int i = block_x() * 256 + thread_x();
  f32x4 x = acc[i] * alpha * sa[block_x()] * sb[thread_x()] + bias[thread_x()];
  for (int j = 0; j < 4; j++) {
    float y = x[j];
    if (act == 1)
      y = y > 0 ? y : (y != y ? y : 0.0f);
    else if (act == 2)
      y = silu(y);
    else if (act == 3)
      y = gelu(y);
    x[j] = y;
  }
  out[i] = __builtin_convertvector(x, bf16x4);
}
KERNEL WORKGROUP(256) epilogue_f16(const f32x4 *acc, f16x4 *out, float scale) {
  int i = block_x() * 256 + thread_x();
  f32x4 x = acc[i] * scale;
  for (int j = 0; j < 4; j++)
    x[j] = silu(x[j]);
  out[i] = __builtin_convertvector(x, f16x4);
}
KERNEL WORKGROUP(256) epilogue_fp8(const f32x4 *acc, int *out, int *out2, float scale) {
  int i = block_x() * 256 + thread_x();
  f32x4 x = acc[i];
  for (int j = 0; j < 4; j++)
    x[j] = __builtin_amdgcn_fmed3f(gelu(x[j] * scale), -240.0f, 240.0f);
  int p = __builtin_amdgcn_cvt_pk_fp8_f32(x[0], x[1], 0, false);
  out[i] = __builtin_amdgcn_cvt_pk_fp8_f32(x[2], x[3], p, true);
  int q = __builtin_amdgcn_cvt_pk_bf8_f32(x[0], x[1], 0, false);
  q = __builtin_amdgcn_cvt_pk_bf8_f32(x[2], x[3], q, true);
  out2[i] = __builtin_amdgcn_cvt_sr_fp8_f32(x[0], i, q, 2);
}
KERNEL WORKGROUP(256) epilogue_i8(const i32x4 *acc, int *out, const float *sa, f32x4 sb) {
  int i = block_x() * 256 + thread_x();
  f32x4 x = __builtin_convertvector(acc[i], f32x4) * sa[thread_x()] * sb;
  int packed = 0;
  for (int j = 0; j < 4; j++) {
    int q = (int)__builtin_rintf(x[j]);
    q = q < -128 ? -128 : q > 127 ? 127 : q;
    packed |= (q & 255) << (8 * j);
  }
  out[i] = packed;
}
KERNEL WORKGROUP(64) library(const float *in, float *out) {
  int t = thread_x();
  float x = in[t], y = in[t + 64];
  out[t] = __builtin_expf(x);
  out[t + 64] = __builtin_exp2f(y);
  out[t + 128] = __builtin_logf(x) + __builtin_log2f(y) * __builtin_log10f(x);
  out[t + 192] = 1.0f / x + y / x;
  out[t + 256] = __builtin_sqrtf(x);
  out[t + 320] = __builtin_floorf(x) + __builtin_ceilf(y) * __builtin_truncf(x) - __builtin_rintf(y);
  out[t + 384] = __builtin_fmaf(x, y, 1.5f) + __builtin_fmaxf(x, y) * __builtin_fminf(x, 2 * y);
  out[t + 448] = __builtin_copysignf(__builtin_fabsf(x) - y, x) + __builtin_ldexpf(x, t - 7);
  out[t + 512] = __builtin_amdgcn_rsqf(x) + __builtin_amdgcn_sinf(x) - __builtin_amdgcn_cosf(-y) + __builtin_amdgcn_fractf(y);
  out[t + 576] = __builtin_isnan(x) ? 1.0f : __builtin_isinf(y) ? 2.0f : __builtin_frexpf(x, (int *)(out + t + 640));
  out[t + 704] = __builtin_roundf(x) + __builtin_amdgcn_logf(y) + __builtin_amdgcn_frexp_mantf(x) + __builtin_amdgcn_frexp_expf(y);
}
KERNEL WORKGROUP(64) library_f64(const double *in, double *out) {
  int t = thread_x();
  double x = in[t], y = in[t + 64];
  out[t] = 1.0 / x + y / x;
  out[t + 64] = __builtin_sqrt(x) + __builtin_fma(x, y, 0.5);
  out[t + 128] = __builtin_floor(x) + __builtin_ceil(y) + __builtin_trunc(x) - __builtin_rint(y);
  out[t + 192] = __builtin_fmax(x, y) * __builtin_fmin(-x, __builtin_fabs(y)) + __builtin_ldexp(x, t - 3);
  out[t + 256] = (double)(int)x + (double)(u32)y + (double)(float)x + (x > y ? 4.0 : x < 3.0 ? 1e300 : -0.5);
  out[t + 320] = (double)(long)x + (double)(u64)y;
}
KERNEL WORKGROUP(64) library_f16(const f16 *in, f16 *out) {
  int t = thread_x();
  f16 x = in[t], y = in[t + 64];
  out[t] = x * y + (f16)0.5 - x / y;
  out[t + 64] = __builtin_elementwise_max(x, y) + __builtin_elementwise_min(x, (f16)2.0) * __builtin_elementwise_abs(y);
  out[t + 128] = __builtin_sqrtf16(x) + __builtin_floorf16(y) - __builtin_rintf16(x) + __builtin_fmaf16(x, y, x);
  out[t + 192] = (f16)(int)x + (f16)(u16)(short)y + (x > y ? (f16)1.5 : x);
  typedef vec<f16, 2> f16x2;
  f16x2 p = ((const f16x2 *)in)[t], q = ((const f16x2 *)in)[t + 32];
  ((f16x2 *)out)[t + 200] = __builtin_elementwise_max(p * q + p, q - p) * p.yx + __builtin_elementwise_fma(p, q, -p);
  out[t + 700] = (f16)((float)x * (float)p.x + (float)q.y);
}
