//! Copying an operand into the order its kernel reads fastest.
//!
//! A copy reads and writes the operand once; the product reads it once for every block of C beside
//! or below it. So it pays where the other side of C is long, and sooner where the operand's own
//! strides only allow single loads.

use lapidary_core::{ElementType, Error, Layout, Problem, Shape};

use super::fetch::Lines;
use super::kernel::{Body, Kernel};
use crate::limits::DeviceLimits;

/// Which elements of a copy are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CopyOrder {
    /// Along K.
    AlongK,
    /// Across K: neighbouring rows of A, neighbouring columns of B.
    AcrossK,
    /// Across K in words of four i8 that are neighbours along K, zeros behind the last.
    Quads,
}

impl CopyOrder {
    /// The order in words, for plans.
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::AlongK => "neighbours along K next to each other, lines at multiples of 16",
            Self::AcrossK => "neighbours across K next to each other, steps at multiples of 16",
            Self::Quads => "packed by four along K",
        }
    }
}

/// How a copy gets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CopyWay {
    /// Neighbours of the operand are neighbours of the copy: sixteen bytes a thread.
    Straight,
    /// Through tiles in workgroup memory, an element at a time.
    Tiles {
        /// Whether lines (rows of A, columns of B) are nearer in the operand than steps along K.
        lines_are_near: bool,
    },
}

impl CopyWay {
    /// The way for an operand of this type, whose lines (rows of A, columns of B) are the rows of `source`
    /// and whose steps along K its columns.
    #[must_use]
    pub const fn of(order: CopyOrder, element: ElementType, source: Layout) -> Self {
        let near = match order {
            CopyOrder::AlongK => source.col_stride == 1,
            CopyOrder::AcrossK => source.row_stride == 1,
            CopyOrder::Quads => false,
        };
        // Lines of a copy of i4 start at multiples of eight bytes.
        if near && element.bits() >= 8 {
            Self::Straight
        } else {
            let [line, step] = [source.row_stride.unsigned_abs(), source.col_stride.unsigned_abs()];
            Self::Tiles { lines_are_near: line < step }
        }
    }

    /// Workgroups along the first two axes that write a band of a copy of elements of this type.
    pub(crate) fn workgroups(self, band: &Band, stored: ElementType) -> [u32; 2] {
        let [x, y] = match self {
            Self::Straight => [
                band.written.div_ceil(COPY_TILE * VECTOR_BITS / stored.bits()),
                band.slow.div_ceil(COPY_TILE),
            ],
            Self::Tiles { .. } => {
                [band.count[1].div_ceil(COPY_TILE), band.count[2].div_ceil(COPY_TILE)]
            }
        };
        [x as u32, y as u32]
    }
}

/// Lines and steps along K of a workgroup of the copying pass in [`CopyWay::Tiles`]; [straight](
/// CopyWay::Straight) as many lines, or steps, by as many vectors.
pub(crate) const COPY_TILE: usize = 32;

/// Bits that a thread of a [straight](CopyWay::Straight) copy stores at once.
const VECTOR_BITS: usize = 128;

/// Copies start every line at a multiple of this many elements, whole words of any type.
const PITCH: usize = 16;

/// A copy of an operand, made anew by every execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct OperandCopy {
    /// What is next to what.
    pub order: CopyOrder,
    /// Elements (words of four, for [`CopyOrder::Quads`]) from one line to the next, or from one
    /// step along K to the next.
    pub pitch: usize,
    /// Elements, or words of four.
    pub len: usize,
    /// Matrices it holds: one where all of a batch are the same.
    pub batch: usize,
}

/// One operand as the kernel reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reads {
    /// Strides the kernel reads by, in `element`s.
    pub layout: Layout,
    /// What the kernel finds in memory; words of four i8 count as i32.
    pub element: ElementType,
    /// The copy that is read, if not the operand itself.
    pub copy: Option<OperandCopy>,
}

/// How the kernel reads A and B, and how many steps along K it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Operands {
    /// A.
    pub a: Reads,
    /// B.
    pub b: Reads,
    /// Steps along K: elements, or words of four.
    pub k: usize,
}

