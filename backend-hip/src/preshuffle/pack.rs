//! B in the kernel's layout.
//!
//! ```text
//! [N/16] [K bytes/64] [lane group: 4] [column: 16] [16 bytes]
//! ```
//!
//! A block of 1024 bytes is 16 columns by 64 bytes of K, in the order in which the lanes of a wave
//! load it. With `e` elements in 16 bytes, element (n, k) is element
//! `(n/16)·16·K + (k/e)·16·e + (n mod 16)·e + k mod e`. N is padded to 16 and K to whole strips, with
//! zeros.
//!
//! Four-bit integers are unpacked to 8 bits in registers, so that they follow the order of an 8-bit A:
//! the 16 bytes of group g hold k = 16g to 16g + 15 of the block's first 64, then those of its second
//! 64. Within each eight, byte j of four holds element j low and element 4 + j high: two masks unpack
//! them in order.

use lapidary_core::ElementType;
use rayon::prelude::*;

use super::config::PreshuffleConfig;

/// Columns of a block.
const COLUMNS: usize = 16;
/// Bytes of K a block holds of each column.
const BLOCK_K_BYTES: usize = 64;

/// Why B cannot be packed, or a packed B cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The source is shorter than its shape and strides say.
    #[error(
        "B of {n} columns and K = {k} in {element} reaches element {reached}, the data has {len}"
    )]
    SourceTooShort {
        /// Columns.
        n: usize,
        /// Length along K.
        k: usize,
        /// Element type.
        element: ElementType,
        /// The last element touched.
        reached: u128,
        /// Elements there.
        len: usize,
    },
    /// The packed matrix does not fit the address space.
    #[error("packing B of {n} columns and K = {k} needs more than {} bytes", isize::MAX)]
    TooLarge {
        /// Columns.
        n: usize,
        /// Length along K.
        k: usize,
    },
    /// K is not a whole number of scale blocks.
    #[error("K is {k}, block scales need a multiple of 32")]
    KNotBlocks {
        /// Length along K.
        k: usize,
    },
    /// The packed B does not belong to the kernel.
    #[error("B was packed as {found}, the kernel needs {needed}")]
    OtherLayout {
        /// What it is.
        found: String,
        /// What the kernel reads.
        needed: String,
    },
}

/// B on the host: element (k, n) of matrix `i` is element `i·batch_stride + k·k_stride + n·n_stride`.
///
/// Strides count elements, also where two elements share a byte.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "plain data that callers fill in")]
pub struct SourceB<'a> {
    /// The elements; the low nibble is the first of two.
    pub bytes: &'a [u8],
    /// Their type.
    pub element: ElementType,
    /// Length along K.
    pub k: usize,
    /// Columns.
    pub n: usize,
    /// Matrices.
    pub batch: usize,
    /// Elements from k to k + 1.
    pub k_stride: usize,
    /// Elements from n to n + 1.
    pub n_stride: usize,
    /// Elements from matrix to matrix.
    pub batch_stride: usize,
}

/// What a packed B is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PackedLayout {
    /// Element type.
    pub element: ElementType,
    /// Columns.
    pub n: usize,
    /// Length along K.
    pub k: usize,
    /// Length along K with padding, a multiple of every strip it may be used with.
    pub k_padded: usize,
    /// Matrices.
    pub batch: usize,
}

impl PackedLayout {
    /// Bytes of one padded column.
    #[must_use]
    pub const fn column_bytes(&self) -> usize {
        self.k_padded * self.element.bits() / 8
    }

    /// Bytes of one matrix, or `None` past the address space.
    #[must_use]
    pub fn matrix_bytes(&self) -> Option<usize> {
        self.n.div_ceil(COLUMNS).checked_mul(COLUMNS)?.checked_mul(self.column_bytes())
    }

    /// Byte and bit of element (k, n) of a matrix.
    fn place(&self, k: usize, n: usize) -> (usize, usize) {
        let bits = self.element.bits();
        let (byte, shift) = match self.element {
            ElementType::I4 => {
                // k = 128·block + 64·half + 16·group + i.
                let (half, group, i) = (k % 128 / 64, k % 64 / 16, k % 16);
                (k / 128 * 64 + group * 16 + half * 8 + i / 8 * 4 + i % 4, i % 8 / 4 * 4)
            }
            _ => (k * bits / 8, k * bits % 8),
        };
        let block = n / COLUMNS * (self.column_bytes() / BLOCK_K_BYTES) + byte / BLOCK_K_BYTES;
        let chunk = (byte % BLOCK_K_BYTES / 16) * COLUMNS + n % COLUMNS;
        (block * COLUMNS * BLOCK_K_BYTES + chunk * 16 + byte % 16, shift)
    }

