// A's strip by vectors of W elements along k.
//
// The width is chosen on the host, which has checked that A's elements are adjacent along k and that
// every row starts at a multiple of W; a vector that would reach past the last row or column is
// loaded element by element, with zeros for what is missing.
#pragma once

typedef Elem Vector __attribute__((ext_vector_type(W)));

// `tile` is BM rows of KT.
DEVICE void load_a_vectors(const Params& p, Elem (*tile)[KT], At at, u32 k0) {
    for (u32 v = at.tid; v < BM * KT / W; v += THREADS) {
        u32 i = v / (KT / W), ki = v % (KT / W) * W;
        u32 row = at.row0 + i, k = k0 + ki;
        if (row < p.m && k + W - 1 < p.k) {
            Vector values = *(GLOBAL const Vector*)at_a(p, at.batch, row, k);
            UNROLL for (int e = 0; e < W; ++e) tile[i][ki + e] = values[e];
        } else {
            UNROLL for (int e = 0; e < W; ++e) {
                tile[i][ki + e] = load_a_or_zero(p, at.batch, row, k + e);
            }
        }
    }
}
