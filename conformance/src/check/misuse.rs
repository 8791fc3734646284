//! Calls that the contract forbids, as data: what is wrong with each, and the error it must give.
//!
//! [`misuse_on`](crate::adapter::misuse_on) makes them on a device: each must be refused with that
//! error, leave C as it was, and not disturb a right product after it.

use lapidary_core::{Activation, ElementType, Error, Layout, Operand, Problem};

/// A call that the contract of [`Backend`](lapidary_core::Backend) forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Misuse {
    /// The last element of this input is the first of C.
    Alias(Operand),
    /// The tensor of this operand is one element too short.
    Short(Operand),
    /// This operand starts just behind its tensor.
    PastEnd(Operand),
    /// This operand starts at the largest index there is.
    FarPastEnd(Operand),
    /// The tensor of this operand holds another type.
    OtherElement(Operand),
    /// The problem has this operand, and the call has not.
    Missing(Operand),
    /// The call has this operand, and the problem has not.
    Unexpected(Operand),
    /// The tensor of this operand is in the memory of another device.
    OtherDevice(Operand),
    /// B was packed for a product with another K.
    PackedForOtherK,
    /// B was packed for a product with another N.
    PackedForOtherN,
    /// The tensor of a B to be packed is one element too short.
    PackShort,
    /// The tensor of a B to be packed holds another type.
    PackOtherElement,
    /// Bytes that end inside an element are uploaded.
    UploadPartial,
    /// More is uploaded than the tensor has room for.
    UploadPastEnd,
    /// A tensor of as many elements as a number can say.
    AllocTooMany,
    /// A plan for a problem that breaks a rule.
    Plan(Rule),
    /// A one-shot product whose host matrix of this operand has another shape.
    HostShape(Operand),
    /// A one-shot product whose host matrix of this operand has another type.
    HostOtherElement(Operand),
    /// A one-shot product whose bias or scales on the host are one value too few.
    HostShort(Operand),
    /// A one-shot product without a bias or scales that the problem has.
    HostMissing(Operand),
}

/// A rule of [`Problem::validate`] that a problem breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// All rows of C lie in one place.
    RowsOverlap,
    /// The matrices of a batch of C lie in one place.
    BatchesOverlap,
    /// A has more bytes than can be addressed.
    SizesOverflow,
    /// No kernel multiplies these types.
    Combination,
    /// A factor of an integer product is none.
    FactorNotInteger,
    /// A factor of an integer product is not a number.
    FactorNan,
    /// An activation that integers do not have.
    Activation,
    /// A K whose sums may leave the accumulator.
    Accumulator,
    /// Block scales of types that have none.
    Scales,
    /// K is no whole number of blocks.
    PartialBlock,
    /// Rows of four-bit elements that start within a byte.
    PackedRows,
}

impl Rule {
    const fn name(self) -> &'static str {
        match self {
            Self::RowsOverlap => "rows-overlap",
            Self::BatchesOverlap => "batches-overlap",
            Self::SizesOverflow => "sizes-overflow",
            Self::Combination => "combination",
            Self::FactorNotInteger => "factor-not-integer",
            Self::FactorNan => "factor-nan",
            Self::Activation => "activation",
            Self::Accumulator => "accumulator",
            Self::Scales => "scales",
            Self::PartialBlock => "partial-block",
            Self::PackedRows => "packed-rows",
        }
    }

    const fn expected(self) -> &'static [&'static str] {
        match self {
            Self::RowsOverlap | Self::BatchesOverlap => &["OutputOverlapsItself"],
            Self::SizesOverflow => &["LimitExceeded"],
            Self::Combination => &["ElementTypesUnsupported"],
            Self::FactorNotInteger | Self::FactorNan => &["FactorNotInteger"],
            Self::Activation => &["ActivationUnsupported"],
            Self::Accumulator => &["AccumulatorOverflow"],
            Self::Scales => &["ScalesUnsupported"],
            Self::PartialBlock => &["PartialScaleBlock"],
            Self::PackedRows => &["PackedView"],
        }
    }

    /// A problem that breaks this rule and no other.
    #[must_use]
    pub fn problem(self) -> Problem {
        use ElementType as E;
        let [m, n, k] = SHAPE;
        let plain = Problem::new(m, n, k);
        let integers = || Problem::new(m, n, k).elements(E::I8, E::I32);
        match self {
            Self::RowsOverlap => plain.c_layout(Layout { row_stride: 0, ..dense(m, n) }),
            Self::BatchesOverlap => {
                plain.batch(2).c_layout(Layout { batch_stride: 0, ..dense(m, n) })
            }
            Self::SizesOverflow => Problem::new(1 << (usize::BITS / 2), 1, 1 << (usize::BITS / 2)),
            Self::Combination => plain.factors(E::F64, E::F32),
            Self::FactorNotInteger => integers().alpha(0.5),
            Self::FactorNan => integers().beta(f64::NAN),
            Self::Activation => integers().activation(Activation::Silu),
            Self::Accumulator => {
                Problem::new(1, 1, lapidary_core::MAX_K_I8 + 1).elements(E::I8, E::I32)
            }
            Self::Scales => Problem::new(m, n, 32).block_scales(true),
            Self::PartialBlock => {
                Problem::new(m, n, 33).elements(E::F8E4M3, E::F32).block_scales(true)
            }
            Self::PackedRows => integers().factors(E::I8, E::I4).b_layout(dense(k, 7)),
        }
    }
}

