//! Step 5 in HIP: A by loads of 1, 2 and 4 elements.

mod step;

use std::process::ExitCode;

use lapidary_hip::steps::{Step, StepConfig};

fn main() -> ExitCode {
    step::run(&step::Step {
        number: 5,
        name: "vectorized",
        kernels: |target| {
            [1, 2, 4]
                .map(|width| StepConfig::new(target, Step::Vectorized).with_load_width(width))
                .into()
        },
        observe: "\
            Executed instructions on global memory fall with the width, and with them the executed\n\
            total, while the bytes stay. Vectors demand that A's elements are adjacent along k and\n\
            that rows start at a multiple of the width: --k 81 is refused for widths 2 and 4 with\n\
            the stride that breaks it.",
    })
}
