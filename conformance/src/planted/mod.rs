//! Bugs planted on purpose: proof that the suite would notice them.

use serde::Serialize;

use crate::tier::Tier;

/// What became of a planted bug.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Kill {
    /// The bug's name.
    pub name: String,
    /// The file that it is in.
    pub place: String,
    /// What it does.
    pub what: String,
    /// The tier that must notice it.
    pub expected: Tier,
    /// The tier that noticed it first, if any did.
    pub noticed: Option<Tier>,
    /// What it saw.
    pub message: String,
    /// Whether the bug passes a plain γ_K check at 128×128×128.
    pub passes_bound: Option<bool>,
}

impl Kill {
    /// Whether the right tier noticed.
    #[must_use]
    pub fn as_expected(&self) -> bool {
        self.noticed == Some(self.expected)
    }
}
