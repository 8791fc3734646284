// The ways from a wave's sums to C.
//
// A lane holds row r and columns 4g..4g+3 of every 16×16 block (see mma.h), so one store writes four
// elements. With C_SHUFFLE the blocks pass through LDS first, 16 rows of the tile at a time, and
// each store of a wave covers whole lines of C.
#pragma once

// Which tile this is, and who asks.
struct Place {
    u32 batch, split, row0, col0, wave, tid;
};

// Factors past M and N read as 0: their descriptors end with the vectors.
DEVICE Factors load_factors(const Args& args, u32 batch, u32 row0, u32 wave_col0, u32 lane) {
    Factors f;
    if constexpr (SPLIT_K) return f;
    u32 columns = wave_col0 < args.n ? args.n - wave_col0 : 0;
    if (columns > WAVE_N) columns = WAVE_N;
    if constexpr (HAS_ROW_SCALE) {
        u32 rows = args.m - row0 < TILE_M ? args.m - row0 : TILE_M;
        Buffer from = buffer(args.row_scale + (u64)batch * args.m + row0, rows * 4);
        UNROLL for (int i = 0; i < M_REPEAT; ++i) {
            f.row[i] = __builtin_bit_cast(float, load_b32(from, (i * 16 + lane % 16) * 4, 0));
        }
    }
    if constexpr (HAS_COL_SCALE) {
        Buffer from = buffer(args.col_scale + (u64)batch * args.n + wave_col0, columns * 4);
        UNROLL for (int i = 0; i < N_REPEAT; ++i) {
            f.col[i] = __builtin_bit_cast(f32x4, load_b128(from, (i * 16 + lane / 16 * 4) * 4, 0));
        }
    }
    if constexpr (HAS_BIAS) {
        Buffer from = buffer(args.bias + (u64)wave_col0 * 4, columns * 4);
        UNROLL for (int i = 0; i < N_REPEAT; ++i) {
            f.bias[i] = __builtin_bit_cast(Result, load_b128(from, (i * 16 + lane / 16 * 4) * 4, 0));
        }
    }
    return f;
}

// Writes the elements of `q` whose column is below `columns`. Whole vectors only where C_VECTOR
// allows: N and the rows' addresses are multiples of it then, so a vector is inside or outside.
DEVICE void store_quad(Buffer to, u32 offset, const Quad& q, int columns) {
    if constexpr (C_VECTOR > 1) {
        u32 place = columns > 0 ? offset : OUT_OF_RANGE;
        if constexpr (OUT_BYTES == 4) {
            u32x4 v = {q.word[0], q.word[1], q.word[2], q.word[3]};
            __builtin_amdgcn_raw_buffer_store_b128(v, to, place, 0, 0);
        } else {
            u32x2 v = {q.word[0], q.word[1]};
            __builtin_amdgcn_raw_buffer_store_b64(v, to, place, 0, 0);
        }
    } else {
        UNROLL for (int i = 0; i < 4; ++i) {
            u32 place = i < columns ? offset + i * OUT_BYTES : OUT_OF_RANGE;
            if constexpr (OUT_BYTES == 4) {
                __builtin_amdgcn_raw_buffer_store_b32(q.word[i], to, place, 0, 0);
            } else {
                __builtin_amdgcn_raw_buffer_store_b16((u16)(q.word[i / 2] >> 16 * (i % 2)), to, place,
                                                      0, 0);
            }
        }
    }
}

DEVICE Quad load_quad(Buffer from, u32 offset, int columns) {
    Quad q;
    if constexpr (C_VECTOR > 1) {
        u32 place = columns > 0 ? offset : OUT_OF_RANGE;
        UNROLL for (int i = 0; i < OUT_BYTES; ++i) q.word[i] = load_b32(from, place + i * 4, 0);
    } else {
        UNROLL for (int i = 0; i < OUT_BYTES; ++i) q.word[i] = 0;
        UNROLL for (int i = 0; i < 4; ++i) {
            u32 place = i < columns ? offset + i * OUT_BYTES : OUT_OF_RANGE;
            if constexpr (OUT_BYTES == 4) {
                q.word[i] = load_b32(from, place, 0);
            } else {
                q.word[i / 2] |= load_b16(from, place, 0) << 16 * (i % 2);
            }
        }
    }
    return q;
}

// Split-K: raw sums, rows padded to four, added in order by reduce.hip.
DEVICE void store_sums(const Args& args, const Accumulator (&acc)[M_REPEAT][N_REPEAT], Place p) {
    u64 row_bytes = (u64)((args.n + 3) / 4) * 16;
    u32 rows = args.m - p.row0 < TILE_M ? args.m - p.row0 : TILE_M;
    u64 matrix = (u64)p.batch * args.splits + p.split;
    Buffer to = buffer(args.workspace + (matrix * args.m + p.row0) * row_bytes,
                       rows * (u32)row_bytes);
    u32 lane = p.tid % WAVE;
    UNROLL for (int mi = 0; mi < M_REPEAT; ++mi) {
        u32 row = mi * 16 + lane % 16;
        UNROLL for (int ni = 0; ni < N_REPEAT; ++ni) {
            u32 col = p.col0 + p.wave * WAVE_N + ni * 16 + lane / 16 * 4;
            u32 offset = row < rows && col < args.n ? row * (u32)row_bytes + col * 4 : OUT_OF_RANGE;
            __builtin_amdgcn_raw_buffer_store_b128(__builtin_bit_cast(u32x4, acc[mi][ni]), to, offset,
                                                   0, 0);
        }
    }
}

