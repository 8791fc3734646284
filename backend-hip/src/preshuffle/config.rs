//! One instance of the preshuffle kernel, as plain data with its rules.

use core::fmt;

use lapidary_core::{Activation, ElementType};

use super::operand::type_code;
use super::rules::ConfigError;
use crate::compile::Request;
use crate::target::Target;

/// Threads of a workgroup: four waves side by side along N.
pub const THREADS: usize = 256;

/// The longest side of a tile, along M, N or K in elements. Far past what LDS and registers hold; it
/// keeps sums over tiles within a word.
pub const MAX_SIDE: usize = 1 << 16;

/// Registers besides tiles and fragments: offsets, LDS addresses, lane numbers. The compiled
/// kernels use 20 to 30.
const ADDRESS_REGISTERS: usize = 24;

/// How A reaches LDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ACopy {
    /// Global memory → registers → LDS, 16 bytes a lane. Rows start at multiples of 16 bytes.
    Synchronous,
    /// Global memory → LDS, 4 bytes a lane on gfx942, 16 on gfx950. Rows as above.
    Direct,
    /// As [`Synchronous`](Self::Synchronous), but the aligned dwords around each chunk are loaded and
    /// shifted: any base address and row stride.
    Guarded,
}

impl ACopy {
    /// The name used in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Synchronous => "synchronous copy",
            Self::Direct => "direct-to-LDS copy",
            Self::Guarded => "guarded copy",
        }
    }
}

/// What the epilogue does, as far as it changes the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[allow(clippy::exhaustive_structs, reason = "plain data that callers fill in")]
#[allow(clippy::struct_excessive_bools, reason = "each is an independent part of the epilogue")]
pub struct EpilogueTraits {
    /// One factor for each row of A.
    pub row_scale: bool,
    /// One factor for each column of B.
    pub col_scale: bool,
    /// A factor for everything: alpha, a per-tensor scale, or their product.
    pub alpha: bool,
    /// beta · C is added.
    pub beta: bool,
    /// One value for each column is added.
    pub bias: bool,
    /// Applied last.
    pub activation: Activation,
}

/// One instance of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "plain data that callers fill in")]
pub struct PreshuffleConfig {
    /// The architecture.
    pub target: Target,
    /// Element type of A.
    pub a: ElementType,
    /// Element type of B.
    pub b: ElementType,
    /// Element type of C.
    pub output: ElementType,
    /// One e8m0 scale for each 32 elements along K of both operands (MX). gfx950.
    pub block_scaled: bool,
    /// Rows of C, columns of C, and length along K of a workgroup's tile, in elements.
    pub tile: [usize; 3],
    /// Strips of A in LDS: 1, or 2 to fill one while the other is read.
    pub lds_stage: usize,
    /// How A reaches LDS.
    pub copy: ACopy,
    /// Whether the loop's instruction order is prescribed to the compiler.
    pub schedule: bool,
    /// Waves a SIMD is to hold at least; `None` leaves the register count to the compiler.
    pub waves_per_simd: Option<usize>,
    /// 0 for tiles in order, or the rows of tiles that an XCD walks together.
    pub xcd_group: usize,
    /// Whether each workgroup computes a range of K and leaves raw sums for a second pass.
    pub split_k: bool,
    /// The epilogue.
    pub epilogue: EpilogueTraits,
    /// Whether C passes through LDS, so that stores cover whole lines.
    pub c_shuffle: bool,
    /// Elements a store may write: 1 for any N and row address, 4 or (16-bit types) 8 where both
    /// are multiples of it.
    pub c_vector: usize,
}

