//! The text of a kernel argument.

use std::fmt;
use std::str::FromStr;

use half::{bf16, f16};

use super::error::SyntaxError;

/// A kernel argument as the command line states it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Argument {
    /// As it was written.
    text: String,
    pub(super) value: Value,
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// A number, as its little-endian bytes.
    Number { kind: &'static str, bytes: Vec<u8> },
    /// A value whose bytes are in a file.
    Bytes { file: String },
    /// A buffer that the kernel reads.
    In { file: String },
    /// A buffer that the kernel reads and writes.
    InOut { file: String },
    /// A buffer that the kernel writes.
    Out { file: String, bytes: u64 },
}

impl Argument {
    /// Reads `KIND:VALUE`.
    ///
    /// # Errors
    /// [`SyntaxError`] names the part that is wrong.
    pub(super) fn parse(text: &str) -> Result<Self, SyntaxError> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let value = match kind {
            "i8" => number("i8", rest, i8::to_le_bytes)?,
            "i16" => number("i16", rest, i16::to_le_bytes)?,
            "i32" => number("i32", rest, i32::to_le_bytes)?,
            "i64" => number("i64", rest, i64::to_le_bytes)?,
            "u8" => number("u8", rest, u8::to_le_bytes)?,
            "u16" => number("u16", rest, u16::to_le_bytes)?,
            "u32" => number("u32", rest, u32::to_le_bytes)?,
            "u64" => number("u64", rest, u64::to_le_bytes)?,
            "f16" => float("f16", rest, |x: f64| {
                let x = f16::from_f64(x);
                (x.is_infinite(), x.to_le_bytes())
            })?,
            "bf16" => float("bf16", rest, |x: f64| {
                let x = bf16::from_f64(x);
                (x.is_infinite(), x.to_le_bytes())
            })?,
            "f32" => float("f32", rest, |x: f32| (x.is_infinite(), x.to_le_bytes()))?,
            "f64" => float("f64", rest, |x: f64| (x.is_infinite(), x.to_le_bytes()))?,
            "bytes" => Value::Bytes { file: file(rest, "bytes:FILE")? },
            "in" => Value::In { file: file(rest, "in:FILE")? },
            "inout" => Value::InOut { file: file(rest, "inout:FILE")? },
            "out" => {
                let no_size = || SyntaxError::NoSize { text: text.to_owned() };
                let (name, bytes) = rest.rsplit_once(':').ok_or_else(no_size)?;
                let bytes = bytes.parse().map_err(|_| no_size())?;
                Value::Out { file: file(name, "out:FILE:BYTES")?, bytes }
            }
            _ => return Err(SyntaxError::Kind { kind: kind.to_owned() }),
        };
        Ok(Self { text: text.to_owned(), value })
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::io::printable(&self.text))
    }
}

fn number<T: FromStr, const N: usize>(
    kind: &'static str,
    text: &str,
    bytes: fn(T) -> [u8; N],
) -> Result<Value, SyntaxError> {
    match text.parse() {
        Ok(x) => Ok(Value::Number { kind, bytes: bytes(x).to_vec() }),
        Err(_) => Err(SyntaxError::Number { text: text.to_owned(), kind }),
    }
}

/// A floating-point number; one that overflows is refused, "inf" is not.
fn float<T: FromStr, const N: usize>(
    kind: &'static str,
    text: &str,
    convert: fn(T) -> (bool, [u8; N]),
) -> Result<Value, SyntaxError> {
    let wrong = || SyntaxError::Number { text: text.to_owned(), kind };
    let (infinite, bytes) = text.parse().map(convert).map_err(|_| wrong())?;
    if infinite && !text.to_ascii_lowercase().contains("inf") {
        return Err(wrong());
    }
    Ok(Value::Number { kind, bytes: bytes.to_vec() })
}

fn file(text: &str, expected: &'static str) -> Result<String, SyntaxError> {
    if text.is_empty() { Err(SyntaxError::NoFile { expected }) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        match Argument::parse(text).unwrap().value {
            Value::Number { bytes, .. } => bytes,
            other => panic!("{text} is {other:?}"),
        }
    }

    #[test]
    fn numbers_are_little_endian() {
        assert_eq!(bytes("i8:-1"), [0xff]);
        assert_eq!(bytes("u8:255"), [0xff]);
        assert_eq!(bytes("i16:-2"), [0xfe, 0xff]);
        assert_eq!(bytes("u16:258"), [2, 1]);
        assert_eq!(bytes("i32:5"), [5, 0, 0, 0]);
        assert_eq!(bytes("u32:4294967295"), [0xff; 4]);
        assert_eq!(bytes("i64:-1"), [0xff; 8]);
        assert_eq!(bytes("u64:7"), [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes("f16:-1.5"), [0, 0xbe]);
        assert_eq!(bytes("bf16:1.5"), [0xc0, 0x3f]);
        assert_eq!(bytes("f32:1.5"), [0, 0, 0xc0, 0x3f]);
        assert_eq!(bytes("f32:-inf"), [0, 0, 0x80, 0xff]);
        assert_eq!(bytes("f64:1"), [0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
    }

    #[test]
    fn buffers_name_files_with_colons() {
        let value = |text: &str| Argument::parse(text).unwrap().value;
        assert_eq!(value("in:d:a.bin"), Value::In { file: "d:a.bin".to_owned() });
        assert_eq!(value("inout:a"), Value::InOut { file: "a".to_owned() });
        assert_eq!(value("out:d:a:12"), Value::Out { file: "d:a".to_owned(), bytes: 12 });
        assert_eq!(value("bytes:a"), Value::Bytes { file: "a".to_owned() });
    }

    #[test]
    fn the_wrong_part_is_named() {
        for (text, expected) in [
            ("5", "\"5\" is no kind"),
            ("int:5", "\"int\" is no kind"),
            ("i8:128", "\"128\" is not a number that i8 holds"),
            ("u32:-1", "\"-1\" is not a number that u32 holds"),
            ("i32:1.5", "\"1.5\""),
            ("f16:65520", "\"65520\" is not a number that f16 holds"),
            ("f32:1e39", "\"1e39\""),
            ("f32:", "\"\" is not a number that f32 holds"),
            ("in:", "in:FILE"),
            ("out:c.bin", "out:FILE:BYTES"),
            ("out::4", "no file"),
            ("out:c.bin:-4", "number of bytes"),
        ] {
            let message = Argument::parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
