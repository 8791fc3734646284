//! Groups of opcodes that the decoder, the printer and the executor treat alike.

use super::opcode::Opcode;

impl Opcode {
    /// Whether it is a matrix instruction (`v_mfma` or `v_smfmac`).
    pub fn is_matrix(self) -> bool {
        self.is_dense_matrix() || self.mnemonic().starts_with("v_smfmac")
    }

    /// Whether it is a dense matrix instruction (`v_mfma`).
    pub fn is_dense_matrix(self) -> bool {
        self.mnemonic().starts_with("v_mfma")
    }

    /// Whether A and B have formats of their own (`f8f6f4`), which CBSZ and BLGP select.
    pub fn is_f8f6f4(self) -> bool {
        use Opcode::*;
        matches!(
            self,
            VMfmaF32_16x16x128F8f6f4
                | VMfmaF32_32x32x64F8f6f4
                | VMfmaScaleF32_16x16x128F8f6f4
                | VMfmaScaleF32_32x32x64F8f6f4
        )
    }

    /// Whether it is a buffer load that can write LDS instead of registers.
    pub fn has_lds_form(self) -> bool {
        use Opcode::*;
        matches!(
            self,
            BufferLoadUbyte
                | BufferLoadSbyte
                | BufferLoadUshort
                | BufferLoadSshort
                | BufferLoadDword
                | BufferLoadDwordx3
                | BufferLoadDwordx4
                | BufferLoadFormatX
        )
    }

    /// Whether its SDWA form, unless it is a compare, can write part of the destination: the fp8 conversions write whole
    /// registers.
    pub(crate) fn sdwa_selects_dst(self) -> bool {
        use Opcode::*;
        !matches!(self, VCvtF32Fp8 | VCvtF32Bf8 | VCvtPkF32Fp8 | VCvtPkF32Bf8)
    }

    /// The source that is always a literal, of the multiply-adds that have one.
    pub fn constant_source(self) -> Option<usize> {
        use Opcode::*;
        match self {
            VFmamkF32 | VMadmkF16 => Some(1),
            VFmaakF32 | VMadakF16 => Some(2),
            _ => None,
        }
    }

    /// How many sources `op_sel` has a bit for, in the VOP3 encoding: the fp8 and fp4 conversions with two sources select a
    /// byte of the destination with the bit of an absent third source.
    pub(crate) fn op_sel_sources(self) -> usize {
        use Opcode::*;
        match self {
            VCvtSrFp8F32 | VCvtSrBf8F32 | VCvtScalef32PkFp4F16 | VCvtScalef32PkFp4Bf16 => 3,
            _ => self.signature().src.len(),
        }
    }

    /// Whether it is a DS opcode with two 8-bit offsets, in elements or in 64 elements.
    pub fn has_two_offsets(self) -> bool {
        use Opcode::*;
        matches!(
            self,
            DsWrite2B32
                | DsWrite2st64B32
                | DsWrite2B64
                | DsWrite2st64B64
                | DsRead2B32
                | DsRead2st64B32
                | DsRead2B64
                | DsRead2st64B64
                | DsWrxchg2RtnB32
                | DsWrxchg2st64RtnB32
                | DsWrxchg2RtnB64
                | DsWrxchg2st64RtnB64
        )
    }
}
