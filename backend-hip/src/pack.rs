//! B packed for repeated use.

use std::sync::Arc;

use lapidary_core::{Error, Operand, Placement, Problem, Tensor, TensorSlice};

use crate::decide::Product;
use crate::decide::{bytes_of_rows, too_many};
use crate::device::Hip;
use crate::passes::{PackAArgs, PackAConfig};
use crate::plan::HipPlan;
use crate::preshuffle::{PackedB, PackedLayout};
use crate::tensor::{HipTensor, Memory};

/// B on the device in a kernel's own layout; a plan of another layout refuses it.
///
/// A preshuffled B serves every plan of the same K, N, batch and type whose strips along K divide its
/// padded length, so one that is padded for long strips ([`PackedB::pack`]) serves few rows and many.
#[derive(Clone, Debug)]
pub struct HipPackedB {
    memory: Option<Arc<Memory>>,
    form: Form,
}

/// How B lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// As the matrix-core kernel reads it.
    Preshuffled(PackedLayout),
    /// Rows without gaps, for the kernels of the course: B's sizes, and elements from row to row.
    Rows { k: usize, n: usize, batch: usize, row: usize },
    /// The plan does not read B.
    Unread,
}

impl Form {
    fn describe(&self) -> String {
        match self {
            Self::Preshuffled(layout) => layout.describe(),
            Self::Rows { k, n, batch, row } => {
                format!("{k}x{n} in rows of {row} elements, batch {batch}")
            }
            Self::Unread => "nothing, for a product that does not read B".into(),
        }
    }
}

/// Where a packed B lies, for a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedPlace {
    pub(crate) address: u64,
    /// Its layout, where it is preshuffled.
    pub(crate) layout: Option<PackedLayout>,
    /// Elements from row to row, where B lies in rows.
    pub(crate) row: usize,
}

impl HipPackedB {
    /// Checks that a plan reads this layout, and says where it lies.
    pub(crate) fn place(&self, hip: &Hip, plan: &HipPlan) -> Result<PackedPlace, Error> {
        let mismatch =
            |expected: String| Error::PackedMismatch { found: self.form.describe(), expected };
        let problem = &plan.problem;
        match (&plan.decision.product, &self.form) {
            (Product::None, _) => {}
            (Product::Preshuffle(product), Form::Preshuffled(layout)) => {
                let batch = plan.decision.b.map_or(problem.batch, |layout| layout.batch);
                layout
                    .check(&product.config, problem.k, problem.n, batch)
                    .map_err(|error| hip.inner.error(error))?;
                // The plan's block scales are packed for its own padding.
                let planned = plan.decision.b.filter(|_| problem.block_scales);
                if let Some(planned) = planned.filter(|planned| planned != layout) {
                    return Err(mismatch(planned.describe()));
                }
            }
            (Product::Step(_), form) if *form == rows(problem) => {}
            (Product::Step(_), _) => return Err(mismatch(rows(problem).describe())),
            (Product::Preshuffle(_), _) => {
                let needed = plan.decision.b.map(|layout| layout.describe());
                return Err(mismatch(needed.unwrap_or_default()));
            }
        }
        let Some(memory) = &self.memory else {
            return Ok(PackedPlace { address: 0, layout: None, row: 0 });
        };
        if !memory.is_on(hip) {
            return Err(mismatch("a packed B on this device".into()));
        }
        let (layout, row) = match self.form {
            Form::Preshuffled(layout) => (Some(layout), 0),
            Form::Rows { row, .. } => (None, row),
            Form::Unread => (None, 0),
        };
        Ok(PackedPlace { address: memory.address, layout, row })
    }
}

/// The form that a step's B takes.
fn rows(problem: &Problem) -> Form {
    let Problem { k, n, batch, .. } = *problem;
    let row = problem.b.bytes_for(n).next_multiple_of(16) / problem.b.size();
    Form::Rows { k, n, batch, row }
}

impl Hip {
    /// Copies a B that was packed on the host to the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or a device error.
    pub fn upload_packed_b(&self, packed: &PackedB) -> Result<HipPackedB, Error> {
        let memory = Memory::allocate(self, packed.bytes().len() as u64, "packed B")?;
        if !packed.bytes().is_empty() {
            self.inner
                .runtime
                .write(memory.address, packed.bytes(), self.stream)
                .map_err(|error| self.inner.error(error))?;
        }
        Ok(HipPackedB { memory: Some(memory), form: Form::Preshuffled(*packed.layout()) })
    }

    pub(crate) fn make_packed_b(
        &self,
        plan: &HipPlan,
        b: TensorSlice<'_, HipTensor>,
    ) -> Result<HipPackedB, Error> {
        plan.check_owner(self)?;
        let problem = &plan.problem;
        if plan.decision.product == Product::None {
            return Ok(HipPackedB { memory: None, form: Form::Unread });
        }
        if b.tensor.element() != problem.b {
            return Err(Error::ElementTypeMismatch {
                operand: Operand::B,
                found: b.tensor.element(),
                expected: problem.b,
            });
        }
        self.check_tensor(b.tensor)?;
        let place =
            Placement { offset: b.offset, shape: problem.b_shape(), layout: problem.b_layout };
        place.check_bounds(b.tensor.len())?;
        place.check_packed(problem.b)?;
        let from = b.tensor.address_of(b.offset);
        if let Some(layout) = plan.decision.b {
            let bytes = layout.matrix_bytes().unwrap_or(0) as u64 * layout.batch as u64;
            let memory = Memory::allocate(self, bytes, "packed B")?;
            self.launch_pack_b(plan, &layout, from, memory.address)?;
            return Ok(HipPackedB { memory: Some(memory), form: Form::Preshuffled(layout) });
        }
        // B's rows are copied as A's are.
        let config =
            PackAConfig { target: self.target(), element: problem.b, lanes_along_m: false };
        let row_bytes = config.row_bytes(problem.n);
        let bytes = bytes_of_rows("bytes of the packed B", row_bytes, [problem.k, problem.batch])?;
        let memory = Memory::allocate(self, bytes, "packed B")?;
        let args = PackAArgs {
            from,
            to: memory.address,
            row_stride: problem.b_layout.row_stride as i64,
            k_stride: problem.b_layout.col_stride as i64,
            batch_stride: problem.b_layout.batch_stride as i64,
            ..PackAArgs::sizes(&config, [problem.k, problem.n], problem.batch).map_err(too_many)?
        };
        let kernel = self.inner.kernel(&config.request(), "pack_a")?;
        self.launch(&kernel, args.launch().map_err(too_many)?, bytemuck::bytes_of(&args))?;
        Ok(HipPackedB { memory: Some(memory), form: rows(problem) })
    }
}
