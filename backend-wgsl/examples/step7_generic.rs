//! Step 7: one orchestration for every pair of policies.

mod common;
mod step;

use std::process::ExitCode;

use lapidary_core::policy::{KernelConfig, RegisterPrefetch, VectorFma};
use lapidary_core::{ElementType, KernelChoice};

fn main() -> ExitCode {
    let element = ElementType::F32;
    let mut kernels = KernelChoice::generic(element).to_vec();
    // What the backend chooses by itself for large products.
    let fast = KernelConfig::of::<RegisterPrefetch<128, 128, 16>, VectorFma<8, 16>>();
    kernels.push(KernelChoice::Policy(fast));
    step::run(&step::Step {
        number: 7,
        name: "generic kernel",
        kernels: &kernels,
        previous: KernelChoice::step(6, element),
        observe: "\
            Single and double buffer should match step 4's: policies cost nothing at run time, they\n\
            only choose the text. Direct loads have no tiles, so no barriers and no bank conflicts,\n\
            and lean on the caches. The last pair loads early, stores late and reads vectors from\n\
            padded tiles: what the steps before were waiting for.",
    })
}
