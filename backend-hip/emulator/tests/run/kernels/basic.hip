// Plain kernels: arithmetic, LDS, cross-lane movement, atomics, scratch, buffers.
#include "../../kernels/prelude.h"

#define B(X) __builtin_amdgcn_##X
#define DYNAMIC extern __attribute__((shared))

KERNEL WORKGROUP(256) vector_add(const float *a, const float *b, float *c, int n) {
  int i = block_x() * 256 + thread_x();
  if (i < n)
    c[i] = a[i] + b[i];
}

// C = A B, row major, 16x16 tiles through LDS.
KERNEL WORKGROUP(256) gemm_tiled(const float *a, const float *b, float *c, int m, int n, int k) {
  SHARED float ta[16][16];
  SHARED float tb[16][16];
  int tx = thread_x() & 15, ty = thread_x() >> 4;
  int row = block_y() * 16 + ty, col = block_x() * 16 + tx;
  float sum = 0;
  for (int t = 0; t < k; t += 16) {
    ta[ty][tx] = row < m && t + tx < k ? a[row * k + t + tx] : 0.0f;
    tb[ty][tx] = col < n && t + ty < k ? b[(t + ty) * n + col] : 0.0f;
    barrier();
    for (int i = 0; i < 16; i++)
      sum += ta[ty][i] * tb[i][tx];
    barrier();
  }
  if (row < m && col < n)
    c[row * n + col] = sum;
}

template <int CTRL> DEVICE inline int dpp(int x) { return B(update_dpp)(0, x, CTRL, 0xf, 0xf, true); }

// Sum of each group of 64 values, by DPP row shifts and broadcasts.
KERNEL WORKGROUP(64) wave_sum(const int *in, int *out) {
  int x = in[block_x() * 64 + thread_x()];
  x += dpp<0x111>(x);
  x += dpp<0x112>(x);
  x += dpp<0x114>(x);
  x += dpp<0x118>(x);
  x += B(update_dpp)(0, x, 0x142, 0xa, 0xf, false);
  x += B(update_dpp)(0, x, 0x143, 0xc, 0xf, false);
  int total = B(readlane)(x, 63);
  if (thread_x() == 0)
    out[block_x()] = total;
}

// The lane movements one by one.
KERNEL WORKGROUP(64) lane_moves(const int *in, int *out) {
  int lane = thread_x(), x = in[lane];
  int r[12];
  r[0] = dpp<0x1b>(x);
  r[1] = dpp<0x101>(x);
  r[2] = dpp<0x112>(x);
  r[3] = dpp<0x123>(x);
  r[4] = dpp<0x140>(x);
  r[5] = dpp<0x141>(x);
  r[6] = dpp<0x155>(x);
  r[7] = B(ds_swizzle)(x, 0x041f);
  r[8] = B(ds_bpermute)((lane * 7 & 63) * 4, x);
  r[9] = B(ds_permute)((lane * 5 & 63) * 4, x);
  r[10] = B(mbcnt_hi)(0xffffffff, B(mbcnt_lo)(0xffffffff, 0));
  r[11] = B(readfirstlane)(x + 1);
  for (int i = 0; i < 12; i++)
    out[i * 64 + lane] = r[i];
}

// A histogram in LDS, then atomics of several kinds on memory.
KERNEL WORKGROUP(256) atomics(const u32 *in, u32 *bins, float *sum, int *most, u64 *wide, float *cas, int n) {
  SHARED u32 local[64];
  if (thread_x() < 64)
    local[thread_x()] = 0;
  barrier();
  int i = block_x() * 256 + thread_x();
  if (i < n) {
    u32 x = in[i];
    __hip_atomic_fetch_add(&local[x & 63], 1u, __ATOMIC_RELAXED, 3);
    __hip_atomic_fetch_add(sum, (float)(x & 15), __ATOMIC_RELAXED, 4);
    __hip_atomic_fetch_max(most, (int)x, __ATOMIC_RELAXED, 4);
    __hip_atomic_fetch_add(wide, (u64)x << 20, __ATOMIC_RELAXED, 4);
    // A float sum by compare and swap.
    float old = __hip_atomic_load(cas, __ATOMIC_RELAXED, 4);
    while (!__hip_atomic_compare_exchange_strong(cas, &old, old + 1.0f, __ATOMIC_RELAXED, __ATOMIC_RELAXED, 4)) {
    }
  }
  barrier();
  if (thread_x() < 64)
    __hip_atomic_fetch_add(&bins[thread_x()], local[thread_x()], __ATOMIC_RELAXED, 4);
}

