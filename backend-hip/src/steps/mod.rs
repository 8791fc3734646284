//! The tutorial's seven steps in HIP: `kernels/steps/` and `kernels/generic.hip`.
//!
//! The files have the names and the parameters of their WGSL twins. Step 6 trades registers for waves
//! with launch hints, which WGSL lacks; step 7 has matrix-core policies besides the scalar one.

mod params;

use core::fmt;

use lapidary_core::policy::{KernelConfig, Multiply, Staging};

pub use params::{Params, StepLaunch};

use crate::compile::Request;
use crate::preshuffle::EpilogueTraits;
use crate::preshuffle::activation_code;
use crate::target::Target;

/// What step 6 tells the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LaunchHint {
    /// Nothing.
    None,
    /// `__launch_bounds__(256, waves)`: at least so many waves a SIMD.
    LaunchBounds {
        /// Waves a SIMD.
        waves: u32,
    },
    /// `amdgpu_waves_per_eu(min, max)`.
    WavesPerSimd {
        /// The fewest waves a SIMD.
        min: u32,
        /// The most waves a SIMD worth saving registers for.
        max: u32,
    },
}

impl LaunchHint {
    /// The tutorial's three variants.
    pub const ALL: [Self; 3] =
        [Self::None, Self::LaunchBounds { waves: 2 }, Self::WavesPerSimd { min: 2, max: 4 }];
}

/// Step 7's data movement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TileMovement {
    /// One pair of tiles.
    SingleBuffer,
    /// Two pairs, one filled while the other is read.
    SoftwareDoubleBuffer,
    /// One pair, filled from global memory past the registers. CDNA, 4-byte elements.
    DirectLoad,
}

impl TileMovement {
    /// The three of them.
    pub const ALL: [Self; 3] = [Self::SingleBuffer, Self::SoftwareDoubleBuffer, Self::DirectLoad];

    const fn code(self) -> u32 {
        match self {
            Self::SingleBuffer => 0,
            Self::SoftwareDoubleBuffer => 1,
            Self::DirectLoad => 2,
        }
    }
}

/// Step 7's arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Arithmetic {
    /// Scalar fused multiply-adds on f32; any target.
    ScalarFma,
    /// Matrix cores, f32: 16×16×4. CDNA3 and CDNA4.
    MfmaF32,
    /// Matrix cores, f32 with 10 bits of significand: 16×16×8. CDNA3 only.
    MfmaXf32,
    /// Matrix cores, f16 operands: 16×16×16 on CDNA3, 16×16×32 on CDNA4.
    MfmaF16,
}

impl Arithmetic {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::ScalarFma, Self::MfmaF32, Self::MfmaXf32, Self::MfmaF16];

    const fn code(self) -> u32 {
        match self {
            Self::ScalarFma => 0,
            Self::MfmaF32 => 1,
            Self::MfmaXf32 => 2,
            Self::MfmaF16 => 3,
        }
    }

    /// Bytes of an element of A and B.
    #[must_use]
    pub const fn element_bytes(self) -> usize {
        match self {
            Self::MfmaF16 => 2,
            Self::ScalarFma | Self::MfmaF32 | Self::MfmaXf32 => 4,
        }
    }

    /// Elements along K of one multiply-accumulate.
    const fn k_step(self, target: Target) -> usize {
        match self {
            Self::ScalarFma => 1,
            Self::MfmaF32 => 4,
            Self::MfmaXf32 => 8,
            Self::MfmaF16 => {
                if matches!(target, Target::Gfx950) {
                    32
                } else {
                    16
                }
            }
        }
    }
}

