//! What a launch passes to the kernel.

use bytemuck::{Pod, Zeroable};

use super::config::{PreshuffleConfig, THREADS};
use super::counts::{MAX_WORKGROUPS, TooMany, count, workgroups};
use super::rules::ConfigError;

/// The kernel's only argument, as `preshuffle/args.h` declares it. Pointers are device addresses;
/// those a configuration does not use may be 0. Strides are in bytes.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
#[allow(clippy::exhaustive_structs, reason = "a binary interface")]
#[allow(missing_docs, reason = "documented field by field in preshuffle/args.h")]
pub struct Args {
    pub a: u64,
    pub b: u64,
    pub c: u64,
    pub row_scale: u64,
    pub col_scale: u64,
    pub bias: u64,
    pub a_scale: u64,
    pub b_scale: u64,
    pub workspace: u64,
    pub a_stride: u64,
    pub c_stride: u64,
    pub a_batch: u64,
    pub b_batch: u64,
    pub c_batch: u64,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub k_bytes_b: u32,
    pub tiles_m: u32,
    pub tiles_n: u32,
    pub tiles_k: u32,
    pub splits: u32,
    pub alpha: u32,
    pub beta: u32,
}

/// The size of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a grid and a workgroup")]
pub struct Launch {
    /// Workgroups: tiles of C, matrices of the batch, ranges of K.
    pub grid: [u32; 3],
    /// Threads of a workgroup.
    pub threads: u32,
}

impl Args {
    /// Fills in sizes and tile counts; pointers and strides stay 0.
    ///
    /// `k_bytes_b` is the padded length of a packed column in bytes.
    ///
    /// # Errors
    /// [`TooMany`] if a size leaves the kernel's 31 bits.
    pub fn sizes(
        config: &PreshuffleConfig,
        [m, n, k]: [usize; 3],
        k_bytes_b: usize,
        splits: usize,
    ) -> Result<Self, TooMany> {
        let [tile_m, tile_n, tile_k] = config.tile;
        let to = |what, x| count(what, x, i32::MAX as u32);
        Ok(Self {
            m: to("M", m)?,
            n: to("N", n)?,
            k: to("K", k)?,
            k_bytes_b: to("bytes of a packed column of B", k_bytes_b)?,
            tiles_m: to("tiles along M", m.div_ceil(tile_m))?,
            tiles_n: to("tiles along N", n.div_ceil(tile_n))?,
            tiles_k: to("strips along K", k.div_ceil(tile_k))?,
            splits: to("ranges of K", splits)?,
            ..Self::default()
        })
    }

    /// Checks that the 32-bit offsets within a workgroup's part of each operand reach its end.
    ///
    /// A workgroup addresses its rows of A and C, each of its waves its columns of B, from a 64-bit
    /// base, so matrices may be of any size; rows may not be arbitrarily far apart.
    ///
    /// # Errors
    /// [`ConfigError::Span`] for the first operand past 2³¹ bytes.
    pub fn check_spans(&self, config: &PreshuffleConfig) -> Result<(), ConfigError> {
        let [tile_m, tile_n, _] = config.tile.map(|x| x as u128);
        let rows = tile_m.min(u128::from(self.m));
        let limit = 1 << 31;
        let workspace = u128::from(self.n).next_multiple_of(4) * 4;
        let spans = [
            ("bytes from a tile's first row of A to its end", rows * u128::from(self.a_stride)),
            ("bytes from a tile's first row of C to its end", rows * u128::from(self.c_stride)),
            ("bytes of a wave's columns of B", tile_n / 4 * u128::from(self.k_bytes_b)),
            ("bytes of a tile's rows of sums", if config.split_k { rows * workspace } else { 0 }),
            (
                "strips along K times ranges of K",
                u128::from(self.tiles_k) * (u128::from(self.splits) + 1),
            ),
        ];
        match spans.into_iter().find(|&(_, span)| span >= limit) {
            Some((what, requested)) => Err(ConfigError::Span { what, requested, limit }),
            None => Ok(()),
        }
    }

