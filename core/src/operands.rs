//! The operands of a one-shot product, on the host.

use crate::element::ElementType;
use crate::error::{Error, Operand};
use crate::problem::Problem;
use crate::view::{AnyMatrixRef, AnyVectorRef};

/// A, B, and where the problem asks for them C and the bias.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Operands<'a> {
    /// The left factor, M×K.
    pub a: AnyMatrixRef<'a>,
    /// The right factor, K×N.
    pub b: AnyMatrixRef<'a>,
    /// What beta scales, M×N; only read at beta ≠ 0.
    pub c: Option<AnyMatrixRef<'a>>,
    /// One value a column of C.
    pub bias: Option<AnyVectorRef<'a>>,
    /// An f32 for each row of A, matrix after matrix.
    pub row_scale: Option<AnyVectorRef<'a>>,
    /// An f32 for each column of B, matrix after matrix.
    pub col_scale: Option<AnyVectorRef<'a>>,
    /// An e8m0 for each 32 elements along K of each row of A: those of a row one after the other,
    /// row after row, matrix after matrix.
    pub a_block_scales: Option<AnyVectorRef<'a>>,
    /// An e8m0 for each 32 elements along K of each column of B: those of a column one after the
    /// other, column after column, matrix after matrix.
    pub b_block_scales: Option<AnyVectorRef<'a>>,
    /// An f32 for each group of elements along K of each column of B, in the same order.
    pub b_group_scales: Option<AnyVectorRef<'a>>,
}

impl<'a> Operands<'a> {
    /// A and B.
    pub fn new(a: impl Into<AnyMatrixRef<'a>>, b: impl Into<AnyMatrixRef<'a>>) -> Self {
        Self {
            a: a.into(),
            b: b.into(),
            c: None,
            bias: None,
            row_scale: None,
            col_scale: None,
            a_block_scales: None,
            b_block_scales: None,
            b_group_scales: None,
        }
    }

    /// Adds the matrix that beta scales.
    #[must_use]
    pub fn c(mut self, c: impl Into<AnyMatrixRef<'a>>) -> Self {
        self.c = Some(c.into());
        self
    }

    /// Adds the bias.
    #[must_use]
    pub fn bias(mut self, bias: impl Into<AnyVectorRef<'a>>) -> Self {
        self.bias = Some(bias.into());
        self
    }

    /// Adds the scales of A's rows.
    #[must_use]
    pub fn row_scale(mut self, scale: impl Into<AnyVectorRef<'a>>) -> Self {
        self.row_scale = Some(scale.into());
        self
    }

    /// Adds the scales of B's columns.
    #[must_use]
    pub fn col_scale(mut self, scale: impl Into<AnyVectorRef<'a>>) -> Self {
        self.col_scale = Some(scale.into());
        self
    }

    /// Adds the scales of A's and B's blocks along K.
    #[must_use]
    pub fn block_scales(
        mut self,
        a: impl Into<AnyVectorRef<'a>>,
        b: impl Into<AnyVectorRef<'a>>,
    ) -> Self {
        self.a_block_scales = Some(a.into());
        self.b_block_scales = Some(b.into());
        self
    }

    /// Adds the scales of groups along K of B's columns: as many for each column as K has groups,
    /// those of a column one after the other.
    #[must_use]
    pub fn group_scales(mut self, scales: impl Into<AnyVectorRef<'a>>) -> Self {
        self.b_group_scales = Some(scales.into());
        self
    }

