//! Step 4: the next strip is loaded while this one is multiplied.

mod common;
mod step;

use std::process::ExitCode;

use lapidary_core::KernelChoice;
use lapidary_core::policy::{KernelConfig, ScalarFma, SingleBuffer, SoftwareDoubleBuffer};

fn main() -> ExitCode {
    // Strips half as long: two buffers in the memory of one, to tell the cost of memory apart.
    let half_single = KernelConfig::of::<SingleBuffer<128, 128, 8>, ScalarFma<8, 8>>();
    let half_double = KernelConfig::of::<SoftwareDoubleBuffer<128, 128, 8>, ScalarFma<8, 8>>();
    step::run(&step::Step {
        number: 4,
        name: "double buffer",
        kernels: &[
            KernelChoice::Buffered { buffers: 1 },
            KernelChoice::Buffered { buffers: 2 },
            KernelChoice::Policy(half_single),
            KernelChoice::Policy(half_double),
        ],
        previous: Some(KernelChoice::RegisterTile),
        observe: "\
            The single buffer is step 3 behind hooks, so its time should be step 3's. Two buffers\n\
            load the same bytes with one barrier a strip instead of two, for twice the workgroup\n\
            memory. The last two kernels have strips half as long: if their double buffer wins and\n\
            the long one loses, memory is what costs; if both lose, buffering itself does.",
    })
}
