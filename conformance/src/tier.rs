//! The kinds of check a case passes through.

use serde::{Deserialize, Serialize};

/// A kind of check; planted bugs name the one that must notice them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Tier {
    /// The checker itself: it accepts what is right, rejects what is not, and agrees with others.
    Oracle,
    /// Whether the case is accepted, or refused for the expected reason.
    Acceptance,
    /// What the emulator looks for while it runs: missing waits, races, accesses out of bounds.
    Checks,
    /// Small integers, every bit: finds indexing, tails, races.
    Exact,
    /// Random data, a few units of u·Σ|a||b| whatever K is: finds lost precision.
    Statistical,
    /// Cancellation and wide exponents, within the bound that holds for any order of summation.
    WorstCase,
    /// The same operands again, and in other orders of workgroups: the same bits.
    Determinism,
    /// Everything outside C's view, and all inputs, as they were.
    Canaries,
    /// Results of related products agree: transposed, scaled, permuted, cut along K.
    Metamorphic,
    /// Large products of integers against random vectors.
    Freivalds,
    /// NaN, infinities, zeros, subnormal and extreme numbers in every operand.
    SpecialValues,
    /// Every code of every type read, and every rounding tie written.
    Codes,
}

impl Tier {
    /// Every tier.
    pub const ALL: [Self; 12] = [
        Self::Oracle,
        Self::Acceptance,
        Self::Checks,
        Self::Exact,
        Self::Statistical,
        Self::WorstCase,
        Self::Determinism,
        Self::Canaries,
        Self::Metamorphic,
        Self::Freivalds,
        Self::SpecialValues,
        Self::Codes,
    ];

    /// The name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Oracle => "oracle",
            Self::Acceptance => "acceptance",
            Self::Checks => "checks",
            Self::Exact => "exact",
            Self::Statistical => "statistical",
            Self::WorstCase => "worst-case",
            Self::Determinism => "determinism",
            Self::Canaries => "canaries",
            Self::Metamorphic => "metamorphic",
            Self::Freivalds => "freivalds",
            Self::SpecialValues => "special-values",
            Self::Codes => "codes",
        }
    }

    /// The tier of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.name() == name)
    }
}
