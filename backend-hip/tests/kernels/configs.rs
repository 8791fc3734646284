//! The configurations that tests compile and run.

use std::collections::BTreeSet;

use lapidary_core::Activation;
use lapidary_core::ElementType;
use lapidary_hip::Target;
use lapidary_hip::preshuffle::{ACopy, EpilogueTraits, PreshuffleConfig, ProblemClass, choose};

/// The flavours of 8-bit floats a target reads: e4m3 and e5m2.
pub(crate) fn fp8(target: Target) -> (ElementType, ElementType) {
    match target {
        Target::Gfx950 => (ElementType::F8E4M3, ElementType::F8E5M2),
        _ => (ElementType::F8E4M3Fnuz, ElementType::F8E5M2Fnuz),
    }
}

/// M, N and K of the worked example.
pub(crate) const WORKED: [usize; 3] = [5120, 5120, 8320];

/// The kernel that is chosen for the worked example: fp8, bf16 output with scales and bias.
pub(crate) fn worked_example(target: Target) -> PreshuffleConfig {
    let element = fp8(target).0;
    let class = ProblemClass {
        m: WORKED[0],
        n: WORKED[1],
        k: WORKED[2],
        batch: 1,
        a: element,
        b: element,
        output: ElementType::BF16,
        block_scaled: false,
        epilogue: EpilogueTraits {
            row_scale: true,
            col_scale: true,
            bias: true,
            ..EpilogueTraits::default()
        },
        a_aligned: true,
        c_alignment: 8,
        compute_units: if target == Target::Gfx950 { 256 } else { 304 },
    };
    choose(target, &class).expect("a configuration").config
}

/// Every operand pair of a target, with a small tile.
pub(crate) fn operand_pairs(target: Target) -> Vec<PreshuffleConfig> {
    use ElementType as T;
    let (e4m3, e5m2) = fp8(target);
    let new = |element, tile| PreshuffleConfig::new(target, element, tile);
    let mut all = vec![
        new(T::F32, [32, 64, 32]),
        new(T::F16, [32, 64, 64]),
        new(T::BF16, [64, 64, 32]),
        new(T::I8, [64, 64, 64]),
        PreshuffleConfig { output: ElementType::F32, ..new(T::I8, [64, 64, 64]) },
        PreshuffleConfig { b: T::I4, ..new(T::I8, [32, 64, 128]) },
        PreshuffleConfig { b: T::I4, output: ElementType::F32, ..new(T::I8, [32, 64, 128]) },
        new(e4m3, [32, 64, 128]),
        new(e5m2, [32, 64, 128]),
        PreshuffleConfig { b: e5m2, ..new(e4m3, [32, 64, 128]) },
        PreshuffleConfig { b: e4m3, ..new(e5m2, [32, 64, 128]) },
    ];
    if target == Target::Gfx950 {
        let mx = |a, b, tile| PreshuffleConfig { b, block_scaled: true, ..new(a, tile) };
        all.extend([
            mx(T::F4E2M1, T::F4E2M1, [32, 128, 256]),
            mx(T::F8E4M3, T::F8E4M3, [32, 64, 128]),
            mx(T::F8E5M2, T::F8E4M3, [32, 256, 128]),
            mx(T::F8E4M3, T::F4E2M1, [32, 64, 128]),
            mx(T::F4E2M1, T::F8E5M2, [64, 64, 128]),
        ]);
    }
    all
}

/// One value of each factor: operand pair, output, activation, rest of the epilogue, stages, copy,
/// stores, schedule, M, N, K.
type Row = [usize; 11];

const M: [usize; 8] = [1, 15, 16, 17, 33, 64, 65, 130];
const N: [usize; 7] = [1, 16, 63, 64, 65, 256, 300];
const K: [usize; 11] = [1, 15, 16, 17, 31, 64, 127, 128, 129, 384, 1000];
const STORES: [(bool, usize); 4] = [(false, 4), (true, 8), (true, 4), (false, 1)];
const COPIES: [ACopy; 3] = [ACopy::Synchronous, ACopy::Direct, ACopy::Guarded];
const OUTPUTS: [ElementType; 3] = [ElementType::F32, ElementType::F16, ElementType::BF16];

