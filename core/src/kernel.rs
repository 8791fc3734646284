//! Names for the kernels a caller can ask for.

use crate::element::ElementType;
use crate::policy::{
    DirectLoad, KernelConfig, ScalarFma, ScalarMac, SingleBuffer, SoftwareDoubleBuffer,
};

/// How step 6 trades registers for resident workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Occupancy {
    /// 128×128 block, 8×8 outputs a thread: the most reuse, the most registers.
    Wide,
    /// 128×64 block, 8×4 outputs a thread.
    Balanced,
    /// 64×64 block, 4×4 outputs a thread: the fewest registers, the most resident workgroups.
    Lean,
}

impl Occupancy {
    /// The three variants, most registers first.
    pub const ALL: [Self; 3] = [Self::Wide, Self::Balanced, Self::Lean];

    /// The variant's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Balanced => "balanced",
            Self::Lean => "lean",
        }
    }
}

/// How the rows of A that a workgroup multiplies get to its workgroup memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Movement {
    /// By vectors through registers.
    Registers,
    /// By vectors past the registers.
    Direct,
    /// Element by element, for any address.
    Guarded,
}

/// What is asked of a kernel on matrix cores; `None` leaves a choice to the backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "plain data that callers fill in")]
pub struct MatrixKernel {
    /// Rows and columns of C a workgroup computes, and the length of a strip along K, in elements.
    pub tile: Option<[usize; 3]>,
    /// Strips of A in workgroup memory: 1, or 2 to fill one while the other is multiplied.
    pub buffers: Option<usize>,
    /// How A gets there.
    pub movement: Option<Movement>,
    /// Whether the order of the loop's instructions is prescribed to the compiler.
    pub scheduled: Option<bool>,
    /// Whether C passes through workgroup memory, so that stores cover whole lines.
    pub c_through_workgroup_memory: Option<bool>,
    /// Ranges of K that workgroups share; 1 for none.
    pub splits: Option<usize>,
    /// Waves a SIMD is to hold at least.
    pub waves_per_simd: Option<usize>,
}

impl MatrixKernel {
    /// A kernel with this tile: rows and columns of C, and the length of a strip along K.
    #[must_use]
    pub const fn tile(tile: [usize; 3]) -> Self {
        Self {
            tile: Some(tile),
            buffers: None,
            movement: None,
            scheduled: None,
            c_through_workgroup_memory: None,
            splits: None,
            waves_per_simd: None,
        }
    }
}

/// Which kernel a plan shall use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum KernelChoice {
    /// The backend picks.
    #[default]
    Auto,
    /// Step 1: one thread an output, 16×16 threads a workgroup, no sharing.
    Naive,
    /// Step 2: 16×16 tiles of A and B in workgroup memory.
    WorkgroupTile,
    /// Step 3: 128×128 blocks, 8×8 outputs a thread in registers.
    RegisterTile,
    /// Step 4: the same with one or two buffers.
    Buffered {
        /// 1 or 2.
        buffers: usize,
    },
    /// Step 5: A loaded by vectors along K.
    Vectorized {
        /// Elements a load: 1, 2 or 4.
        width: usize,
    },
    /// Step 6: block and thread tile traded against resident workgroups.
    Occupancy(Occupancy),
    /// Step 7: the generic kernel with a pair of policies.
    Policy(KernelConfig),
    /// The kernel of a pair of policies with all blocks of C shared evenly (stream-K): each workgroup
    /// sums a run of strips that may begin and end inside a block, and a pass of its own adds up the
    /// parts of each block in a fixed order.
    StreamK {
        /// The policies.
        config: KernelConfig,
        /// Workgroups that share the work, at most.
        workgroups: usize,
    },
    /// Few rows or few columns: the other operand is streamed once, straight from global memory.
    Skinny,
    /// The backend's fast kernel on matrix cores, in this form.
    Matrix(MatrixKernel),
}

