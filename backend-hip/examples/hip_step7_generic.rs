//! Step 7 in HIP: one kernel, and pairs of core's policies that select what it is made of.

mod step;

use std::process::ExitCode;

use lapidary_core::policy::{
    DirectLoad, KernelConfig, MfmaF16, MfmaF32, MfmaXf32, ScalarFma, SingleBuffer,
    SoftwareDoubleBuffer,
};
use lapidary_hip::Target;
use lapidary_hip::steps::StepConfig;

/// Every pair of a tile policy and a compute policy that the kernel has.
fn kernels(target: Target) -> Vec<StepConfig> {
    type Single<const KT: usize> = SingleBuffer<128, 128, KT>;
    type Double<const KT: usize> = SoftwareDoubleBuffer<128, 128, KT>;
    type Direct = DirectLoad<128, 128, 16>;
    type Scalar = ScalarFma<8, 8>;
    let pairs = [
        KernelConfig::of::<Single<16>, Scalar>(),
        KernelConfig::of::<Double<16>, Scalar>(),
        KernelConfig::of::<Direct, Scalar>(),
        KernelConfig::of::<Single<16>, MfmaF32<64, 64>>(),
        KernelConfig::of::<Double<16>, MfmaF32<64, 64>>(),
        KernelConfig::of::<Direct, MfmaF32<64, 64>>(),
        KernelConfig::of::<Single<16>, MfmaXf32<64, 64>>(),
        KernelConfig::of::<Double<16>, MfmaXf32<64, 64>>(),
        KernelConfig::of::<Direct, MfmaXf32<64, 64>>(),
        KernelConfig::of::<Single<32>, MfmaF16<64, 64>>(),
        KernelConfig::of::<Double<32>, MfmaF16<64, 64>>(),
    ];
    pairs.iter().filter_map(|pair| StepConfig::of_policies(target, pair).ok()).collect()
}

fn main() -> ExitCode {
    step::run(&step::Step {
        number: 7,
        name: "generic",
        kernels,
        observe: "\
            Only what a policy names changes: the loop, the guards and the epilogue are one text.\n\
            A matrix instruction of a wave replaces 16 (f32) to 128 (f16 on CDNA4) multiply-adds of a\n\
            lane, so the share of everything else in the loop grows, and the bank conflicts of\n\
            16-word rows with it: that is what preshuffled operands and swizzled tiles are for.\n\
            A direct load fills 64 words of a tile with one instruction, 8 a wave for a 128×16 tile\n\
            shared by four waves, without a vector register.",
    })
}
