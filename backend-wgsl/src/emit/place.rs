//! Where a workgroup works along K and in memory: text that the written-out kernels share.

use crate::decide::{Kernel, Stream};

/// An operand's strides as text: numbers where they are known, else the parameters.
pub(super) struct Strides {
    /// Between rows of A, or columns of B.
    pub(super) line: String,
    /// Between steps along K.
    pub(super) k: String,
    /// Between matrices.
    pub(super) batch: String,
}

impl Strides {
    /// Those of A and of B.
    pub(super) fn of(kernel: &Kernel) -> [Self; 2] {
        let number = |value: u32| format!("{value}u");
        match kernel.sizes {
            Some(sizes) => {
                let ([a_row, a_col, a_batch], [b_row, b_col, b_batch]) = (sizes.a, sizes.b);
                [[a_row, a_col, a_batch], [b_col, b_row, b_batch]]
                    .map(|s| s.map(number))
                    .map(|[line, k, batch]| Self { line, k, batch })
            }
            None => [["p.a_row", "p.a_col", "p.a_batch"], ["p.b_col", "p.b_row", "p.b_batch"]]
                .map(|s| s.map(str::to_owned))
                .map(|[line, k, batch]| Self { line, k, batch }),
        }
    }
}

/// A stride in vectors of `width` elements, of which it is a multiple. Strides are two's complement.
pub(super) fn in_vectors(stride: &str, width: u32) -> String {
    match number(stride) {
        Some(value) => format!("{}u", (value as i32 / width as i32) as u32),
        None => format!("bitcast<u32>(bitcast<i32>({stride}) / {width})"),
    }
}

/// The value of a stride that is a number.
fn number(stride: &str) -> Option<u32> {
    stride.strip_suffix('u').and_then(|digits| digits.parse().ok())
}

/// `factor` times a stride, multiplied here where the stride is a number: WGSL refuses constants that
/// overflow, and strides count modulo 2³².
pub(super) fn times(stride: &str, factor: u32) -> String {
    match number(stride) {
        Some(value) => format!("{}u", value.wrapping_mul(factor)),
        None => format!("{factor}u * {stride}"),
    }
}

/// A workgroup's run of strips, block after block: the loop, and of the block at hand what
/// [`Slice::part`] has, the strips `taken` and the `plane` of sums.
const STREAM_OPENING: &str = "\
    let blocks_m = (p.m + BM - 1u) / BM;
    let blocks_n = (p.n + BN - 1u) / BN;
    let run_end = min((wg.x + 1u) * RUN, p.batch * blocks_m * blocks_n * STRIPS);
    for (var unit = wg.x * RUN; unit < run_end; ) {
        let block = unit / STRIPS;
        let taken = min((block + 1u) * STRIPS, run_end) - unit;
        let batch = block / (blocks_m * blocks_n);
        let at = Place(batch, block / blocks_n % blocks_m * BM, block % blocks_n * BN, tid);
        let plane = (wg.x - block * STRIPS / RUN) * p.batch + batch;
        let k_begin = unit % STRIPS * KT;
        let k_length = min(taken * KT, {k} - k_begin);
";

/// A workgroup's part of K.
pub(super) struct Slice {
    /// K where it is known.
    k: Option<u32>,
    k_tile: u32,
    sliced: bool,
    /// The sequence of strips that workgroups share.
    stream: Option<Stream>,
    /// Whether all slices are known to have the same length.
    even: bool,
    /// Whether K is known to consist of whole strips, slices included.
    pub(super) whole_strips: bool,
}

impl Slice {
    pub(super) fn of(kernel: &Kernel) -> Self {
        let k = kernel.sizes.map(|sizes| sizes.k);
        Self {
            k,
            k_tile: kernel.k_tile,
            sliced: kernel.slices.is_some(),
            stream: kernel.slices.and_then(|slices| slices.stream),
            even: kernel.slices.is_some_and(|s| k == s.count.checked_mul(s.k)),
            whole_strips: k.is_some_and(|k| k.is_multiple_of(kernel.k_tile)),
        }
    }

    /// Whether there is known to be a whole strip that can be fetched again where no other follows.
    pub(super) fn can_repeat(&self) -> bool {
        self.whole_strips || (!self.sliced && self.k.is_some_and(|k| k > self.k_tile))
    }

    /// `at`, and the part of K: `k_begin` and `k_length`.
    pub(super) fn part(&self) -> String {
        let k = self.k.map_or_else(|| "p.k".to_owned(), |k| format!("{k}u"));
        if self.stream.is_some() {
            return STREAM_OPENING.replace("{k}", &k);
        }
        if self.sliced {
            // Slices of one length are loops of one length, which compilers write out.
            let length = if self.even {
                "SLICE_K".to_owned()
            } else {
                format!("min(SLICE_K, {k} - k_begin)")
            };
            format!(
                "    let at = Place(wg.z % p.batch, wg.y * BM, wg.x * BN, tid);\n    \
                 let k_begin = wg.z / p.batch * SLICE_K;\n    \
                 let k_length = {length};\n"
            )
        } else {
            format!(
                "    let at = Place(wg.z, wg.y * BM, wg.x * BN, tid);\n    \
                 let k_begin = 0u;\n    let k_length = {k};\n"
            )
        }
    }

    /// The number of the matrix of sums, or of C, that a workgroup stores to.
    pub(super) const fn plane(&self) -> &'static str {
        if self.stream.is_some() { "plane" } else { "wg.z" }
    }

    /// What ends the work on a block, and what comes after the last one.
    pub(super) const fn closing(&self) -> &'static str {
        // Nobody may fill a tile that another thread still reads.
        if self.stream.is_some() {
            "        workgroupBarrier();\n        unit += taken;\n    }\n"
        } else {
            ""
        }
    }

    /// The same, and `strips`; `cut_k` and `cut_left` where K may cut a strip short, which is then
    /// the first that is fetched.
    pub(super) fn opening(&self) -> String {
        let mut text = self.part() + "    let strips = (k_length + KT - 1u) / KT;\n";
        if !self.whole_strips {
            text.push_str(
                "    let cut_k = k_begin + (strips - 1u) * KT;\n    \
                 let cut_left = k_begin + k_length - cut_k;\n",
            );
        }
        text
    }

    /// First step of strip t + 1, of which there is one. Strips follow the one that K may cut short.
    pub(super) const fn next(&self) -> &'static str {
        if self.whole_strips { "k_begin + (t + 1u) * KT" } else { "k_begin + t * KT" }
    }

    /// The same, or of a whole strip where none follows.
    pub(super) const fn next_or_repeated(&self) -> &'static str {
        if self.whole_strips {
            "k_begin + min(t + 1u, strips - 1u) * KT"
        } else {
            "k_begin + min(t, strips - 2u) * KT"
        }
    }
}
