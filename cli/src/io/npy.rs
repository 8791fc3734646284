//! NumPy's `.npy` format: a magic string, a version, a Python dictionary as header, then the elements.
//!
//! The crates for this format multiply a header's dimensions unchecked and read element by element;
//! here the header is read by a parser for Python literals, every number in it is checked against
//! the length of the file before anything is allocated, and the elements are read in one piece.

use std::io::{Read, Write};

use indicatif::ProgressBar;
use lapidary_core::ElementType;
use py_literal::Value;

use super::array::{AlignedBytes, Array, Extent, Order};
use super::error::{Reason, printable};

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Longest header that is parsed: all that version 1.0 can hold. NumPy itself stops at 10,000 bytes.
const MAX_HEADER: u64 = 0xffff;

/// Deepest nesting that is parsed. A header is a dictionary with a tuple in it; the type of a record
/// array, which is refused by name, nests two deeper.
const MAX_NESTING: usize = 4;

/// NumPy writes headers that end on a multiple of this, so that a mapped file is aligned.
const HEADER_ALIGNMENT: usize = 64;

const READABLE: &str = "<f8, <f4, <f2, <i4 and |i1 (bf16 is read from .safetensors files)";

/// NumPy's names of the types that are read.
const TYPES: [(&str, ElementType); 6] = [
    ("<f8", ElementType::F64),
    ("<f4", ElementType::F32),
    ("<f2", ElementType::F16),
    ("<i4", ElementType::I32),
    ("|i1", ElementType::I8),
    ("<i1", ElementType::I8),
];

/// Reads an `.npy` file of `length` bytes from its start to its end.
///
/// `credible` is the part of `length` known to exist, see [`AlignedBytes::read`].
///
/// # Errors
/// A [`Reason`] for each way in which the file is not an array the library multiplies.
pub(crate) fn read(
    reader: &mut impl Read,
    length: u64,
    credible: usize,
    bar: &ProgressBar,
) -> Result<Array, Reason> {
    let mut start = [0u8; 8];
    if length < start.len() as u64 {
        return Err(Reason::NoNpyMagic);
    }
    reader.read_exact(&mut start)?;
    if &start[..6] != MAGIC {
        return Err(Reason::NoNpyMagic);
    }
    let (before_header, header_length) = match (start[6], start[7]) {
        (1, 0) => (10, u64::from(u16::from_le_bytes(field(reader, length, 10)?))),
        (2 | 3, 0) => (12, u64::from(u32::from_le_bytes(field(reader, length, 12)?))),
        (major, minor) => return Err(Reason::NpyVersion { major, minor }),
    };
    if header_length > MAX_HEADER {
        return Err(Reason::HeaderTooLong { length: header_length, limit: MAX_HEADER });
    }
    let data_start = before_header + header_length;
    if data_start > length {
        return Err(Reason::Truncated { needed: data_start, found: length });
    }
    let mut header = vec![0; header_length as usize];
    reader.read_exact(&mut header)?;

    let extent = parse_header(&header)?;
    let needed = data_start.saturating_add(extent.bytes as u64);
    if needed > length {
        return Err(Reason::Truncated { needed, found: length });
    }
    if needed < length {
        return Err(Reason::TrailingBytes { extra: length - needed });
    }
    let bytes = AlignedBytes::read(reader, extent.bytes, credible, bar)?;
    Ok(extent.with(bytes))
}

