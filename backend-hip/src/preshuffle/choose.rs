//! Which configuration a problem gets.

use lapidary_core::ElementType;

use super::config::{ACopy, EpilogueTraits, PreshuffleConfig, THREADS};
use super::rules::ConfigError;
use crate::target::Target;

/// What the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "plain data that callers fill in")]
pub struct ProblemClass {
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Length of the inner dimension.
    pub k: usize,
    /// Matrices.
    pub batch: usize,
    /// Element type of A.
    pub a: ElementType,
    /// Element type of B.
    pub b: ElementType,
    /// Element type of C.
    pub output: ElementType,
    /// MX block scales.
    pub block_scaled: bool,
    /// The epilogue.
    pub epilogue: EpilogueTraits,
    /// Whether A's base address and row stride are multiples of 16 bytes.
    pub a_aligned: bool,
    /// Elements that C's base address, row stride and N are all multiples of.
    pub c_alignment: usize,
    /// Compute units of the device.
    pub compute_units: usize,
}

/// A configuration, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The configuration.
    pub config: PreshuffleConfig,
    /// Ranges of K that workgroups share; 1 without split-K.
    pub splits: usize,
    /// The reasons, one a decision.
    pub reasons: Vec<String>,
}

/// Picks tile, copy, stores and split-K for a problem.
///
/// 16 rows and long strips for M ≤ 32, 64×256 with 128-byte strips
/// above, 128×256 with direct copy for M ≥ 4096 where a lane copies 16 bytes at once (gfx950).
///
/// # Errors
/// [`ConfigError`] where the types and the target do not go together.
pub fn choose(target: Target, class: &ProblemClass) -> Result<Choice, ConfigError> {
    let mut reasons = Vec::new();
    let mut config = PreshuffleConfig {
        b: class.b,
        output: class.output,
        block_scaled: class.block_scaled,
        epilogue: class.epilogue,
        ..PreshuffleConfig::new(target, class.a, [64, 256, 128])
    };
    (config.tile, config.copy) = tile(&config, class, &mut reasons);
    if !class.a_aligned {
        config.copy = ACopy::Guarded;
        reasons
            .push("guarded copy: A's base address or row stride is no multiple of 16 bytes".into());
    }
    config.c_vector = match class.c_alignment {
        a if a.is_multiple_of(8) && config.output.size() == 2 => 8,
        a if a.is_multiple_of(4) => 4,
        _ => {
            reasons
                .push("single-element stores: N or C's rows are no multiple of 4 elements".into());
            1
        }
    };
    let [tile_m, tile_n, tile_k] = config.tile;
    let tiles = class
        .m
        .div_ceil(tile_m)
        .saturating_mul(class.n.div_ceil(tile_n))
        .saturating_mul(class.batch);
    if tiles >= 64 {
        config.xcd_group = 4;
        reasons.push("XCD-aware order: more tiles than eight XCDs share by chance".into());
    }
    let splits = splits(tiles, class.k.div_ceil(tile_k), class.compute_units);
    if splits > 1 {
        config.split_k = true;
        reasons.push(format!(
            "split-K by {splits}: {tiles} tiles leave most of {} compute units idle",
            class.compute_units
        ));
    } else if config.c_vector == 8 && !class.epilogue.beta {
        // With beta a lane reads its four elements of C first, and their registers next to those of
        // the shuffle would cost a wave.
        config.c_shuffle = true;
        reasons.push("C through LDS: stores of 16 bytes cover whole lines of C".into());
    }
    config.validate()?;
    Ok(Choice { config, splits, reasons })
}

/// Tile and copy. Lengths along K are in bytes of the wider operand first, so that one rule serves
/// every type and no strip of B outgrows the registers.
fn tile(
    config: &PreshuffleConfig,
    class: &ProblemClass,
    reasons: &mut Vec<String>,
) -> ([usize; 3], ACopy) {
    let wider = class.a.bits().max(class.b.bits());
    // 256 threads copy 16 bytes each of A's strip.
    let least = |tile_m: usize| 16 * THREADS * 8 / (tile_m * class.a.bits());
    let elements =
        |bytes: usize, tile_m: usize| (bytes * 8 / wider).max(config.k_step()).max(least(tile_m));
    if class.m <= 32 {
        let tile_m = if class.m <= 16 { 16 } else { 32 };
        // 512 bytes of K at 16 rows; narrow tiles, so that many workgroups pull on B.
        let tile_n = if class.n / 64 > class.compute_units { 128 } else { 64 };
        let strip = if tile_n == 128 { 256 } else { 512 };
        reasons.push(format!(
            "{tile_m} rows and {strip}-byte strips: M = {} is bound by the bandwidth of B",
            class.m
        ));
        return ([tile_m, tile_n, elements(strip, tile_m)], ACopy::Synchronous);
    }
    // Block scales of 128 rows would pass the architectural registers.
    let wide = config.target == Target::Gfx950 && class.a_aligned && !class.block_scaled;
    if class.m >= 4096 && wide {
        reasons.push(
            "128x256 with direct copy: enough rows to halve the traffic of B, and 16 bytes a lane past the registers"
                .into(),
        );
        return ([128, 256, elements(128, 128)], ACopy::Direct);
    }
    let tile_n = if class.n <= 128 { 128 } else { 256 };
    reasons.push(format!(
        "64x{tile_n} with 128-byte strips: three waves a SIMD, and {} matrix instructions a strip",
        PreshuffleConfig { tile: [64, tile_n, elements(128, 64)], ..*config }.mfma_per_strip()
    ));
    ([64, tile_n, elements(128, 64)], ACopy::Synchronous)
}

