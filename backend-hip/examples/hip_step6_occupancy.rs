//! Step 6 in HIP: registers against waves, by launch hints.

mod step;

use std::process::ExitCode;

use lapidary_hip::steps::{LaunchHint, Step, StepConfig};

fn main() -> ExitCode {
    step::run(&step::Step {
        number: 6,
        name: "occupancy",
        kernels: |target| {
            let tight = [3, 4].map(|waves| LaunchHint::LaunchBounds { waves });
            let hints = LaunchHint::ALL.into_iter().chain(tight);
            hints.map(|hint| StepConfig::new(target, Step::Occupancy(hint))).collect()
        },
        observe: "\
            The tutorial's hints ask for 2 waves a SIMD, which the kernel has without them: nothing\n\
            changes. Asking for 3 and 4 does: registers fall to 168 and 128, the largest counts of\n\
            which 512 hold three and four, and the rest goes to scratch memory. Scratch in the hot\n\
            loop costs more than a wave brings; time decides, and only a device can take it.",
    })
}
