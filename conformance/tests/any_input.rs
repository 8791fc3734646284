//! Problems, views and plans of any sizes, strides and limits: valid, or a typed error of one line.

#[path = "common/exercise.rs"]
mod exercise;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_problem_is_valid_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..96)) {
        exercise::problem(&bytes);
    }

    #[test]
    fn any_view_lies_inside_or_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..96)) {
        exercise::view(&bytes);
    }

    #[test]
    fn any_plan_is_decided_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
        exercise::plan(&bytes);
    }
}
