//! Step 5: A is loaded 1, 2 or 4 elements an instruction.

mod common;
mod step;

use std::process::ExitCode;

use lapidary_core::{ElementType, KernelChoice};

fn main() -> ExitCode {
    step::run(&step::Step {
        number: 5,
        name: "vectorized loads",
        kernels: &[
            KernelChoice::Vectorized { width: 1 },
            KernelChoice::Vectorized { width: 2 },
            KernelChoice::Vectorized { width: 4 },
        ],
        previous: KernelChoice::step(4, ElementType::F32),
        observe: "\
            The same bytes in fewer load instructions: width 4 issues 2 loads of A a strip and thread\n\
            where width 1 issues 8. B is read along K, N elements apart, and stays scalar, so only\n\
            half of the loads get cheaper and the gain is modest for f32.",
    })
}
