// Kernels that are wrong on purpose.
#include "../../kernels/prelude.h"

#define B(X) __builtin_amdgcn_##X

// Part of a wave at the barrier.
KERNEL WORKGROUP(256) divergent_barrier(int *out, int n) {
  int i = thread_x();
  if (i < n) {
    out[i] = i;
    B(s_barrier)();
  }
}

// Some waves at the barrier, the others gone.
KERNEL WORKGROUP(256) mismatched_barrier(int *out, int waves) {
  int wave = B(readfirstlane)(thread_x() >> 6);
  if (wave < waves)
    B(s_barrier)();
  out[thread_x()] = wave;
}

// Waits for a flag that nobody sets.
KERNEL WORKGROUP(64) endless(int *flag) {
  while (__hip_atomic_load(flag, __ATOMIC_RELAXED, 4) == 0) {
  }
  *flag = 2;
}

// An offset in a scalar register, which range checks may or may not see.
KERNEL WORKGROUP(64) scalar_offset(int *in, int *out, int bytes, int offset) {
  __amdgpu_buffer_rsrc_t from = B(make_buffer_rsrc)(in, 0, bytes, 0x27000);
  out[thread_x()] = B(raw_buffer_load_b32)(from, thread_x() * 4, offset, 0);
}

KERNEL WORKGROUP(64) copy(const int *in, int *out) { out[thread_x()] = in[thread_x()]; }

// A transpose through LDS: columns are read in 16-byte chunks whose place depends on the row where SWIZZLE is set.
template <bool WRITE, bool READ> DEVICE inline void transpose(const i32x4 *in, i32x4 *out) {
  SHARED i32x4 tile[256];
  int lane = thread_x() & 63, wave = thread_x() >> 6;
  int row = thread_x() >> 2, piece = thread_x() & 3;
  tile[row * 4 + (WRITE ? piece ^ (row >> 1 & 3) : piece)] = in[thread_x()];
  barrier();
  int r = wave * 16 + (lane & 15), c = lane >> 4;
  out[thread_x()] = tile[r * 4 + (READ ? c ^ (r >> 1 & 3) : c)];
}
KERNEL WORKGROUP(256) swizzled(const i32x4 *in, i32x4 *out) { transpose<true, true>(in, out); }
KERNEL WORKGROUP(256) half_swizzled(const i32x4 *in, i32x4 *out) { transpose<true, false>(in, out); }

// A bare barrier orders no LDS access that is not waited for: the read may come after the other wave's overwrite.
KERNEL WORKGROUP(128) late_read(const int *in, int *out) {
  SHARED int s[128];
  int i = thread_x();
  s[i] = in[i];
  barrier();
  int x = s[127 - i];
  B(s_barrier)();
  s[i] = 5;
  out[i] = x;
}

KERNEL WORKGROUP(128) trap(int *out) {
  out[thread_x()] = 1;
  __builtin_trap();
}
