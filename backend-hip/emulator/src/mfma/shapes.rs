//! The table of matrix instructions that are emulated, and why others are not.

use super::formats::Format;
use crate::Arch;
use crate::arch::Fp8Flavour;
use crate::isa::Opcode;

/// How an instruction adds up its products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accumulation {
    /// A chain of fused multiply-adds, k ascending (f32 on both architectures).
    FmaChain,
    /// CDNA3's truncating adder; `group` products enter one step.
    Cdna3 {
        /// Products in one step.
        group: usize,
    },
    /// CDNA3's 8-bit adder: even and odd products are summed apart, 16 products in one step.
    Cdna3Fp8,
    /// One correctly rounded fused sum for each `group` products (CDNA4; an assumption, see [`crate::mfma`]).
    Fused {
        /// Products in one step.
        group: usize,
    },
    /// Exact 32-bit integers that wrap.
    Integer,
}

/// One matrix instruction with the modifiers that choose its formats resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MfmaShape {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a: Format,
    pub(crate) b: Format,
    pub(crate) scaled: bool,
    pub(crate) accumulation: Accumulation,
    pub(crate) passes: u32,
}

/// Why a matrix instruction is not emulated, or cannot be run as given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MfmaError {
    /// The opcode is no matrix instruction.
    #[error("`{mnemonic}` is not a matrix instruction")]
    NotMfma {
        /// The opcode's mnemonic.
        mnemonic: &'static str,
    },
    /// The architecture does not have the instruction.
    #[error("{arch} has no `{mnemonic}`")]
    NotOnArch {
        /// The opcode's mnemonic.
        mnemonic: &'static str,
        /// The architecture asked for.
        arch: Arch,
    },
    /// A family that is left out.
    #[error("`{mnemonic}` is not emulated: {family} matrix instructions are not supported")]
    UnsupportedFamily {
        /// The opcode's mnemonic.
        mnemonic: &'static str,
        /// The family's name.
        family: &'static str,
    },
    /// A modifier that single-block instructions give no meaning to, or that names no format.
    #[error("`{mnemonic}` with {modifier}:{value} is not emulated: at most {limit} is")]
    UnsupportedModifier {
        /// The opcode's mnemonic.
        mnemonic: &'static str,
        /// `cbsz`, `abid` or `blgp`.
        modifier: &'static str,
        /// The value given.
        value: u8,
        /// The largest value that is emulated.
        limit: u8,
    },
    /// An operand with too few registers.
    #[error("matrix operand {operand} has {actual} registers, the instruction uses {needed}")]
    TooFewRegisters {
        /// `A`, `B`, `C` or `D`.
        operand: &'static str,
        /// Registers given.
        actual: usize,
        /// Registers used.
        needed: usize,
    },
    /// A scaled instruction without scales.
    #[error("a scaled matrix instruction needs the registers of both scales")]
    MissingScales,
}

/// The operand formats of a row of the table.
#[derive(Clone, Copy)]
enum Formats {
    Same(Format),
    /// 8-bit floats in the architecture's flavour; true for the 5-bit exponent (`bf8`).
    Fp8(bool, bool),
    /// Chosen by cbsz and blgp; true if scaled.
    F8f6f4(bool),
}

/// Which architectures have the instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    Both,
    Gfx942,
    Gfx950,
}

