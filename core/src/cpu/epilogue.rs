//! From sums to elements of C.

use core::ops::Range;

use faer::MatMut;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::multiply::Scalar;
use super::run::Inputs;
use crate::element::{Element, ElementType};
use crate::epilogue::Activation;
use crate::problem::Problem;
use crate::view::AnyVectorRef;

/// alpha, beta, bias and activation, in the arithmetic of the sums.
#[derive(Debug)]
pub(super) struct Epilogue<S> {
    alpha: S,
    beta: S,
    reads_c: bool,
    bias: Option<Vec<S>>,
    /// The product is computed transposed: the bias runs along its rows.
    transposed: bool,
    /// The scales of the product's rows, matrix after matrix, and how many a matrix has.
    row_scale: Option<(Vec<S>, usize)>,
    /// The scales of its columns, likewise.
    col_scale: Option<(Vec<S>, usize)>,
    activation: Activation,
}

/// An output type of sums in `S`.
pub(super) trait Stored<S>: Element {
    fn load(self) -> S;
    /// Elements of C as sums, where they have the same type.
    fn as_sums(block: MatMut<'_, Self>) -> Result<MatMut<'_, S>, MatMut<'_, Self>> {
        Err(block)
    }
    /// Rounds each value to nearest, ties to even.
    fn store(values: &[S], to: &mut [Self]);
}

impl<S: Float> Epilogue<S> {
    pub(super) fn new(problem: &Problem, inputs: &Inputs<'_>, transposed: bool) -> Self {
        let vector =
            |v: AnyVectorRef<'_>| (0..v.len()).map(|i| S::from_f64(v.get(i))).collect::<Vec<S>>();
        // Factors are in the bias's type, which may be narrower than the sums.
        let factor = |factor: f64| match problem.bias_element() {
            ElementType::F64 => S::from_f64(factor),
            _ => S::from_f64(f64::from(factor as f32)),
        };
        let mut row_scale = inputs.row_scale.map(|scale| (vector(scale), problem.m));
        let mut col_scale = inputs.col_scale.map(|scale| (vector(scale), problem.n));
        if transposed {
            core::mem::swap(&mut row_scale, &mut col_scale);
        }
        Self {
            alpha: factor(problem.alpha),
            beta: factor(problem.beta),
            reads_c: problem.reads_c(),
            bias: inputs.bias.map(vector),
            transposed,
            row_scale,
            col_scale,
            activation: problem.activation,
        }
    }

    /// Whether sums are elements of C as they are.
    pub(super) fn is_identity(&self) -> bool {
        self.alpha == S::ONE
            && !self.reads_c
            && self.bias.is_none()
            && self.row_scale.is_none()
            && self.col_scale.is_none()
            && self.activation == Activation::None
    }

    /// Finishes one row of a block: `sums` are used up, `out` is written (and read at beta ≠ 0).
    pub(super) fn finish<T: Stored<S>>(
        &self,
        batch: usize,
        row: usize,
        cols: Range<usize>,
        sums: &mut [S],
        out: &mut [T],
    ) {
        let c = if self.reads_c { &*out } else { &[] };
        self.apply(batch, row, cols, sums, c);
        T::store(sums, out);
    }

    /// Turns one row of sums into one of C's values; `c` is empty where C is not read.
    pub(super) fn apply<T: Stored<S>>(
        &self,
        batch: usize,
        row: usize,
        cols: Range<usize>,
        sums: &mut [S],
        c: &[T],
    ) {
        if let Some((scales, rows)) = &self.row_scale {
            for sum in sums.iter_mut() {
                *sum *= scales[batch * rows + row];
            }
        }
        if let Some((scales, all)) = &self.col_scale {
            for (sum, scale) in sums.iter_mut().zip(&scales[batch * all + cols.start..]) {
                *sum *= *scale;
            }
        }
        if self.alpha != S::ONE {
            for sum in sums.iter_mut() {
                *sum = self.alpha * *sum;
            }
        }
        for (sum, c) in sums.iter_mut().zip(c) {
            *sum += self.beta * c.load();
        }
        match &self.bias {
            Some(bias) if self.transposed => {
                for sum in sums.iter_mut() {
                    *sum += bias[row];
                }
            }
            Some(bias) => {
                for (sum, bias) in sums.iter_mut().zip(&bias[cols]) {
                    *sum += *bias;
                }
            }
            None => {}
        }
        S::activate(self.activation, sums);
    }
}

