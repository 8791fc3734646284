// Copies B into k-major order: column after column, each PITCH elements long, zeros behind K.
//
// The kernels read B along k (its tile is stored transposed), so this order makes their loads of B
// contiguous. One thread owns one whole word of the copy.

fn element(batch: u32, k: u32, col: u32) -> u32 {
    let i = p.b_base + batch * p.b_batch + k * p.b_row + col * p.b_col;
    return (b_data[i / PER_WORD] >> (i % PER_WORD * LANE_BITS)) & LANE_MASK;
}

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let word = (wg.y * groups.x + wg.x) * 256u + tid;
    if (word >= p.words) {
        return;
    }
    var bits = 0u;
    for (var lane = 0u; lane < PER_WORD; lane += 1u) {
        let e = word * PER_WORD + lane;
        let k = e % p.c_col;
        let line = e / p.c_col;
        if (k < p.k) {
            bits |= element(line / p.n, k, line % p.n) << (lane * LANE_BITS);
        }
    }
    c_data[word] = bits;
}
