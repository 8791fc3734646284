//! A pair of policies as plain data: what planners choose, tests read and emitters write out.

use super::compute::{self, ComputePolicy, Multiply};
use super::tile::{Staging, TileAction, TileOrder, TilePolicy};
use crate::element::ElementType;
use crate::error::Error;

/// The largest workgroup any API here allows.
pub(super) const MAX_WORKGROUP_INVOCATIONS: usize = 1024;

/// A [`TilePolicy`] as data. Sizes are in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TileConfig {
    /// The policy's name.
    pub name: &'static str,
    /// Pairs of tiles in workgroup memory.
    pub num_buffers: usize,
    /// Rows of C a workgroup computes.
    pub block_tile_m: usize,
    /// Columns of C a workgroup computes.
    pub block_tile_n: usize,
    /// Length of a strip along K.
    pub k_tile_size: usize,
    /// Elements of A a load fetches.
    pub load_width: usize,
    /// Where fragments come from.
    pub staging: Staging,
    /// The order of a tile's elements.
    pub order: TileOrder,
    /// Unused elements between one line of a tile and the next.
    pub pad: usize,
    /// Groups of threads that each sum their own steps along K.
    pub k_groups: usize,
    /// Actions before the loop.
    pub prologue: &'static [TileAction],
    /// Actions at the top of an iteration.
    pub prefetch: &'static [TileAction],
    /// Actions before a strip is read.
    pub acquire: &'static [TileAction],
    /// Actions after a strip was read.
    pub release: &'static [TileAction],
}

/// A [`ComputePolicy`] as data. Sizes are in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ComputeConfig {
    /// The policy's name.
    pub name: &'static str,
    /// Rows of C a thread accumulates.
    pub thread_tile_m: usize,
    /// Columns of C a thread accumulates.
    pub thread_tile_n: usize,
    /// Lanes of a wave that own different outputs.
    pub effective_lanes: usize,
    /// Steps along K a multiply-accumulate consumes.
    pub k_step: usize,
    /// The multiply-accumulate.
    pub multiply: Multiply,
    /// Element type of the fragments, and of the tiles they are read from.
    pub element: ElementType,
    /// Element type of the accumulator.
    pub accumulator: ElementType,
}

/// A tiled kernel: data movement and arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct KernelConfig {
    /// Data movement.
    pub tile: TileConfig,
    /// Arithmetic.
    pub compute: ComputeConfig,
}

