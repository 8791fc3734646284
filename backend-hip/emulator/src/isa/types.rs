//! What an operand's bits mean to an opcode.

/// The type of an operand: its width and how constants and modifiers apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperandType {
    /// The opcode has no operand here.
    Absent,
    /// A 16-bit integer in the low half of a register. Inline floats are half precision.
    B16,
    /// A half. Takes negation and absolute value.
    F16,
    /// A half-width exponent: inline floats are half precision, no modifiers.
    F16NoMods,
    /// A 32-bit integer or bit field.
    B32,
    /// A single. Takes negation and absolute value.
    F32,
    /// A 64-bit integer or bit field.
    B64,
    /// A double. Takes negation and absolute value.
    F64,
    /// A lane mask: VCC or a pair of scalar registers.
    Mask,
    /// Two 16-bit integers.
    PkB16,
    /// Two halves.
    PkF16,
    /// Two bfloat16.
    PkBf16,
    /// Two 32-bit words.
    PkB32,
    /// Two singles.
    PkF32,
    /// A single, or a half of a register holding one, as `op_sel_hi` selects (`v_fma_mix`).
    Mix,
    /// 32 bits that only a vector register can hold.
    V32,
    /// 64 bits that only a vector register can hold.
    V64,
    /// 32 bits in an accumulation register.
    A32,
    /// 32 bits that are the same in all lanes: a scalar register or an inline constant.
    Lane,
    /// 96 bits.
    B96,
    /// 128 bits.
    B128,
    /// 192 bits.
    B192,
    /// 256 bits.
    B256,
    /// 256 bits of doubles: inline floats are double precision.
    B256F64,
    /// 512 bits.
    B512,
    /// 1024 bits.
    B1024,
}

/// The class of an inline constant or literal that an operand type takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConstClass {
    /// 16 bits, integer: inline floats are half precision bits.
    Int16,
    /// 16 bits, half precision.
    Float16,
    /// 32 bits of which inline floats are half precision in the low half.
    PackedFloat16,
    /// 32 bits of which inline floats are bfloat16 in the low half.
    PackedBfloat16,
    /// 32 bits.
    Bits32,
    /// 64 bits, integer: literals are sign-extended.
    Int64,
    /// 64 bits, double precision: a literal is the high half.
    Float64,
}

impl OperandType {
    /// Width in 32-bit registers; 0 for [`OperandType::Absent`].
    pub const fn dwords(self) -> u8 {
        use OperandType::*;
        match self {
            Absent => 0,
            B16 | F16 | F16NoMods | B32 | F32 | PkB16 | PkF16 | PkBf16 | Mix | V32 | A32 | Lane => {
                1
            }
            B64 | F64 | Mask | PkB32 | PkF32 | V64 => 2,
            B96 => 3,
            B128 => 4,
            B192 => 6,
            B256 | B256F64 => 8,
            B512 => 16,
            B1024 => 32,
        }
    }

    /// Whether the wide and the SDWA and DPP forms can negate it and take its absolute value.
    pub const fn takes_float_modifiers(self) -> bool {
        use OperandType::*;
        matches!(self, F16 | F32 | F64 | PkF16 | PkBf16 | Mix)
    }

    /// How constants are read.
    pub const fn const_class(self) -> ConstClass {
        use OperandType::*;
        match self {
            B16 => ConstClass::Int16,
            F16 | F16NoMods | Mix => ConstClass::Float16,
            B64 => ConstClass::Int64,
            F64 | B256F64 => ConstClass::Float64,
            PkF16 => ConstClass::PackedFloat16,
            PkBf16 => ConstClass::PackedBfloat16,
            Absent | B32 | F32 | Mask | PkB16 | PkB32 | PkF32 | V32 | V64 | A32 | Lane | B96
            | B128 | B192 | B256 | B512 | B1024 => ConstClass::Bits32,
        }
    }
}

/// The operand types of an opcode, in the order that [`Instruction`](super::Instruction) states for its encoding.
///
/// Memory opcodes list their data; addresses follow from the encoding. `dst` of an atomic is the value it returns when
/// SC0 asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Zero, one or two destinations.
    pub dst: &'static [OperandType],
    /// Sources.
    pub src: &'static [OperandType],
}
