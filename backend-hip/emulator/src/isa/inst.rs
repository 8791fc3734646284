//! A decoded instruction as plain data.
//!
//! Operand order is by meaning, not by bit position; [`Instruction`] states it for every encoding. What an opcode reads
//! or writes without naming it (SCC, VCC of `v_div_fmas`, EXEC, M0, the old value of a `v_fmac` destination) is not an
//! operand.

use super::opcode::Opcode;

/// The machine encoding an instruction was decoded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoding {
    /// Scalar, two sources.
    Sop2,
    /// Scalar with a 16-bit immediate.
    Sopk,
    /// Scalar, one source.
    Sop1,
    /// Scalar compare.
    Sopc,
    /// Program control.
    Sopp,
    /// Scalar memory.
    Smem,
    /// Vector, one source.
    Vop1,
    /// Vector, two sources.
    Vop2,
    /// Vector compare.
    Vopc,
    /// Vector, up to three sources, 8 bytes; also the wide form of VOP1, VOP2 and VOPC.
    Vop3,
    /// Packed vector and matrix (MAI), 8 bytes, or 16 for the scaled matrix forms.
    Vop3p,
    /// LDS.
    Ds,
    /// Buffer memory.
    Mubuf,
    /// Flat memory.
    Flat,
    /// Global memory.
    Global,
    /// Scratch memory.
    Scratch,
}

/// Consecutive registers of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first register's number.
    pub first: u8,
    /// How many 32-bit registers, 1 to 32.
    pub dwords: u8,
}

/// A named scalar register or value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Special {
    /// FLAT_SCRATCH, low half.
    FlatScratchLo,
    /// FLAT_SCRATCH, high half.
    FlatScratchHi,
    /// FLAT_SCRATCH, 64 bits.
    FlatScratch,
    /// XNACK_MASK, low half.
    XnackMaskLo,
    /// XNACK_MASK, high half.
    XnackMaskHi,
    /// XNACK_MASK, 64 bits.
    XnackMask,
    /// VCC, lanes 0 to 31.
    VccLo,
    /// VCC, lanes 32 to 63.
    VccHi,
    /// VCC, 64 bits.
    Vcc,
    /// M0.
    M0,
    /// EXEC, lanes 0 to 31.
    ExecLo,
    /// EXEC, lanes 32 to 63.
    ExecHi,
    /// EXEC, 64 bits.
    Exec,
    /// 1 if VCC is zero.
    SrcVccz,
    /// 1 if EXEC is zero.
    SrcExecz,
    /// SCC.
    SrcScc,
    /// Base of the LDS aperture.
    SharedBase,
    /// Limit of the LDS aperture.
    SharedLimit,
    /// Base of the scratch aperture.
    PrivateBase,
    /// Limit of the scratch aperture.
    PrivateLimit,
    /// A graphics-only value.
    PopsExitingWaveId,
    /// A value read from LDS through M0.
    LdsDirect,
    /// Source code 125, which reads as zero.
    Null,
}

/// A floating point inline constant; its bits depend on the operand's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InlineFloat {
    /// 0.5
    Half,
    /// -0.5
    MinusHalf,
    /// 1.0
    One,
    /// -1.0
    MinusOne,
    /// 2.0
    Two,
    /// -2.0
    MinusTwo,
    /// 4.0
    Four,
    /// -4.0
    MinusFour,
    /// 1/(2π)
    InvTwoPi,
}

impl InlineFloat {
    /// The value in order of the source codes 240 to 248.
    pub const ALL: [InlineFloat; 9] = [
        InlineFloat::Half,
        InlineFloat::MinusHalf,
        InlineFloat::One,
        InlineFloat::MinusOne,
        InlineFloat::Two,
        InlineFloat::MinusTwo,
        InlineFloat::Four,
        InlineFloat::MinusFour,
        InlineFloat::InvTwoPi,
    ];

    /// IEEE half bits.
    pub fn bits16(self) -> u16 {
        [0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118][self as usize]
    }

    /// IEEE single bits.
    pub fn bits32(self) -> u32 {
        [
            0x3f00_0000,
            0xbf00_0000,
            0x3f80_0000,
            0xbf80_0000,
            0x4000_0000,
            0xc000_0000,
            0x4080_0000,
            0xc080_0000,
            0x3e22_f983,
        ][self as usize]
    }

    /// IEEE double bits.
    pub fn bits64(self) -> u64 {
        [
            0x3fe0_0000_0000_0000,
            0xbfe0_0000_0000_0000,
            0x3ff0_0000_0000_0000,
            0xbff0_0000_0000_0000,
            0x4000_0000_0000_0000,
            0xc000_0000_0000_0000,
            0x4010_0000_0000_0000,
            0xc010_0000_0000_0000,
            0x3fc4_5f30_6dc9_c882,
        ][self as usize]
    }
}

