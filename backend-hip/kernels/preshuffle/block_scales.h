// MX block scales: one e8m0 byte for 32 elements along K of each row of A and column of B.
//
// The scaled MFMA takes the scale of row r and k-block g from lane (g, r), from a byte of the lane's
// word that the instruction names. So a word of a lane can serve four blocks of rows or columns:
//
//   word of lane (g, r)      byte 0      byte 1       byte 2       byte 3        of k-block g
//                            row r       row 16 + r   row 32 + r   row 48 + r
//
// B's scales are packed in that order on the host:
//
//   [N/64] [K/128] [lane: 64] [4 bytes]
//
// A's lie as the caller has them, [M][K/32]. Lane (g, r) loads row 16g + r, four k-blocks a dword, so
// that one load of a wave covers 64 rows. What it holds is the word above with the roles of lane
// group and byte exchanged; `operand_scales` transposes that 4×4 matrix of bytes between the groups.
#pragma once

// Words a K step: four groups of 16 columns of B, four blocks of 16 rows of A.
constexpr int SCALE_WORDS = N_REPEAT >= 4 ? N_REPEAT / 4 : 1;
constexpr int SCALE_ROWS = (M_REPEAT + 3) / 4;
// A row of K/32 bytes starts anywhere in a dword, so a strip's bytes span one more.
constexpr int SCALE_DWORDS = K_STEPS + 1;
// Instructions that load one row's.
constexpr int SCALE_ROW_LOADS = (SCALE_DWORDS + 3) / 4;
constexpr int SCALE_LOADS =
    BLOCK_SCALED ? SCALE_ROWS * SCALE_ROW_LOADS + K_STEPS * SCALE_WORDS : 0;

struct ScalesOfStrip {
    u32 a[SCALE_ROWS][SCALE_DWORDS];
    u32 b[K_STEPS][SCALE_WORDS];
};

struct SourceOfScales {
    Buffer a, b;
    u32 row[SCALE_ROWS];   // offset of the dword in which the lane's row starts
    u32 shift[SCALE_ROWS]; // bytes of that dword before the row
    u32 column[SCALE_WORDS];
    u32 column_shift;      // bits of B's word below the wave's first column
    u32 k_blocks;          // scales of a row
    u32 select;            // of v_perm_b32: byte g of the second operand, byte g of the first
};

DEVICE SourceOfScales source_of_scales(const Args& args, u32 batch, u32 row0, u32 col0, u32 lane) {
    SourceOfScales s;
    u32 rows = args.m - row0 < TILE_M ? args.m - row0 : TILE_M;
    s.k_blocks = args.k / 32;
    u64 base = (u64)args.a_scale + ((u64)batch * args.m + row0) * s.k_blocks;
    u32 lead = (u32)base & 3;
    s.a = buffer((const void*)(base - lead), (lead + rows * s.k_blocks + 3) & ~3u);
    UNROLL for (int i = 0; i < SCALE_ROWS; ++i) {
        u32 row = i * 64 + lane, at = lead + row * s.k_blocks;
        s.row[i] = row < rows ? at & ~3u : OUT_OF_RANGE;
        s.shift[i] = at & 3;
    }
    u32 words = args.k_bytes_b / (128 * B_BITS / 8) * WAVE * 4;  // bytes of 64 columns
    u32 groups = (args.n + 63) / 64;
    int left = (int)groups - (int)(col0 / 64);
    int used = left < 0 ? 0 : left < SCALE_WORDS ? left : SCALE_WORDS;
    s.b = buffer(args.b_scale + ((u64)batch * groups + col0 / 64) * words, (u32)used * words);
    UNROLL for (int i = 0; i < SCALE_WORDS; ++i) {
        s.column[i] = i < left ? i * words + lane * 4 : OUT_OF_RANGE;
    }
    s.column_shift = col0 / 16 % 4 * 8;
    s.select = 0x0c0c0400u + lane / 16 * 0x101u;
    return s;
}