impl Operands {
    /// Both operands as they are.
    pub(super) const fn plain(problem: &Problem) -> Self {
        Self {
            a: Reads { layout: problem.a_layout, element: problem.a, copy: None },
            b: Reads { layout: problem.b_layout, element: problem.b, copy: None },
            k: problem.k,
        }
    }
}

/// A side of the product: rows of A or columns of B.
#[derive(Clone, Copy)]
struct Side {
    is_a: bool,
    lines: usize,
    /// Lines of the other side: how often an element is used.
    reuse: usize,
    layout: Layout,
    element: ElementType,
}

/// How a kernel reads its operands: which of them it reads as a copy.
///
/// `wanted` is the caller's word; without it the device's tuning decides.
///
/// # Errors
/// [`Error::LimitExceeded`] if the kernel cannot do without a copy that exceeds a binding.
pub(super) fn plan(
    problem: &Problem,
    kernel: &Kernel,
    wanted: Option<[bool; 2]>,
    limits: &DeviceLimits,
) -> Result<Operands, Error> {
    let mut operands = Operands::plain(problem);
    let quads = kernel.packs_quads();
    if quads {
        operands.k = problem.k.div_ceil(4);
    }
    let sides = [
        Side {
            is_a: true,
            lines: problem.m,
            reuse: problem.n,
            layout: problem.a_layout,
            element: problem.a,
        },
        Side {
            is_a: false,
            lines: problem.n,
            reuse: problem.m,
            layout: problem.b_layout,
            element: problem.b,
        },
    ];
    for (side, wanted) in sides.into_iter().zip([0, 1].map(|i| wanted.map(|w| w[i]))) {
        let lines = if side.is_a {
            Lines::of_a(side.layout, problem.batch)
        } else {
            Lines::of_b(side.layout, problem.batch)
        };
        let (order, needed, pays) = match kernel.body {
            _ if quads => (CopyOrder::Quads, true, true),
            Body::Cooperative => {
                let order = if side.is_a { CopyOrder::AlongK } else { CopyOrder::AcrossK };
                let fits = lines.allows(side.is_a, 8);
                (order, !fits, !fits)
            }
            Body::Vector => {
                let tuning = &limits.tuning;
                let least = if lines.allows(false, 4) {
                    usize::MAX
                } else if lines.allows(true, 4) {
                    tuning.copy_reuse
                } else {
                    tuning.copy_reuse_unaligned
                };
                let pays = side.reuse >= least && side.lines >= least.min(512) && problem.k >= 32;
                (CopyOrder::AcrossK, false, pays)
            }
            _ => (CopyOrder::AcrossK, false, false),
        };
        let copies = matches!(kernel.body, Body::Vector | Body::Cooperative);
        if !(needed || copies && wanted.unwrap_or(pays)) {
            continue;
        }
        match copy(problem, side, order, limits) {
            Ok(reads) if side.is_a => operands.a = reads,
            Ok(reads) => operands.b = reads,
            Err(error) if needed => return Err(error),
            Err(_) => {}
        }
    }
    Ok(operands)
}

/// The copy of one side.
///
/// # Errors
/// [`Error::LimitExceeded`] if the copy, or what it is made from, exceeds a binding.
fn copy(
    problem: &Problem,
    side: Side,
    order: CopyOrder,
    limits: &DeviceLimits,
) -> Result<Reads, Error> {
    let Side { is_a, lines, layout, element, .. } = side;
    let what = if is_a {
        "bytes of A, or of the copy of it that the kernel reads"
    } else {
        "bytes of B, or of the copy of it that the kernel reads"
    };
    let exceeded = |requested, limit| Error::LimitExceeded { what, requested, limit };
    let reads = in_order(problem, side, order)
        .ok_or_else(|| exceeded(u128::MAX, u128::from(limits.binding_bytes)))?;
    let len = reads.copy.map_or(0, |copy| copy.len);
    let rows = Shape { batch: problem.batch, rows: lines, cols: problem.k };
    let source = if is_a { layout } else { layout.transposed() };
    let span = source.extent(rows).map_or(0, |e| (e.max - e.min + 1) as u128);
    let slack = u128::from(limits.binding_alignment) + 16;
    let binding = u128::from(limits.binding_bytes.min(limits.buffer_bytes));
    let bytes =
        |elements: u128, element: ElementType| (elements * element.bits() as u128).div_ceil(8);
    let requested = bytes(len as u128, reads.element).max(bytes(span, element)) + slack;
    if requested > binding { Err(exceeded(requested, binding)) } else { Ok(reads) }
}