impl MfmaShape {
    /// Resolves an instruction on an architecture, with its `cbsz`, `abid` and `blgp` fields.
    ///
    /// Done once for each instruction of a kernel; the result is what [`super::execute`] takes.
    ///
    /// # Errors
    /// [`MfmaError`] if the opcode is no matrix instruction of the architecture, belongs to a family that is left out
    /// (several blocks, f64, sparse), or carries a broadcast modifier.
    pub fn resolve(
        arch: Arch,
        opcode: Opcode,
        cbsz: u8,
        abid: u8,
        blgp: u8,
    ) -> Result<MfmaShape, MfmaError> {
        let mnemonic = opcode.mnemonic();
        let Some((m, k, formats, on, passes)) = table(opcode) else {
            return Err(match family(mnemonic) {
                Some(family) => MfmaError::UnsupportedFamily { mnemonic, family },
                None => MfmaError::NotMfma { mnemonic },
            });
        };
        let present = match on {
            On::Both => true,
            On::Gfx942 => arch == Arch::Gfx942,
            On::Gfx950 => arch == Arch::Gfx950,
        };
        if !present {
            return Err(MfmaError::NotOnArch { mnemonic, arch });
        }
        let limit = if matches!(formats, Formats::F8f6f4(_)) { 4 } else { 0 };
        for (modifier, value, limit) in
            [("cbsz", cbsz, limit), ("abid", abid, 0), ("blgp", blgp, limit)]
        {
            // abid is set in every scaled encoding as part of its prefix and means nothing there.
            let ignored = modifier == "abid" && matches!(formats, Formats::F8f6f4(true));
            if value > limit && !ignored {
                return Err(MfmaError::UnsupportedModifier { mnemonic, modifier, value, limit });
            }
        }
        let (a, b, scaled) = match formats {
            Formats::Same(format) => (format, format, false),
            Formats::Fp8(a, b) => (fp8(arch, a), fp8(arch, b), false),
            Formats::F8f6f4(scaled) => (f8f6f4(cbsz), f8f6f4(blgp), scaled),
        };
        let accumulation = match (arch, a) {
            (_, Format::I8) => Accumulation::Integer,
            (_, Format::F32) => Accumulation::FmaChain,
            (Arch::Gfx942, Format::Xf32) => Accumulation::Cdna3 { group: 4 },
            (Arch::Gfx942, Format::F16 | Format::Bf16) => {
                Accumulation::Cdna3 { group: if k < 8 { k } else { 8 } }
            }
            (Arch::Gfx942, _) => Accumulation::Cdna3Fp8,
            (Arch::Gfx950, Format::F16 | Format::Bf16) => Accumulation::Fused { group: 8 },
            (Arch::Gfx950, _) if matches!(formats, Formats::F8f6f4(_)) => {
                Accumulation::Fused { group: 32 }
            }
            (Arch::Gfx950, _) => Accumulation::Fused { group: 16 },
        };
        // The matrix core takes twice the time as soon as one f8f6f4 operand is 8 bits wide.
        let wide = matches!(formats, Formats::F8f6f4(_)) && (a.bits() == 8 || b.bits() == 8);
        let passes = if wide { 2 * passes } else { passes };
        Ok(MfmaShape { m, n: m, k, a, b, scaled, accumulation, passes })
    }

    /// Rows of A, C and D: 16 or 32.
    pub const fn m(&self) -> usize {
        self.m
    }

    /// Columns of B, C and D; equals `m`.
    pub const fn n(&self) -> usize {
        self.n
    }

    /// Columns of A and rows of B.
    pub const fn k(&self) -> usize {
        self.k
    }

    /// Element format of A.
    pub const fn a(&self) -> Format {
        self.a
    }

    /// Element format of B.
    pub const fn b(&self) -> Format {
        self.b
    }

    /// Whether each block of 32 along K carries e8m0 scales.
    pub const fn scaled(&self) -> bool {
        self.scaled
    }

    /// The accumulation model.
    pub const fn accumulation(&self) -> Accumulation {
        self.accumulation
    }

    /// Passes of four cycles that the matrix core is busy.
    pub const fn passes(&self) -> u32 {
        self.passes
    }

    /// Registers of A.
    pub const fn a_registers(&self) -> usize {
        self.m * self.k * self.a.bits() as usize / (64 * 32)
    }

    /// Registers of B.
    pub const fn b_registers(&self) -> usize {
        self.n * self.k * self.b.bits() as usize / (64 * 32)
    }

    /// Registers of C, and of D.
    pub const fn acc_registers(&self) -> usize {
        self.m * self.n / 64
    }

    /// Whether the formats come from cbsz and blgp (gfx950's f8f6f4 family).
    pub const fn is_f8f6f4(&self) -> bool {
        matches!(self.accumulation, Accumulation::Fused { group: 32 })
    }
}

/// The 8-bit float of an architecture, with the 5-bit exponent if `bf8`.
fn fp8(arch: Arch, bf8: bool) -> Format {
    match (arch.fp8(), bf8) {
        (Fp8Flavour::Fnuz, false) => Format::E4m3Fnuz,
        (Fp8Flavour::Fnuz, true) => Format::E5m2Fnuz,
        (Fp8Flavour::Ocp, false) => Format::E4m3Fn,
        (Fp8Flavour::Ocp, true) => Format::E5m2,
    }
}

