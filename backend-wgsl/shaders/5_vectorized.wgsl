// Step 5, vector loads: the double buffer of step 4 with A fetched W elements an instruction.
//
// A's elements are adjacent along k, so a thread can fetch W = 2 or 4 of them at once: the same
// bytes through the caches, fewer instructions. B is read along k, N elements apart, and stays
// scalar. The width is chosen on the host, which has checked that every row of A starts at a
// multiple of W; so a vector never straddles two rows, and of one that reaches past the last column
// only the elements inside are used.

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

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let at = Place(wg.z, wg.y * BM, wg.x * BN, tid);
    let thread_row = tid / (BN / TN) * TM;
    let thread_col = tid % (BN / TN) * TN;
    let strips = (p.k + KT - 1u) / KT;

    var acc: array<array<Acc, TN>, TM>;
    prologue(at);
    for (var t = 0u; t < strips; t += 1u) {
        prefetch(at, t, strips);
        acquire();
        let buf = buf_idx(t);
        for (var ki = 0u; ki < KT; ki += 1u) {
            var frag_a: array<Elem, TM>;
            var frag_b: array<Elem, TN>;
            for (var i = 0u; i < TM; i += 1u) {
                frag_a[i] = tile_a[buf][thread_row + i][ki];
            }
            for (var j = 0u; j < TN; j += 1u) {
                frag_b[j] = tile_b_t[buf][thread_col + j][ki];
            }
            for (var i = 0u; i < TM; i += 1u) {
                for (var j = 0u; j < TN; j += 1u) {
                    acc[i][j] += frag_a[i] * frag_b[j];
                }
            }
        }
        release();
    }

    for (var i = 0u; i < TM; i += 1u) {
        for (var j = 0u; j < TN; j += 1u) {
            let row = at.row0 + thread_row + i;
            let col = at.col0 + thread_col + j;
            if (row < p.m && col < p.n) {
                store_c(at.batch, row, col, acc[i][j]);
            }
        }
    }
}
