//! Step 6: registers and workgroup memory traded for more workgroups at once.

mod common;
mod step;

use std::process::ExitCode;

use lapidary_core::{ElementType, KernelChoice, Occupancy};

fn main() -> ExitCode {
    step::run(&step::Step {
        number: 6,
        name: "occupancy",
        kernels: &[
            KernelChoice::Occupancy(Occupancy::Wide),
            KernelChoice::Occupancy(Occupancy::Balanced),
            KernelChoice::Occupancy(Occupancy::Lean),
        ],
        previous: KernelChoice::step(5, ElementType::F32),
        observe: "\
            From wide to lean a thread holds 64, 32, 16 sums, so more workgroups fit a core and hide\n\
            each other's waiting; but each value read is used 8, 8 and 4 or 4 times, so there is\n\
            more to wait for. The best of the three says which of the two limits this device.",
    })
}
