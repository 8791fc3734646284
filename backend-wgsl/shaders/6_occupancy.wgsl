// Step 6, occupancy: registers and workgroup memory traded against resident workgroups.
//
// WGSL has no launch bounds, so the trade is made by the tile itself. A thread holds TM·TN
// accumulators and TM + TN fragments; a workgroup holds (BM + BN)·KT elements of tiles:
//
//   variant    block     thread   accumulators   workgroup memory (KT 16, f32)
//   wide       128×128   8×8      64             16 KiB
//   balanced   128×64    8×4      32             12 KiB
//   lean       64×64     4×4      16              8 KiB
//
// Fewer registers and less workgroup memory let more workgroups wait for memory at once; larger
// thread tiles do more arithmetic for each value they read. There is one buffer, because a second
// one would halve the number of resident workgroups by itself; A keeps step 5's vector loads.

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
        for (var v = tid; v < BM * KT / W; v += THREADS) {
            let i = v / (KT / W);
            let ki = v % (KT / W) * W;
            let values = load_a_vector_or_zero(batch, row0 + i, k0 + ki);
            for (var e = 0u; e < W; e += 1u) {
                tile_a[i][ki + e] = lane(values, e);
            }
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