/// A step, with what its variants differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Step {
    /// Step 1: one thread an output, straight from global memory.
    Naive,
    /// Step 2: tiles in LDS.
    WorkgroupTile,
    /// Step 3: a patch of outputs a thread.
    RegisterTile,
    /// Step 4: one or two buffers.
    Buffered {
        /// 1 or 2.
        buffers: u32,
    },
    /// Step 5: A by vectors.
    Vectorized {
        /// Elements a load: 1, 2 or 4.
        width: u32,
    },
    /// Step 6: a hint for the register allocator.
    Occupancy(LaunchHint),
    /// Step 7: a pair of policies.
    Generic(TileMovement, Arithmetic),
}

/// A step for a target, with its tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "plain data that callers fill in")]
pub struct StepConfig {
    /// The architecture.
    pub target: Target,
    /// The step.
    pub step: Step,
    /// Rows and columns of C a workgroup computes.
    pub block: [usize; 2],
    /// Rows and columns of C a thread computes.
    pub thread: [usize; 2],
    /// Length of a strip along K.
    pub k_tile: usize,
    /// The epilogue; scales are not among a step's.
    pub epilogue: EpilogueTraits,
}

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
    /// A policy that this backend has no kernel for.
    #[error("there is no HIP kernel for the policies {policies}")]
    Policies {
        /// Their names.
        policies: String,
    },
}

impl StepConfig {
    /// A step with the tutorial's sizes: 16×16 for the first two, else 128×128 with 8×8 a thread and
    /// strips of 16 (32 for f16 operands).
    #[must_use]
    pub fn new(target: Target, step: Step) -> Self {
        let (block, thread) = match step {
            Step::Naive | Step::WorkgroupTile => ([16, 16], [1, 1]),
            _ => ([128, 128], [8, 8]),
        };
        let k_tile = match step {
            Step::Naive => 1,
            Step::Generic(_, Arithmetic::MfmaF16) => 32,
            _ => 16,
        };
        Self { target, step, block, thread, k_tile, epilogue: EpilogueTraits::default() }
    }

    /// The generic kernel for a pair of core policies.
    ///
    /// # Errors
    /// [`StepError::Policies`] for arithmetic other than scalar f32.
    pub fn of_policies(target: Target, config: &KernelConfig) -> Result<Self, StepError> {
        let movement = match (config.tile.staging, config.tile.num_buffers) {
            (Staging::Workgroup, 1) => TileMovement::SingleBuffer,
            (Staging::Workgroup, 2) => TileMovement::SoftwareDoubleBuffer,
            (Staging::Direct, _) => TileMovement::DirectLoad,
            _ => return Err(StepError::Policies { policies: config.name() }),
        };
        let arithmetic = match config.compute.multiply {
            Multiply::ScalarFma => Arithmetic::ScalarFma,
            _ => return Err(StepError::Policies { policies: config.name() }),
        };
        Ok(Self {
            target,
            step: Step::Generic(movement, arithmetic),
            block: [config.tile.block_tile_m, config.tile.block_tile_n],
            thread: [config.compute.thread_tile_m, config.compute.thread_tile_n],
            k_tile: config.tile.k_tile_size,
            epilogue: EpilogueTraits::default(),
        })
    }

    /// Threads of a workgroup along x and y.
    #[must_use]
    pub const fn threads(&self) -> [usize; 2] {
        match self.step {
            Step::Naive | Step::WorkgroupTile => [self.block[1], self.block[0]],
            _ => [self.block[0] / self.thread[0] * (self.block[1] / self.thread[1]), 1],
        }
    }

    /// Bytes of an element of A and B; C is f32.
    #[must_use]
    pub const fn element_bytes(&self) -> usize {
        match self.step {
            Step::Generic(_, arithmetic) => arithmetic.element_bytes(),
            _ => 4,
        }
    }

    /// Bytes of LDS a workgroup uses.
    #[must_use]
    pub const fn lds_bytes(&self) -> usize {
        let pairs = match self.step {
            Step::Naive => 0,
            Step::Buffered { buffers } => buffers as usize,
            Step::Vectorized { .. } | Step::Generic(TileMovement::SoftwareDoubleBuffer, _) => 2,
            _ => 1,
        };
        pairs * (self.block[0] + self.block[1]) * self.k_tile * self.element_bytes()
    }

