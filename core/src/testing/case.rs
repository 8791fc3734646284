//! A problem with operands to run it on.

use super::stored::{Arrangement, Stored};
use crate::element::{self, ElementType};
use crate::layout::Shape;
use crate::operands::Operands;
use crate::problem::Problem;
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
    /// The next value for `element`.
    pub fn next(self, element: ElementType, random: &mut Random) -> f64 {
        match self {
            Self::SmallIntegers(max) => f64::from(random.integer(-max, max)),
            Self::Uniform if element == ElementType::I8 => f64::from(random.integer(-128, 127)),
            Self::Uniform if element == ElementType::I32 => {
                f64::from(random.integer(i32::MIN, i32::MAX))
            }
            Self::Uniform => random.unit(),
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
        Self { problem, a, b, c, bias, values, seed }
    }

    /// The operands, as the oracle and the one-shot functions take them: C where the problem reads
    /// it, the bias where it adds one.
    #[must_use]
    pub fn operands(&self) -> Operands<'_> {
        let mut operands = Operands::new(self.a.view(), self.b.view());
        if self.problem.reads_c() {
            operands = operands.c(self.c.view());
        }
        if self.problem.bias {
            operands = operands.bias(AnyVectorRef::new(&self.bias, self.problem.bias_element()));
        }
        operands
    }
}
