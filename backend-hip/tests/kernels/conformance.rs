//! The preshuffle kernel on the emulator, every check on, against a reference in f64.

use super::bounds::{activation_error, is_within, reached};
use super::elements::{Sequence, rounded};
use super::emulate::{self, Case, Outcome, Poison, compiler};
use super::{configs, covering};
use lapidary_cdna::exec::Order;
use lapidary_core::Activation;
use lapidary_core::ElementType;
use lapidary_hip::Target;
use lapidary_hip::compile::Compiler;
use lapidary_hip::preshuffle::{ACopy, EpilogueTraits, PreshuffleConfig, ProblemClass, choose};
use rayon::prelude::*;

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
    let activation = case.config.epilogue.activation;
    let exact = matches!(activation, Activation::None | Activation::Relu);
    for (index, &found) in outcome.found.iter().enumerate() {
        let at = (index / case.n, index % case.n);
        let expected = outcome.expected[index];
        if exact {
            assert_eq!(found, rounded(case.config.output, expected), "{name}: element {at:?}");
        } else {
            // The argument is exact.
            let error = activation_error(activation, outcome.arguments[index]);
            assert!(
                is_within(case.config.output, found, expected, error),
                "{name}: {at:?} is {found}, expected {expected} within {error}"
            );
        }
    }
    outcome
}

const ORDERS: [Order; 3] = [Order::RoundRobin, Order::Reverse, Order::Random(9)];

/// Small integers: every element is exactly right, whatever the order of waves and workgroups.
#[test]
fn every_two_choices_meet_and_are_exact() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        covering::pairwise(target).into_par_iter().enumerate().for_each(|(i, (config, size))| {
            let case = Case { views: i % 2 == 1, order: ORDERS[i % 3], ..Case::new(config, size) };
            check(&compiler, &case);
        });
    }
}

/// Random operands of every type: within the bound that follows from the arithmetic, and the same
/// bits whatever the order of waves and workgroups.
#[test]
fn every_two_choices_meet_and_stay_within_the_bound() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        covering::pairwise(target).into_par_iter().enumerate().for_each(|(i, (config, size))| {
            let case = Case { random: true, views: i % 2 == 0, ..Case::new(config, size) };
            let run = |order| {
                let outcome = Case { order, ..case }.run(&compiler);
                let findings = &outcome.report.findings;
                assert!(findings.is_empty(), "{target} {config}: {}", findings[0]);
                outcome
            };
            let outcome = run(ORDERS[0]);
            for (index, &found) in outcome.found.iter().enumerate() {
                let expected = outcome.expected[index];
                let error = reached(&config, case.k, &outcome, index);
                assert!(
                    is_within(config.output, found, expected, error),
                    "{target} {config} at {size:?}: element {index} is {found}, expected \
                     {expected} within {error}"
                );
            }
            for order in &ORDERS[1..] {
                assert!(outcome.raw == run(*order).raw, "{target} {config}: {order:?}");
            }
        });
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

/// Rounding errors go both ways, so K enters the error with its root at most. The figure is printed.
#[test]
fn errors_of_random_operands_do_not_grow_with_k() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        for config in configs::operand_pairs(target) {
            for k in [96, 352, 1408] {
                let case = Case { random: true, ..Case::new(config, [35, 70, k]) };
                let outcome = case.run(&compiler);
                assert!(outcome.report.is_clean(), "{target} {config}");
                let mut worst: f64 = 0.0;
                for (index, &found) in outcome.found.iter().enumerate() {
                    let error = (found - outcome.expected[index]).abs();
                    worst = worst.max(error / (outcome.magnitudes[index][0] * 2f64.powi(-23)));
                }
                assert!(worst <= 4.0, "{target} {config}, K = {k}: {worst} of 2^-23 · magnitude");
                println!("{target} {config}, K = {k}: at most {worst:.3} of 2^-23 · magnitude");
            }
        }
    }
}

/// NaN and Inf in one row of A, or one column of B, leave every other element as it was, bit for bit.
#[test]
fn what_is_not_finite_stays_in_its_row_and_column() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        let pairs = configs::operand_pairs(target);
        pairs.into_par_iter().filter(|config| config.a.is_float()).for_each(|pair| {
            for copy in [ACopy::Synchronous, ACopy::Direct, ACopy::Guarded] {
                let relu =
                    EpilogueTraits { activation: Activation::Relu, ..EpilogueTraits::default() };
                let config = PreshuffleConfig { copy, epilogue: relu, ..pair };
                // The tail's chunk holds one element of its row and then canaries.
                let tail = if config.block_scaled { 32 } else { 1 };
                let k = 2 * config.tile[2] + tail;
                let case = Case { views: true, ..Case::new(config, [35, 36, k]) };
                let clean = case.run(&compiler);
                let [a, b] = [config.a, config.b].map(not_finite);
                let mut poisons: Vec<Poison> = a.iter().map(|&c| Poison::RowOfA(7, c)).collect();
                poisons.extend(b.iter().map(|&c| Poison::ColumnOfB(17, c)));
                if config.block_scaled {
                    poisons.extend([Poison::ScalesOfA(7, 0xff), Poison::ScalesOfB(17, 0xff)]);
                }
                for poison in poisons {
                    let found = Case { poison: Some(poison), ..case }.run(&compiler);
                    for (index, (&clean, &found)) in
                        clean.found.iter().zip(&found.found).enumerate()
                    {
                        let hit = match poison {
                            Poison::RowOfA(row, _) | Poison::ScalesOfA(row, _) => {
                                index / case.n == row
                            }
                            Poison::ColumnOfB(column, _) | Poison::ScalesOfB(column, _) => {
                                index % case.n == column
                            }
                        };
                        let right = if hit {
                            // relu keeps a NaN, and an Inf of the right sign.
                            found.is_nan() || found == f64::INFINITY || is_infinity(poison)
                        } else {
                            clean.to_bits() == found.to_bits()
                        };
                        assert!(right, "{target} {config} {poison:?}: {index}, {clean} {found}");
                    }
                }
            }
        });
    }
}