    fn validate(&self) -> Result<(), StepError> {
        let size = |ok: bool, what, value, rule| {
            if ok { Ok(()) } else { Err(StepError::Size { what, value, rule }) }
        };
        let [threads_x, threads_y] = self.threads();
        size(
            self.thread.iter().all(|&t| t > 0)
                && self.block.iter().zip(&self.thread).all(|(b, t)| *b > 0 && b.is_multiple_of(*t)),
            "block tile",
            self.block[0],
            "it must be a positive multiple of the thread tile, along M and along N",
        )?;
        size(
            (1..=1024).contains(&(threads_x * threads_y)),
            "threads of a workgroup",
            threads_x * threads_y,
            "a workgroup has 1 to 1024",
        )?;
        size(self.k_tile > 0, "K strip", self.k_tile, "it must not be zero")?;
        size(
            self.lds_bytes() <= self.target.lds_bytes() as usize,
            "bytes of LDS",
            self.lds_bytes(),
            "more than the target has",
        )?;
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
            Step::Vectorized { width } => size(
                matches!(width, 1 | 2 | 4) && self.k_tile.is_multiple_of(width as usize),
                "load width",
                width as usize,
                "it is 1, 2 or 4 and divides the K strip",
            ),
            Step::Occupancy(_) => size(
                self.k_tile.is_multiple_of(4),
                "K strip",
                self.k_tile,
                "A is loaded four at a time",
            ),
            Step::Generic(movement, arithmetic) => self.validate_generic(movement, arithmetic),
            Step::Naive | Step::RegisterTile => Ok(()),
        }
    }

    fn validate_generic(
        &self,
        movement: TileMovement,
        arithmetic: Arithmetic,
    ) -> Result<(), StepError> {
        let needs =
            |needs| Err(StepError::Target { step: self.to_string(), needs, target: self.target });
        if arithmetic != Arithmetic::ScalarFma && !self.target.has_preshuffle() {
            return needs("the matrix cores of gfx942 or gfx950");
        }
        if arithmetic == Arithmetic::MfmaXf32 && self.target != Target::Gfx942 {
            return needs("the xf32 instructions of gfx942");
        }
        if movement == TileMovement::DirectLoad {
            if self.target.wave() != 64 {
                return needs("the direct-to-LDS loads of CDNA");
            }
            if arithmetic.element_bytes() != 4 {
                return needs("4-byte elements: a lane of a direct load moves four bytes");
            }
        }
        let k_step = arithmetic.k_step(self.target);
        let matrix = arithmetic != Arithmetic::ScalarFma;
        if !self.k_tile.is_multiple_of(k_step) {
            return Err(StepError::Size {
                what: "K strip",
                value: self.k_tile,
                rule: "it must be a multiple of the instruction's K",
            });
        }
        if matrix && (self.threads()[0] != 256 || self.block.iter().any(|b| !b.is_multiple_of(32)))
        {
            return Err(StepError::Size {
                what: "block tile",
                value: self.block[0],
                rule: "four waves, two by two, of 16x16 blocks: 256 threads and multiples of 32",
            });
        }
        Ok(())
    }

    /// What to compile.
    ///
    /// # Errors
    /// [`StepError`] with the rule broken.
    pub fn request(&self) -> Result<Request, StepError> {
        self.validate()?;
        let kernel = match self.step {
            Step::Naive => "steps/1_naive.hip",
            Step::WorkgroupTile => "steps/2_workgroup_tile.hip",
            Step::RegisterTile => "steps/3_register_tile.hip",
            Step::Buffered { .. } => "steps/4_buffered.hip",
            Step::Vectorized { .. } => "steps/5_vectorized.hip",
            Step::Occupancy(_) => "steps/6_occupancy.hip",
            Step::Generic(..) => "generic.hip",
        };
        let request = Request::new(kernel, self.target)
            .define("HAS_BETA", u32::from(self.epilogue.beta))
            .define("HAS_BIAS", u32::from(self.epilogue.bias))
            .define("ACTIVATION", activation_code(self.epilogue.activation))
            .define("BM", self.block[0])
            .define("BN", self.block[1]);
        let tiled = |request: Request| {
            request
                .define("TM", self.thread[0])
                .define("TN", self.thread[1])
                .define("KT", self.k_tile)
                .define("THREADS", self.threads()[0])
        };
        Ok(match self.step {
            Step::Naive => request,
            Step::WorkgroupTile => request.define("KT", self.k_tile),
            Step::RegisterTile => tiled(request),
            Step::Buffered { buffers } => tiled(request).define("NUM_BUFFERS", buffers),
            Step::Vectorized { width } => {
                tiled(request).define("NUM_BUFFERS", 2).define("W", width)
            }
            Step::Occupancy(hint) => {
                let request = tiled(request).define("W", 4);
                match hint {
                    LaunchHint::None => request,
                    LaunchHint::LaunchBounds { waves } => request.define("MIN_WAVES", waves),
                    LaunchHint::WavesPerSimd { min, max } => {
                        request.define("MIN_WAVES", min).define("MAX_WAVES", max)
                    }
                }
            }
            Step::Generic(movement, arithmetic) => {
                let request = tiled(request)
                    .define("TILE_POLICY", movement.code())
                    .define("COMPUTE_POLICY", arithmetic.code());
                if arithmetic == Arithmetic::MfmaF16 {
                    request.define("ELEMENT", "_Float16")
                } else {
                    request
                }
            }
        })
    }
}

