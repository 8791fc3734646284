//! Which kernel, with which tile.

use lapidary_core::policy::{
    KernelConfig, Multiply, RegisterPrefetch, ScalarFma, SingleBuffer, SoftwareDoubleBuffer,
    Staging, VectorFma, VectorMac,
};
use lapidary_core::{ElementType, Error, KernelChoice, Layout, Occupancy, Operand, Problem};

use super::policy;
use crate::limits::DeviceLimits;

/// Loop iterations a thread may have on a software device.
///
/// Mesa's llvmpipe ends all loops of a thread after 65,535 iterations in all, and says nothing: the
/// rest of K would be missing from the sums. The margin is for the loops of the store.
const SOFTWARE_LOOP_ITERATIONS: usize = 65_000;

/// Which shader file the kernel's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Body {
    /// `1_naive.wgsl`
    Naive,
    /// `2_workgroup_tile.wgsl`
    WorkgroupTile,
    /// `3_register_tile.wgsl`
    RegisterTile,
    /// `4_buffered.wgsl` with one of `tile/single_buffer.wgsl` and `tile/double_buffer.wgsl`
    Buffered,
    /// `5_vectorized.wgsl`
    Vectorized,
    /// `6_occupancy.wgsl`
    Occupancy,
    /// `7_generic.wgsl` with the text of a pair of policies
    Generic,
    /// The written-out vector kernel, for policies that compute in vectors
    Vector,
}

/// How an operand is fetched from global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Fetch {
    /// Whether neighbouring elements of a fetch are neighbours along K, not across it.
    pub along_k: bool,
    /// Elements a load fetches: 1, 2 or 4.
    pub width: u32,
}

impl Fetch {
    /// One element after the other along K.
    pub(crate) const SCALAR: Self = Self { along_k: true, width: 1 };

    /// How the vector kernel fetches an operand with these strides: along the axis whose elements
    /// are closest, four at a time where every line starts at a multiple of four.
    pub(crate) fn of(side: Lines, aligned: bool) -> Self {
        let along_k = side.line_stride != 1
            && (side.k_stride == 1
                || side.k_stride.unsigned_abs() <= side.line_stride.unsigned_abs());
        let (near, far) = if along_k {
            (side.k_stride, side.line_stride)
        } else {
            (side.line_stride, side.k_stride)
        };
        let vectors =
            near == 1 && aligned && far % 4 == 0 && (side.batch == 1 || side.batch_stride % 4 == 0);
        Self { along_k, width: if vectors { 4 } else { 1 } }
    }
}

/// An operand seen as lines along K: rows of A, columns of B.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    line_stride: isize,
    k_stride: isize,
    batch_stride: isize,
    batch: usize,
}

impl Lines {
    pub(crate) const fn of_a(layout: Layout, batch: usize) -> Self {
        Self {
            line_stride: layout.row_stride,
            k_stride: layout.col_stride,
            batch_stride: layout.batch_stride,
            batch,
        }
    }

    pub(crate) const fn of_b(layout: Layout, batch: usize) -> Self {
        Self::of_a(layout.transposed(), batch)
    }
}

/// A kernel with every size fixed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Kernel {
    /// The name a plan reports.
    pub name: String,
    /// The shader file.
    pub body: Body,
    /// Rows and columns of C a workgroup computes.
    pub block: [u32; 2],
    /// Rows and columns of C a thread computes.
    pub thread: [u32; 2],
    /// Length of a strip along K, 0 where there are no strips.
    pub k_tile: u32,
    /// Pairs of tiles in workgroup memory, 0 where there are none.
    pub num_buffers: u32,
    /// How A is fetched.
    pub a: Fetch,
    /// How B is fetched.
    pub b: Fetch,
    /// The policies, for [`Body::Generic`].
    pub config: Option<KernelConfig>,
}

impl Kernel {
    /// Threads of a workgroup.
    #[must_use]
    pub const fn threads(&self) -> u32 {
        (self.block[0] / self.thread[0]) * (self.block[1] / self.thread[1])
    }

    /// Bytes of workgroup memory: tiles hold 32-bit elements whatever the operands are stored as.
    #[must_use]
    pub const fn workgroup_bytes(&self) -> usize {
        match &self.config {
            Some(config) => config.workgroup_bytes(),
            None => (self.num_buffers * (self.block[0] + self.block[1]) * self.k_tile * 4) as usize,
        }
    }

