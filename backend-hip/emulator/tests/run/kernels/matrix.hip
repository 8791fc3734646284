// C = A B with one wave a tile, A row major, B stored by columns; every single-block matrix instruction of both targets.
#include "../../kernels/prelude.h"

typedef vec<f16, 4> f16x4;
typedef vec<short, 4> s16x4;
#define M(X) __builtin_amdgcn_mfma_##X
#define ONE WORKGROUP(64)

// MN rows and columns, KI along k, T an element, FRAG a lane's elements.
#define GEMM(NAME, T, FRAG, E, ACC, MN, KI, CALL)                                                                    \
  KERNEL ONE NAME(const T *a, const T *b, E *c, int n, int k) {                                                      \
    int lane = thread_x(), r = lane % MN, g = lane / MN;                                                             \
    const int per = MN * KI / 64;                                                                                    \
    const T *pa = a + (long)(block_y() * MN + r) * k + g * per;                                                      \
    const T *pb = b + (long)(block_x() * MN + r) * k + g * per;                                                      \
    ACC acc = {};                                                                                                    \
    for (int t = 0; t < k; t += KI) {                                                                                \
      FRAG av = *(const FRAG *)(pa + t), bv = *(const FRAG *)(pb + t);                                               \
      acc = CALL(av, bv, acc, 0, 0, 0);                                                                              \
    }                                                                                                                \
    for (int v = 0; v < MN * MN / 64; v++) {                                                                         \
      int row = v / 4 * (256 / MN) + 4 * g + v % 4;                                                                  \
      c[(long)(block_y() * MN + row) * n + block_x() * MN + r] = acc[v];                                             \
    }                                                                                                                \
  }

GEMM(f32_16, float, float, float, f32x4, 16, 4, M(f32_16x16x4f32))
GEMM(f32_32, float, float, float, f32x16, 32, 2, M(f32_32x32x2f32))
GEMM(f16_16, f16, f16x4, float, f32x4, 16, 16, M(f32_16x16x16f16))
GEMM(f16_32, f16, f16x4, float, f32x16, 32, 8, M(f32_32x32x8f16))
GEMM(bf16_16, short, s16x4, float, f32x4, 16, 16, M(f32_16x16x16bf16_1k))
GEMM(bf16_32, short, s16x4, float, f32x16, 32, 8, M(f32_32x32x8bf16_1k))
GEMM(i8_16, char, long, int, i32x4, 16, 32, M(i32_16x16x32_i8))
GEMM(i8_32, char, long, int, i32x16, 32, 16, M(i32_32x32x16_i8))
GEMM(fp8_16, char, long, float, f32x4, 16, 32, M(f32_16x16x32_fp8_fp8))
GEMM(fp8_32, char, long, float, f32x16, 32, 16, M(f32_32x32x16_fp8_fp8))
GEMM(bf8_16, char, long, float, f32x4, 16, 32, M(f32_16x16x32_bf8_bf8))
GEMM(fp8_bf8_16, char, long, float, f32x4, 16, 32, M(f32_16x16x32_fp8_bf8))
GEMM(bf8_fp8_32, char, long, float, f32x16, 32, 16, M(f32_32x32x16_bf8_fp8))
#ifdef __gfx942__
GEMM(xf32_16, float, f32x2, float, f32x4, 16, 8, M(f32_16x16x8_xf32))
GEMM(xf32_32, float, f32x2, float, f32x16, 32, 4, M(f32_32x32x4_xf32))
#endif

// A 64x64 tile in one wave that may use all registers: operands and accumulators go to AGPRs.
KERNEL ONE __attribute__((amdgpu_waves_per_eu(1, 1)))
f16_agpr(const f16 *a, const f16 *b, float *c, int n, int k) {
  int lane = thread_x(), r = lane % 16, g = lane / 16;
  f32x4 acc[4][4] = {};
  for (int t = 0; t < k; t += 16) {
    f16x4 av[4], bv[4];
    for (int i = 0; i < 4; i++) {
      av[i] = *(const f16x4 *)(a + (long)(block_y() * 64 + i * 16 + r) * k + t + 4 * g);
      bv[i] = *(const f16x4 *)(b + (long)(block_x() * 64 + i * 16 + r) * k + t + 4 * g);
    }
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < 4; j++)
        acc[i][j] = M(f32_16x16x16f16)(av[i], bv[j], acc[i][j], 0, 0, 0);
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++)
      for (int v = 0; v < 4; v++)
        c[(long)(block_y() * 64 + i * 16 + 4 * g + v) * n + block_x() * 64 + j * 16 + r] = acc[i][j][v];
}

