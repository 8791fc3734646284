//! Which kernel, with which tile.

use lapidary_core::ElementType::{F16, F32, I4, I8};
use lapidary_core::policy::{
    KernelConfig, Multiply, ScalarFma, SingleBuffer, SoftwareDoubleBuffer, Staging,
};
use lapidary_core::{Error, KernelChoice, Occupancy, Operand, PlanOptions, Problem};

use super::automatic::{Pick, automatic};
use super::copies::{self, Operands};
use super::kernel::{Body, Kernel, Slices};
use super::{Fetch, policy, skinny};
use crate::limits::DeviceLimits;
use crate::workarounds::{SOFTWARE_LOOP_ITERATIONS, SOFTWARE_MATRIX_PRODUCTS};

/// A kernel, how it reads A and B, and why it was chosen.
pub(super) struct Chosen {
    pub(super) kernel: Kernel,
    pub(super) operands: Operands,
    pub(super) reason: String,
    pub(super) notes: Vec<String>,
}

/// The kernel that `options` ask for, or the best of those the backend would pick that this device
/// can run. `narrow` says whether it may store elements that share words itself.
pub(super) fn choose(
    problem: &Problem,
    limits: &DeviceLimits,
    options: &PlanOptions,
    narrow: bool,
) -> Result<Chosen, Error> {
    if options.kernel != KernelChoice::Auto {
        let pick = Pick { choice: options.kernel, slices: 1, reason: "asked for".to_owned() };
        return prepare(problem, limits, options, pick, narrow);
    }
    let picks = automatic(problem, limits, options.f16_sums);
    let last = picks.len() - 1;
    for (index, pick) in picks.into_iter().enumerate() {
        match prepare(problem, limits, options, pick, narrow) {
            Err(_) if index < last => {}
            result => return result,
        }
    }
    // `automatic` returns at least one.
    Err(Error::KernelUnsuitable { kernel: "auto".into(), reason: "there is no kernel".into() })
}

/// Fixes everything about one kernel.
fn prepare(
    problem: &Problem,
    limits: &DeviceLimits,
    options: &PlanOptions,
    pick: Pick,
    narrow: bool,
) -> Result<Chosen, Error> {
    let mut notes = Vec::new();
    let kernel = base(problem, limits, pick.choice, &mut notes)?;
    if kernel.threads() as usize > limits.workgroup_threads {
        return Err(Error::LimitExceeded {
            what: "threads of a workgroup",
            requested: u128::from(kernel.threads()),
            limit: limits.workgroup_threads as u128,
        });
    }
    let bytes = kernel.workgroup_bytes();
    if bytes > limits.workgroup_bytes {
        return Err(Error::LimitExceeded {
            what: "bytes of workgroup memory",
            requested: bytes as u128,
            limit: limits.workgroup_bytes as u128,
        });
    }
    let operands = copies::plan(problem, &kernel, options.copies, limits)?;
    for (name, reads) in [("A", operands.a), ("B", operands.b)] {
        if let Some(copy) = reads.copy {
            notes.push(format!("{name} is first copied, {}", copy.order.describe()));
        }
    }
    let written_out = kernel.body.is_written_out();
    let slices = options.k_slices.unwrap_or(pick.slices);
    let kernel = match pick.choice {
        KernelChoice::StreamK { workgroups, .. } => {
            kernel.streamed(problem, operands.k, workgroups)
        }
        _ if written_out => kernel.sliced(operands.k, slices),
        _ => kernel,
    };
    if let Some(Slices { stream: Some(stream), .. }) = kernel.slices {
        notes.push(format!(
            "workgroups share all blocks, {} strips each of {} a block, and parts are summed in order \
             by another pass",
            stream.run, stream.strips
        ));
    } else if let Some(slices) = kernel.slices {
        notes.push(format!(
            "K is cut into {} slices of {} steps, summed in order by another pass",
            slices.count, slices.k
        ));
    }
    let large = problem.flops() >= limits.tuning.specialise_flops;
    let kernel = if written_out && large {
        kernel.specialised(problem, &operands, narrow)
    } else {
        kernel.reading(&operands, problem.batch, [true; 3])
    };
    let iterations = kernel.loop_iterations(problem.k);
    let runs = problem.reads_factors() && !problem.is_empty();
    if limits.software && runs && iterations > SOFTWARE_LOOP_ITERATIONS {
        return Err(Error::LimitExceeded {
            what: "loop iterations of a thread on a software device, which would end them early,",
            requested: iterations as u128,
            limit: SOFTWARE_LOOP_ITERATIONS as u128,
        });
    }
    Ok(Chosen { kernel, operands, reason: pick.reason, notes })
}

