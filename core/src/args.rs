//! The operands of one execution, on the device, and their checks.

use crate::backend::{Backend, Tensor, TensorSlice};
use crate::element::ElementType;
use crate::error::{Error, Operand};
use crate::layout::{Layout, Placement, Shape};
use crate::problem::Problem;

/// B as it is, or as [`Backend::pack_b`] prepared it.
#[derive(Debug)]
#[non_exhaustive]
pub enum BOperand<'a, B: Backend> {
    /// In the layout the problem states.
    Plain(TensorSlice<'a, B::Tensor>),
    /// In the layout the plan's kernel likes best.
    Packed(&'a B::PackedB),
}

/// The operands of one execution, on the device.
#[derive(Debug)]
#[non_exhaustive]
pub struct Args<'a, B: Backend> {
    /// The left factor.
    pub a: TensorSlice<'a, B::Tensor>,
    /// The right factor.
    pub b: BOperand<'a, B>,
    /// The output; read first when beta ≠ 0.
    pub c: TensorSlice<'a, B::Tensor>,
    /// One value a column, when the problem has a bias.
    pub bias: Option<TensorSlice<'a, B::Tensor>>,
    /// The f32 scales of A's rows, when the problem has them; order as in [`Operands`](crate::Operands).
    pub row_scale: Option<TensorSlice<'a, B::Tensor>>,
    /// The f32 scales of B's columns, likewise.
    pub col_scale: Option<TensorSlice<'a, B::Tensor>>,
    /// The e8m0 scales of A's blocks along K, likewise.
    pub a_block_scales: Option<TensorSlice<'a, B::Tensor>>,
    /// The e8m0 scales of B's blocks along K, likewise; of a packed B too.
    pub b_block_scales: Option<TensorSlice<'a, B::Tensor>>,
    /// The f32 scales of groups along K of B's columns, likewise; of a packed B too.
    pub b_group_scales: Option<TensorSlice<'a, B::Tensor>>,
}

impl<'a, B: Backend> Args<'a, B> {
    /// A, B and C; each a tensor, or a [`TensorSlice`] that starts inside one.
    pub fn new(
        a: impl Into<TensorSlice<'a, B::Tensor>>,
        b: impl Into<TensorSlice<'a, B::Tensor>>,
        c: impl Into<TensorSlice<'a, B::Tensor>>,
    ) -> Self {
        Self::of(a.into(), BOperand::Plain(b.into()), c.into())
    }

    /// A, a packed B, and C.
    pub fn with_packed_b(
        a: impl Into<TensorSlice<'a, B::Tensor>>,
        b: &'a B::PackedB,
        c: impl Into<TensorSlice<'a, B::Tensor>>,
    ) -> Self {
        Self::of(a.into(), BOperand::Packed(b), c.into())
    }

    fn of(
        a: TensorSlice<'a, B::Tensor>,
        b: BOperand<'a, B>,
        c: TensorSlice<'a, B::Tensor>,
    ) -> Self {
        Self {
            a,
            b,
            c,
            bias: None,
            row_scale: None,
            col_scale: None,
            a_block_scales: None,
            b_block_scales: None,
            b_group_scales: None,
        }
    }

    /// Adds the bias.
    #[must_use]
    pub fn bias(mut self, bias: impl Into<TensorSlice<'a, B::Tensor>>) -> Self {
        self.bias = Some(bias.into());
        self
    }

    /// Adds the scales of A's rows.
    #[must_use]
    pub fn row_scale(mut self, scale: impl Into<TensorSlice<'a, B::Tensor>>) -> Self {
        self.row_scale = Some(scale.into());
        self
    }

    /// Adds the scales of B's columns.
    #[must_use]
    pub fn col_scale(mut self, scale: impl Into<TensorSlice<'a, B::Tensor>>) -> Self {
        self.col_scale = Some(scale.into());
        self
    }

    /// Adds the scales of A's and B's blocks along K.
    #[must_use]
    pub fn block_scales(
        mut self,
        a: impl Into<TensorSlice<'a, B::Tensor>>,
        b: impl Into<TensorSlice<'a, B::Tensor>>,
    ) -> Self {
        self.a_block_scales = Some(a.into());
        self.b_block_scales = Some(b.into());
        self
    }

    /// Adds the scales of groups along K of B's columns.
    #[must_use]
    pub fn group_scales(mut self, scales: impl Into<TensorSlice<'a, B::Tensor>>) -> Self {
        self.b_group_scales = Some(scales.into());
        self
    }

