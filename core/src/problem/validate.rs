//! The rules a problem keeps, and those its operands keep towards it.

use super::combinations::{COMBINATIONS, why_not};
use super::{GROUP_MULTIPLE, MAX_K_I8, MAX_K_I8_I4, MX_BLOCK, Problem};
use crate::element::ElementType;
use crate::epilogue::Activation;
use crate::error::{Error, Operand};
use crate::layout::{Placement, Shape};

impl Problem {
    /// Checks everything that does not depend on a device or on the operands' storage.
    ///
    /// # Errors
    /// [`Error::ElementTypesUnsupported`], [`Error::ScalesUnsupported`],
    /// [`Error::PartialScaleBlock`], [`Error::PackedView`], [`Error::FactorNotInteger`],
    /// [`Error::AccumulatorOverflow`], [`Error::ActivationUnsupported`],
    /// [`Error::OutputOverlapsItself`] or [`Error::LimitExceeded`], each with its numbers.
    pub fn validate(&self) -> Result<(), Error> {
        self.validate_elements()?;
        self.validate_scales()?;
        if self.c == ElementType::I32 {
            check_integer_factor("alpha", self.alpha)?;
            check_integer_factor("beta", self.beta)?;
            if !matches!(self.activation, Activation::None | Activation::Relu) {
                return Err(Error::ActivationUnsupported {
                    activation: self.activation.name(),
                    element: self.c,
                });
            }
        }
        let max_k = if self.b == ElementType::I4 { MAX_K_I8_I4 } else { MAX_K_I8 };
        if self.accumulator() == ElementType::I32
            && !self.wrapping
            && self.reads_factors()
            && self.k > max_k
        {
            return Err(Error::AccumulatorOverflow { k: self.k, limit: max_k });
        }
        for (shape, element, what) in [
            (self.a_shape(), self.a, "bytes of A"),
            (self.b_shape(), self.b, "bytes of B"),
            (self.c_shape(), self.c, "bytes of C"),
        ] {
            let bits = shape
                .to_array()
                .iter()
                .try_fold(element.bits() as u128, |total, &d| total.checked_mul(d as u128));
            let bytes = bits.unwrap_or(u128::MAX).div_ceil(8);
            if bytes > isize::MAX as u128 {
                return Err(Error::LimitExceeded {
                    what,
                    requested: bytes,
                    limit: isize::MAX as u128,
                });
            }
        }
        for (shape, layout, element) in
            [(self.a_shape(), self.a_layout, self.a), (self.b_shape(), self.b_layout, self.b)]
        {
            Placement { offset: 0, shape, layout }.check_packed(element)?;
        }
        Placement { offset: 0, shape: self.c_shape(), layout: self.c_layout }.check_injective()
    }

    fn validate_elements(&self) -> Result<(), Error> {
        let (a, b, c) = (self.a, self.b, self.c);
        let needs_blocks = a == ElementType::F4E2M1 || b == ElementType::F4E2M1;
        let rule = match COMBINATIONS.iter().find(|known| known.has(a, b)) {
            _ if needs_blocks && !self.block_scales => "f4e2m1 operands need block scales",
            Some(known) if known.c.contains(&c) => return Ok(()),
            Some(known) => known.gives,
            None => why_not(a, b),
        };
        Err(Error::ElementTypesUnsupported { a, b, c, rule })
    }

    /// Checks which scales there may be, and that K is a whole number of blocks.
    fn validate_scales(&self) -> Result<(), Error> {
        let unsupported = |scales, rule| {
            Err(Error::ScalesUnsupported { scales, a: self.a, b: self.b, c: self.c, rule })
        };
        if (self.row_scale || self.col_scale) && self.bias_element() != ElementType::F32 {
            return unsupported(
                "row and column scales",
                "they are f32, and so is the epilogue then",
            );
        }
        if let Some(length) = self.b_group {
            if !self.is_weight_only() {
                return unsupported("group scales", "they belong to i8 and i4 weights of floats");
            }
            if length == 0 || !length.is_multiple_of(GROUP_MULTIPLE) {
                return unsupported("group scales", "a group's length is a multiple of 8");
            }
            if !self.k.is_multiple_of(length) {
                return Err(Error::PartialScaleBlock { k: self.k, block: length });
            }
        }
        if !self.block_scales {
            return Ok(());
        }
        let microscaling =
            |element: ElementType| element.is_ocp_fp8() || element == ElementType::F4E2M1;
        if !(microscaling(self.a) && microscaling(self.b)) {
            return unsupported("block scales", "they belong to f8e4m3, f8e5m2 and f4e2m1");
        }
        if self.k.is_multiple_of(MX_BLOCK) {
            return Ok(());
        }
        Err(Error::PartialScaleBlock { k: self.k, block: MX_BLOCK })
    }

    /// Checks the scales of one kind against the problem; `found` has their length, if they are
    /// given, and their element type. The length is not looked at where A and B are not read.
    pub(crate) fn check_scale(
        &self,
        operand: Operand,
        found: Option<(usize, ElementType)>,
    ) -> Result<(), Error> {
        let (stated, expected_element) = match operand {
            Operand::RowScale => (self.row_scale, ElementType::F32),
            Operand::ColScale => (self.col_scale, ElementType::F32),
            Operand::BlockScalesA | Operand::BlockScalesB => (self.block_scales, ElementType::E8M0),
            Operand::GroupScalesB => (self.b_group.is_some(), ElementType::F32),
            Operand::A | Operand::B | Operand::C | Operand::Bias => return Ok(()),
        };
        match found {
            None if stated && self.reads_factors() && !self.is_empty() => {
                Err(Error::MissingOperand { operand, why: "the problem states it" })
            }
            None => Ok(()),
            Some(_) if !stated => {
                Err(Error::UnexpectedOperand { operand, why: "the problem states none" })
            }
            Some(_) if !self.reads_factors() => Ok(()),
            Some((_, found)) if found != expected_element => {
                Err(Error::ElementTypeMismatch { operand, found, expected: expected_element })
            }
            Some((found, _)) => {
                self.validate_scales()?;
                let expected = self.scale_count(operand);
                if found == expected {
                    Ok(())
                } else {
                    Err(Error::ScaleLength { operand, found, expected })
                }
            }
        }
    }

    /// Checks an operand's shape and element type against the problem.
    pub(crate) fn check_operand(
        &self,
        operand: Operand,
        shape: Shape,
        element: ElementType,
    ) -> Result<(), Error> {
        let (expected, expected_element) = match operand {
            Operand::A => (self.a_shape(), self.a),
            Operand::B => (self.b_shape(), self.b),
            _ => (self.c_shape(), self.c),
        };
        if shape != expected {
            return Err(Error::ShapeMismatch {
                operand,
                found: shape.to_array(),
                expected: expected.to_array(),
            });
        }
        if element != expected_element {
            return Err(Error::ElementTypeMismatch {
                operand,
                found: element,
                expected: expected_element,
            });
        }
        Ok(())
    }
}

fn check_integer_factor(name: &'static str, value: f64) -> Result<(), Error> {
    let integer =
        value.fract() == 0.0 && value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX);
    if integer { Ok(()) } else { Err(Error::FactorNotInteger { name, value }) }
}
