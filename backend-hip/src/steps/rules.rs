//! What a step demands of its sizes and its target.

use super::{Arithmetic, Step, StepConfig, TileMovement};
use crate::target::Target;

/// A step breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The target lacks what the step needs.
    #[error("{step} needs {needs}, the target is {target}")]
    Target {
        /// The step.
        step: String,
        /// What it needs.
        needs: &'static str,
        /// The target.
        target: Target,
    },
    /// A size does not fit another.
    #[error("{what} is {value}: {rule}")]
    Size {
        /// Which size.
        what: &'static str,
        /// Its value.
        value: usize,
        /// The rule.
        rule: &'static str,
    },
    /// The tiles exceed the target's LDS.
    #[error("the tiles take {requested} bytes of LDS, a workgroup has at most {limit} on {target}")]
    Lds {
        /// Bytes that the tiles take.
        requested: usize,
        /// Bytes that a workgroup may have.
        limit: usize,
        /// The target.
        target: Target,
    },
    /// A policy that this backend has no kernel for.
    #[error("there is no HIP kernel for the policies {policies}: {reason}")]
    Policies {
        /// Their names.
        policies: String,
        /// What the kernel cannot do.
        reason: String,
    },
    /// A cannot be loaded by vectors.
    #[error("loads of {width} elements need {rule}, {what} is {value}")]
    Misaligned {
        /// Elements a load.
        width: usize,
        /// The rule.
        rule: &'static str,
        /// What breaks it.
        what: &'static str,
        /// Its value.
        value: i128,
    },
    /// A launch past a limit.
    #[error("{what} would be {value}, the limit is {limit}")]
    Grid {
        /// Which size.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The most there may be.
        limit: u64,
    },
}

impl StepConfig {
    pub(super) fn validate(&self) -> Result<(), StepError> {
        let size = |ok: bool, what, value, rule| {
            if ok { Ok(()) } else { Err(StepError::Size { what, value, rule }) }
        };
        let [threads_x, threads_y] = self.threads();
        let threads = threads_x.saturating_mul(threads_y);
        size(
            self.thread.iter().all(|&t| t > 0)
                && self.block.iter().zip(&self.thread).all(|(b, t)| *b > 0 && b.is_multiple_of(*t)),
            "block tile",
            self.block[0],
            "it must be a positive multiple of the thread tile, along M and along N",
        )?;
        size(
            (1..=1024).contains(&threads),
            "threads of a workgroup",
            threads,
            "a workgroup has 1 to 1024",
        )?;
        size(self.k_tile > 0, "K strip", self.k_tile, "it must not be zero")?;
        let (requested, limit) = (self.lds_bytes(), self.target.lds_bytes() as usize);
        if requested > limit {
            return Err(StepError::Lds { requested, limit, target: self.target });
        }
        match self.step {
            Step::WorkgroupTile => size(
                self.k_tile <= self.block[0].min(self.block[1]),
                "K strip",
                self.k_tile,
                "each thread loads one element of each tile, so it may not exceed the block",
            ),
            Step::Buffered { buffers } => {
                size(matches!(buffers, 1 | 2), "buffers", buffers as usize, "there are 1 or 2")
            }
            Step::Vectorized | Step::Occupancy(_) => self.validate_width(),
            Step::Generic(movement, arithmetic) => self.validate_generic(movement, arithmetic),
            Step::Naive | Step::RegisterTile => Ok(()),
        }
    }

    fn validate_width(&self) -> Result<(), StepError> {
        let fits =
            matches!(self.load_width, 1 | 2 | 4) && self.k_tile.is_multiple_of(self.load_width);
        if fits {
            return Ok(());
        }
        Err(StepError::Size {
            what: "load width",
            value: self.load_width,
            rule: "it is 1, 2 or 4 and divides the K strip",
        })
    }

