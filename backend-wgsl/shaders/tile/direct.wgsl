// No tiles: fragments come straight from global memory, and the caches share what threads have in
// common. Nothing to wait for, so the hooks are empty.

fn read_a(at: Place, t: u32, buf: u32, i: u32, ki: u32) -> Elem {
    return load_a_or_zero(at.batch, at.row0 + i, t * KT + ki);
}

fn read_b(at: Place, t: u32, buf: u32, j: u32, ki: u32) -> Elem {
    return load_b_or_zero(at.batch, t * KT + ki, at.col0 + j);
}
