// Barriers, waits, and the prescribed order of a strip's instructions.
#pragma once

// Everything a wave wrote to or read from LDS before is done when any wave goes on. Loads from
// global memory stay in flight. A bare s_barrier would wait for nothing.
DEVICE void lds_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}

// The same with direct-to-LDS loads in flight: all but the `younger` last loads have arrived. The
// fences above would wait for every load.
//   s_waitcnt: vmcnt in bits 3:0 and 15:14, lgkmcnt (0 here) in 11:8, expcnt (not waited) in 6:4.
template <int YOUNGER>
DEVICE void direct_barrier() {
    constexpr int VM = YOUNGER < 63 ? YOUNGER : 63;
    __builtin_amdgcn_sched_barrier(0);
    __builtin_amdgcn_s_waitcnt((VM & 15) | (VM >> 4) << 14 | 0x70);
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_sched_barrier(0);
}

// Masks of sched_group_barrier.
constexpr int SG_VECTOR = 0x2, SG_MFMA = 0x8, SG_LOAD = 0x20, SG_LDS_READ = 0x100, SG_LDS_WRITE = 0x200;

// Matrix instructions of a group, and of a strip.
constexpr int GROUP_MMAS = N_REPEAT * MMAS;
constexpr int STRIP_MMAS = GROUPS * GROUP_MMAS;

template <int MASK, int COUNT>
DEVICE void then() {
    if constexpr (COUNT > 0) __builtin_amdgcn_sched_group_barrier(MASK, COUNT, 0);
}

// How many of `total` events have happened after `at` of `of` equal steps, spread evenly.
constexpr int spread(int total, int at, int of) { return of > 0 ? total * at / of : total; }

// One piece of the schedule: the instructions that go before matrix instruction AT.
//
// Loads from global memory go first, one after every other matrix instruction or so, so that their
// latency has the rest of the strip. Each fragment of A is read one group before it is used.
template <int AT, int LOADS, int END>
DEVICE void prescribe_from() {
    if constexpr (AT < END) {
        constexpr int WINDOW = END * 3 / 4 > 0 ? END * 3 / 4 : 1;
        constexpr int LAST = WINDOW < AT ? WINDOW : AT, NEXT = WINDOW < AT + 1 ? WINDOW : AT + 1;
        then<SG_LOAD, spread(LOADS, NEXT, WINDOW) - spread(LOADS, LAST, WINDOW)>();
        then<SG_LDS_READ, AT % GROUP_MMAS == 0 ? A_CHUNKS : 0>();
        then<SG_MFMA, 1>();
        prescribe_from<AT + 1, LOADS, END>();
    }
}

// The order of a strip up to the hand-over: all groups but the last.
template <int LOADS>
DEVICE void prescribe() {
    if constexpr (SCHEDULE && GROUPS > 1) prescribe_from<0, LOADS, STRIP_MMAS - GROUP_MMAS>();
}

// The hand-over, and the last group behind it.
DEVICE void prescribe_hand_over() {
    if constexpr (SCHEDULE && GROUPS > 1) {
        // The shifts of a guarded copy: earlier they would wait for the loads.
        then<SG_VECTOR, SHIFTED ? 4 * A_LOADS : 0>();
        then<SG_LDS_WRITE, A_LOADS>();
        then<SG_LDS_READ, A_CHUNKS>();
        then<SG_MFMA, GROUP_MMAS>();
    }
}
