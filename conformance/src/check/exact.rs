//! Whether a product of small integers comes out exact in floats, whatever the order of its sums.

use lapidary_core::oracle::Reference;
use lapidary_core::testing::{Case, Values};
use lapidary_core::{Activation, ElementType, Problem};

/// Scales within the sum of products, from ½ to 2 each.
fn inner_scales(problem: &Problem) -> i32 {
    let scaled = [problem.b_group.is_some(), problem.block_scales, problem.block_scales];
    scaled.iter().map(|&scaled| i32::from(scaled)).sum()
}

/// As many products of ones, each times its scales, as have exact sums in `sums`, whatever the scales: a
/// float of unit roundoff u holds integers up to 1 / u. A scale makes products twice as large, what it is
/// applied to as much as twice that, and the step that all are multiples of half as large.
fn most_ones(problem: &Problem, sums: ElementType) -> f64 {
    8f64.powi(-inner_scales(problem)) / sums.unit_roundoff()
}

/// Integers up to `at_most` in magnitude, or up to a smaller number with which any sums of products are
/// exact in a narrower type; none if K is too long for sums of ones.
pub(super) fn small_integers(
    problem: &Problem,
    at_most: i32,
    sums: Option<ElementType>,
) -> Option<Values> {
    let fits = |max: i32| match sums {
        Some(sums) => problem.k as f64 * f64::from(max * max) <= most_ones(problem, sums),
        None => true,
    };
    (1..=at_most).rev().find(|&max| fits(max)).map(Values::SmallIntegers)
}

/// The longest K with which sums of ones are exact in `sums`, no longer than the problem's.
pub(super) fn longest(problem: &Problem, sums: Option<ElementType>) -> usize {
    sums.map_or(problem.k, |sums| problem.k.min(most_ones(problem, sums) as usize))
}

/// Elements at the end of K that [`thin`] leaves in every row: where a kernel that cuts K short errs.
const TAIL: usize = 64;

/// Where K is too long for sums of ones in a narrower type, makes elements of A zero until they are few
/// enough, and says whether it did. Of all but the tail one of each so many is left, other ones in each
/// row; none that is left is 0.
pub(super) fn thin(case: &mut Case, sums: Option<ElementType>) -> bool {
    let (k, Some(sums)) = (case.problem.k, sums) else { return false };
    let most = most_ones(&case.problem, sums) as usize;
    if k <= most || !case.problem.reads_factors() || !case.problem.accumulator().is_float() {
        return false;
    }
    let tail = TAIL.min(most / 2);
    let apart = (k - tail).div_ceil(most - tail);
    case.a.map(|_, row, col, value| match (col + row).is_multiple_of(apart) || col + tail >= k {
        true if value == 0.0 => 1.0,
        true => value,
        false => 0.0,
    });
    true
}

/// Whether the sums of products of integers are exact in the type that they are summed in.
pub(super) fn sums_exactly(problem: &Problem, reference: &Reference) -> bool {
    let largest = reference.product_gauges().fold(0.0f64, f64::max);
    let twice = 2f64.powi(inner_scales(problem));
    problem.accumulator() == ElementType::I32
        || largest <= twice * most_ones(problem, reference.sum_type())
}

/// Whether nothing rounds before the conversion to the output type.
///
/// With A, B, C and the bias integers and scales from ½ to 2, every intermediate result is a multiple
/// of a power of two, g: the lowest bits of alpha, beta and the scales say of which. A float of unit
/// roundoff u holds every multiple of g up to g / u. Alpha 0.1 has its lowest bit at 2⁻⁵⁵, so its
/// products round; so do sums that are too large, and multiples of a g that is subnormal.
///
/// Intermediate results are below the largest gauge over the product of the smallest scales, as a scale
/// may make the result smaller than what it is applied to.
///
/// So it is with the sums of products alone, in the type that they are summed in.
pub(super) fn is_exact(problem: &Problem, reference: &Reference) -> bool {
    let arithmetic = match problem.accumulator() {
        _ if problem.c == ElementType::I32 => return true,
        ElementType::I32 => ElementType::F32,
        float => float,
    };
    // The smallest scales: ½ of rows, columns and groups, and of blocks for either factor.
    let halvings = [
        problem.row_scale,
        problem.col_scale,
        problem.b_group.is_some(),
        problem.block_scales,
        problem.block_scales,
    ];
    let smallest_scale =
        halvings.iter().filter(|&&scaled| scaled).fold(1.0, |scale, _| scale / 2.0);
    let mut step = if problem.bias { 1.0 } else { f64::INFINITY };
    if problem.reads_factors() {
        step = step.min(lowest_bit(problem.alpha)).min(lowest_bit(problem.alpha) * smallest_scale);
    }
    if problem.reads_c() {
        step = step.min(lowest_bit(problem.beta));
    }
    let gauge = reference.gauges().iter().fold(0.0f64, |largest, &gauge| largest.max(gauge));
    let largest = gauge / smallest_scale;
    largest <= arithmetic.max_finite()
        && step >= arithmetic.min_normal()
        && largest <= step / arithmetic.unit_roundoff()
        && sums_exactly(problem, reference)
}

