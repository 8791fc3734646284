// What a kernel needs of HIP, without HIP's headers: qualifiers, vector types, buffer resources.
//
// hiprtc brings its own qualifiers; clang with -nogpuinc brings none. hiprtc also brings all names of
// HIP's device headers, `half` and `float4` among them: no file here may declare one of those.
#pragma once

#ifndef __HIPCC_RTC__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#endif

// HIP's own __launch_bounds__ is a macro over these two; a bare launch_bounds attribute is accepted
// and ignored by clang.
#define BLOCK_THREADS(n) __attribute__((amdgpu_flat_work_group_size(n, n)))
#define WAVES_PER_SIMD(n) __attribute__((amdgpu_waves_per_eu(n)))
#define DEVICE __device__ inline __attribute__((always_inline))
#define UNROLL _Pragma("unroll")

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32x2 __attribute__((ext_vector_type(2)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef u32 u32x2 __attribute__((ext_vector_type(2)));
typedef u32 u32x3 __attribute__((ext_vector_type(3)));
typedef u32 u32x4 __attribute__((ext_vector_type(4)));
typedef int i32x4 __attribute__((ext_vector_type(4)));
typedef int i32x8 __attribute__((ext_vector_type(8)));
typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16x8 __attribute__((ext_vector_type(8)));
typedef __bf16 bf16x2 __attribute__((ext_vector_type(2)));
typedef __bf16 bf16x8 __attribute__((ext_vector_type(8)));
typedef short i16x4 __attribute__((ext_vector_type(4)));

constexpr int WAVE = 64;

// Element types; `backend-hip/src/config` writes the same numbers into -D options.
constexpr int T_F32 = 0, T_F16 = 1, T_BF16 = 2, T_I8 = 3, T_E4M3 = 4, T_E5M2 = 5, T_I4 = 6,
              T_E2M1 = 7, T_I32 = 8;

constexpr int bits_of(int type) {
    return type == T_F32 || type == T_I32                    ? 32
           : type == T_F16 || type == T_BF16                 ? 16
           : type == T_I8 || type == T_E4M3 || type == T_E5M2 ? 8
                                                              : 4;
}

constexpr int max_of(int a, int b) { return a > b ? a : b; }

// A value that is the same in every lane, moved to a scalar register. Without it a descriptor that
// the compiler computed in vector registers costs a loop over lanes at every use.
DEVICE u32 uniform(u32 x) { return (u32)__builtin_amdgcn_readfirstlane((int)x); }
DEVICE u64 uniform(u64 x) { return (u64)uniform((u32)(x >> 32)) << 32 | uniform((u32)x); }

// Hides from the compiler that `x` is the same on every turn of a loop, at no cost. Otherwise it
// computes each `x + constant` once before the loop, a register each; hidden, the constant is folded
// into the instruction's immediate.
DEVICE void opaque(u32& x) { asm volatile("" : "+v"(x)); }

// ---- buffer resources -------------------------------------------------------------------------
// A raw buffer (stride 0): loads whose dword lies at or past `bytes` give 0, stores there are
// dropped. The check is per dword and covers the vector offset and the immediate; whether it covers
// the scalar offset differs between descriptions of the hardware, so nothing here relies on it:
// what may be out of range carries OUT_OF_RANGE in its vector offset.
typedef __amdgpu_buffer_rsrc_t Buffer;

// At least as large as every descriptor's size, a multiple of 16, and far enough from 2^32 that no
// offset added to it wraps.
constexpr u32 OUT_OF_RANGE = 0x80000000u;

DEVICE Buffer buffer(const void* base, u32 bytes) {
    return __builtin_amdgcn_make_buffer_rsrc((void*)uniform((u64)base), 0, (int)uniform(bytes),
                                             0x00027000);
}

DEVICE u32x4 load_b128(Buffer from, u32 offset, u32 scalar_offset) {
    return __builtin_amdgcn_raw_buffer_load_b128(from, offset, scalar_offset, 0);
}
DEVICE u32 load_b32(Buffer from, u32 offset, u32 scalar_offset) {
    return __builtin_amdgcn_raw_buffer_load_b32(from, offset, scalar_offset, 0);
}
DEVICE u32 load_b16(Buffer from, u32 offset, u32 scalar_offset) {
    return __builtin_amdgcn_raw_buffer_load_b16(from, offset, scalar_offset, 0);
}

typedef __attribute__((address_space(3))) u8 LdsByte;

// LLVM 19 has the instruction but no builtin for it; a declaration that is named as LLVM's intrinsic
// becomes the intrinsic.
#if __has_builtin(__builtin_amdgcn_raw_ptr_buffer_load_lds)
#define BUFFER_LOAD_LDS __builtin_amdgcn_raw_ptr_buffer_load_lds
#else
extern "C" __device__ void lapidary_buffer_load_lds(
    Buffer, __attribute__((address_space(3))) void*, u32 bytes, u32 offset, u32 scalar_offset,
    u32 immediate, u32 cache) __asm("llvm.amdgcn.raw.ptr.buffer.load.lds");
#define BUFFER_LOAD_LDS lapidary_buffer_load_lds
#endif
