// Cross-lane work: DPP reductions and scans, swizzles, permutes, ballots, readlane.
#include "prelude.h"

#define DPP(x, ctrl) __builtin_amdgcn_update_dpp(0, x, ctrl, 0xf, 0xf, true)
#define DPPF(x, ctrl) __builtin_bit_cast(float, DPP(__builtin_bit_cast(int, x), ctrl))

DEVICE inline float wave_sum(float x) {
  x += DPPF(x, 0x111);
  x += DPPF(x, 0x112);
  x += DPPF(x, 0x114);
  x += DPPF(x, 0x118);
  x += __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), 0x142, 0xa, 0xf, false));
  x += __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, __builtin_bit_cast(int, x), 0x143, 0xc, 0xf, false));
  return __builtin_bit_cast(float, __builtin_amdgcn_readlane(__builtin_bit_cast(int, x), 63));
}

KERNEL WORKGROUP(256) sum(const float *in, float *out, int n) {
  SHARED float partial[4];
  float x = 0;
  for (int i = block_x() * 256 + thread_x(); i < n; i += 256 * 64)
    x += in[i];
  x = wave_sum(x);
  int wave = __builtin_amdgcn_readfirstlane(thread_x() >> 6);
  if ((thread_x() & 63) == 0)
    partial[wave] = x;
  barrier();
  if (thread_x() == 0)
    out[block_x()] = partial[0] + partial[1] + partial[2] + partial[3];
}

KERNEL WORKGROUP(64) shuffles(int *io, float *f, u64 *mask) {
  int lane = thread_x(), x = io[lane];
  x += DPP(x, 0x1b);
  x ^= DPP(x, 0xb1) + DPP(x, 0x4e);
  x = __builtin_elementwise_max(x, DPP(x, 0x140));
  x = __builtin_elementwise_min(x, DPP(x, 0x141));
  x += DPP(x, 0x125);
  x += DPP(x, 0x108);
  x -= DPP(x, 0x130) & DPP(x, 0x134);
  x |= DPP(x, 0x138) ^ DPP(x, 0x13c);
  x += DPP(x, 0x157);
  x += __builtin_amdgcn_ds_swizzle(x, 0x401f);
  x += __builtin_amdgcn_ds_swizzle(x, 0x80e4);
  x += __builtin_amdgcn_ds_swizzle(x, 0x0018);
  x += __builtin_amdgcn_ds_bpermute((63 - lane) * 4, x);
  x += __builtin_amdgcn_ds_permute((lane ^ 17) * 4, x);
  x += __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, x));
  u64 ballot = __builtin_amdgcn_ballot_w64(x > 3);
  float y = f[lane];
  y = y * DPPF(y, 0x111) - DPPF(y, 0x4e);
  y = __builtin_amdgcn_fmed3f(y, DPPF(y, 0x121), 1.0f);
  f[lane] = y;
  io[lane] = x + __builtin_popcountl(ballot);
  mask[lane] = ballot;
}

KERNEL WORKGROUP(256) scan(int *io) {
  SHARED int totals[4];
  int lane = thread_x() & 63, wave = thread_x() >> 6, x = io[block_x() * 256 + thread_x()];
  for (int d = 1; d < 64; d <<= 1) {
    int y = __builtin_amdgcn_ds_bpermute((lane - d) * 4, x);
    x += lane >= d ? y : 0;
  }
  if (lane == 63)
    totals[wave] = x;
  barrier();
  for (int i = 0; i < wave; i++)
    x += totals[i];
  io[block_x() * 256 + thread_x()] = x;
}

KERNEL WORKGROUP(64) divergent(const int *in, int *out, int n) {
  int x = in[thread_x()], y = 0;
  while (x > 1) {
    if (x & 1)
      x = 3 * x + 1;
    else
      x >>= 1;
    if (++y > n)
      break;
  }
  switch (y % 5) {
  case 0: out[thread_x()] = x; break;
  case 1: out[thread_x()] = -x; break;
  case 2: out[thread_x() + 64] = y; break;
  case 3: return;
  default: out[thread_x()] = x * y;
  }
  out[thread_x() + 128] = y;
}