fn dense(rows: usize, cols: usize) -> Layout {
    Layout::row_major(rows, cols)
}

/// M, N and K of the products that are misused.
pub(crate) const SHAPE: [usize; 3] = [5, 6, 7];

impl Misuse {
    /// Every one, from the inputs to the plan.
    pub const ALL: [Self; 52] = [
        Self::Alias(Operand::A),
        Self::Alias(Operand::B),
        Self::Alias(Operand::Bias),
        Self::Alias(Operand::RowScale),
        Self::Short(Operand::A),
        Self::Short(Operand::B),
        Self::Short(Operand::C),
        Self::Short(Operand::Bias),
        Self::Short(Operand::RowScale),
        Self::PastEnd(Operand::A),
        Self::PastEnd(Operand::B),
        Self::PastEnd(Operand::C),
        Self::PastEnd(Operand::Bias),
        Self::PastEnd(Operand::RowScale),
        Self::FarPastEnd(Operand::A),
        Self::FarPastEnd(Operand::B),
        Self::FarPastEnd(Operand::C),
        Self::FarPastEnd(Operand::Bias),
        Self::OtherElement(Operand::A),
        Self::OtherElement(Operand::B),
        Self::OtherElement(Operand::C),
        Self::OtherElement(Operand::Bias),
        Self::OtherElement(Operand::RowScale),
        Self::Missing(Operand::Bias),
        Self::Missing(Operand::RowScale),
        Self::Unexpected(Operand::RowScale),
        Self::OtherDevice(Operand::A),
        Self::OtherDevice(Operand::B),
        Self::OtherDevice(Operand::C),
        Self::OtherDevice(Operand::Bias),
        Self::PackedForOtherK,
        Self::PackedForOtherN,
        Self::PackShort,
        Self::PackOtherElement,
        Self::UploadPartial,
        Self::UploadPastEnd,
        Self::AllocTooMany,
        Self::Plan(Rule::RowsOverlap),
        Self::Plan(Rule::BatchesOverlap),
        Self::Plan(Rule::SizesOverflow),
        Self::Plan(Rule::Combination),
        Self::Plan(Rule::FactorNotInteger),
        Self::Plan(Rule::FactorNan),
        Self::Plan(Rule::Activation),
        Self::Plan(Rule::Accumulator),
        Self::Plan(Rule::Scales),
        Self::Plan(Rule::PartialBlock),
        Self::Plan(Rule::PackedRows),
        Self::HostShape(Operand::A),
        Self::HostOtherElement(Operand::B),
        Self::HostShort(Operand::Bias),
        Self::HostMissing(Operand::Bias),
    ];

    /// The operand that is wrong, where it is one.
    #[must_use]
    pub const fn operand(self) -> Option<Operand> {
        match self {
            Self::Alias(operand)
            | Self::Short(operand)
            | Self::PastEnd(operand)
            | Self::FarPastEnd(operand)
            | Self::OtherElement(operand)
            | Self::Missing(operand)
            | Self::Unexpected(operand)
            | Self::OtherDevice(operand)
            | Self::HostShape(operand)
            | Self::HostOtherElement(operand)
            | Self::HostShort(operand)
            | Self::HostMissing(operand) => Some(operand),
            Self::PackShort | Self::PackOtherElement => Some(Operand::B),
            _ => None,
        }
    }

