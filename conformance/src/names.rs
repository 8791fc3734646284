//! Names of layouts, routes and types, as case files and reports write them.

use lapidary_core::testing::Arrangement;
use lapidary_core::{Activation, ElementType};
use serde::{Deserialize, Deserializer};

/// Every arrangement with its name.
pub const ARRANGEMENTS: [(&str, Arrangement); 15] = [
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
    ("shared-batch", Arrangement::SharedBatch),
    ("interleaved-batch", Arrangement::InterleavedBatch),
    ("batch-backwards", Arrangement::ReversedBatch),
    ("unaligned-batch", Arrangement::UnalignedBatch),
    ("aligned-backwards", Arrangement::ReversedAligned),
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

/// A list of exactly `N`; `what` names it in the error for any other number.
fn exactly<'de, const N: usize, T, D>(from: D, what: &str) -> Result<[T; N], D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let all = Vec::<T>::deserialize(from)?;
    let found = all.len();
    // An array's own deserialization would ignore what is too much.
    <[T; N]>::try_from(all).map_err(|_| {
        serde::de::Error::custom(format!("there must be {N} {what}, there are {found}"))
    })
}

/// M, N and K.
pub(crate) fn sizes<'de, D: Deserializer<'de>>(from: D) -> Result<[usize; 3], D::Error> {
    exactly(from, "sizes (M, N and K)")
}

/// Whether A and B are copied.
pub(crate) fn copies<'de, D: Deserializer<'de>>(from: D) -> Result<Option<[bool; 2]>, D::Error> {
    exactly(from, "copies (of A and B)").map(Some)
}

/// Three of them, for A, B and C.
pub(crate) mod elements {
    use super::{ElementType, exactly};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(x: &[ElementType; 3], to: S) -> Result<S::Ok, S::Error> {
        x.map(ElementType::name).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<[ElementType; 3], D::Error> {
        #[derive(Deserialize)]
        struct One(#[serde(with = "super::element")] ElementType);
        exactly(from, "types (of A, B and C)").map(|all: [One; 3]| all.map(|one| one.0))
    }
}

/// Three of them, for A, B and C.
pub(crate) mod layouts {
    use super::{Arrangement, arrangement_name, exactly};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(x: &[Arrangement; 3], to: S) -> Result<S::Ok, S::Error> {
        x.map(arrangement_name).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<[Arrangement; 3], D::Error> {
        #[derive(Deserialize)]
        struct One(#[serde(with = "super::layout")] Arrangement);
        exactly(from, "layouts (of A, B and C)").map(|all: [One; 3]| all.map(|one| one.0))
    }
}

/// How the name of a case begins that was made as small as it can be and still fail.
pub(crate) const SHRUNK: &str = "shrunk";

/// How the name of a case begins that was kept as it failed.
pub(crate) const FAILED: &str = "failed";

/// The name of the case that one of this name was made from, which has the same data: without any
/// [`SHRUNK`] or [`FAILED`] before it, and the number that tells several apart.
pub(crate) fn origin(name: &str) -> &str {
    let of = |from: &str| {
        let rest = name.strip_prefix(from)?;
        let number = rest.strip_prefix('-').map(|rest| rest.trim_start_matches(char::is_numeric));
        number.unwrap_or(rest).strip_prefix('.')
    };
    match of(SHRUNK).or_else(|| of(FAILED)) {
        Some(rest) => origin(rest),
        None => name,
    }
}

/// The name of case number `number`, from 1, made `from` the one of this name.
pub(crate) fn derived(from: &str, number: usize, name: &str) -> String {
    let origin = origin(name);
    if number == 1 { format!("{from}.{origin}") } else { format!("{from}-{number}.{origin}") }
}

/// The name of number `number` of several cases of this name, with the same data.
pub(crate) fn another(name: &str, number: usize) -> String {
    let shrunk = origin(name) != name && name.starts_with(SHRUNK);
    derived(if shrunk { SHRUNK } else { FAILED }, number, name)
}

/// `text` as one word of a POSIX shell.
#[must_use]
pub fn shell_word(text: &str) -> String {
    // A quotation mark ends a quotation: it stands between two of them.
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kept_cases_lead_to_the_case_they_come_from() {
        for (name, from) in [
            ("tail", "tail"),
            ("shrunk.tail", "tail"),
            ("failed-12.tail", "tail"),
            ("shrunk.failed-2.a.b", "a.b"),
            ("shrunken.tail", "shrunken.tail"),
            ("failed", "failed"),
        ] {
            assert_eq!(origin(name), from);
            assert_eq!(origin(&another(name, 2)), from);
        }
        assert_eq!(derived(SHRUNK, 1, "failed.tail"), "shrunk.tail");
        assert_eq!(another("shrunk.tail", 3), "shrunk-3.tail");
        assert_eq!(another("tail", 2), "failed-2.tail");
    }

    #[cfg(unix)]
    #[test]
    fn a_shell_reads_a_word_back_as_it_was() {
        for text in ["plain", "two words", "it's", "$HOME `id` \\ \"quoted\"", "'", ""] {
            let script = format!("printf %s {}", shell_word(text));
            let output = std::process::Command::new("sh").args(["-c", &script]).output();
            let output = output.expect("there is a shell");
            assert_eq!(String::from_utf8_lossy(&output.stdout), text);
        }
    }
}
