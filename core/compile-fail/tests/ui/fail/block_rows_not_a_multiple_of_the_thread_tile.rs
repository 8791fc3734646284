use lapidary_core::policy::{KernelConfig, ScalarFma, SoftwareDoubleBuffer};

fn main() {
    let _ = KernelConfig::of::<SoftwareDoubleBuffer<128, 128, 16>, ScalarFma<7, 8>>();
}
