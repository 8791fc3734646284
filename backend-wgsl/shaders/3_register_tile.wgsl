// Step 3, register tiling: every thread keeps a TM×TN patch of C in registers.
//
// For each k a thread reads TM values of A and TN of B from workgroup memory and does TM·TN
// multiply-adds with them: 64 for 16 reads instead of 1 for 2.
//
//   block BM×BN, threads along N first:   ┌──┬──┬──┬──┐
//                                         │t0│t1│ …│  │  each cell TM×TN
//                                         ├──┼──┼──┼──┤
//                                         │  │  │  │  │
//                                         └──┴──┴──┴──┘
//
// B's tile is stored transposed, so that both fragments step along k with stride 1.

var<workgroup> tile_a: array<array<Elem, KT>, BM>;
var<workgroup> tile_b_t: array<array<Elem, KT>, BN>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let row0 = wg.y * BM;
    let col0 = wg.x * BN;
    let batch = wg.z;
    let thread_row = tid / (BN / TN) * TM;
    let thread_col = tid % (BN / TN) * TN;

    var acc: array<array<Acc, TN>, TM>;
    for (var k0 = 0u; k0 < p.k; k0 += KT) {
        for (var i = tid; i < BM * KT; i += THREADS) {
            tile_a[i / KT][i % KT] = load_a_or_zero(batch, row0 + i / KT, k0 + i % KT);
        }
        for (var i = tid; i < BN * KT; i += THREADS) {
            tile_b_t[i / KT][i % KT] = load_b_or_zero(batch, k0 + i % KT, col0 + i / KT);
        }
        workgroupBarrier();
        for (var ki = 0u; ki < KT; ki += 1u) {
            var frag_a: array<Elem, TM>;
            var frag_b: array<Elem, TN>;
            for (var i = 0u; i < TM; i += 1u) {
                frag_a[i] = tile_a[thread_row + i][ki];
            }
            for (var j = 0u; j < TN; j += 1u) {
                frag_b[j] = tile_b_t[thread_col + j][ki];
            }
            for (var i = 0u; i < TM; i += 1u) {
                for (var j = 0u; j < TN; j += 1u) {
                    acc[i][j] += frag_a[i] * frag_b[j];
                }
            }
        }
        workgroupBarrier();
    }

    for (var i = 0u; i < TM; i += 1u) {
        for (var j = 0u; j < TN; j += 1u) {
            let row = row0 + thread_row + i;
            let col = col0 + thread_col + j;
            if (row < p.m && col < p.n) {
                store_c(batch, row, col, acc[i][j]);
            }
        }
    }
}
