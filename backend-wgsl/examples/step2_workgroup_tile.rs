//! Step 2: a workgroup loads tiles of A and B once and shares them.

mod common;
mod step;

use std::process::ExitCode;

use lapidary_core::KernelChoice;

fn main() -> ExitCode {
    step::run(&step::Step {
        number: 2,
        name: "workgroup tile",
        kernels: &[KernelChoice::WorkgroupTile],
        previous: Some(KernelChoice::Naive),
        observe: "\
            Global loads fall 16-fold, the width of the tile, and so does the effective bandwidth at\n\
            equal speed. The gain is much smaller than 16: every multiplication still reads two\n\
            values from workgroup memory, which is now what threads wait for.",
    })
}
