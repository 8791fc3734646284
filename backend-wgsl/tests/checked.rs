//! Shaders with run-time checks compute the same bits as those without.

mod common;

use common::Uploaded;
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{Activation, ElementType, Problem};

#[test]
fn checks_change_no_bit() {
    let (Some(plain), Some(checked)) = (common::device(), common::checked()) else { return };
    let mut compared = 0;
    for (operand, output) in [
        (ElementType::F32, ElementType::F32),
        (ElementType::BF16, ElementType::F16),
        (ElementType::I8, ElementType::I8),
    ] {
        for (index, [m, n, k]) in [[65, 129, 33], [1, 3, 200], [17, 16, 1]].into_iter().enumerate()
        {
            let problem = Problem::new(m, n, k)
                .elements(operand, output)
                .alpha(0.75)
                .beta(-0.5)
                .bias(true)
                .activation(Activation::GeluTanh);
            let case = Case::new(problem, Values::Uniform, index as u64).arranged(
                Arrangement::Dense,
                Arrangement::ReversedRows,
                Arrangement::PaddedColMajor,
            );
            let (here, there) =
                (Uploaded::aligned(plain, &case), Uploaded::aligned(checked, &case));
            for kernel in common::kernels(operand) {
                let bits = here.run(plain, kernel).expect("runs");
                assert!(bits == there.run(checked, kernel).expect("runs"), "{}", kernel.name());
                common::assert_canaries(&case.c, &bits, || kernel.name());
                compared += 1;
            }
        }
    }
    println!("{compared} results, equal bit for bit");
}
