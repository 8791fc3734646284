//! Running a job on anything that implements the backend contract.

use lapidary_core::testing::{Stored, block_on};
use lapidary_core::{
    AnyMatrixMut, Args, Backend, Element, ElementType, Error, Gemm, Tensor, TensorSlice,
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
        Route::Device | Route::Packed | Route::Pieces => on_device(device, job),
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

fn on_device<B: Backend>(device: &B, job: &Job<'_>) -> Result<Executed, Error> {
    let case = job.case;
    let problem = &case.problem;
    let plan = Gemm::<B>::plan(device, problem, &job.options())?;
    let a = stored(device, "A", &case.a)?;
    let b = stored(device, "B", &case.b)?;
    let c = stored(device, "C", &case.c)?;
    let given = |wanted: bool, name, element, bytes: &[u8]| {
        wanted.then(|| vector(device, name, element, bytes)).transpose()
    };
    let bias = given(problem.bias, "bias", problem.bias_element(), &case.bias)?;
    let row_scale = given(problem.row_scale, "row scale", f32::TYPE, &case.row_scale)?;
    let col_scale = given(problem.col_scale, "column scale", f32::TYPE, &case.col_scale)?;
    let e8m0 = ElementType::E8M0;
    let blocks = problem.block_scales;
    let a_scales = given(blocks, "block scales of A", e8m0, &case.a_block_scales)?;
    let b_scales = given(blocks, "block scales of B", e8m0, &case.b_block_scales)?;

    let groups = given(problem.b_group.is_some(), "group scales", f32::TYPE, &case.b_group_scales)?;

    let packed = match job.route {
        Route::Packed => Some(plan.pack_b(b.slice())?),
        _ => None,
    };
    let mut args = match &packed {
        Some(packed) => Args::with_packed_b(a.slice(), packed, c.slice()),
        None => Args::new(a.slice(), b.slice(), c.slice()),
    };
    if let Some(bias) = &bias {
        args = args.bias(bias.slice());
    }
    if let Some(scale) = &row_scale {
        args = args.row_scale(scale.slice());
    }
    if let Some(scale) = &col_scale {
        args = args.col_scale(scale.slice());
    }
    if let (Some(a), Some(b)) = (&a_scales, &b_scales) {
        args = args.block_scales(a.slice(), b.slice());
    }
    if let Some(scales) = &groups {
        args = args.group_scales(scales.slice());
    }
    plan.execute(&args)?;
    let after = block_on(device.download(&c.tensor))?;

    let mut changed_inputs = Vec::new();
    let vectors = [bias, row_scale, col_scale, a_scales, b_scales, groups];
    let inputs = [a, b];
    let inputs = inputs.iter().chain(vectors.iter().flatten());
    for input in inputs.filter(|_| job.reads_inputs_back) {
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
