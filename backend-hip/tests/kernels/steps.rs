//! The seven steps: compiled for every target, run on the emulator over tails.

use std::sync::Arc;

use super::elements::Sequence;
use super::emulate::compiler;
use lapidary_cdna::exec::{Launch, Machine, Prepared};
use lapidary_cdna::loader::{ArgValue, CodeObject};
use lapidary_core::Activation;
use lapidary_hip::Target;
use lapidary_hip::compile::Compiler;
use lapidary_hip::inspect::Resources;
use lapidary_hip::preshuffle::EpilogueTraits;
use lapidary_hip::steps::{
    Arithmetic, LaunchHint, Params, Step, StepConfig, StepError, TileMovement,
};

/// Every step and variant that the target has.
fn steps(target: Target) -> Vec<StepConfig> {
    let mut steps = vec![Step::Naive, Step::WorkgroupTile, Step::RegisterTile];
    steps.extend([1, 2].map(|buffers| Step::Buffered { buffers }));
    steps.extend([1, 2, 4].map(|width| Step::Vectorized { width }));
    steps.extend(LaunchHint::ALL.map(Step::Occupancy));
    for movement in TileMovement::ALL {
        steps.extend(Arithmetic::ALL.map(|arithmetic| Step::Generic(movement, arithmetic)));
    }
    steps
        .into_iter()
        .map(|step| StepConfig::new(target, step))
        .filter(|config| !matches!(config.request(), Err(StepError::Target { .. })))
        .collect()
}

#[test]
fn every_step_compiles_for_every_target() {
    let Some(compiler) = compiler() else { return };
    for target in Target::ALL {
        let steps = steps(target);
        assert!(steps.len() >= 13, "{target}: {}", steps.len());
        for config in steps {
            let request = config.request().unwrap_or_else(|e| panic!("{config}: {e}"));
            compiler.compile(&request).unwrap_or_else(|e| panic!("{target} {config}: {e}"));
        }
    }
}

/// Runs a step with beta, bias and relu on small integers; compares every element exactly.
fn check(compiler: &Compiler, config: &StepConfig, [m, n, k]: [usize; 3]) {
    let epilogue = EpilogueTraits {
        beta: true,
        bias: true,
        activation: Activation::Relu,
        ..EpilogueTraits::default()
    };
    let config = StepConfig { epilogue, ..*config };
    let object = compiler.compile(&config.request().expect("valid")).expect("it compiles");
    let object = Arc::new(CodeObject::parse(&object.bytes).expect("a code object"));
    let kernel = Prepared::new(&object, "gemm").expect("the kernel decodes");

    let mut numbers = Sequence::new(3);
    let mut values = |count: usize| -> Vec<i32> { (0..count).map(|_| numbers.small()).collect() };
    // Rows of A and C are four elements longer than K and N, and rounded up for vector loads.
    let (a_row, c_row) = (k.next_multiple_of(4) + 4, n + 3);
    let (a, b, old, bias) = (values(m * a_row), values(k * n), values(m * c_row), values(n));
    let operand = |values: &[i32]| -> Vec<u8> {
        if config.element_bytes() == 2 {
            values.iter().flat_map(|&v| half::f16::from_f32(v as f32).to_le_bytes()).collect()
        } else {
            values.iter().flat_map(|&v| (v as f32).to_le_bytes()).collect()
        }
    };
    let floats = |values: &[i32]| -> Vec<u8> {
        values.iter().flat_map(|&v| (v as f32).to_le_bytes()).collect()
    };
    let mut machine = Machine::new();
    let memory = &mut machine.memory;
    let params = Params {
        a: memory.alloc_read_only("A", &operand(&a)).expect("memory"),
        b: memory.alloc_read_only("B", &operand(&b)).expect("memory"),
        c: memory.alloc_from("C", &floats(&old)).expect("memory"),
        bias: memory.alloc_read_only("bias", &floats(&bias)).expect("memory"),
        a_row: a_row as i64,
        a_col: 1,
        b_row: n as i64,
        b_col: 1,
        c_row: c_row as i64,
        c_col: 1,
        m: m as u32,
        n: n as u32,
        k: k as u32,
        batch: 1,
        alpha: 2.0,
        beta: -1.0,
        ..Params::default()
    };
    let launch = params.launch(&config).expect("the grid fits");
    let report = machine
        .launch(
            &kernel,
            &Launch {
                grid: launch.grid,
                workgroup: [launch.threads[0], launch.threads[1], 1],
                args: vec![ArgValue::Bytes(bytemuck::bytes_of(&params).to_vec())],
                ..Launch::default()
            },
        )
        .unwrap_or_else(|e| panic!("{config}: {e}"));
    let name = format!("{} {config} at {m}x{n}x{k}", config.target);
    for finding in report.findings.iter().take(5) {
        eprintln!("{finding}");
    }
    assert!(report.is_clean(), "{name}: {} findings", report.findings.len());
    let bytes = machine.memory.read(params.c, old.len() * 4).expect("C");
    for (index, word) in bytes.chunks(4).enumerate() {
        let found = f32::from_le_bytes(word.try_into().expect("four bytes"));
        let (row, col) = (index / c_row, index % c_row);
        let expected = if col < n {
            let sum: i32 = (0..k).map(|i| a[row * a_row + i] * b[i * n + col]).sum();
            (2 * sum - old[index] + bias[col]).max(0)
        } else {
            old[index]
        };
        assert_eq!(found, expected as f32, "{name}: row {row}, column {col}");
    }
}

#[test]
fn every_step_is_exact_over_tails() {
    let Some(compiler) = compiler() else { return };
    for target in [Target::Gfx942, Target::Gfx950] {
        for config in steps(target) {
            check(&compiler, &config, [17, 35, 50]);
            check(&compiler, &config, [129, 3, 16]);
        }
    }
}

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
