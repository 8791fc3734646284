use super::*;
use crate::error::Error;

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
    assert_eq!(supported.len(), 1 + 3 * 3 + 5 + 4 * 3);
}

#[test]
fn absurd_sizes_are_refused() {
    let problem = Problem::new(usize::MAX, usize::MAX, 2);
    assert!(matches!(problem.validate(), Err(Error::LimitExceeded { .. })));
}
