//! Element types of the kernel's operands.

use core::fmt;

use crate::target::Target;

/// The element type of A or B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OperandType {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    BF16,
    /// Two's-complement 8-bit integer.
    I8,
    /// Two's-complement 4-bit integer, two a byte, low nibble first; B only, with i8 A.
    I4,
    /// 8-bit float, 4 exponent bits, FNUZ flavour: CDNA3.
    E4m3Fnuz,
    /// 8-bit float, 5 exponent bits, FNUZ flavour: CDNA3.
    E5m2Fnuz,
    /// 8-bit float, 4 exponent bits, OCP flavour: CDNA4.
    E4m3,
    /// 8-bit float, 5 exponent bits, OCP flavour: CDNA4.
    E5m2,
    /// 4-bit float, two a byte, low nibble first; CDNA4, block-scaled.
    E2m1,
}

impl OperandType {
    /// Every type.
    pub const ALL: [Self; 10] = [
        Self::F32,
        Self::F16,
        Self::BF16,
        Self::I8,
        Self::I4,
        Self::E4m3Fnuz,
        Self::E5m2Fnuz,
        Self::E4m3,
        Self::E5m2,
        Self::E2m1,
    ];

    /// Bits an element occupies.
    #[must_use]
    pub const fn bits(self) -> usize {
        match self {
            Self::F32 => 32,
            Self::F16 | Self::BF16 => 16,
            Self::I8 | Self::E4m3Fnuz | Self::E5m2Fnuz | Self::E4m3 | Self::E5m2 => 8,
            Self::I4 | Self::E2m1 => 4,
        }
    }

    /// The name used in plans and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I8 => "i8",
            Self::I4 => "i4",
            Self::E4m3Fnuz => "e4m3fnuz",
            Self::E5m2Fnuz => "e5m2fnuz",
            Self::E4m3 => "e4m3",
            Self::E5m2 => "e5m2",
            Self::E2m1 => "e2m1",
        }
    }

    /// Whether the type is an 8-bit float of either flavour.
    #[must_use]
    pub const fn is_fp8(self) -> bool {
        matches!(self, Self::E4m3Fnuz | Self::E5m2Fnuz | Self::E4m3 | Self::E5m2)
    }

    /// The only target whose matrix instructions read this type, or `None` where both do.
    #[must_use]
    pub const fn only_on(self) -> Option<Target> {
        match self {
            Self::E4m3Fnuz | Self::E5m2Fnuz => Some(Target::Gfx942),
            Self::E4m3 | Self::E5m2 | Self::E2m1 => Some(Target::Gfx950),
            Self::F32 | Self::F16 | Self::BF16 | Self::I8 | Self::I4 => None,
        }
    }

    /// The number `common/gpu.h` gives the type. Flavours share one: each target has its own.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::BF16 => 2,
            Self::I8 => 3,
            Self::E4m3 | Self::E4m3Fnuz => 4,
            Self::E5m2 | Self::E5m2Fnuz => 5,
            Self::I4 => 6,
            Self::E2m1 => 7,
        }
    }
}

impl fmt::Display for OperandType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
