// Tiled f32 GEMM through LDS, with tails, and its f64 and integer relatives.
#include "prelude.h"

template <class T, int BM, int BN, int BK, int TM, int TN>
DEVICE void tiled(const T *a, const T *b, T *c, int m, int n, int k, T alpha, T beta) {
  SHARED T as[BK][BM + 1];
  SHARED T bs[BK][BN];
  const int threads = (BM / TM) * (BN / TN);
  int t = thread_x(), row0 = block_y() * BM, col0 = block_x() * BN;
  int tr = t / (BN / TN) * TM, tc = t % (BN / TN) * TN;
  T acc[TM][TN] = {};
  for (int k0 = 0; k0 < k; k0 += BK) {
    for (int i = t; i < BM * BK; i += threads) {
      int r = i / BK, q = i % BK;
      as[q][r] = row0 + r < m && k0 + q < k ? a[(u64)(row0 + r) * k + k0 + q] : T(0);
    }
    for (int i = t; i < BK * BN; i += threads) {
      int q = i / BN, r = i % BN;
      bs[q][r] = k0 + q < k && col0 + r < n ? b[(u64)(k0 + q) * n + col0 + r] : T(0);
    }
    barrier();
    for (int q = 0; q < BK; q++)
      for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
          acc[i][j] += as[q][tr + i] * bs[q][tc + j];
    barrier();
  }
  for (int i = 0; i < TM; i++)
    for (int j = 0; j < TN; j++) {
      int r = row0 + tr + i, q = col0 + tc + j;
      if (r < m && q < n) {
        u64 at = (u64)r * n + q;
        c[at] = alpha * acc[i][j] + (beta != T(0) ? beta * c[at] : T(0));
      }
    }
}

KERNEL WORKGROUP(256) gemm_f32(const float *a, const float *b, float *c, int m, int n, int k, float alpha, float beta) {
  tiled<float, 64, 64, 16, 4, 4>(a, b, c, m, n, k, alpha, beta);
}
KERNEL WORKGROUP(64) gemm_f64(const double *a, const double *b, double *c, int m, int n, int k, double alpha, double beta) {
  tiled<double, 16, 16, 8, 2, 2>(a, b, c, m, n, k, alpha, beta);
}
KERNEL WORKGROUP(64) gemm_i32(const int *a, const int *b, int *c, int m, int n, int k, int alpha, int beta) {
  tiled<int, 32, 32, 8, 4, 4>(a, b, c, m, n, k, alpha, beta);
}
KERNEL WORKGROUP(64) gemm_f16(const f16 *a, const f16 *b, f16 *c, int m, int n, int k, f16 alpha, f16 beta) {
  tiled<f16, 32, 32, 16, 4, 4>(a, b, c, m, n, k, alpha, beta);
}
KERNEL WORKGROUP(64) gemm_i64(const long *a, const long *b, long *c, int m, int n, int k, long alpha, long beta) {
  tiled<long, 16, 16, 8, 2, 2>(a, b, c, m, n, k, alpha, beta);
}