/// The arithmetic of an epilogue.
pub(super) trait Float:
    Scalar + core::ops::AddAssign + core::ops::Mul<Output = Self>
{
    /// Replaces each value by the activation of it.
    fn activate(activation: Activation, values: &mut [Self]);
}

impl Float for f64 {
    fn activate(activation: Activation, values: &mut [Self]) {
        if activation != Activation::None {
            for value in values {
                *value = activation.apply(*value);
            }
        }
    }
}

impl Float for f32 {
    fn activate(activation: Activation, values: &mut [Self]) {
        super::activation::apply(activation, values);
    }
}

impl Stored<f64> for f64 {
    fn load(self) -> f64 {
        self
    }
    fn as_sums(block: MatMut<'_, Self>) -> Result<MatMut<'_, f64>, MatMut<'_, Self>> {
        Ok(block)
    }
    fn store(values: &[f64], to: &mut [Self]) {
        to.copy_from_slice(values);
    }
}

impl Stored<f32> for f32 {
    fn load(self) -> f32 {
        self
    }
    fn as_sums(block: MatMut<'_, Self>) -> Result<MatMut<'_, f32>, MatMut<'_, Self>> {
        Ok(block)
    }
    fn store(values: &[f32], to: &mut [Self]) {
        to.copy_from_slice(values);
    }
}

impl Stored<f32> for f16 {
    fn load(self) -> f32 {
        self.to_f32()
    }
    fn store(values: &[f32], to: &mut [Self]) {
        to.convert_from_f32_slice(values);
    }
}

impl Stored<f32> for bf16 {
    fn load(self) -> f32 {
        self.to_f32()
    }
    fn store(values: &[f32], to: &mut [Self]) {
        to.convert_from_f32_slice(values);
    }
}

impl Stored<f32> for i8 {
    fn load(self) -> f32 {
        f32::from(self)
    }
    fn store(values: &[f32], to: &mut [Self]) {
        for (to, value) in to.iter_mut().zip(values) {
            *to = value.round_ties_even() as i8;
        }
    }
}

impl Stored<f64> for f32 {
    fn load(self) -> f64 {
        f64::from(self)
    }
    fn store(values: &[f64], to: &mut [Self]) {
        convert(values, to);
    }
}

impl Stored<f64> for f16 {
    fn load(self) -> f64 {
        self.to_f64()
    }
    fn store(values: &[f64], to: &mut [Self]) {
        convert(values, to);
    }
}

impl Stored<f64> for bf16 {
    fn load(self) -> f64 {
        self.to_f64()
    }
    fn store(values: &[f64], to: &mut [Self]) {
        convert(values, to);
    }
}

/// Rounds once.
fn convert<T: Element>(values: &[f64], to: &mut [T]) {
    for (to, value) in to.iter_mut().zip(values) {
        *to = T::from_f64(*value);
    }
}

/// The epilogue of i32 output: integers modulo 2³².
#[derive(Debug)]
pub(super) struct IntegerEpilogue {
    alpha: i32,
    beta: i32,
    reads_c: bool,
    bias: Option<Vec<i32>>,
    transposed: bool,
    relu: bool,
}

impl IntegerEpilogue {
    pub(super) fn new(problem: &Problem, bias: Option<AnyVectorRef<'_>>, transposed: bool) -> Self {
        Self {
            // Problem::validate has seen that both are integers in range.
            alpha: problem.alpha as i32,
            beta: problem.beta as i32,
            reads_c: problem.reads_c(),
            bias: bias.map(|bias| (0..bias.len()).map(|i| bias.get(i) as i32).collect()),
            transposed,
            relu: problem.activation == Activation::Relu,
        }
    }

    /// Whether sums are elements of C as they are.
    pub(super) fn is_identity(&self) -> bool {
        self.alpha == 1 && !self.reads_c && self.bias.is_none() && !self.relu
    }

    /// Finishes one row of a block.
    pub(super) fn finish(&self, row: usize, cols: Range<usize>, sums: &[i32], out: &mut [i32]) {
        for ((out, sum), col) in out.iter_mut().zip(sums).zip(cols) {
            let mut value = self.alpha.wrapping_mul(*sum);
            if self.reads_c {
                value = value.wrapping_add(self.beta.wrapping_mul(*out));
            }
            if let Some(bias) = &self.bias {
                value = value.wrapping_add(bias[if self.transposed { row } else { col }]);
            }
            *out = if self.relu { value.max(0) } else { value };
        }
    }
}