/// The format that a cbsz or blgp field of 0 to 4 names in an f8f6f4 instruction.
fn f8f6f4(field: u8) -> Format {
    match field {
        0 => Format::E4m3Fn,
        1 => Format::E5m2,
        2 => Format::E2m3,
        3 => Format::E3m2,
        _ => Format::E2m1,
    }
}

/// Rows and columns, K, formats, architectures, and passes (those of the narrow formats for f8f6f4).
fn table(opcode: Opcode) -> Option<(usize, usize, Formats, On, u32)> {
    use Formats::{F8f6f4, Fp8, Same};
    use Opcode as O;
    Some(match opcode {
        O::VMfmaF32_16x16x4F32 => (16, 4, Same(Format::F32), On::Both, 8),
        O::VMfmaF32_32x32x2F32 => (32, 2, Same(Format::F32), On::Both, 16),
        O::VMfmaF32_16x16x8Xf32 => (16, 8, Same(Format::Xf32), On::Gfx942, 4),
        // Derived: the published table has the 16-row form only; the same rule gives this one.
        O::VMfmaF32_32x32x4Xf32 => (32, 4, Same(Format::Xf32), On::Gfx942, 8),
        O::VMfmaF32_16x16x16F16 => (16, 16, Same(Format::F16), On::Both, 4),
        O::VMfmaF32_32x32x8F16 => (32, 8, Same(Format::F16), On::Both, 8),
        O::VMfmaF32_16x16x16Bf16 => (16, 16, Same(Format::Bf16), On::Both, 4),
        O::VMfmaF32_32x32x8Bf16 => (32, 8, Same(Format::Bf16), On::Both, 8),
        O::VMfmaI32_16x16x32I8 => (16, 32, Same(Format::I8), On::Both, 4),
        O::VMfmaI32_32x32x16I8 => (32, 16, Same(Format::I8), On::Both, 8),
        O::VMfmaF32_16x16x32Fp8Fp8 => (16, 32, Fp8(false, false), On::Both, 4),
        O::VMfmaF32_16x16x32Fp8Bf8 => (16, 32, Fp8(false, true), On::Both, 4),
        O::VMfmaF32_16x16x32Bf8Fp8 => (16, 32, Fp8(true, false), On::Both, 4),
        O::VMfmaF32_16x16x32Bf8Bf8 => (16, 32, Fp8(true, true), On::Both, 4),
        O::VMfmaF32_32x32x16Fp8Fp8 => (32, 16, Fp8(false, false), On::Both, 8),
        O::VMfmaF32_32x32x16Fp8Bf8 => (32, 16, Fp8(false, true), On::Both, 8),
        O::VMfmaF32_32x32x16Bf8Fp8 => (32, 16, Fp8(true, false), On::Both, 8),
        O::VMfmaF32_32x32x16Bf8Bf8 => (32, 16, Fp8(true, true), On::Both, 8),
        O::VMfmaF32_16x16x32F16 => (16, 32, Same(Format::F16), On::Gfx950, 4),
        O::VMfmaF32_32x32x16F16 => (32, 16, Same(Format::F16), On::Gfx950, 8),
        O::VMfmaF32_16x16x32Bf16 => (16, 32, Same(Format::Bf16), On::Gfx950, 4),
        O::VMfmaF32_32x32x16Bf16 => (32, 16, Same(Format::Bf16), On::Gfx950, 8),
        O::VMfmaI32_16x16x64I8 => (16, 64, Same(Format::I8), On::Gfx950, 4),
        O::VMfmaI32_32x32x32I8 => (32, 32, Same(Format::I8), On::Gfx950, 8),
        O::VMfmaF32_16x16x128F8f6f4 => (16, 128, F8f6f4(false), On::Gfx950, 4),
        O::VMfmaF32_32x32x64F8f6f4 => (32, 64, F8f6f4(false), On::Gfx950, 8),
        O::VMfmaScaleF32_16x16x128F8f6f4 => (16, 128, F8f6f4(true), On::Gfx950, 4),
        O::VMfmaScaleF32_32x32x64F8f6f4 => (32, 64, F8f6f4(true), On::Gfx950, 8),
        _ => return None,
    })
}

/// The family of a matrix instruction that is left out.
fn family(mnemonic: &str) -> Option<&'static str> {
    if mnemonic.starts_with("v_smfmac_") {
        Some("sparse")
    } else if mnemonic.starts_with("v_mfma_f64_") {
        Some("f64")
    } else if mnemonic.starts_with("v_mfma_") {
        Some("multi-block")
    } else {
        None
    }
}
