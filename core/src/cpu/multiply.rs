//! One block of the product, summed in a buffer of its own.

use core::ops::Range;

use faer::linalg::matmul::matmul;
use faer::prelude::ReborrowMut;
use faer::{Accum, MatMut, Par};
use half::{bf16, f16};

use super::convert::{self, Format8};
use super::factor::Operand;
use super::plan::K_BLOCK;
use super::scratch::{Buffer, Scratch, Shelf};
use crate::element::Element;

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
    fn from_f8(format: Format8, from: &[u8], to: &mut [Self]);
    /// Of integers of at most 2²⁴ in magnitude.
    fn to_integers(from: &[Self], to: &mut [i32]);
    /// Buffers of this type.
    fn shelf(scratch: &Scratch) -> &Shelf<Self>;
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
        convert::f16_to_f32(from, to);
    }
    fn from_bf16(from: &[bf16], to: &mut [Self]) {
        convert::bf16_to_f32(from, to);
    }
    fn from_i8(from: &[i8], to: &mut [Self]) {
        convert::i8_to_f32(from, to);
    }
    fn from_f8(format: Format8, from: &[u8], to: &mut [Self]) {
        convert::f8_to_f32(format, from, to);
    }
    fn to_integers(from: &[Self], to: &mut [i32]) {
        convert::f32_to_i32(from, to);
    }
    fn shelf(scratch: &Scratch) -> &Shelf<Self> {
        &scratch.f32
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
    fn from_f8(format: Format8, from: &[u8], to: &mut [Self]) {
        let mut values = [0.0; 64];
        for (to, from) in to.chunks_mut(values.len()).zip(from.chunks(values.len())) {
            convert::f8_to_f32(format, from, &mut values[..from.len()]);
            for (to, value) in to.iter_mut().zip(values) {
                *to = f64::from(value);
            }
        }
    }
    fn to_integers(from: &[Self], to: &mut [i32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from as i32;
        }
    }
    fn shelf(scratch: &Scratch) -> &Shelf<Self> {
        &scratch.f64
    }
}

/// Buffers that one thread uses for block after block.
pub(super) struct Workspace<'s, S> {
    a: Buffer<'s, S>,
    b: Buffer<'s, S>,
    sums: Buffer<'s, S>,
    integers: Buffer<'s, i32>,
}

impl<'s, S: Scalar> Workspace<'s, S> {
    pub(super) fn new(scratch: &'s Scratch) -> Self {
        let shelf = S::shelf(scratch);
        Self { a: shelf.take(), b: shelf.take(), sums: shelf.take(), integers: scratch.i32.take() }
    }

    /// Sums the block `rows` × `cols` of a product over `k`, row-major; zeros without factors.
    pub(super) fn multiply(
        &mut self,
        factors: Option<[Operand<'_, S>; 2]>,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
        k: usize,
    ) -> &mut [S] {
        let [nrows, ncols] = [rows.len(), cols.len()];
        // Old sums are overwritten, never read.
        let sums = self.sums.first(nrows * ncols, S::ZERO);
        let block = MatMut::from_row_major_slice_mut(sums, nrows, ncols);
        sum([&mut self.a, &mut self.b], factors, batch, rows, cols, k, block);
        &mut self.sums[..nrows * ncols]
    }

    /// As [`multiply`](Self::multiply), into `sums`, which are not read.
    pub(super) fn multiply_into(
        &mut self,
        factors: Option<[Operand<'_, S>; 2]>,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
        k: usize,
        sums: MatMut<'_, S>,
    ) {
        sum([&mut self.a, &mut self.b], factors, batch, rows, cols, k, sums);
    }

    /// As [`multiply`](Self::multiply) for integer factors: exact sums, modulo 2³².
    ///
    /// Each block of [`K_BLOCK`] products is summed in floats, where it is exact (no partial sum
    /// exceeds 2²⁴ in magnitude, in any order), and added as integers.
    pub(super) fn multiply_integers(
        &mut self,
        factors: Option<[Operand<'_, S>; 2]>,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
        k: usize,
    ) -> &mut [i32] {
        let len = rows.len() * cols.len();
        let factors = factors.filter(|_| k > 0);
        let Some(factors) = factors else {
            let integers = self.integers.first(len, 0);
            integers.fill(0);
            return integers;
        };
        for start in (0..k).step_by(K_BLOCK) {
            let inner = start..k.min(start + K_BLOCK);
            let sums = self.sums.first(len, S::ZERO);
            let block = MatMut::from_row_major_slice_mut(&mut *sums, rows.len(), cols.len());
            let buffers = [&mut self.a, &mut self.b];
            let (lines, across) = (rows.clone(), cols.clone());
            add(buffers, factors, batch, lines, across, inner, Accum::Replace, block);
            let integers = self.integers.first(len, 0);
            if start == 0 {
                S::to_integers(sums, integers);
            } else {
                for (sum, part) in integers.iter_mut().zip(sums) {
                    *sum = sum.wrapping_add(part.to_i32());
                }
            }
        }
        self.integers.first(len, 0)
    }

    /// As [`multiply_integers`](Self::multiply_integers), rounded to floats.
    pub(super) fn multiply_integers_to_floats(
        &mut self,
        factors: Option<[Operand<'_, S>; 2]>,
        batch: usize,
        rows: Range<usize>,
        cols: Range<usize>,
        k: usize,
    ) -> &mut [S] {
        let len = rows.len() * cols.len();
        self.multiply_integers(factors, batch, rows, cols, k);
        let sums = self.sums.first(len, S::ZERO);
        for (sum, integer) in sums.iter_mut().zip(&*self.integers) {
            *sum = S::from_i32(*integer);
        }
        sums
    }
}

/// Sums the block `rows` × `cols` of a product over `k` into `sums`; zeros without factors.
fn sum<S: Scalar>(
    [a, b]: [&mut Buffer<'_, S>; 2],
    factors: Option<[Operand<'_, S>; 2]>,
    batch: usize,
    rows: Range<usize>,
    cols: Range<usize>,
    k: usize,
    mut sums: MatMut<'_, S>,
) {
    let Some(factors) = factors.filter(|_| k > 0) else {
        sums.fill(S::ZERO);
        return;
    };
    let whole = factors[0].in_place(batch, rows.clone(), 0..k).is_some()
        && factors[1].in_place(batch, 0..k, cols.clone()).is_some();
    let step = if whole { k } else { K_BLOCK };
    for start in (0..k).step_by(step.max(1)) {
        let inner = start..k.min(start + step);
        let accumulate = if start == 0 { Accum::Replace } else { Accum::Add };
        let (lines, across) = (rows.clone(), cols.clone());
        add([a, b], factors, batch, lines, across, inner, accumulate, sums.rb_mut());
    }
}

#[allow(clippy::too_many_arguments, reason = "a block of a product, and where it goes")]
fn add<S: Scalar>(
    [a_buffer, b_buffer]: [&mut Buffer<'_, S>; 2],
    [a, b]: [Operand<'_, S>; 2],
    batch: usize,
    rows: Range<usize>,
    cols: Range<usize>,
    inner: Range<usize>,
    accumulate: Accum,
    sums: MatMut<'_, S>,
) {
    let a = a.block(batch, rows, inner.clone(), a_buffer);
    let b = b.block(batch, inner, cols, b_buffer);
    matmul(sums, accumulate, a, b, S::ONE, Par::Seq);
}
