// One pair of tiles: load strip t, wait, multiply, wait.

fn prologue(at: Place) {}

fn prefetch(at: Place, t: u32, strips: u32) {
    load_tile(at, t, 0u);
}

fn acquire() {
    workgroupBarrier();
}

fn release() {
    workgroupBarrier();
}

fn buf_idx(t: u32) -> u32 {
    return 0u;
}
