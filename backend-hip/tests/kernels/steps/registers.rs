//! What the compiler makes of the steps, and the tables of it in the course.
//!
//! The tables are what LLVM 22 gives; with another compiler registers and schedules are others, and only
//! what must hold for all of them is checked.

use super::super::emulate::compiler;
use super::run::{operand, run_counting};
use super::{EMULATED, steps};
use lapidary_cdna::exec::Order;
use lapidary_core::testing::{Case, Values};
use lapidary_core::{ElementType, Problem};
use lapidary_hip::compile::Compiler;
use lapidary_hip::inspect::{HotLoop, Occupancy, Resources};
use lapidary_hip::steps::{Arithmetic, LaunchHint, Step, StepConfig, TileMovement};

/// The page that shows the tables.
const PAGE: &str = include_str!("../../../../docs/hip_steps.md");
/// The compiler whose figures they are.
const LLVM: u32 = 22;

/// The registers of a kernel's code object, and the waves they leave room for.
fn resources(compiler: &Compiler, config: &StepConfig) -> (Resources, Occupancy) {
    let object = compiler.compile(&config.request().expect("valid")).expect("it compiles");
    let found = Resources::of_object(&object.bytes, "gemm").expect("metadata");
    let threads: usize = config.threads().iter().product();
    let occupancy = Occupancy::of(config.target, &found, threads as u32).expect("CDNA");
    (found, occupancy)
}

/// The lines of a table in the page.
fn table(name: &str) -> &'static str {
    let begin = format!("<!-- {name}:begin -->\n");
    let start = PAGE.find(&begin).expect("the table's begin") + begin.len();
    let end = PAGE[start..].find(&format!("<!-- {name}:end -->")).expect("the table's end");
    &PAGE[start..start + end]
}

fn check_table(compiler: &Compiler, name: &str, generated: &str) {
    if compiler.major() == LLVM {
        assert!(table(name) == generated, "the table {name} of docs/hip_steps.md:\n{generated}");
    } else {
        println!("skipped: the table is LLVM {LLVM}'s, this is {}", compiler.version());
    }
}

fn hint_text(hint: LaunchHint) -> String {
    match hint {
        LaunchHint::LaunchBounds { waves } => format!("`__launch_bounds__(256, {waves})`"),
        LaunchHint::WavesPerSimd { min, max } => format!("`amdgpu_waves_per_eu({min}, {max})`"),
        _ => "none".into(),
    }
}

#[test]
fn the_table_of_launch_hints_is_what_the_code_objects_say() {
    let Some(compiler) = compiler() else { return };
    let mut text = String::from(
        "| target | hint | VGPR | SGPR | scratch a lane | waves a SIMD | bound by |\n\
         |-|-|-:|-:|-:|-:|-|\n",
    );
    for target in EMULATED {
        let tight = [3, 4].map(|waves| LaunchHint::LaunchBounds { waves });
        for hint in LaunchHint::ALL.into_iter().chain(tight) {
            let config = StepConfig::new(target, Step::Occupancy(hint));
            let (found, occupancy) = resources(&compiler, &config);
            let asked = match hint {
                LaunchHint::LaunchBounds { waves } => waves,
                LaunchHint::WavesPerSimd { min, .. } => min,
                _ => 1,
            };
            assert!(occupancy.waves() >= asked, "{target} {hint:?}: {found:?}");
            if asked <= 2 {
                assert_eq!(found.scratch, 0, "{target} {hint:?}: {found:?}");
            }
            text.push_str(&format!(
                "| {target} | {} | {} | {} | {} B | {} | {} |\n",
                hint_text(hint),
                found.vgprs,
                found.sgprs,
                found.scratch,
                occupancy.waves(),
                occupancy.limit()
            ));
        }
    }
    check_table(&compiler, "launch hints", &text);
}

/// One workgroup of every step (the hints of step 6 have a table of their own): registers, hot loop, and
/// conflicts on the emulator.
#[test]
fn the_table_of_the_steps_is_what_the_compiler_and_the_emulator_say() {
    let Some(compiler) = compiler() else { return };
    let mut text = String::from(
        "| target | kernel | VGPR | LDS | waves a SIMD | hot loop | multiply | LDS reads | conflict cycles a read |\n\
         |-|-|-:|-:|-:|-:|-:|-:|-:|\n",
    );
    for target in EMULATED {
        let hinted = [Step::Occupancy(LaunchHint::ALL[1]), Step::Occupancy(LaunchHint::ALL[2])];
        for config in steps(target).into_iter().filter(|config| !hinted.contains(&config.step)) {
            let (found, occupancy) = resources(&compiler, &config);
            assert_eq!(found.lds as usize, config.lds_bytes(), "{config}");
            let assembly = compiler.assembly(&config.request().expect("valid")).expect("assembly");
            assert_eq!(Resources::of(&assembly).expect("metadata"), found, "{config}");
            let mix = HotLoop::of(&assembly).expect("a loop").mix;
            assert!(mix.mfma + mix.fma > 0);
            assert_eq!(mix.mfma > 0, config.arithmetic().is_matrix(), "{config}");
            let problem = Problem::new(128, 128, 64).elements(operand(&config), ElementType::F32);
            let case = Case::new(problem, Values::SmallIntegers(3), 1);
            let (_, counters) = run_counting(&compiler, &config, &case, Order::RoundRobin);
            let reads = counters.lines.iter().filter(|line| line.text.starts_with("ds_read"));
            let (conflicts, executed) = reads.fold((0, 0), |(cycles, count), line| {
                (cycles + line.access.conflict_cycles, count + line.executed)
            });
            text.push_str(&format!(
                "| {target} | {config} | {} | {} | {}, {} | {} | {} | {} | {:.1} |\n",
                found.vgprs,
                found.lds,
                occupancy.waves(),
                occupancy.limit(),
                mix.total(),
                mix.mfma + mix.fma,
                mix.lds_read,
                conflicts as f64 / (executed.max(1)) as f64
            ));
        }
    }
    check_table(&compiler, "steps", &text);
}

/// Step 2 reads whole rows and broadcasts, the one layout of the course without conflicts.
#[test]
fn step_two_has_no_bank_conflicts_and_step_three_has() {
    let Some(compiler) = compiler() else { return };
    for target in EMULATED {
        let conflicts = |step| {
            let case = Case::new(Problem::new(128, 128, 32), Values::SmallIntegers(3), 1);
            let config = StepConfig::new(target, step);
            run_counting(&compiler, &config, &case, Order::RoundRobin).1.lds_conflict_cycles
        };
        assert_eq!(conflicts(Step::WorkgroupTile), 0, "{target}");
        assert!(conflicts(Step::RegisterTile) > 0, "{target}");
    }
}

/// A direct load stores to LDS without a vector register: 8 instructions a wave fill a 128×16 tile that
/// four waves share, and LDS writes are left for the borders.
#[test]
fn direct_loads_take_eight_instructions_a_wave_and_tile() {
    let Some(compiler) = compiler() else { return };
    for target in EMULATED {
        let step = Step::Generic(TileMovement::DirectLoad, Arithmetic::ScalarFma);
        let case = Case::new(Problem::new(128, 128, 16), Values::SmallIntegers(3), 1);
        let config = StepConfig::new(target, step);
        let counters = run_counting(&compiler, &config, &case, Order::RoundRobin).1;
        // Four waves, a tile of A and one of B.
        assert_eq!(counters.by_opcode.get("global_load_lds_dword"), Some(&(4 * 2 * 8)), "{target}");
        assert!(!counters.by_opcode.keys().any(|name| name.starts_with("ds_write")), "{target}");
    }
}
