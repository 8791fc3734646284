use lapidary_core::policy::{KernelConfig, ScalarFma, SingleBuffer};

fn main() {
    let _ = KernelConfig::of::<SingleBuffer<128, 128, 16>, ScalarFma<2, 2>>();
}
