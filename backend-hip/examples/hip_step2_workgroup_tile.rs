//! Step 2 in HIP: a workgroup shares tiles of A and B in LDS.

mod step;

use std::process::ExitCode;

use lapidary_hip::steps::{Step, StepConfig};

fn main() -> ExitCode {
    step::run(&step::Step {
        number: 2,
        name: "workgroup tile",
        kernels: |target| {
            [Step::Naive, Step::WorkgroupTile].map(|step| StepConfig::new(target, step)).into()
        },
        observe: "\
            Bytes read by lanes fall 16-fold, the side of the tile: each loaded element serves 16\n\
            threads. Threads of one row read the same word of tile_a, a broadcast, and adjacent\n\
            words of tile_b: no bank is asked for two words by the lanes of one phase.",
    })
}
