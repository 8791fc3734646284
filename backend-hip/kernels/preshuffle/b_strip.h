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
#pragma once

struct StripOfB {
    FragmentB fragment[K_STEPS][N_REPEAT];
    ScalesOfStrip scale;  // set where BLOCK_SCALED
};

struct SourceOfB {
    Buffer from;             // the wave's columns
    u32 column[N_REPEAT];    // offset of the lane's 16 bytes in block 0 of each group of 16 columns
    SourceOfScales scales;   // set where BLOCK_SCALED
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
    if constexpr (BLOCK_SCALED) s.scales = source_of_scales(args, batch, row0, col0, lane);
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
    if constexpr (BLOCK_SCALED) b.scale = load_scales<MASKED>(s.scales, first + AHEAD);
    return b;
}
