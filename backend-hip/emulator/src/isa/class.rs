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
