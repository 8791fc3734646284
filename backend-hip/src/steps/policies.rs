//! Which instantiation of the generic kernel a pair of core's policies stands for.

use lapidary_core::ElementType;
use lapidary_core::policy::{
    DirectLoad, KernelConfig, Multiply, SingleBuffer, SoftwareDoubleBuffer, Staging, TileAction,
    TileOrder, TilePolicy,
};

use super::rules::StepError;
use super::{Arithmetic, TileMovement};

/// The hooks of a tile policy: prologue, prefetch, acquire, release.
type Hooks = [&'static [TileAction]; 4];

fn hooks_of<T: TilePolicy>() -> Hooks {
    [T::prologue(), T::prefetch(), T::acquire(), T::release()]
}

/// The hooks that the kernel's own policies are written for; sizes play no part in them.
fn hooks(movement: TileMovement) -> Hooks {
    match movement {
        TileMovement::SingleBuffer => hooks_of::<SingleBuffer<16, 16, 16>>(),
        TileMovement::SoftwareDoubleBuffer => hooks_of::<SoftwareDoubleBuffer<16, 16, 16>>(),
        TileMovement::DirectLoad => hooks_of::<DirectLoad<16, 16, 16>>(),
    }
}

/// Picks data movement and arithmetic.
pub(super) fn instantiation(
    config: &KernelConfig,
) -> Result<(TileMovement, Arithmetic), StepError> {
    let refuse = |reason: String| Err(StepError::Policies { policies: config.name(), reason });
    let tile = &config.tile;
    if tile.order != TileOrder::KInner || tile.pad != 0 {
        return refuse(format!(
            "its tiles have k innermost and no padding, these are {:?} with a padding of {}",
            tile.order, tile.pad
        ));
    }
    if tile.k_groups != 1 {
        return refuse(format!("all its threads sum all of K, not {} groups", tile.k_groups));
    }
    let movement = match (tile.staging, tile.num_buffers) {
        (Staging::Workgroup, 1) => TileMovement::SingleBuffer,
        (Staging::Workgroup, 2) => TileMovement::SoftwareDoubleBuffer,
        (Staging::Direct, 1) => TileMovement::DirectLoad,
        (staging, buffers) => {
            return refuse(format!("it has no {staging:?} staging with {buffers} buffers"));
        }
    };
    if [tile.prologue, tile.prefetch, tile.acquire, tile.release] != hooks(movement) {
        return refuse(format!(
            "hooks are written in HIP, and only those of single-buffer, double-buffer and \
             direct-load exist; {}'s are others",
            tile.name
        ));
    }
    let compute = &config.compute;
    let arithmetic = match compute.multiply {
        Multiply::ScalarFma => Arithmetic::ScalarFma,
        Multiply::MfmaF32 => Arithmetic::MfmaF32,
        Multiply::MfmaXf32 => Arithmetic::MfmaXf32,
        Multiply::MfmaF16 => Arithmetic::MfmaF16,
        other => return refuse(format!("its arithmetic does not include {other:?}")),
    };
    let element = match arithmetic {
        Arithmetic::MfmaF16 => ElementType::F16,
        Arithmetic::ScalarFma | Arithmetic::MfmaF32 | Arithmetic::MfmaXf32 => ElementType::F32,
    };
    if compute.element != element || compute.accumulator != ElementType::F32 {
        return refuse(format!(
            "{arithmetic:?} multiplies {element} and accumulates in f32, the policy {} and {}",
            compute.element, compute.accumulator
        ));
    }
    if compute.k_step != arithmetic.k_step() {
        return refuse(format!(
            "{arithmetic:?} consumes {} steps along K at a time, the policy {}",
            arithmetic.k_step(),
            compute.k_step
        ));
    }
    Ok((movement, arithmetic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::{Step, StepConfig};
    use crate::target::Target;
    use lapidary_core::policy::{
        ComputePolicy, MfmaF16, MfmaF32, MfmaXf32, RegisterPrefetch, ScalarFma, ScalarMac,
        VectorFma,
    };

    fn step_of<T: TilePolicy, C: ComputePolicy>(target: Target) -> StepConfig {
        let config = KernelConfig::of::<T, C>();
        let step = StepConfig::of_policies(target, &config).expect("there is such a kernel");
        assert_eq!(step.block, [config.tile.block_tile_m, config.tile.block_tile_n]);
        assert_eq!(step.k_tile, config.tile.k_tile_size);
        assert_eq!(step.load_width, config.tile.load_width);
        assert_eq!(step.threads()[0], config.workgroup_threads());
        if config.tile.staging == Staging::Workgroup {
            assert_eq!(step.lds_bytes(), config.workgroup_bytes());
        }
        step
    }

    #[test]
    fn every_pair_selects_its_instantiation() {
        use super::Arithmetic as A;
        use super::TileMovement as T;
        type Single<const KT: usize> = SingleBuffer<128, 64, KT, 4>;
        type Double<const KT: usize> = SoftwareDoubleBuffer<64, 128, KT>;
        type Direct<const KT: usize> = DirectLoad<128, 128, KT>;
        let target = Target::Gfx942;
        for (config, movement, arithmetic) in [
            (step_of::<Single<16>, ScalarFma<8, 4>>(target), T::SingleBuffer, A::ScalarFma),
            (step_of::<Single<16>, MfmaF32<64, 32>>(target), T::SingleBuffer, A::MfmaF32),
            (step_of::<Single<16>, MfmaXf32<64, 32>>(target), T::SingleBuffer, A::MfmaXf32),
            (step_of::<Single<32>, MfmaF16<64, 32>>(target), T::SingleBuffer, A::MfmaF16),
            (step_of::<Double<16>, ScalarFma<4, 8>>(target), T::SoftwareDoubleBuffer, A::ScalarFma),
            (step_of::<Double<16>, MfmaF32<32, 64>>(target), T::SoftwareDoubleBuffer, A::MfmaF32),
            (step_of::<Double<8>, MfmaXf32<16, 128>>(target), T::SoftwareDoubleBuffer, A::MfmaXf32),
            (step_of::<Double<64>, MfmaF16<64, 64>>(target), T::SoftwareDoubleBuffer, A::MfmaF16),
            (step_of::<Direct<16>, ScalarFma<8, 8>>(target), T::DirectLoad, A::ScalarFma),
            (step_of::<Direct<16>, MfmaF32<64, 64>>(target), T::DirectLoad, A::MfmaF32),
            (step_of::<Direct<16>, MfmaXf32<128, 32>>(target), T::DirectLoad, A::MfmaXf32),
        ] {
            assert_eq!(config.step, Step::Generic(movement, arithmetic));
            assert!(config.request().is_ok(), "{config}: {:?}", config.request());
        }
    }

    #[test]
    fn the_tutorials_sizes_are_those_of_the_policies() {
        let own = |movement, arithmetic| {
            StepConfig::new(Target::Gfx942, Step::Generic(movement, arithmetic))
        };
        assert_eq!(
            step_of::<SingleBuffer<128, 128, 16>, ScalarFma<8, 8>>(Target::Gfx942),
            own(TileMovement::SingleBuffer, Arithmetic::ScalarFma)
        );
        assert_eq!(
            step_of::<SoftwareDoubleBuffer<128, 128, 32>, MfmaF16<64, 64>>(Target::Gfx942),
            own(TileMovement::SoftwareDoubleBuffer, Arithmetic::MfmaF16)
        );
    }

    /// A single buffer without its second barrier.
    struct Racing;

    impl TilePolicy for Racing {
        const NAME: &'static str = "racing";
        const NUM_BUFFERS: usize = 1;
        const BLOCK_TILE_M: usize = 64;
        const BLOCK_TILE_N: usize = 64;
        const K_TILE_SIZE: usize = 16;

        fn prologue() -> &'static [TileAction] {
            &[]
        }
        fn prefetch() -> &'static [TileAction] {
            SingleBuffer::<64, 64, 16>::prefetch()
        }
        fn acquire() -> &'static [TileAction] {
            &[TileAction::Barrier]
        }
        fn release() -> &'static [TileAction] {
            &[]
        }
    }

    /// Matrix cores that claim another step along K.
    struct LongSteps;

    impl ComputePolicy for LongSteps {
        const NAME: &'static str = "long-steps";
        const THREAD_TILE_M: usize = 8;
        const THREAD_TILE_N: usize = 2;
        const K_STEP: usize = 8;
        const MULTIPLY: Multiply = Multiply::MfmaF32;
        type ElemA = f32;
        type ElemB = f32;
        type Accumulator = f32;
    }

    #[test]
    fn what_the_kernel_cannot_do_is_refused_with_the_reason() {
        for (config, expected) in [
            (
                KernelConfig::of::<SingleBuffer<128, 128, 16>, ScalarMac<8, 8>>(),
                "does not include ScalarMac",
            ),
            (
                KernelConfig::of::<RegisterPrefetch<128, 128, 16>, VectorFma<8, 8>>(),
                "k innermost and no padding",
            ),
            (KernelConfig::of::<Racing, ScalarFma<4, 4>>(), "racing's are others"),
            (
                KernelConfig::of::<SingleBuffer<64, 64, 16>, LongSteps>(),
                "consumes 4 steps along K at a time, the policy 8",
            ),
        ] {
            let error = StepConfig::of_policies(Target::Gfx942, &config).expect_err("refused");
            assert!(matches!(error, StepError::Policies { .. }));
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
