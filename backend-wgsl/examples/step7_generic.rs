//! Step 7: one kernel text for every pair of policies.

mod common;
mod step;

use std::process::ExitCode;

use lapidary_core::{ElementType, KernelChoice, Occupancy};

fn main() -> ExitCode {
    step::run(&step::Step {
        number: 7,
        name: "generic kernel",
        kernels: &KernelChoice::generic(ElementType::F32),
        previous: Some(KernelChoice::Occupancy(Occupancy::Balanced)),
        observe: "\
            Single and double buffer should match step 4's: the policies cost nothing at run time,\n\
            they only choose the text. Direct loads have no tiles and no barriers and lean on the\n\
            caches; their effective bandwidth shows how much sharing the tiles were doing.",
    })
}
