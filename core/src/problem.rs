//! What is to be computed: a value that can be checked before anything runs.

use crate::element::ElementType;
use crate::epilogue::Activation;
use crate::error::{Error, Operand};
use crate::layout::{Layout, Shape};

/// The largest K whose sum of `i8` products always fits an `i32`: 131,071 · 128² < 2³¹.
pub const MAX_K_I8: usize = 131_071;

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
/// | i8 | i32 | i32 | i32 |
/// | i8 | f32, f16, bf16 or i8 | f32 | i32, then f32 |
///
/// alpha and beta are used in the bias's type: rounded to f32 once, or, with i32 output, required
/// to be integers. In i32 output, everything after the sum over K is modulo 2³².
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
    /// Whether an i8 sum past [`MAX_K_I8`] may wrap modulo 2³². The default is no.
    pub wrapping: bool,
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

    /// Allows an i8 sum to wrap modulo 2³².
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

    /// Multiplications and additions of the product: 2·batch·M·N·K.
    #[must_use]
    pub fn flops(&self) -> f64 {
        2.0 * self.batch as f64 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// The fewest bytes that must move: A, B and C once each (C twice when it is read).
    #[must_use]
    pub fn min_bytes(&self) -> f64 {
        let batch = self.batch as f64;
        let (m, n, k) = (self.m as f64, self.n as f64, self.k as f64);
        let c = m * n * self.c.size() as f64 * if self.reads_c() { 2.0 } else { 1.0 };
        batch * (m * k * self.a.size() as f64 + k * n * self.b.size() as f64 + c)
    }

    /// Checks everything that does not depend on a device or on the operands' storage.
    ///
    /// # Errors
    /// [`Error::ElementTypesUnsupported`], [`Error::FactorNotInteger`],
    /// [`Error::AccumulatorOverflow`], [`Error::ActivationUnsupported`],
    /// [`Error::OutputOverlapsItself`] or [`Error::LimitExceeded`], each with its numbers.
    pub fn validate(&self) -> Result<(), Error> {
        self.validate_elements()?;
        if self.c == ElementType::I32 {
            check_integer_factor("alpha", self.alpha)?;
            check_integer_factor("beta", self.beta)?;
            if !matches!(self.activation, Activation::None | Activation::Relu) {
                return Err(Error::ActivationUnsupported {
                    activation: self.activation.name(),
                    element: self.c,
                });
            }
        }
        if self.accumulator() == ElementType::I32
            && !self.wrapping
            && self.reads_factors()
            && self.k > MAX_K_I8
        {
            return Err(Error::AccumulatorOverflow { k: self.k, limit: MAX_K_I8 });
        }
        for (shape, size, what) in [
            (self.a_shape(), self.a.size(), "bytes of A"),
            (self.b_shape(), self.b.size(), "bytes of B"),
            (self.c_shape(), self.c.size(), "bytes of C"),
        ] {
            let bytes = shape
                .to_array()
                .iter()
                .try_fold(size as u128, |total, &d| total.checked_mul(d as u128))
                .unwrap_or(u128::MAX);
            if bytes > isize::MAX as u128 {
                return Err(Error::LimitExceeded {
                    what,
                    requested: bytes,
                    limit: isize::MAX as u128,
                });
            }
        }
        crate::layout::Placement { offset: 0, shape: self.c_shape(), layout: self.c_layout }
            .check_injective()
    }

    fn validate_elements(&self) -> Result<(), Error> {
        use ElementType as E;
        let rule = match (self.a, self.b, self.c) {
            (E::F64, E::F64, E::F64) => return Ok(()),
            (E::F64, E::F64, _) => "f64 operands give f64",
            (a, b, _) if a != b => "A and B must have the same element type",
            (E::F32 | E::F16 | E::BF16, _, E::F32 | E::F16 | E::BF16) => return Ok(()),
            (E::F32 | E::F16 | E::BF16, _, _) => "float operands give f32, f16 or bf16",
            (E::I8, _, E::I32 | E::F32 | E::F16 | E::BF16 | E::I8) => return Ok(()),
            (E::I8, _, _) => "i8 operands give i32, f32, f16, bf16 or i8",
            _ => "operands are f64, f32, f16, bf16 or i8",
        };
        Err(Error::ElementTypesUnsupported { a: self.a, b: self.b, c: self.c, rule })
    }

    /// Checks an operand's shape and element type against the problem.
    pub(crate) fn check_operand(
        &self,
        operand: Operand,
        shape: Shape,
        element: ElementType,
    ) -> Result<(), Error> {
        let (expected, expected_element) = match operand {
            Operand::A => (self.a_shape(), self.a),
            Operand::B => (self.b_shape(), self.b),
            Operand::C | Operand::Bias => (self.c_shape(), self.c),
        };
        if shape != expected {
            return Err(Error::ShapeMismatch {
                operand,
                found: shape.to_array(),
                expected: expected.to_array(),
            });
        }
        if element != expected_element {
            return Err(Error::ElementTypeMismatch {
                operand,
                found: element,
                expected: expected_element,
            });
        }
        Ok(())
    }
}

fn check_integer_factor(name: &'static str, value: f64) -> Result<(), Error> {
    let integer =
        value.fract() == 0.0 && value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX);
    if integer { Ok(()) } else { Err(Error::FactorNotInteger { name, value }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_k_cannot_overflow_and_the_next_can() {
        assert!(MAX_K_I8 as i64 * 128 * 128 <= i64::from(i32::MAX));
        assert!((MAX_K_I8 as i64 + 1) * 128 * 128 > i64::from(i32::MAX));
        let problem = Problem::new(1, 1, MAX_K_I8 + 1).elements(ElementType::I8, ElementType::I32);
        assert!(matches!(
            problem.validate(),
            Err(Error::AccumulatorOverflow { k: 131_072, limit: 131_071 })
        ));
        assert!(problem.wrapping(true).validate().is_ok());
    }

    #[test]
    fn integer_output_wants_integer_factors() {
        let problem = Problem::new(2, 2, 2).elements(ElementType::I8, ElementType::I32);
        assert!(problem.clone().alpha(3.0).beta(-2.0).validate().is_ok());
        for bad in [0.5, f64::NAN, f64::INFINITY, 2147483648.0] {
            assert!(matches!(
                problem.clone().alpha(bad).validate(),
                Err(Error::FactorNotInteger { name: "alpha", .. })
            ));
        }
    }

    #[test]
    fn element_combinations() {
        use ElementType as E;
        let supported: Vec<_> = E::ALL
            .iter()
            .flat_map(|&ab| E::ALL.iter().map(move |&c| (ab, c)))
            .filter(|&(ab, c)| Problem::new(1, 1, 1).elements(ab, c).validate().is_ok())
            .collect();
        assert_eq!(supported.len(), 1 + 3 * 3 + 5);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let problem = Problem::new(usize::MAX, usize::MAX, 2);
        assert!(matches!(problem.validate(), Err(Error::LimitExceeded { .. })));
    }
}
