//! How a copy of an operand is made: in which way, and in how many dispatches.

use lapidary_core::{ElementType, Error, Layout};

use super::copies::{CopyOrder, OperandCopy};
use crate::limits::DeviceLimits;

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
    let axis = (limits.workgroups_per_axis as usize).max(1);
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
    use super::super::copies::{Side, in_order};
    use super::*;
    use lapidary_core::{Problem, Shape};

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
                    let straight = CopyWay::of(order, element, source) == CopyWay::Straight;
                    assert_eq!(
                        straight,
                        element != ElementType::I4
                            && columns == (order == CopyOrder::AlongK)
                            && order != CopyOrder::Quads
                    );
                    for band in &bands {
                        // A straight copy is written in whole vectors.
                        let bits = reads.element.bits() * if straight { 1 } else { VECTOR_BITS };
                        let vectors =
                            |elements: usize| (elements * bits).is_multiple_of(VECTOR_BITS);
                        assert!(vectors(band.to) && vectors(band.written), "{band:?}");
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
