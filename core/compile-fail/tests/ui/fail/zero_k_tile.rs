use lapidary_core::policy::{KernelConfig, ScalarFma, DirectLoad};

fn main() {
    let _ = KernelConfig::of::<DirectLoad<128, 128, 0>, ScalarFma<8, 8>>();
}