/// One operand. Register operands carry their width; constants take the width of the operand's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Operand {
    /// No operand in this place.
    #[default]
    None,
    /// Scalar registers `s0` to `s101`.
    Sgpr(Span),
    /// Trap handler registers `ttmp0` to `ttmp15`.
    Ttmp(Span),
    /// A named scalar register or value.
    Special(Special),
    /// Vector registers `v0` to `v255`.
    Vgpr(Span),
    /// Accumulation registers `a0` to `a255`.
    Agpr(Span),
    /// An integer inline constant, -16 to 64, sign-extended to the operand's width.
    Int(i8),
    /// A floating point inline constant.
    Float(InlineFloat),
    /// A 32-bit literal that follows the instruction. A 16-bit operand takes its low half, a 64-bit float has it as its
    /// high half over zeros, a signed 64-bit integer sign-extends it and any other 64-bit operand zero-extends it.
    Literal(u32),
}

impl Operand {
    /// Whether there is an operand here.
    pub fn is_some(self) -> bool {
        self != Operand::None
    }
}

/// Selects part of a 32-bit SDWA operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SdwaSel {
    /// Bits 7:0.
    Byte0,
    /// Bits 15:8.
    Byte1,
    /// Bits 23:16.
    Byte2,
    /// Bits 31:24.
    Byte3,
    /// Bits 15:0.
    Word0,
    /// Bits 31:16.
    Word1,
    /// All bits.
    Dword,
}

/// What happens to the destination bits that an SDWA instruction does not select.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SdwaUnused {
    /// Zero.
    Pad,
    /// The sign of the result.
    Sext,
    /// The old value.
    Preserve,
}

/// The SDWA word. The second source of a VOP1 reads as [`SdwaSel::Dword`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sdwa {
    /// The part of the destination that is written (VOP1 and VOP2).
    pub dst_sel: SdwaSel,
    /// The rest of the destination.
    pub dst_unused: SdwaUnused,
    /// The part of each source that is read.
    pub src_sel: [SdwaSel; 2],
    /// Whether each selected source is sign-extended (integer operands).
    pub sext: [bool; 2],
}

/// A DPP lane movement: from which lane each lane's first source comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DppCtrl {
    /// Within each group of four lanes, lane `i` reads lane `perm[i]`.
    QuadPerm([u8; 4]),
    /// Shift left within rows of 16 by 1 to 15: lane `i` reads `i + n`.
    RowShl(u8),
    /// Shift right within rows of 16: lane `i` reads `i - n`.
    RowShr(u8),
    /// Rotate right within rows of 16.
    RowRor(u8),
    /// Shift the whole wave left by one: lane `i` reads `i + 1`.
    WaveShl,
    /// Rotate the whole wave left by one.
    WaveRol,
    /// Shift the whole wave right by one.
    WaveShr,
    /// Rotate the whole wave right by one.
    WaveRor,
    /// Reverse each row of 16.
    RowMirror,
    /// Reverse each half row of 8.
    RowHalfMirror,
    /// Lane 15 of each row to the next row.
    RowBcast15,
    /// Lane 31 to rows 2 and 3.
    RowBcast31,
    /// Every lane of a row reads lane `n` of that row (gfx90a and later).
    RowNewbcast(u8),
}

/// The DPP word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dpp {
    /// The lane movement.
    pub ctrl: DppCtrl,
    /// Bit `r` enables writes of row `r` (lanes 16r to 16r+15).
    pub row_mask: u8,
    /// Bit `b` enables writes of bank `b` (lanes 4b to 4b+3 of every row).
    pub bank_mask: u8,
    /// Whether lanes that read outside get 0 instead of keeping the destination.
    pub bound_ctrl: bool,
}