    /// The same kernel with scalar loads, where the caller left the width to the backend.
    #[must_use]
    pub(super) fn scalar_fallback(&self, choice: KernelChoice) -> Option<Self> {
        let insists = matches!(choice, KernelChoice::Vectorized { .. } | KernelChoice::Policy(_))
            && self.body != Body::Vector;
        (self.a.width > 1 && !insists)
            .then(|| Self { a: Fetch { width: 1, ..self.a }, ..self.clone() })
    }

    /// The same kernel with its operands fetched in these ways.
    pub(crate) fn fetching(self, a: Fetch, b: Fetch) -> Self {
        Self { a, b, ..self }
    }

    /// Iterations of all loops of a thread that sums over `k`, those of eight steps and fewer not
    /// counted: drivers write them out.
    fn loop_iterations(&self, k: usize) -> usize {
        // The test that ends an inner loop counts as one.
        let copies = |lines: u32, width: u32| {
            1 + (lines * self.k_tile / width).div_ceil(self.threads()) as usize
        };
        let inner = match self.body {
            Body::Naive | Body::Vector => 0,
            Body::WorkgroupTile => 1 + self.k_tile as usize,
            _ if self.num_buffers == 0 => 1 + self.k_tile as usize,
            _ => {
                1 + self.k_tile as usize
                    + copies(self.block[0], self.a.width)
                    + copies(self.block[1], self.b.width)
            }
        };
        k.div_ceil(self.k_tile.max(1) as usize).saturating_mul(1 + inner)
    }

    fn tiled(name: String, body: Body, config: KernelConfig) -> Self {
        let (tile, compute) = (config.tile, config.compute);
        let direct = tile.staging == Staging::Direct;
        Self {
            name,
            body,
            block: [tile.block_tile_m as u32, tile.block_tile_n as u32],
            thread: [compute.thread_tile_m as u32, compute.thread_tile_n as u32],
            k_tile: tile.k_tile_size as u32,
            num_buffers: if direct { 0 } else { tile.num_buffers as u32 },
            a: Fetch { along_k: true, width: tile.load_width as u32 },
            b: Fetch::SCALAR,
            config: matches!(body, Body::Generic | Body::Vector).then_some(config),
        }
    }
}

/// The kernel for `choice`, and why.
pub(super) fn choose(
    problem: &Problem,
    limits: &DeviceLimits,
    choice: KernelChoice,
    notes: &mut Vec<String>,
) -> Result<(Kernel, String), Error> {
    let (choice, reason) = match choice {
        KernelChoice::Auto => automatic(problem, limits),
        other => (other, "asked for".to_owned()),
    };
    let name = choice.name();
    let kernel = match choice {
        KernelChoice::Auto | KernelChoice::Naive => Kernel {
            name,
            body: Body::Naive,
            block: [16, 16],
            thread: [1, 1],
            k_tile: 0,
            num_buffers: 0,
            a: Fetch::SCALAR,
            b: Fetch::SCALAR,
            config: None,
        },
        KernelChoice::WorkgroupTile => {
            let config = KernelConfig::of::<SingleBuffer<16, 16, 16>, ScalarFma<1, 1>>();
            fitted(name, Body::WorkgroupTile, config, limits, notes)?
        }
        KernelChoice::RegisterTile => {
            tutorial::<SingleBuffer<128, 128, 16>>(name, Body::RegisterTile, limits, notes)?
        }
        KernelChoice::Buffered { buffers: 1 } => {
            tutorial::<SingleBuffer<128, 128, 16>>(name, Body::Buffered, limits, notes)?
        }
        KernelChoice::Buffered { buffers: 2 } => {
            tutorial::<SoftwareDoubleBuffer<128, 128, 16>>(name, Body::Buffered, limits, notes)?
        }
        KernelChoice::Buffered { buffers } => {
            return Err(Error::KernelUnsuitable {
                kernel: "4_buffered".into(),
                reason: format!("there are kernels with 1 or 2 buffers, not {buffers}"),
            });
        }
        KernelChoice::Vectorized { width } => {
            check_width(problem, &name, width)?;
            let body = Body::Vectorized;
            match width {
                1 => tutorial::<SoftwareDoubleBuffer<128, 128, 16, 1>>(name, body, limits, notes)?,
                2 => tutorial::<SoftwareDoubleBuffer<128, 128, 16, 2>>(name, body, limits, notes)?,
                _ => tutorial::<SoftwareDoubleBuffer<128, 128, 16, 4>>(name, body, limits, notes)?,
            }
        }
        KernelChoice::Occupancy(variant) => occupancy(problem, name, variant, limits, notes)?,
        KernelChoice::Policy(config) => generic(problem, name, config, limits, notes)?,
        _ => {
            return Err(Error::KernelUnsuitable {
                kernel: name,
                reason: "the WGSL backend has no such kernel".into(),
            });
        }
    };
    if kernel.threads() as usize > limits.workgroup_threads {
        return Err(Error::LimitExceeded {
            what: "threads of a workgroup",
            requested: u128::from(kernel.threads()),
            limit: limits.workgroup_threads as u128,
        });
    }
    let iterations = kernel.loop_iterations(problem.k);
    let runs = problem.reads_factors() && !problem.is_empty();
    if limits.software && runs && iterations > SOFTWARE_LOOP_ITERATIONS {
        return Err(Error::LimitExceeded {
            what: "loop iterations of a thread on a software device, which would end them early,",
            requested: iterations as u128,
            limit: SOFTWARE_LOOP_ITERATIONS as u128,
        });
    }
    Ok((kernel, reason))
}

