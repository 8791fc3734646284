//! Which matrix element each lane and register of an operand holds.
//!
//! One rule covers the single-block instructions of both architectures, with `lanes(M) = 64 / M` groups of `M` lanes:
//!
//! * A: lane `L` holds row `L mod M`; its elements are consecutive in `k`, from `(L div M) · K / lanes(M)` on.
//! * B: the same with columns.
//! * C and D: lane `L` holds column `L mod N`; register `v` holds row `4·lanes(N)·(v div 4) + 4·(L div N) + v mod 4`.
//!
//! The exception are 8-bit operands of the f8f6f4 instructions (gfx950): there a lane's 32 elements are two runs of 16,
//! the second one half of K further on: `k = (e div 16)·K/2 + 16·(L div M) + e mod 16`.
//!
//! Elements are packed from bit 0 of the first register upwards; 6-bit elements cross register borders.
//!
//! For gfx942 the rules were read off AMD's matrix instruction calculator, and the tests compare them element by element
//! with its tables. For gfx950 they are those of composable_kernel's hardware test and AMD's matrix core article; fp6 is
//! taken to be laid out as fp4 is, which nobody confirmed.

use super::shapes::MfmaShape;

/// Where an element of A or B sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Lane, 0 to 63.
    pub lane: usize,
    /// Element within the lane, from bit 0 of the first register upwards.
    pub element: usize,
}

/// Where an element of C or D sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccPlace {
    /// Lane, 0 to 63.
    pub lane: usize,
    /// Register within the operand.
    pub register: usize,
}

/// How an operand's elements are spread along K.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KOrder {
    /// A lane's elements are consecutive in K.
    Contiguous,
    /// Two runs of 16 elements, K/2 apart: 8-bit operands of f8f6f4.
    SplitHalves,
}

/// The layout of one factor: A (of `outer` = M rows) or B (of `outer` = N columns).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FactorLayout {
    outer: usize,
    k: usize,
    order: KOrder,
}

impl FactorLayout {
    /// Rows of A or columns of B: 16 or 32.
    pub const fn outer(self) -> usize {
        self.outer
    }

    /// Extent of K.
    pub const fn k(self) -> usize {
        self.k
    }

    /// The order along K.
    pub const fn order(self) -> KOrder {
        self.order
    }

    /// Elements in each lane.
    pub const fn per_lane(self) -> usize {
        self.outer * self.k / 64
    }

    /// Row (A) or column (B), and `k`, of a lane's element.
    pub const fn element(self, place: Place) -> (usize, usize) {
        let group = place.lane / self.outer;
        let k = match self.order {
            KOrder::Contiguous => group * self.per_lane() + place.element,
            KOrder::SplitHalves => {
                place.element / 16 * (self.k / 2) + 16 * group + place.element % 16
            }
        };
        (place.lane % self.outer, k)
    }

    /// The inverse of [`FactorLayout::element`].
    pub const fn place(self, outer: usize, k: usize) -> Place {
        let (group, element) = match self.order {
            KOrder::Contiguous => (k / self.per_lane(), k % self.per_lane()),
            KOrder::SplitHalves => {
                let half = self.k / 2;
                (k % half / 16, k / half * 16 + k % 16)
            }
        };
        Place { lane: group * self.outer + outer, element }
    }
}

/// Row and column of an accumulator register's lane, for an instruction with `n` columns.
pub(crate) const fn acc_element(n: usize, place: AccPlace) -> (usize, usize) {
    let rows_per_step = 4 * (64 / n);
    let row = rows_per_step * (place.register / 4) + 4 * (place.lane / n) + place.register % 4;
    (row, place.lane % n)
}

/// The inverse of [`acc_element`].
pub(crate) const fn acc_place(n: usize, row: usize, column: usize) -> AccPlace {
    let rows_per_step = 4 * (64 / n);
    AccPlace {
        lane: row % rows_per_step / 4 * n + column,
        register: row / rows_per_step * 4 + row % 4,
    }
}

/// The lane whose scale register holds the scale of `outer` (row of A or column of B) for K-block `block` of 32.
///
/// The lane that holds a scale is not the one that holds the block's 8-bit data.
pub const fn scale_lane(outer_extent: usize, outer: usize, block: usize) -> usize {
    block * outer_extent + outer
}

impl MfmaShape {
    /// The layout of A.
    pub const fn a_layout(&self) -> FactorLayout {
        FactorLayout { outer: self.m, k: self.k, order: self.k_order(self.a) }
    }

    /// The layout of B.
    pub const fn b_layout(&self) -> FactorLayout {
        FactorLayout { outer: self.n, k: self.k, order: self.k_order(self.b) }
    }

    /// Row and column of an accumulator register's lane.
    pub const fn acc_element(&self, place: AccPlace) -> (usize, usize) {
        acc_element(self.n, place)
    }

    /// The inverse of [`MfmaShape::acc_element`].
    pub const fn acc_place(&self, row: usize, column: usize) -> AccPlace {
        acc_place(self.n, row, column)
    }

    const fn k_order(&self, format: super::formats::Format) -> KOrder {
        if self.is_f8f6f4() && format.bits() == 8 {
            KOrder::SplitHalves
        } else {
            KOrder::Contiguous
        }
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
