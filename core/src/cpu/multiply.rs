//! One block of the product, summed in a buffer of its own.

use core::ops::Range;

use faer::linalg::matmul::matmul;
use faer::prelude::ReborrowMut;
use faer::{Accum, MatMut, MatRef, Par};
use half::{bf16, f16};

use super::plan::{CpuPackedB, K_BLOCK};
use super::source::{self, BlockBuffer, BlockScales};
use crate::element::Element;
use crate::view::AnyMatrixRef;

/// A float type that products are summed in.
pub(super) trait Scalar:
    Element + faer::traits::ComplexField + core::ops::MulAssign
{
    const ZERO: Self;
    const ONE: Self;
    /// Exact for every element type that is converted to `Self`.
    fn from_element<T: Element>(value: T) -> Self;
    /// Rounded to nearest.
    fn from_i32(value: i32) -> Self;
    /// Of an integer in range.
    fn to_i32(self) -> i32;
    fn from_f16(from: &[f16], to: &mut [Self]);
    fn from_bf16(from: &[bf16], to: &mut [Self]);
    fn from_i8(from: &[i8], to: &mut [Self]);
}

impl Scalar for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    fn from_element<T: Element>(value: T) -> Self {
        value.to_f64() as f32
    }
    fn from_i32(value: i32) -> Self {
        value as f32
    }
    fn to_i32(self) -> i32 {
        self as i32
    }
    fn from_f16(from: &[f16], to: &mut [Self]) {
        source::f16_to_f32(from, to);
    }
    fn from_bf16(from: &[bf16], to: &mut [Self]) {
        source::bf16_to_f32(from, to);
    }
    fn from_i8(from: &[i8], to: &mut [Self]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f32::from(*from);
        }
    }
}

impl Scalar for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    fn from_element<T: Element>(value: T) -> Self {
        value.to_f64()
    }
    fn from_i32(value: i32) -> Self {
        f64::from(value)
    }
    fn to_i32(self) -> i32 {
        self as i32
    }
    fn from_f16(from: &[f16], to: &mut [Self]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.to_f64();
        }
    }
    fn from_bf16(from: &[bf16], to: &mut [Self]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = from.to_f64();
        }
    }
    fn from_i8(from: &[i8], to: &mut [Self]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f64::from(*from);
        }
    }
}

/// A factor of the product, with the scales of its blocks along K where it has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scaled<'a> {
    pub(super) factor: Factor<'a>,
    pub(super) scales: Option<BlockScales<'a>>,
}

impl<'a> Scaled<'a> {
    /// The same factor with rows and columns exchanged.
    pub(super) fn transposed(self) -> Self {
        Self { factor: self.factor.transposed(), scales: self.scales.map(BlockScales::transposed) }
    }

    fn in_place<S: Scalar>(
        &self,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
    ) -> Option<MatRef<'a, S>> {
        match self.scales {
            Some(_) => None,
            None => self.factor.in_place(batch, rows, cols),
        }
    }

    /// The block as the kernel reads it, converted into `buffer` if it cannot be read in place.
    fn block<'b, S: Scalar>(
        &self,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
        buffer: &'b mut BlockBuffer<S>,
    ) -> MatRef<'b, S>
    where
        'a: 'b,
    {
        if let Some(block) = self.in_place(batch, rows.clone(), cols.clone()) {
            return block;
        }
        match (self.factor, &self.scales) {
            (Factor::View(view), scales) => {
                source::converted(&view, batch, [rows, cols], scales.as_ref(), buffer)
            }
            (Factor::Packed(packed), Some(scales)) => {
                let Some((panel, width)) = packed.panel(batch, cols.start) else {
                    unreachable!("a packed B holds the accumulating type");
                };
                source::scaled_panel(panel, width, scales, batch, [rows, cols], buffer)
            }
            (Factor::PackedTransposed(packed), Some(scales)) => {
                let plain =
                    Scaled { factor: Factor::Packed(packed), scales: Some(scales.transposed()) };
                plain.block(batch, cols, rows, buffer).transpose()
            }
            (Factor::Packed(_) | Factor::PackedTransposed(_), None) => {
                unreachable!("a packed B holds the accumulating type, in panels as wide as blocks")
            }
        }
    }
}

