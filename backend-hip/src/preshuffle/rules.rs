//! The rules a configuration of the preshuffle kernel keeps, each with its numbers.

use lapidary_core::{Activation, ElementType};

use super::config::{MAX_SIDE, PreshuffleConfig, THREADS};
use super::operand::{OPERANDS, OUTPUTS, only_on};
use crate::target::Target;

/// Registers of a lane on CDNA3 and CDNA4, architectural and accumulation registers together.
const REGISTERS: usize = 512;

/// Architectural registers of a lane. Past them the compiler parks values in accumulation registers
/// and moves them back and forth in the hot loop.
const ARCHITECTURAL: usize = 256;

/// What a kernel that is held to a number of registers needs besides the estimate: the prescribed
/// order of instructions keeps values alive that a free order would not. Measured on compiled
/// kernels; with less, some spill.
const SPARE: usize = 16;

/// A configuration breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The target has no such matrix instructions.
    #[error(
        "the preshuffle kernel needs the matrix cores of gfx942 or gfx950, the target is {target}"
    )]
    NoMatrixCores {
        /// The target.
        target: Target,
    },
    /// The target reads another flavour of the type, or none.
    #[error("{element} is read by the matrix cores of {needed} only, the target is {target}")]
    TypeOfOtherTarget {
        /// The operand's type.
        element: ElementType,
        /// The target that has it.
        needed: Target,
        /// The target asked for.
        target: Target,
    },
    /// A and B do not go together, or with the output.
    #[error("A of {a} with B of {b} and {output} output: {rule}")]
    Types {
        /// Element type of A.
        a: ElementType,
        /// Element type of B.
        b: ElementType,
        /// Element type of C.
        output: ElementType,
        /// The rule.
        rule: &'static str,
    },
    /// A size is not a multiple of what the kernel moves at once.
    #[error("{what} is {value}, it must be a positive multiple of {multiple}: {why}")]
    NotMultiple {
        /// Which size.
        what: &'static str,
        /// Its value.
        value: usize,
        /// The unit.
        multiple: usize,
        /// What the unit is.
        why: &'static str,
    },
    /// A side of the tile is longer than any that fits.
    #[error("{what} is {value}, the limit is {limit}")]
    TooLong {
        /// Which side.
        what: &'static str,
        /// Its length in elements.
        value: usize,
        /// The longest.
        limit: usize,
    },
    /// A setting has a fixed set of values.
    #[error("{what} is {value}, it must be {allowed}")]
    Setting {
        /// Which setting.
        what: &'static str,
        /// Its value.
        value: usize,
        /// The values allowed.
        allowed: &'static str,
    },
    /// The tile does not fit LDS.
    #[error("the tile needs {requested} bytes of LDS, {target} has {available}")]
    Lds {
        /// Bytes needed.
        requested: usize,
        /// Bytes there.
        available: usize,
        /// The target.
        target: Target,
    },
    /// Not as many tiles fit LDS as waves a SIMD are asked for; a workgroup is one wave a SIMD.
    #[error("{waves} waves a SIMD need {requested} bytes of LDS, {target} has {available}")]
    LdsAtWaves {
        /// Bytes needed.
        requested: usize,
        /// Bytes there.
        available: usize,
        /// Waves a SIMD.
        waves: usize,
        /// The target.
        target: Target,
    },
    /// A workgroup's part of an operand is larger than its 32-bit offsets reach.
    #[error("{what} is {requested}, offsets within a workgroup reach {limit}")]
    Span {
        /// What spans too much.
        what: &'static str,
        /// How much.
        requested: u128,
        /// How much is allowed.
        limit: u128,
    },
    /// The tile does not fit the registers.
    #[error(
        "the tile needs about {requested} registers a lane, {available} are there at {waves} waves a SIMD"
    )]
    Registers {
        /// Registers needed.
        requested: usize,
        /// Registers there.
        available: usize,
        /// Waves a SIMD.
        waves: usize,
    },
}