// Pointers whose memory is known at run time only: global, LDS or a lane's own scratch.
KERNEL WORKGROUP(64) generic(int *in, int *out, int kinds) {
  SHARED int s[64];
  int own[8];
  int lane = thread_x();
  s[lane] = in[lane] + 1000;
  for (int i = 0; i < 8; i++)
    own[i] = in[lane] + 2000 + i;
  barrier();
  for (int kind = 0; kind < kinds; kind++) {
    int which = (lane + kind) % 3;
    int *p = which == 0 ? in + lane : which == 1 ? s + (63 - lane) : own + (lane & 7);
    out[kind * 64 + lane] = *p;
    *p += 5;
    barrier();
  }
}

typedef vec<bf16, 2> bf16x2;
// Atomics on doubles and packed bfloat16, with and without the old value.
KERNEL WORKGROUP(64) float_atomics(double *sum, bf16x2 *pair, u32 *counter, u32 *tickets, int *swapped) {
  int lane = thread_x();
  __builtin_amdgcn_global_atomic_fadd_f64((__attribute__((address_space(1))) double *)sum, lane * 0.5);
  typedef vec<short, 2> s16x2;
  s16x2 one = {0x3f80, 0x4000};
  __builtin_amdgcn_global_atomic_fadd_v2bf16((__attribute__((address_space(1))) s16x2 *)pair, one);
  tickets[lane] = __hip_atomic_fetch_add(counter, 2u, __ATOMIC_RELAXED, 4);
  swapped[lane] = __hip_atomic_exchange((int *)counter + 1, lane, __ATOMIC_RELAXED, 4);
}

// An array that must live in scratch, because its index is known at run time only.
KERNEL WORKGROUP(64) scratch(const int *in, int *out, int rounds) {
  int table[40];
  int lane = block_x() * 64 + thread_x();
  for (int i = 0; i < 40; i++)
    table[i] = in[lane] * i;
  int at = in[lane] & 31;
  for (int i = 0; i < rounds; i++) {
    table[at] += table[(at + 7) % 40];
    at = (at + 3) % 40;
  }
  int sum = 0;
  for (int i = 0; i < 40; i++)
    sum ^= table[i] + i;
  out[lane] = sum;
}

// More live values than registers: spills.
KERNEL WORKGROUP(64) __attribute__((amdgpu_num_vgpr(24))) spills(const float *in, float *out) {
  float x[48];
  int lane = thread_x();
  for (int i = 0; i < 48; i++)
    x[i] = in[i * 64 + lane];
  float sum = 0;
  for (int i = 0; i < 48; i++)
    for (int j = 0; j < 3; j++)
      sum = sum * 0.5f + x[(i * 5 + j * 11) % 48] * x[(i * 13 + j) % 48];
  out[lane] = sum;
}

DEVICE inline float sigmoid(float x) { return B(rcpf)(1.0f + B(exp2f)(-1.44269504f * x)); }

// out = activation(scale_row * scale_column * x + bias), to bf16.
KERNEL WORKGROUP(64) epilogue(const float *x, const float *rows, const float *columns, const float *bias, bf16 *silu,
                              bf16 *gelu, int n) {
  int row = block_x();
  for (int j = thread_x(); j < n; j += 64) {
    float v = x[row * n + j] * rows[row] * columns[j] + bias[j];
    silu[row * n + j] = (bf16)(v * sigmoid(v));
    float u = 0.79788456f * (v + 0.044715f * v * v * v);
    gelu[row * n + j] = (bf16)(v * B(rcpf)(1.0f + B(exp2f)(-2.88539008f * u)));
  }
}