    /// Checks that a kernel reads this layout.
    ///
    /// # Errors
    /// [`PackError::OtherLayout`] with both layouts.
    pub fn check(
        &self,
        config: &PreshuffleConfig,
        k: usize,
        n: usize,
        batch: usize,
    ) -> Result<(), PackError> {
        let fits = self.element == config.b
            && (self.k, self.n, self.batch) == (k, n, batch)
            && self.k_padded.is_multiple_of(config.tile[2]);
        if fits {
            return Ok(());
        }
        Err(PackError::OtherLayout {
            found: self.describe(),
            needed: format!(
                "{} {k}x{n} with K padded to a multiple of {}, batch {batch}",
                config.b, config.tile[2]
            ),
        })
    }

    /// The layout in words, for messages.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} {}x{} with K padded to {}, batch {}",
            self.element, self.k, self.n, self.k_padded, self.batch
        )
    }
}

/// B in the layout of the preshuffle kernel. It carries its layout, and a kernel of another layout
/// refuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedB {
    layout: PackedLayout,
    bytes: Vec<u8>,
}

impl PackedB {
    /// Packs `source` for kernels whose strips are `tile_k` elements, or a divisor of it, long.
    ///
    /// Groups of 16 columns are packed in parallel.
    ///
    /// # Errors
    /// [`PackError::SourceTooShort`] or [`PackError::TooLarge`].
    pub fn pack(source: &SourceB<'_>, tile_k: usize) -> Result<Self, PackError> {
        source.check()?;
        let too_large = PackError::TooLarge { n: source.n, k: source.k };
        let k_padded =
            source.k.max(1).checked_next_multiple_of(tile_k.max(1)).ok_or(too_large.clone())?;
        let layout = PackedLayout {
            element: source.element,
            n: source.n,
            k: source.k,
            k_padded,
            batch: source.batch,
        };
        let total = k_padded
            .checked_mul(source.element.bits())
            .and_then(|_| layout.matrix_bytes()?.checked_mul(source.batch))
            .filter(|&bytes| bytes <= isize::MAX as usize)
            .ok_or(too_large)?;
        let mut bytes = vec![0; total];
        let group_bytes = COLUMNS * layout.column_bytes();
        let groups = source.n.div_ceil(COLUMNS);
        if group_bytes > 0 {
            bytes.par_chunks_mut(group_bytes).enumerate().for_each(|(index, group)| {
                source.pack_group(&layout, index / groups, index % groups, group);
            });
        }
        Ok(Self { layout, bytes })
    }

    /// The layout.
    #[must_use]
    pub const fn layout(&self) -> &PackedLayout {
        &self.layout
    }

    /// The packed bytes, matrix after matrix.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The elements again, matrix after matrix, each column's K elements in a row (n_stride = K,
    /// k_stride = 1), 4-bit elements two a byte.
    #[must_use]
    pub fn unpack(&self) -> Vec<u8> {
        let PackedLayout { element, n, k, batch, .. } = self.layout;
        let bits = element.bits();
        let mut out = vec![0u8; (batch * n * k * bits).div_ceil(8)];
        let matrix = self.layout.matrix_bytes().unwrap_or(0);
        for (index, packed) in self.bytes.chunks(matrix.max(1)).enumerate().take(batch) {
            for column in 0..n {
                for row in 0..k {
                    let at = (index * n + column) * k + row;
                    let (from, shift) = self.layout.place(row, column);
                    if bits == 4 {
                        out[at / 2] |= (packed[from] >> shift & 0xf) << (at % 2 * 4);
                    } else {
                        let size = bits / 8;
                        out[at * size..][..size].copy_from_slice(&packed[from..][..size]);
                    }
                }
            }
        }
        out
    }

    /// Checks that a kernel reads this layout.
    ///
    /// # Errors
    /// [`PackError::OtherLayout`] with both layouts.
    pub fn check(
        &self,
        config: &PreshuffleConfig,
        k: usize,
        n: usize,
        batch: usize,
    ) -> Result<(), PackError> {
        self.layout.check(config, k, n, batch)
    }
}

