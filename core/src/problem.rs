//! What is to be computed: a value that can be checked before anything runs.

use crate::element::ElementType;
use crate::epilogue::Activation;
use crate::error::Operand;
use crate::layout::{Layout, Shape};

/// The largest K whose sum of `i8` products always fits an `i32`: 131,071 · 128² < 2³¹.
pub const MAX_K_I8: usize = 131_071;

/// The largest K whose sum of `i8`·`i4` products always fits an `i32`: 2,097,151 · 128 · 8 < 2³¹.
pub const MAX_K_I8_I4: usize = 2_097_151;

/// What the length of a group of [`Problem::b_group`] is a multiple of: eight 4-bit elements are a
/// 32-bit word, so that no word has two scales.
pub const GROUP_MULTIPLE: usize = 8;

/// Elements along K that share a block scale (OCP Microscaling Formats, revision 1.0).
pub const MX_BLOCK: usize = 32;

/// One matrix product, `C = activation(alpha · A · B + beta · C + bias)`, as plain data.
///
/// A is M×K, B is K×N, C is M×N; a batch repeats that `batch` times. A transposed operand is one
/// whose layout has row and column strides exchanged, so there is no transpose flag.
///
/// # Element types
/// | A, B | C | bias | accumulator |
/// |-|-|-|-|
/// | f64 | f64 | f64 | f64 (CPU backend) |
/// | f32, f16 or bf16 (both the same) | f32, f16 or bf16 | f32 | f32 |
/// | f32, f16 or bf16, with i8 or i4 (weight-only quantisation) | f32, f16 or bf16 | f32 | f32 |
/// | fp8, e4m3 or e5m2 (both FNUZ or both OCP) | f32, f16 or bf16 | f32 | f32 |
/// | OCP fp8 or f4e2m1, with block scales (MXFP8, MXFP4) | f32, f16 or bf16 | f32 | f32 |
/// | i8 | i32 | i32 | i32 |
/// | i8 | f32, f16, bf16 or i8 | f32 | i32, then f32 |
/// | i8, i4 (W4A8) | i32 | i32 | i32 |
/// | i8, i4 (W4A8) | f32, f16 or bf16 | f32 | i32, then f32 |
///
/// [`COMBINATIONS`] is the same as data. alpha and beta are used in the bias's type: rounded to f32 once, or, with i32 output, required
/// to be integers. In i32 output, everything after the sum over K is modulo 2³².
///
/// # Scales
/// - `row_scale`, one f32 a row of A, and `col_scale`, one f32 a column of B (of every matrix of
///   the batch): the sum over K of row i and column j is multiplied by both, and by alpha, before
///   beta·C and the bias are added. Where the bias is f32.
/// - `block_scales`: every [`MX_BLOCK`] elements along K of a row of A, and of a column of B, share
///   an e8m0 scale that multiplies each of them. For OCP fp8 and f4e2m1, which cannot do without.
///   K must be a whole number of blocks.
/// - `b_group`: every so many elements along K of a column of B share an f32 scale s, and a weight
///   is s times what is stored. For i8 and i4 weights of float activations; symmetric, there are no
///   zero points. The length is a multiple of [`GROUP_MULTIPLE`], and K one of the length. A scale
///   for a whole column is a `col_scale`, which costs less.
///
/// A scale of a whole tensor is a factor of alpha. Where A and B are not read (alpha = 0 or K = 0),
/// their scales are not read either.
///
/// # Examples
/// ```
/// use lapidary_core::{Activation, ElementType, Problem};
/// let problem = Problem::new(105, 1536, 384)
///     .elements(ElementType::F32, ElementType::F32)
///     .bias(true)
///     .activation(Activation::GeluErf);
/// assert!(problem.validate().is_ok());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Problem {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Number of independent products. The default is 1.
    pub batch: usize,
    /// Element type of A. The default is f32.
    pub a: ElementType,
    /// Element type of B. The default is f32.
    pub b: ElementType,
    /// Element type of C, as input and as output. The default is f32.
    pub c: ElementType,
    /// Strides of A. The default is row-major without gaps.
    pub a_layout: Layout,
    /// Strides of B. The default is row-major without gaps.
    pub b_layout: Layout,
    /// Strides of C. The default is row-major without gaps.
    pub c_layout: Layout,
    /// Factor of the product. The default is 1.
    pub alpha: f64,
    /// Factor of C before the product is added; at 0 C is never read. The default is 0.
    pub beta: f64,
    /// Whether a bias, one value a column, is added. The default is no.
    pub bias: bool,
    /// What is applied last. The default is nothing.
    pub activation: Activation,
    /// Whether an integer sum past [`MAX_K_I8`] ([`MAX_K_I8_I4`] for i4) may wrap modulo 2³². The
    /// default is no.
    pub wrapping: bool,
    /// Whether each row of A has an f32 scale. The default is no.
    pub row_scale: bool,
    /// Whether each column of B has an f32 scale. The default is no.
    pub col_scale: bool,
    /// Whether A and B have an e8m0 scale for every [`MX_BLOCK`] elements along K. The default is no.
    pub block_scales: bool,
    /// Elements along K of a column of B that share an f32 scale. The default is none.
    pub b_group: Option<usize>,
}

