use lapidary_core::policy::{KernelConfig, MfmaXf32, SingleBuffer};

fn main() {
    let _ = KernelConfig::of::<SingleBuffer<128, 96, 16>, MfmaXf32<64, 64>>();
}
