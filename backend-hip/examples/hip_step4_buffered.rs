//! Step 4 in HIP: one or two pairs of tiles behind the same five hooks.

mod step;

use std::process::ExitCode;

use lapidary_hip::steps::{Step, StepConfig};

fn main() -> ExitCode {
    step::run(&step::Step {
        number: 4,
        name: "buffered",
        kernels: |target| {
            [1, 2].map(|buffers| StepConfig::new(target, Step::Buffered { buffers })).into()
        },
        observe: "\
            Two buffers need one barrier a strip, one needs two. LDS doubles to 32 KiB: on gfx942 two\n\
            workgroups share a compute unit where registers would allow three, and LDS becomes\n\
            what binds; gfx950 has room. The copy is a loop of guarded loads, each stored before the\n\
            next begins, so the early load hides behind other waves rather than behind this one's\n\
            arithmetic: a load that is to overlap must stay in registers until the strip is multiplied.",
    })
}