impl KernelConfig {
    /// The configuration of a pair of policies.
    ///
    /// Every rule is asserted when the pair is compiled, so a pair that breaks one does not build:
    ///
    /// ```
    /// use lapidary_core::policy::{KernelConfig, ScalarFma, SoftwareDoubleBuffer};
    /// let config = KernelConfig::of::<SoftwareDoubleBuffer<128, 128, 16>, ScalarFma<8, 8>>();
    /// assert_eq!(config.workgroup_threads(), 256);
    /// assert_eq!(config.workgroup_bytes(), 32 * 1024);
    /// ```
    ///
    /// ```compile_fail
    /// use lapidary_core::policy::{KernelConfig, ScalarFma, SoftwareDoubleBuffer};
    /// // 128 is not a multiple of 7.
    /// let config = KernelConfig::of::<SoftwareDoubleBuffer<128, 128, 16>, ScalarFma<7, 8>>();
    /// ```
    ///
    /// The assertions belong to the monomorphised function: `cargo build` and `cargo test` evaluate
    /// them, `cargo check` does not.
    #[must_use]
    pub fn of<T: TilePolicy, C: ComputePolicy>() -> Self {
        const {
            assert!(
                T::NUM_BUFFERS == 1 || T::NUM_BUFFERS == 2,
                "NUM_BUFFERS must be 1 or 2: a strip is multiplied from one buffer while at most one other is filled"
            );
            assert!(
                T::BLOCK_TILE_M > 0 && T::BLOCK_TILE_N > 0,
                "BLOCK_TILE_M and BLOCK_TILE_N must not be zero: a workgroup computes at least one output"
            );
            assert!(
                T::K_TILE_SIZE > 0,
                "K_TILE_SIZE must not be zero: the loop over K advances by it"
            );
            assert!(
                T::K_GROUPS == 1 || (T::K_GROUPS > 0 && T::K_GROUPS.is_multiple_of(2)),
                "K_GROUPS must be 1 or even: half of the groups along K hands its sums to the other"
            );
            assert!(
                C::THREAD_TILE_M > 0 && C::THREAD_TILE_N > 0,
                "THREAD_TILE_M and THREAD_TILE_N must not be zero: a thread computes at least one output"
            );
            assert!(
                C::EFFECTIVE_LANES > 0,
                "EFFECTIVE_LANES must not be zero: some lane has to own an output"
            );
            assert!(
                T::LOAD_WIDTH == 1 || T::LOAD_WIDTH == 2 || T::LOAD_WIDTH == 4,
                "LOAD_WIDTH must be 1, 2 or 4: those are the vector widths a load has"
            );
            assert!(
                T::K_TILE_SIZE.is_multiple_of(T::LOAD_WIDTH),
                "K_TILE_SIZE must be a multiple of LOAD_WIDTH: a vector load may not straddle two strips"
            );
            assert!(
                C::K_STEP > 0 && T::K_TILE_SIZE.is_multiple_of(C::K_STEP),
                "K_TILE_SIZE must be a multiple of K_STEP: a strip is consumed in whole steps"
            );
            assert!(
                matches!(T::ORDER, TileOrder::KOuter) == matches!(C::ORDER, TileOrder::KOuter),
                "the TilePolicy must lay tiles out in the ORDER its ComputePolicy reads"
            );
            assert!(
                !C::MULTIPLY.is_vector()
                    || (C::THREAD_TILE_M.is_multiple_of(4)
                        && C::THREAD_TILE_N.is_multiple_of(4)
                        && T::K_TILE_SIZE.is_multiple_of(4)
                        && T::PAD.is_multiple_of(4)),
                "THREAD_TILE_M, THREAD_TILE_N, K_TILE_SIZE and PAD must be multiples of 4: the policy computes in vectors of four"
            );
            assert!(
                !matches!(C::MULTIPLY, Multiply::CooperativeMatrix)
                    || (C::THREAD_TILE_M.is_multiple_of(16)
                        && (C::THREAD_TILE_N * C::EFFECTIVE_LANES).is_multiple_of(32)
                        && T::BLOCK_TILE_N.is_multiple_of(C::THREAD_TILE_N * C::EFFECTIVE_LANES)
                        && T::NUM_BUFFERS == 1),
                "a subgroup's tile must consist of 16x16 matrices, in one pair of tiles, and whole subgroup tiles cover the block"
            );
            assert!(
                !C::MULTIPLY.is_matrix() || C::EFFECTIVE_LANES == 64,
                "EFFECTIVE_LANES must be 64: the lanes of a wave share a matrix instruction's outputs"
            );
            assert!(
                !C::MULTIPLY.is_matrix()
                    || (T::BLOCK_TILE_M.is_multiple_of(4 * C::THREAD_TILE_M)
                        && T::BLOCK_TILE_N.is_multiple_of(compute::MATRIX_TILE * C::THREAD_TILE_N)),
                "BLOCK_TILE_M and BLOCK_TILE_N must be multiples of the wave's WM and WN: whole waves cover the block"
            );
            assert!(
                T::BLOCK_TILE_M.is_multiple_of(C::THREAD_TILE_M),
                "BLOCK_TILE_M must be a multiple of THREAD_TILE_M: whole thread tiles cover the block"
            );
            assert!(
                T::BLOCK_TILE_N.is_multiple_of(C::THREAD_TILE_N),
                "BLOCK_TILE_N must be a multiple of THREAD_TILE_N: whole thread tiles cover the block"
            );
            assert!(
                (T::BLOCK_TILE_M / C::THREAD_TILE_M)
                    * (T::BLOCK_TILE_N / C::THREAD_TILE_N)
                    * T::K_GROUPS
                    <= MAX_WORKGROUP_INVOCATIONS,
                "a workgroup may not have more than 1024 invocations: use larger thread tiles or smaller blocks"
            );
        }
        Self {
            tile: TileConfig {
                name: T::NAME,
                num_buffers: T::NUM_BUFFERS,
                block_tile_m: T::BLOCK_TILE_M,
                block_tile_n: T::BLOCK_TILE_N,
                k_tile_size: T::K_TILE_SIZE,
                load_width: T::LOAD_WIDTH,
                staging: T::STAGING,
                order: T::ORDER,
                pad: T::PAD,
                k_groups: T::K_GROUPS,
                prologue: T::prologue(),
                prefetch: T::prefetch(),
                acquire: T::acquire(),
                release: T::release(),
            },
            compute: ComputeConfig {
                name: C::NAME,
                thread_tile_m: C::THREAD_TILE_M,
                thread_tile_n: C::THREAD_TILE_N,
                effective_lanes: C::EFFECTIVE_LANES,
                k_step: C::K_STEP,
                multiply: C::MULTIPLY,
                element: compute::element::<C>(),
                accumulator: compute::accumulator::<C>(),
            },
        }
    }

    /// Threads of a workgroup: one for each thread tile of the block tile, in each group along K.
    #[must_use]
    pub const fn workgroup_threads(&self) -> usize {
        self.threads_n()
            * (self.tile.block_tile_m / self.compute.thread_tile_m)
            * self.tile.k_groups
    }

    /// Threads along N.
    #[must_use]
    pub const fn threads_n(&self) -> usize {
        self.tile.block_tile_n / self.compute.thread_tile_n
    }

