//! Sums over very many products: the whole of K, or a typed error where a device would lose a tail.

mod common;

use common::Uploaded;
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{ElementType, Error, KernelChoice, Problem};

/// Software devices end loops after so many iterations; kernels that would run into that are
/// refused, the backend's own choice is one that does not.
#[test]
fn long_sums_are_exact_or_refused() {
    let Some(device) = common::device() else { return };
    let (mut exact, mut refused) = (0, 0);
    for (operand, k) in [
        // Just below the limit of the kernels with the most loops, and ones far past it.
        (ElementType::F32, 28_880),
        (ElementType::F32, 65_000),
        (ElementType::F32, 400_000),
        (ElementType::I8, 131_071),
    ] {
        let problem = Problem::new(2, 3, k).elements(operand, operand.accumulator());
        let mut case = Case::new(problem, Values::SmallIntegers(2), k as u64).arranged(
            Arrangement::Dense,
            Arrangement::ColMajor,
            Arrangement::Padded,
        );
        let expected = common::expect(&mut case);
        let uploaded = Uploaded::aligned(device, &case);
        uploaded.check(device, KernelChoice::Auto, &expected);
        for kernel in common::kernels(operand) {
            match uploaded.run(device, kernel) {
                Err(Error::LimitExceeded { what, requested, limit: 65_000 }) => {
                    assert!(device.limits().software, "{}", kernel.name());
                    assert!(what.starts_with("loop iterations of a thread"), "{what}");
                    assert!(requested > 65_000);
                    refused += 1;
                }
                Err(error) => panic!("{}: {error}", kernel.name()),
                Ok(after) => {
                    let comparison = expected.compare_exact(&common::found(&case.c, &after));
                    assert!(comparison.passed(), "{} K {k}: {comparison}", kernel.name());
                    exact += 1;
                }
            }
        }
    }
    println!("{exact} exact, {refused} refused");
    assert!(exact >= 16, "all kernels are exact at the smallest K");
}
