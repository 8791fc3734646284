//! What the compiler makes of step 6's launch hints.

use super::super::emulate::compiler;
use lapidary_hip::Target;
use lapidary_hip::inspect::Resources;
use lapidary_hip::steps::{LaunchHint, Step, StepConfig};

#[test]
fn a_tighter_launch_hint_gives_more_waves() {
    let Some(compiler) = compiler() else { return };
    let resources = |hint| {
        let config = StepConfig::new(Target::Gfx942, Step::Occupancy(hint));
        let assembly = compiler.assembly(&config.request().expect("valid")).expect("it compiles");
        Resources::of(&assembly).expect("metadata")
    };
    for hint in LaunchHint::ALL {
        let found = resources(hint);
        println!("{hint:?}: {found:?}, {} waves a SIMD", found.waves_per_simd());
        assert_eq!(found.scratch, 0);
        if hint != LaunchHint::None {
            assert!(found.waves_per_simd() >= 2);
        }
    }
    assert!(resources(LaunchHint::LaunchBounds { waves: 4 }).vgprs <= 128);
}
