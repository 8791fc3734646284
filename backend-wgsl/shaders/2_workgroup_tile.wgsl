// Step 2, workgroup tiling: a strip of A and of B is loaded once and shared by the workgroup.
//
//        K strip                      tile_a    KT wide: one row a thread row
//      ┌────┐                         tile_b    BN wide: one column a thread column
//   BM │ A  │   K strip ┌────┐
//      └────┘           │ B  │  BN    A 16×16 workgroup reads 2·256 elements a strip and uses each
//                       └────┘        of them 16 times.
//
// Bank conflicts: threads of one row read the same word of tile_a (a broadcast) and neighbouring
// words of tile_b, so this layout has none.

var<workgroup> tile_a: array<array<Elem, KT>, BM>;
var<workgroup> tile_b: array<array<Elem, BN>, KT>;

@compute @workgroup_size(BN, BM)
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_id) lid: vec3<u32>,
) {
    let row = wg.y * BM + lid.y;
    let col = wg.x * BN + lid.x;
    let batch = wg.z;

    var sum = Acc(0);
    for (var k0 = 0u; k0 < p.k; k0 += KT) {
        // Each thread loads one element of each tile; what lies outside the matrices is 0.
        if (lid.x < KT) {
            tile_a[lid.y][lid.x] = load_a_or_zero(batch, row, k0 + lid.x);
        }
        if (lid.y < KT) {
            tile_b[lid.y][lid.x] = load_b_or_zero(batch, k0 + lid.y, col);
        }
        workgroupBarrier();
        for (var ki = 0u; ki < KT; ki += 1u) {
            sum += tile_a[lid.y][ki] * tile_b[ki][lid.x];
        }
        // Nobody may overwrite a tile that another thread still reads.
        workgroupBarrier();
    }
    if (row < p.m && col < p.n) {
        store_c(batch, row, col, sum);
    }
}