impl KernelChoice {
    /// The kernel that stands for tutorial step `step` (1 to 7) on operands of type `element`: of the
    /// step's own variants, the one that was fastest on the GPUs measured.
    #[must_use]
    pub fn step(step: u8, element: ElementType) -> Option<Self> {
        Some(match step {
            1 => Self::Naive,
            2 => Self::WorkgroupTile,
            3 => Self::RegisterTile,
            4 => Self::Buffered { buffers: 2 },
            5 => Self::Vectorized { width: 4 },
            6 => Self::Occupancy(Occupancy::Wide),
            7 => Self::generic(element)[2],
            _ => return None,
        })
    }

    /// Step 7's three pairs of policies (single buffer, double buffer, direct load) for operands of
    /// type `element`.
    #[must_use]
    pub fn generic(element: ElementType) -> [Self; 3] {
        type Single = SingleBuffer<128, 128, 16>;
        type Double = SoftwareDoubleBuffer<128, 128, 16>;
        type Direct = DirectLoad<128, 128, 16>;
        match element.accumulator() {
            ElementType::I32 => [
                Self::Policy(KernelConfig::of::<Single, ScalarMac<8, 8>>()),
                Self::Policy(KernelConfig::of::<Double, ScalarMac<8, 8>>()),
                Self::Policy(KernelConfig::of::<Direct, ScalarMac<8, 8>>()),
            ],
            _ => [
                Self::Policy(KernelConfig::of::<Single, ScalarFma<8, 8>>()),
                Self::Policy(KernelConfig::of::<Double, ScalarFma<8, 8>>()),
                Self::Policy(KernelConfig::of::<Direct, ScalarFma<8, 8>>()),
            ],
        }
    }

    /// Every kernel of the seven steps, variants included, for operands of type `element`.
    #[must_use]
    pub fn all_steps(element: ElementType) -> Vec<Self> {
        let mut all = vec![Self::Naive, Self::WorkgroupTile, Self::RegisterTile];
        all.extend([1, 2].map(|buffers| Self::Buffered { buffers }));
        all.extend([1, 2, 4].map(|width| Self::Vectorized { width }));
        all.extend(Occupancy::ALL.map(Self::Occupancy));
        all.extend(Self::generic(element));
        all
    }

    /// The tutorial step the kernel belongs to; `None` for [`KernelChoice::Auto`] and kernels beyond the
    /// tutorial.
    #[must_use]
    pub const fn step_number(self) -> Option<u8> {
        match self {
            Self::Auto | Self::StreamK { .. } | Self::Skinny | Self::Matrix(_) => None,
            Self::Naive => Some(1),
            Self::WorkgroupTile => Some(2),
            Self::RegisterTile => Some(3),
            Self::Buffered { .. } => Some(4),
            Self::Vectorized { .. } => Some(5),
            Self::Occupancy(_) => Some(6),
            Self::Policy(_) => Some(7),
        }
    }

    /// The name a plan reports.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Auto => "auto".into(),
            Self::Naive => "1_naive".into(),
            Self::WorkgroupTile => "2_workgroup_tile".into(),
            Self::RegisterTile => "3_register_tile".into(),
            Self::Buffered { buffers: 1 } => "4_single_buffer".into(),
            Self::Buffered { .. } => "4_double_buffer".into(),
            Self::Vectorized { width } => format!("5_vectorized_{width}"),
            Self::Occupancy(variant) => format!("6_occupancy_{}", variant.name()),
            Self::Policy(config) => format!("7_generic {}", config.name()),
            Self::StreamK { config, workgroups } => {
                format!("stream-K {} by {workgroups} workgroups", config.name())
            }
            Self::Skinny => "skinny".into(),
            Self::Matrix(kernel) => match kernel.tile {
                Some([m, n, k]) => format!("matrix {m}x{n}x{k}"),
                None => "matrix".into(),
            },
        }
    }
}
