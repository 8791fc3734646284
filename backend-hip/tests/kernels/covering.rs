//! Cases in which every two choices meet: a pairwise covering array over everything that a
//! configuration and a problem are made of.

use std::collections::BTreeSet;

use super::configs;
use lapidary_core::{Activation, ElementType};
use lapidary_hip::Target;
use lapidary_hip::preshuffle::{ACopy, EpilogueTraits, PreshuffleConfig};

const OUTPUTS: [ElementType; 4] =
    [ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::I32];
/// Row scale, column scale, alpha, beta, bias.
const EPILOGUES: [[bool; 5]; 9] = [
    [false; 5],
    [true, false, false, false, false],
    [false, true, false, false, false],
    [true, true, false, false, false],
    [false, false, true, false, false],
    [false, false, false, true, false],
    [false, false, false, false, true],
    [false, false, true, true, true],
    [true; 5],
];
const COPIES: [ACopy; 3] = [ACopy::Synchronous, ACopy::Direct, ACopy::Guarded];
/// Whether C passes through LDS, and elements a store.
const STORES: [(bool, usize); 5] = [(false, 1), (false, 4), (true, 1), (true, 4), (true, 8)];
const M: [usize; 8] = [1, 15, 16, 17, 33, 64, 65, 130];
const N: [usize; 7] = [1, 16, 63, 64, 65, 256, 300];
const K: [usize; 11] = [1, 15, 16, 17, 31, 64, 127, 128, 129, 384, 1000];

/// The factors, in the order of a [`Row`].
const PAIR: usize = 0;
const OUTPUT: usize = 1;
const ACTIVATION: usize = 2;
const EPILOGUE: usize = 3;
const STORE: usize = 6;
const N_AT: usize = 9;
const K_AT: usize = 10;
const FACTORS: usize = 11;

/// The number of a value of each factor.
type Row = [usize; FACTORS];
/// Factor, value, later factor, value.
type Pair = [usize; 4];

struct Array {
    pairs: Vec<PreshuffleConfig>,
    counts: Row,
}

impl Array {
    fn new(target: Target) -> Self {
        // The output is a factor of its own.
        let mut pairs = configs::operand_pairs(target);
        let mut seen = BTreeSet::new();
        pairs.retain(|c| seen.insert((c.a.name(), c.b.name(), c.block_scaled)));
        let counts = [
            pairs.len(),
            OUTPUTS.len(),
            Activation::ALL.len(),
            EPILOGUES.len(),
            2,
            COPIES.len(),
            STORES.len(),
            2,
            M.len(),
            N.len(),
            K.len(),
        ];
        Self { pairs, counts }
    }

    /// Whether a configuration may have both values. Everything that the kernel refuses, and why:
    fn allowed(&self, [i, x, j, y]: Pair) -> bool {
        let integer_output = |value: usize| OUTPUTS[value] == ElementType::I32;
        match (i, j) {
            // Floats do not give integers.
            (PAIR, OUTPUT) => !integer_output(y) || self.pairs[x].a == ElementType::I8,
            // MX: K is whole blocks of 32.
            (PAIR, K_AT) => !self.pairs[x].block_scaled || K[y].is_multiple_of(32),
            // i32 has no activation but relu, and no f32 scales.
            (OUTPUT, ACTIVATION) => {
                !integer_output(x)
                    || matches!(Activation::ALL[y], Activation::None | Activation::Relu)
            }
            (OUTPUT, EPILOGUE) => !integer_output(x) || !(EPILOGUES[y][0] || EPILOGUES[y][1]),
            // A store writes 16 bytes at most.
            (OUTPUT, STORE) => OUTPUTS[x].bits() * STORES[y].1 <= 128,
            // Vector stores need rows of whole vectors.
            (STORE, N_AT) => N[y].is_multiple_of(STORES[x].1),
            _ => true,
        }
    }

    fn every_pair(&self) -> BTreeSet<Pair> {
        let mut all = BTreeSet::new();
        for i in 0..FACTORS {
            for j in i + 1..FACTORS {
                for x in 0..self.counts[i] {
                    all.extend((0..self.counts[j]).map(|y| [i, x, j, y]));
                }
            }
        }
        all.retain(|&pair| self.allowed(pair));
        all
    }

