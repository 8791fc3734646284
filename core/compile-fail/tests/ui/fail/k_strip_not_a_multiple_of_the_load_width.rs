use lapidary_core::policy::{KernelConfig, ScalarFma, SingleBuffer};

fn main() {
    let _ = KernelConfig::of::<SingleBuffer<128, 128, 6, 4>, ScalarFma<8, 8>>();
}
