//! Step 3: a thread computes 8×8 outputs from values it keeps in registers.

mod common;
mod step;

use std::process::ExitCode;

use lapidary_core::KernelChoice;

fn main() -> ExitCode {
    step::run(&step::Step {
        number: 3,
        name: "register tile",
        kernels: &[KernelChoice::RegisterTile],
        previous: Some(KernelChoice::WorkgroupTile),
        observe: "\
            For 16 reads of workgroup memory a thread does 64 multiply-adds, step 2 does one for 2.\n\
            The 128×128 block also loads an eighth of step 2's bytes from global memory. Small\n\
            matrices may lose: there is one workgroup where step 2 has 64, and a GPU needs many.",
    })
}
