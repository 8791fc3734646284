//! What a launch of a step passes.

use bytemuck::{Pod, Zeroable};

use super::StepConfig;

/// A step's only argument, as `steps/common.h` declares it. Pointers are device addresses, strides
/// count elements.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
#[allow(clippy::exhaustive_structs, reason = "a binary interface")]
#[allow(missing_docs, reason = "documented field by field in steps/common.h")]
pub struct Params {
    pub a: u64,
    pub b: u64,
    pub c: u64,
    pub bias: u64,
    pub a_row: i64,
    pub a_col: i64,
    pub a_batch: i64,
    pub b_row: i64,
    pub b_col: i64,
    pub b_batch: i64,
    pub c_row: i64,
    pub c_col: i64,
    pub c_batch: i64,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub batch: u32,
    pub alpha: f32,
    pub beta: f32,
}

/// The size of a step's launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a grid and a workgroup")]
pub struct StepLaunch {
    /// Workgroups along N, along M, and matrices of the batch.
    pub grid: [u32; 3],
    /// Threads of a workgroup along x and y.
    pub threads: [u32; 2],
}

impl Params {
    /// The grid for these sizes, or `None` past HIP's limits: 2³² − 1 threads along x, 65536
    /// workgroups along y and z.
    #[must_use]
    pub fn launch(&self, config: &StepConfig) -> Option<StepLaunch> {
        let [threads_x, threads_y] = config.threads();
        let x = u64::from(self.n).div_ceil(config.block[1] as u64);
        let y = u64::from(self.m).div_ceil(config.block[0] as u64);
        let fits = x * threads_x as u64 <= u64::from(u32::MAX) && y <= 65536 && self.batch <= 65536;
        fits.then_some(StepLaunch {
            grid: [x as u32, y as u32, self.batch],
            threads: [threads_x as u32, threads_y as u32],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::Step;
    use crate::target::Target;

    #[test]
    fn grids_cover_c_and_stay_within_the_limits() {
        let config = StepConfig::new(Target::Gfx942, Step::RegisterTile);
        let params = Params { m: 129, n: 128, k: 1, batch: 3, ..Params::default() };
        let launch = params.launch(&config).expect("it fits");
        assert_eq!((launch.grid, launch.threads), ([1, 2, 3], [256, 1]));
        assert!(Params { m: u32::MAX, ..params }.launch(&config).is_none());
        // 13 eight-byte fields, six four-byte ones.
        assert_eq!(size_of::<Params>(), 13 * 8 + 6 * 4);
    }
}
