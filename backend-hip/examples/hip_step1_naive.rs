//! Step 1 in HIP: one thread an output, straight from global memory.

mod step;

use std::process::ExitCode;

use lapidary_hip::steps::{Step, StepConfig};

fn main() -> ExitCode {
    step::run(&step::Step {
        number: 1,
        name: "naive",
        kernels: |target| vec![StepConfig::new(target, Step::Naive)],
        observe: "\
            The hot loop has one multiply-add for two loads, and waits for both: nothing hides a\n\
            load but other waves. Registers and LDS leave room for all eight waves a SIMD, and that\n\
            is what the kernel lives on. Lanes read 2·M·N·K elements where M·K + K·N would do.",
    })
}