// Reverses each workgroup's values through LDS whose size the launch states.
KERNEL WORKGROUP(256) reverse(const int *in, int *out, int n) {
  DYNAMIC int s[];
  int base = block_x() * n;
  for (int i = thread_x(); i < n; i += 256)
    s[i] = in[base + i];
  barrier();
  for (int i = thread_x(); i < n; i += 256)
    out[base + i] = s[n - 1 - i];
}

// Direct-to-LDS loads: a tile of 16 rows of 64 dwords, then its columns.
KERNEL WORKGROUP(256) lds_dma(int *in, int *out) {
  SHARED int s[16 * 64];
  int wave = B(readfirstlane)(thread_x() >> 6), lane = thread_x() & 63;
  for (int i = 0; i < 4; i++) {
    int row = wave * 4 + i;
    B(global_load_lds)
    ((__attribute__((address_space(1))) void *)(in + row * 64 + lane),
     (__attribute__((address_space(3))) void *)(s + row * 64), 4, 0, 0);
  }
  B(s_waitcnt)(0x0f70);
  barrier();
  for (int i = 0; i < 4; i++)
    out[i * 256 + thread_x()] = s[(thread_x() & 15) * 64 + (thread_x() >> 4) + 16 * i];
}

// The same through a descriptor; what is past its end arrives as zeros.
KERNEL WORKGROUP(256) buffer_dma(int *in, int *out, int n) {
  SHARED int s[16 * 64];
  __amdgpu_buffer_rsrc_t from = B(make_buffer_rsrc)(in, 0, n * 4, 0x27000);
  int wave = B(readfirstlane)(thread_x() >> 6), lane = thread_x() & 63;
  for (int i = 0; i < 4; i++) {
    int row = wave * 4 + i;
    B(raw_ptr_buffer_load_lds)
    (from, (__attribute__((address_space(3))) void *)(s + row * 64), 4, (row * 64 + lane) * 4, 0, 0, 0);
  }
  B(s_waitcnt)(0x0f70);
  barrier();
  for (int i = 0; i < 4; i++)
    out[i * 256 + thread_x()] = s[1023 - i * 256 - thread_x()];
}

// Loads and stores through descriptors that end inside the buffer: what is past the end reads as zero.
KERNEL WORKGROUP(64) buffers(int *in, int *out, int n) {
  __amdgpu_buffer_rsrc_t from = B(make_buffer_rsrc)(in, 0, n * 4, 0x27000);
  __amdgpu_buffer_rsrc_t to = B(make_buffer_rsrc)(out, 0, n * 4, 0x27000);
  int at = (block_x() * 64 + thread_x()) * 16;
  vec<u32, 4> x = B(raw_buffer_load_b128)(from, at, 0, 0);
  x += 1;
  B(raw_buffer_store_b128)(x, to, at, 0, 0);
}

// Integer arithmetic that compilers expand: one result a slot of 64.
KERNEL WORKGROUP(64) integers(const int *a, const int *b, const u64 *c, const u64 *d, int *out, u64 *wide) {
  int i = thread_x();
  int x = a[i], y = b[i];
  u32 ux = x, uy = y;
  int r[14] = {x / y,
               x % y,
               (int)(ux / uy),
               (int)(ux % uy),
               __builtin_popcount(ux),
               __builtin_clz(ux | 1),
               __builtin_ctz(ux | 0x80000000u),
               (int)__builtin_bitreverse32(ux),
               (int)(((u64)ux * uy) >> 32),
               (x >> (y & 31)) ^ (int)(ux << (uy & 31)),
               x < y ? x : y,
               (int)__builtin_rotateleft32(ux, uy),
               __builtin_abs(x) + (x > y),
               (short)x * (short)y + (signed char)x};
  for (int n = 0; n < 14; n++)
    out[n * 64 + i] = r[n];
  u64 p = c[i], q = d[i];
  u64 s[8] = {p + q, p - q, p * q, p / (q | 1), p % (q | 1), p << (q & 63), p >> (q & 63), (u64)((long)p >> (q & 63))};
  for (int n = 0; n < 8; n++)
    wide[n * 64 + i] = s[n];
}

