// Step 7, the generic kernel: one orchestration for every pair of policies.
//
// The text before this file comes from the policies. From the TilePolicy: the tiles, load_tile and
// the hooks prologue, prefetch, acquire, release, buf_idx. From the ComputePolicy:
// thread_tile_offset, load_fragment_a, load_fragment_b, multiply and the Accumulator. Nothing here
// knows how tiles are buffered, how wide loads are, or what one multiply-accumulate is made of.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) wg: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let at = Place(wg.z, wg.y * BM, wg.x * BN, tid);
    let thread = thread_tile_offset(tid);
    let strips = (p.k + KT - 1u) / KT;

    var acc: Accumulator;
    prologue(at);
    for (var t = 0u; t < strips; t += 1u) {
        prefetch(at, t, strips);
        acquire();
        let buf = buf_idx(t);
        for (var ki = 0u; ki < KT; ki += K_STEP) {
            let a = load_fragment_a(at, t, buf, thread.x, ki);
            let b = load_fragment_b(at, t, buf, thread.y, ki);
            multiply(&acc, a, b);
        }
        release();
    }
    store_accumulator(at, thread, acc);
}
