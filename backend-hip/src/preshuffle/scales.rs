//! The block scales of B in the kernel's layout.
//!
//! ```text
//! [N/64] [K/128] [lane: 64] [4 bytes]
//! ```
//!
//! Byte q of lane (group g, column r) is the scale of column 16q + r for k = 32g to 32g + 31: the
//! scaled MFMA takes the scale of its k-block g and row r from lane 16g + r, and picks the byte.

use super::pack::{PackError, PackedLayout};

/// e8m0 scales of B, one for each 32 elements along K, packed for the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedScales {
    bytes: Vec<u8>,
}

/// The scale that stands where there is no element; its factor, 2⁻¹²⁷, meets zeros only.
const PADDING: u8 = 0;

impl PackedScales {
    /// Packs `scales`, where the scale of column `n` and block `b` of matrix `i` is
    /// `scales[(i·N + n)·(K/32) + b]`, for a B of the given layout.
    ///
    /// # Errors
    /// [`PackError::KNotBlocks`], or [`PackError::SourceTooShort`].
    pub fn pack(scales: &[u8], layout: &PackedLayout) -> Result<Self, PackError> {
        let PackedLayout { n, k, batch, element, .. } = *layout;
        if !k.is_multiple_of(32) {
            return Err(PackError::KNotBlocks { k });
        }
        let blocks = k / 32;
        let count = batch * n * blocks;
        if scales.len() < count {
            return Err(PackError::SourceTooShort {
                n,
                k,
                element,
                reached: count as u128 - 1,
                len: scales.len(),
            });
        }
        let (groups, steps) = (n.div_ceil(64), layout.k_padded.div_ceil(128));
        let mut bytes = vec![PADDING; batch * groups * steps * 256];
        for (line, row) in scales[..count].chunks(blocks.max(1)).enumerate() {
            let (matrix, column) = (line / n, line % n);
            for (block, &scale) in row.iter().enumerate() {
                let word = (matrix * groups + column / 64) * steps + block / 4;
                let lane = block % 4 * 16 + column % 16;
                bytes[word * 256 + lane * 4 + column % 64 / 16] = scale;
            }
        }
        Ok(Self { bytes })
    }

    /// The packed bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lapidary_core::ElementType;

    #[test]
    fn every_scale_lies_where_its_lane_looks() {
        let layout =
            PackedLayout { element: ElementType::F4E2M1, n: 70, k: 160, k_padded: 256, batch: 2 };
        let scales: Vec<u8> = (0..2 * 70 * 5).map(|i| (i % 253) as u8 + 1).collect();
        let packed = PackedScales::pack(&scales, &layout).expect("whole blocks");
        assert_eq!(packed.bytes().len(), 2 * 2 * 2 * 256);
        for matrix in 0..2 {
            for n in 0..70 {
                for block in 0..5 {
                    let dword =
                        ((matrix * 2 + n / 64) * 2 + block / 4) * 64 + block % 4 * 16 + n % 16;
                    let byte = packed.bytes()[dword * 4 + n % 64 / 16];
                    assert_eq!(byte, scales[(matrix * 70 + n) * 5 + block]);
                }
            }
        }
        let padded = packed.bytes().iter().filter(|&&b| b == PADDING).count();
        assert_eq!(padded, packed.bytes().len() - scales.len());
    }

    #[test]
    fn k_must_be_whole_blocks() {
        let layout =
            PackedLayout { element: ElementType::F4E2M1, n: 1, k: 33, k_padded: 128, batch: 1 };
        assert_eq!(PackedScales::pack(&[0; 9], &layout), Err(PackError::KNotBlocks { k: 33 }));
    }
}
