//! B in the order the kernels read it, copied once.

use std::fmt;

use lapidary_core::{ElementType, Error, Layout, Operand, Placement, Problem, Tensor, TensorSlice};

use crate::bind::Source;
use crate::decide::{self, Reads};
use crate::device::Wgsl;
use crate::plan::WgslPlan;
use crate::tensor::WgslTensor;

/// B copied so that neighbouring columns lie next to each other and every step along K starts at a
/// multiple of 16 elements, zeros behind the last column.
///
/// ```text
/// packed[(matrix · K + k) · pitch + column]      pitch = N rounded up to a multiple of 16
/// ```
///
/// Every kernel reads this order in whole vectors. A batch that shares one B (batch stride 0) is
/// packed as one matrix. A B longer than a binding is packed in parts and multiplied in pieces of K.
#[derive(Debug)]
pub struct WgslPackedB {
    pub(crate) tensor: WgslTensor,
    layout: Layout,
    form: Form,
    description: String,
}

/// What has to agree for two to be interchangeable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    element: ElementType,
    batch: usize,
    n: usize,
    k: usize,
    matrices: usize,
    pitch: usize,
}

impl WgslPackedB {
    /// What it is, in words; two of equal description are interchangeable.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }
}

impl Form {
    fn new(problem: &Problem, reads: &Reads) -> Self {
        let (matrices, pitch) = reads.copy.map_or((0, 0), |copy| (copy.batch, copy.pitch));
        let Problem { b: element, batch, n, k, .. } = *problem;
        Self { element, batch, n, k, matrices, pitch }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { element, batch, n, k, matrices, pitch } = self;
        write!(
            f,
            "{element} of batch {batch}, N {n}, K {k}, in {matrices} matrices by rows of {pitch}"
        )
    }
}

/// How a packed B of this problem lies.
fn packed(problem: &Problem) -> Result<Reads, Error> {
    decide::packed_b(problem).ok_or(Error::LimitExceeded {
        what: "elements of B to pack",
        requested: u128::MAX,
        limit: isize::MAX as u128,
    })
}

/// The problem of a product whose B is packed, which is one like any other.
pub(crate) fn problem_of_packed(problem: &Problem) -> Result<Problem, Error> {
    Ok(problem.clone().b_layout(packed(problem)?.layout))
}

/// A packed B as the kernels of this problem's plan read it.
///
/// # Errors
/// [`Error::PackedMismatch`] if it was packed for another problem; [`Error::Aliasing`] if C lies in it.
pub(crate) fn packed_source<'a>(
    problem: &Problem,
    packed_b: &'a WgslPackedB,
    c: TensorSlice<'_, WgslTensor>,
) -> Result<Source<'a>, Error> {
    let expected = Form::new(problem, &packed(problem)?);
    if packed_b.form != expected {
        let (found, expected) = (packed_b.description.clone(), expected.to_string());
        return Err(Error::PackedMismatch { found, expected });
    }
    if packed_b.tensor.same_allocation(c.tensor) {
        return Err(Error::Aliasing {
            operand: Operand::B,
            c_first: 0,
            c_end: c.tensor.element().bytes_for(c.tensor.len()),
            first: 0,
            end: packed_b.tensor.element().bytes_for(packed_b.tensor.len()),
        });
    }
    Ok(Source { tensor: &packed_b.tensor, offset: 0, layout: packed_b.layout })
}

/// What was expected where B is in no known form.
pub(crate) fn expected(problem: &Problem) -> Result<String, Error> {
    Ok(Form::new(problem, &packed(problem)?).to_string())
}

impl Wgsl {
    pub(crate) fn make_packed_b(
        &self,
        plan: &WgslPlan,
        b: TensorSlice<'_, WgslTensor>,
    ) -> Result<WgslPackedB, Error> {
        self.check_plan(plan)?;
        self.check_owner(b.tensor)?;
        let problem = &plan.problem;
        if b.tensor.element() != problem.b {
            return Err(Error::ElementTypeMismatch {
                operand: Operand::B,
                found: b.tensor.element(),
                expected: problem.b,
            });
        }
        let shape = problem.b_shape();
        Placement { offset: b.offset, shape, layout: problem.b_layout }
            .check_bounds(b.tensor.len())?;
        let reads = packed(problem)?;
        let len = reads.copy.map_or(0, |copy| copy.len);
        if problem.reads_factors() && !problem.is_empty() {
            // Compile now what will read it.
            self.packed_plan(plan)?;
        }
        let tensor = self.allocate(problem.b, len)?;
        if !shape.is_empty() {
            let source = Source { tensor: b.tensor, offset: b.offset, layout: problem.b_layout };
            self.submit(&self.bind_copy(problem, source, &tensor, reads, false)?)?;
        }
        let form = Form::new(problem, &reads);
        Ok(WgslPackedB { tensor, layout: reads.layout, form, description: form.to_string() })
    }
}
