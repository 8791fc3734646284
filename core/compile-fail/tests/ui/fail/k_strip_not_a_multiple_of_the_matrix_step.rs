use lapidary_core::policy::{KernelConfig, MfmaF16, SoftwareDoubleBuffer};

fn main() {
    let _ = KernelConfig::of::<SoftwareDoubleBuffer<128, 128, 16>, MfmaF16<64, 64>>();
}
