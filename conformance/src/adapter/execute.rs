//! Running a job on anything that implements the backend contract.

use lapidary_core::testing::{Stored, block_on};
use lapidary_core::{
    AnyMatrixMut, Args, Backend, Element, ElementType, Error, Gemm, GemmPlan, Layout, PlanOptions,
    Problem, Shape, Tensor, TensorSlice,
};

use super::{Executed, Job};
use crate::spec::Route;

/// The pass of [`Backend::pack_b`], which no plan of an execution lists.
pub(super) const PACK_B: &str = "pack_b";

/// Elements behind a vector of scales or bias that must not be touched, and its offset.
const MARGIN: usize = 4;

/// Runs a job through the backend's public interface.
///
/// Every operand is a whole storage with canaries; scales and bias start a few elements into tensors
/// that go on behind them. All inputs are read back and compared with what was uploaded.
///
/// # Errors
/// The backend's.
pub fn execute_on<B: Backend>(device: &B, job: &Job<'_>) -> Result<Executed, Error> {
    match job.route {
        Route::Host | Route::Streamed => on_host(device, job),
        Route::Device | Route::Packed | Route::Pieces | Route::Specialised => {
            on_device(device, job)
        }
    }
}

fn on_host<B: Backend>(device: &B, job: &Job<'_>) -> Result<Executed, Error> {
    let case = job.case;
    let mut c = case.c.clone();
    let (element, placement) = (c.element(), c.placement());
    let before = case.clone();
    let operands = case.operands();
    operands.check(&case.problem)?;
    case.problem.validate()?;
    let options = job.options();
    let view = AnyMatrixMut::from_bytes(c.bytes_mut(), element, placement)?;
    let summary = block_on(device.run_host(&case.problem, &options, &operands, view, &|_| {}))?;
    let changed = [
        ("A", case.a.bytes() != before.a.bytes()),
        ("B", case.b.bytes() != before.b.bytes()),
        ("bias", case.bias != before.bias),
        ("row scale", case.row_scale != before.row_scale),
        ("column scale", case.col_scale != before.col_scale),
        ("block scales of A", case.a_block_scales != before.a_block_scales),
        ("block scales of B", case.b_block_scales != before.b_block_scales),
        ("group scales", case.b_group_scales != before.b_group_scales),
    ];
    Ok(Executed {
        kernel: summary.kernel,
        passes: summary.passes,
        c: c.bytes().to_vec(),
        changed_inputs: changed.iter().filter(|(_, yes)| *yes).map(|(name, _)| *name).collect(),
    })
}

/// An input on the device, and what was uploaded.
struct Input<T> {
    name: &'static str,
    tensor: T,
    offset: usize,
    bytes: Vec<u8>,
}

impl<T: Tensor> Input<T> {
    fn slice(&self) -> TensorSlice<'_, T> {
        TensorSlice::new(&self.tensor, self.offset)
    }
}

fn stored<B: Backend>(
    device: &B,
    name: &'static str,
    stored: &Stored,
) -> Result<Input<B::Tensor>, Error> {
    let tensor = device.alloc(stored.element(), stored.len())?;
    device.upload(&tensor, 0, stored.bytes())?;
    Ok(Input { name, tensor, offset: stored.placement().offset, bytes: stored.bytes().to_vec() })
}

/// A vector in a tensor that is longer on both sides; what surrounds it is NaN, or as large as can be.
fn vector<B: Backend>(
    device: &B,
    name: &'static str,
    element: ElementType,
    values: &[u8],
) -> Result<Input<B::Tensor>, Error> {
    let size = element.size();
    let canary: &[u8] = match element {
        ElementType::F64 => &f64::NAN.to_le_bytes(),
        ElementType::I32 => &i32::MAX.to_le_bytes(),
        ElementType::E8M0 => &[0xff],
        _ => &f32::NAN.to_le_bytes(),
    };
    let mut bytes = canary.repeat(MARGIN);
    bytes.extend_from_slice(values);
    bytes.extend(canary.repeat(MARGIN));
    let tensor = device.alloc(element, bytes.len() / size)?;
    device.upload(&tensor, 0, &bytes)?;
    Ok(Input { name, tensor, offset: MARGIN, bytes })
}