    /// The name in reports, which a filter finds.
    #[must_use]
    pub fn name(self) -> String {
        let what = match self {
            Self::Alias(_) => "alias-of",
            Self::Short(_) => "too-short",
            Self::PastEnd(_) => "past-end",
            Self::FarPastEnd(_) => "far-past-end",
            Self::OtherElement(_) => "other-element",
            Self::Missing(_) => "missing",
            Self::Unexpected(_) => "unexpected",
            Self::OtherDevice(_) => "other-device",
            Self::HostShape(_) => "host-shape",
            Self::HostOtherElement(_) => "host-other-element",
            Self::HostShort(_) => "host-too-short",
            Self::HostMissing(_) => "host-missing",
            Self::PackedForOtherK => return "packed-for-other-k".into(),
            Self::PackedForOtherN => return "packed-for-other-n".into(),
            Self::PackShort => "pack-too-short",
            Self::PackOtherElement => "pack-other-element",
            Self::UploadPartial => return "upload-partial-element".into(),
            Self::UploadPastEnd => return "upload-past-end".into(),
            Self::AllocTooMany => return "alloc-too-many".into(),
            Self::Plan(rule) => return format!("plan-{}", rule.name()),
        };
        let operand = match self.operand() {
            Some(Operand::A) => "a",
            Some(Operand::B) => "b",
            Some(Operand::C) => "c",
            Some(Operand::Bias) => "bias",
            _ => "row-scale",
        };
        format!("{what}-{operand}")
    }

    /// Names of the variants of [`Error`] that it may be refused with.
    #[must_use]
    pub const fn expected(self) -> &'static [&'static str] {
        match self {
            Self::Alias(_) => &["Aliasing"],
            Self::Short(operand)
            | Self::PastEnd(operand)
            | Self::FarPastEnd(operand)
            | Self::HostShort(operand) => match operand {
                Operand::Bias => &["BiasLength"],
                Operand::RowScale => &["ScaleLength"],
                _ => &["ViewOutOfBounds"],
            },
            Self::PackShort | Self::UploadPastEnd => &["ViewOutOfBounds"],
            Self::OtherElement(_) | Self::PackOtherElement | Self::HostOtherElement(_) => {
                &["ElementTypeMismatch"]
            }
            Self::Missing(_) | Self::HostMissing(_) => &["MissingOperand"],
            Self::Unexpected(_) => &["UnexpectedOperand"],
            Self::OtherDevice(_) => &["Device"],
            Self::PackedForOtherK | Self::PackedForOtherN => &["PackedMismatch"],
            Self::UploadPartial => &["PartialElement"],
            Self::AllocTooMany => &["LimitExceeded", "OutOfMemory"],
            Self::Plan(rule) => rule.expected(),
            Self::HostShape(_) => &["ShapeMismatch"],
        }
    }

    /// Whether the problem has row scales, which not every backend has.
    #[must_use]
    pub const fn has_scales(self) -> bool {
        matches!(self.operand(), Some(Operand::RowScale)) && !matches!(self, Self::Unexpected(_))
    }

    /// Whether `error` is what it must be refused with: of that variant, and of that operand where the
    /// error names one.
    #[must_use]
    pub fn accepts(self, error: &Error) -> bool {
        // Variants print as their name and then their fields.
        let text = format!("{error:?}");
        let variant = text.split([' ', '(', '{']).next().unwrap_or_default();
        let named = match error {
            Error::Aliasing { operand, .. }
            | Error::ElementTypeMismatch { operand, .. }
            | Error::MissingOperand { operand, .. }
            | Error::UnexpectedOperand { operand, .. }
            | Error::ShapeMismatch { operand, .. }
            | Error::ScaleLength { operand, .. } => Some(*operand),
            _ => None,
        };
        self.expected().contains(&variant) && (named.is_none() || named == self.operand())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_has_a_name_of_its_own_and_an_error() {
        let names: HashSet<_> = Misuse::ALL.iter().map(|misuse| misuse.name()).collect();
        assert_eq!(names.len(), Misuse::ALL.len());
        for misuse in Misuse::ALL {
            assert!(!misuse.expected().is_empty(), "{misuse:?}");
            if let Misuse::Plan(rule) = misuse {
                let error = rule.problem().validate().expect_err("it breaks a rule");
                assert!(misuse.accepts(&error), "{misuse:?}: {error:?}");
            }
        }
    }

    #[test]
    fn the_right_error_of_the_wrong_operand_is_another_one() {
        let of = |operand| Error::Aliasing { operand, c_first: 0, c_end: 4, first: 0, end: 8 };
        assert!(Misuse::Alias(Operand::A).accepts(&of(Operand::A)));
        assert!(!Misuse::Alias(Operand::A).accepts(&of(Operand::B)));
        assert!(!Misuse::Short(Operand::A).accepts(&of(Operand::A)));
    }
}