    /// Bytes of workgroup memory: NUM_BUFFERS pairs of tiles of the fragments' element type, each line
    /// PAD elements longer than it has elements; 0 for direct loads (a backend whose direct loads fill
    /// tiles counts those itself). Integers packed by fours take a quarter. Lines that cooperative
    /// matrices read are padded by as many bytes as lines of f32. Groups along K need room for the sums
    /// of half of them instead.
    #[must_use]
    pub const fn workgroup_bytes(&self) -> usize {
        let tile = &self.tile;
        let (m, n, k) = (tile.block_tile_m, tile.block_tile_n, tile.k_tile_size);
        if let Multiply::CooperativeMatrix = self.compute.multiply {
            let pad = 2 * tile.pad;
            return tile.num_buffers * 2 * (m * (k + pad) + k * (n + pad));
        }
        if tile.k_groups > 1 {
            return tile.k_groups / 2 * m * n * self.compute.accumulator.size();
        }
        let packed = if let Multiply::VectorDot4 = self.compute.multiply { 4 } else { 1 };
        let k = k / packed;
        let elements = match (tile.staging, tile.order) {
            (Staging::Direct, _) => 0,
            (Staging::Workgroup, TileOrder::KInner) => (m + n) * (k + tile.pad),
            (Staging::Workgroup, TileOrder::KOuter) => (m + n + 2 * tile.pad) * k,
        };
        tile.num_buffers * elements * self.compute.element.size()
    }

    /// The same kernel with its K strip halved until the tiles fit `limit` bytes of workgroup memory.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] with the smallest tile's bytes if even that does not fit.
    pub fn fit_workgroup_memory(mut self, limit: usize) -> Result<Self, Error> {
        while self.workgroup_bytes() > limit {
            let half = self.tile.k_tile_size / 2;
            let legal = self.tile.k_tile_size.is_multiple_of(2)
                && half > 0
                && half.is_multiple_of(self.tile.load_width)
                && half.is_multiple_of(self.compute.k_step);
            if !legal {
                return Err(Error::LimitExceeded {
                    what: "bytes of workgroup memory of the smallest tile",
                    requested: self.workgroup_bytes() as u128,
                    limit: limit as u128,
                });
            }
            self.tile.k_tile_size = half;
        }
        Ok(self)
    }

    /// `tile/compute BMxBNxKT TMxTN`, the name a plan reports.
    #[must_use]
    pub fn name(&self) -> String {
        let (t, c) = (&self.tile, &self.compute);
        let width = if t.load_width > 1 { format!(" vec{}", t.load_width) } else { String::new() };
        format!(
            "{}/{} {}x{}x{} {}x{}{width}",
            t.name,
            c.name,
            t.block_tile_m,
            t.block_tile_n,
            t.k_tile_size,
            c.thread_tile_m,
            c.thread_tile_n
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        DirectLoad, RegisterPrefetch, ScalarFma, SingleBuffer, SoftwareDoubleBuffer, Strip,
        VectorFma,
    };
    use super::*;

    #[test]
    fn tutorial_footprints() {
        type Fma = ScalarFma<8, 8>;
        assert_eq!(KernelConfig::of::<SingleBuffer<128, 128, 16>, Fma>().workgroup_bytes(), 16384);
        assert_eq!(
            KernelConfig::of::<SoftwareDoubleBuffer<128, 128, 16>, Fma>().workgroup_bytes(),
            32768
        );
        assert_eq!(KernelConfig::of::<DirectLoad<128, 128, 16>, Fma>().workgroup_bytes(), 0);
    }

    #[test]
    fn strips_shrink_to_the_limit_and_no_further_than_the_load_width() {
        let double = KernelConfig::of::<SoftwareDoubleBuffer<128, 128, 16, 4>, ScalarFma<8, 8>>();
        let fitted = double.fit_workgroup_memory(16352).expect("4-deep strips fit");
        assert_eq!(fitted.tile.k_tile_size, 4);
        assert!(matches!(
            double.fit_workgroup_memory(8000),
            Err(Error::LimitExceeded { requested: 8192, limit: 8000, .. })
        ));
    }

    #[test]
    fn hooks_cover_every_strip_once() {
        // Replays the loop for several strip counts and records which strips get loaded.
        for config in [
            KernelConfig::of::<SingleBuffer<128, 128, 16>, ScalarFma<8, 8>>(),
            KernelConfig::of::<SoftwareDoubleBuffer<128, 128, 16>, ScalarFma<8, 8>>(),
            KernelConfig::of::<RegisterPrefetch<128, 128, 16>, VectorFma<8, 16>>(),
        ] {
            for strips in 1..6 {
                let mut loaded = Vec::new();
                let mut run = |actions: &[TileAction], t: usize| {
                    for action in actions {
                        match action {
                            TileAction::Load(Strip::First) | TileAction::Commit(Strip::First) => {
                                loaded.push(0);
                            }
                            TileAction::Load(Strip::Current) => loaded.push(t),
                            TileAction::Load(Strip::Next) | TileAction::Commit(Strip::Next)
                                if t + 1 < strips =>
                            {
                                loaded.push(t + 1);
                            }
                            _ => {}
                        }
                    }
                };
                run(config.tile.prologue, 0);
                for t in 0..strips {
                    run(config.tile.prefetch, t);
                    run(config.tile.acquire, t);
                    run(config.tile.release, t);
                }
                assert_eq!(loaded, (0..strips).collect::<Vec<_>>());
            }
        }
    }
}
