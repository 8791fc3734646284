//! The data that everything is tried on: canaries that show a write, operands that are not all alike.

use lapidary_core::testing::{Arrangement, Case, Random, Stored, Values};
use lapidary_core::{AnyMatrixRef, ElementType, Problem, Shape, element};

use super::{Fault, ensure, fail};

/// An element changed outside a view is reported, it alone, and one inside is not.
///
/// What is inside is found by looking: the view shows another matrix.
pub(super) fn canaries() -> Result<(), Fault> {
    let shape = Shape { batch: 2, rows: 3, cols: 4 };
    for element in ElementType::ALL.into_iter().filter(|&element| element != ElementType::E8M0) {
        for arrangement in Arrangement::INPUTS {
            let mut random = Random::new(3);
            let next = |_, _, _| Values::SmallIntegers(4).next(element, &mut random);
            let stored = Stored::new(element, shape, arrangement, next);
            check_canaries(&stored, &format!("{element} {arrangement:?}"))?;
        }
    }
    Ok(())
}

fn check_canaries(stored: &Stored, what: &str) -> Result<(), Fault> {
    let element = stored.element();
    let seen = |bytes: &[u8]| -> Result<Vec<u64>, Fault> {
        let view = AnyMatrixRef::new(bytes, element, stored.placement())
            .map_err(|error| fail(error.to_string()))?;
        Ok(elements(&view).into_iter().map(f64::to_bits).collect())
    };
    // Flips the lowest bit of one element: another number, or another NaN.
    let flip = |bytes: &mut [u8], index: usize| {
        bytes[index * element.bits() / 8] ^=
            if element.is_packed() { 1 << (index % 2 * 4) } else { 1 };
    };
    let before = seen(stored.bytes())?;
    let mut outside: Vec<usize> = Vec::new();
    for index in 0..stored.len() {
        let mut after = stored.bytes().to_vec();
        flip(&mut after, index);
        let expected = if seen(&after)? == before { vec![index] } else { Vec::new() };
        outside.extend(&expected);
        let broken = stored.broken_canaries(&after);
        ensure(broken == expected, || {
            format!("{what}: with element {index} changed, canaries {broken:?} are reported")
        })?;
    }
    let mut after = stored.bytes().to_vec();
    (0..stored.len()).for_each(|index| flip(&mut after, index));
    ensure(stored.broken_canaries(&after) == outside, || {
        format!("{what}: not all canaries are reported where all elements changed")
    })?;
    ensure(stored.broken_canaries(&after[1..]) == outside, || {
        format!("{what}: a storage of another length passes")
    })
}

/// What operands of some values must be like.
struct Expected {
    /// Whether there are negative numbers.
    signed: bool,
    /// A magnitude that is reached, and one that is not exceeded.
    largest: [f64; 2],
    /// Different numbers, at least.
    distinct: usize,
}

fn expected(values: Values, element: ElementType) -> Option<Expected> {
    use ElementType as E;
    let top = element.max_finite();
    Some(match values {
        Values::SmallIntegers(max) => {
            let max = f64::from(max);
            Expected { signed: true, largest: [max; 2], distinct: 2 * max as usize + 1 }
        }
        Values::Uniform => {
            let (largest, distinct) = match element {
                E::I8 => ([120.0, 128.0], 100),
                E::I4 => ([8.0, 8.0], 16),
                E::I32 => ([2e9, 2f64.powi(31)], 200),
                E::F4E2M1 => ([6.0, 6.0], 12),
                _ => ([0.9, 1.0], 20),
            };
            Expected { signed: true, largest, distinct }
        }
        Values::Positive => {
            let (largest, distinct) = match element {
                E::I8 | E::I32 => ([110.0, 127.0], 60),
                E::I4 => ([7.0, 7.0], 8),
                E::F4E2M1 => ([6.0, 6.0], 7),
                _ => ([0.9, 1.0], 10),
            };
            Expected { signed: false, largest, distinct }
        }
        Values::Exponents(n) if element.is_float() => {
            let largest = f64::from(n).exp2();
            Expected { signed: true, largest: [(largest / 4.0).min(top), largest], distinct: 10 }
        }
        Values::Large => {
            let (range, distinct) = if element == E::I4 { ([7.0; 2], 3) } else { ([127.0; 2], 28) };
            Expected { signed: false, largest: range, distinct }
        }
        _ => return None,
    })
}