impl Problem {
    /// An f32 product of M×K by K×N, row-major, alpha 1, beta 0.
    #[must_use]
    pub fn new(m: usize, n: usize, k: usize) -> Self {
        Self {
            m,
            n,
            k,
            batch: 1,
            a: ElementType::F32,
            b: ElementType::F32,
            c: ElementType::F32,
            a_layout: Layout::row_major(m, k),
            b_layout: Layout::row_major(k, n),
            c_layout: Layout::row_major(m, n),
            alpha: 1.0,
            beta: 0.0,
            bias: false,
            activation: Activation::None,
            wrapping: false,
            row_scale: false,
            col_scale: false,
            block_scales: false,
            b_group: None,
        }
    }

    /// Sets the element type of A and B, and that of C.
    #[must_use]
    pub fn elements(mut self, ab: ElementType, c: ElementType) -> Self {
        self.a = ab;
        self.b = ab;
        self.c = c;
        self
    }

    /// Sets the element types of A and B where they differ.
    #[must_use]
    pub fn factors(mut self, a: ElementType, b: ElementType) -> Self {
        self.a = a;
        self.b = b;
        self
    }

    /// Says whether each row of A has a scale.
    #[must_use]
    pub fn row_scale(mut self, row_scale: bool) -> Self {
        self.row_scale = row_scale;
        self
    }

    /// Says whether each column of B has a scale.
    #[must_use]
    pub fn col_scale(mut self, col_scale: bool) -> Self {
        self.col_scale = col_scale;
        self
    }

    /// Says whether blocks along K of A and B have scales.
    #[must_use]
    pub fn block_scales(mut self, block_scales: bool) -> Self {
        self.block_scales = block_scales;
        self
    }

    /// Sets how many elements along K of a column of B share a scale, if they do.
    #[must_use]
    pub fn b_group(mut self, length: Option<usize>) -> Self {
        self.b_group = length;
        self
    }

    /// Sets the number of independent products.
    #[must_use]
    pub fn batch(mut self, batch: usize) -> Self {
        self.batch = batch;
        self
    }

    /// Sets the factor of the product.
    #[must_use]
    pub fn alpha(mut self, alpha: f64) -> Self {
        self.alpha = alpha;
        self
    }

    /// Sets the factor of C before the product is added.
    #[must_use]
    pub fn beta(mut self, beta: f64) -> Self {
        self.beta = beta;
        self
    }

    /// Says whether a bias is added.
    #[must_use]
    pub fn bias(mut self, bias: bool) -> Self {
        self.bias = bias;
        self
    }