/// The inputs of an execution besides C, as [`Args`] takes them; those that the problem lacks are absent.
struct Inputs<T> {
    all: Vec<(Slot, Input<T>)>,
}

/// Which operand an input is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    A,
    B,
    Bias,
    RowScale,
    ColScale,
    AScales,
    BScales,
    GroupScales,
}

impl<T: Tensor> Inputs<T> {
    /// The arguments of an execution, with `other` in its place if given.
    fn args<'a, B: Backend<Tensor = T>>(
        &'a self,
        packed: Option<&'a B::PackedB>,
        c: &'a Input<T>,
        other: Option<&'a (Slot, Input<T>)>,
    ) -> Option<Args<'a, B>> {
        let slice = |slot: Slot| {
            let given = other.into_iter().chain(&self.all);
            given.into_iter().find(|(of, _)| *of == slot).map(|(_, input)| input.slice())
        };
        let a = slice(Slot::A)?;
        let mut args = match packed {
            Some(packed) => Args::with_packed_b(a, packed, c.slice()),
            None => Args::new(a, slice(Slot::B)?, c.slice()),
        };
        if let Some(bias) = slice(Slot::Bias) {
            args = args.bias(bias);
        }
        if let Some(scale) = slice(Slot::RowScale) {
            args = args.row_scale(scale);
        }
        if let Some(scale) = slice(Slot::ColScale) {
            args = args.col_scale(scale);
        }
        if let (Some(a), Some(b)) = (slice(Slot::AScales), slice(Slot::BScales)) {
            args = args.block_scales(a, b);
        }
        if let Some(scales) = slice(Slot::GroupScales) {
            args = args.group_scales(scales);
        }
        Some(args)
    }
}

fn on_device<B: Backend>(device: &B, job: &Job<'_>) -> Result<Executed, Error> {
    let case = job.case;
    let problem = &case.problem;
    let plan = Gemm::<B>::plan(device, problem, &job.options())?;
    let c = stored(device, "C", &case.c)?;
    let mut inputs = Inputs {
        all: vec![
            (Slot::A, stored(device, "A", &case.a)?),
            (Slot::B, stored(device, "B", &case.b)?),
        ],
    };
    let (f32, e8m0) = (f32::TYPE, ElementType::E8M0);
    let (blocks, groups) = (problem.block_scales, problem.b_group.is_some());
    for (given, slot, name, element, bytes) in [
        (problem.bias, Slot::Bias, "bias", problem.bias_element(), &case.bias),
        (problem.row_scale, Slot::RowScale, "row scale", f32, &case.row_scale),
        (problem.col_scale, Slot::ColScale, "column scale", f32, &case.col_scale),
        (blocks, Slot::AScales, "block scales of A", e8m0, &case.a_block_scales),
        (blocks, Slot::BScales, "block scales of B", e8m0, &case.b_block_scales),
        (groups, Slot::GroupScales, "group scales", f32, &case.b_group_scales),
    ] {
        if given {
            inputs.all.push((slot, vector(device, name, element, bytes)?));
        }
    }
    let find = |slot: Slot| inputs.all.iter().find(|(of, _)| *of == slot);
    let mut packed = match (job.route, find(Slot::B)) {
        (Route::Packed, Some((_, b))) => Some(plan.pack_b(b.slice())?),
        _ => None,
    };
    if let Some(turn) = job.after_another {
        // First of all, so that what a plan remembers of its first execution is the other's.
        execute_another(device, &plan, &inputs, packed.as_ref(), &c, turn)?;
        if let (Some(_), Some((_, b))) = (&packed, find(Slot::B)) {
            packed = packed_elsewhere(device, problem, &plan, &inputs, b, &c)?.or(packed);
        }
    }
    if let Some(args) = inputs.args(packed.as_ref(), &c, None) {
        plan.execute(&args)?;
    }
    let after = block_on(device.download(&c.tensor))?;

    let mut changed_inputs = Vec::new();
    for (_, input) in inputs.all.iter().filter(|_| job.reads_inputs_back) {
        if block_on(device.download(&input.tensor))? != input.bytes {
            changed_inputs.push(input.name);
        }
    }
    let summary = plan.summary();
    let mut passes = summary.passes.clone();
    if packed.is_some() && !passes.contains(&PACK_B) {
        passes.push(PACK_B);
    }
    Ok(Executed { kernel: summary.kernel.clone(), passes, c: after, changed_inputs })
}