impl SourceB<'_> {
    fn check(&self) -> Result<(), PackError> {
        if self.k == 0 || self.n == 0 || self.batch == 0 {
            return Ok(());
        }
        let reach = |count: usize, stride: usize| (count as u128 - 1) * stride as u128;
        let reached = reach(self.batch, self.batch_stride)
            + reach(self.k, self.k_stride)
            + reach(self.n, self.n_stride);
        let len = self.bytes.len().saturating_mul(8) / self.element.bits();
        if reached < len as u128 {
            return Ok(());
        }
        Err(PackError::SourceTooShort { n: self.n, k: self.k, element: self.element, reached, len })
    }

    /// Packs columns 16·`group` to 16·`group` + 15 of matrix `index`.
    fn pack_group(&self, layout: &PackedLayout, index: usize, group: usize, out: &mut [u8]) {
        let bits = self.element.bits();
        // Places are relative to the group.
        let local = PackedLayout { n: COLUMNS, ..*layout };
        for column in 0..COLUMNS.min(self.n - group * COLUMNS) {
            let first = index * self.batch_stride + (group * COLUMNS + column) * self.n_stride;
            if self.k_stride == 1 && bits >= 8 {
                let start = first * bits / 8;
                let line = &self.bytes[start..start + self.k * bits / 8];
                for (i, chunk) in line.chunks(16).enumerate() {
                    let (to, _) = local.place(i * 128 / bits, column);
                    out[to..to + chunk.len()].copy_from_slice(chunk);
                }
            } else {
                for k in 0..self.k {
                    let from = first + k * self.k_stride;
                    let (to, shift) = local.place(k, column);
                    if bits == 4 {
                        out[to] |= (self.bytes[from / 2] >> (from % 2 * 4) & 0xf) << shift;
                    } else {
                        let size = bits / 8;
                        out[to..to + size].copy_from_slice(&self.bytes[from * size..][..size]);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preshuffle::OPERANDS;
    use crate::target::Target;
    use proptest::prelude::*;

    fn source(bytes: &[u8], element: ElementType, k: usize, n: usize) -> SourceB<'_> {
        SourceB { bytes, element, k, n, batch: 1, k_stride: 1, n_stride: k, batch_stride: n * k }
    }

    fn bytes(count: usize, seed: u8) -> Vec<u8> {
        (0..count).map(|i| (i as u8).wrapping_mul(151).wrapping_add(seed)).collect()
    }

    proptest! {
        #[test]
        fn packing_round_trips(k in 1usize..300, n in 1usize..40, batch in 1usize..3, pick in 0usize..10, row_major: bool) {
            let element = OPERANDS[pick];
            let data = bytes((batch * n * k * element.bits()).div_ceil(8), 7);
            let (k_stride, n_stride) = if row_major { (n, 1) } else { (1, k) };
            let source = SourceB { bytes: &data, element, k, n, batch, k_stride, n_stride, batch_stride: n * k };
            let packed = PackedB::pack(&source, 128).expect("it fits");
            let back = packed.unpack();
            let get = |data: &[u8], at: usize| match element.bits() {
                4 => vec![data[at / 2] >> (at % 2 * 4) & 0xf],
                bits => data[at * bits / 8..(at + 1) * bits / 8].to_vec(),
            };
            for b in 0..batch {
                for col in 0..n {
                    for row in 0..k {
                        let from = b * n * k + row * k_stride + col * n_stride;
                        prop_assert_eq!(get(&data, from), get(&back, (b * n + col) * k + row));
                    }
                }
            }
        }
    }

    #[test]
    fn places_follow_the_formula() {
        for element in OPERANDS.into_iter().filter(|e| e.bits() >= 8) {
            let size = element.bits() / 8;
            let e = 16 / size;
            let layout = PackedLayout { element, n: 64, k: 256, k_padded: 256, batch: 1 };
            for n in 0..64 {
                for k in 0..256 {
                    let at = n / 16 * 16 * 256 + k / e * 16 * e + n % 16 * e + k % e;
                    assert_eq!(layout.place(k, n), (at * size, 0), "{element} {k} {n}");
                }
            }
        }
    }

    #[test]
    fn padding_is_zero() {
        let data = vec![0xff; 17 * 5];
        let packed = PackedB::pack(&source(&data, ElementType::I8, 17, 5), 64).expect("it fits");
        assert_eq!(packed.bytes().len(), 16 * 64);
        assert_eq!(packed.bytes().iter().filter(|&&b| b == 0xff).count(), 17 * 5);
    }

    #[test]
    fn another_layout_is_refused() {
        let data = bytes(64 * 16, 1);
        let packed = PackedB::pack(&source(&data, ElementType::I8, 64, 16), 64).expect("it fits");
        let config = PreshuffleConfig::new(Target::Gfx942, ElementType::I8, [64, 256, 128]);
        assert!(matches!(packed.check(&config, 64, 16, 1), Err(PackError::OtherLayout { .. })));
        let packed = PackedB::pack(&source(&data, ElementType::I8, 64, 16), 128).expect("it fits");
        packed.check(&config, 64, 16, 1).expect("the layout fits");
        let other = PreshuffleConfig::new(Target::Gfx942, ElementType::F8E4M3Fnuz, [64, 256, 128]);
        let message = packed.check(&other, 64, 16, 1).expect_err("another type").to_string();
        assert!(message.contains("i8") && message.contains("e4m3fnuz"), "{message}");
    }

    #[test]
    fn a_short_source_is_refused() {
        let data = bytes(100, 1);
        assert!(matches!(
            PackedB::pack(&source(&data, ElementType::F16, 16, 4), 32),
            Err(PackError::SourceTooShort { reached: 63, len: 50, .. })
        ));
    }
}