    fn validate_generic(
        &self,
        movement: TileMovement,
        arithmetic: Arithmetic,
    ) -> Result<(), StepError> {
        let needs =
            |needs| Err(StepError::Target { step: self.to_string(), needs, target: self.target });
        if arithmetic.is_matrix() && !self.target.has_preshuffle() {
            return needs("the matrix cores of gfx942 or gfx950");
        }
        if arithmetic == Arithmetic::MfmaXf32 && self.target != Target::Gfx942 {
            return needs("the xf32 instructions of gfx942");
        }
        let size = |what, value, rule| Err(StepError::Size { what, value, rule });
        if movement == TileMovement::DirectLoad {
            if self.target.wave() != 64 {
                return needs("the direct-to-LDS loads of CDNA");
            }
            if arithmetic.element_bytes() != 4 {
                return needs("4-byte elements: a lane of a direct load moves four bytes");
            }
            if self.load_width != 1 {
                return size(
                    "load width",
                    self.load_width,
                    "a lane of a direct load moves one element",
                );
            }
            if let Some(side) =
                self.block.into_iter().find(|side| !(side * self.k_tile).is_multiple_of(64))
            {
                return size(
                    "block tile",
                    side,
                    "a wave of a direct load fills 64 elements of a tile at a time",
                );
            }
        }
        if !self.k_tile.is_multiple_of(arithmetic.k_step()) {
            return size(
                "K strip",
                self.k_tile,
                "it must be a multiple of the steps along K that the arithmetic consumes at a time",
            );
        }
        if arithmetic.is_matrix() {
            for (side, thread, lanes) in
                [(self.block[0], self.thread[0], 4), (self.block[1], self.thread[1], 16)]
            {
                if !(thread * lanes).is_multiple_of(16) || !side.is_multiple_of(thread * lanes) {
                    return size(
                        "block tile",
                        side,
                        "whole waves cover it, each with 4 times the thread tile's rows and 16 times its \
                         columns, in blocks of 16x16",
                    );
                }
            }
        }
        self.validate_width()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrix_cores_are_asked_for_where_they_are() {
        let refused = |target, movement, arithmetic| {
            StepConfig::new(target, Step::Generic(movement, arithmetic))
                .request()
                .expect_err("refused")
        };
        let message =
            refused(Target::Gfx1100, TileMovement::SingleBuffer, Arithmetic::MfmaF32).to_string();
        assert!(message.contains("gfx1100") && message.lines().count() == 1, "{message}");
        for (target, movement, arithmetic) in [
            (Target::Gfx90a, TileMovement::SingleBuffer, Arithmetic::MfmaF16),
            (Target::Gfx950, TileMovement::SingleBuffer, Arithmetic::MfmaXf32),
            (Target::Gfx1201, TileMovement::DirectLoad, Arithmetic::ScalarFma),
            (Target::Gfx942, TileMovement::DirectLoad, Arithmetic::MfmaF16),
        ] {
            assert!(matches!(refused(target, movement, arithmetic), StepError::Target { .. }));
        }
    }

    #[test]
    fn sizes_are_checked() {
        let mut config = StepConfig::new(Target::Gfx942, Step::RegisterTile);
        config.block = [100, 128];
        assert!(matches!(config.request(), Err(StepError::Size { value: 100, .. })));
        let mut config = StepConfig::new(Target::Gfx942, Step::Buffered { buffers: 2 });
        config.k_tile = 64;
        assert_eq!(
            config.request().map_err(|error| error.to_string()),
            Err("the tiles take 131072 bytes of LDS, a workgroup has at most 65536 on gfx942"
                .into())
        );
        let config = StepConfig::new(Target::Gfx942, Step::Vectorized).with_load_width(3);
        assert!(matches!(config.request(), Err(StepError::Size { value: 3, .. })));
        let mut config = StepConfig::new(
            Target::Gfx942,
            Step::Generic(TileMovement::SingleBuffer, Arithmetic::MfmaF16),
        );
        config.k_tile = 16;
        assert!(matches!(config.request(), Err(StepError::Size { value: 16, .. })));
        config.k_tile = 32;
        config.thread = [16, 3];
        assert!(matches!(config.request(), Err(StepError::Size { value: 128, .. })));
        config.thread = [2, 4];
        assert!(matches!(config.request(), Err(StepError::Size { value: 2048, .. })));
    }

    #[test]
    fn any_size_is_an_error_and_no_panic() {
        let sides = [0, 1, 16, 1 << 20, 1 << 62, usize::MAX];
        for step in [
            Step::Naive,
            Step::WorkgroupTile,
            Step::RegisterTile,
            Step::Buffered { buffers: u32::MAX },
            Step::Vectorized,
            Step::Generic(TileMovement::DirectLoad, Arithmetic::ScalarFma),
            Step::Generic(TileMovement::SoftwareDoubleBuffer, Arithmetic::MfmaF16),
        ] {
            for (side, thread) in sides.into_iter().flat_map(|s| sides.map(|t| (s, t))) {
                let mut config = StepConfig::new(Target::Gfx942, step);
                (config.block, config.thread) = ([side, 128], [thread, 8]);
                let _checked = config.request();
                (config.block, config.k_tile) = ([128, side], thread);
                let _checked = config.request();
            }
        }
    }
}
