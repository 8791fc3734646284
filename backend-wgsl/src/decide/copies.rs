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
pub(super) struct Side {
    pub(super) is_a: bool,
    pub(super) lines: usize,
    /// Lines of the other side: how often an element is used.
    pub(super) reuse: usize,
    pub(super) layout: Layout,
    pub(super) element: ElementType,
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
pub(super) fn in_order(problem: &Problem, side: Side, order: CopyOrder) -> Option<Reads> {
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
}
