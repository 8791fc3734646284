// Copies an operand into the order its kernel reads fastest, zeros behind its ends.
//
// A workgroup moves 32 lines by 32 steps along K through workgroup memory, so that both the loads
// and the stores are of neighbours: LINES_ARE_NEAR says which index runs fastest in the source, and
// ORDER which in the copy. One thread owns one whole word of the copy.
//
//   AlongK    copy[line · pitch + k]
//   AcrossK   copy[k · pitch + line]
//   Quads     copy[k / 4 · pitch + line], words of four i8
//
// p.n is where a dispatch ends along the fastest index, zeros behind the operand's end included.

var<workgroup> tile: array<array<u32, 33>, 32>;

fn element(batch: u32, line: u32, k: u32) -> u32 {
    let i = p.a_base + batch * p.a_batch + line * p.a_row + k * p.a_col;
    return (a_data[i / PER_WORD] >> (i % PER_WORD * LANE_BITS)) & LANE_MASK;
}

// The word whose elements are the tile's from (line, k) on.
fn word(line: u32, k: u32) -> u32 {
    var bits = 0u;
    for (var lane = 0u; lane < PER_WORD; lane += 1u) {
        if (ORDER == ACROSS_K) {
            bits |= tile[line + lane][k] << (lane * LANE_BITS);
        } else {
            bits |= tile[line][k + lane] << (lane * LANE_BITS);
        }
    }
    return bits;
}

@compute @workgroup_size(32, 8)
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_id) id: vec3<u32>,
) {
    let line0 = wg.x * 32u;
    let k0 = wg.y * 32u;
    for (var slow = id.y; slow < 32u; slow += 8u) {
        let line = select(slow, id.x, LINES_ARE_NEAR);
        let k = select(id.x, slow, LINES_ARE_NEAR);
        var bits = 0u;
        if (line0 + line < p.m && k0 + k < p.k) {
            bits = element(wg.z, line0 + line, k0 + k);
        }
        tile[line][k] = bits;
    }
    workgroupBarrier();

    let base = p.c_base + wg.z * p.c_batch;
    for (var slow = id.y; slow < 32u; slow += 8u) {
        if (ORDER == ALONG_K) {
            let k = id.x * PER_WORD;
            if (k < 32u && line0 + slow < p.m && k0 + k < p.n) {
                c_data[(base + (line0 + slow) * p.c_row + k0 + k) / PER_WORD] = word(slow, k);
            }
        } else if (ORDER == ACROSS_K) {
            let line = id.x * PER_WORD;
            if (line < 32u && k0 + slow < p.k && line0 + line < p.n) {
                c_data[(base + (k0 + slow) * p.c_row + line0 + line) / PER_WORD] = word(line, slow);
            }
        } else if (slow % 4u == 0u && k0 + slow < p.k && line0 + id.x < p.n) {
            c_data[base + (k0 + slow) / 4u * p.c_row + line0 + id.x] = word(id.x, slow);
        }
    }
}
