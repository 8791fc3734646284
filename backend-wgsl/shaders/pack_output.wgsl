// The second pass of outputs that share 32-bit words, and the only pass when there is no product.
//
// One thread owns one whole word of C and every element of the view inside it, so that no two
// threads ever write the same word; elements of the word that belong to somebody else keep their
// bits. Sums come from the scratch buffer that the first pass filled, row-major without gaps.
//
// Which element of C lies at index e is found by undoing the strides, largest first: the plan has
// sorted the axes, and an output's strides step over everything the smaller ones span.

struct Axis {
    stride: u32,
    count: u32,
    which: u32,
    flip: u32,
}

// Position of element e in C: batch, row, column; .w is 0 if e is not an element of the view.
fn position(e: u32) -> vec4<u32> {
    if (e < p.c_base) {
        return vec4<u32>(0u);
    }
    var rest = e - p.c_base;
    var at = vec4<u32>(0u, 0u, 0u, 1u);
    for (var d = 0u; d < 3u; d += 1u) {
        let axis = p.axes[d];
        let i = rest / axis.stride;
        if (i >= axis.count) {
            return vec4<u32>(0u);
        }
        rest -= i * axis.stride;
        at[axis.which] = select(i, axis.count - 1u - i, axis.flip == 1u);
    }
    if (rest != 0u) {
        at.w = 0u;
    }
    return at;
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
    let first = word * PER_WORD;
    var bits = 0u;
    var mask = 0u;
    var old = 0u;
    for (var lane = 0u; lane < PER_WORD; lane += 1u) {
        if (position(first + lane).w == 1u) {
            mask |= LANE_MASK << (lane * LANE_BITS);
        }
    }
    if (mask == 0u) {
        return;
    }
    if (HAS_BETA || mask != 0xffffffffu) {
        old = c_data[word];
    }
    for (var lane = 0u; lane < PER_WORD; lane += 1u) {
        let at = position(first + lane);
        if (at.w == 1u) {
            let shift = lane * LANE_BITS;
            var acc = Acc(0);
            if (HAS_SUM) {
                let sum = (at.x * p.m + at.y) * p.n + at.z;
                acc = sums[sum];
                let slices = slices_at(at.x, at.y, at.z);
                for (var slice = 1u; slice < slices; slice += 1u) {
                    acc += sums[slice * p.batch * p.m * p.n + sum];
                }
            }
            let before = decode((old >> shift) & LANE_MASK);
            bits |= (encode(finish(acc, before, at.x, at.y, at.z)) & LANE_MASK) << shift;
        }
    }
    c_data[word] = (old & ~mask) | bits;
}
