//! Small products against the oracle, and the whole one against the clock.

use std::time::Duration;

use lapidary_core::oracle::{Comparison, reference};
use lapidary_core::testing::{Case, Values};
use lapidary_core::{AnyMatrixRef, TensorSlice};
use lapidary_hip::prelude::*;

use super::Result;

/// Tails in every dimension: more than a tile of 64×256, and strips that K does not fill.
const CHECKED: [usize; 3] = [130, 300, 456];
/// An idle device runs at a fraction of its clock, and needs about this long to leave it.
const WARM_UP: Duration = Duration::from_millis(250);

/// A product that was compared with the oracle.
pub(crate) struct Checked {
    pub(crate) name: &'static str,
    pub(crate) sizes: [usize; 3],
    pub(crate) kernel: String,
    pub(crate) comparison: Comparison,
    /// What the emulator counted in the kernel that multiplies.
    pub(crate) counters: Option<lapidary_cdna::exec::Counters>,
}

impl Checked {
    pub(crate) fn passed(&self) -> bool {
        self.comparison.passed()
    }
}

/// Small integers bit for bit, and random numbers within the bound.
pub(crate) fn checks(
    device: &Hip,
    problem: impl Fn([usize; 3]) -> Problem,
) -> Result<Vec<Checked>> {
    [("integers", Values::SmallIntegers(3)), ("random", Values::Uniform)]
        .into_iter()
        .map(|(name, values)| {
            let case = Case::new(problem(CHECKED), values, 1);
            let output = Gemm::<Hip>::run(device, &case.problem, &case.operands())?;
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
