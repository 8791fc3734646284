//! A problem with operands to run it on.

use super::stored::{Arrangement, Stored};
use crate::element::{self, ElementType};
use crate::error::Operand;
use crate::layout::Shape;
use crate::operands::Operands;
use crate::problem::{Problem, SCALES};
use crate::random::Random;
use crate::view::AnyVectorRef;

/// What operands are filled with.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Values {
    /// Integers from −max to max. With K·max² (times alpha, plus beta·max and bias) below 2²⁴ every
    /// order of summation in f32 is exact, so results are compared bit for bit.
    SmallIntegers(i32),
    /// Uniform from −1 to 1, rounded to the element type; whole range for integers.
    Uniform,
    /// Uniform from 0 to 1: nothing cancels.
    Positive,
    /// Signs and magnitudes from 2⁻ⁿ to 2ⁿ: cancellation and wide exponents.
    Exponents(i32),
}

impl Values {
    /// The next value for `element`; at most its largest finite number in magnitude.
    pub fn next(self, element: ElementType, random: &mut Random) -> f64 {
        let value = self.unclamped(element, random);
        // Integer types saturate when the value is stored.
        let max = if element.is_float() { element.max_finite() } else { f64::INFINITY };
        value.clamp(-max, max)
    }

    /// The next row or column scale: one of ½, 1 and 2 for exact data, else from 2⁻⁴ to 1.
    fn next_scale(self, random: &mut Random) -> f64 {
        match self {
            Self::SmallIntegers(_) => f64::from(random.integer(-1, 1)).exp2(),
            _ => f64::from(random.integer(0, 1 << 20)) / f64::from(1 << 20) * 0.9375 + 0.0625,
        }
    }

    /// The next block scale: 2⁻¹ to 2 for exact data, 2⁻ⁿ to 2ⁿ for exponents, else 2⁻⁸ to 2⁸.
    fn next_block_scale(self, random: &mut Random) -> f64 {
        let n = match self {
            Self::SmallIntegers(_) => 1,
            Self::Exponents(n) => n,
            Self::Uniform | Self::Positive => 8,
        };
        f64::from(random.integer(-n, n)).exp2()
    }

    fn unclamped(self, element: ElementType, random: &mut Random) -> f64 {
        match self {
            Self::SmallIntegers(max) => f64::from(random.integer(-max, max)),
            Self::Uniform if element == ElementType::I8 => f64::from(random.integer(-128, 127)),
            Self::Uniform if element == ElementType::I32 => {
                f64::from(random.integer(i32::MIN, i32::MAX))
            }
            Self::Uniform if element == ElementType::I4 => f64::from(random.integer(-8, 7)),
            // Numbers below 1 are few in the narrowest type; its whole range is used.
            Self::Uniform if element == ElementType::F4E2M1 => 6.0 * random.unit(),
            Self::Uniform => random.unit(),
            Self::Positive if element == ElementType::I4 => f64::from(random.integer(0, 7)),
            Self::Positive if element == ElementType::F4E2M1 => 6.0 * random.unit().abs(),
            Self::Positive if !element.is_float() => f64::from(random.integer(0, 127)),
            Self::Positive => random.unit().abs(),
            Self::Exponents(n) => random.unit() * f64::from(random.integer(-n, n)).exp2(),
        }
    }
}

/// A problem and its operands, each in a storage with canaries.
///
/// `problem` has the layouts of the storages.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Case {
    /// The problem.
    pub problem: Problem,
    /// The left factor.
    pub a: Stored,
    /// The right factor.
    pub b: Stored,
    /// What beta scales, and the place for the result.
    pub c: Stored,
    /// The bias, as bytes of [`Problem::bias_element`].
    pub bias: Vec<u8>,
    /// The scales of A's rows, as bytes of f32; empty where the problem has none.
    pub row_scale: Vec<u8>,
    /// The scales of B's columns, likewise.
    pub col_scale: Vec<u8>,
    /// The scales of A's blocks, as bytes of e8m0; empty where the problem has none.
    pub a_block_scales: Vec<u8>,
    /// The scales of B's blocks, likewise.
    pub b_block_scales: Vec<u8>,
    /// The scales of B's groups, as bytes of f32; empty where the problem has none.
    pub b_group_scales: Vec<u8>,
    values: Values,
    seed: u64,
}

