//! Which element types go together, as data.

use crate::element::ElementType::{self, *};

/// Element types of A and B that go together, and what they give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Combination {
    /// Element types of A.
    pub a: &'static [ElementType],
    /// Element types of B.
    pub b: &'static [ElementType],
    /// Whether both must be the same one.
    pub same: bool,
    /// Element types of C.
    pub c: &'static [ElementType],
    /// What they give, in words: the rule that another C breaks.
    pub gives: &'static str,
}

impl Combination {
    /// Whether A and B may have these types.
    #[must_use]
    pub fn has(&self, a: ElementType, b: ElementType) -> bool {
        self.a.contains(&a) && self.b.contains(&b) && (!self.same || a == b)
    }
}

const FLOATS: &[ElementType] = &[F32, F16, BF16];

const fn combination(
    a: &'static [ElementType],
    b: &'static [ElementType],
    c: &'static [ElementType],
    gives: &'static str,
) -> Combination {
    Combination { a, b, same: false, c, gives }
}

/// Every combination of element types that is defined. No two have a pair of A and B in common.
///
/// f4e2m1 belongs to block scales, which [`Problem::validate`](super::Problem::validate) checks
/// beside this.
pub const COMBINATIONS: [Combination; 7] = [
    combination(&[F64], &[F64], &[F64], "f64 operands give f64"),
    Combination {
        same: true,
        ..combination(FLOATS, FLOATS, FLOATS, "float operands give f32, f16 or bf16")
    },
    combination(FLOATS, &[I8, I4], FLOATS, "floats with i8 or i4 weights give f32, f16 or bf16"),
    combination(
        &[I8],
        &[I8],
        &[I32, F32, F16, BF16, I8],
        "i8 operands give i32, f32, f16, bf16 or i8",
    ),
    combination(&[I8], &[I4], &[I32, F32, F16, BF16], "i8 with i4 gives i32, f32, f16 or bf16"),
    combination(
        &[F8E4M3Fnuz, F8E5M2Fnuz],
        &[F8E4M3Fnuz, F8E5M2Fnuz],
        FLOATS,
        "fp8 and fp4 operands give f32, f16 or bf16",
    ),
    combination(
        &[F8E4M3, F8E5M2, F4E2M1],
        &[F8E4M3, F8E5M2, F4E2M1],
        FLOATS,
        "fp8 and fp4 operands give f32, f16 or bf16",
    ),
];

/// Why no combination has A and B of these types.
pub(super) fn why_not(a: ElementType, b: ElementType) -> &'static str {
    let narrow = |element: ElementType| element.is_fp8() || element == F4E2M1;
    match (a, b) {
        (F64, _) => "f64 operands give f64",
        (a, b) if narrow(a) && narrow(b) => "A and B must be of one flavour, FNUZ or OCP",
        (I4, _) => "i4 is a type of B, beside i8, f32, f16 or bf16",
        (E8M0, _) => "e8m0 is a type of scales",
        (a, b) if a != b => {
            "A and B must have the same element type, or B i4 beside i8, or i8 or i4 beside floats"
        }
        _ => "operands are f64, f32, f16, bf16, i8, fp8, f4e2m1, or floats or i8 with i8 or i4",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pair_is_in_two_combinations() {
        for a in ElementType::ALL {
            for b in ElementType::ALL {
                let count = COMBINATIONS.iter().filter(|c| c.has(a, b)).count();
                assert!(count <= 1, "{a} x {b}");
                assert!(a != b || (count == 0) == matches!(a, I32 | I4 | E8M0), "{a}");
            }
        }
    }

    #[test]
    fn weights_are_integers_beside_any_narrow_or_single_float() {
        let weights: Vec<_> = ElementType::ALL
            .iter()
            .flat_map(|&a| ElementType::ALL.map(|b| (a, b)))
            .filter(|&(a, b)| a.is_float() && !b.is_float())
            .filter(|&(a, b)| COMBINATIONS.iter().any(|c| c.has(a, b)))
            .collect();
        assert_eq!(weights, [(F32, I8), (F32, I4), (F16, I8), (F16, I4), (BF16, I8), (BF16, I4)]);
    }
}
