// Vector addition with any length, by value structs, and templates.
#include "prelude.h"

KERNEL vector_add(const float *a, const float *b, float *c, int n) {
  int i = block_x() * __builtin_amdgcn_workgroup_size_x() + thread_x();
  if (i < n)
    c[i] = a[i] + b[i];
}
struct Params {
  float scale;
  int n;
  short offset;
  double bias;
  char flag;
};
KERNEL WORKGROUP(256) scale(float *x, struct Params p, char tail) {
  int i = block_x() * 256 + thread_x();
  if (i < p.n)
    x[i] = x[i] * p.scale + p.offset + (float)p.bias + (p.flag ? tail : 0);
}
template <int N> GLOBAL void WORKGROUP(64) strided(float *x, int n) {
  for (int i = block_x() * 64 + thread_x(); i < n; i += N)
    x[i] *= N;
}
template GLOBAL void strided<128>(float *, int);
template GLOBAL void strided<4096>(float *, int);
KERNEL three_dimensions(float *x, int nx, int ny, int nz) {
  int i = block_x() * __builtin_amdgcn_workgroup_size_x() + thread_x();
  int j = block_y() * __builtin_amdgcn_workgroup_size_y() + __builtin_amdgcn_workitem_id_y();
  int k = __builtin_amdgcn_workgroup_id_z() * __builtin_amdgcn_workgroup_size_z() + __builtin_amdgcn_workitem_id_z();
  if (i < nx && j < ny && k < nz)
    x[((u64)k * ny + j) * nx + i] += (float)(i + 2 * j + 3 * k) * __builtin_amdgcn_grid_size_y();
}
