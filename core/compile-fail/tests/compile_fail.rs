//! Policies that break a rule do not build, and say which.

/// The passing case makes `trybuild` build instead of check: the assertions belong to monomorphised
/// functions, which a check never evaluates.
#[test]
fn policies_that_break_a_rule_do_not_build() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