impl PreshuffleConfig {
    /// A configuration for A and B of type `element`, everything else at its default: f32 output
    /// (i32 for integers), two stages, synchronous copy, scheduled, no epilogue, direct stores of
    /// four elements.
    #[must_use]
    pub fn new(target: Target, element: ElementType, tile: [usize; 3]) -> Self {
        let output =
            if matches!(element, ElementType::I8) { ElementType::I32 } else { ElementType::F32 };
        Self {
            target,
            a: element,
            b: element,
            output,
            block_scaled: element == ElementType::F4E2M1,
            tile,
            lds_stage: 2,
            copy: ACopy::Synchronous,
            schedule: true,
            waves_per_simd: None,
            xcd_group: 0,
            split_k: false,
            epilogue: EpilogueTraits::default(),
            c_shuffle: false,
            c_vector: 4,
        }
    }

    /// Elements along K that one turn of the matrix instructions consumes; see `config.h`.
    #[must_use]
    pub const fn k_step(&self) -> usize {
        let wide = self.block_scaled
            || matches!(self.b, ElementType::I4)
            || (self.a.is_fp8() && matches!(self.target, Target::Gfx950));
        if wide { 128 } else { 64 * 8 / self.a.bits() }
    }

    /// 16-column blocks and 16-row blocks of a wave.
    pub(super) const fn repeats(&self) -> (usize, usize) {
        (self.tile[0] / 16, self.tile[1] / 64)
    }

    /// Bytes of a row of A's strip in LDS.
    #[must_use]
    pub const fn row_bytes(&self) -> usize {
        self.tile[2].saturating_mul(self.a.bits()) / 8
    }

    /// Bytes of K of one column of a strip of B.
    #[must_use]
    pub const fn column_bytes(&self) -> usize {
        self.tile[2].saturating_mul(self.b.bits()) / 8
    }

    /// Bytes of LDS a workgroup uses; `usize::MAX` for what no machine counts.
    #[must_use]
    pub const fn lds_bytes(&self) -> usize {
        let strips = self.lds_stage.saturating_mul(self.tile[0]).saturating_mul(self.row_bytes());
        let row = self.tile[1].saturating_mul(self.output.size());
        let shuffle = if self.c_shuffle { row.saturating_mul(16) } else { 0 };
        if strips > shuffle { strips } else { shuffle }
    }

    /// Registers a lane needs: accumulators, two strips of B, A on its way to LDS, two fragments of
    /// A, unpacked i4, block scales, and addresses. An estimate; the compiler decides. `usize::MAX`
    /// for a tile with a side past [`MAX_SIDE`].
    #[must_use]
    pub const fn register_estimate(&self) -> usize {
        if self.tile[0] > MAX_SIDE || self.tile[1] > MAX_SIDE || self.tile[2] > MAX_SIDE {
            return usize::MAX;
        }
        let (m, n) = self.repeats();
        let chains = if m * n >= 2 { 1 } else { 2 };
        let accumulators = 4 * m * n * chains;
        let b = 2 * n * self.column_bytes() / 16;
        let chunks = self.tile[0] * self.row_bytes() / THREADS / 16;
        let staged = match self.copy {
            ACopy::Direct => 0,
            ACopy::Synchronous => 4 * chunks,
            // The dword after each chunk, and how far it is shifted.
            ACopy::Guarded => 6 * chunks,
        };
        let fragments = 2 * 4 * (self.k_step() * self.a.bits() / 512);
        let unpacked = if matches!(self.b, ElementType::I4) { 8 * n } else { 0 };
        let scales = if self.block_scaled {
            let steps = self.tile[2] / self.k_step();
            2 * (m.div_ceil(4) * (steps + 1) + n.div_ceil(4) * steps)
        } else {
            0
        };
        accumulators + b + staged + fragments + unpacked + scales + ADDRESS_REGISTERS
    }

    /// MFMA instructions a wave executes for one strip.
    #[must_use]
    pub const fn mfma_per_strip(&self) -> usize {
        let (m, n) = self.repeats();
        let cdna4 = matches!(self.target, Target::Gfx950);
        let each = if matches!(self.b, ElementType::I4) {
            if cdna4 { 2 } else { 4 }
        } else if matches!(self.a, ElementType::F32) {
            4
        } else if self.block_scaled || cdna4 {
            1
        } else {
            2
        };
        m.saturating_mul(n).saturating_mul(each * (self.tile[2] / self.k_step()))
    }

