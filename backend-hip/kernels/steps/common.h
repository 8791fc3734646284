// What the seven steps share: parameters, element access, and how a sum reaches C.
//
// Sizes are macros that the host sets:
//
//   BM, BN       rows and columns of C a workgroup computes
//   TM, TN       rows and columns of C a thread computes
//   KT           length of a strip along K
//   W            elements of A a load fetches
//   NUM_BUFFERS  pairs of tiles in LDS
//   THREADS      threads of a workgroup
//   HAS_BETA, HAS_BIAS, ACTIVATION   parts of the epilogue
//
// C = activation(alpha · A · B + beta · C + bias). Strides count elements, so transposes and
// sub-matrices are views. beta = 0 leaves C unread: the host sets HAS_BETA to 0.
#pragma once

#include "common/gpu.h"
#include "common/activation.h"

#define GLOBAL __attribute__((address_space(1)))

#ifndef ELEMENT
#define ELEMENT float
#endif
typedef ELEMENT Elem;

typedef long long i64;

// `backend-hip/src/steps/params.rs` is the same in Rust.
struct Params {
    GLOBAL const Elem* a;
    GLOBAL const Elem* b;
    GLOBAL float* c;
    GLOBAL const float* bias;
    i64 a_row, a_col, a_batch;
    i64 b_row, b_col, b_batch;
    i64 c_row, c_col, c_batch;
    u32 m, n, k, batch;
    float alpha, beta;
};

DEVICE GLOBAL const Elem* at_a(const Params& p, u32 batch, u32 row, u32 k) {
    return p.a + batch * p.a_batch + row * p.a_row + k * p.a_col;
}
DEVICE GLOBAL const Elem* at_b(const Params& p, u32 batch, u32 k, u32 col) {
    return p.b + batch * p.b_batch + k * p.b_row + col * p.b_col;
}

// What lies outside the matrices is 0.
DEVICE Elem load_a_or_zero(const Params& p, u32 batch, u32 row, u32 k) {
    return row < p.m && k < p.k ? *at_a(p, batch, row, k) : Elem(0);
}
DEVICE Elem load_b_or_zero(const Params& p, u32 batch, u32 k, u32 col) {
    return k < p.k && col < p.n ? *at_b(p, batch, k, col) : Elem(0);
}

DEVICE void store_c(const Params& p, u32 batch, u32 row, u32 col, float sum) {
    GLOBAL float* c = p.c + batch * p.c_batch + row * p.c_row + col * p.c_col;
    float x = p.alpha * sum;
    if constexpr (HAS_BETA) x += p.beta * *c;
    if constexpr (HAS_BIAS) x += p.bias[col];
    *c = activation<ACTIVATION>(x);
}

// Waits until every thread's LDS accesses are done and visible.
DEVICE void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// Where a thread works: its matrix, its workgroup's corner of C, its index.
struct At {
    u32 batch, row0, col0, tid;
};

#ifdef THREADS
DEVICE At here() {
    return At{__builtin_amdgcn_workgroup_id_z(), __builtin_amdgcn_workgroup_id_y() * BM,
              __builtin_amdgcn_workgroup_id_x() * BN, __builtin_amdgcn_workitem_id_x()};
}
#endif
