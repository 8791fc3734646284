//! Step 1: one thread computes one element of C, straight from global memory.

mod common;
mod step;

use std::process::ExitCode;

use lapidary_core::KernelChoice;

fn main() -> ExitCode {
    step::run(&step::Step {
        number: 1,
        name: "naive",
        kernels: &[KernelChoice::Naive],
        previous: None,
        observe: "\
            Each output asks for a row of A and a column of B: 8·K bytes for 2·K operations, 0.25\n\
            operations a byte where the matrices would allow hundreds. The effective bandwidth is\n\
            what the caches deliver, far above the memory's own; it is what limits this kernel.",
    })
}
