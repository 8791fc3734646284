// Step 1, naive: one thread computes one element of C straight from global memory.
//
// A 16×16 workgroup covers a 16×16 patch of C. Every thread walks a whole row of A and a whole
// column of B, so each element of A is fetched by all N threads of its row and each element of B by
// all M threads of its column: 2·M·N·K loads where M·K + K·N would do.

@compute @workgroup_size(BN, BM)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let row = id.y;
    let col = id.x;
    let batch = id.z;
    if (row >= p.m || col >= p.n) {
        return;
    }
    var sum = Acc(0);
    for (var k = 0u; k < p.k; k += 1u) {
        sum += load_a(batch, row, k) * load_b(batch, k, col);
    }
    store_c(batch, row, col, sum);
}