/// Configurations and sizes such that every two values of two factors meet in some case.
pub(crate) fn pairwise(target: Target) -> Vec<(PreshuffleConfig, [usize; 3])> {
    let pairs = operand_pairs(target);
    let counts = [pairs.len(), 3, 5, 4, 2, 3, STORES.len(), 2, M.len(), N.len(), K.len()];
    covering_rows(&counts).into_iter().map(|row| case(&pairs, row)).collect()
}

/// Greedy: each row starts from a pair not met yet, and every further factor takes the value that
/// meets most new pairs.
fn covering_rows(counts: &[usize; 11]) -> Vec<Row> {
    let mut open: BTreeSet<[usize; 4]> = BTreeSet::new();
    for i in 0..counts.len() {
        for j in i + 1..counts.len() {
            for x in 0..counts[i] {
                open.extend((0..counts[j]).map(|y| [i, x, j, y]));
            }
        }
    }
    let pair = |i: usize, x: usize, j: usize, y: usize| {
        if i < j { [i, x, j, y] } else { [j, y, i, x] }
    };
    let mut rows = Vec::new();
    while let Some(&[i, x, j, y]) = open.first() {
        let mut chosen: Vec<(usize, usize)> = vec![(i, x), (j, y)];
        for factor in (0..counts.len()).filter(|&f| f != i && f != j) {
            let gain = |value: usize| {
                chosen.iter().filter(|&&(f, v)| open.contains(&pair(factor, value, f, v))).count()
            };
            // Start the search elsewhere in each row, so that ties spread over the values.
            let start = rows.len();
            let best = (0..counts[factor])
                .map(|v| (v + start) % counts[factor])
                .max_by_key(|&v| gain(v))
                .unwrap_or(0);
            chosen.push((factor, best));
        }
        let mut row = [0; 11];
        for &(factor, value) in &chosen {
            row[factor] = value;
        }
        for i in 0..counts.len() {
            for j in i + 1..counts.len() {
                open.remove(&[i, row[i], j, row[j]]);
            }
        }
        rows.push(row);
    }
    rows
}

fn case(pairs: &[PreshuffleConfig], row: Row) -> (PreshuffleConfig, [usize; 3]) {
    let mut config = pairs[row[0]];
    let integer = config.output == ElementType::I32;
    let (scales, rest) = (row[3] % 2 == 1, row[3] / 2 == 1);
    if !integer {
        config.output = OUTPUTS[row[1]];
    }
    config.epilogue = EpilogueTraits {
        row_scale: scales && !integer,
        col_scale: scales && !integer,
        alpha: rest,
        beta: rest,
        bias: rest,
        activation: match Activation::ALL[row[2]] {
            Activation::None => Activation::None,
            Activation::Relu => Activation::Relu,
            _ if integer => Activation::None,
            other => other,
        },
    };
    config.lds_stage = 1 + row[4];
    config.copy = COPIES[row[5]];
    (config.c_shuffle, config.c_vector) = STORES[row[6]];
    config.schedule = row[7] == 1;
    if config.output.size() == 4 {
        config.c_vector = config.c_vector.min(4);
    }
    let (m, n, mut k) = (M[row[8]], N[row[9]], K[row[10]]);
    // Vectors need whole multiples, block scales whole blocks.
    if !n.is_multiple_of(config.c_vector) {
        config.c_vector = 1;
    }
    if config.block_scaled {
        k = k.next_multiple_of(32);
    }
    (config, [m, n, k])
}

/// Tiles the chooser hands out, and split-K.
pub(crate) fn tiles(target: Target) -> Vec<PreshuffleConfig> {
    let (e4m3, _) = fp8(target);
    let new = |element, tile| PreshuffleConfig::new(target, element, tile);
    let mut all = vec![
        new(e4m3, [16, 64, 512]),
        new(e4m3, [16, 128, 256]),
        new(e4m3, [32, 64, 512]),
        new(e4m3, [64, 128, 128]),
        new(e4m3, [64, 256, 128]),
        new(ElementType::BF16, [16, 64, 256]),
        new(ElementType::BF16, [64, 256, 64]),
        new(ElementType::F32, [64, 128, 32]),
        PreshuffleConfig { split_k: true, ..new(e4m3, [64, 64, 128]) },
        PreshuffleConfig { waves_per_simd: Some(2), ..new(e4m3, [64, 256, 128]) },
    ];
    if target == Target::Gfx950 {
        all.push(PreshuffleConfig { copy: ACopy::Direct, ..new(e4m3, [128, 256, 128]) });
        all.push(new(ElementType::F4E2M1, [64, 256, 256]));
    }
    all
}
