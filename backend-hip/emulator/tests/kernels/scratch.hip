// Scratch: dynamically indexed arrays, forced spills, calls that are not inlined, alloca.
#include "prelude.h"

KERNEL WORKGROUP(64) indexed(const int *in, int *out, int n) {
  int a[40];
  for (int i = 0; i < 40; i++)
    a[i] = in[i * 64 + thread_x()];
  int s = 0;
  for (int i = 0; i < n; i++)
    s += a[(in[i] + thread_x()) % 40] * i;
  out[thread_x()] = s;
}

KERNEL WORKGROUP(64) bytes(const u8 *in, u16 *out, int n) {
  u8 a[33];
  u16 b[17];
  for (int i = 0; i < 33; i++)
    a[i] = in[thread_x() + i];
  for (int i = 0; i < 17; i++)
    b[i] = a[i] * 3 + a[32 - i];
  u32 s = 0;
  for (int i = 0; i < n; i++)
    s += a[(s + i) % 33] + b[(s * i) % 17];
  out[thread_x()] = s;
}

KERNEL WORKGROUP(1024) __attribute__((amdgpu_num_vgpr(24))) spill(const float *in, float *out) {
  float a[48];
  for (int i = 0; i < 48; i++)
    a[i] = in[i * 1024 + thread_x()];
  float s = 0;
  for (int i = 0; i < 48; i++)
    for (int j = 0; j < 48; j += 7)
      s += a[i] * a[47 - j];
  for (int i = 0; i < 48; i++)
    out[i * 1024 + thread_x()] = a[i] + s;
}

DEVICE __attribute__((noinline)) float callee(float x, int n) {
  float table[9];
  for (int i = 0; i < 9; i++)
    table[i] = x * i;
  return table[n % 9];
}
DEVICE __attribute__((noinline)) int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
DEVICE float constants[8] = {1, 2, 4, 8, 16, 32, 64, 128};
DEVICE float *pointer = constants;

KERNEL WORKGROUP(64) calls(float *io, int n) {
  float x = io[thread_x()];
  io[thread_x()] = callee(x, n + thread_x()) + fibonacci(n & 7) + pointer[n & 7];
}
