//! The vectors that kernels read beside matrices, and where they are bound.

use super::{Store, Traits};

/// A vector that a kernel reads beside its matrices and the bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Vector {
    /// A scale for each row of A, applied to sums.
    RowScale,
    /// A scale for each column of B, applied to sums.
    ColScale,
    /// A scale for each group along K of each column of B, applied to weights as they are loaded.
    GroupScales,
}

impl Vector {
    /// The name of its binding.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RowScale => "row_scale",
            Self::ColScale => "col_scale",
            Self::GroupScales => "group_scales",
        }
    }
}

/// Storage bindings that every kernel's layout has; the least that WebGPU devices allow.
pub(crate) const FIXED_BINDINGS: u32 = 4;

/// The most storage bindings that a kernel has.
pub(crate) const MOST_BINDINGS: u32 = FIXED_BINDINGS + 3;

/// Which dispatch of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// The one that multiplies; whether it applies the epilogue.
    Multiply { fused: bool },
    /// The one that applies the epilogue to sums.
    Finish,
}

/// The vectors of a stage with their bindings. A binding that the stage has no other use for comes
/// first: that of B where there are only sums, that of the bias where there is no epilogue. The others
/// follow behind the parameters.
pub(crate) fn bindings(traits: &Traits, stage: Stage) -> Vec<(Vector, u32)> {
    let (free, epilogue, weights) = match stage {
        Stage::Multiply { fused: true } => (None, true, true),
        Stage::Multiply { fused: false } => (Some(3), false, true),
        Stage::Finish => (Some(1), true, false),
    };
    let all = [
        (epilogue && traits.row_scale, Vector::RowScale),
        (epilogue && traits.col_scale, Vector::ColScale),
        (weights && traits.group.is_some(), Vector::GroupScales),
    ];
    let places = free.into_iter().chain(FIXED_BINDINGS + 1..);
    all.into_iter().filter(|(used, _)| *used).map(|(_, vector)| vector).zip(places).collect()
}

/// Bindings of a stage behind the fixed ones.
pub(crate) fn further(traits: &Traits, stage: Stage) -> u32 {
    let last = bindings(traits, stage).into_iter().map(|(_, binding)| binding).max();
    last.map_or(0, |binding| binding.saturating_sub(FIXED_BINDINGS))
}

/// The most storage bindings of any stage of an execution whose sums reach C so.
pub(super) fn storage_bindings(traits: &Traits, store: Store, sliced: bool) -> u32 {
    let finish = store != Store::Fused || sliced;
    let multiply = Stage::Multiply { fused: !finish };
    let multiply = if store == Store::NoProduct { 0 } else { further(traits, multiply) };
    FIXED_BINDINGS + multiply.max(if finish { further(traits, Stage::Finish) } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lapidary_core::{Activation, ElementType};

    fn traits(row_scale: bool, col_scale: bool, group: Option<u32>) -> Traits {
        Traits {
            a: ElementType::F16,
            b: ElementType::I4,
            output: ElementType::F32,
            scalar: ElementType::F32,
            beta: false,
            bias: true,
            activation: Activation::None,
            row_scale,
            col_scale,
            group,
        }
    }

    #[test]
    fn bindings_are_distinct_and_in_reach() {
        for flags in 0..8u32 {
            let traits = traits(flags & 1 != 0, flags & 2 != 0, (flags & 4 != 0).then_some(32));
            for stage in
                [Stage::Multiply { fused: true }, Stage::Multiply { fused: false }, Stage::Finish]
            {
                let bound = bindings(&traits, stage);
                let taken: &[u32] = match stage {
                    Stage::Multiply { fused: true } => &[0, 1, 2, 3, 4],
                    Stage::Multiply { fused: false } => &[0, 1, 2, 4],
                    Stage::Finish => &[0, 2, 3, 4],
                };
                for (index, (_, binding)) in bound.iter().enumerate() {
                    assert!(!taken.contains(binding), "{stage:?} {bound:?}");
                    assert!(bound[..index].iter().all(|(_, other)| other != binding));
                    assert!(*binding <= MOST_BINDINGS);
                }
            }
        }
    }

    #[test]
    fn two_passes_need_fewer_bindings_than_one() {
        let weights = traits(false, true, Some(32));
        assert_eq!(storage_bindings(&weights, Store::Fused, false), 6);
        assert_eq!(storage_bindings(&weights, Store::Packed, false), 4);
        assert_eq!(storage_bindings(&traits(true, true, None), Store::Packed, false), 5);
        assert_eq!(storage_bindings(&traits(false, false, None), Store::Fused, false), 4);
        assert_eq!(storage_bindings(&weights, Store::NoProduct, false), 4);
    }
}
