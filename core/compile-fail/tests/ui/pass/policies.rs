//! The policies of the library, and one of the user's own.

use lapidary_core::policy::{
    DirectLoad, KernelConfig, MfmaF16, MfmaF32, MfmaXf32, ScalarFma, ScalarMac, SingleBuffer, SoftwareDoubleBuffer, Strip,
    TileAction, TilePolicy,
};

struct Own;

impl TilePolicy for Own {
    const NAME: &'static str = "own";
    const NUM_BUFFERS: usize = 2;
    const BLOCK_TILE_M: usize = 32;
    const BLOCK_TILE_N: usize = 64;
    const K_TILE_SIZE: usize = 8;

    fn prologue() -> &'static [TileAction] {
        &[TileAction::Load(Strip::First), TileAction::Barrier]
    }
    fn prefetch() -> &'static [TileAction] {
        &[TileAction::Load(Strip::Next)]
    }
    fn acquire() -> &'static [TileAction] {
        &[]
    }
    fn release() -> &'static [TileAction] {
        &[TileAction::Barrier]
    }
}

fn main() {
    let config = KernelConfig::of::<SoftwareDoubleBuffer<128, 128, 16>, ScalarFma<8, 8>>();
    assert_eq!(config.workgroup_threads(), 256);
    let config = KernelConfig::of::<SingleBuffer<128, 64, 16, 4>, ScalarMac<8, 4>>();
    assert_eq!(config.workgroup_threads(), 256);
    let config = KernelConfig::of::<DirectLoad<64, 64, 4>, ScalarFma<2, 2>>();
    assert_eq!(config.workgroup_threads(), 1024);
    let config = KernelConfig::of::<DirectLoad<128, 128, 16>, MfmaF32<64, 64>>();
    assert_eq!(config.workgroup_threads(), 256);
    let config = KernelConfig::of::<SingleBuffer<64, 256, 16>, MfmaXf32<64, 64>>();
    assert_eq!(config.workgroup_threads(), 256);
    let config = KernelConfig::of::<SoftwareDoubleBuffer<64, 64, 32>, MfmaF16<32, 64>>();
    assert_eq!((config.workgroup_threads(), config.workgroup_bytes()), (128, 16 * 1024));
    let config = KernelConfig::of::<Own, ScalarFma<4, 4>>();
    assert_eq!(config.workgroup_threads(), 128);
}
