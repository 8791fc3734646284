use lapidary_core::policy::{KernelConfig, ScalarFma, TileAction, TilePolicy};

struct ThreeBuffers;

impl TilePolicy for ThreeBuffers {
    const NAME: &'static str = "three-buffers";
    const NUM_BUFFERS: usize = 3;
    const BLOCK_TILE_M: usize = 128;
    const BLOCK_TILE_N: usize = 128;
    const K_TILE_SIZE: usize = 16;

    fn prologue() -> &'static [TileAction] {
        &[]
    }
    fn prefetch() -> &'static [TileAction] {
        &[]
    }
    fn acquire() -> &'static [TileAction] {
        &[]
    }
    fn release() -> &'static [TileAction] {
        &[]
    }
}

fn main() {
    let _ = KernelConfig::of::<ThreeBuffers, ScalarFma<8, 8>>();
}
