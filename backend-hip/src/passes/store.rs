//! Raw sums to C: `kernels/store.hip`.

use bytemuck::{Pod, Zeroable};
use lapidary_core::ElementType;

use super::launch;
use crate::compile::Request;
use crate::preshuffle::{
    EpilogueTraits, Launch, MAX_WORKGROUPS, TooMany, activation_code, count, type_code,
};
use crate::target::Target;

/// What the pass reads besides C and the bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sums {
    /// Nothing: the product has no part in C.
    None,
    /// f32 sums.
    F32,
    /// i32 sums, this many bits too far left.
    I32 {
        /// Bits.
        shift: u32,
    },
}

/// One instance of the pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "plain data that callers fill in")]
pub struct StoreConfig {
    /// The architecture.
    pub target: Target,
    /// What was summed.
    pub sums: Sums,
    /// Element type of C: f32, f16, bf16, i8 or i32.
    pub output: ElementType,
    /// Whether rows of C are closer to each other than columns.
    pub lanes_along_m: bool,
    /// The epilogue.
    pub epilogue: EpilogueTraits,
}

impl StoreConfig {
    /// What to compile, or `None` for a type the kernel does not write.
    #[must_use]
    pub fn request(&self) -> Option<Request> {
        use ElementType as E;
        if !matches!(self.output, E::F32 | E::F16 | E::BF16 | E::I8 | E::I32) {
            return None;
        }
        let (has_sums, integer, shift) = match self.sums {
            Sums::None => (0, 0, 0),
            Sums::F32 => (1, 0, 0),
            Sums::I32 { shift } => (1, 1, shift),
        };
        let e = &self.epilogue;
        Some(
            Request::new("store.hip", self.target)
                .define("HAS_SUMS", has_sums)
                .define("SUM_INTEGER", integer)
                .define("SUM_SHIFT", shift)
                .define("OUT_TYPE", type_code(self.output)?)
                .define("LANES_ALONG_M", u32::from(self.lanes_along_m))
                .define("HAS_ROW_SCALE", u32::from(e.row_scale))
                .define("HAS_COL_SCALE", u32::from(e.col_scale))
                .define("HAS_ALPHA", u32::from(e.alpha))
                .define("HAS_BETA", u32::from(e.beta))
                .define("HAS_BIAS", u32::from(e.bias))
                .define("ACTIVATION", activation_code(e.activation)),
        )
    }
}

/// The pass's only argument. Pointers are device addresses; strides of C count elements.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
#[allow(clippy::exhaustive_structs, reason = "a binary interface")]
#[allow(missing_docs, reason = "documented field by field in store.hip")]
pub struct StoreArgs {
    pub sums: u64,
    pub c: u64,
    pub row_scale: u64,
    pub col_scale: u64,
    pub bias: u64,
    pub c_row: i64,
    pub c_col: i64,
    pub c_batch: i64,
    pub m: u32,
    pub n: u32,
    pub batch: u32,
    pub splits: u32,
    pub alpha: u32,
    pub beta: u32,
    pub lines: u32,
    pub matrices: u32,
}

impl StoreArgs {
    /// Fills in sizes; pointers, strides and factors stay 0.
    ///
    /// # Errors
    /// [`TooMany`] if a size leaves 32 bits.
    pub fn sizes(
        config: &StoreConfig,
        [m, n]: [usize; 2],
        batch: usize,
        splits: usize,
    ) -> Result<Self, TooMany> {
        let to = |what, x| count(what, x, u32::MAX);
        let (m, n, batch) = (to("M", m)?, to("N", n)?, to("the batch", batch)?);
        let lines = if config.lanes_along_m { n } else { m };
        Ok(Self {
            m,
            n,
            batch,
            splits: to("ranges of K", splits)?,
            lines: lines.min(MAX_WORKGROUPS),
            matrices: batch.min(MAX_WORKGROUPS),
            ..Self::default()
        })
    }

    /// The grid.
    ///
    /// # Errors
    /// [`TooMany`] past 2³² − 1 threads.
    pub fn launch(&self, config: &StoreConfig) -> Result<Launch, TooMany> {
        let items = if config.lanes_along_m { self.m } else { self.n };
        launch("threads that store a line of C", items.into(), self.lines, self.matrices)
    }
}
