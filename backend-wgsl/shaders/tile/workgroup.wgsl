// Tiles in workgroup memory, NUM_BUFFERS pairs of them, B's transposed.

var<workgroup> tile_a: array<array<array<Elem, KT>, BM>, NUM_BUFFERS>;
var<workgroup> tile_b_t: array<array<array<Elem, KT>, BN>, NUM_BUFFERS>;

fn load_tile(at: Place, t: u32, buf: u32) {
    let k0 = t * KT;
    for (var v = at.tid; v < BM * KT / W; v += THREADS) {
        let i = v / (KT / W);
        let ki = v % (KT / W) * W;
        let values = load_a_vector_or_zero(at.batch, at.row0 + i, k0 + ki);
        for (var e = 0u; e < W; e += 1u) {
            tile_a[buf][i][ki + e] = lane(values, e);
        }
    }
    for (var i = at.tid; i < BN * KT; i += THREADS) {
        tile_b_t[buf][i / KT][i % KT] = load_b_or_zero(at.batch, k0 + i % KT, at.col0 + i / KT);
    }
}

fn read_a(at: Place, t: u32, buf: u32, i: u32, ki: u32) -> Elem {
    return tile_a[buf][i][ki];
}

fn read_b(at: Place, t: u32, buf: u32, j: u32, ki: u32) -> Elem {
    return tile_b_t[buf][j][ki];
}