    /// The problem these operands state: sizes, batch, element types and layouts from the views,
    /// `c` as the output type, a bias and scales if given; alpha 1, beta 0 and no activation. Groups
    /// are as long as makes the group scales' number right.
    ///
    /// # Errors
    /// [`Error::InnerDimensionMismatch`] if A's columns are not B's rows,
    /// [`Error::ShapeMismatch`] if their batches differ, and [`Error::ScaleLength`] if the group
    /// scales are no whole number for each column of B, or that number does not divide K.
    pub fn problem(&self, c: ElementType) -> Result<Problem, Error> {
        let (a, b) = (self.a.shape(), self.b.shape());
        if a.cols != b.rows {
            return Err(Error::InnerDimensionMismatch { a_cols: a.cols, b_rows: b.rows });
        }
        let mut problem = Problem::new(a.rows, b.cols, a.cols)
            .batch(a.batch)
            .a_layout(self.a.placement().layout)
            .b_layout(self.b.placement().layout)
            .bias(self.bias.is_some())
            .row_scale(self.row_scale.is_some())
            .col_scale(self.col_scale.is_some())
            .block_scales(self.a_block_scales.is_some() || self.b_block_scales.is_some());
        problem.a = self.a.element();
        problem.b = self.b.element();
        problem.c = c;
        if b.batch != a.batch {
            return Err(Error::ShapeMismatch {
                operand: Operand::B,
                found: b.to_array(),
                expected: problem.b_shape().to_array(),
            });
        }
        if let Some(scales) = self.b_group_scales {
            let columns = problem.batch.saturating_mul(problem.n);
            let groups = scales.len().checked_div(columns).unwrap_or(0);
            if groups.checked_mul(columns) != Some(scales.len())
                || !problem.k.is_multiple_of(groups)
            {
                return Err(Error::ScaleLength {
                    operand: Operand::GroupScalesB,
                    found: scales.len(),
                    expected: columns.saturating_mul(groups.max(1)),
                });
            }
            problem.b_group = problem.k.checked_div(groups);
        }
        Ok(problem)
    }

    /// Checks the operands against a problem.
    ///
    /// # Errors
    /// [`Error::InnerDimensionMismatch`], [`Error::ShapeMismatch`],
    /// [`Error::ElementTypeMismatch`], [`Error::MissingOperand`],
    /// [`Error::UnexpectedOperand`], [`Error::BiasLength`], [`Error::ScaleLength`], or what
    /// [`Problem::validate`] says about scales.
    pub fn check(&self, problem: &Problem) -> Result<(), Error> {
        let (a, b) = (self.a.shape(), self.b.shape());
        if a.cols != b.rows {
            return Err(Error::InnerDimensionMismatch { a_cols: a.cols, b_rows: b.rows });
        }
        problem.check_operand(Operand::A, a, self.a.element())?;
        problem.check_operand(Operand::B, b, self.b.element())?;
        if let Some(c) = self.c {
            problem.check_operand(Operand::C, c.shape(), c.element())?;
        } else if problem.reads_c() && !problem.is_empty() {
            return Err(Error::MissingOperand {
                operand: Operand::C,
                why: "beta is not 0, so C is read",
            });
        }
        for (operand, scales) in [
            (Operand::RowScale, self.row_scale),
            (Operand::ColScale, self.col_scale),
            (Operand::BlockScalesA, self.a_block_scales),
            (Operand::BlockScalesB, self.b_block_scales),
            (Operand::GroupScalesB, self.b_group_scales),
        ] {
            problem.check_scale(operand, scales.map(|s| (s.len(), s.element())))?;
        }
        match (&self.bias, problem.bias) {
            (None, true) => Err(Error::MissingOperand {
                operand: Operand::Bias,
                why: "the problem adds a bias",
            }),
            (Some(_), false) => Err(Error::UnexpectedOperand {
                operand: Operand::Bias,
                why: "the problem adds none",
            }),
            (Some(bias), true) if bias.len() != problem.n => {
                Err(Error::BiasLength { found: bias.len(), expected: problem.n })
            }
            (Some(bias), true) if bias.element() != problem.bias_element() => {
                Err(Error::ElementTypeMismatch {
                    operand: Operand::Bias,
                    found: bias.element(),
                    expected: problem.bias_element(),
                })
            }
            _ => Ok(()),
        }
    }
}
