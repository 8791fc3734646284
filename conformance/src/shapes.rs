//! Classes of shapes: the sizes at which kernels go wrong, by the reason why.

/// Why a shape is interesting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ShapeClass {
    /// M or N is 0: nothing to do.
    Empty,
    /// K is 0: no product.
    NoProduct,
    /// One multiplication.
    Single,
    /// One row.
    Row,
    /// One column.
    Column,
    /// K is 1: an outer product.
    Outer,
    /// Few rows or columns, a long K.
    Skinny,
    /// Less than the smallest tile on every side.
    Tiny,
    /// Whole tiles on every side.
    Whole,
    /// One less than whole tiles.
    Under,
    /// One more than whole tiles.
    Over,
    /// A whole number of tiles of C, a K tail.
    KTail,
    /// Tails of C, a whole K.
    OuterTail,
    /// K shorter than any strip.
    ShortK,
    /// K many strips long.
    DeepK,
    /// Several tiles and tails on every side.
    Large,
    /// None of the others.
    Odd,
}

impl ShapeClass {
    /// Every class.
    pub const ALL: [Self; 17] = [
        Self::Empty,
        Self::NoProduct,
        Self::Single,
        Self::Row,
        Self::Column,
        Self::Outer,
        Self::Skinny,
        Self::Tiny,
        Self::Whole,
        Self::Under,
        Self::Over,
        Self::KTail,
        Self::OuterTail,
        Self::ShortK,
        Self::DeepK,
        Self::Large,
        Self::Odd,
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::NoProduct => "k0",
            Self::Single => "single",
            Self::Row => "row",
            Self::Column => "column",
            Self::Outer => "outer",
            Self::Skinny => "skinny",
            Self::Tiny => "tiny",
            Self::Whole => "whole",
            Self::Under => "under",
            Self::Over => "over",
            Self::KTail => "k-tail",
            Self::OuterTail => "mn-tail",
            Self::ShortK => "short-k",
            Self::DeepK => "deep-k",
            Self::Large => "large",
            Self::Odd => "odd",
        }
    }

    /// The class of M, N and K. Tiles are those of the kernels: 16, 64 and 128.
    #[must_use]
    pub fn of([m, n, k]: [usize; 3]) -> Self {
        let whole = |size: usize, tile: usize| size > 0 && size.is_multiple_of(tile);
        let all = |by: fn(usize) -> bool| [m, n, k].into_iter().all(by);
        match [m, n, k] {
            _ if m == 0 || n == 0 => Self::Empty,
            _ if k == 0 => Self::NoProduct,
            [1, 1, 1] => Self::Single,
            [1, ..] => Self::Row,
            [_, 1, _] => Self::Column,
            [.., 1] => Self::Outer,
            _ if k > 512 => Self::DeepK,
            _ if m.min(n) < 16 && k >= 128 => Self::Skinny,
            _ if all(|x| x < 16) => Self::Tiny,
            _ if m.max(n) > 192 => Self::Large,
            _ if whole(m, 64) && whole(n, 64) && whole(k, 32) => Self::Whole,
            _ if all(|x| (x + 1).is_multiple_of(16)) => Self::Under,
            _ if all(|x| x > 16 && (x - 1).is_multiple_of(16)) => Self::Over,
            _ if whole(m, 64) && whole(n, 64) => Self::KTail,
            _ if whole(k, 32) => Self::OuterTail,
            _ if k < 8 => Self::ShortK,
            _ => Self::Odd,
        }
    }

    /// Some shapes of the class, smallest first; K is a multiple of 32 with `blocks`, as block scales
    /// need.
    #[must_use]
    pub fn shapes(self, blocks: bool) -> Vec<[usize; 3]> {
        let all: &[[usize; 3]] = match self {
            Self::Empty => &[[0, 7, 5], [7, 0, 5]],
            Self::NoProduct => &[[5, 7, 0], [33, 65, 0]],
            Self::Single => &[[1, 1, 1]],
            Self::Row => &[[1, 37, 70], [1, 129, 33], [1, 64, 128]],
            Self::Column => &[[37, 1, 70], [129, 1, 33], [64, 1, 128]],
            Self::Outer => &[[9, 21, 1], [65, 33, 1], [130, 67, 1]],
            Self::Skinny => &[[3, 70, 150], [100, 5, 200], [2, 2, 300], [15, 64, 128]],
            Self::Tiny => &[[2, 3, 4], [5, 9, 7], [13, 11, 15]],
            Self::Whole => &[[64, 64, 32], [128, 64, 64], [64, 128, 96], [128, 128, 64]],
            Self::Under => &[[15, 31, 31], [63, 63, 15], [31, 127, 47], [127, 63, 63]],
            Self::Over => &[[17, 33, 17], [65, 65, 33], [33, 129, 49], [129, 65, 65]],
            Self::KTail => &[[64, 64, 17], [64, 128, 45], [128, 64, 63]],
            Self::OuterTail => &[[20, 37, 32], [67, 70, 64], [131, 50, 96]],
            Self::ShortK => &[[20, 40, 3], [70, 35, 5], [66, 90, 7]],
            Self::DeepK => &[[5, 9, 700], [20, 18, 1030], [33, 17, 2051]],
            Self::Large => &[[197, 131, 75], [130, 261, 50], [200, 200, 40]],
            Self::Odd => &[[21, 45, 39], [50, 77, 61], [90, 70, 101]],
        };
        if !blocks {
            return all.to_vec();
        }
        // Rounding K up keeps the reason on the sides of C; classes about K have shapes of their own.
        let of_blocks: &[[usize; 3]] = match self {
            Self::Single => &[],
            Self::Outer | Self::ShortK | Self::Tiny | Self::KTail => &[],
            Self::Under => &[],
            Self::Over => &[],
            Self::Odd => &[],
            Self::Skinny => &[[3, 70, 160], [15, 64, 128]],
            Self::DeepK => &[[5, 9, 704], [20, 18, 1056]],
            _ => {
                return all.iter().map(|&[m, n, k]| [m, n, k.next_multiple_of(32)]).collect();
            }
        };
        of_blocks.to_vec()
    }
}

/// Matrices, and M, N and K of products that are cut on a device whose bindings hold 64 KiB and whose
/// dispatches have 8 workgroups along an axis: along M, N, the batch, and K, by every kernel or by those
/// of small blocks.
#[must_use]
pub(crate) fn in_pieces() -> [(usize, [usize; 3]); 6] {
    [
        (1, [300, 60, 20]),
        (1, [14, 1100, 10]),
        (13, [12, 20, 25]),
        (1, [17, 40, 700]),
        (1, [20, 750, 8]),
        (1, [33, 130, 600]),
    ]
}

/// The same where a one-shot product holds no more than 224 KiB, for elements of `bytes` bytes of A: one
/// of its operands has that many.
#[must_use]
pub(crate) fn streamed(bytes: usize) -> [(usize, [usize; 3]); 4] {
    let more = 4 / bytes.clamp(1, 4);
    [
        (1, [620 * more, 18, 96]),
        (1, [18, 620 * more, 96]),
        (16 * more, [30, 20, 60]),
        (1, [20, 18, 1600 * more]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_belong_to_their_class() {
        for class in ShapeClass::ALL {
            for blocks in [false, true] {
                for shape in class.shapes(blocks) {
                    assert_eq!(ShapeClass::of(shape), class, "{shape:?}");
                    assert!(!blocks || shape[2] % 32 == 0, "{shape:?}");
                }
            }
        }
    }
}
