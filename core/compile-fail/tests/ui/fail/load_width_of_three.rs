use lapidary_core::policy::{KernelConfig, ScalarFma, SingleBuffer};

fn main() {
    let _ = KernelConfig::of::<SingleBuffer<128, 128, 12, 3>, ScalarFma<8, 8>>();
}