    /// Sets the activation.
    #[must_use]
    pub fn activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }

    /// Allows an integer sum to wrap modulo 2³².
    #[must_use]
    pub fn wrapping(mut self, wrapping: bool) -> Self {
        self.wrapping = wrapping;
        self
    }

    /// Sets the strides of A.
    #[must_use]
    pub fn a_layout(mut self, layout: Layout) -> Self {
        self.a_layout = layout;
        self
    }

    /// Sets the strides of B.
    #[must_use]
    pub fn b_layout(mut self, layout: Layout) -> Self {
        self.b_layout = layout;
        self
    }

    /// Sets the strides of C.
    #[must_use]
    pub fn c_layout(mut self, layout: Layout) -> Self {
        self.c_layout = layout;
        self
    }

    /// Shape of A.
    #[must_use]
    pub const fn a_shape(&self) -> Shape {
        Shape { batch: self.batch, rows: self.m, cols: self.k }
    }

    /// Shape of B.
    #[must_use]
    pub const fn b_shape(&self) -> Shape {
        Shape { batch: self.batch, rows: self.k, cols: self.n }
    }

    /// Shape of C.
    #[must_use]
    pub const fn c_shape(&self) -> Shape {
        Shape { batch: self.batch, rows: self.m, cols: self.n }
    }

    /// Element type of the bias, and the type alpha and beta are used in.
    #[must_use]
    pub const fn bias_element(&self) -> ElementType {
        match (self.a, self.c) {
            (ElementType::F64, _) => ElementType::F64,
            (_, ElementType::I32) => ElementType::I32,
            _ => ElementType::F32,
        }
    }

    /// The type products are summed in.
    #[must_use]
    pub const fn accumulator(&self) -> ElementType {
        self.a.accumulator()
    }

    /// Whether C has no element, so that nothing is to be done.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.c_shape().is_empty()
    }

    /// Whether A and B are read at all: not at alpha = 0 and not at K = 0.
    #[must_use]
    pub fn reads_factors(&self) -> bool {
        self.alpha != 0.0 && self.k != 0
    }

    /// Whether C is read before it is written: only at beta ≠ 0.
    #[must_use]
    pub fn reads_c(&self) -> bool {
        self.beta != 0.0
    }

    /// Whether there are scales of any kind.
    #[must_use]
    pub const fn has_scales(&self) -> bool {
        self.row_scale || self.col_scale || self.block_scales || self.b_group.is_some()
    }

    /// Whether B holds integer weights of float activations.
    #[must_use]
    pub const fn is_weight_only(&self) -> bool {
        self.a.is_float() && !self.b.is_float()
    }

    /// The kinds of scales in words, for messages.
    #[must_use]
    pub const fn scale_names(&self) -> &'static str {
        match (self.row_scale || self.col_scale, self.block_scales, self.b_group.is_some()) {
            // No types have both.
            (true, true, _) => "row or column scales and block scales",
            (true, false, true) => "row or column scales and group scales",
            (true, false, false) => "row or column scales",
            (false, true, _) => "block scales",
            (false, false, true) => "group scales",
            (false, false, false) => "no scales",
        }
    }

    /// How many scales of a kind the problem has, 0 where it has none, saturating; `operand` is one
    /// of the five kinds of scales.
    ///
    /// A value for each row of A, matrix after matrix; each column of B likewise; and for each of
    /// these lines its K/32 blocks, or of a column of B its groups, one after the other.
    #[must_use]
    pub fn scale_count(&self, operand: Operand) -> usize {
        let (stated, line, blocks) = match operand {
            Operand::RowScale => (self.row_scale, self.m, 1),
            Operand::ColScale => (self.col_scale, self.n, 1),
            Operand::BlockScalesA => (self.block_scales, self.m, self.k / MX_BLOCK),
            Operand::BlockScalesB => (self.block_scales, self.n, self.k / MX_BLOCK),
            Operand::GroupScalesB => (
                self.b_group.is_some(),
                self.n,
                self.b_group.and_then(|length| self.k.checked_div(length)).unwrap_or(0),
            ),
            Operand::A | Operand::B | Operand::C | Operand::Bias => (false, 0, 0),
        };
        if stated { self.batch.saturating_mul(line).saturating_mul(blocks) } else { 0 }
    }

    /// Multiplications and additions of the product: 2·batch·M·N·K.
    #[must_use]
    pub fn flops(&self) -> f64 {
        2.0 * self.batch as f64 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// The fewest bytes that must move: A, B, their scales and C once each (C twice when it is read).
    #[must_use]
    pub fn min_bytes(&self) -> f64 {
        let batch = self.batch as f64;
        let (m, n, k) = (self.m as f64, self.n as f64, self.k as f64);
        let c = m * n * self.c.size() as f64 * if self.reads_c() { 2.0 } else { 1.0 };
        let factors = (m * k * self.a.bits() as f64 + k * n * self.b.bits() as f64) / 8.0;
        let scales: f64 = SCALES
            .iter()
            .map(|&(operand, element)| self.scale_count(operand) as f64 * element.size() as f64)
            .sum();
        batch * (factors + c) + scales
    }
}

/// The kinds of scales and their element types.
pub(crate) const SCALES: [(Operand, ElementType); 5] = [
    (Operand::RowScale, ElementType::F32),
    (Operand::ColScale, ElementType::F32),
    (Operand::BlockScalesA, ElementType::E8M0),
    (Operand::BlockScalesB, ElementType::E8M0),
    (Operand::GroupScalesB, ElementType::F32),
];

mod combinations;
#[cfg(test)]
mod tests;
mod validate;

pub use combinations::{COMBINATIONS, Combination};
