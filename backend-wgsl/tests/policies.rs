//! Policies of a user's own: tiles, widths and hooks that no step uses.

mod common;

use common::Uploaded;
use lapidary_core::policy::{
    ComputePolicy, KernelConfig, MfmaF32, Multiply, ScalarFma, SingleBuffer, SoftwareDoubleBuffer,
    Staging, Strip, TileAction, TileOrder, TilePolicy, VectorFma,
};
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{ElementType, Error, Gemm, KernelChoice, PlanOptions, Problem};
use lapidary_wgsl::Wgsl;

/// Two buffers, each filled just before it is read: one barrier a strip, since strip t + 1 goes to
/// the buffer that nobody reads any more.
struct LateLoad;

impl TilePolicy for LateLoad {
    const NAME: &'static str = "late-load";
    const NUM_BUFFERS: usize = 2;
    const BLOCK_TILE_M: usize = 32;
    const BLOCK_TILE_N: usize = 48;
    const K_TILE_SIZE: usize = 12;
    const LOAD_WIDTH: usize = 2;

    fn prologue() -> &'static [TileAction] {
        &[]
    }
    fn prefetch() -> &'static [TileAction] {
        &[TileAction::Load(Strip::Current)]
    }
    fn acquire() -> &'static [TileAction] {
        &[TileAction::Barrier]
    }
    fn release() -> &'static [TileAction] {
        &[]
    }
}

/// Vectors from a tile that is refilled at once, after it was read.
struct RefillAfter;

impl TilePolicy for RefillAfter {
    const NAME: &'static str = "refill-after";
    const NUM_BUFFERS: usize = 1;
    const BLOCK_TILE_M: usize = 32;
    const BLOCK_TILE_N: usize = 16;
    const K_TILE_SIZE: usize = 8;
    const LOAD_WIDTH: usize = 4;
    const ORDER: TileOrder = TileOrder::KOuter;

    fn prologue() -> &'static [TileAction] {
        &[TileAction::Load(Strip::First), TileAction::Barrier]
    }
    fn prefetch() -> &'static [TileAction] {
        &[]
    }
    fn acquire() -> &'static [TileAction] {
        &[]
    }
    fn release() -> &'static [TileAction] {
        &[TileAction::Barrier, TileAction::Load(Strip::Next), TileAction::Barrier]
    }
}

/// A direct load that also asks for tiles there are none of.
struct DirectWithTiles;

impl TilePolicy for DirectWithTiles {
    const NAME: &'static str = "direct-with-tiles";
    const NUM_BUFFERS: usize = 1;
    const BLOCK_TILE_M: usize = 16;
    const BLOCK_TILE_N: usize = 16;
    const K_TILE_SIZE: usize = 16;
    const STAGING: Staging = Staging::Direct;

    fn prologue() -> &'static [TileAction] {
        &[]
    }
    fn prefetch() -> &'static [TileAction] {
        &[TileAction::Load(Strip::Current)]
    }
    fn acquire() -> &'static [TileAction] {
        &[]
    }
    fn release() -> &'static [TileAction] {
        &[]
    }
}

/// Scalars that claim to consume two steps along K.
struct TwoSteps;

impl ComputePolicy for TwoSteps {
    const NAME: &'static str = "two-steps";
    const THREAD_TILE_M: usize = 2;
    const THREAD_TILE_N: usize = 2;
    const K_STEP: usize = 2;
    const MULTIPLY: Multiply = Multiply::ScalarFma;
    type ElemA = f32;
    type ElemB = f32;
    type Accumulator = f32;
}

#[test]
fn policies_of_a_users_own_are_exact() {
    let Some(device) = common::device() else { return };
    let configs = [
        KernelConfig::of::<LateLoad, ScalarFma<4, 3>>(),
        KernelConfig::of::<RefillAfter, VectorFma<8, 4>>(),
        KernelConfig::of::<SingleBuffer<40, 24, 5>, ScalarFma<5, 2>>(),
        KernelConfig::of::<SingleBuffer<8, 64, 32, 4>, ScalarFma<1, 8>>(),
        KernelConfig::of::<SoftwareDoubleBuffer<64, 16, 8, 2>, ScalarFma<16, 1>>(),
        KernelConfig::of::<SingleBuffer<1, 1, 1>, ScalarFma<1, 1>>(),
    ];
    for (index, [m, n, k]) in
        [[33, 49, 25], [1, 1, 1], [80, 64, 64], [5, 7, 0]].into_iter().enumerate()
    {
        let problem = common::epilogue(Problem::new(m, n, k).batch(2), index);
        let mut case = Case::new(problem, Values::SmallIntegers(4), index as u64).arranged(
            Arrangement::Dense,
            Arrangement::Padded,
            Arrangement::Padded,
        );
        let expected = common::expect(&mut case);
        let uploaded = Uploaded::aligned(device, &case);
        for config in configs {
            uploaded.check(device, KernelChoice::Policy(config), &expected);
        }
    }
    let plan = Gemm::<Wgsl>::plan(
        device,
        &Problem::new(32, 48, 24),
        &PlanOptions::kernel(KernelChoice::Policy(configs[0])),
    );
    let plan = plan.expect("plans");
    let summary = plan.summary();
    assert_eq!(summary.kernel, "7_generic late-load/scalar-fma 32x48x12 4x3 vec2");
    assert_eq!(summary.block_tile, [32, 48]);
    assert_eq!(summary.workgroup_threads, 8 * 16);
    assert_eq!(summary.workgroup_bytes, 2 * (32 + 48) * 12 * 4);
}

#[test]
fn policies_that_cannot_be_written_out_are_refused() {
    let Some(device) = common::device() else { return };
    let refused = |config, problem: &Problem, expected: &str| {
        let options = PlanOptions::kernel(KernelChoice::Policy(config));
        match Gemm::<Wgsl>::plan(device, problem, &options) {
            Err(Error::KernelUnsuitable { reason, .. }) => {
                assert!(reason.contains(expected), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    };
    let problem = Problem::new(32, 32, 32);
    refused(
        KernelConfig::of::<DirectWithTiles, ScalarFma<4, 4>>(),
        &problem,
        "not Load(Current) in prefetch",
    );
    refused(
        KernelConfig::of::<SingleBuffer<16, 16, 16>, TwoSteps>(),
        &problem,
        "multiplies one step along K at a time, K_STEP is 2",
    );
    refused(
        KernelConfig::of::<SingleBuffer<64, 64, 16>, MfmaF32<32, 32>>(),
        &problem,
        "mfma-f32 multiplies on the matrix cores of CDNA",
    );
    refused(
        KernelConfig::of::<SingleBuffer<16, 16, 16>, ScalarFma<4, 4>>(),
        &problem.elements(ElementType::I8, ElementType::I32),
        "accumulates in f32, i8 operands in i32",
    );
}
