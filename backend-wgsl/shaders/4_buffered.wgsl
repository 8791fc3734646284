// Step 4, buffering: the same arithmetic as step 3, with the movement of tiles behind five hooks.
//
//   prologue   before the loop
//   prefetch   start the load of a strip
//   acquire    make the strip about to be read visible
//   release    allow its buffer to be overwritten
//   buf_idx    which buffer strip t lives in
//
// tile/single_buffer.wgsl and tile/double_buffer.wgsl implement them with NUM_BUFFERS = 1 and 2;
// this file is the same for both.

var<workgroup> tile_a: array<array<array<Elem, KT>, BM>, NUM_BUFFERS>;
var<workgroup> tile_b_t: array<array<array<Elem, KT>, BN>, NUM_BUFFERS>;

fn load_tile(at: Place, t: u32, buf: u32) {
    let k0 = t * KT;
    for (var i = at.tid; i < BM * KT; i += THREADS) {
        tile_a[buf][i / KT][i % KT] = load_a_or_zero(at.batch, at.row0 + i / KT, k0 + i % KT);
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