/// A choice's body and sizes.
fn base(
    problem: &Problem,
    limits: &DeviceLimits,
    choice: KernelChoice,
    notes: &mut Vec<String>,
) -> Result<Kernel, Error> {
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
            store_width: 1,
            config: None,
            units: None,
            sizes: None,
            slices: None,
            skinny: None,
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
        KernelChoice::StreamK { config, .. } => {
            let kernel = generic(problem, name.clone(), config, limits, notes)?;
            if kernel.body != Body::Vector {
                return Err(Error::KernelUnsuitable {
                    kernel: name,
                    reason:
                        "blocks are shared by the kernel that computes in vectors from tiles in \
                             workgroup memory"
                            .into(),
                });
            }
            kernel
        }
        KernelChoice::Skinny => skinny::kernel(problem, limits)?,
        _ => {
            return Err(Error::KernelUnsuitable {
                kernel: name,
                reason: "the WGSL backend has no such kernel".into(),
            });
        }
    };
    Ok(kernel)
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
    let multiply = config.compute.multiply;
    let units = multiply == Multiply::CooperativeMatrix;
    let (sums, wanted) = (config.compute.accumulator, problem.accumulator());
    if sums != wanted && !(units && sums == F16 && wanted == F32) {
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
    if multiply == Multiply::Vector && config.tile.staging == Staging::Direct {
        return split(name, config);
    }
    if multiply.is_vector() {
        policy::check_vector(&config, &name)?;
        if multiply == Multiply::VectorDot4 && (problem.a, problem.b) != (I8, I8) {
            return Err(Error::KernelUnsuitable {
                kernel: name,
                reason: format!("it multiplies i8, not {} by {}", problem.a, problem.b),
            });
        }
        // The vector kernel takes whatever strides there are.
        return fitted(name, Body::Vector, config, limits, notes);
    }
    if units {
        return cooperative(problem, name, config, limits);
    }
    policy::check_scalar(&config, &name)?;
    check_width(problem, &name, config.tile.load_width)?;
    fitted(name, Body::Generic, config, limits, notes)
}

/// A split kernel's groups add up in workgroup memory or not at all: nothing is shrunk to fit.
fn split(name: String, config: KernelConfig) -> Result<Kernel, Error> {
    policy::check_split(&config, &name)?;
    Ok(Kernel::tiled(name, Body::Split, config))
}

/// Matrix units exist or they do not: nothing is shrunk to fit.
fn cooperative(
    problem: &Problem,
    name: String,
    config: KernelConfig,
    limits: &DeviceLimits,
) -> Result<Kernel, Error> {
    // Without matrix units it is refused below, by what there would have to be.
    let units = limits.matrix_units().unwrap_or_default();
    policy::check_cooperative(&config, units.lanes as usize, &name)?;
    let sums = config.compute.accumulator;
    let reason = if !(problem.a == F16 && [F16, I8, I4].contains(&problem.b)) {
        format!("it multiplies f16 by f16, i8 or i4, not {} by {}", problem.a, problem.b)
    } else if problem.b_group.is_some() {
        "its weights are f16, which holds integers exactly, but not integers times a group's scale"
            .to_owned()
    } else if limits.matrix_units().is_none()
        || !(if sums == F16 { limits.cooperative_f16 } else { limits.cooperative })
    {
        format!(
            "the device lists no cooperative matrix of 16x16x16 or 8x8x8 with f16 factors and {sums} \
             sums, in subgroups of 8, 16 or 32"
        )
    } else {
        let kernel = Kernel::cooperative(name, config, units);
        let products = kernel.matrix_products();
        if !limits.software || products <= SOFTWARE_MATRIX_PRODUCTS {
            return Ok(kernel);
        }
        return Err(Error::KernelUnsuitable {
            kernel: kernel.name,
            reason: format!(
                "a strip has {products} products of matrices, and a software device compiles no more \
                 than {SOFTWARE_MATRIX_PRODUCTS} in a second or two"
            ),
        });
    };
    Err(Error::KernelUnsuitable { kernel: name, reason })
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
