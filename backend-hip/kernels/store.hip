// From raw sums to C with any strides and any output type; or, where nothing was multiplied, from C
// and the bias alone.
//
//   x = Σ over ranges of sums · row_scale[m] · col_scale[n] · alpha + beta · C[m][n] + bias[n]
//   C[m][n] = convert(activation(x))
//
// The product leaves its sums in a workspace as [matrix][range][M][N rounded up to 4] (see reduce.hip,
// the faster way for a C whose rows are contiguous). One thread computes one element at a time, lanes
// along whichever of M and N is denser in C.
//
//   HAS_SUMS       0 where alpha = 0 or K = 0: A, B and their scales are not read
//   SUM_INTEGER    sums are i32, else f32;  SUM_SHIFT  bits that an integer sum is too far left
//   OUT_TYPE       element type of C (common/gpu.h)
//   LANES_ALONG_M  1 where rows are closer to each other in C than columns
//   HAS_ROW_SCALE, HAS_COL_SCALE, HAS_ALPHA, HAS_BETA, HAS_BIAS, ACTIVATION
#include "common/gpu.h"
#include "common/activation.h"

#define GLOBAL __attribute__((address_space(1)))
typedef long long i64;

// `backend-hip/src/passes/store.rs` is the same in Rust. Strides of C count elements.
struct StoreArgs {
    GLOBAL const u32* sums;
    GLOBAL u8* c;
    GLOBAL const float* row_scale;
    GLOBAL const float* col_scale;
    GLOBAL const u32* bias;
    i64 c_row, c_col, c_batch;
    u32 m, n, batch;
    u32 splits;
    u32 alpha, beta;  // f32 bits, or i32 for i32 output
    u32 lines;        // workgroups along y: each takes every `lines`-th line
    u32 matrices;     // workgroups along z: each takes every `matrices`-th matrix
};

template <int TYPE> struct Stored { typedef float type; };
template <> struct Stored<T_F16> { typedef _Float16 type; };
template <> struct Stored<T_BF16> { typedef __bf16 type; };
template <> struct Stored<T_I8> { typedef signed char type; };
template <> struct Stored<T_I32> { typedef int type; };
typedef Stored<OUT_TYPE>::type Out;

template <bool INTEGER> struct ValueOf { typedef float type; };
template <> struct ValueOf<true> { typedef int type; };
typedef ValueOf<OUT_TYPE == T_I32>::type Value;  // what the epilogue computes in
typedef ValueOf<SUM_INTEGER != 0>::type Sum;

DEVICE Value factor(u32 bits) { return __builtin_bit_cast(Value, bits); }

// f32 to C's type, to nearest, ties to even. i8 saturates, and NaN gives 0.
DEVICE void convert(float x, float& to) { to = x; }
DEVICE void convert(float x, _Float16& to) { to = (_Float16)x; }
DEVICE void convert(float x, __bf16& to) { to = __builtin_convertvector((f32x2{x, 0.0f}), bf16x2)[0]; }
DEVICE void convert(float x, signed char& to) {
    float rounded = __builtin_rintf(x);
    rounded = rounded > 127.0f ? 127.0f : rounded < -128.0f ? -128.0f : rounded;
    to = x == x ? (signed char)(int)rounded : (signed char)0;
}
DEVICE void convert(int x, int& to) { to = x; }

DEVICE float value(float x) { return x; }
DEVICE float value(_Float16 x) { return (float)x; }
DEVICE float value(__bf16 x) {
    return __builtin_bit_cast(float, (u32)__builtin_bit_cast(u16, x) << 16);
}
DEVICE float value(signed char x) { return (float)x; }
DEVICE int value(int x) { return x; }

DEVICE float activated(float x) { return activation<ACTIVATION>(x); }
DEVICE int activated(int x) { return ACTIVATION == ACT_RELU && x < 0 ? 0 : x; }

DEVICE void store_element(const StoreArgs& p, u32 batch, u32 row, u32 col) {
    Value x = 0;
    if constexpr (HAS_SUMS) {
        u64 width = (u64)((p.n + 3) / 4) * 4, range = (u64)p.m * width;
        GLOBAL const u32* at = p.sums + (u64)batch * p.splits * range + row * width + col;
        Sum sum = __builtin_bit_cast(Sum, at[0]);
        for (u32 i = 1; i < p.splits; ++i) sum += __builtin_bit_cast(Sum, at[i * range]);
        if constexpr (SUM_INTEGER) sum = (int)sum >> SUM_SHIFT;
        x = (Value)sum;
        if constexpr (HAS_ROW_SCALE) x *= p.row_scale[(u64)batch * p.m + row];
        if constexpr (HAS_COL_SCALE) x *= p.col_scale[(u64)batch * p.n + col];
        if constexpr (HAS_ALPHA) x *= factor(p.alpha);
    }
    GLOBAL Out* c = (GLOBAL Out*)p.c + (i64)batch * p.c_batch + (i64)row * p.c_row + (i64)col * p.c_col;
    if constexpr (HAS_BETA) x += factor(p.beta) * value(*c);
    if constexpr (HAS_BIAS) x += factor(p.bias[col]);
    Out out;
    convert(activated(x), out);
    *c = out;
}

extern "C" __global__ BLOCK_THREADS(256) void store(StoreArgs p) {
    u32 inner = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
    u32 inners = LANES_ALONG_M ? p.m : p.n, outers = LANES_ALONG_M ? p.n : p.m;
    if (inner >= inners) return;
    for (u64 batch = __builtin_amdgcn_workgroup_id_z(); batch < p.batch; batch += p.matrices) {
        for (u64 outer = __builtin_amdgcn_workgroup_id_y(); outer < outers; outer += p.lines) {
            u32 row = LANES_ALONG_M ? inner : (u32)outer, col = LANES_ALONG_M ? (u32)outer : inner;
            store_element(p, (u32)batch, row, col);
        }
    }
}
