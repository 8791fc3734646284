//! Step 3 in HIP: a thread keeps 8×8 outputs in registers.

mod step;

use std::process::ExitCode;

use lapidary_hip::steps::{Step, StepConfig};

fn main() -> ExitCode {
    step::run(&step::Step {
        number: 3,
        name: "register tile",
        kernels: |target| {
            [Step::WorkgroupTile, Step::RegisterTile]
                .map(|step| StepConfig::new(target, step))
                .into()
        },
        observe: "\
            The accumulators are 64 of the vector registers, and registers now bind the occupancy.\n\
            The compiler packs two multiply-adds into one v_pk_fma_f32 and reads four k at a time.\n\
            Reads conflict: rows of the tiles are 16 words long and threads own rows and columns 8\n\
            apart, so their words lie a multiple of 32 banks apart. Lower this with padding or, as\n\
            the preshuffle kernel does, with a swizzle.",
    })
}
