// A TM×TN outer product of scalars a thread, threads along N first.

alias Accumulator = array<array<Acc, TN>, TM>;
alias FragmentA = array<Elem, TM>;
alias FragmentB = array<Elem, TN>;

fn thread_tile_offset(tid: u32) -> vec2<u32> {
    return vec2<u32>(tid / (BN / TN) * TM, tid % (BN / TN) * TN);
}

fn load_fragment_a(at: Place, t: u32, buf: u32, row: u32, ki: u32) -> FragmentA {
    var fragment: FragmentA;
    for (var i = 0u; i < TM; i += 1u) {
        fragment[i] = read_a(at, t, buf, row + i, ki);
    }
    return fragment;
}

fn load_fragment_b(at: Place, t: u32, buf: u32, col: u32, ki: u32) -> FragmentB {
    var fragment: FragmentB;
    for (var j = 0u; j < TN; j += 1u) {
        fragment[j] = read_b(at, t, buf, col + j, ki);
    }
    return fragment;
}

fn multiply(acc: ptr<function, Accumulator>, a_in: FragmentA, b_in: FragmentB) {
    var a = a_in;
    var b = b_in;
    for (var i = 0u; i < TM; i += 1u) {
        for (var j = 0u; j < TN; j += 1u) {
            (*acc)[i][j] += a[i] * b[j];
        }
    }
}

fn store_accumulator(at: Place, thread: vec2<u32>, acc_in: Accumulator) {
    var acc = acc_in;
    for (var i = 0u; i < TM; i += 1u) {
        for (var j = 0u; j < TN; j += 1u) {
            let row = at.row0 + thread.x + i;
            let col = at.col0 + thread.y + j;
            if (row < p.m && col < p.n) {
                store_c(at.batch, row, col, acc[i][j]);
            }
        }
    }
}