/// Whether the exact sum of integers is all that becomes a float, rounded once: whatever the integers,
/// the result is known bit for bit, while a sum in floats rounds on the way from 2²⁴ on, by less than the
/// bound for an epilogue allows.
pub(super) fn rounds_once(problem: &Problem) -> bool {
    let sum_alone = problem.alpha == 1.0 && !problem.reads_c() && !problem.bias;
    problem.accumulator() == ElementType::I32
        && problem.c == ElementType::F32
        && matches!(problem.activation, Activation::None | Activation::Relu)
        && sum_alone
        && !problem.has_scales()
}

/// The value of the lowest bit that is set in `x`; infinity for 0, which needs none.
fn lowest_bit(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return if x == 0.0 { f64::INFINITY } else { 0.0 };
    }
    let bits = x.to_bits();
    let fraction = (bits & ((1 << 52) - 1)) | (u64::from(x.abs() >= f64::MIN_POSITIVE) << 52);
    let exponent = ((bits >> 52) & 0x7ff).max(1) as i32 - 1075;
    match exponent + fraction.trailing_zeros() as i32 {
        normal @ -1022.. => f64::from_bits(((normal + 1023) as u64) << 52),
        subnormal => f64::from_bits(1 << (subnormal + 1074)),
    }
}

#[cfg(test)]
mod tests {
    use lapidary_core::testing::{Case, Values};

    use super::*;

    #[test]
    fn the_lowest_bit_divides_the_number_into_an_odd_integer() {
        for x in [1.0, -1.5, 0.1, 1e38, 2f64.powi(-140), f64::MIN_POSITIVE, 5e-324, f64::MAX] {
            let quotient = x / lowest_bit(x);
            assert_eq!((quotient.fract(), (quotient / 2.0).fract().abs()), (0.0, 0.5), "{x:e}");
        }
        assert_eq!((lowest_bit(0.0), lowest_bit(f64::NAN)), (f64::INFINITY, 0.0));
    }

    /// However long K is, there are integers whose sums f16 holds, the last of each row among them.
    #[test]
    fn sums_in_f16_are_made_exact() {
        let half = Some(ElementType::F16);
        for (k, most) in [(128, Some(4)), (129, Some(3)), (2048, Some(1)), (2049, None)] {
            let values = small_integers(&Problem::new(3, 4, k), 4, half);
            assert_eq!(values, most.map(Values::SmallIntegers), "K {k}");
        }
        for k in [2049, 4097, 70_000] {
            let mut case = Case::new(Problem::new(3, 4, k), Values::SmallIntegers(1), 1);
            let exact = |case: &Case| {
                let reference = lapidary_core::oracle::reference(&case.problem, &case.operands());
                let reference = reference.expect("a valid problem");
                sums_exactly(&case.problem, &reference.summing_in(ElementType::F16))
            };
            assert!(!thin(&mut case, None) && !thin(&mut case, Some(ElementType::F32)));
            assert!(thin(&mut case, half) && exact(&case), "K {k}");
            let read = |row, col| case.a.view().get(0, row, col) != 0.0;
            assert!((0..3).all(|row| read(row, k - 1) && (0..k / 2).any(|col| read(row, col))));
            case.a.fill(4.0);
            assert!(!exact(&case), "K {k}");
        }
    }

    fn exact(change: impl Fn(Problem) -> Problem) -> bool {
        let case = Case::new(change(Problem::new(5, 6, 70)), Values::SmallIntegers(4), 1);
        let reference = lapidary_core::oracle::reference(&case.problem, &case.operands());
        is_exact(&case.problem, &reference.expect("a valid problem"))
    }

    #[test]
    fn nothing_but_the_sum_of_integers_rounds_once() {
        let integers = || Problem::new(5, 6, 70).elements(ElementType::I8, ElementType::F32);
        assert!(rounds_once(&integers()) && rounds_once(&integers().activation(Activation::Relu)));
        for other in [
            integers().alpha(0.5),
            integers().beta(1.0),
            integers().bias(true),
            integers().row_scale(true),
            integers().activation(Activation::Silu),
            integers().elements(ElementType::I8, ElementType::F16),
            Problem::new(5, 6, 70),
        ] {
            assert!(!rounds_once(&other), "{other:?}");
        }
    }

    #[test]
    fn factors_that_make_products_round_are_told_from_those_that_do_not() {
        for (alpha, beta) in [(1.0, 0.0), (0.5, -1.5), (2f64.powi(100), 0.0), (0.0, 3.0)] {
            assert!(exact(|p| p.alpha(alpha).beta(beta)), "{alpha} {beta}");
        }
        for (alpha, beta) in
            [(0.1, 0.0), (1.0, 0.1), (1e38, 0.0), (2f64.powi(-140), 0.0), (1.0, 2f64.powi(30))]
        {
            assert!(!exact(|p| p.alpha(alpha).beta(beta)), "{alpha} {beta}");
        }
        let f64s = |p: Problem| p.elements(ElementType::F64, ElementType::F64);
        assert!(exact(|p| f64s(p).beta(2f64.powi(30))), "f64 holds more");
        assert!(!exact(|p| f64s(p).alpha(0.1)));
        assert!(exact(|p| p.row_scale(true).col_scale(true).alpha(-2.0)));
        let integers = |p: Problem| p.elements(ElementType::I8, ElementType::I32);
        assert!(exact(|p| integers(p).alpha(1e9)), "integers wrap, and never round");
    }
}
