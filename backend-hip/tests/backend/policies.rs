//! Core's policy types through `Gemm::<Hip>`: each pair runs its own kernel, or is refused by name.

use super::support::{TARGETS, check_exact, device};
use lapidary_core::policy::{
    DirectLoad, KernelConfig, MfmaF16, MfmaF32, MfmaXf32, RegisterPrefetch, ScalarFma,
    SingleBuffer, SoftwareDoubleBuffer, VectorFma,
};
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{Activation, ElementType, Error, Gemm, KernelChoice, PlanOptions, Problem};
use lapidary_hip::{Hip, Target};

fn options(config: KernelConfig) -> PlanOptions {
    PlanOptions::kernel(KernelChoice::Policy(config))
}

/// A problem with every part of the epilogue, batched, with views.
fn case(operand: ElementType) -> Case {
    let problem = Problem::new(67, 37, 45)
        .batch(2)
        .elements(operand, ElementType::F32)
        .alpha(2.0)
        .beta(-1.0)
        .bias(true)
        .activation(Activation::Relu);
    Case::new(problem, Values::SmallIntegers(3), 4).arranged(
        Arrangement::PaddedColMajor,
        Arrangement::Padded,
        Arrangement::Spread,
    )
}

#[test]
fn every_pair_of_policies_multiplies() {
    type Single<const KT: usize> = SingleBuffer<64, 64, KT>;
    type Double<const KT: usize> = SoftwareDoubleBuffer<64, 64, KT>;
    type Direct = DirectLoad<64, 64, 16>;
    let f32 = [
        (KernelConfig::of::<Single<16>, ScalarFma<4, 4>>(), "SingleBuffer/ScalarFma"),
        (KernelConfig::of::<Double<16>, ScalarFma<4, 4>>(), "SoftwareDoubleBuffer/ScalarFma"),
        (KernelConfig::of::<Direct, ScalarFma<4, 4>>(), "DirectLoad/ScalarFma"),
        (KernelConfig::of::<Single<16>, MfmaF32<32, 32>>(), "SingleBuffer/MfmaF32"),
        (KernelConfig::of::<Double<16>, MfmaF32<32, 32>>(), "SoftwareDoubleBuffer/MfmaF32"),
        (KernelConfig::of::<Direct, MfmaF32<32, 32>>(), "DirectLoad/MfmaF32"),
        (KernelConfig::of::<Single<16>, MfmaXf32<32, 32>>(), "SingleBuffer/MfmaXf32"),
        (KernelConfig::of::<Double<16>, MfmaXf32<32, 32>>(), "SoftwareDoubleBuffer/MfmaXf32"),
        (KernelConfig::of::<Direct, MfmaXf32<32, 32>>(), "DirectLoad/MfmaXf32"),
    ];
    let f16 = [
        (KernelConfig::of::<Single<32>, MfmaF16<32, 32>>(), "SingleBuffer/MfmaF16"),
        (KernelConfig::of::<Double<32>, MfmaF16<32, 32>>(), "SoftwareDoubleBuffer/MfmaF16"),
    ];
    for target in TARGETS {
        let Some(device) = device(target) else { return };
        for (operand, pairs) in [(ElementType::F32, &f32[..]), (ElementType::F16, &f16[..])] {
            let case = case(operand);
            for &(config, name) in pairs {
                if name.contains("Xf32") && target == Target::Gfx950 {
                    let refused = Gemm::<Hip>::plan(&device, &case.problem, &options(config));
                    let error = refused.expect_err("CDNA4 has no xf32").to_string();
                    assert!(error.contains("xf32") && error.contains("gfx950"), "{error}");
                    continue;
                }
                let outcome = check_exact(&device, &case, &options(config));
                assert!(outcome.kernel.contains(name), "{} is not {name}", outcome.kernel);
            }
        }
    }
}

#[test]
fn pairs_without_a_kernel_are_refused_with_the_reason() {
    let Some(device) = device(Target::Gfx942) else { return };
    for (config, reason) in [
        (
            KernelConfig::of::<RegisterPrefetch<64, 64, 16>, VectorFma<8, 8>>(),
            "k innermost and no padding",
        ),
        (KernelConfig::of::<SingleBuffer<64, 64, 32>, MfmaF16<32, 32>>(), "it multiplies f16"),
    ] {
        let plan = Gemm::<Hip>::plan(&device, &Problem::new(8, 8, 8), &options(config));
        match plan {
            Err(Error::KernelUnsuitable { reason: found, .. }) => {
                assert!(found.contains(reason), "{found}");
            }
            other => panic!("{other:?}"),
        }
    }
}
