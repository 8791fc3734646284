//! Random operands for a problem, on the host and on the device.

use lapidary_core::random::Random;
use lapidary_core::{
    AnyMatrixRef, AnyVectorRef, Args, Backend, ElementType, Error, Layout, Operand, Operands,
    Placement, Problem, Shape, Tensor, TensorSlice, element, oracle,
};

use super::Outcome;
use crate::{Wgsl, WgslPlan, WgslTensor};

/// Random elements made one by one; longer operands repeat them. A prime, so that no row length
/// divides it.
const DISTINCT: usize = 1_048_573;

/// A matrix in both places.
struct Mirrored {
    bytes: Vec<u8>,
    tensor: WgslTensor,
    place: Placement,
}

/// A bias or scales in both places.
struct Vector {
    bytes: Vec<u8>,
    tensor: WgslTensor,
}

impl Vector {
    fn slice(&self) -> TensorSlice<'_, WgslTensor> {
        TensorSlice::from(&self.tensor)
    }

    fn view(&self) -> AnyVectorRef<'_> {
        AnyVectorRef::new(&self.bytes, self.tensor.element())
    }
}

/// Everything a problem reads and writes.
pub(super) struct Data<'p> {
    problem: &'p Problem,
    a: Mirrored,
    b: Mirrored,
    c: Mirrored,
    bias: Option<Vector>,
    row_scale: Option<Vector>,
    col_scale: Option<Vector>,
    group_scales: Option<Vector>,
}

impl<'p> Data<'p> {
    /// Fills operands of the problem's own strides.
    pub(super) fn new(device: &Wgsl, problem: &'p Problem) -> Result<Self, Error> {
        let mut random = Random::new(11);
        let mut matrix =
            |element, shape, layout| mirror(device, element, shape, layout, &mut random);
        let a = matrix(problem.a, problem.a_shape(), problem.a_layout)?;
        let b = matrix(problem.b, problem.b_shape(), problem.b_layout)?;
        let c = matrix(problem.c, problem.c_shape(), problem.c_layout)?;
        let mut vector = |wanted: bool, element, len| -> Result<_, Error> {
            if !wanted {
                return Ok(None);
            }
            let bytes = filled(element, len, &mut random);
            let tensor = device.alloc(element, len)?;
            device.upload(&tensor, 0, &bytes)?;
            Ok(Some(Vector { bytes, tensor }))
        };
        let bias = vector(problem.bias, problem.bias_element(), problem.n)?;
        let mut scales =
            |wanted, operand| vector(wanted, ElementType::F32, problem.scale_count(operand));
        let row_scale = scales(problem.row_scale, Operand::RowScale)?;
        let col_scale = scales(problem.col_scale, Operand::ColScale)?;
        let group_scales = scales(problem.b_group.is_some(), Operand::GroupScalesB)?;
        Ok(Self { problem, a, b, c, bias, row_scale, col_scale, group_scales })
    }

    pub(super) fn args(&self) -> Args<'_, Wgsl> {
        let slice = |m: &'_ Mirrored| m.place.offset;
        let args = Args::new(
            TensorSlice::new(&self.a.tensor, slice(&self.a)),
            TensorSlice::new(&self.b.tensor, slice(&self.b)),
            TensorSlice::new(&self.c.tensor, slice(&self.c)),
        );
        let mut args = args;
        args.bias = self.bias.as_ref().map(Vector::slice);
        args.row_scale = self.row_scale.as_ref().map(Vector::slice);
        args.col_scale = self.col_scale.as_ref().map(Vector::slice);
        args.b_group_scales = self.group_scales.as_ref().map(Vector::slice);
        args
    }

    /// Runs a plan once and compares a sample of C with the oracle; `None` if all is well.
    ///
    /// C is full of NaN before where it is not read, so that an element nobody writes is found.
    pub(super) fn check(
        &self,
        device: &Wgsl,
        plan: &WgslPlan,
        sample: usize,
    ) -> Result<Option<Outcome>, Error> {
        let problem = self.problem;
        if problem.reads_c() {
            device.upload(&self.c.tensor, 0, &self.c.bytes)?;
        } else {
            device.upload(&self.c.tensor, 0, &vec![0xff; self.c.bytes.len()])?;
        }
        device.execute(plan, &self.args())?;
        let found = pollster::block_on(device.download(&self.c.tensor))?;
        let view = |m: &'_ Mirrored| -> Placement { m.place };
        let mut operands = Operands::new(
            AnyMatrixRef::new(&self.a.bytes, problem.a, view(&self.a))?,
            AnyMatrixRef::new(&self.b.bytes, problem.b, view(&self.b))?,
        );
        if problem.reads_c() {
            operands = operands.c(AnyMatrixRef::new(&self.c.bytes, problem.c, view(&self.c))?);
        }
        operands.bias = self.bias.as_ref().map(Vector::view);
        operands.row_scale = self.row_scale.as_ref().map(Vector::view);
        operands.col_scale = self.col_scale.as_ref().map(Vector::view);
        operands.b_group_scales = self.group_scales.as_ref().map(Vector::view);
        let summary = device.summary(plan);
        let positions = oracle::sample_positions(problem, summary.block_tile, sample, 12);
        let mut reference = oracle::reference_at(problem, &operands, &positions)?;
        if summary.f16_sums {
            reference = reference.of_random_f16_sums();
        }
        let comparison = reference.compare(&AnyMatrixRef::new(&found, problem.c, view(&self.c))?);
        let (wrong, checked) = (comparison.mismatches + comparison.unjudged, comparison.checked);
        Ok((wrong > 0).then_some(Outcome::Wrong { wrong, checked }))
    }
}

fn mirror(
    device: &Wgsl,
    element: ElementType,
    shape: Shape,
    layout: Layout,
    random: &mut Random,
) -> Result<Mirrored, Error> {
    let (len, offset) = match layout.extent(shape) {
        Some(extent) => {
            let len = usize::try_from(extent.max - extent.min + 1).unwrap_or(usize::MAX);
            (len, usize::try_from(-extent.min).unwrap_or(0))
        }
        None => (0, 0),
    };
    // Refused by the device before the host makes room for it.
    let tensor = device.alloc(element, len)?;
    let bytes = filled(element, len, random);
    device.upload(&tensor, 0, &bytes)?;
    Ok(Mirrored { bytes, tensor, place: Placement { offset, shape, layout } })
}

/// Uniform from −1 to 1, or all values of an integer type but its smallest.
fn filled(element: ElementType, len: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; element.bytes_for(len)];
    let distinct = len.min(DISTINCT);
    for index in 0..distinct {
        let value = match element {
            ElementType::I8 | ElementType::I32 => f64::from(random.integer(-127, 127)),
            ElementType::I4 => f64::from(random.integer(-7, 7)),
            _ => random.unit(),
        };
        element::write_f64(element, &mut bytes, index, value);
    }
    let (first, rest) = bytes.split_at_mut(element.bytes_for(distinct));
    for piece in rest.chunks_mut(first.len().max(1)) {
        piece.copy_from_slice(&first[..piece.len()]);
    }
    bytes
}