/// The backend's own choice: the largest block that the problem fills.
///
/// Below 24 rows or columns most threads of a block would lie outside the matrix. A GPU has over a
/// hundred processors that each want two workgroups, hence the count of blocks.
fn automatic(problem: &Problem, limits: &DeviceLimits) -> (KernelChoice, String) {
    let (m, n) = (problem.m, problem.n);
    // The vector kernel's loops over a strip are written out, so it has one iteration a strip.
    let too_deep = limits.software && problem.k > SOFTWARE_LOOP_ITERATIONS;
    if m.min(n) < 24 && !too_deep {
        let why = format!("{m}x{n} outputs do not fill a block: one thread an output");
        return (KernelChoice::Naive, why);
    }
    let integer = problem.accumulator() == ElementType::I32;
    let blocks = m.div_ceil(128).saturating_mul(n.div_ceil(128)).saturating_mul(problem.batch);
    if m < 128 || n < 128 || blocks < 200 {
        let config = if integer {
            KernelConfig::of::<RegisterPrefetch<64, 64, 16>, VectorMac<8, 8>>()
        } else {
            KernelConfig::of::<RegisterPrefetch<64, 64, 16>, VectorFma<8, 8>>()
        };
        let why = format!("{blocks} blocks of 128x128 would not fill a GPU: 64x64 blocks");
        return (KernelChoice::Policy(config), why);
    }
    let config = if integer {
        KernelConfig::of::<RegisterPrefetch<128, 128, 16>, VectorMac<8, 16>>()
    } else {
        KernelConfig::of::<RegisterPrefetch<128, 128, 16>, VectorFma<8, 16>>()
    };
    (KernelChoice::Policy(config), format!("{blocks} blocks of 128x128 fill a GPU"))
}

fn tutorial<T: lapidary_core::policy::TilePolicy>(
    name: String,
    body: Body,
    limits: &DeviceLimits,
    notes: &mut Vec<String>,
) -> Result<Kernel, Error> {
    fitted(name, body, KernelConfig::of::<T, ScalarFma<8, 8>>(), limits, notes)
}

fn occupancy(
    problem: &Problem,
    name: String,
    variant: Occupancy,
    limits: &DeviceLimits,
    notes: &mut Vec<String>,
) -> Result<Kernel, Error> {
    let config = match variant {
        Occupancy::Wide => KernelConfig::of::<SingleBuffer<128, 128, 16>, ScalarFma<8, 8>>(),
        Occupancy::Balanced => KernelConfig::of::<SingleBuffer<128, 64, 16>, ScalarFma<8, 4>>(),
        Occupancy::Lean => KernelConfig::of::<SingleBuffer<64, 64, 16>, ScalarFma<4, 4>>(),
        _ => {
            return Err(Error::KernelUnsuitable {
                kernel: name,
                reason: "the WGSL backend has no such variant".into(),
            });
        }
    };
    let width = widest(problem);
    let kernel = fitted(name, Body::Occupancy, config, limits, notes)?;
    // A shrunk strip may be shorter than the vector.
    let width = if kernel.k_tile.is_multiple_of(width) { width } else { 1 };
    Ok(Kernel { a: Fetch { along_k: true, width }, ..kernel })
}

