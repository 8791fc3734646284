//! The preshuffle kernel on the emulator, every check on, against a reference in f64.

use super::configs;
use super::emulate;
use super::emulate::{Case, Outcome, compiler, rounded};
use lapidary_cdna::exec::Order;
use lapidary_core::Activation;
use lapidary_core::ElementType;
use lapidary_hip::Target;
use lapidary_hip::compile::Compiler;
use lapidary_hip::preshuffle::{ACopy, EpilogueTraits, PreshuffleConfig, ProblemClass, choose};

const TARGETS: [Target; 2] = [Target::Gfx942, Target::Gfx950];

/// Runs a case; complains about findings, canaries and wrong elements.
fn check(compiler: &Compiler, case: &Case) -> Outcome {
    let outcome = case.run(compiler);
    let name = format!(
        "{} {} at {}x{}x{} splits {}",
        case.config.target, case.config, case.m, case.n, case.k, case.splits
    );
    for finding in outcome.report.findings.iter().take(5) {
        eprintln!("{finding}");
    }
    assert!(outcome.report.is_clean(), "{name}: {} findings", outcome.report.findings.len());
    assert_eq!(outcome.broken_canaries, 0, "{name}");
    if !case.config.c_shuffle {
        // LDS holds A only.
        assert_eq!(outcome.report.counters.lds_conflict_cycles, 0, "{name}");
    }
    let exact = matches!(case.config.epilogue.activation, Activation::None | Activation::Relu);
    for (index, (&found, &expected)) in outcome.found.iter().zip(&outcome.expected).enumerate() {
        let at = (index / case.n, index % case.n);
        if exact {
            assert_eq!(found, rounded(case.config.output, expected), "{name}: element {at:?}");
        } else {
            // exp2 and the reciprocal are right to one unit each; gelu's erf to 1.5e-7 of x.
            let unit = match case.config.output.size() {
                2 => 1.0 / 128.0,
                _ => 4e-6,
            };
            let bound = unit * expected.abs() + 4e-6;
            assert!((found - expected).abs() <= bound, "{name}: {at:?} {found} {expected}");
        }
    }
    outcome
}

#[test]
fn every_two_choices_meet_and_are_exact() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        for (config, size) in configs::pairwise(target) {
            check(&compiler, &Case::new(config, size));
        }
    }
}

#[test]
fn every_tile_and_split_k() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        for config in configs::tiles(target) {
            let mut k = 5 * config.tile[2] + 7;
            if config.block_scaled {
                k = k.next_multiple_of(32);
            }
            let mut case = Case::new(config, [config.tile[0] + 3, config.tile[1] + 5, k]);
            check(&compiler, &case);
            if config.split_k {
                for (splits, n) in [(2, 69), (3, 72), (6, 1)] {
                    (case.splits, case.n) = (splits, n);
                    check(&compiler, &Case { splits, ..Case::new(config, [case.m, n, case.k]) });
                }
            }
        }
    }
}

#[test]
fn batches_are_independent_products() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        for config in configs::operand_pairs(target) {
            let k = if config.block_scaled { 160 } else { 147 };
            let config = PreshuffleConfig {
                epilogue: EpilogueTraits { beta: true, bias: true, ..EpilogueTraits::default() },
                ..config
            };
            check(&compiler, &Case { batch: 3, ..Case::new(config, [19, 70, k]) });
        }
        let config = PreshuffleConfig {
            split_k: true,
            ..PreshuffleConfig::new(target, ElementType::BF16, [32, 64, 64])
        };
        check(&compiler, &Case { batch: 2, splits: 3, ..Case::new(config, [37, 66, 300]) });
    }
}

#[test]
fn what_is_chosen_runs() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        let (e4m3, e5m2) = configs::fp8(target);
        for [m, n, k] in
            [[1usize, 640usize, 2500usize], [20, 100, 700], [33, 300, 1000], [130, 264, 300]]
        {
            for (a, b, output) in [
                (e4m3, e5m2, ElementType::BF16),
                (ElementType::BF16, ElementType::BF16, ElementType::F32),
                (ElementType::I8, ElementType::I4, ElementType::F16),
            ] {
                let class = ProblemClass {
                    m,
                    n,
                    k,
                    batch: 1,
                    a,
                    b,
                    output,
                    block_scaled: false,
                    epilogue: EpilogueTraits {
                        row_scale: true,
                        bias: true,
                        ..EpilogueTraits::default()
                    },
                    a_aligned: m != 20,
                    c_alignment: if n.is_multiple_of(8) { 8 } else { 4 },
                    compute_units: 64,
                };
                let choice = choose(target, &class).expect("a configuration");
                let case = Case { splits: choice.splits, ..Case::new(choice.config, [m, n, k]) };
                check(&compiler, &case);
            }
        }
    }
}