// `COUNT` dwords, in as few instructions as there are.
template <int COUNT>
DEVICE void load_dwords(u32* to, Buffer from, u32 offset, u32 scalar) {
    if constexpr (COUNT >= 4) {
        u32x4 v = load_b128(from, offset, scalar);
        UNROLL for (int i = 0; i < 4; ++i) to[i] = v[i];
        load_dwords<COUNT - 4>(to + 4, from, offset + 16, scalar);
    } else if constexpr (COUNT == 3) {
        u32x3 v = __builtin_amdgcn_raw_buffer_load_b96(from, offset, scalar, 0);
        UNROLL for (int i = 0; i < 3; ++i) to[i] = v[i];
    } else if constexpr (COUNT == 2) {
        u32x2 v = __builtin_amdgcn_raw_buffer_load_b64(from, offset, scalar, 0);
        UNROLL for (int i = 0; i < 2; ++i) to[i] = v[i];
    } else if constexpr (COUNT == 1) {
        to[0] = load_b32(from, offset, scalar);
    }
}

// Starts the load of the scales of strip `strip`. MASKED where it may reach past K: there lies the
// next row's scale, which may be a NaN.
template <bool MASKED>
DEVICE ScalesOfStrip load_scales(const SourceOfScales& s, u32 strip) {
    ScalesOfStrip scales;
    u32 first = strip * (K_STEPS * 4);  // bytes into a row
    UNROLL for (int i = 0; i < SCALE_ROWS; ++i) {
        if constexpr (MASKED) {
            int left = (int)(s.shift[i] + s.k_blocks - first);
            u32 offset = left > 0 ? s.row[i] + first : OUT_OF_RANGE;
            load_dwords<SCALE_DWORDS>(scales.a[i], s.a, offset, 0);
            UNROLL for (int d = 0; d < SCALE_DWORDS; ++d) {
                scales.a[i][d] = keep_bytes(scales.a[i][d], left - 4 * d);
            }
        } else {
            load_dwords<SCALE_DWORDS>(scales.a[i], s.a, s.row[i], first);
        }
    }
    UNROLL for (int step = 0; step < K_STEPS; ++step) {
        UNROLL for (int i = 0; i < SCALE_WORDS; ++i) {
            u32 word = load_b32(s.b, s.column[i], (strip * K_STEPS + step) * WAVE * 4);
            scales.b[step][i] = N_REPEAT < 4 ? word >> s.column_shift : word;
        }
    }
    return scales;
}

// A's words of K step `step` as the instruction takes them.
//
//   v_permlane32_swap of D with itself: groups hold D0 D1 D0 D1, and D2 D3 D2 D3
//   v_permlane16_swap of each:          D0 in every group, D1 in every group, …
//   v_perm:                             byte g of D0, of D1, of D2, of D3
struct OperandScales {
    u32 a[SCALE_ROWS];
};
DEVICE OperandScales operand_scales([[maybe_unused]] const SourceOfScales& s,
                                    [[maybe_unused]] const ScalesOfStrip& scales,
                                    [[maybe_unused]] int step) {
    OperandScales out;
#if defined(__gfx950__)
    UNROLL for (int i = 0; i < SCALE_ROWS; ++i) {
        constexpr bool UPPER = M_REPEAT > 2;
        u32 d = __builtin_amdgcn_alignbyte(scales.a[i][step + 1], scales.a[i][step], s.shift[i]);
        u32x2 halves = __builtin_amdgcn_permlane32_swap(d, d, false, false);
        u32x2 low = __builtin_amdgcn_permlane16_swap(halves[0], halves[0], false, false);
        out.a[i] = __builtin_amdgcn_perm(low[1], low[0], s.select);
        if constexpr (UPPER) {
            u32x2 high = __builtin_amdgcn_permlane16_swap(halves[1], halves[1], false, false);
            out.a[i] |= __builtin_amdgcn_perm(high[1], high[0], s.select) << 16;
        }
    }
#endif
    return out;
}