/// The codes of a type that are not finite: its NaN, then infinity where it has one.
fn not_finite(element: ElementType) -> &'static [u32] {
    match element {
        ElementType::F32 => &[0x7fc0_0000, 0x7f80_0000],
        ElementType::F16 => &[0x7e00, 0x7c00],
        ElementType::BF16 => &[0x7fc0, 0x7f80],
        ElementType::F8E4M3 => &[0x7f],
        ElementType::F8E5M2 => &[0x7e, 0x7c],
        ElementType::F8E4M3Fnuz | ElementType::F8E5M2Fnuz => &[0x80],
        _ => &[],
    }
}

fn is_infinity(poison: Poison) -> bool {
    matches!(
        poison,
        Poison::RowOfA(_, 0x7f80_0000 | 0x7c00 | 0x7f80 | 0x7c)
            | Poison::ColumnOfB(_, 0x7f80_0000 | 0x7c00 | 0x7f80 | 0x7c)
    )
}

/// beta = 0 is a kernel without beta, which never reads C: there C is full of NaNs. With a factor that
/// is not finite the result follows IEEE 754.
#[test]
fn alpha_and_beta_that_are_not_finite_propagate() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        for split_k in [false, true] {
            for output in [ElementType::F32, ElementType::BF16] {
                let config = PreshuffleConfig {
                    output,
                    split_k,
                    epilogue: EpilogueTraits {
                        alpha: true,
                        beta: true,
                        ..EpilogueTraits::default()
                    },
                    ..PreshuffleConfig::new(target, ElementType::F16, [32, 64, 64])
                };
                for factors in [
                    [f32::NAN, 1.0],
                    [1.0, f32::NAN],
                    [f32::INFINITY, 1.0],
                    [1.0, f32::NEG_INFINITY],
                    [f32::INFINITY, f32::INFINITY],
                ] {
                    let case = Case { factors, splits: 2, ..Case::new(config, [20, 36, 130]) };
                    let case = if split_k { case } else { Case { splits: 1, ..case } };
                    let outcome = case.run(&compiler);
                    assert!(outcome.report.is_clean());
                    for (index, &found) in outcome.found.iter().enumerate() {
                        let expected = outcome.expected[index];
                        assert!(
                            found == expected || (found.is_nan() && expected.is_nan()),
                            "{target} {config} {factors:?}: {index} {found} {expected}"
                        );
                    }
                }
            }
        }
    }
}

/// An epilogue's activation on arguments of every size, in f32: within its derived error.
#[test]
fn activations_are_as_accurate_as_derived() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        for activation in [Activation::Silu, Activation::GeluTanh, Activation::GeluErf] {
            let config = PreshuffleConfig {
                epilogue: EpilogueTraits { activation, alpha: true, ..EpilogueTraits::default() },
                ..PreshuffleConfig::new(target, ElementType::F32, [32, 64, 32])
            };
            let mut worst: f64 = 0.0;
            // Sums of three products, spread over [-12, 12] and, less densely, [-96, 96].
            for (seed, alpha) in [(1, 1.0), (2, 4.0), (3, 32.0)] {
                let case = Case {
                    random: true,
                    seed,
                    factors: [alpha, 0.0],
                    ..Case::new(config, [64, 128, 3])
                };
                let outcome = case.run(&compiler);
                for (index, &found) in outcome.found.iter().enumerate() {
                    // The argument itself is off by the rounding of three products.
                    let error = reached(&config, case.k, &outcome, index);
                    let off = (found - outcome.expected[index]).abs();
                    assert!(
                        is_within(config.output, found, outcome.expected[index], error),
                        "{target} {activation:?}({}): {off} of {error}",
                        outcome.arguments[index]
                    );
                    worst = worst.max(off / error);
                }
            }
            println!("{target} {activation:?}: at most {worst:.2} of the bound");
        }
    }
}

/// Rows of 64 bytes to 1 KiB, every width of element: the emulator counts no cycle lost to bank
/// conflicts for A's writes and reads, by the published phases of each target.
#[test]
fn no_strip_of_a_has_a_bank_conflict() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        let mut elements = vec![ElementType::F32, ElementType::BF16, configs::fp8(target).0];
        if target == Target::Gfx950 {
            elements.push(ElementType::F4E2M1);
        }
        let mut strips = Vec::new();
        for element in elements {
            for row_bytes in [64, 128, 256, 512, 1024] {
                let tile = [(4096 / row_bytes).max(32), 64, row_bytes * 8 / element.bits()];
                let config = PreshuffleConfig::new(target, element, tile);
                // The scaled and the widest instructions take two chunks and more.
                if tile[2].is_multiple_of(config.k_step()) {
                    let copy = if row_bytes % 3 == 1 { ACopy::Direct } else { ACopy::Synchronous };
                    strips.push(PreshuffleConfig { copy, ..config });
                }
            }
        }
        println!("{target}: {} strips", strips.len());
        strips.into_par_iter().for_each(|config| {
            let k = 3 * config.tile[2];
            let outcome = check(&compiler, &Case::new(config, [config.tile[0], 64, k]));
            let counters = &outcome.report.counters;
            assert_eq!(counters.lds_conflict_cycles, 0, "{target} {config}");
            assert!(counters.by_class[&lapidary_cdna::exec::Class::Lds] > 0, "{target} {config}");
        });
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
            let mut numbers = Sequence::new(5);
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
