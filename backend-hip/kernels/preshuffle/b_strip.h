// B: from its preshuffled form straight to registers, one strip ahead.
//
//   preshuffled B      [N/16] [K bytes/64] [g: 4] [r: 16] [16 bytes]
//
//   one block, 1024 bytes = what one load instruction of a wave fetches:
//
//                 16 bytes     16 bytes
//     g = 0   | column 0   | column 1   | … | column 15 |     bytes  0..15 of K
//     g = 1   | column 0   | column 1   | … | column 15 |     bytes 16..31
//     g = 2   …                                               bytes 32..47
//     g = 3   …                                               bytes 48..63
//
// Lane l's 16 bytes are the l-th. N is padded to 16 and K to whole strips, both with zeros.
//
//   packed e8m0 scales of B (MX)    [N/64] [K/128] [lane: 64] [4 bytes]
//
// Byte q of lane (g, r) is the scale of column 16q + r for k = 32g..32g+31: one word of a lane
// serves four groups of columns, and the instruction picks the byte.
#pragma once

constexpr int SCALE_WORDS = N_REPEAT >= 4 ? N_REPEAT / 4 : 1;  // of B, a K step

struct ScalesOfStrip {
    u32 a[K_STEPS][M_REPEAT];
    u32 b[K_STEPS][SCALE_WORDS];
};
struct StripOfB {
    FragmentB fragment[K_STEPS][N_REPEAT];
    ScalesOfStrip scale;  // set where BLOCK_SCALED
};

struct SourceOfB {
    Buffer from;             // the wave's columns
    u32 column[N_REPEAT];    // offset of the lane's 16 bytes in block 0 of each group of 16 columns
    Buffer a_scales, b_scales;
    u32 a_scale[M_REPEAT];   // offset of the lane's scale of each row block at k = 0
    u32 b_scale[SCALE_WORDS];
    u32 b_scale_shift;
    u32 k_blocks;            // scales a row of A has
};

DEVICE SourceOfB source_of_b(const Args& args, u32 batch, u32 row0, u32 col0, u32 lane) {
    SourceOfB s;
    u32 group_bytes = 16 * args.k_bytes_b;
    int groups = ((int)args.n - (int)col0 + 15) / 16;
    u64 base = (u64)(col0 / 16) * group_bytes;
    int present = groups < 0 ? 0 : groups < N_REPEAT ? groups : N_REPEAT;
    s.from = buffer(args.b + batch * args.b_batch + base, (u32)present * group_bytes);
    UNROLL for (int i = 0; i < N_REPEAT; ++i) {
        s.column[i] = i < groups ? i * group_bytes + lane * 16 : OUT_OF_RANGE;
    }
    if constexpr (BLOCK_SCALED) {
        u32 rows = args.m - row0 < TILE_M ? args.m - row0 : TILE_M;
        s.k_blocks = args.k / 32;
        s.a_scales = buffer(args.a_scale + ((u64)batch * args.m + row0) * s.k_blocks,
                            rows * s.k_blocks);
        UNROLL for (int i = 0; i < M_REPEAT; ++i) {
            u32 row = i * 16 + lane % 16;
            s.a_scale[i] = row < rows ? row * s.k_blocks + lane / 16 : OUT_OF_RANGE;
        }
        u32 words = args.k_bytes_b / (128 * B_BITS / 8) * WAVE * 4;  // bytes of 64 columns
        u32 column_groups = (args.n + 63) / 64;
        int left = (int)column_groups - (int)(col0 / 64);
        int used = left < 0 ? 0 : left < SCALE_WORDS ? left : SCALE_WORDS;
        s.b_scales = buffer(args.b_scale + ((u64)batch * column_groups + col0 / 64) * words,
                            (u32)used * words);
        UNROLL for (int i = 0; i < SCALE_WORDS; ++i) {
            s.b_scale[i] = i < left ? i * words + lane * 4 : OUT_OF_RANGE;
        }
        s.b_scale_shift = col0 / 16 % 4 * 8;
    }
    return s;
}

// Starts the load of strip `first + AHEAD`. Up to four blocks fit the instruction's immediate; the
// scalar offset carries the rest, and the padding of B makes every block of a strip present.
template <bool MASKED, int AHEAD>
DEVICE StripOfB load_strip_b(const SourceOfB& s, u32 first) {
    StripOfB b;
    u32 scalar = first * B_STRIP_BYTES;
    UNROLL for (int step = 0; step < K_STEPS; ++step) {
        UNROLL for (int i = 0; i < N_REPEAT; ++i) {
            UNROLL for (int c = 0; c < B_CHUNKS; ++c) {
                u32 block = AHEAD * B_BLOCKS + step * B_CHUNKS + c;
                b.fragment[step][i].chunk[c] =
                    load_b128(s.from, s.column[i] + block % 4 * BLOCK_BYTES,
                              scalar + block / 4 * 4 * BLOCK_BYTES);
            }
        }
    }
    if constexpr (BLOCK_SCALED) {
        UNROLL for (int step = 0; step < K_STEPS; ++step) {
            u32 k_step = (first + AHEAD) * K_STEPS + step;
            UNROLL for (int i = 0; i < M_REPEAT; ++i) {
                if constexpr (MASKED) {
                    // Past K lies the next row's scale, which may be a NaN.
                    u32 lane_block = __builtin_amdgcn_workitem_id_x() % WAVE / 16;
                    u32 offset = s.a_scale[i] + k_step * 4;
                    if (k_step * 4 + lane_block >= s.k_blocks) offset = OUT_OF_RANGE;
                    b.scale.a[step][i] = load_b8(s.a_scales, offset, 0);
                } else {
                    b.scale.a[step][i] = load_b8(s.a_scales, s.a_scale[i], k_step * 4);
                }
            }
            UNROLL for (int i = 0; i < SCALE_WORDS; ++i) {
                u32 word = load_b32(s.b_scales, s.b_scale[i], k_step * WAVE * 4);
                b.scale.b[step][i] = N_REPEAT < 4 ? word >> s.b_scale_shift : word;
            }
        }
    }
    return b;
}