fn generic(
    problem: &Problem,
    name: String,
    config: KernelConfig,
    limits: &DeviceLimits,
    notes: &mut Vec<String>,
) -> Result<Kernel, Error> {
    policy::check_arithmetic(&config, &name)?;
    if config.compute.accumulator != problem.accumulator() {
        return Err(Error::KernelUnsuitable {
            kernel: name,
            reason: format!(
                "its compute policy accumulates in {}, {} operands in {}",
                config.compute.accumulator,
                problem.a,
                problem.accumulator()
            ),
        });
    }
    if config.compute.multiply == Multiply::Vector {
        policy::check_vector(&config, &name)?;
        // The vector kernel takes whatever strides there are.
        let kernel = fitted(name, Body::Vector, config, limits, notes)?;
        return Ok(kernel.fetching(
            Fetch::of(Lines::of_a(problem.a_layout, problem.batch), true),
            Fetch::of(Lines::of_b(problem.b_layout, problem.batch), true),
        ));
    }
    policy::check_scalar(&config, &name)?;
    check_width(problem, &name, config.tile.load_width)?;
    fitted(name, Body::Generic, config, limits, notes)
}

fn fitted(
    name: String,
    body: Body,
    config: KernelConfig,
    limits: &DeviceLimits,
    notes: &mut Vec<String>,
) -> Result<Kernel, Error> {
    let fitted = config.fit_workgroup_memory(limits.workgroup_bytes)?;
    if fitted.tile.k_tile_size != config.tile.k_tile_size {
        notes.push(format!(
            "K strip shrunk from {} to {}: {} bytes of workgroup memory asked for, {} available",
            config.tile.k_tile_size,
            fitted.tile.k_tile_size,
            config.workgroup_bytes(),
            limits.workgroup_bytes
        ));
    }
    Ok(Kernel::tiled(name, body, fitted))
}

/// The widest vector that every row of A allows, whatever its offset.
fn widest(problem: &Problem) -> u32 {
    [4, 2].into_iter().find(|&w| width_fits(problem, w).is_ok()).map_or(1, |w| w as u32)
}

fn check_width(problem: &Problem, kernel: &str, width: usize) -> Result<(), Error> {
    if !matches!(width, 1 | 2 | 4) {
        return Err(Error::KernelUnsuitable {
            kernel: kernel.into(),
            reason: format!("a load fetches 1, 2 or 4 elements, not {width}"),
        });
    }
    width_fits(problem, width)
}

/// A vector of `width` elements starts at a multiple of `width`: A's columns must be adjacent, and
/// its rows and matrices a multiple of the width apart.
fn width_fits(problem: &Problem, width: usize) -> Result<(), Error> {
    if width == 1 || !problem.reads_factors() || problem.is_empty() {
        return Ok(());
    }
    let layout = problem.a_layout;
    let misaligned = |what, value: isize| Error::Misaligned {
        operand: Operand::A,
        width,
        what,
        value: value as i128,
    };
    let width_stride = width as isize;
    if layout.col_stride != 1 && problem.k > 1 {
        return Err(Error::KernelUnsuitable {
            kernel: format!("loads of {width} elements"),
            reason: format!(
                "the column stride of A must be 1 for vector loads, it is {}",
                layout.col_stride
            ),
        });
    }
    if problem.m > 1 && layout.row_stride % width_stride != 0 {
        return Err(misaligned("the row stride", layout.row_stride));
    }
    if problem.batch > 1 && layout.batch_stride % width_stride != 0 {
        return Err(misaligned("the batch stride", layout.batch_stride));
    }
    Ok(())
}

/// The element type tiles and registers hold: f32 for floats, i32 for integers.
#[must_use]
pub(crate) const fn register_type(operand: ElementType) -> &'static str {
    match operand.accumulator() {
        ElementType::I32 => "i32",
        _ => "f32",
    }
}
