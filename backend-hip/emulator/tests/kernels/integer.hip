// Integer work: 64-bit maths, divisions, bit operations, sub-dword arithmetic that selects SDWA forms, dot products.
#include "prelude.h"

KERNEL WORKGROUP(64) wide(const u64 *in, u64 *out, u64 s, int n) {
  int t = thread_x();
  u64 x = in[t], y = in[t + 64];
  out[t] = x * y + s;
  out[t + 64] = (x << (n & 63)) ^ (y >> (t & 63)) ^ (u64)((long)x >> (n & 31));
  out[t + 128] = x / (y | 1) + x % (s | 1) + (u64)((long)x / ((long)y | 1));
  out[t + 192] = x > y ? x - y : y + s;
  out[t + 256] = __builtin_clzl(x | 1) + __builtin_ctzl(y | 1) + __builtin_popcountl(x) + (x & ~y) + (x | ~s);
  out[t + 320] = (long)x < (long)y ? x & s : x | y;
  out[t + 384] = (u64)(((unsigned __int128)x * y) >> 64);
  out[t + 448] = (x << 3) + y + ((u64)(u32)t << 2) + __builtin_rotateleft64(x, 13);
}
KERNEL WORKGROUP(64) division(const int *in, int *out, int d, u32 e) {
  int t = thread_x(), x = in[t];
  u32 u = (u32)in[t + 64];
  out[t] = x / d + x % d;
  out[t + 64] = u / e + u % e;
  out[t + 128] = x / 7 + x % 12 + (int)(u / 10) + (int)(u % 3);
  out[t + 192] = (short)x / (short)(d | 1) + (u8)u / (u8)(e | 1);
  out[t + 256] = x / (in[t + 128] | 1) + (int)(u % ((u32)in[t + 192] | 1));
}
KERNEL WORKGROUP(64) bits(const u32 *in, u32 *out, u32 s, int n) {
  int t = thread_x();
  u32 x = in[t], y = in[t + 64], z = in[t + 128];
  out[t] = (x & y) | (~x & z);
  out[t + 64] = (x >> 5 & 31) + (u32)((int)(x << 8) >> 20) + (x >> (y & 31)) + (x << (n & 31));
  out[t + 128] = __builtin_bitreverse32(x) ^ __builtin_bswap32(y) ^ __builtin_clz(x | 1) ^ __builtin_ctz(y | 1) ^ __builtin_popcount(z);
  out[t + 192] = (x << 16 | y >> 16) + __builtin_rotateleft32(x, 7) + __builtin_amdgcn_alignbyte(x, y, 3);
  out[t + 256] = __builtin_amdgcn_perm(x, y, 0x07020500) ^ __builtin_amdgcn_ubfe(x, y, 7) ^ __builtin_amdgcn_sbfe(x, 3, z);
  out[t + 320] = (x & y) ^ z ^ (x | y | z) ^ ((x & s) | y) ^ ((x << 3) | z) ^ ((x ^ y) + z) ^ (x + y + z);
  out[t + 384] = (u32)(((u64)x * y) >> 32) + (u32)(((long)(int)x * (int)y) >> 32) + (x & 0xffffff) * (y & 0xffffff);
  out[t + 448] = __builtin_amdgcn_msad_u8(x, y, z) + __builtin_amdgcn_sad_u8(x, y, z) + __builtin_amdgcn_lerp(x, y, z);
  int a = x, b = y, c = z;
  out[t + 512] = (a > b ? a : b) + (a < c ? a : c) + (a > b ? (a < c ? a : c) : b) + (a < 0 ? -a : a);
  out[t + 576] = (u32)__builtin_elementwise_add_sat(a, b) + __builtin_elementwise_sub_sat(x, y);
  out[t + 640] = (u32)__builtin_amdgcn_sdot4(a, b, c, false) + __builtin_amdgcn_udot4(x, y, z, true) + (u32)__builtin_amdgcn_sdot8(a, b, c, false);
}
KERNEL WORKGROUP(64) uniform(int *out, int a, int b, u64 c, u64 d, u32 e) {
  int s = 0;
  for (int i = 0; i < a; i++) {
    s += (i * b) ^ (i >> 3);
    if (s > b)
      s -= a;
    if (s == a * 3)
      break;
  }
  u64 m = (c & ~d) | (d >> (a & 63));
  u32 v = __builtin_clz(e | 1) + __builtin_popcountl(m) + __builtin_bitreverse32(e) + (e >> 4 & 63) + (b < 0 ? -b : b);
  int w = (a < b ? a : b) + (int)(e > (u32)a ? e : a) + (int)((signed char)e) + (short)b + (int)(e * (u64)b >> 32);
  out[thread_x()] = s + (int)m + (int)v + w + (m == d) + (c != d ? a : b) + (int)(c * d) + (int)__builtin_ctzl(c | 1);
}
KERNEL WORKGROUP(64) sub_dword(const u8 *a, const u8 *b, u8 *c, const short *s, short *r, const f16 *h, f16 *g) {
  int t = thread_x();
  vec<u8, 4> x = ((const vec<u8, 4> *)a)[t], y = ((const vec<u8, 4> *)b)[t];
  ((vec<u8, 4> *)c)[t] = x * y + (x >> (u8)1) - (x > y ? x : y);
  vec<short, 4> p = ((const vec<short, 4> *)s)[t], q = ((const vec<short, 4> *)s)[t + 64];
  ((vec<short, 4> *)r)[t] = p * q + __builtin_elementwise_max(p, q) - (p >> (short)2);
  u32 w = ((const u32 *)a)[t + 64], v = ((const u32 *)b)[t + 64];
  u32 z = (w & 255) + (v >> 24) + ((w >> 8 & 255) * (v >> 16 & 255)) + ((w >> 16) ^ (v & 0xffff));
  ((u32 *)c)[t + 64] = z + (u32)(int)(signed char)(w >> 8) + (u32)(int)(short)(v >> 16);
  vec<u16, 2> m = ((const vec<u16, 2> *)s)[t + 300], n = ((const vec<u16, 2> *)s)[t + 400];
  r[t + 500] = (m.x > n.y ? m.y : n.x) + (short)(m.y << (n.x & 15)) + (m.x == n.x);
  vec<f16, 4> f = ((const vec<f16, 4> *)h)[t];
  g[t] = f.x * f.y + (f.z > f.w ? f.y : f.x);
  g[t + 64] = (f16)((float)f.y + (float)f.w);
  g[t + 128] = f.w - f.y;
}
