//! Small products against the oracle, and the whole one against the clock.

use std::time::Duration;

use lapidary_core::oracle::{Comparison, reference};
use lapidary_core::testing::{Case, Values};
use lapidary_core::{AnyMatrixRef, KernelChoice, MatrixKernel, Movement, TensorSlice};
use lapidary_hip::prelude::*;
use lapidary_hip::preshuffle::{ACopy, PreshuffleConfig};

use super::Result;

/// Tails in every dimension: more than a tile of 128×256, and strips that K does not fill. Rows of A
/// and of C are whole 16 bytes for elements of any size, as the widest loads and stores want.
const CHECKED: [usize; 3] = [130, 304, 464];
/// An idle device runs at a fraction of its clock, and needs about this long to leave it.
const WARM_UP: Duration = Duration::from_millis(250);

/// A product that was compared with the oracle.
pub(crate) struct Checked {
    pub(crate) name: &'static str,
    pub(crate) sizes: [usize; 3],
    pub(crate) kernel: String,
    pub(crate) comparison: Comparison,
    /// Whether C passes through LDS on its way out.
    pub(crate) c_through_lds: bool,
    /// What the emulator counted in the kernel that multiplies.
    pub(crate) counters: Option<lapidary_cdna::exec::Counters>,
}

impl Checked {
    pub(crate) fn passed(&self) -> bool {
        self.comparison.passed()
    }
}

/// The kernel of this configuration, whatever a problem's size alone would lead to.
fn like(config: &PreshuffleConfig) -> PlanOptions {
    let movement = match config.copy {
        ACopy::Synchronous => Movement::Registers,
        ACopy::Direct => Movement::Direct,
        _ => Movement::Guarded,
    };
    PlanOptions::kernel(KernelChoice::Matrix(MatrixKernel {
        buffers: Some(config.lds_stage),
        movement: Some(movement),
        scheduled: Some(config.schedule),
        c_through_workgroup_memory: Some(config.c_shuffle),
        waves_per_simd: config.waves_per_simd,
        ..MatrixKernel::tile(config.tile)
    }))
}

/// Products by the kernel of this configuration: small integers bit for bit, and random numbers within
/// the bound.
pub(crate) fn checks(
    device: &Hip,
    config: &PreshuffleConfig,
    problem: impl Fn([usize; 3]) -> Problem,
) -> Result<Vec<Checked>> {
    [("integers", Values::SmallIntegers(3)), ("random", Values::Uniform)]
        .into_iter()
        .map(|(name, values)| {
            let case = Case::new(problem(CHECKED), values, 1);
            let output = pollster::block_on(Gemm::<Hip>::run_with(
                device,
                &case.problem,
                &case.operands(),
                &like(config),
                &|_| {},
            ))?;
            let found = output.matrix.as_ref();
            let expected = reference(&case.problem, &case.operands())?;
            let comparison = match values {
                Values::SmallIntegers(_) => expected.compare_exact(&found),
                _ => expected.compare(&found),
            };
            let launches = device.emulator().map(|emulator| emulator.launches());
            let launch =
                launches.and_then(|all| all.into_iter().rev().find(|l| l.kernel == "preshuffle"));
            Ok(Checked {
                name,
                sizes: CHECKED,
                kernel: output.summary.kernel,
                comparison,
                c_through_lds: config.c_shuffle,
                counters: launch.map(|launch| launch.report.counters),
            })
        })
        .collect()
}

/// How long the product takes on the device with B packed before; `None` on the emulator.
pub(crate) fn time(device: &Hip, problem: &Problem, runs: usize) -> Result<Option<Vec<Duration>>> {
    if device.description().emulated {
        return Ok(None);
    }
    let case = Case::new(problem.clone(), Values::Uniform, 1);
    let tensor = |element: ElementType, bytes: &[u8]| -> Result<HipTensor> {
        let tensor = device.alloc(element, bytes.len() * 8 / element.bits())?;
        device.upload(&tensor, 0, bytes)?;
        Ok(tensor)
    };
    let stored = |view: AnyMatrixRef<'_>| tensor(view.element(), view.bytes());
    let (a, b, c) = (stored(case.a.view())?, stored(case.b.view())?, stored(case.c.view())?);
    let bias = tensor(case.problem.bias_element(), &case.bias)?;
    let plan = Gemm::<Hip>::plan(device, &case.problem, &PlanOptions::default())?;
    let packed = plan.pack_b(TensorSlice::new(&b, 0))?;
    let mut args = Args::with_packed_b(&a, &packed, &c).bias(&bias);
    let scales = [&case.row_scale, &case.col_scale].map(|bytes| tensor(ElementType::F32, bytes));
    let [row, col] = scales;
    let (row, col) = (row?, col?);
    if problem.row_scale {
        args = args.row_scale(&row);
    }
    if problem.col_scale {
        args = args.col_scale(&col);
    }
    Ok(device.time(plan.inner(), &args, runs, WARM_UP)?)
}