/// Data is as various as its description says, other for each operand and seed, and the same again.
pub(super) fn values() -> Result<(), Fault> {
    let problem = |a: ElementType, c: ElementType| {
        Problem::new(16, 24, 32).elements(a, c).factors(a, a).row_scale(true).col_scale(true)
    };
    use ElementType as E;
    for kind in [
        Values::SmallIntegers(4),
        Values::Uniform,
        Values::Positive,
        Values::Exponents(6),
        Values::Large,
    ] {
        for [a, c] in [
            [E::F32, E::F32],
            [E::F64, E::F64],
            [E::F16, E::F16],
            [E::BF16, E::BF16],
            [E::I8, E::I32],
            [E::I8, E::I8],
            [E::I4, E::F32],
            [E::F8E4M3, E::F32],
            [E::F8E5M2Fnuz, E::F32],
            [E::F4E2M1, E::F32],
        ] {
            // Narrow floats have no such numbers.
            if kind == Values::Large && !matches!(a, E::I8 | E::F32 | E::F64) {
                continue;
            }
            let [rows, columns] = [Arrangement::Dense, Arrangement::ColMajor];
            let case = |seed| Case::build(problem(a, c), kind, seed, [rows, columns, rows]);
            let (case, again, other) = (case(1), case(1), case(2));
            let bias = case.problem.bias_element();
            let operands = |case: &Case| {
                let matrix = |stored: &Stored| elements(&stored.view());
                [
                    ("A", a, matrix(&case.a)),
                    ("B", a, matrix(&case.b)),
                    ("C", c, matrix(&case.c)),
                    ("the bias", bias, numbers(bias, &case.bias)),
                ]
            };
            let all = operands(&case);
            for ((name, element, found), (_, _, others)) in all.iter().zip(operands(&other)) {
                let what = format!("{kind:?}, {element}: {name}");
                check_numbers(&what, found, expected(kind, *element), found.len() < 100)?;
                ensure(*found != others, || format!("{what} is the same for another seed"))?;
            }
            let [(_, _, a_numbers), (_, _, b_numbers), ..] = &all;
            ensure(a_numbers != b_numbers, || format!("{kind:?}, {a}: A and B are the same"))?;
            ensure(all == operands(&again), || {
                format!("{kind:?}, {a}: the same seed gives other operands")
            })?;
            check_scales(kind, &case, &other)?;
        }
        let blocks = Problem::new(16, 24, 32).elements(E::F4E2M1, E::F32).block_scales(true);
        check_scales(kind, &Case::new(blocks.clone(), kind, 1), &Case::new(blocks, kind, 2))?;
        let groups = Problem::new(16, 24, 32).factors(E::F16, E::I8).b_group(Some(32));
        check_scales(kind, &Case::new(groups.clone(), kind, 1), &Case::new(groups, kind, 2))?;
    }
    Ok(())
}

/// Scales differ among each other, and for another seed.
fn check_scales(kind: Values, case: &Case, other: &Case) -> Result<(), Fault> {
    for (name, scales, others) in [
        ("row scales", &case.row_scale, &other.row_scale),
        ("column scales", &case.col_scale, &other.col_scale),
        ("block scales of A", &case.a_block_scales, &other.a_block_scales),
        ("block scales of B", &case.b_block_scales, &other.b_block_scales),
        ("group scales", &case.b_group_scales, &other.b_group_scales),
    ] {
        // e8m0 for blocks, f32 for the others.
        let width = if name.starts_with("block") { 1 } else { 4 };
        let alike = scales.chunks_exact(width).all(|scale| *scale == scales[..width]);
        ensure(scales.is_empty() || !(alike || scales == others), || {
            format!("{kind:?}: {name} are all alike, or the same for another seed")
        })?;
    }
    Ok(())
}

/// All elements of a matrix, row-major.
fn elements(view: &AnyMatrixRef<'_>) -> Vec<f64> {
    let Shape { batch, rows, cols } = view.shape();
    let all = 0..batch * rows * cols;
    all.map(|i| view.get(i / cols / rows, i / cols % rows, i % cols)).collect()
}

fn numbers(of: ElementType, bytes: &[u8]) -> Vec<f64> {
    (0..bytes.len() * 8 / of.bits()).map(|index| element::read_f64(of, bytes, index)).collect()
}

/// Of `few` numbers only what any of them must be like is asked.
fn check_numbers(
    what: &str,
    numbers: &[f64],
    expected: Option<Expected>,
    few: bool,
) -> Result<(), Fault> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    ensure(sorted.len() > 1, || format!("{what} is all alike"))?;
    let Some(Expected { signed, largest: [reached, limit], distinct }) = expected else {
        return Ok(());
    };
    let negative = numbers.iter().any(|x| *x < 0.0);
    let positive = numbers.iter().any(|x| *x > 0.0);
    ensure(positive && negative == signed, || {
        format!("{what} has positive numbers: {positive}, negative ones: {negative}")
    })?;
    let largest = numbers.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
    ensure(largest <= limit && (few || largest >= reached), || {
        format!("{what} has a largest magnitude of {largest:e}, not {reached:e} to {limit:e}")
    })?;
    ensure(few || sorted.len() >= distinct, || {
        format!("{what} has {} numbers that differ, not {distinct}", sorted.len())
    })
}
