//! The tutorial's seven steps in HIP: `kernels/steps/` and `kernels/generic.hip`.
//!
//! The files have the names and the parameters of their WGSL twins. Step 6 trades registers for waves
//! with launch hints, which WGSL lacks; step 7 has matrix-core policies besides the scalar one.

mod params;
mod policies;
mod rules;

use core::fmt;

use lapidary_core::policy::KernelConfig;

pub use params::{Params, StepLaunch};
pub use rules::StepError;

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
    /// Matrix cores, f16 operands: 32 along K by one 16×16×32 on CDNA4, by two 16×16×16 on CDNA3.
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
    #[must_use]
    pub const fn k_step(self) -> usize {
        match self {
            Self::ScalarFma => 1,
            Self::MfmaF32 => 4,
            Self::MfmaXf32 => 8,
            Self::MfmaF16 => 32,
        }
    }

    /// Whether it is an instruction of the matrix cores.
    #[must_use]
    pub const fn is_matrix(self) -> bool {
        !matches!(self, Self::ScalarFma)
    }
}

/// How far arithmetic may be from a sum of products that are rounded to nearest.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "two numbers")]
pub struct Accuracy {
    /// What the error bound of correctly rounded f32 sums is to be multiplied by.
    pub roundings: f64,
    /// What is to be added to it, as a share of Σ|a||b|.
    pub operands: f64,
}

impl Arithmetic {
    /// Its accuracy.
    ///
    /// Chains of fused multiply-adds, scalar ones and the f32 matrix instruction, round each sum to
    /// nearest. The f16 and xf32 instructions cut the terms of a sum to 24 bits below the largest
    /// instead, which loses up to twice as much each time; and xf32 drops all but 10 bits of the
    /// operands' fractions, up to 2⁻¹⁰ of each factor and so 2⁻⁹ of a product.
    #[must_use]
    pub fn accuracy(self) -> Accuracy {
        match self {
            Self::ScalarFma | Self::MfmaF32 => Accuracy { roundings: 1.0, operands: 0.0 },
            Self::MfmaF16 => Accuracy { roundings: 2.0, operands: 0.0 },
            Self::MfmaXf32 => Accuracy { roundings: 2.0, operands: 2f64.powi(-9) },
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
    Vectorized,
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
    /// Rows and columns of C a thread computes. On matrix cores a lane holds 4 rows of one column of
    /// each 16×16 block, so a wave of 64 computes 4 times the rows and 16 times the columns.
    pub thread: [usize; 2],
    /// Length of a strip along K.
    pub k_tile: usize,
    /// Elements of A, adjacent along K, that one load fetches: 1, 2 or 4. Steps 5, 6 and 7 have wide
    /// loads; what they demand of A is checked by [`Params::launch`].
    pub load_width: usize,
    /// The epilogue; scales are not among a step's.
    pub epilogue: EpilogueTraits,
}

impl StepConfig {
    /// A step with the tutorial's sizes: 16×16 for the first two, else 128×128 with 8×8 a thread (64×64
    /// a wave on matrix cores) and strips of 16 (32 for f16 operands); loads of 4 in steps 5 and 6.
    #[must_use]
    pub fn new(target: Target, step: Step) -> Self {
        let (block, thread) = match step {
            Step::Naive | Step::WorkgroupTile => ([16, 16], [1, 1]),
            Step::Generic(_, arithmetic) if arithmetic.is_matrix() => ([128, 128], [16, 4]),
            _ => ([128, 128], [8, 8]),
        };
        let k_tile = match step {
            Step::Naive => 1,
            Step::Generic(_, Arithmetic::MfmaF16) => 32,
            _ => 16,
        };
        let load_width = match step {
            Step::Vectorized | Step::Occupancy(_) => 4,
            _ => 1,
        };
        let epilogue = EpilogueTraits::default();
        Self { target, step, block, thread, k_tile, load_width, epilogue }
    }

    /// The same step with loads of `width` elements of A.
    #[must_use]
    pub const fn with_load_width(self, width: usize) -> Self {
        Self { load_width: width, ..self }
    }

    /// The generic kernel for a pair of core policies.
    ///
    /// # Errors
    /// [`StepError::Policies`] for arithmetic, tiles or hooks that the kernel does not have.
    pub fn of_policies(target: Target, config: &KernelConfig) -> Result<Self, StepError> {
        let (movement, arithmetic) = policies::instantiation(config)?;
        Ok(Self {
            target,
            step: Step::Generic(movement, arithmetic),
            block: [config.tile.block_tile_m, config.tile.block_tile_n],
            thread: [config.compute.thread_tile_m, config.compute.thread_tile_n],
            k_tile: config.tile.k_tile_size,
            load_width: config.tile.load_width,
            epilogue: EpilogueTraits::default(),
        })
    }

    /// Threads of a workgroup along x and y.
    #[must_use]
    pub const fn threads(&self) -> [usize; 2] {
        match self.step {
            Step::Naive | Step::WorkgroupTile => [self.block[1], self.block[0]],
            _ => {
                let [Some(along_m), Some(along_n)] = [
                    self.block[0].checked_div(self.thread[0]),
                    self.block[1].checked_div(self.thread[1]),
                ] else {
                    return [0, 0];
                };
                [along_m.saturating_mul(along_n), 1]
            }
        }
    }

    /// What multiplies.
    #[must_use]
    pub const fn arithmetic(&self) -> Arithmetic {
        match self.step {
            Step::Generic(_, arithmetic) => arithmetic,
            _ => Arithmetic::ScalarFma,
        }
    }

    /// Bytes of an element of A and B; C is f32.
    #[must_use]
    pub const fn element_bytes(&self) -> usize {
        self.arithmetic().element_bytes()
    }

    /// Bytes of LDS a workgroup uses.
    #[must_use]
    pub const fn lds_bytes(&self) -> usize {
        let pairs = match self.step {
            Step::Naive => 0,
            Step::Buffered { buffers } => buffers as usize,
            Step::Vectorized | Step::Generic(TileMovement::SoftwareDoubleBuffer, _) => 2,
            _ => 1,
        };
        self.block[0]
            .saturating_add(self.block[1])
            .saturating_mul(self.k_tile)
            .saturating_mul(pairs * self.element_bytes())
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
            Step::Vectorized => "steps/5_vectorized.hip",
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
            Step::Vectorized => {
                tiled(request).define("NUM_BUFFERS", 2).define("W", self.load_width)
            }
            Step::Occupancy(hint) => {
                let request = tiled(request).define("W", self.load_width);
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
                    .define("COMPUTE_POLICY", arithmetic.code())
                    .define("W", self.load_width);
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
            Step::Vectorized => write!(f, "5_vectorized by {}", self.load_width),
            Step::Occupancy(hint) => write!(f, "6_occupancy {hint:?}"),
            Step::Generic(movement, arithmetic) => {
                write!(f, "7_generic {movement:?}/{arithmetic:?}")?;
                match self.load_width {
                    1 => Ok(()),
                    width => write!(f, " vec{width}"),
                }
            }
        }?;
        let [m, n] = self.block;
        write!(f, " {m}x{n}x{}", self.k_tile)
    }
}
