//! Why a file could not be read or written.

use std::io;

use lapidary_core::ElementType;
use thiserror::Error;

use super::array::MAX_DIMENSIONS;

/// Names listed in a message before the rest is only counted.
const NAMES_SHOWN: usize = 16;

/// A file, and what is wrong with it. The message is one line.
#[derive(Debug, Error)]
#[error("{}: {reason}", printable(.file))]
pub(crate) struct FileError {
    /// The file as the user named it.
    pub(crate) file: String,
    /// What is wrong.
    pub(crate) reason: Reason,
}

/// What is wrong with a file, with the value found and the limit it breaks.
#[derive(Debug, Error)]
pub(crate) enum Reason {
    /// The operating system refused.
    #[error("{0}")]
    Io(io::Error),

    /// A directory or a device.
    #[error("is not a regular file")]
    NotAFile,

    /// The file's name does not say what it holds.
    #[error(
        "unknown file type {found:?}; expected .npy, .npz (FILE.npz:NAME) or .safetensors \
         (FILE.safetensors:NAME)"
    )]
    UnknownType {
        /// The extension, without its dot.
        found: String,
    },

    /// A type that can be read but not written.
    #[error("cannot write .npz files; name a .npy or .safetensors file")]
    NpzOutput,

    /// A file whose other tensors would be lost.
    #[error("holds {} too, which writing one tensor would drop; name a new file", Names(.others))]
    OtherTensors {
        /// Names of the tensors that would be lost.
        others: Vec<String>,
    },

    /// A value that the type asked for cannot hold.
    #[error("holds {value:e}, which overflows {element}")]
    Overflow {
        /// The first such value.
        value: f64,
        /// The type asked for.
        element: ElementType,
    },

    /// A type that `.npy` has no name for.
    #[error("NumPy has no bf16 type; write to a .safetensors file instead")]
    Bf16Npy,

    /// The allocator has no block of this size.
    #[error("not enough memory for its {bytes} bytes")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
    },

    /// The file ends before its contents do.
    #[error("is truncated: its contents take {needed} bytes, only {found} are there")]
    Truncated {
        /// Bytes its header promises.
        needed: u64,
        /// Bytes found.
        found: u64,
    },

    /// The file goes on after its contents.
    #[error("has {extra} bytes after the end of its contents")]
    TrailingBytes {
        /// Bytes left over.
        extra: u64,
    },

    /// The first bytes are not those of an `.npy` file.
    #[error("does not start with the six bytes of an .npy file, \"\\x93NUMPY\"")]
    NoNpyMagic,

    /// A version of the `.npy` format that is not known.
    #[error("is .npy version {major}.{minor}; versions 1.0, 2.0 and 3.0 are known")]
    NpyVersion {
        /// The first version byte.
        major: u8,
        /// The second version byte.
        minor: u8,
    },

    /// A header that no array needs.
    #[error("has a header of {length} bytes, the limit is {limit}")]
    HeaderTooLong {
        /// Length the file states.
        length: u64,
        /// The most that is accepted.
        limit: u64,
    },

    /// A header that does not parse.
    #[error("has a broken header: {what}")]
    BrokenHeader {
        /// What was expected.
        what: String,
    },

    /// A shape that cannot exist in memory.
    #[error("an array of shape {shape:?} of {element} does not fit the address space")]
    ShapeTooLarge {
        /// The dimensions.
        shape: Vec<u64>,
        /// The element type.
        element: ElementType,
    },

    /// More dimensions than a batch of matrices has.
    #[error("has {found} dimensions, the limit is {MAX_DIMENSIONS} (batch, rows, columns)")]
    TooManyDimensions {
        /// Dimensions of the array.
        found: usize,
    },

    /// Numbers stored with their most significant byte first.
    #[error(
        "is big-endian ({descr:?}); only little-endian arrays are read: save it with \
         .astype({little:?}) first"
    )]
    BigEndian {
        /// NumPy's name of the type.
        descr: String,
        /// The little-endian type to ask NumPy for.
        little: String,
    },

    /// An element type the library does not multiply.
    #[error("holds elements of type {found:?}; expected one of {expected}")]
    ElementType {
        /// The file's name of the type.
        found: String,
        /// The types that are read from this kind of file.
        expected: &'static str,
    },

    /// No array of that name.
    #[error("holds no array {name:?}; it holds {}", Names(.available))]
    NoSuchArray {
        /// The name asked for.
        name: String,
        /// The names there are.
        available: Vec<String>,
    },

    /// Several arrays, and none was asked for.
    #[error("holds {} arrays: add :NAME to pick one of {}", .available.len(), Names(.available))]
    NameNeeded {
        /// The names there are.
        available: Vec<String>,
    },

    /// Not a readable zip archive.
    #[error("is not a readable .npz archive: {what}")]
    Zip {
        /// What the archive reader found.
        what: String,
    },

    /// A member that states more than deflate can hold.
    #[error(
        "states {stated} bytes for an array stored in {stored} bytes, deflate cannot exceed {limit}"
    )]
    Inflation {
        /// Uncompressed size the archive states.
        stated: u64,
        /// Compressed size.
        stored: u64,
        /// The most that many compressed bytes can become.
        limit: u64,
    },
}

impl Reason {
    /// Attaches the file that the reason is about.
    pub(crate) fn of(self, file: impl Into<String>) -> FileError {
        FileError { file: file.into(), reason: self }
    }

    /// A broken header, described in one line.
    pub(crate) fn broken(what: impl AsRef<str>) -> Self {
        Self::BrokenHeader { what: printable(what.as_ref()) }
    }
}

impl From<io::Error> for Reason {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// `text` on one line and of bounded length, whatever a file put into it.
pub(crate) fn printable(text: &str) -> String {
    const LIMIT: usize = 300;
    let mut line = text
        .chars()
        .take(LIMIT)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect::<String>();
    if text.chars().nth(LIMIT).is_some() {
        line.push('…');
    }
    line
}

struct Names<'a>(&'a [String]);

impl std::fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (index, name) in self.0.iter().take(NAMES_SHOWN).enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", printable(name))?;
        }
        match self.0.len().saturating_sub(NAMES_SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_stay_on_one_line() {
        let hostile = "a\nb\x1b[31m".repeat(500);
        let reasons = [
            Reason::NoSuchArray { name: hostile.clone(), available: vec![hostile.clone(); 40] },
            Reason::broken(&hostile),
            Reason::ElementType { found: hostile.clone(), expected: "f32" },
        ];
        for reason in reasons {
            let line = reason.of(hostile.clone()).to_string();
            assert!(!line.chars().any(char::is_control), "{line}");
        }
        let many = Reason::NameNeeded { available: vec!["w".to_owned(); 20] };
        assert!(many.to_string().ends_with("and 4 more"), "{many}");
    }
}
