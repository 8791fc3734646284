use lapidary_core::policy::{KernelConfig, ScalarFma, SingleBuffer};

fn main() {
    let _ = KernelConfig::of::<SingleBuffer<128, 0, 16>, ScalarFma<8, 8>>();
}
