// Memory access of every width: global, buffer, LDS, direct to LDS, hidden arguments, dynamic LDS.
#include "prelude.h"

#define AS(n, T, p) ((__attribute__((address_space(n))) T *)(p))

KERNEL WORKGROUP(256) direct_to_lds(const u32 *in, u32 *out) {
  SHARED u32 tile[1024];
  int wave = __builtin_amdgcn_readfirstlane(thread_x() >> 6);
  for (int i = 0; i < 4; i++)
    __builtin_amdgcn_global_load_lds(AS(1, void, in + i * 256 + thread_x()), AS(3, void, tile + i * 256 + wave * 64), 4, 0, 0);
  __builtin_amdgcn_s_waitcnt(0x0070);
  barrier();
  for (int i = 0; i < 4; i++)
    out[i * 256 + thread_x()] = tile[1023 - i * 256 - thread_x()];
}

KERNEL WORKGROUP(256) buffer_to_lds(u32 *in, u32 *out, int n) {
  SHARED u32 tile[256];
  int wave = __builtin_amdgcn_readfirstlane(thread_x() >> 6);
  __amdgpu_buffer_rsrc_t rsrc = __builtin_amdgcn_make_buffer_rsrc(in, 0, n * 4, 0x00027000);
  __builtin_amdgcn_raw_ptr_buffer_load_lds(rsrc, AS(3, void, tile + wave * 64), 4, thread_x() * 4, n & 64, 16, 0);
  __builtin_amdgcn_s_waitcnt(0x0070);
  barrier();
  out[thread_x()] = tile[thread_x() ^ 1];
}

KERNEL WORKGROUP(64) widths(void *in, void *out, int n) {
  int t = thread_x();
  __amdgpu_buffer_rsrc_t a = __builtin_amdgcn_make_buffer_rsrc(in, 0, n, 0x00027000);
  __amdgpu_buffer_rsrc_t c = __builtin_amdgcn_make_buffer_rsrc(out, 0, n, 0x00027000);
  int s = __builtin_amdgcn_readfirstlane(n * 3);
  auto b8 = __builtin_amdgcn_raw_buffer_load_b8(a, t, 0, 0);
  auto b16 = __builtin_amdgcn_raw_buffer_load_b16(a, t * 2, s, 0);
  auto b32 = __builtin_amdgcn_raw_buffer_load_b32(a, t * 4 + 16, 0, 1);
  auto b64 = __builtin_amdgcn_raw_buffer_load_b64(a, t * 8, 0, 2);
  auto b96 = __builtin_amdgcn_raw_buffer_load_b96(a, t * 12, s, 0);
  auto b128 = __builtin_amdgcn_raw_buffer_load_b128(a, t * 16, 32, 17);
  auto uniform = __builtin_amdgcn_raw_buffer_load_b128(a, 64, 0, 0);
  __builtin_amdgcn_raw_buffer_store_b8(b8, c, t, 0, 0);
  __builtin_amdgcn_raw_buffer_store_b16(b16, c, t * 2 + 64, s, 0);
  __builtin_amdgcn_raw_buffer_store_b32(b32 + uniform[0], c, t * 4 + 256, 0, 0);
  __builtin_amdgcn_raw_buffer_store_b64(b64, c, t * 8 + 512, 0, 2);
  __builtin_amdgcn_raw_buffer_store_b96(b96, c, t * 12 + 1024, 0, 0);
  __builtin_amdgcn_raw_buffer_store_b128(b128, c, t * 16 + 2048, 0, 0);
}

template <class T> DEVICE void lds_copy(const T *in, T *out) {
  SHARED T tile[256];
  int t = thread_x();
  tile[t] = in[t];
  barrier();
  out[t] = tile[255 - t];
  out[t + 256] = tile[(t * 7) & 255];
}
KERNEL WORKGROUP(256) lds_u8(const u8 *in, u8 *out) { lds_copy(in, out); }
KERNEL WORKGROUP(256) lds_s8(const signed char *in, int *out) {
  SHARED signed char tile[256];
  tile[thread_x()] = in[thread_x()];
  barrier();
  out[thread_x()] = tile[255 - thread_x()];
}
KERNEL WORKGROUP(256) lds_u16(const u16 *in, u16 *out) { lds_copy(in, out); }
KERNEL WORKGROUP(256) lds_s16(const short *in, int *out) {
  SHARED short tile[256];
  tile[thread_x()] = in[thread_x()];
  barrier();
  out[thread_x()] = tile[255 - thread_x()];
}
KERNEL WORKGROUP(256) lds_u64(const u64 *in, u64 *out) { lds_copy(in, out); }
KERNEL WORKGROUP(256) lds_b96(const vec<u32, 3> *in, vec<u32, 3> *out) { lds_copy(in, out); }
KERNEL WORKGROUP(256) lds_b128(const vec<u32, 4> *in, vec<u32, 4> *out) { lds_copy(in, out); }
KERNEL WORKGROUP(256) lds_pairs(const u32 *in, u32 *out) {
  SHARED u32 tile[2048];
  SHARED u64 wide[1024];
  int t = thread_x();
  tile[t] = in[t];
  tile[t + 1024] = in[t + 256];
  wide[t] = in[t] * 3ul;
  wide[t + 512] = in[t + 1] * 5ul;
  barrier();
  out[t] = tile[t ^ 3] + tile[(t ^ 3) + 20] + tile[(t ^ 3) + 1024] + (u32)(wide[t ^ 5] ^ wide[(t ^ 5) + 512] ^ wide[(t ^ 5) + 9]);
}

KERNEL half_words(const f16 *in, f16 *out, const signed char *bytes, const short *shorts, int n) {
  int i = block_x() * __builtin_amdgcn_workgroup_size_x() + thread_x();
  if (i >= n)
    return;
  vec<f16, 2> pair = {in[i], in[i + n]};
  pair = pair * pair + (f16)bytes[i];
  out[i] = pair.x;
  out[i + n] = pair.y + (f16)shorts[i];
  out[i + 2 * n] = (f16)__builtin_amdgcn_grid_size_x();
}

KERNEL dynamic_lds(const float *in, float *out, int n) {
  extern SHARED float pool[];
  int t = thread_x(), size = __builtin_amdgcn_workgroup_size_x();
  pool[t] = in[block_x() * size + t];
  barrier();
  float s = 0;
  for (int i = 0; i < n; i++)
    s += pool[(t + i) % size];
  out[block_x() * size + t] = s;
}

KERNEL WORKGROUP(64) nontemporal(const i32x4 *in, i32x4 *out, volatile int *flag) {
  i32x4 x = __builtin_nontemporal_load(in + thread_x());
  *flag = x.x;
  __builtin_nontemporal_store(x + *flag, out + thread_x());
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "");
  out[thread_x() + 64] = in[thread_x() + *flag];
  __builtin_amdgcn_s_sleep(3);
  __builtin_amdgcn_s_setprio(2);
}
