//! B in the order the kernels read it.

use lapidary_core::{ElementType, Error, Layout, Placement, Problem, Tensor, TensorSlice};

use crate::device::Wgsl;
use crate::plan::WgslPlan;
use crate::tensor::WgslTensor;

/// B copied column by column, each column `pitch` elements long with zeros behind K.
///
/// The tiled kernels keep B's tile transposed and so read B along k; in this order those reads are
/// contiguous.
#[derive(Debug)]
pub struct WgslPackedB {
    pub(crate) tensor: WgslTensor,
    element: ElementType,
    batch: usize,
    n: usize,
    k: usize,
}

/// Elements of a column of the copy: whole words.
fn pitch(element: ElementType, k: usize) -> usize {
    k.next_multiple_of(if element.is_packed() { 8 } else { 4 })
}

impl WgslPackedB {
    /// The layout the kernels read the copy by.
    pub(crate) fn layout(&self) -> Layout {
        let pitch = pitch(self.element, self.k);
        Layout {
            row_stride: 1,
            col_stride: pitch as isize,
            batch_stride: (pitch * self.n) as isize,
        }
    }

    /// What it is, in words; two of equal description are interchangeable.
    #[must_use]
    pub fn description(&self) -> String {
        describe(self.element, self.batch, self.n, self.k)
    }

    pub(crate) fn describe(problem: &Problem) -> String {
        describe(problem.b, problem.batch, problem.n, problem.k)
    }
}

fn describe(element: ElementType, batch: usize, n: usize, k: usize) -> String {
    format!("k-major {element} of batch {batch}, N {n}, K {k}, pitch {}", pitch(element, k))
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
                operand: lapidary_core::Operand::B,
                found: b.tensor.element(),
                expected: problem.b,
            });
        }
        let shape = problem.b_shape();
        Placement { offset: b.offset, shape, layout: problem.b_layout }
            .check_bounds(b.tensor.len())?;
        let pitch = pitch(problem.b, problem.k);
        let len = pitch.checked_mul(problem.n).and_then(|len| len.checked_mul(problem.batch));
        let limit = self.inner.limits.binding_bytes;
        let bytes_of = |elements: u128| (elements * problem.b.bits() as u128).div_ceil(8);
        let bytes = len.map_or(u128::MAX, |len| bytes_of(len as u128));
        let source = problem.b_layout.extent(shape).map_or(0, |e| e.max - e.min + 1) as u128;
        for requested in [bytes, bytes_of(source) + 256] {
            if requested > u128::from(limit) {
                return Err(Error::LimitExceeded {
                    what: "bytes of B to pack in one binding",
                    requested,
                    limit: u128::from(limit),
                });
            }
        }
        let tensor = self.allocate(problem.b, len.unwrap_or(0))?;
        let packed = WgslPackedB {
            tensor,
            element: problem.b,
            batch: problem.batch,
            n: problem.n,
            k: problem.k,
        };
        if !shape.is_empty() {
            let dispatch = self.bind_pack_b(plan, b, &packed.tensor, pitch)?;
            self.submit(&[dispatch])?;
        }
        Ok(packed)
    }
}
