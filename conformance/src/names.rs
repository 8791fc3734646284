//! Names of layouts, routes and types, as case files and reports write them.

use lapidary_core::testing::Arrangement;
use lapidary_core::{Activation, ElementType};

/// Every arrangement with its name.
pub const ARRANGEMENTS: [(&str, Arrangement); 10] = [
    ("dense", Arrangement::Dense),
    ("rows", Arrangement::RowMajor),
    ("columns", Arrangement::ColMajor),
    ("padded", Arrangement::Padded),
    ("padded-columns", Arrangement::PaddedColMajor),
    ("spread", Arrangement::Spread),
    ("rows-backwards", Arrangement::ReversedRows),
    ("columns-backwards", Arrangement::ReversedCols),
    ("aligned", Arrangement::Aligned),
    ("repeated-row", Arrangement::RepeatedRow),
];

/// The name of an arrangement.
#[must_use]
pub fn arrangement_name(arrangement: Arrangement) -> &'static str {
    ARRANGEMENTS.iter().find(|(_, a)| *a == arrangement).map_or("unnamed", |(name, _)| name)
}

/// Defines a module that reads one of a fixed set of things by its name.
macro_rules! by_name {
    ($(#[$doc:meta])* $module:ident, $type:ty, $what:literal, $all:expr, $name:expr) => {
        $(#[$doc])*
        pub(crate) mod $module {
            use super::*;
            use serde::{Deserialize, Deserializer};

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                let text = String::deserialize(from)?;
                ($all).into_iter().find(|x| ($name)(*x) == text).ok_or_else(|| {
                    let names: Vec<_> = ($all).into_iter().map($name).collect();
                    serde::de::Error::custom(format!(
                        concat!("{:?} is no ", $what, ", there are {}"), text, names.join(", ")
                    ))
                })
            }
        }
    };
}

by_name!(
    /// An element type.
    element, ElementType, "element type", ElementType::ALL, ElementType::name
);
by_name!(
    /// An arrangement.
    layout, Arrangement, "layout", ARRANGEMENTS.map(|(_, a)| a), arrangement_name
);

/// An activation.
pub(crate) mod activation {
    use super::Activation;
    use serde::{Deserialize, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
    pub(crate) fn serialize<S: Serializer>(x: &Activation, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(x.name())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Activation, D::Error> {
        let text = String::deserialize(from)?;
        Activation::ALL.into_iter().find(|x| x.name() == text).ok_or_else(|| {
            let names = Activation::ALL.map(Activation::name).join(", ");
            serde::de::Error::custom(format!("{text:?} is no activation, there are {names}"))
        })
    }
}

/// Three of them, for A, B and C.
pub(crate) mod elements {
    use super::ElementType;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(x: &[ElementType; 3], to: S) -> Result<S::Ok, S::Error> {
        x.map(ElementType::name).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<[ElementType; 3], D::Error> {
        #[derive(Deserialize)]
        struct One(#[serde(with = "super::element")] ElementType);
        let [a, b, c] = <[One; 3]>::deserialize(from)?;
        Ok([a.0, b.0, c.0])
    }
}

/// Three of them, for A, B and C.
pub(crate) mod layouts {
    use super::{Arrangement, arrangement_name};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(x: &[Arrangement; 3], to: S) -> Result<S::Ok, S::Error> {
        x.map(arrangement_name).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<[Arrangement; 3], D::Error> {
        #[derive(Deserialize)]
        struct One(#[serde(with = "super::layout")] Arrangement);
        let [a, b, c] = <[One; 3]>::deserialize(from)?;
        Ok([a.0, b.0, c.0])
    }
}