/// B packed by the plan of a product of more rows, or of one row, if this plan reads what that packs.
fn packed_elsewhere<B: Backend>(
    device: &B,
    problem: &Problem,
    plan: &GemmPlan<'_, B>,
    inputs: &Inputs<B::Tensor>,
    b: &Input<B::Tensor>,
    c: &Input<B::Tensor>,
) -> Result<Option<B::PackedB>, Error> {
    let mut read = None;
    for rows in [problem.m.saturating_mul(3), 1] {
        let Some(other) = with_rows(device, problem, rows) else { continue };
        let packed = other.pack_b(b.slice())?;
        let Some(args) = inputs.args(Some(&packed), c, None) else { continue };
        match plan.execute(&args) {
            Ok(()) => read = Some(packed),
            Err(Error::PackedMismatch { .. }) => {}
            Err(error) => return Err(error),
        }
        device.upload(&c.tensor, 0, &c.bytes)?;
    }
    Ok(read)
}

/// A plan, of the backend's own choice, for a product with the same B and so many rows; none if the
/// backend has none.
fn with_rows<'d, B: Backend>(
    device: &'d B,
    problem: &Problem,
    rows: usize,
) -> Option<GemmPlan<'d, B>> {
    let mut other = problem.clone();
    other.m = rows;
    let (a, c) = (other.a_shape(), other.c_shape());
    // Lines of four-bit elements are whole bytes.
    let dense = |shape: Shape| Layout::row_major(shape.rows, shape.cols.next_multiple_of(2));
    (other.a_layout, other.c_layout) = (dense(a), dense(c));
    Gemm::<B>::plan(device, &other, &PlanOptions::default()).ok()
}

/// Executes the plan with one operand, whose turn it is, in another tensor of other content, and
/// restores C: whatever the plan remembers of that must not show in the next execution.
fn execute_another<B: Backend>(
    device: &B,
    plan: &GemmPlan<'_, B>,
    inputs: &Inputs<B::Tensor>,
    packed: Option<&B::PackedB>,
    c: &Input<B::Tensor>,
    turn: usize,
) -> Result<(), Error> {
    let other = |input: &Input<B::Tensor>| -> Result<Input<B::Tensor>, Error> {
        // 63 in i8 and e8m0, 0.75 in f32, 1.8 in f16: numbers of every type.
        let bytes = vec![0x3f; input.bytes.len()];
        let tensor = device.alloc(input.tensor.element(), input.tensor.len())?;
        device.upload(&tensor, 0, &bytes)?;
        Ok(Input { name: input.name, tensor, offset: input.offset, bytes })
    };
    match inputs.all.get(turn % (inputs.all.len() + 1)) {
        None => {
            let c = other(c)?;
            if let Some(args) = inputs.args(packed, &c, None) {
                plan.execute(&args)?;
            }
            Ok(())
        }
        Some((slot, input)) => {
            let other = (*slot, other(input)?);
            let repacked = match (slot, packed) {
                (Slot::B, Some(_)) => Some(plan.pack_b(other.1.slice())?),
                _ => None,
            };
            if let Some(args) = inputs.args(repacked.as_ref().or(packed), c, Some(&other)) {
                plan.execute(&args)?;
            }
            device.upload(&c.tensor, 0, &c.bytes)
        }
    }
}