    /// What to compile for this configuration.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn request(&self) -> Result<Request, ConfigError> {
        self.request_of("preshuffle.hip")
    }

    /// What to compile for the pass that adds the sums of a split-K configuration and applies the
    /// epilogue.
    ///
    /// # Errors
    /// As [`validate`](Self::validate).
    pub fn reduce_request(&self) -> Result<Request, ConfigError> {
        Self { split_k: false, ..*self }.request_of("reduce.hip")
    }

    fn request_of(&self, kernel: &'static str) -> Result<Request, ConfigError> {
        self.validate()?;
        let e = &self.epilogue;
        let copy = match self.copy {
            ACopy::Synchronous => 0,
            ACopy::Direct => 1,
            ACopy::Guarded => 2,
        };
        let flag = u32::from;
        let code = |element| {
            type_code(element).ok_or(ConfigError::Types {
                a: self.a,
                b: self.b,
                output: self.output,
                rule: "the kernel has no such type",
            })
        };
        Ok([
            ("CFG_A_TYPE", code(self.a)?),
            ("CFG_B_TYPE", code(self.b)?),
            ("CFG_OUT_TYPE", code(self.output)?),
            ("CFG_BLOCK_SCALED", flag(self.block_scaled)),
            ("CFG_A_COPY", copy),
            ("CFG_SCHEDULE", flag(self.schedule)),
            ("CFG_SPLIT_K", flag(self.split_k)),
            ("CFG_ROW_SCALE", flag(e.row_scale)),
            ("CFG_COL_SCALE", flag(e.col_scale)),
            ("CFG_ALPHA", flag(e.alpha)),
            ("CFG_BETA", flag(e.beta)),
            ("CFG_BIAS", flag(e.bias)),
            ("CFG_ACTIVATION", activation_code(e.activation)),
            ("CFG_C_SHUFFLE", flag(self.c_shuffle)),
        ]
        .into_iter()
        .fold(Request::new(kernel, self.target), |request, (name, value)| {
            request.define(name, value)
        })
        .define("CFG_TILE_M", self.tile[0])
        .define("CFG_TILE_N", self.tile[1])
        .define("CFG_TILE_K", self.tile[2])
        .define("CFG_LDS_STAGE", self.lds_stage)
        .define("CFG_XCD_GROUP", self.xcd_group)
        .define("CFG_C_VECTOR", self.c_vector)
        .define("CFG_WAVES_PER_SIMD", self.waves_per_simd.unwrap_or(0)))
    }
}

/// The number `common/activation.h` gives an activation.
pub(crate) const fn activation_code(activation: Activation) -> u32 {
    match activation {
        Activation::Relu => 1,
        Activation::Silu => 2,
        Activation::GeluTanh => 3,
        Activation::GeluErf => 4,
        _ => 0,
    }
}

impl fmt::Display for PreshuffleConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.tile;
        write!(f, "preshuffle {}x{} -> {} {m}x{n}x{k}", self.a, self.b, self.output.name())?;
        write!(f, ", {} stage(s), {}", self.lds_stage, self.copy.name())?;
        if !self.schedule {
            f.write_str(", unscheduled")?;
        }
        if self.split_k {
            f.write_str(", split-K")?;
        }
        if self.c_shuffle {
            f.write_str(", C through LDS")?;
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
    fn the_guides_example() {
        let config = base();
        config.validate().expect("valid");
        assert_eq!(config.mfma_per_strip(), 64);
        assert_eq!(config.lds_bytes(), 16 * 1024);
        assert_eq!(config.register_estimate(), 64 + 64 + 8 + 8 + 24);
        // 8320 / 128 strips.
        assert_eq!(config.mfma_per_strip() * 65, 4160);
    }
}