/// Ranges of K such that about all compute units have a tile, each range at least four strips long.
fn splits(tiles: usize, strips: usize, compute_units: usize) -> usize {
    if tiles == 0 || tiles > compute_units / 2 {
        return 1;
    }
    (compute_units / tiles).min(strips / 4).clamp(1, 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preshuffle::{OPERANDS, only_on};

    fn class(m: usize, n: usize, k: usize, element: ElementType) -> ProblemClass {
        ProblemClass {
            m,
            n,
            k,
            batch: 1,
            a: element,
            b: element,
            output: ElementType::BF16,
            block_scaled: element == ElementType::F4E2M1,
            epilogue: EpilogueTraits::default(),
            a_aligned: true,
            c_alignment: 8,
            compute_units: 304,
        }
    }

    #[test]
    fn the_worked_example_gets_the_guides_tile() {
        let choice = choose(Target::Gfx942, &class(5120, 5120, 8320, ElementType::F8E4M3Fnuz))
            .expect("a configuration");
        assert_eq!(choice.config.tile, [64, 256, 128]);
        assert_eq!((choice.config.lds_stage, choice.splits), (2, 1));
        assert!(!choice.reasons.is_empty());
    }

    #[test]
    fn every_type_and_size_gets_a_valid_configuration() {
        for target in [Target::Gfx942, Target::Gfx950] {
            for element in OPERANDS {
                if only_on(element).is_some_and(|only| only != target) || element == ElementType::I4
                {
                    continue;
                }
                for m in [1, 16, 17, 33, 64, 1000, 5000] {
                    for n in [1, 64, 300, 8192, 40960] {
                        for k in [1, 128, 8192] {
                            for (a_aligned, c_alignment) in [(true, 8), (true, 4), (false, 1)] {
                                let class = ProblemClass {
                                    a_aligned,
                                    c_alignment,
                                    ..class(m, n, k, element)
                                };
                                let choice = choose(target, &class);
                                let choice = choice.unwrap_or_else(|e| panic!("{class:?}: {e}"));
                                assert!(choice.splits == 1 || choice.config.split_k);
                                assert!(choice.splits <= k.div_ceil(choice.config.tile[2]));
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn few_tiles_and_a_long_k_are_split() {
        let choice =
            choose(Target::Gfx942, &class(1, 6144, 7168, ElementType::F8E4M3Fnuz)).expect("one");
        assert!(choice.splits > 1, "{choice:?}");
    }

    /// Operand types that go together: A, B, block scales.
    fn pairs(target: Target) -> Vec<(ElementType, ElementType, bool)> {
        let mut pairs = Vec::new();
        for a in OPERANDS {
            for b in OPERANDS {
                for block_scaled in [false, true] {
                    let mut config = PreshuffleConfig::new(target, a, [64, 64, 256]);
                    (config.b, config.block_scaled) = (b, block_scaled);
                    if config.validate().is_ok() {
                        pairs.push((a, b, block_scaled));
                    }
                }
            }
        }
        pairs
    }

    proptest::proptest! {
        /// Whatever the sizes: a configuration that keeps every rule, and a split that leaves each
        /// range a strip.
        #[test]
        fn every_problem_gets_a_valid_configuration(
            sizes in proptest::array::uniform3((0u32..48, 0usize..usize::MAX)),
            batch in 0usize..100_000,
            gfx950: bool,
            pair in 0usize..1000,
            output in 0usize..3,
            flags in proptest::array::uniform5(proptest::bool::ANY),
            activation in 0usize..5,
            a_aligned: bool,
            c_alignment in 1usize..17,
            compute_units in 0usize..400,
        ) {
            // A number of up to 48 bits, each length as likely as the next.
            let [m, n, k] = sizes.map(|(bits, value)| value & ((1 << bits) - 1));
            let target = if gfx950 { Target::Gfx950 } else { Target::Gfx942 };
            let pairs = pairs(target);
            let (a, b, block_scaled) = pairs[pair % pairs.len()];
            let class = ProblemClass {
                m,
                n,
                k,
                batch,
                a,
                b,
                output: [ElementType::F32, ElementType::F16, ElementType::BF16][output],
                block_scaled,
                epilogue: EpilogueTraits {
                    row_scale: flags[0],
                    col_scale: flags[1],
                    alpha: flags[2],
                    beta: flags[3],
                    bias: flags[4],
                    activation: lapidary_core::Activation::ALL[activation],
                },
                a_aligned,
                c_alignment,
                compute_units,
            };
            let choice = choose(target, &class).expect("a configuration");
            let config = choice.config;
            config.validate().expect("valid");
            config.request().expect("a request");
            assert_eq!((config.a, config.b, config.output), (class.a, class.b, class.output));
            assert_eq!(config.epilogue, class.epilogue);
            assert_eq!(config.split_k, choice.splits > 1);
            assert!(choice.splits <= k.div_ceil(config.tile[2]).max(1));
            assert!(a_aligned || config.copy == ACopy::Guarded);
            assert!(c_alignment.is_multiple_of(config.c_vector));
            assert!(!choice.reasons.is_empty());
        }
    }
}
