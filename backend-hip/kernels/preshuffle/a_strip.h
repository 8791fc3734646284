// A: from global memory to LDS, and from LDS to fragments.
//
// A strip is TILE_M rows of ROW_CHUNKS 16-byte chunks, row after row without padding. Chunk c of row
// i lies at place c XOR swizzle(i). Without it, the 16 lanes that read one column of chunks would
// meet in the same banks whenever a row is a multiple of 128 bytes:
//
//      place  0  1  2  3  4  5  6  7        (8 chunks a row: fp8, TILE_K = 128)
//   row 0     0  1  2  3  4  5  6  7
//   row 1     1  0  3  2  5  4  7  6
//   row 2     2  3  0  1  6  7  4  5
//   row 3     3  2  1  0  7  6  5  4
//
// Eight chunks fill all 32 banks, so eight rows must put a chunk in eight different places. Rows of
// 128 bytes and more take a new place every row. Of shorter rows several lie side by side in the
// banks: with 4 chunks a step every row would be back at the start after four rows, and rows 0 and 4
// would meet, while a step every second row lasts for eight. Hence the division by 8/ROW_CHUNKS.
// No read or write of A has a bank conflict with it under the published phases of either arch, from
// 4 chunks to 64; `src/preshuffle/lds.rs` models them and tests that.
#pragma once

DEVICE constexpr u32 swizzle(u32 row) {
    return (row / max_of(1, 8 / ROW_CHUNKS)) % ROW_CHUNKS;
}

DEVICE constexpr u32 chunk_address(u32 row, u32 chunk) {
    return row * ROW_BYTES + (chunk ^ swizzle(row)) * 16;
}

typedef __attribute__((address_space(3))) u32x4 LdsChunk;

// A guarded copy takes rows that start anywhere: it loads the aligned dwords that a chunk lies in, one
// more than the chunk has, and shifts. 32-bit elements are dwords themselves.
constexpr bool SHIFTED = A_COPY == COPY_GUARDED && A_BITS < 32;
constexpr int CHUNK_LOADS = SHIFTED ? 2 : 1;

struct StripOfA {
    Buffer from;             // the tile's rows of A
    u32 row_bytes;           // bytes of a row of A that are elements
    u32 loads[A_LOADS];      // offset of each chunk this thread copies, at strip 0
    u32 direct[A_COPY == COPY_DIRECT ? DIRECT_LOADS : 1];
    u32 write[A_LOADS];      // where each chunk goes in a strip
    u32 shift[SHIFTED ? A_LOADS : 1];  // bytes of the first dword loaded that precede the chunk
    u32 read[ROW_CHUNKS / 4];  // where the lane's chunk of each 64-byte block of row r lies
    LdsByte* strips;
};

// Chunk `i` of thread `tid`: threads run along a row first, so that neighbours read neighbours.
DEVICE u32 copy_row(u32 tid, int i) { return (i * THREADS + tid) / ROW_CHUNKS; }
DEVICE u32 copy_chunk(u32 tid, int i) { return (i * THREADS + tid) % ROW_CHUNKS; }

DEVICE StripOfA strip_of_a(const Args& args, u32 batch, u32 row0, u32 tid, LdsByte* strips) {
    StripOfA s;
    u32 rows = args.m - row0 < TILE_M ? args.m - row0 : TILE_M;
    u32 stride = (u32)args.a_stride;
    s.row_bytes = (u32)((u64)args.k * A_BITS / 8);
    s.strips = strips;
    // Whole dwords are loaded: the first and the last may hang over the elements by up to three bytes,
    // which are dropped.
    u64 base = (u64)args.a + batch * args.a_batch + (u64)row0 * args.a_stride;
    u32 lead = SHIFTED ? (u32)base & 3 : 0;
    u32 bytes = (lead + (rows - 1) * stride + s.row_bytes + 3) & ~3u;
    s.from = buffer((const void*)(base - lead), bytes);

    UNROLL for (int i = 0; i < A_LOADS; ++i) {
        u32 row = copy_row(tid, i), chunk = copy_chunk(tid, i);
        u32 at = lead + row * stride + chunk * 16;
        if constexpr (SHIFTED) {
            s.shift[i] = at & 3;
            at &= ~3u;
        }
        s.loads[i] = row < rows ? at : OUT_OF_RANGE;
        s.write[i] = chunk_address(row, chunk);
    }
    if constexpr (A_COPY == COPY_DIRECT) {
        // LDS is filled in order, DIRECT_BYTES a lane; the swizzle picks what is fetched.
        UNROLL for (int i = 0; i < DIRECT_LOADS; ++i) {
            u32 at = (i * THREADS + tid) * DIRECT_BYTES;
            u32 row = at / ROW_BYTES, chunk = (at / 16) % ROW_CHUNKS ^ swizzle(row);
            s.direct[i] = row < rows ? row * stride + chunk * 16 + at % 16 : OUT_OF_RANGE;
        }
    }
    u32 lane = tid % WAVE;
    UNROLL for (int block = 0; block < ROW_CHUNKS / 4; ++block) {
        s.read[block] = chunk_address(lane % 16, block * 4 + lane / 16);
    }
    return s;
}