/// The modifier fields of all encodings; those that an encoding lacks are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Modifiers {
    /// SOPK and SOPP: the immediate. `v_bitop3`: the truth table.
    pub imm: u16,
    /// Bit `i` negates source `i`; for VOP3P its low half.
    pub neg: u8,
    /// VOP3P: bit `i` negates the high half of source `i`.
    pub neg_hi: u8,
    /// Bit `i` takes the absolute value of source `i`.
    pub abs: u8,
    /// Clamps the result: floats to [0, 1], integers saturate.
    pub clamp: bool,
    /// Output modifier: 0 none, 1 ×2, 2 ×4, 3 ÷2.
    pub omod: u8,
    /// VOP3: bit `i` selects the high half of source `i`, bit 3 of the destination. VOP3P: which half feeds the low result.
    /// Scaled MFMA: bit `i` is the low bit of the scale byte of A (0) and B (1).
    pub op_sel: u8,
    /// VOP3P: which half feeds the high result. Scaled MFMA: bit `i` is the high bit of the scale byte.
    pub op_sel_hi: u8,
    /// MFMA: broadcast control of A, or the format of A for f8f6f4.
    pub cbsz: u8,
    /// MFMA: the block of A that is broadcast.
    pub abid: u8,
    /// MFMA: lane permutation of B, the negation of f64 sources, or the format of B for f8f6f4.
    pub blgp: u8,
    /// Bytes added to the address: SMEM and FLAT signed, MUBUF 0 to 4095, DS 0 to 65535 (two-address forms use
    /// `offset0` and `offset1`).
    pub offset: i32,
    /// DS: the first offset field (two-address forms: in units of the element, or 64 of them).
    pub offset0: u8,
    /// DS: the second offset field.
    pub offset1: u8,
    /// SC0 of vector memory and GLC of scalar memory. For atomics: whether the old value is returned.
    pub sc0: bool,
    /// SC1 of vector memory.
    pub sc1: bool,
    /// NT of vector memory.
    pub nt: bool,
    /// MUBUF and global: data goes to LDS at M0.
    pub lds: bool,
    /// MUBUF: a VGPR holds an index.
    pub idxen: bool,
    /// MUBUF: a VGPR holds an offset. SMEM: the immediate offset is added to the one in a register.
    pub offen: bool,
    /// The DPP word.
    pub dpp: Option<Dpp>,
    /// The SDWA word.
    pub sdwa: Option<Sdwa>,
}

/// One decoded instruction.
///
/// | encoding | `dst` | `dst2` | `src` |
/// |---|---|---|---|
/// | SOP1, SOP2 | sdst | | ssrc0, ssrc1 |
/// | SOPC | | | ssrc0, ssrc1 |
/// | SOPK | sdst of movk, cmovk, addk, mulk, getreg, call | | the register compared, added to, multiplied or written to the hardware register; literal of `s_setreg_imm32` |
/// | SMEM | sdata of loads and atomics with return | | sbase, soffset, sdata of stores and atomics |
/// | VOP1, VOP2, VOP3 | vdst (sdst of readlane, readfirstlane) | carry or `div_scale` mask | src0, src1, src2; the carry-in or the select mask of `v_cndmask` is src2, in `_e32` forms VCC; the constant of `fmamk` is src1, of `fmaak` src2 |
/// | VOPC | mask (VCC or an SGPR pair) | | src0, src1 |
/// | VOP3P | vdst | | src0, src1, src2; scaled MFMA: scale A and scale B are src 3 and 4 |
/// | DS | vdst of loads and returns | | addr, data0, data1 |
/// | MUBUF | vdata of loads and returning atomics (not `lds`) | | vaddr, srsrc, soffset, vdata of stores and atomics |
/// | FLAT, GLOBAL, SCRATCH | vdst of loads and returning atomics | | vaddr, saddr, data of stores and atomics |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Address of its first byte in the code object's address space.
    pub address: u64,
    /// Bytes it takes: 4, 8 or 16.
    pub size: u8,
    /// The encoding.
    pub encoding: Encoding,
    /// The operation.
    pub opcode: Opcode,
    /// The destination.
    pub dst: Operand,
    /// The second destination.
    pub dst2: Operand,
    /// Sources, by meaning.
    pub src: [Operand; 5],
    /// Everything else.
    pub mods: Modifiers,
}

impl Instruction {
    /// Address of the instruction after this one.
    pub fn next(&self) -> u64 {
        self.address.wrapping_add(u64::from(self.size))
    }

    /// Target of a branch (SOPP) or call (SOPK): the immediate counts dwords from the next instruction. Meaningless for
    /// other opcodes.
    pub fn branch_target(&self) -> u64 {
        let dwords = i64::from(self.mods.imm as i16);
        self.next().wrapping_add_signed(dwords * 4)
    }
}

/// What `s_waitcnt` waits for: each counter may be at most this high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitCounts {
    /// Vector memory, 0 to 63.
    pub vm: u8,
    /// Exports and GDS, 0 to 7.
    pub exp: u8,
    /// LDS, scalar memory and messages, 0 to 15.
    pub lgkm: u8,
}

impl WaitCounts {
    /// The highest value of every counter: no wait.
    pub const NONE: WaitCounts = WaitCounts { vm: 63, exp: 7, lgkm: 15 };

    /// The fields of the immediate: VMCNT in bits 3:0 and 15:14, EXPCNT in 6:4, LGKMCNT in 11:8.
    pub fn from_imm(imm: u16) -> WaitCounts {
        WaitCounts {
            vm: (imm & 15 | imm >> 10 & 0x30) as u8,
            exp: (imm >> 4 & 7) as u8,
            lgkm: (imm >> 8 & 15) as u8,
        }
    }
}
