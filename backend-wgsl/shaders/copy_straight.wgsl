// Copies an operand whose neighbours stay neighbours: only where its lines start changes, zeros behind
// their ends.
//
//   copy[slow · pitch + fast] = operand[slow · stride + fast]
//
// The fast index is the step along K in a copy along K, and the line in one across K. A thread owns sixteen
// bytes of the copy, which start anywhere in a word of the operand:
//
//   operand   … | w0 . . X | X X X X | X X X X | X X X X | X w4 . . | …
//   copy          | X X X X | X X X X | X X X X | X X X X |
//
// Threads side by side own neighbours, so the words that two of them need come from the cache.
//
// p.n is where a dispatch ends along the fast index, zeros behind the operand's end included.

const VECTOR = 4u * PER_WORD;
// Rounds of a thread, few enough for a compiler to write out: their loads are on their way at once.
const ROUNDS = 4u;

// Of four words that hold elements from `first` on, the elements before `end`.
fn keep(words: vec4<u32>, first: u32, end: u32) -> vec4<u32> {
    let inside = vec4<u32>(end) - min(vec4<u32>(end), first + vec4<u32>(0u, 1u, 2u, 3u) * PER_WORD);
    // Of a word that is cut the lower part; shifts are by less than 32.
    let cut = (vec4<u32>(1u) << (inside % PER_WORD * LANE_BITS)) - 1u;
    return words & select(cut, vec4<u32>(0xffffffffu), inside >= vec4<u32>(PER_WORD));
}

@compute @workgroup_size(32, 8)
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_id) id: vec3<u32>,
) {
    let fast = (wg.x * 32u + id.x) * VECTOR;
    let ends = select(p.m, p.k, ORDER == ALONG_K);
    let lines = select(p.k, p.m, ORDER == ALONG_K);
    let stride = select(p.a_col, p.a_row, ORDER == ALONG_K);
    if (fast >= p.n) {
        return;
    }
    for (var round = 0u; round < ROUNDS; round += 1u) {
        let slow = (wg.y * ROUNDS + round) * 8u + id.y;
        if (slow < lines) {
            var words = vec4<u32>();
            if (fast < ends) {
                let line = p.a_base + wg.z * p.a_batch + slow * stride;
                let first = line + fast;
                // No word behind that of the line's last element is read.
                let last = (line + ends - 1u) / PER_WORD;
                let at = vec4<u32>(first / PER_WORD) + vec4<u32>(0u, 1u, 2u, 3u);
                let here = min(at, vec4<u32>(last));
                let low = vec4<u32>(a_data[here.x], a_data[here.y], a_data[here.z], a_data[here.w]);
                let shift = vec4<u32>(first % PER_WORD * LANE_BITS);
                words = low;
                if (shift.x != 0u) {
                    let next = a_data[min(at.w + 1u, last)];
                    words = (low >> shift) | (vec4<u32>(low.yzw, next) << (32u - shift));
                }
                words = keep(words, fast, ends);
            }
            c_data[(p.c_base + wg.z * p.c_batch + slow * p.c_row + fast) / VECTOR] = words;
        }
    }
}
