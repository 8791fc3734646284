// The kernel's arguments; `backend-hip/src/preshuffle/args.rs` is the same in Rust.
#pragma once

struct Args {
    const u8* a;              // A, row-major, rows `a_stride` bytes apart
    const u8* b;              // B, preshuffled
    u8* c;                    // C, row-major, rows `c_stride` bytes apart
    const float* row_scale;   // one factor a row of A, matrix after matrix
    const float* col_scale;   // one factor a column of B, matrix after matrix
    const u8* bias;           // one f32 (i32 for i32 output) a column
    const u8* a_scale;        // MX: e8m0 factors of A, [M][K/32]
    const u8* b_scale;        // MX: e8m0 factors of B, packed
    u8* workspace;            // split-K: raw sums, [splits][M][N rounded up to 4]
    u64 a_stride, c_stride;   // bytes from row to row
    u64 a_batch, b_batch, c_batch;  // bytes from matrix to matrix
    u32 m, n, k;
    u32 k_bytes_b;            // bytes of K of one column of the preshuffled B, padding included
    u32 tiles_m, tiles_n, tiles_k;
    u32 splits;               // split-K: ranges of K, each at least one strip
    u32 alpha, beta;          // f32 bits, or i32 for i32 output
};