// Four waves share tiles of 64 rows and columns in LDS, with swizzled 16-byte chunks and two buffers.
KERNEL WORKGROUP(256) fp8_lds(const char *a, const char *b, float *c, int n, int k) {
  typedef vec<u32, 4> chunk;
  typedef vec<long, 2> pair;
  SHARED chunk sa[2][64 * 4];
  SHARED chunk sb[2][64 * 4];
  int lane = thread_x() & 63, r = lane % 16, g = lane / 16;
  int wave = __builtin_amdgcn_readfirstlane(thread_x() >> 6);
  int row = thread_x() >> 2, piece = thread_x() & 3, slot = row * 4 + (piece ^ (row >> 1 & 3));
  const chunk *pa = (const chunk *)(a + (long)(block_y() * 64 + row) * k) + piece;
  const chunk *pb = (const chunk *)(b + (long)(block_x() * 64 + row) * k) + piece;
  f32x4 acc[4] = {};
  sa[0][slot] = pa[0];
  sb[0][slot] = pb[0];
  barrier();
  for (int t = 0; t < k / 64; t++) {
    int now = t & 1, next = now ^ 1;
    bool more = t + 1 < k / 64;
    chunk na, nb;
    if (more) {
      na = pa[(t + 1) * 4];
      nb = pb[(t + 1) * 4];
    }
    int ra = wave * 16 + r;
    pair av = __builtin_bit_cast(pair, sa[now][ra * 4 + (g ^ (ra >> 1 & 3))]);
    for (int j = 0; j < 4; j++) {
      int rb = j * 16 + r;
      pair bv = __builtin_bit_cast(pair, sb[now][rb * 4 + (g ^ (rb >> 1 & 3))]);
      acc[j] = M(f32_16x16x32_fp8_fp8)(av[0], bv[0], acc[j], 0, 0, 0);
      acc[j] = M(f32_16x16x32_fp8_fp8)(av[1], bv[1], acc[j], 0, 0, 0);
    }
    if (more) {
      sa[next][slot] = na;
      sb[next][slot] = nb;
    }
    barrier();
  }
  for (int j = 0; j < 4; j++)
    for (int v = 0; v < 4; v++)
      c[(long)(block_y() * 64 + wave * 16 + 4 * g + v) * n + block_x() * 64 + j * 16 + r] = acc[j][v];
}

#ifdef __gfx950__
typedef vec<f16, 8> f16x8;
typedef vec<bf16, 8> bf16x8;
GEMM(wide_f16_16, f16, f16x8, float, f32x4, 16, 32, M(f32_16x16x32_f16))
GEMM(wide_f16_32, f16, f16x8, float, f32x16, 32, 16, M(f32_32x32x16_f16))
GEMM(wide_bf16_16, bf16, bf16x8, float, f32x4, 16, 32, M(f32_16x16x32_bf16))
GEMM(wide_bf16_32, bf16, bf16x8, float, f32x16, 32, 16, M(f32_32x32x16_bf16))
GEMM(wide_i8_16, char, i32x4, int, i32x4, 16, 64, M(i32_16x16x64_i8))
GEMM(wide_i8_32, char, i32x4, int, i32x16, 32, 32, M(i32_32x32x32_i8))

// An 8-bit operand of 128 along k (64 for 32 rows): two runs of 16, half the instruction's k apart.
DEVICE inline i32x8 split(const char *p, int half) {
  i32x4 low = *(const i32x4 *)p, high = *(const i32x4 *)(p + half);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
}
// A 4-bit operand: 32 consecutive elements.
DEVICE inline i32x8 nibbles(const char *p) {
  i32x4 x = *(const i32x4 *)p;
  return __builtin_shufflevector(x, x, 0, 1, 2, 3, -1, -1, -1, -1);
}