// Single and double precision: exact operations only.
KERNEL WORKGROUP(64) floats(const float *a, const float *b, const double *c, const double *d, float *out, double *wide) {
  int i = thread_x();
  float x = a[i], y = b[i];
  float r[12] = {x / y,
                 __builtin_sqrtf(__builtin_fabsf(x)),
                 __builtin_fmaf(x, y, x),
                 x * y - x,
                 __builtin_floorf(x),
                 __builtin_ceilf(y),
                 __builtin_truncf(x),
                 __builtin_rintf(y),
                 (float)(int)(x * 100.0f),
                 __builtin_fminf(x, y),
                 __builtin_fmaxf(x, y),
                 (float)(f16)x};
  for (int n = 0; n < 12; n++)
    out[n * 64 + i] = r[n];
  double p = c[i], q = d[i];
  double s[6] = {p + q, p * q, p / q, __builtin_sqrt(__builtin_fabs(p)), __builtin_fma(p, q, p), (double)(long)(p * 1000)};
  for (int n = 0; n < 6; n++)
    wide[n * 64 + i] = s[n];
}

// Sizes from the hidden arguments.
KERNEL hidden(int *out, int n) {
  int size = __builtin_amdgcn_workgroup_size_x();
  int i = block_x() * size + thread_x();
  if (i < n)
    out[i] = size * 1000000 + __builtin_amdgcn_grid_size_x() + B(workgroup_size_y)();
}

typedef vec<f16, 2> f16x2;
// Packed halves and bfloat16.
KERNEL WORKGROUP(64) halves(const f16x2 *a, const f16x2 *b, f16x2 *out, const bf16 *c, float *d, bf16 *e) {
  int i = thread_x();
  f16x2 x = a[i], y = b[i];
  out[i] = x * y;
  out[64 + i] = x + y;
  out[128 + i] = x - y.yx;
  out[192 + i] = __builtin_elementwise_max(x, y);
  d[i] = (float)c[i] * 3.0f;
  e[i] = (bf16)((float)c[i] * 1.00390625f);
}

// To 8-bit floats, and back byte by byte and in pairs.
KERNEL WORKGROUP(64) eight_bits(const float *in, u32 *codes, float *out) {
  int i = thread_x();
  float x[4];
  for (int n = 0; n < 4; n++)
    x[n] = in[i * 4 + n];
  int fp8 = B(cvt_pk_fp8_f32)(x[0], x[1], 0, false);
  fp8 = B(cvt_pk_fp8_f32)(x[2], x[3], fp8, true);
  int bf8 = B(cvt_pk_bf8_f32)(x[0], x[1], 0, false);
  bf8 = B(cvt_pk_bf8_f32)(x[2], x[3], bf8, true);
  codes[i] = fp8;
  codes[64 + i] = bf8;
  out[i] = B(cvt_f32_fp8)(fp8, 0);
  out[64 + i] = B(cvt_f32_fp8)(fp8, 3);
  out[128 + i] = B(cvt_f32_bf8)(bf8, 1);
  f32x2 pair = B(cvt_pk_f32_fp8)(fp8, true);
  out[192 + i] = pair[0];
  out[256 + i] = pair[1];
}

// Three-dimensional ids.
KERNEL WORKGROUP(64) ids(int *out) {
  int x = B(workitem_id_x)(), y = B(workitem_id_y)(), z = B(workitem_id_z)();
  int bx = B(workgroup_id_x)(), by = B(workgroup_id_y)(), bz = B(workgroup_id_z)();
  int flat = x + 4 * (y + 4 * z) + 64 * (bx + 2 * (by + 3 * bz));
  out[flat] = x | y << 4 | z << 8 | bx << 12 | by << 16 | bz << 20;
}

__attribute__((noinline)) DEVICE int called(int x, int y) { return x * x - y; }
// Calls that are not inlined.
KERNEL WORKGROUP(64) calls(const int *in, int *out) { out[thread_x()] = called(in[thread_x()], 3) + called(7, in[0]); }

__attribute__((noinline)) DEVICE int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
// Recursion: how much stack it takes is not known to the compiler.
KERNEL WORKGROUP(64) recursion(const int *in, int *out) { out[thread_x()] = fibonacci(in[thread_x()]); }
