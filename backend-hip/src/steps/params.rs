//! What a launch of a step passes.

use bytemuck::{Pod, Zeroable};

use super::{StepConfig, StepError};

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
    /// The grid for these sizes.
    ///
    /// # Errors
    /// [`StepError::Misaligned`] if A cannot be loaded by vectors of the step's width;
    /// [`StepError::Grid`] past HIP's limits: 2³² − 1 threads along x, 65,536 workgroups along y and z;
    /// and for K within a strip of 2³².
    pub fn launch(&self, config: &StepConfig) -> Result<StepLaunch, StepError> {
        self.check_width(config)?;
        let [threads_x, threads_y] = config.threads();
        let x = u64::from(self.n).div_ceil(config.block[1] as u64);
        let y = u64::from(self.m).div_ceil(config.block[0] as u64);
        for (what, value, limit) in [
            ("threads along x", x * threads_x as u64, u64::from(u32::MAX)),
            ("workgroups along y", y, 65536),
            ("workgroups along z", u64::from(self.batch), 65536),
            // The kernels count along K in 32 bits, up to the end of the last strip.
            (
                "K with its last strip filled",
                u64::from(self.k) + config.k_tile as u64,
                u32::MAX.into(),
            ),
        ] {
            if value > limit {
                return Err(StepError::Grid { what, value, limit });
            }
        }
        Ok(StepLaunch {
            grid: [x as u32, y as u32, self.batch],
            threads: [threads_x as u32, threads_y as u32],
        })
    }

    /// A vector of `load_width` elements of A lies along k and starts at a multiple of its size.
    fn check_width(&self, config: &StepConfig) -> Result<(), StepError> {
        let width = config.load_width;
        if width == 1 {
            return Ok(());
        }
        let misaligned = |what, value, rule| StepError::Misaligned { width, rule, what, value };
        let adjacent = "elements of A that are adjacent along k";
        let aligned = "rows of A that start at a multiple of the vector";
        if self.k > 1 && self.a_col != 1 {
            return Err(misaligned("the column stride of A", self.a_col.into(), adjacent));
        }
        for (what, stride, count) in [
            ("the row stride of A", self.a_row, self.m),
            ("the batch stride of A", self.a_batch, self.batch),
        ] {
            if count > 1 && stride % width as i64 != 0 {
                return Err(misaligned(what, stride.into(), aligned));
            }
        }
        if !self.a.is_multiple_of((width * config.element_bytes()) as u64) {
            return Err(misaligned("the address of A", self.a.into(), aligned));
        }
        Ok(())
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
        let tall = Params { m: u32::MAX, ..params };
        assert!(matches!(
            tall.launch(&config),
            Err(StepError::Grid { value: 33_554_432, limit: 65536, .. })
        ));
        // 13 eight-byte fields, six four-byte ones.
        assert_eq!(size_of::<Params>(), 13 * 8 + 6 * 4);
    }

    #[test]
    fn vectors_need_an_aligned_a() {
        let config = StepConfig::new(Target::Gfx942, Step::Vectorized);
        let good = Params {
            a: 4096,
            a_row: 20,
            a_col: 1,
            a_batch: 400,
            m: 8,
            n: 8,
            k: 18,
            batch: 2,
            ..Params::default()
        };
        assert!(good.launch(&config).is_ok());
        for (params, what) in [
            (Params { a_col: 2, ..good }, "the column stride of A is 2"),
            (Params { a_row: 18, ..good }, "the row stride of A is 18"),
            (Params { a_batch: 402, ..good }, "the batch stride of A is 402"),
            (Params { a: 4104, ..good }, "the address of A is 4104"),
        ] {
            let error = params.launch(&config).expect_err("misaligned").to_string();
            assert!(error.contains(what), "{error}");
            assert!(params.launch(&config.with_load_width(1)).is_ok());
        }
        // One row, one matrix, one column: their strides are never used.
        let single = Params { a_row: 3, a_col: 7, a_batch: 5, m: 1, k: 1, batch: 1, ..good };
        assert!(single.launch(&config).is_ok());
    }
}