// C_SHUFFLE: 16 rows of the tile through LDS.
//
//   written   by lanes that hold 4 columns of one row
//   read      16 bytes a thread, threads along a row first: 256 · 16 bytes of whole rows a turn
//
// 16-byte chunks of a row are permuted by XOR with the row, as A's are; a row is a multiple of 8
// chunks. Rows of the tile past M are written but not stored.
DEVICE void shuffle_rows(Buffer c, const Quad (&quads)[N_REPEAT], u32 first_row, u32 rows, int columns,
                         u32 stride, Place p, LdsByte* lds) {
    constexpr int ROW = TILE_N * OUT_BYTES, CHUNKS = ROW / 16, PER_CHUNK = 16 / OUT_BYTES;
    u32 lane = p.tid % WAVE;
    // What the other waves still read: the last strip of A, or the rows before.
    lds_barrier();
    UNROLL for (int ni = 0; ni < N_REPEAT; ++ni) {
        u32 row = lane % 16;
        u32 at = (p.wave * WAVE_N + ni * 16 + lane / 16 * 4) * OUT_BYTES;
        LdsByte* to = lds + row * ROW + ((at / 16) ^ (row % 8)) * 16 + at % 16;
        if constexpr (OUT_BYTES == 4) {
            u32x4 v = {quads[ni].word[0], quads[ni].word[1], quads[ni].word[2], quads[ni].word[3]};
            *(LdsChunk*)to = v;
        } else {
            u32x2 v = {quads[ni].word[0], quads[ni].word[1]};
            *(__attribute__((address_space(3))) u32x2*)to = v;
        }
    }
    lds_barrier();
    UNROLL for (int i = 0; i < (16 * CHUNKS + THREADS - 1) / THREADS; ++i) {
        u32 id = i * THREADS + p.tid;
        if (16 * CHUNKS % THREADS != 0 && id >= 16 * CHUNKS) break;
        u32 row = id / CHUNKS, chunk = id % CHUNKS;
        u32x4 v = *(LdsChunk*)(lds + row * ROW + (chunk ^ (row % 8)) * 16);
        u32 col = chunk * PER_CHUNK;
        u32 offset = first_row + row < rows ? (first_row + row) * stride + col * OUT_BYTES
                                            : OUT_OF_RANGE;
        if constexpr (C_VECTOR == PER_CHUNK) {
            u32 place = (int)col < columns ? offset : OUT_OF_RANGE;
            __builtin_amdgcn_raw_buffer_store_b128(v, c, place, 0, 0);
        } else {
            UNROLL for (int q = 0; q < PER_CHUNK / 4; ++q) {
                Quad quad;
                UNROLL for (int j = 0; j < OUT_BYTES; ++j) quad.word[j] = v[q * OUT_BYTES + j];
                store_quad(c, offset + q * 4 * OUT_BYTES, quad, columns - (int)col - 4 * q);
            }
        }
    }
}

DEVICE void store_tile(const Args& args, const Accumulator (&acc)[M_REPEAT][N_REPEAT],
                       const Factors& factors, Place p, LdsByte* lds) {
    if constexpr (SPLIT_K) {
        store_sums(args, acc, p);
        return;
    }
    u32 lane = p.tid % WAVE;
    u32 rows = args.m - p.row0 < TILE_M ? args.m - p.row0 : TILE_M;
    int columns = args.n - p.col0 < TILE_N ? args.n - p.col0 : TILE_N;
    u32 stride = (u32)args.c_stride;
    // Rounded up to whole words: what is stored is checked per element.
    u32 bytes = ((rows - 1) * stride + columns * OUT_BYTES + 3) & ~3u;
    Buffer c = buffer(args.c + p.batch * args.c_batch + p.row0 * args.c_stride +
                          (u64)p.col0 * OUT_BYTES, bytes);

    UNROLL for (int mi = 0; mi < M_REPEAT; ++mi) {
        u32 row = mi * 16 + lane % 16;
        u32 row_offset = row < rows ? row * stride : OUT_OF_RANGE;
        Quad quads[N_REPEAT];
        UNROLL for (int ni = 0; ni < N_REPEAT; ++ni) {
            u32 col = p.wave * WAVE_N + ni * 16 + lane / 16 * 4;
            u32 offset = row_offset + col * OUT_BYTES;
            Result old = {0, 0, 0, 0};
            if constexpr (HAS_BETA) old = from_quad(load_quad(c, offset, columns - (int)col));
            quads[ni] = to_quad(finish<Result>(args, factors, acc[mi][ni], mi, ni, old));
            if constexpr (!C_SHUFFLE) store_quad(c, offset, quads[ni], columns - (int)col);
        }
        if constexpr (C_SHUFFLE) {
            shuffle_rows(c, quads, mi * 16, rows, columns, stride, p, lds);
        }
    }
}
