//! A problem with operands to run it on.

use super::stored::{Arrangement, Stored};
use crate::element::{self, ElementType};
use crate::error::{Error, Operand};
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
    /// Integers from 100 to 127, from 5 to 7 for i4: some 1,300 products of them exceed 2²⁴, from where
    /// on f32 has no odd numbers. Odd and even ones alike: were all odd, so were all products, and sums
    /// of whole blocks of them even, which f32 does have.
    Large,
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
            Self::Uniform | Self::Positive | Self::Large => 8,
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
            Self::Large if element == ElementType::I4 => f64::from(random.integer(5, 7)),
            Self::Large => f64::from(random.integer(100, 127)),
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

    /// As [`new`](Self::new) and [`arranged`](Self::arranged) together, without making dense operands
    /// first.
    #[must_use]
    pub fn build(
        mut problem: Problem,
        values: Values,
        seed: u64,
        [a, b, c]: [Arrangement; 3],
    ) -> Self {
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

    /// What [`build`](Self::build) would make of a problem, without making it: the problem in its
    /// layouts, and the bytes of all operands, canaries included.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] if an operand's storage is larger than any allocation may be, otherwise
    /// what [`Problem::validate`] finds.
    pub fn layouts(
        mut problem: Problem,
        arrangements: [Arrangement; 3],
    ) -> Result<(Problem, u128), Error> {
        let [a, b, c] = arrangements;
        let mut total = 0;
        let mut add = |what, element: ElementType, len: u128| {
            let (requested, limit) =
                ((len * element.bits() as u128).div_ceil(8), isize::MAX as u128);
            if requested > limit {
                return Err(Error::LimitExceeded { what, requested, limit });
            }
            total += requested;
            Ok(())
        };
        let mut place = |what, element, shape, arrangement: Arrangement| {
            let (place, len) = arrangement.place_for(element, shape);
            add(what, element, len as u128).map(|()| place.layout)
        };
        problem.a_layout = place("bytes of A's storage", problem.a, problem.a_shape(), a)?;
        problem.b_layout = place("bytes of B's storage", problem.b, problem.b_shape(), b)?;
        problem.c_layout = place("bytes of C's storage", problem.c, problem.c_shape(), c)?;
        add("bytes of the bias", problem.bias_element(), problem.n as u128)?;
        for (operand, element) in SCALES {
            add("bytes of scales", element, problem.scale_count(operand) as u128)?;
        }
        problem.validate()?;
        Ok((problem, total))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_that_operands_get_and_take_as_many_bytes() {
        let arrangements = Arrangement::OUTPUTS;
        for (index, &c) in arrangements.iter().enumerate() {
            let turned = |by: usize| arrangements[(index + by) % arrangements.len()];
            for (batch, b) in [(1, ElementType::F32), (3, ElementType::I4)] {
                let problem = Problem::new(5, 7, 64)
                    .batch(batch)
                    .factors(ElementType::F32, b)
                    .b_group((b == ElementType::I4).then_some(32))
                    .bias(true)
                    .row_scale(true);
                let arranged = [turned(1), turned(4), c];
                let (laid_out, bytes) =
                    Case::layouts(problem.clone(), arranged).expect("it is a valid problem");
                let case = Case::build(problem, Values::SmallIntegers(1), 1, arranged);
                assert_eq!(case.problem, laid_out, "{arranged:?}");
                let vectors = [&case.bias, &case.row_scale, &case.b_group_scales];
                let stored: usize =
                    [&case.a, &case.b, &case.c].iter().map(|x| x.bytes().len()).sum();
                let vectors: usize = vectors.iter().map(|x| x.len()).sum();
                assert_eq!(bytes, (stored + vectors) as u128, "{arranged:?}");
            }
        }
    }

    #[test]
    fn sizes_past_any_storage_are_errors_and_nothing_overflows() {
        let sizes = [0, 1, 2, 1 << 31, isize::MAX as usize / 2, isize::MAX as usize, usize::MAX];
        let triples = sizes.iter().flat_map(|&m| sizes.map(|n| sizes.map(|k| [m, n, k]))).flatten();
        for [m, n, k] in triples {
            for arrangement in Arrangement::INPUTS {
                for (batch, b) in
                    [(0, ElementType::F32), (1, ElementType::I4), (usize::MAX, ElementType::I8)]
                {
                    let problem = Problem::new(m, n, k).batch(batch).factors(ElementType::F32, b);
                    if let Ok((_, bytes)) = Case::layouts(problem, [arrangement; 3]) {
                        // Every operand is one that could be allocated, by its size at least.
                        let largest = 4 * isize::MAX as u128;
                        assert!(bytes <= largest, "{m}x{n}x{k} {arrangement:?}: {bytes}");
                    }
                }
            }
        }
        let huge = Problem::new(100_000, 100_000, 100_000);
        let (_, bytes) = Case::layouts(huge, [Arrangement::Dense; 3]).expect("it is addressable");
        assert_eq!(bytes, 120_000_000_000 + 400_000);
        let past = Problem::new(1 << 40, 1 << 40, 1);
        assert!(matches!(
            Case::layouts(past, [Arrangement::Spread; 3]),
            Err(Error::LimitExceeded { what: "bytes of C's storage", .. })
        ));
    }
}