// Block scales along k, one byte for each 32 elements, stored by rows of k / 32.
#define SCALED(NAME, ACC, MN, KI, SHAPE, CB, BL, LOAD_A, LOAD_B, BITS_A, BITS_B)                                     \
  KERNEL ONE NAME(const char *a, const char *b, const u8 *sa, const u8 *sb, float *c, int n, int k) {                \
    int lane = thread_x(), r = lane % MN, g = lane / MN;                                                             \
    long ra = block_y() * MN + r, rb = block_x() * MN + r;                                                           \
    ACC acc = {};                                                                                                    \
    for (int t = 0; t < k; t += KI) {                                                                                \
      const char *pa = a + (ra * k + t) * BITS_A / 8, *pb = b + (rb * k + t) * BITS_B / 8;                           \
      int xa = sa[ra * (k / 32) + t / 32 + g], xb = sb[rb * (k / 32) + t / 32 + g];                                  \
      acc = M(scale_f32_##SHAPE##_f8f6f4)(LOAD_A(pa), LOAD_B(pb), acc, CB, BL, 1, xa << 8, 2, xb << 16);             \
    }                                                                                                                \
    for (int v = 0; v < MN * MN / 64; v++) {                                                                         \
      int row = v / 4 * (256 / MN) + 4 * g + v % 4;                                                                  \
      c[(long)(block_y() * MN + row) * n + block_x() * MN + r] = acc[v];                                             \
    }                                                                                                                \
  }
#define EIGHT_16(P) split((P) + 16 * g, 64)
#define EIGHT_32(P) split((P) + 16 * g, 32)
#define FOUR(P) nibbles((P) + 16 * g)
SCALED(mxfp8_16, f32x4, 16, 128, 16x16x128, 0, 0, EIGHT_16, EIGHT_16, 8, 8)
SCALED(mxfp8_32, f32x16, 32, 64, 32x32x64, 0, 0, EIGHT_32, EIGHT_32, 8, 8)
SCALED(mxfp4_16, f32x4, 16, 128, 16x16x128, 4, 4, FOUR, FOUR, 4, 4)
SCALED(mxfp4_32, f32x16, 32, 64, 32x32x64, 4, 4, FOUR, FOUR, 4, 4)
SCALED(mxfp8_fp4_16, f32x4, 16, 128, 16x16x128, 0, 4, EIGHT_16, FOUR, 8, 4)
SCALED(mxbf8_fp8_16, f32x4, 16, 128, 16x16x128, 1, 0, EIGHT_16, EIGHT_16, 8, 8)

// Without scales.
KERNEL ONE fp8_wide(const char *a, const char *b, float *c, int n, int k) {
  int lane = thread_x(), r = lane % 16, g = lane / 16;
  long ra = block_y() * 16 + r, rb = block_x() * 16 + r;
  f32x4 acc = {};
  for (int t = 0; t < k; t += 128)
    acc = M(scale_f32_16x16x128_f8f6f4)(split(a + ra * k + t + 16 * g, 64), split(b + rb * k + t + 16 * g, 64), acc, 0,
                                       0, 0, 0, 0, 0);
  for (int v = 0; v < 4; v++)
    c[(long)(block_y() * 16 + 4 * g + v) * n + block_x() * 16 + r] = acc[v];
}

// Transposing LDS reads: B as it lies in memory, k rows of n halves, becomes an operand of 16x16x32.
KERNEL ONE transposed(const f16 *a, const f16 *b, float *c) {
  typedef vec<short, 4> s16x4;
  typedef vec<u32, 4> chunk;
  SHARED chunk tile[32 * 16 / 8];
  int lane = thread_x(), r = lane % 16, g = lane / 16;
  tile[lane] = ((const chunk *)b)[lane];
  barrier();
  __attribute__((address_space(3))) short *base = (__attribute__((address_space(3))) short *)tile;
  // A group of 16 lanes reads four rows; each lane gets four k of its column.
  s16x4 low = __builtin_amdgcn_ds_read_tr16_b64_v4i16((__attribute__((address_space(3))) s16x4 *)(base + (8 * g + r / 4) * 16 + r % 4 * 4));
  s16x4 high = __builtin_amdgcn_ds_read_tr16_b64_v4i16((__attribute__((address_space(3))) s16x4 *)(base + (8 * g + 4 + r / 4) * 16 + r % 4 * 4));
  f16x8 bv = __builtin_bit_cast(f16x8, __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7));
  f16x8 av = *(const f16x8 *)(a + r * 32 + 8 * g);
  f32x4 acc = {};
  acc = M(f32_16x16x32_f16)(av, bv, acc, 0, 0, 0);
  for (int v = 0; v < 4; v++)
    c[(4 * g + v) * 16 + r] = acc[v];
}

KERNEL ONE swaps(const int *in, int *out) {
  int lane = thread_x();
  auto a = __builtin_amdgcn_permlane32_swap(in[lane], in[lane + 64], false, false);
  auto b = __builtin_amdgcn_permlane16_swap(in[lane], in[lane + 64], false, false);
  out[lane] = a[0];
  out[64 + lane] = a[1];
  out[128 + lane] = b[0];
  out[192 + lane] = b[1];
}

// Scaled conversions to MXFP8 and MXFP4 codes and back.
KERNEL ONE scaled_codes(const float *in, u32 *codes, float *out, float scale) {
  typedef vec<short, 2> s16x2;
  int i = thread_x();
  float x = in[2 * i], y = in[2 * i + 1];
  s16x2 none = {};
  s16x2 fp8 = __builtin_amdgcn_cvt_scalef32_pk_fp8_f32(none, x, y, scale, true);
  u32 fp4 = __builtin_amdgcn_cvt_scalef32_pk_fp4_f32(0u, x, y, scale, 2);
  codes[i] = __builtin_bit_cast(u32, fp8);
  codes[64 + i] = fp4;
  f32x2 back = __builtin_amdgcn_cvt_scalef32_pk_f32_fp4(fp4, scale, 2);
  out[i] = back[0];
  out[64 + i] = back[1];
}

// Wide direct-to-LDS loads.
KERNEL WORKGROUP(64) lds_dma_x4(i32x4 *in, i32x4 *out) {
  SHARED i32x4 s[64];
  int lane = thread_x();
  __builtin_amdgcn_global_load_lds((__attribute__((address_space(1))) void *)(in + lane),
                                   (__attribute__((address_space(3))) void *)s, 16, 0, 0);
  __builtin_amdgcn_s_waitcnt(0x0f70);
  barrier();
  out[lane] = s[63 - lane];
}
#endif