/// A packed B: neighbouring columns next to each other, which every kernel reads in vectors.
/// `None` where its length overflows.
pub(crate) fn packed_b(problem: &Problem) -> Option<Reads> {
    let side = Side {
        is_a: false,
        lines: problem.n,
        reuse: problem.m,
        layout: problem.b_layout,
        element: problem.b,
    };
    in_order(problem, side, CopyOrder::AcrossK)
}

/// The copy of one side, whatever the device has room for; `None` where its length overflows.
fn in_order(problem: &Problem, side: Side, order: CopyOrder) -> Option<Reads> {
    let Side { is_a, lines, layout, element, .. } = side;
    let batch = if layout.batch_stride == 0 { 1 } else { problem.batch };
    let (fast, slow, stored) = match order {
        CopyOrder::AlongK => (problem.k, lines, element),
        CopyOrder::AcrossK => (lines, problem.k, element),
        CopyOrder::Quads => (lines, problem.k.div_ceil(4), ElementType::I32),
    };
    let pitch = fast.checked_next_multiple_of(PITCH)?;
    let matrix = pitch.checked_mul(slow)?;
    let len = matrix.checked_mul(batch)?;
    let (line_stride, k_stride) = match order {
        CopyOrder::AlongK => (pitch as isize, 1),
        CopyOrder::AcrossK | CopyOrder::Quads => (1, pitch as isize),
    };
    let batch_stride = if batch == 1 { 0 } else { matrix as isize };
    let by_lines = Layout { row_stride: line_stride, col_stride: k_stride, batch_stride };
    Some(Reads {
        layout: if is_a { by_lines } else { by_lines.transposed() },
        element: stored,
        copy: Some(OperandCopy { order, pitch, len, batch }),
    })
}

/// A part of an operand that one dispatch of the copying pass moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Band {
    /// First matrix, line and step along K.
    pub(crate) first: [usize; 3],
    /// Matrices, lines and steps along K.
    pub(crate) count: [usize; 3],
    /// Elements (words of four, for [`CopyOrder::Quads`]) along the copy's fast axis, zeros behind
    /// the operand's end included.
    pub(crate) written: usize,
    /// Elements (words of four) along its slow axis.
    pub(crate) slow: usize,
    /// Where in the copy its first element goes.
    pub(crate) to: usize,
}

/// The largest [`Band`] of an operand: matrices, lines and steps along K, of which there are `count` in
/// all and which lie as `source` has lines by steps. Its part of the operand and its part of the copy fit
/// a binding each, its workgroups a dispatch.
///
/// # Errors
/// [`Error::LimitExceeded`] if not even the elements of a word fit.
pub(crate) fn largest_band(
    copy: &OperandCopy,
    [element, stored]: [ElementType; 2],
    source: Layout,
    count: [usize; 3],
    limits: &DeviceLimits,
) -> Result<[usize; 3], Error> {
    let axis = limits.workgroups_per_axis as usize;
    let tiles = axis.saturating_mul(COPY_TILE);
    let mut band = [count[0].min(axis), count[1].min(tiles), count[2].min(tiles)];
    let matrix = copy.len / copy.batch.max(1);
    let strides = |layout: Layout| {
        [layout.batch_stride, layout.row_stride, layout.col_stride].map(isize::unsigned_abs)
    };
    // A quarter of the steps, as many words: rounded up to whole elements, a stride of a step is that
    // of a word or less.
    let target = match copy.order {
        CopyOrder::AlongK => [matrix, copy.pitch, 1],
        CopyOrder::AcrossK => [matrix, 1, copy.pitch],
        CopyOrder::Quads => [matrix, 1, copy.pitch.div_ceil(4)],
    };
    let sides = [(strides(source), element), (target, stored)];
    // Whole words or vectors of the copy, which each belong to one band.
    let word = match CopyWay::of(copy.order, element, source) {
        CopyWay::Straight => VECTOR_BITS / stored.bits(),
        CopyWay::Tiles { .. } => 32 / stored.bits(),
    };
    let least = match copy.order {
        CopyOrder::AlongK => [1, 1, word],
        CopyOrder::AcrossK => [1, word, 1],
        CopyOrder::Quads => [1, 1, 4],
    };
    // Zeros behind the last line, and a binding starts at a multiple.
    let slack = limits.binding_alignment + 16 * 4;
    let limit = limits.binding_bytes.saturating_sub(slack);
    loop {
        let bytes = |(strides, element): ([usize; 3], ElementType)| {
            let steps = band.iter().zip(strides);
            let elements: u128 = steps.map(|(&len, s)| (len as u128 - 1) * s as u128).sum();
            ((elements + 1) * element.bits() as u128).div_ceil(8)
        };
        let [from, to] = sides.map(bytes);
        let requested = from.max(to);
        if requested <= u128::from(limit) {
            return Ok(band);
        }
        let (strides, _) = sides[usize::from(to > from)];
        let longest = (0..3)
            .filter(|&axis| band[axis] > least[axis])
            .max_by_key(|&axis| (band[axis] as u128 - 1) * strides[axis] as u128);
        let Some(axis) = longest else {
            return Err(Error::LimitExceeded {
                what: "bytes between an operand's elements of one word of its copy",
                requested,
                limit: u128::from(limit),
            });
        };
        band[axis] = band[axis].div_ceil(2).next_multiple_of(least[axis]);
    }
}