impl fmt::Display for StepConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.step {
            Step::Naive => f.write_str("1_naive"),
            Step::WorkgroupTile => f.write_str("2_workgroup_tile"),
            Step::RegisterTile => f.write_str("3_register_tile"),
            Step::Buffered { buffers } => write!(f, "4_buffered with {buffers} buffer(s)"),
            Step::Vectorized { width } => write!(f, "5_vectorized by {width}"),
            Step::Occupancy(hint) => write!(f, "6_occupancy {hint:?}"),
            Step::Generic(movement, arithmetic) => {
                write!(f, "7_generic {movement:?}/{arithmetic:?}")
            }
        }?;
        let [m, n] = self.block;
        write!(f, " {m}x{n}x{}", self.k_tile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lapidary_core::policy::{ScalarFma, SingleBuffer, SoftwareDoubleBuffer};

    #[test]
    fn core_policies_select_the_instantiation() {
        let config = KernelConfig::of::<SoftwareDoubleBuffer<128, 64, 16>, ScalarFma<8, 4>>();
        let step = StepConfig::of_policies(Target::Gfx1100, &config).expect("a kernel");
        assert_eq!(
            step.step,
            Step::Generic(TileMovement::SoftwareDoubleBuffer, Arithmetic::ScalarFma)
        );
        assert_eq!((step.block, step.thread, step.k_tile), ([128, 64], [8, 4], 16));
        assert_eq!(step.lds_bytes(), config.workgroup_bytes());
        assert_eq!(step.threads()[0], config.workgroup_threads());
        let integers =
            KernelConfig::of::<SingleBuffer<128, 128, 16>, lapidary_core::policy::ScalarMac<8, 8>>(
            );
        assert!(matches!(
            StepConfig::of_policies(Target::Gfx942, &integers),
            Err(StepError::Policies { .. })
        ));
    }

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
        assert!(matches!(config.request(), Err(StepError::Size { value: 131_072, .. })));
        let config = StepConfig::new(Target::Gfx942, Step::Vectorized { width: 3 });
        assert!(matches!(config.request(), Err(StepError::Size { value: 3, .. })));
    }
}