/// The length field of the header, which ends at byte `end` of the file.
fn field<const N: usize>(reader: &mut impl Read, length: u64, end: u64) -> Result<[u8; N], Reason> {
    if length < end {
        return Err(Reason::Truncated { needed: end, found: length });
    }
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn parse_header(header: &[u8]) -> Result<Extent, Reason> {
    let not_a_dictionary = || Reason::broken("expected a Python dictionary in ASCII");
    let text = str::from_utf8(header).map_err(|_| not_a_dictionary())?;
    check_nesting(text)?;
    let value = text.trim_ascii_end().parse::<Value>().map_err(|_| not_a_dictionary())?;
    let Value::Dict(entries) = value else { return Err(not_a_dictionary()) };

    let (mut descr, mut fortran, mut shape) = (None, None, None);
    for (key, value) in entries {
        match key.as_string().map(String::as_str) {
            Some("descr") => descr = Some(value),
            Some("fortran_order") => fortran = Some(value),
            Some("shape") => shape = Some(value),
            _ => return Err(Reason::broken(format!("unknown key {key}"))),
        }
    }
    let missing = |key| move || Reason::broken(format!("key '{key}' is missing"));
    let element = element_type(&descr.ok_or_else(missing("descr"))?)?;
    let order = match fortran.ok_or_else(missing("fortran_order"))? {
        Value::Boolean(true) => Order::Fortran,
        Value::Boolean(false) => Order::C,
        other => {
            return Err(Reason::broken(format!("'fortran_order' is {other}, expected a boolean")));
        }
    };
    let shape = match shape.ok_or_else(missing("shape"))? {
        Value::Tuple(lengths) => lengths.iter().map(dimension).collect::<Result<Vec<_>, _>>()?,
        other => return Err(Reason::broken(format!("'shape' is {other}, expected a tuple"))),
    };
    Extent::new(element, &shape, order)
}

/// Refuses text that would make a recursive parser run deep, or, with backtracking, long.
fn check_nesting(text: &str) -> Result<(), Reason> {
    let mut depth = 0usize;
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Err(Reason::broken(format!("brackets nest deeper than {MAX_NESTING}")));
        }
    }
    Ok(())
}

fn dimension(value: &Value) -> Result<u64, Reason> {
    value.as_integer().and_then(|length| u64::try_from(length).ok()).ok_or_else(|| {
        Reason::broken(format!(
            "dimension {value} of 'shape' is not an integer from 0 to 18446744073709551615"
        ))
    })
}

fn element_type(descr: &Value) -> Result<ElementType, Reason> {
    let unknown =
        |found: String| Reason::ElementType { found: printable(&found), expected: READABLE };
    let Value::String(descr) = descr else { return Err(unknown(descr.to_string())) };
    if let Some((_, element)) = TYPES.iter().find(|(name, _)| name == descr) {
        return Ok(*element);
    }
    let little = descr.replacen('>', "<", 1);
    if little != *descr && TYPES.iter().any(|(name, _)| *name == little) {
        return Err(Reason::BigEndian { descr: descr.clone(), little });
    }
    Err(unknown(descr.clone()))
}

/// Writes a row-major array in version 1.0 of the format.
///
/// `bytes` are the elements of `shape` in row-major order, little-endian.
///
/// # Errors
/// [`Reason::Bf16Npy`], or [`Reason::Io`] from the writer.
pub(crate) fn write(
    writer: &mut impl Write,
    element: ElementType,
    shape: &[usize],
    bytes: &[u8],
) -> Result<(), Reason> {
    let descr = TYPES
        .iter()
        .find(|(_, known)| *known == element)
        .map(|(name, _)| *name)
        .ok_or(Reason::Bf16Npy)?;
    // A tuple of one element keeps its comma.
    let comma = if shape.len() == 1 { "," } else { "" };
    let shape = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}{comma}), }}");
    let before_header = MAGIC.len() + 2 + size_of::<u16>();
    let end = (before_header + header.len() + 1).next_multiple_of(HEADER_ALIGNMENT);
    header.extend(std::iter::repeat_n(' ', end - 1 - header.len() - before_header));
    header.push('\n');

    writer.write_all(MAGIC)?;
    writer.write_all(&[1, 0])?;
    // At most three dimensions of at most twenty digits: far below the field's 65,535.
    writer.write_all(&(header.len() as u16).to_le_bytes())?;
    writer.write_all(header.as_bytes())?;
    writer.write_all(bytes)?;
    Ok(())
}

#[cfg(test)]
mod tests;