/// The dispatches of up to `most` matrices, lines and steps along K each that copy `lines` lines of `k`
/// steps.
pub(crate) fn bands(copy: &OperandCopy, lines: usize, k: usize, most: [usize; 3]) -> Vec<Band> {
    let matrix = copy.len / copy.batch.max(1);
    let mut bands = Vec::new();
    for z in (0..copy.batch).step_by(most[0].max(1)) {
        for line in (0..lines).step_by(most[1].max(1)) {
            for k0 in (0..k).step_by(most[2].max(1)) {
                let rest = [copy.batch - z, lines - line, k - k0];
                let count = [0, 1, 2].map(|axis| most[axis].min(rest[axis]));
                // The fast axis' place and whether this band ends it, and the slow axis' place and length.
                let across = (line, line + count[1] == lines);
                let ((fast, ends), slow, len) = match copy.order {
                    CopyOrder::AlongK => ((k0, k0 + count[2] == k), line, count[1]),
                    CopyOrder::AcrossK => (across, k0, count[2]),
                    CopyOrder::Quads => (across, k0 / 4, count[2].div_ceil(4)),
                };
                let near = if copy.order == CopyOrder::AlongK { count[2] } else { count[1] };
                bands.push(Band {
                    first: [z, line, k0],
                    count,
                    written: if ends { copy.pitch - fast } else { near },
                    slow: len,
                    to: z * matrix + slow * copy.pitch + fast,
                });
            }
        }
    }
    bands
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever B was, packed it comes in the vectors of every kernel, of every matrix of a batch.
    #[test]
    fn a_packed_b_is_read_in_vectors() {
        for [n, k] in [[1, 1], [90, 7], [128, 64]] {
            let rows = Problem::new(66, n, k).batch(2);
            let columns = rows.clone().b_layout(rows.b_layout.transposed());
            let shared = rows.clone().b_layout(Layout { batch_stride: 0, ..rows.b_layout });
            for (problem, matrices) in [(rows, 2), (columns, 2), (shared, 1)] {
                let reads = packed_b(&problem).expect("small");
                let lines = Lines::of_b(reads.layout, problem.batch);
                assert!(lines.allows(false, 4) && lines.allows(false, 8), "{problem:?}");
                let copy = reads.copy.expect("a copy");
                assert_eq!((copy.batch, copy.len), (matrices, matrices * k * copy.pitch));
            }
        }
    }

    /// Every element of the copy, padding included, is written by exactly one band.
    #[test]
    fn bands_cover_a_copy_once() {
        for order in [CopyOrder::AlongK, CopyOrder::AcrossK, CopyOrder::Quads] {
            for [batch, lines, k] in [[1, 5, 7], [3, 70, 33], [5, 129, 200], [1, 300, 1]] {
                let problem = Problem::new(4, lines, k)
                    .elements(ElementType::I8, ElementType::I32)
                    .batch(batch);
                let side = Side {
                    is_a: false,
                    lines,
                    reuse: 4,
                    layout: problem.b_layout,
                    element: problem.b,
                };
                let copy = in_order(&problem, side, order).and_then(|r| r.copy).expect("small");
                for most in [[1, 32, 32], [2, 64, 64], [2, 32, 96], [65_535; 3]] {
                    let mut times = vec![0u32; copy.len];
                    for band in bands(&copy, lines, k, most) {
                        assert!(band.count.iter().zip(most).all(|(&count, most)| count <= most));
                        for z in 0..band.count[0] {
                            for line in 0..band.slow {
                                let first = band.to + z * (copy.len / batch) + line * copy.pitch;
                                times[first..first + band.written].iter_mut().for_each(|t| *t += 1);
                            }
                        }
                    }
                    assert!(
                        times.iter().all(|&t| t == 1),
                        "{order:?} {batch} {lines} {k} {most:?}"
                    );
                }
            }
        }
    }

    /// Bytes from the first to the last element of a part of an operand or copy.
    fn span(shape: Shape, layout: Layout, element: ElementType) -> u64 {
        let extent = layout.extent(shape).expect("not empty");
        element.bytes_for((extent.max - extent.min + 1) as usize) as u64
    }

    /// Of matrices longer than a binding every band fits one on both sides; others are one band.
    #[test]
    fn bands_fit_bindings() {
        let mut limits = DeviceLimits::from_limits(
            &wgpu::Limits::downlevel_defaults(),
            wgpu::Features::empty(),
            false,
        );
        limits.binding_bytes = 1 << 16;
        for (element, order) in [
            (ElementType::F32, CopyOrder::AcrossK),
            (ElementType::BF16, CopyOrder::AlongK),
            (ElementType::I4, CopyOrder::AcrossK),
            (ElementType::I8, CopyOrder::Quads),
        ] {
            for [batch, lines, k] in [[1, 5000, 40], [1, 40, 5000], [7, 300, 260], [1, 32, 32]] {
                for columns in [false, true] {
                    let mut problem = Problem::new(4, lines, k).batch(batch);
                    problem.b = element;
                    if columns {
                        problem.b_layout = Layout::col_major(k, lines);
                    }
                    let side =
                        Side { is_a: false, lines, reuse: 4, layout: problem.b_layout, element };
                    let reads = in_order(&problem, side, order).expect("small");
                    let copy = reads.copy.expect("a copy");
                    let source = problem.b_layout.transposed();
                    let types = [element, reads.element];
                    let most = largest_band(&copy, types, source, [batch, lines, k], &limits)
                        .expect("tiles fit");
                    let bands = bands(&copy, lines, k, most);
                    let mut whole = 0;
                    for band in &bands {
                        let [batch, rows, cols] = band.count;
                        let from = span(Shape { batch, rows, cols }, source, element);
                        let part = Shape { batch, rows: band.slow, cols: band.written };
                        let lies = Layout {
                            batch_stride: (copy.len / copy.batch) as isize,
                            row_stride: copy.pitch as isize,
                            col_stride: 1,
                        };
                        let to = span(part, lies, reads.element);
                        let room = limits.binding_bytes - limits.binding_alignment;
                        assert!(from.max(to) <= room, "{element} {order:?} {band:?}: {from} {to}");
                        whole += element.bytes_for(batch * rows * cols);
                    }
                    assert_eq!(whole, element.bytes_for(batch * lines * k));
                    assert!(bands.len() > 1 || lines * k == 32 * 32);
                }
            }
        }
        // Elements of a word further apart than any binding is long.
        let copy = OperandCopy { order: CopyOrder::AcrossK, pitch: 64, len: 64 * 64, batch: 1 };
        let source = Layout { row_stride: 1 << 20, col_stride: 1, batch_stride: 0 };
        match largest_band(&copy, [ElementType::BF16; 2], source, [1, 64, 64], &limits) {
            Err(Error::LimitExceeded { requested, .. }) => {
                assert_eq!(requested, 2 * ((1 << 20) + 1));
            }
            other => panic!("{other:?}"),
        }
    }
}
