// Atomics of every width on global memory, LDS and flat pointers, and buffer atomics.
#include "prelude.h"

#define ATOMIC(op, p, x) __hip_atomic_##op(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)

KERNEL WORKGROUP(64) global_atomics(int *i, u32 *u, u64 *l, float *f, double *d, int *out) {
  int t = thread_x();
  ATOMIC(fetch_add, i, t);
  ATOMIC(fetch_and, i + 1, t);
  ATOMIC(fetch_or, i + 2, t);
  ATOMIC(fetch_xor, i + 3, t);
  ATOMIC(fetch_min, i + 4, t);
  ATOMIC(fetch_max, i + 5, t);
  ATOMIC(fetch_min, u + 6, (u32)t);
  ATOMIC(fetch_max, u + 7, (u32)t);
  ATOMIC(fetch_add, l, (u64)t);
  ATOMIC(fetch_max, l + 1, (u64)t);
  ATOMIC(fetch_xor, l + 2, (u64)t);
  ATOMIC(fetch_add, f, (float)t);
  ATOMIC(fetch_add, d, (double)t);
  ATOMIC(fetch_min, d + 1, (double)t);
  ATOMIC(fetch_max, d + 2, (double)t);
  int r = ATOMIC(fetch_add, i + 8, t) + ATOMIC(exchange, i + 9, t) + ATOMIC(fetch_sub, i + 10, t);
  int expected = 5;
  r += __hip_atomic_compare_exchange_strong(i + 11, &expected, t, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                            __HIP_MEMORY_SCOPE_AGENT);
  u64 wide = 7;
  r += __hip_atomic_compare_exchange_strong(l + 3, &wide, (u64)t, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED,
                                            __HIP_MEMORY_SCOPE_SYSTEM);
  r += (int)ATOMIC(exchange, l + 4, (u64)t) + (int)ATOMIC(fetch_add, f + 1, 1.0f);
  out[t] = r + expected + (int)wide;
}

KERNEL WORKGROUP(256) lds_atomics(const int *in, int *out, float *f) {
  SHARED int bins[64];
  SHARED float sums[64];
  SHARED u64 wide[64];
  int t = thread_x();
  if (t < 64) {
    bins[t] = 0;
    sums[t] = 0;
    wide[t] = 0;
  }
  barrier();
  int x = in[t];
  int r = __hip_atomic_fetch_add(&bins[x & 63], 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  __hip_atomic_fetch_add(&sums[x & 63], f[t], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  __hip_atomic_fetch_max(&bins[(x + 1) & 63], x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  __hip_atomic_fetch_or(&wide[x & 63], (u64)x << 20, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  r += __hip_atomic_exchange(&bins[(x + 2) & 63], x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  int expected = r;
  __hip_atomic_compare_exchange_strong(&bins[(x + 3) & 63], &expected, t, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                       __HIP_MEMORY_SCOPE_WORKGROUP);
  barrier();
  if (t < 64) {
    out[t] = bins[t] + expected;
    f[t] = sums[t] + (float)wide[t];
  }
  out[64 + t] = r;
}

KERNEL WORKGROUP(64) packed_and_buffer_atomics(float *f, void *h, vec<short, 2> *b, int n) {
  typedef vec<f16, 2> f16x2;
  int t = thread_x();
  __builtin_amdgcn_global_atomic_fadd_v2f16((__attribute__((address_space(1))) f16x2 *)h + t, f16x2{(f16)t, 1});
  __builtin_amdgcn_global_atomic_fadd_v2bf16((__attribute__((address_space(1))) vec<short, 2> *)b + t, vec<short, 2>{1, 2});
  __amdgpu_buffer_rsrc_t rsrc = __builtin_amdgcn_make_buffer_rsrc(f, 0, n * 4, 0x00027000);
  f[t] = __builtin_amdgcn_raw_ptr_buffer_atomic_fadd_f32((float)t, rsrc, t * 4, 0, 0);
}

KERNEL WORKGROUP(64) flat_atomics(int *p, int n, float *out) {
  SHARED int local[64];
  int t = thread_x();
  local[t] = t;
  int *q = n > t ? p + t : local + t;
  int r = __hip_atomic_fetch_add(q, 3, __ATOMIC_SEQ_CST, __HIP_MEMORY_SCOPE_AGENT);
  *q += r;
  barrier();
  out[t] = (float)(local[63 - t] + r);
}