    /// The grid for these sizes.
    ///
    /// # Errors
    /// [`TooMany`] past what a launch can count: 2³² − 1 threads along x, and HIP's 65536 workgroups
    /// along y (the batch) and z (ranges of K).
    pub fn launch(&self, batch: usize) -> Result<Launch, TooMany> {
        let threads = THREADS as u32;
        let items = u128::from(self.tiles_m) * u128::from(self.tiles_n) * u128::from(threads);
        let tiles = workgroups("threads of the product's launch, 256 a tile of C", items, threads)?;
        let batch = count("matrices of a launch", batch, MAX_WORKGROUPS)?;
        let splits = count("ranges of K", self.splits as usize, MAX_WORKGROUPS)?;
        Ok(Launch { grid: [tiles, batch, splits], threads })
    }
}

impl Args {
    /// Bytes of the workspace that split-K needs: raw sums of every range, rows padded to four.
    #[must_use]
    pub fn workspace_bytes(&self, batch: usize) -> u128 {
        let row = u128::from(self.n).next_multiple_of(4) * 4;
        batch as u128 * u128::from(self.splits) * u128::from(self.m) * row
    }

    /// The grid of the second pass of split-K: a thread for four elements of C.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    pub fn reduce_launch(&self, batch: usize) -> Result<Launch, TooMany> {
        let threads = THREADS as u32;
        let quads = u128::from(self.m) * u128::from(self.n).div_ceil(4);
        let blocks =
            workgroups("threads that add ranges of K, one for 4 elements", quads, threads)?;
        let batch = count("matrices of a launch", batch, MAX_WORKGROUPS)?;
        Ok(Launch { grid: [blocks, batch, 1], threads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;
    use lapidary_core::ElementType;

    #[test]
    fn the_binary_interface() {
        // Nine pointers, five 64-bit strides, ten 32-bit numbers, no padding.
        assert_eq!(size_of::<Args>(), 9 * 8 + 5 * 8 + 10 * 4);
        assert_eq!(core::mem::offset_of!(Args, m), 112);
    }

    #[test]
    fn rows_too_far_apart_are_refused_with_the_span() {
        let config = PreshuffleConfig::new(Target::Gfx942, ElementType::F8E4M3Fnuz, [64, 256, 128]);
        let mut args = Args::sizes(&config, [100_000, 100_000, 8320], 8320, 1).expect("it fits");
        (args.a_stride, args.c_stride) = (8320, 400_000);
        args.check_spans(&config).expect("C has 40 GB, a tile's rows span 25.6 MB");
        args.a_stride = 1 << 25;
        assert!(matches!(
            args.check_spans(&config),
            Err(ConfigError::Span { requested: 0x8000_0000, .. })
        ));
    }

    #[test]
    fn the_worked_example_has_1600_workgroups() {
        let config = PreshuffleConfig::new(Target::Gfx942, ElementType::F8E4M3Fnuz, [64, 256, 128]);
        let args = Args::sizes(&config, [5120, 5120, 8320], 8320, 1).expect("it fits");
        assert_eq!((args.tiles_m, args.tiles_n, args.tiles_k), (80, 20, 65));
        assert_eq!(args.launch(1).expect("it fits").grid, [1600, 1, 1]);
        let error = Args::sizes(&config, [1 << 32, 1, 1], 128, 1).expect_err("M is too long");
        assert_eq!(error.to_string(), "M is 4294967296, the limit is 2147483647");
        // 2^24 workgroups of 256 threads are one thread too many.
        let large = Args::sizes(&config, [64 << 12, 256 << 12, 128], 128, 1).expect("it fits");
        assert!(matches!(
            large.launch(1),
            Err(TooMany { requested: 0x1_0000_0000, limit: 0xffff_ffff, .. })
        ));
    }
}