    /// The five kinds of scales.
    pub(crate) fn scales(&self) -> [(Operand, Option<TensorSlice<'a, B::Tensor>>); 5] {
        [
            (Operand::RowScale, self.row_scale),
            (Operand::ColScale, self.col_scale),
            (Operand::BlockScalesA, self.a_block_scales),
            (Operand::BlockScalesB, self.b_block_scales),
            (Operand::GroupScalesB, self.b_group_scales),
        ]
    }

    /// Checks tensors against a problem: element types, bounds, and C apart from the inputs.
    ///
    /// Backends call it first in [`Backend::execute`]. A and B are not looked at where the problem
    /// does not read them.
    ///
    /// # Errors
    /// [`Error::ElementTypeMismatch`], [`Error::ViewOutOfBounds`], [`Error::MissingOperand`],
    /// [`Error::UnexpectedOperand`], [`Error::BiasLength`], [`Error::ScaleLength`],
    /// [`Error::PackedView`] or [`Error::Aliasing`].
    pub fn check(&self, problem: &Problem) -> Result<(), Error> {
        if problem.is_empty() {
            return Ok(());
        }
        let c =
            Placement { offset: self.c.offset, shape: problem.c_shape(), layout: problem.c_layout };
        check_tensor(Operand::C, self.c.tensor, c, problem.c)?;
        if problem.reads_factors() {
            let a = Placement {
                offset: self.a.offset,
                shape: problem.a_shape(),
                layout: problem.a_layout,
            };
            check_tensor(Operand::A, self.a.tensor, a, problem.a)?;
            check_apart(self.c.tensor, c, Operand::A, self.a.tensor, a)?;
            if let BOperand::Plain(b) = &self.b {
                let place = Placement {
                    offset: b.offset,
                    shape: problem.b_shape(),
                    layout: problem.b_layout,
                };
                check_tensor(Operand::B, b.tensor, place, problem.b)?;
                check_apart(self.c.tensor, c, Operand::B, b.tensor, place)?;
            }
        }
        for (operand, scales) in self.scales() {
            let expected = problem.scale_count(operand);
            // A tensor may go on behind the scales.
            let available =
                scales.map(|s| (s.tensor.len().saturating_sub(s.offset), s.tensor.element()));
            let used = available.map(|(len, element)| (len.min(expected), element));
            problem.check_scale(operand, used)?;
            if let (Some(scales), true) = (scales, problem.reads_factors()) {
                let place = Placement {
                    offset: scales.offset,
                    shape: Shape::new(1, expected),
                    layout: Layout::row_major(1, expected),
                };
                check_apart(self.c.tensor, c, operand, scales.tensor, place)?;
            }
        }
        match (&self.bias, problem.bias) {
            (None, false) => Ok(()),
            (None, true) => Err(Error::MissingOperand {
                operand: Operand::Bias,
                why: "the problem adds a bias",
            }),
            (Some(_), false) => Err(Error::UnexpectedOperand {
                operand: Operand::Bias,
                why: "the problem adds none",
            }),
            (Some(bias), true) => {
                let available = bias.tensor.len().saturating_sub(bias.offset);
                if available < problem.n {
                    return Err(Error::BiasLength { found: available, expected: problem.n });
                }
                let place = Placement {
                    offset: bias.offset,
                    shape: Shape::new(1, problem.n),
                    layout: Layout::row_major(1, problem.n),
                };
                check_tensor(Operand::Bias, bias.tensor, place, problem.bias_element())?;
                check_apart(self.c.tensor, c, Operand::Bias, bias.tensor, place)
            }
        }
    }
}

fn check_tensor<T: Tensor>(
    operand: Operand,
    tensor: &T,
    place: Placement,
    expected: ElementType,
) -> Result<(), Error> {
    if tensor.element() != expected {
        return Err(Error::ElementTypeMismatch { operand, found: tensor.element(), expected });
    }
    place.check_bounds(tensor.len())?;
    place.check_packed(expected)
}

/// Refuses an input that shares elements with C.
///
/// Views of equal element size and alignment are compared exactly where [`Placement::overlaps`] is
/// exact, others by the bytes they span.
fn check_apart<T: Tensor>(
    c_tensor: &T,
    c: Placement,
    operand: Operand,
    tensor: &T,
    input: Placement,
) -> Result<(), Error> {
    if !c_tensor.same_allocation(tensor) {
        return Ok(());
    }
    let bytes = |tensor: &T, place: &Placement| {
        let span = place.span()?;
        let bits = tensor.element().bits();
        let first = tensor.byte_offset() + span.start * bits / 8;
        Some((first, tensor.byte_offset() + (span.end * bits).div_ceil(8)))
    };
    let (Some((c_first, c_end)), Some((first, end))) = (bytes(c_tensor, &c), bytes(tensor, &input))
    else {
        return Ok(());
    };
    if c_first >= end || first >= c_end {
        return Ok(());
    }
    let size = c_tensor.element().size();
    let comparable = c_tensor.element().bits() == tensor.element().bits()
        && !tensor.element().is_packed()
        && c_tensor.byte_offset().is_multiple_of(size)
        && tensor.byte_offset().is_multiple_of(size);
    if comparable {
        let shift = |tensor: &T, place: Placement| Placement {
            offset: place.offset + tensor.byte_offset() / size,
            ..place
        };
        if !shift(c_tensor, c).overlaps(&shift(tensor, input)) {
            return Ok(());
        }
    }
    Err(Error::Aliasing { operand, c_first, c_end, first, end })
}
