// The second pass of outputs that share 32-bit words, where every row of C is whole words: one thread
// owns one word, whose elements are neighbours in a row, and finds it by one division.

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
    let first = word * PER_WORD;
    let line = first / p.n;
    let col = first % p.n;
    let to = (p.c_base + line / p.m * p.c_batch + line % p.m * p.c_row + col) / PER_WORD;
    var old = 0u;
    if (HAS_BETA) {
        old = c_data[to];
    }
    var bits = 0u;
    for (var lane = 0u; lane < PER_WORD; lane += 1u) {
        var acc = sums[first + lane];
        let slices = slices_at(line / p.m, line % p.m, col + lane);
        for (var slice = 1u; slice < slices; slice += 1u) {
            acc += sums[slice * p.batch * p.m * p.n + first + lane];
        }
        let shift = lane * LANE_BITS;
        let before = decode((old >> shift) & LANE_MASK);
        bits |= (encode(finish(acc, before, line / p.m, line % p.m, col + lane)) & LANE_MASK) << shift;
    }
    c_data[to] = bits;
}