impl PreshuffleConfig {
    /// Checks every rule.
    ///
    /// # Errors
    /// The first rule broken, with the numbers.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !self.target.has_preshuffle() {
            return Err(ConfigError::NoMatrixCores { target: self.target });
        }
        self.validate_types()?;
        self.validate_tile()?;
        self.validate_settings()?;
        self.validate_budgets()
    }

    fn validate_types(&self) -> Result<(), ConfigError> {
        for element in [self.a, self.b] {
            if let Some(needed) = only_on(element)
                && needed != self.target
            {
                return Err(ConfigError::TypeOfOtherTarget {
                    element,
                    needed,
                    target: self.target,
                });
            }
        }
        use ElementType as T;
        let mx = |t: T| matches!(t, T::F8E4M3 | T::F8E5M2 | T::F4E2M1);
        let rule = match (self.a, self.b) {
            _ if !OUTPUTS.contains(&self.output) => "the kernel writes f32, f16, bf16 or i32",
            (a, b) if !OPERANDS.contains(&a) || !OPERANDS.contains(&b) => {
                "the kernel reads f32, f16, bf16, i8, i4, fp8 and f4e2m1"
            }
            (a, b) if self.block_scaled && !(mx(a) && mx(b)) => {
                "block scales go with e4m3, e5m2 and e2m1"
            }
            (T::F4E2M1, _) | (_, T::F4E2M1) if !self.block_scaled => "e2m1 needs block scales",
            (T::I4, _) => "i4 is a type of B",
            (T::I8, T::I4) | (T::I8, T::I8) if self.output == ElementType::I32 => {
                let e = &self.epilogue;
                if e.row_scale || e.col_scale {
                    "scales are f32, so the output is f32, f16 or bf16"
                } else if !matches!(e.activation, Activation::None | Activation::Relu) {
                    "i32 output takes no activation but relu"
                } else {
                    return Ok(());
                }
            }
            (T::I8, T::I4) => return Ok(()),
            (_, T::I4) => "i4 B goes with i8 A",
            (a, b) if self.output == ElementType::I32 && a != T::I8 && b != T::I8 => {
                "float operands give f32, f16 or bf16"
            }
            (a, b) if a == b || (a.is_fp8() && b.is_fp8()) || self.block_scaled => return Ok(()),
            _ => "A and B must have the same type, or both be 8-bit floats",
        };
        Err(ConfigError::Types { a: self.a, b: self.b, output: self.output, rule })
    }

    fn validate_tile(&self) -> Result<(), ConfigError> {
        let multiple = |what, value: usize, multiple, why| {
            if value > 0 && value.is_multiple_of(multiple) {
                Ok(())
            } else {
                Err(ConfigError::NotMultiple { what, value, multiple, why })
            }
        };
        for (what, value) in ["tile M", "tile N", "tile K"].into_iter().zip(self.tile) {
            if value > MAX_SIDE {
                return Err(ConfigError::TooLong { what, value, limit: MAX_SIDE });
            }
        }
        multiple("tile M", self.tile[0], 16, "an MFMA has 16 rows")?;
        multiple("tile N", self.tile[1], 64, "four waves of 16 columns")?;
        multiple("tile K", self.tile[2], self.k_step(), "one turn of the matrix instructions")?;
        let chunks = self.row_bytes() / 16;
        if !chunks.is_power_of_two() {
            return Err(ConfigError::Setting {
                what: "16-byte chunks in a row of A's strip",
                value: chunks,
                allowed: "a power of two: the swizzle permutes them by XOR",
            });
        }
        multiple(
            "bytes of A's strip",
            self.tile[0] * self.row_bytes(),
            16 * THREADS,
            "16 bytes for each of 256 threads",
        )?;
        let n_repeat = self.repeats().1;
        if self.block_scaled && n_repeat > 2 && !n_repeat.is_multiple_of(4) {
            return Err(ConfigError::Setting {
                what: "tile N",
                value: self.tile[1],
                allowed: "64, 128 or a multiple of 256 with block scales: a word holds those of 64 columns of a wave",
            });
        }
        Ok(())
    }

    fn validate_settings(&self) -> Result<(), ConfigError> {
        let setting = |ok: bool, what, value, allowed| {
            if ok { Ok(()) } else { Err(ConfigError::Setting { what, value, allowed }) }
        };
        setting(matches!(self.lds_stage, 1 | 2), "LDS stages", self.lds_stage, "1 or 2")?;
        let wide = self.output.size() == 2;
        setting(
            matches!(self.c_vector, 1 | 4) || (wide && self.c_vector == 8),
            "elements a store",
            self.c_vector,
            "1 or 4, or 8 for 16-bit output",
        )?;
        let waves = self.waves_per_simd.unwrap_or(1);
        setting((1..=8).contains(&waves), "waves a SIMD", waves, "1 to 8")
    }

    fn validate_budgets(&self) -> Result<(), ConfigError> {
        let available = self.target.lds_bytes() as usize;
        if self.lds_bytes() > available {
            return Err(ConfigError::Lds {
                requested: self.lds_bytes(),
                available,
                target: self.target,
            });
        }
        let waves = self.waves_per_simd.unwrap_or(1);
        let requested = waves * self.lds_bytes();
        if requested > available {
            let target = self.target;
            return Err(ConfigError::LdsAtWaves { requested, available, waves, target });
        }
        // Registers are handed out eight at a time.
        let available = ARCHITECTURAL.min(REGISTERS / waves / 8 * 8);
        let spare = if self.waves_per_simd.is_some() { SPARE } else { 0 };
        let requested = self.register_estimate() + spare;
        if requested > available {
            return Err(ConfigError::Registers { requested, available, waves });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> PreshuffleConfig {
        PreshuffleConfig::new(Target::Gfx942, ElementType::F8E4M3Fnuz, [64, 256, 128])
    }

    #[test]
    fn each_rule_is_an_error_with_its_numbers() {
        use ConfigError as E;
        let check = |change: &dyn Fn(&mut PreshuffleConfig)| {
            let mut config = base();
            change(&mut config);
            config.validate().expect_err("a rule is broken")
        };
        assert!(matches!(
            check(&|c| c.target = Target::Gfx1100),
            E::NoMatrixCores { target: Target::Gfx1100 }
        ));
        assert!(matches!(
            check(&|c| c.target = Target::Gfx950),
            E::TypeOfOtherTarget { element: ElementType::F8E4M3Fnuz, needed: Target::Gfx942, .. }
        ));
        assert!(matches!(check(&|c| c.b = ElementType::F16), E::Types { .. }));
        assert!(matches!(check(&|c| c.output = ElementType::I32), E::Types { .. }));
        assert!(matches!(
            check(&|c| c.tile[0] = 40),
            E::NotMultiple { what: "tile M", value: 40, multiple: 16, .. }
        ));
        assert!(matches!(
            check(&|c| c.tile[1] = 96),
            E::NotMultiple { what: "tile N", value: 96, multiple: 64, .. }
        ));
        assert!(matches!(
            check(&|c| c.tile[2] = 96),
            E::NotMultiple { what: "tile K", value: 96, multiple: 64, .. }
        ));
        assert!(matches!(check(&|c| c.tile[2] = 192), E::Setting { value: 12, .. }));
        assert!(matches!(
            check(&|c| c.tile[0] = 16),
            E::NotMultiple { what: "bytes of A's strip", value: 2048, multiple: 4096, .. }
        ));
        assert!(matches!(check(&|c| c.lds_stage = 3), E::Setting { value: 3, .. }));
        assert!(matches!(check(&|c| c.c_vector = 2), E::Setting { value: 2, .. }));
        assert!(matches!(
            check(&|c| c.tile = [512, 64, 128]),
            E::Lds { requested: 131_072, available: 65_536, target: Target::Gfx942 }
        ));
        assert!(matches!(
            check(&|c| c.waves_per_simd = Some(4)),
            E::Registers { requested: 184, available: 128, waves: 4 }
        ));
        assert!(matches!(
            check(&|c| c.waves_per_simd = Some(5)),
            E::LdsAtWaves { requested: 81_920, available: 65_536, waves: 5, .. }
        ));
        assert!(matches!(check(&|c| c.tile = [256, 512, 128]), E::Registers { .. }));
        let huge = [usize::MAX, usize::MAX & !63, 1 << 62, 1 << 40];
        for (side, what) in ["tile M", "tile N", "tile K"].into_iter().enumerate() {
            for value in huge {
                let error = check(&|c| c.tile[side] = value);
                assert_eq!(error, E::TooLong { what, value, limit: 65536 });
            }
        }
        // Figures of a tile that no machine holds are large, not wrapped.
        let mut config = base();
        config.tile = [1 << 40; 3];
        assert_eq!((config.lds_bytes(), config.register_estimate()), (usize::MAX, usize::MAX));
    }

    #[test]
    fn integer_rules() {
        let mut config = PreshuffleConfig::new(Target::Gfx950, ElementType::I8, [64, 256, 128]);
        config.validate().expect("i8 -> i32");
        config.epilogue.row_scale = true;
        assert!(matches!(config.validate(), Err(ConfigError::Types { .. })));
        config.output = ElementType::BF16;
        config.b = ElementType::I4;
        config.validate().expect("i8 x i4 -> bf16");
        config.a = ElementType::BF16;
        assert!(matches!(config.validate(), Err(ConfigError::Types { .. })));
    }
}
