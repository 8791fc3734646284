//! The passes around a kernel, by name.

use super::{CopyOrder, Decision, Store};

/// A pass that runs besides the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pass {
    /// Copies an operand into the order that the kernel reads fastest.
    Copy(CopyOrder),
    /// Packs B once, for many products: [`CopyOrder::AcrossK`] outside of an execution.
    PackB,
    /// Adds up slices of K and stores C, element by element.
    Reduce,
    /// The same in vectors of four, where every row of C is whole ones.
    ReduceRows,
    /// Stores a C whose rows are whole words, of 16- and 8-bit elements.
    PackRows,
    /// Stores any C of such elements, and applies the epilogue where there is no product.
    PackOutput,
}

impl Pass {
    /// Every pass.
    pub const ALL: [Self; 8] = [
        Self::Copy(CopyOrder::AlongK),
        Self::Copy(CopyOrder::AcrossK),
        Self::Copy(CopyOrder::Quads),
        Self::PackB,
        Self::Reduce,
        Self::ReduceRows,
        Self::PackRows,
        Self::PackOutput,
    ];

    /// The pass that adds up slices, where rows are or are not whole vectors.
    pub(crate) const fn reduce(rows: bool) -> Self {
        if rows { Self::ReduceRows } else { Self::Reduce }
    }

    /// The name that plans report.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy(CopyOrder::AlongK) => "copy_along_k",
            Self::Copy(CopyOrder::AcrossK) => "copy_across_k",
            Self::Copy(CopyOrder::Quads) => "copy_quads",
            Self::PackB => "pack_b",
            Self::Reduce => "reduce",
            Self::ReduceRows => "reduce_rows",
            Self::PackRows => "pack_rows",
            Self::PackOutput => "pack_output",
        }
    }
}

impl Decision {
    /// The passes of an execution, in their order. A C whose first element does not start a word is
    /// stored by [`Pass::PackOutput`] in place of [`Pass::PackRows`], and by [`Pass::Reduce`] in place of
    /// [`Pass::ReduceRows`].
    #[must_use]
    pub fn passes(&self) -> Vec<Pass> {
        let copies = [self.operands.a, self.operands.b];
        let mut passes: Vec<Pass> =
            copies.iter().filter_map(|reads| Some(Pass::Copy(reads.copy?.order))).collect();
        match self.store {
            Store::Fused if self.slices() > 1 => {
                passes.push(Pass::reduce(self.finishes_rows()));
            }
            Store::Packed if self.finishes_rows() => passes.push(Pass::PackRows),
            Store::Packed => passes.push(Pass::PackOutput),
            Store::Fused | Store::NoProduct => {}
        }
        passes
    }
}