/// Where a factor's elements come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Factor<'a> {
    /// As it lies in memory.
    View(AnyMatrixRef<'a>),
    /// B, packed.
    Packed(&'a CpuPackedB),
    /// B, packed, as the left factor of the transposed product.
    PackedTransposed(&'a CpuPackedB),
}

impl<'a> Factor<'a> {
    /// The same factor with rows and columns exchanged.
    pub(super) fn transposed(self) -> Self {
        match self {
            Self::View(view) => Self::View(view.transposed()),
            Self::Packed(packed) => Self::PackedTransposed(packed),
            Self::PackedTransposed(packed) => Self::Packed(packed),
        }
    }

    fn in_place<S: Scalar>(
        &self,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
    ) -> Option<MatRef<'a, S>> {
        match self {
            Self::View(view) => source::in_place(view, batch, rows, cols),
            Self::Packed(packed) => {
                let (panel, width) = packed.panel(batch, cols.start)?;
                let panel = panel.get(rows.start * width..)?;
                Some(MatRef::from_row_major_slice_with_stride(panel, rows.len(), cols.len(), width))
            }
            Self::PackedTransposed(packed) => {
                Self::Packed(packed).in_place(batch, cols, rows).map(MatRef::transpose)
            }
        }
    }
}

/// Buffers that one thread uses for block after block.
#[derive(Debug)]
pub(super) struct Workspace<S> {
    a: BlockBuffer<S>,
    b: BlockBuffer<S>,
    /// The block's sums, row-major.
    pub(super) sums: Vec<S>,
    /// Exact sums of an integer block, row-major.
    pub(super) integers: Vec<i32>,
}

impl<S> Default for Workspace<S> {
    fn default() -> Self {
        Self {
            a: BlockBuffer::default(),
            b: BlockBuffer::default(),
            sums: Vec::new(),
            integers: Vec::new(),
        }
    }
}

impl<S: Scalar> Workspace<S> {
    /// Sums the block `rows` × `cols` of a product over `k` into `sums`; zeros without factors.
    pub(super) fn multiply(
        &mut self,
        factors: Option<[Scaled<'_>; 2]>,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
        k: usize,
    ) {
        let len = rows.len() * cols.len();
        // Old sums are overwritten, never read.
        self.sums.resize(len, S::ZERO);
        let mut sums = core::mem::take(&mut self.sums);
        let block = row_major(&mut sums, rows.len(), cols.len());
        self.multiply_into(factors, batch, rows, cols, k, block);
        self.sums = sums;
    }

    /// As [`multiply`](Self::multiply), into `sums`, which are not read.
    pub(super) fn multiply_into(
        &mut self,
        factors: Option<[Scaled<'_>; 2]>,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
        k: usize,
        mut sums: MatMut<'_, S>,
    ) {
        let Some([a, b]) = factors.filter(|_| k > 0) else {
            sums.fill(S::ZERO);
            return;
        };
        let whole = a.in_place::<S>(batch, rows.clone(), 0..k).is_some()
            && b.in_place::<S>(batch, 0..k, cols.clone()).is_some();
        let step = if whole { k } else { K_BLOCK };
        for start in (0..k).step_by(step.max(1)) {
            let inner = start..k.min(start + step);
            let accumulate = if start == 0 { Accum::Replace } else { Accum::Add };
            let sums = sums.rb_mut();
            self.add([a, b], batch, rows.clone(), cols.clone(), inner, accumulate, sums);
        }
    }

    /// As [`multiply`](Self::multiply) for integer factors: exact sums, modulo 2³², into `integers`.
    ///
    /// Each block of [`K_BLOCK`] products is summed in floats, where it is exact (no partial sum
    /// exceeds 2²⁴ in magnitude, in any order), and added as integers.
    pub(super) fn multiply_integers(
        &mut self,
        factors: Option<[Scaled<'_>; 2]>,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
        k: usize,
    ) {
        let len = rows.len() * cols.len();
        self.integers.clear();
        self.sums.resize(len, S::ZERO);
        let Some(factors) = factors else {
            self.integers.resize(len, 0);
            return;
        };
        let mut sums = core::mem::take(&mut self.sums);
        for start in (0..k).step_by(K_BLOCK) {
            let inner = start..k.min(start + K_BLOCK);
            let block = row_major(&mut sums, rows.len(), cols.len());
            self.add(factors, batch, rows.clone(), cols.clone(), inner, Accum::Replace, block);
            if start == 0 {
                self.integers.extend(sums.iter().map(|part| part.to_i32()));
            } else {
                for (sum, part) in self.integers.iter_mut().zip(&sums) {
                    *sum = sum.wrapping_add(part.to_i32());
                }
            }
        }
        self.integers.resize(len, 0);
        self.sums = sums;
    }

    #[allow(clippy::too_many_arguments, reason = "a block of a product, and where it goes")]
    fn add(
        &mut self,
        [a, b]: [Scaled<'_>; 2],
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
        inner: Range<usize>,
        accumulate: Accum,
        sums: MatMut<'_, S>,
    ) {
        let a = a.block(batch, rows, inner.clone(), &mut self.a);
        let b = b.block(batch, inner, cols, &mut self.b);
        matmul(sums, accumulate, a, b, S::ONE, Par::Seq);
    }
}

fn row_major<S>(sums: &mut [S], rows: usize, cols: usize) -> MatMut<'_, S> {
    MatMut::from_row_major_slice_mut(sums, rows, cols)
}
