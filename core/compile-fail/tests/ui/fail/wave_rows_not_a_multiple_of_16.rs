use lapidary_core::policy::{KernelConfig, MfmaF32, SingleBuffer};

fn main() {
    let _ = KernelConfig::of::<SingleBuffer<128, 128, 16>, MfmaF32<24, 64>>();
}
