// Two pairs of tiles: strip t + 1 is loaded into one while strip t is multiplied from the other.
// One barrier a strip: after it, the buffer just read is free and the one just filled is visible.

fn prologue(at: Place) {
    load_tile(at, 0u, 0u);
    workgroupBarrier();
}

fn prefetch(at: Place, t: u32, strips: u32) {
    if (t + 1u < strips) {
        load_tile(at, t + 1u, (t + 1u) % 2u);
    }
}

fn acquire() {}

fn release() {
    workgroupBarrier();
}

fn buf_idx(t: u32) -> u32 {
    return t % 2u;
}
