// What HIP's headers would define, for clang without them.
#pragma once
#define GLOBAL __attribute__((global))
#define DEVICE __attribute__((device))
#define SHARED __attribute__((shared))
#define KERNEL extern "C" GLOBAL void
#define WORKGROUP(n) __attribute__((amdgpu_flat_work_group_size(n, n)))
#define WAVES(n) __attribute__((amdgpu_waves_per_eu(n)))

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef _Float16 f16;
typedef __bf16 bf16;
template <class T, int N> using vec = T __attribute__((ext_vector_type(N)));
typedef vec<float, 2> f32x2;
typedef vec<float, 4> f32x4;
typedef vec<float, 16> f32x16;
typedef vec<float, 32> f32x32;
typedef vec<int, 4> i32x4;
typedef vec<int, 8> i32x8;
typedef vec<int, 16> i32x16;

DEVICE inline int thread_x() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE inline int block_x() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE inline int block_y() { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE inline void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}