    /// Greedy: each row starts from a pair not met yet, and every further factor takes the value
    /// that meets most new pairs among those that go with the values before.
    fn rows(&self) -> Vec<Row> {
        let mut open = self.every_pair();
        let mut rows: Vec<Row> = Vec::new();
        while let Some(&[i, x, j, y]) = open.first() {
            let mut chosen: Vec<(usize, usize)> = vec![(i, x), (j, y)];
            for factor in (0..FACTORS).filter(|&f| f != i && f != j) {
                let count = self.counts[factor];
                // Start the search elsewhere in each row, so that ties spread over the values.
                let best = (0..count)
                    .map(|v| (v + rows.len()) % count)
                    .filter(|&v| chosen.iter().all(|&(f, w)| self.allowed(pair(factor, v, f, w))))
                    .max_by_key(|&v| {
                        chosen
                            .iter()
                            .filter(|&&(f, w)| open.contains(&pair(factor, v, f, w)))
                            .count()
                    });
                chosen.push((factor, best.expect("some value goes with every choice before")));
            }
            let mut row = [0; FACTORS];
            for &(factor, value) in &chosen {
                row[factor] = value;
            }
            for pair in pairs_of(&row) {
                open.remove(&pair);
            }
            rows.push(row);
        }
        rows
    }

    fn case(&self, row: &Row) -> (PreshuffleConfig, [usize; 3]) {
        let &[pair, output, activation, epilogue, stage, copy, store, schedule, m, n, k] = row;
        let [row_scale, col_scale, alpha, beta, bias] = EPILOGUES[epilogue];
        let (c_shuffle, c_vector) = STORES[store];
        let config = PreshuffleConfig {
            output: OUTPUTS[output],
            epilogue: EpilogueTraits {
                row_scale,
                col_scale,
                alpha,
                beta,
                bias,
                activation: Activation::ALL[activation],
            },
            lds_stage: 1 + stage,
            copy: COPIES[copy],
            c_shuffle,
            c_vector,
            schedule: schedule == 1,
            ..self.pairs[pair]
        };
        (config, [M[m], N[n], K[k]])
    }
}

fn pair(i: usize, x: usize, j: usize, y: usize) -> Pair {
    if i < j { [i, x, j, y] } else { [j, y, i, x] }
}

fn pairs_of(row: &Row) -> impl Iterator<Item = Pair> + '_ {
    (0..FACTORS).flat_map(move |i| (i + 1..FACTORS).map(move |j| [i, row[i], j, row[j]]))
}

/// Configurations and sizes such that every two values that go together meet in some case.
pub(crate) fn pairwise(target: Target) -> Vec<(PreshuffleConfig, [usize; 3])> {
    let array = Array::new(target);
    array.rows().iter().map(|row| array.case(row)).collect()
}

/// Reads each factor's value back from the cases that run, and counts the pairs again.
#[test]
fn every_two_values_that_go_together_meet() {
    for target in [Target::Gfx942, Target::Gfx950] {
        let array = Array::new(target);
        let at = |found: bool, what: &str| assert!(found, "{what} is a value of the factor");
        let mut missing = array.every_pair();
        let possible = missing.len();
        let cases = pairwise(target);
        for (config, [m, n, k]) in &cases {
            config.validate().unwrap_or_else(|e| panic!("{config}: {e}"));
            let e = &config.epilogue;
            let flags = [e.row_scale, e.col_scale, e.alpha, e.beta, e.bias];
            let place = |position: Option<usize>, what: &str| {
                at(position.is_some(), what);
                position.unwrap_or_default()
            };
            let row = [
                place(
                    array.pairs.iter().position(|p| {
                        (p.a, p.b, p.block_scaled) == (config.a, config.b, config.block_scaled)
                    }),
                    "the operands",
                ),
                place(OUTPUTS.iter().position(|&o| o == config.output), "the output"),
                place(Activation::ALL.iter().position(|&a| a == e.activation), "the activation"),
                place(EPILOGUES.iter().position(|&f| f == flags), "the epilogue"),
                config.lds_stage - 1,
                place(COPIES.iter().position(|&c| c == config.copy), "the copy"),
                place(
                    STORES.iter().position(|&s| s == (config.c_shuffle, config.c_vector)),
                    "the stores",
                ),
                usize::from(config.schedule),
                place(M.iter().position(|x| x == m), "M"),
                place(N.iter().position(|x| x == n), "N"),
                place(K.iter().position(|x| x == k), "K"),
            ];
            for pair in pairs_of(&row) {
                missing.remove(&pair);
            }
        }
        assert!(missing.is_empty(), "{target}: {missing:?}");
        println!("{target}: {} cases meet all {possible} pairs of values", cases.len());
    }
}