/// Random elements of every type: within the bound that follows from the arithmetic.
///
/// Every addition rounds or truncates to 24 bits relative to the largest term, so K of them are off
/// by at most K · 2⁻²³ · Σ|a||b|; the conversion adds half a unit of the output.
#[test]
fn random_operands_stay_within_the_bound() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        for config in configs::operand_pairs(target) {
            let case = Case { random: true, ..Case::new(config, [35, 70, 352]) };
            let outcome = case.run(&compiler);
            assert!(outcome.report.is_clean(), "{target} {config}");
            let mut worst: f64 = 0.0;
            for (index, (&found, &expected)) in
                outcome.found.iter().zip(&outcome.expected).enumerate()
            {
                if config.output == ElementType::I32 {
                    assert_eq!(found, expected, "{target} {config}: element {index}");
                    continue;
                }
                let error = (found - expected).abs();
                let sum = outcome.magnitudes[index] * 2f64.powi(-23);
                let bound = case.k as f64 * sum + expected.abs() * 2f64.powi(-24);
                assert!(error <= bound, "{target} {config}: {index} {found} {expected} {bound}");
                worst = worst.max(error / sum);
            }
            // K enters with its root at most: rounding errors go both ways.
            assert!(worst <= 4.0, "{target} {config}: {worst} of 2^-23 times the magnitude");
            println!("{target} {config}: error at most {worst:.3} of 2^-23 times the magnitude");
        }
    }
}

#[test]
fn results_do_not_depend_on_the_order_of_waves_and_workgroups() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        for copy in [ACopy::Synchronous, ACopy::Direct] {
            let config = PreshuffleConfig {
                copy,
                epilogue: EpilogueTraits {
                    activation: Activation::GeluErf,
                    ..EpilogueTraits::default()
                },
                ..PreshuffleConfig::new(target, ElementType::BF16, [32, 64, 64])
            };
            let run =
                |order| check(&compiler, &Case { order, ..Case::new(config, [70, 132, 500]) }).raw;
            let first = run(Order::RoundRobin);
            assert_eq!(first, run(Order::Reverse), "{target} {config}");
            assert_eq!(first, run(Order::Random(9)), "{target} {config}");
        }
    }
}

#[test]
fn a_nan_stays_in_its_row_and_survives_relu() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        for copy in [ACopy::Synchronous, ACopy::Direct, ACopy::Guarded] {
            for element in [ElementType::F32, ElementType::BF16, configs::fp8(target).0] {
                let tile = [32, 64, 128 * 8 / element.bits()];
                let config = PreshuffleConfig {
                    copy,
                    epilogue: EpilogueTraits {
                        activation: Activation::Relu,
                        ..EpilogueTraits::default()
                    },
                    ..PreshuffleConfig::new(target, element, tile)
                };
                // The tail's chunk holds one element of its row and then canaries.
                let case = Case::new(config, [20, 36, 2 * tile[2] + 1]);
                let clean = case.run(&compiler);
                let poisoned = Case { nan_row: Some(7), ..case }.run(&compiler);
                for (index, (a, b)) in clean.found.iter().zip(&poisoned.found).enumerate() {
                    if index / case.n == 7 {
                        assert!(b.is_nan(), "{target} {config}: element {index} is {b}");
                    } else {
                        assert_eq!(a.to_bits(), b.to_bits(), "{target} {config}: element {index}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_device_packs_b_as_the_host_does() {
    use lapidary_cdna::exec::{Launch, Machine};
    use lapidary_cdna::loader::ArgValue;
    use lapidary_hip::preshuffle::{PackArgs, PackedB, SourceB, pack_request};

    let Some(compiler) = compiler() else { return };
    let (k, n, batch) = (150, 37, 2);
    for target in TARGETS {
        for element in lapidary_hip::preshuffle::OPERANDS {
            let kernel = emulate::prepare(&compiler, &pack_request(target, element), "pack_b");
            let mut numbers = emulate::Sequence::new(5);
            let bytes: Vec<u8> = (0..(batch * n * k * element.bits()).div_ceil(8))
                .map(|_| numbers.below(256) as u8)
                .collect();
            for (k_stride, n_stride) in [(1, k), (n, 1)] {
                let batch_stride = n * k;
                let source = SourceB {
                    bytes: &bytes,
                    element,
                    k,
                    n,
                    batch,
                    k_stride,
                    n_stride,
                    batch_stride,
                };
                let packed = PackedB::pack(&source, 128).expect("B packs");
                let mut machine = Machine::new();
                let memory = &mut machine.memory;
                let args = PackArgs {
                    from: memory.alloc_read_only("B", &bytes).expect("memory"),
                    to: memory.alloc("packed", packed.bytes().len() as u64).expect("memory"),
                    k_stride: k_stride as i64,
                    n_stride: n_stride as i64,
                    batch_stride: batch_stride as i64,
                    ..PackArgs::sizes(packed.layout()).expect("sizes fit")
                };
                let launch = args.launch(batch).expect("the grid fits");
                let launch = Launch {
                    grid: launch.grid,
                    workgroup: [launch.threads, 1, 1],
                    args: vec![ArgValue::Bytes(bytemuck::bytes_of(&args).to_vec())],
                    ..Launch::default()
                };
                let report = machine.launch(&kernel, &launch).expect("it runs");
                assert!(report.is_clean(), "{target} {element}: {}", report.findings[0]);
                let found = machine.memory.read(args.to, packed.bytes().len()).expect("bytes");
                assert_eq!(found, packed.bytes(), "{target} {element} {k_stride}");
            }
        }
    }
}