impl Case {
    /// Operands for `problem`, dense and row-major; the same ones for the same seed.
    #[must_use]
    pub fn new(problem: Problem, values: Values, seed: u64) -> Self {
        let dense = Arrangement::Dense;
        Self::build(problem, values, seed, [dense; 3])
    }

    /// The same values in storages arranged as given for A, B and C.
    #[must_use]
    pub fn arranged(self, a: Arrangement, b: Arrangement, c: Arrangement) -> Self {
        Self::build(self.problem, self.values, self.seed, [a, b, c])
    }

    fn build(mut problem: Problem, values: Values, seed: u64, [a, b, c]: [Arrangement; 3]) -> Self {
        let stored = |element: ElementType, shape: Shape, arrangement: Arrangement, salt: u64| {
            let mut random = Random::new(seed ^ salt);
            Stored::new(element, shape, arrangement, |_, _, _| values.next(element, &mut random))
        };
        let a = stored(problem.a, problem.a_shape(), a, 0xa);
        let b = stored(problem.b, problem.b_shape(), b, 0xb00);
        let c = stored(problem.c, problem.c_shape(), c, 0xc_0000);
        problem.a_layout = a.placement().layout;
        problem.b_layout = b.placement().layout;
        problem.c_layout = c.placement().layout;
        let element = problem.bias_element();
        let mut random = Random::new(seed ^ 0xb1a5);
        let mut bias = vec![0; problem.n * element.size()];
        for column in 0..problem.n {
            let value = values.next(element, &mut random);
            element::write_f64(element, &mut bias, column, value);
        }
        let scales = |(operand, element): (Operand, ElementType)| {
            let mut random = Random::new(seed ^ 0x5ca1e ^ ((operand as u64) << 32));
            let count = problem.scale_count(operand);
            let all: Vec<f64> = (0..count)
                .map(|_| match element {
                    ElementType::E8M0 => values.next_block_scale(&mut random),
                    _ => values.next_scale(&mut random),
                })
                .collect();
            element::pack_f64(element, &all)
        };
        let [row_scale, col_scale, a_block_scales, b_block_scales, b_group_scales] =
            SCALES.map(scales);
        Self {
            problem,
            a,
            b,
            c,
            bias,
            row_scale,
            col_scale,
            a_block_scales,
            b_block_scales,
            b_group_scales,
            values,
            seed,
        }
    }

    /// Makes every scale of a block or group 1.
    pub fn fill_block_scales(&mut self) {
        // 2⁰ in e8m0.
        self.a_block_scales.fill(127);
        self.b_block_scales.fill(127);
        for scale in self.b_group_scales.chunks_exact_mut(4) {
            scale.copy_from_slice(&1.0f32.to_le_bytes());
        }
    }

    /// The operands, as the oracle and the one-shot functions take them: C where the problem reads
    /// it, the bias where it adds one, its scales.
    #[must_use]
    pub fn operands(&self) -> Operands<'_> {
        let mut operands = Operands::new(self.a.view(), self.b.view());
        if self.problem.reads_c() {
            operands = operands.c(self.c.view());
        }
        if self.problem.bias {
            operands = operands.bias(AnyVectorRef::new(&self.bias, self.problem.bias_element()));
        }
        if self.problem.row_scale {
            operands = operands.row_scale(AnyVectorRef::new(&self.row_scale, ElementType::F32));
        }
        if self.problem.col_scale {
            operands = operands.col_scale(AnyVectorRef::new(&self.col_scale, ElementType::F32));
        }
        if self.problem.block_scales {
            operands = operands.block_scales(
                AnyVectorRef::new(&self.a_block_scales, ElementType::E8M0),
                AnyVectorRef::new(&self.b_block_scales, ElementType::E8M0),
            );
        }
        if self.problem.b_group.is_some() {
            operands =
                operands.group_scales(AnyVectorRef::new(&self.b_group_scales, ElementType::F32));
        }
        operands
    }
}