// The chunks of a strip on their way through registers.
struct Staged {
    u32x4 chunk[A_LOADS];
    u32 beyond[SHIFTED ? A_LOADS : 1];  // the dword after each
};

// Zeroes what lies past the end of a row, `left` bytes away. A neighbouring row's NaN there would
// survive its product with B's zero.
DEVICE u32 keep_bytes(u32 word, int left) {
    int bytes = left < 0 ? 0 : left > 4 ? 4 : left;
    return word & (u32)((1ull << 8 * bytes) - 1);
}
DEVICE u32x4 keep_bytes(u32x4 chunk, int left) {
    UNROLL for (int i = 0; i < 4; ++i) chunk[i] = keep_bytes(chunk[i], left - 4 * i);
    return chunk;
}

// Starts the load of the strip `k_bytes` into the rows. MASKED where the strip may reach past K.
// `ahead` is a compile-time part of `k_bytes` that fits the instruction's immediate.
template <bool MASKED>
DEVICE Staged load_strip(const StripOfA& s, u32 tid, u32 k_bytes, u32 ahead) {
    Staged staged;
    UNROLL for (int i = 0; i < A_LOADS; ++i) {
        if constexpr (MASKED) {
            int left = (int)(s.row_bytes - k_bytes - ahead - copy_chunk(tid, i) * 16);
            u32 offset = left > 0 ? s.loads[i] + ahead + k_bytes : OUT_OF_RANGE;
            if constexpr (SHIFTED) {
                left += s.shift[i];
                staged.beyond[i] = keep_bytes(load_b32(s.from, offset + 16, 0), left - 16);
            }
            staged.chunk[i] = keep_bytes(load_b128(s.from, offset, 0), left);
        } else {
            staged.chunk[i] = load_b128(s.from, s.loads[i] + ahead, k_bytes);
            if constexpr (SHIFTED) {
                staged.beyond[i] = load_b32(s.from, s.loads[i] + ahead + 16, k_bytes);
            }
        }
    }
    return staged;
}

DEVICE void write_strip(const StripOfA& s, const Staged& staged, u32 strip) {
    UNROLL for (int i = 0; i < A_LOADS; ++i) {
        u32x4 chunk = staged.chunk[i];
        if constexpr (SHIFTED) {
            UNROLL for (int j = 0; j < 4; ++j) {
                u32 next = j < 3 ? staged.chunk[i][(j + 1) % 4] : staged.beyond[i];
                chunk[j] = __builtin_amdgcn_alignbyte(next, chunk[j], s.shift[i]);
            }
        }
        *(LdsChunk*)(s.strips + s.write[i] + strip * STRIP_BYTES) = chunk;
    }
}

// Starts the load of a whole strip straight into LDS. A wave fills 64 · DIRECT_BYTES bytes from a
// wave-uniform address. The instruction's immediate would move both addresses, so all of `k_bytes`
// goes into the scalar offset.
DEVICE void load_strip_direct(const StripOfA& s, u32 wave, u32 k_bytes, u32 strip) {
    UNROLL for (int i = 0; i < DIRECT_LOADS; ++i) {
        LdsByte* to = s.strips + strip * STRIP_BYTES + (i * WAVES + wave) * WAVE * DIRECT_BYTES;
        BUFFER_LOAD_LDS(s.from, (__attribute__((address_space(3))) void*)to, DIRECT_BYTES,
                        s.direct[i], k_bytes, 0, 0);
    }
}

// Fragment `group` of a strip: K step group / M_REPEAT, row block group % M_REPEAT.
DEVICE FragmentA read_fragment(const StripOfA& s, int group, u32 strip) {
    FragmentA a;
    int step = group / M_REPEAT, row = group % M_REPEAT * 16;
    UNROLL for (int c = 0; c < A_CHUNKS; ++c) {
        // 16 rows further the swizzle repeats, but for rows of 32 chunks, where it flips the
        // chunk's bit 4: the place of another block of the same row.
        int block = (step * A_CHUNKS + c) ^ (int)(swizzle(row) / 4);
        a.chunk[c] = *(LdsChunk*)(s.strips + s.read[block] + row * ROW_BYTES + strip * STRIP_BYTES);
    }
    return a;
}
