//! The kernels that the HIP backend has, as a list.

use lapidary_core::policy::{
    DirectLoad, KernelConfig, MfmaF16, MfmaF32, MfmaXf32, Multiply, ScalarFma, SingleBuffer,
    SoftwareDoubleBuffer,
};
use lapidary_core::{
    ElementType, Error, KernelChoice, MatrixKernel, Movement, PlanOptions, Problem,
};
use lapidary_hip::decide::Product;
use lapidary_hip::passes::PASSES;
use lapidary_hip::preshuffle::PreshuffleConfig;
use lapidary_hip::steps::{Arithmetic, Step, StepConfig, TileMovement};
use lapidary_hip::{Hip, Target};

use crate::adapter::Types;
use crate::adapter::cpu::all_types;

/// Combinations of types of a target that knows these elements.
pub(super) fn types(known: &[ElementType], target: Target) -> Vec<Types> {
    let block_scales = target == Target::Gfx950;
    all_types()
        .iter()
        .copied()
        .filter(|types| types.elements[..2].iter().all(|element| known.contains(element)))
        .filter(|types| !types.block_scales || block_scales)
        .filter(|types| types.elements[0].is_float() == types.elements[1].is_float())
        .collect()
}

/// The name of a plan's kernel; of the matrix-core kernel, its variant.
pub(super) fn planned(
    device: &Hip,
    problem: &Problem,
    options: &PlanOptions,
) -> Result<String, Error> {
    let decision = device.decide(problem, options)?;
    Ok(match &decision.product {
        Product::Preshuffle(product) => variant(&product.config),
        _ => decision.summary.kernel,
    })
}

/// Bits of fraction that a kernel keeps of f32 operands, if not all.
pub(super) fn fraction_bits(kernel: &KernelChoice) -> Option<u32> {
    match kernel {
        KernelChoice::Policy(p) if p.compute.multiply == Multiply::MfmaXf32 => Some(10),
        _ => None,
    }
}

/// The variant of the matrix-core kernel: what is code of its own, whatever the tile.
pub(super) fn variant(config: &PreshuffleConfig) -> String {
    let store = match (config.split_k, config.c_shuffle) {
        (true, _) => "split-K",
        (false, true) => "C through LDS",
        (false, false) => "direct store",
    };
    format!("preshuffle, {}, {} stage(s), {store}", config.copy.name(), config.lds_stage)
}

/// Step 7 with pairs of policies that multiply operands of `element` on matrix cores, and with loads of
/// several elements.
fn policies(element: ElementType, target: Target) -> Vec<KernelChoice> {
    type Single<const KT: usize> = SingleBuffer<64, 64, KT>;
    type Double<const KT: usize> = SoftwareDoubleBuffer<64, 64, KT>;
    type Direct = DirectLoad<64, 64, 16>;
    let mut all = match element {
        ElementType::F32 => vec![
            KernelConfig::of::<Single<16>, MfmaF32<32, 32>>(),
            KernelConfig::of::<Double<16>, MfmaF32<32, 32>>(),
            KernelConfig::of::<Direct, MfmaF32<32, 32>>(),
            KernelConfig::of::<SingleBuffer<64, 64, 16, 4>, ScalarFma<4, 4>>(),
            KernelConfig::of::<SoftwareDoubleBuffer<64, 64, 16, 2>, ScalarFma<4, 4>>(),
        ],
        ElementType::F16 => vec![
            KernelConfig::of::<Single<32>, MfmaF16<32, 32>>(),
            KernelConfig::of::<Double<32>, MfmaF16<32, 32>>(),
        ],
        _ => Vec::new(),
    };
    if (element, target) == (ElementType::F32, Target::Gfx942) {
        all.extend([
            KernelConfig::of::<Single<16>, MfmaXf32<32, 32>>(),
            KernelConfig::of::<Double<16>, MfmaXf32<32, 32>>(),
            KernelConfig::of::<Direct, MfmaXf32<32, 32>>(),
        ]);
    }
    all.into_iter().map(KernelChoice::Policy).collect()
}

/// Every variant of the matrix-core kernel, in turn with different tiles.
fn matrix_kernels(element: ElementType) -> impl Iterator<Item = KernelChoice> {
    // Rows of A's strip are 128 bytes, or 512 where there are 16 of them.
    let strip = |bytes: usize| bytes * 8 / element.bits();
    let tiles = [[32, 64, strip(128)], [16, 64, strip(512)], [64, 128, strip(128)]];
    let movements = [Movement::Registers, Movement::Direct, Movement::Guarded];
    (0..18).map(move |index| {
        let (movement, stages, store) = (movements[index % 3], 1 + index / 3 % 2, index / 6);
        KernelChoice::Matrix(MatrixKernel {
            movement: Some(movement),
            buffers: Some(stages),
            splits: Some(if store == 1 { 2 } else { 1 }),
            c_through_workgroup_memory: Some(store == 2),
            scheduled: Some(index % 4 != 3),
            ..MatrixKernel::tile(tiles[(index + index / 6) % 3])
        })
    })
}

/// Every kernel for types that the target has, the backend's own choice first.
pub(super) fn kernels_for(types: Types, target: Target) -> Vec<KernelChoice> {
    let mut all = vec![KernelChoice::Auto];
    if target.has_preshuffle() {
        all.extend(matrix_kernels(types.elements[0]));
        if types.elements[0] == types.elements[1] {
            all.extend(policies(types.elements[0], target));
        }
    }
    if types.elements[..2] == [ElementType::F32; 2] {
        all.extend(KernelChoice::all_steps(ElementType::F32));
    }
    all
}

/// Names of the kernels of a target, as plans or [`variant`] report them.
pub(super) fn names(target: Target) -> Vec<String> {
    let mut names = vec!["nothing".to_owned(), "epilogue".to_owned()];
    for copy in ["synchronous copy", "direct-to-LDS copy", "guarded copy"] {
        for stages in [1, 2] {
            for store in ["direct store", "split-K", "C through LDS"] {
                names.push(format!("preshuffle, {copy}, {stages} stage(s), {store}"));
            }
        }
    }
    names.extend(["1_naive*", "2_workgroup_tile*", "3_register_tile*"].map(str::to_owned));
    names.extend([1, 2].map(|buffers| format!("4_buffered with {buffers}*")));
    names.extend([1, 2, 4].map(|width| format!("5_vectorized by {width}*")));
    names.extend(["None", "LaunchBounds", "WavesPerSimd"].map(|h| format!("6_occupancy {h}*")));
    for movement in TileMovement::ALL {
        for arithmetic in Arithmetic::ALL {
            let step = StepConfig::new(target, Step::Generic(movement, arithmetic));
            // Pairs that the kernel does not have for this target are refused.
            if step.request().is_ok() {
                names.push(format!("7_generic {movement:?}/{arithmetic:?} *"));
            }
        }
    }
    names.extend(
        ["SingleBuffer/ScalarFma vec4", "SoftwareDoubleBuffer/ScalarFma vec2"]
            .map(|wide| format!("7_generic {wide} *")),
    );
    names
}

/// Names of the passes of a target.
pub(super) fn passes(target: Target) -> Vec<&'static str> {
    // Blocks have scales on CDNA4 alone.
    let scales = target == Target::Gfx950;
    PASSES.into_iter().filter(|pass| scales || *pass != "pack_scales").collect()
}
