//! The safetensors format: a length, a JSON header, then the tensors one after the other.
//!
//! Only the header and the tensor asked for are read, so one weight of a model of many gigabytes
//! costs no more than that weight.

use std::io::{Read, Seek, SeekFrom, Write};

use indicatif::ProgressBar;
use lapidary_core::ElementType;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use super::array::{AlignedBytes, Array, Extent, Order};
use super::error::Reason;

/// Bytes of the header's length.
const LENGTH_FIELD: u64 = 8;

/// Longest header that is read, the limit of the format's own implementation.
const MAX_HEADER: u64 = 100_000_000;

const READABLE: &str = "F64, F32, F16, BF16, I32 and I8";

/// The format's names of the types that are read.
const TYPES: [(Dtype, ElementType); 6] = [
    (Dtype::F64, ElementType::F64),
    (Dtype::F32, ElementType::F32),
    (Dtype::F16, ElementType::F16),
    (Dtype::BF16, ElementType::BF16),
    (Dtype::I32, ElementType::I32),
    (Dtype::I8, ElementType::I8),
];

/// Reads the tensor called `name`, or the only one there is, of a file of `length` bytes.
///
/// # Errors
/// A [`Reason`] if the file is damaged, the name picks no tensor, or its type is not one the
/// library multiplies.
pub(crate) fn read(
    mut file: impl Read + Seek,
    length: u64,
    name: Option<&str>,
    bar: &ProgressBar,
) -> Result<Array, Reason> {
    let (metadata, data_start) = header(&mut file, length)?;
    let info = pick(&metadata, name)?;
    let element = TYPES
        .iter()
        .find(|(dtype, _)| *dtype == info.dtype)
        .map(|(_, element)| *element)
        .ok_or_else(|| Reason::ElementType { found: info.dtype.to_string(), expected: READABLE })?;
    let shape = info.shape.iter().map(|&length| length as u64).collect::<Vec<_>>();
    let extent = Extent::new(element, &shape, Order::C)?;
    file.seek(SeekFrom::Start(data_start + info.data_offsets.0 as u64))?;
    let bytes = AlignedBytes::read(&mut file, extent.bytes, extent.bytes, bar)?;
    Ok(extent.with(bytes))
}

/// The names of the tensors in a file of `length` bytes.
///
/// # Errors
/// A [`Reason`] if the file is damaged.
pub(crate) fn names(mut file: impl Read, length: u64) -> Result<Vec<String>, Reason> {
    Ok(sorted_names(&header(&mut file, length)?.0))
}

/// The header of a file of `length` bytes, and where the data behind it starts.
fn header(file: &mut impl Read, length: u64) -> Result<(Metadata, u64), Reason> {
    if length < LENGTH_FIELD {
        return Err(Reason::Truncated { needed: LENGTH_FIELD, found: length });
    }
    let mut field = [0; LENGTH_FIELD as usize];
    file.read_exact(&mut field)?;
    let header_length = u64::from_le_bytes(field);
    if header_length > MAX_HEADER {
        return Err(Reason::HeaderTooLong { length: header_length, limit: MAX_HEADER });
    }
    let data_start = LENGTH_FIELD + header_length;
    if data_start > length {
        return Err(Reason::Truncated { needed: data_start, found: length });
    }
    let mut text = vec![0; header_length as usize];
    file.read_exact(&mut text)?;

    // Parsing also checks that shapes and types agree with offsets that leave no gap or overlap.
    let metadata = serde_json::from_slice::<Metadata>(&text)
        .map_err(|error| Reason::broken(error.to_string()))?;
    let needed = data_start.saturating_add(metadata.data_len() as u64);
    if needed > length {
        return Err(Reason::Truncated { needed, found: length });
    }
    if needed < length {
        return Err(Reason::TrailingBytes { extra: length - needed });
    }
    Ok((metadata, data_start))
}

fn sorted_names(metadata: &Metadata) -> Vec<String> {
    let mut names = metadata.offset_keys();
    names.sort();
    names
}

fn pick<'a>(metadata: &'a Metadata, name: Option<&str>) -> Result<&'a TensorInfo, Reason> {
    let names = || sorted_names(metadata);
    match name {
        Some(name) => metadata
            .info(name)
            .ok_or_else(|| Reason::NoSuchArray { name: name.to_owned(), available: names() }),
        None => {
            let available = names();
            match &available[..] {
                [only] => metadata.info(only).ok_or(Reason::NameNeeded { available }),
                _ => Err(Reason::NameNeeded { available }),
            }
        }
    }
}

/// Writes one row-major tensor called `name`.
///
/// `bytes` are the elements of `shape` in row-major order, little-endian.
///
/// # Errors
/// [`Reason::Io`] from the writer, [`Reason::BrokenHeader`] if the format cannot describe the tensor.
pub(crate) fn write(
    writer: &mut impl Write,
    name: &str,
    element: ElementType,
    shape: &[usize],
    bytes: &[u8],
) -> Result<(), Reason> {
    let dtype =
        TYPES.iter().find(|(_, known)| *known == element).map(|(dtype, _)| *dtype).ok_or_else(
            || Reason::ElementType { found: element.to_string(), expected: READABLE },
        )?;
    let info = TensorInfo { dtype, shape: shape.to_vec(), data_offsets: (0, bytes.len()) };
    let describe = |error: &dyn std::fmt::Display| Reason::broken(error.to_string());
    let metadata =
        Metadata::new(None, vec![(name.to_owned(), info)]).map_err(|error| describe(&error))?;
    let mut header = serde_json::to_string(&metadata).map_err(|error| describe(&error))?;
    // Spaces at the end keep the tensors aligned to 8 bytes.
    let padded = header.len().next_multiple_of(LENGTH_FIELD as usize);
    header.extend(std::iter::repeat_n(' ', padded - header.len()));

    writer.write_all(&(header.len() as u64).to_le_bytes())?;
    writer.write_all(header.as_bytes())?;
    writer.write_all(bytes)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;
    use safetensors::tensor::{SafeTensors, TensorView, serialize};

    use super::*;

    fn sample() -> Vec<u8> {
        let floats = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let bf16 = [half::bf16::from_f32(1.5); 4];
        let view = |dtype, shape: &[usize], data| TensorView::new(dtype, shape.to_vec(), data);
        let tensors = [
            ("w", view(Dtype::F32, &[2, 3], bytemuck::cast_slice(&floats)).unwrap()),
            ("h", view(Dtype::BF16, &[1, 2, 2], bytemuck::cast_slice(&bf16)).unwrap()),
            ("count", view(Dtype::I64, &[1], &[0; 8]).unwrap()),
            ("five", view(Dtype::I8, &[1, 1, 1, 1], &[0; 1]).unwrap()),
        ];
        serialize(tensors, None).unwrap()
    }

    fn parse(bytes: &[u8], name: Option<&str>) -> Result<Array, Reason> {
        read(Cursor::new(bytes), bytes.len() as u64, name, &ProgressBar::hidden())
    }

    fn with_header(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    #[test]
    fn tensors_are_read_by_name() {
        let bytes = sample();
        let w = parse(&bytes, Some("w")).unwrap();
        assert_eq!((w.element, w.shape, w.strides), (ElementType::F32, vec![2, 3], vec![3, 1]));
        assert_eq!(
            bytemuck::cast_slice::<u8, f32>(w.bytes.as_slice()),
            [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        );
        let h = parse(&bytes, Some("h")).unwrap();
        assert_eq!((h.element, h.shape), (ElementType::BF16, vec![1, 2, 2]));
        assert_eq!(bytemuck::cast_slice::<u8, u16>(h.bytes.as_slice()), [0x3fc0; 4]);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let bytes = sample();
        assert!(matches!(parse(&bytes, Some("v")), Err(Reason::NoSuchArray { name, available })
            if name == "v" && available == ["count", "five", "h", "w"]));
        assert!(matches!(parse(&bytes, None), Err(Reason::NameNeeded { available })
            if available.len() == 4));
        assert!(matches!(parse(&bytes, Some("count")), Err(Reason::ElementType { found, .. })
            if found == "I64"));
        assert!(matches!(parse(&bytes, Some("five")), Err(Reason::TooManyDimensions { found: 4 })));
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = sample();
        for end in 0..bytes.len() {
            assert!(
                matches!(parse(&bytes[..end], Some("w")), Err(Reason::Truncated { needed, found })
                    if found == end as u64 && needed > found),
                "{end} bytes"
            );
        }
        let mut longer = bytes;
        longer.extend([0; 5]);
        assert!(matches!(parse(&longer, Some("w")), Err(Reason::TrailingBytes { extra: 5 })));
    }

    #[test]
    fn absurd_headers_are_refused() {
        let mut bytes = u64::MAX.to_le_bytes().to_vec();
        bytes.extend([b' '; 40]);
        assert!(matches!(parse(&bytes, None), Err(Reason::HeaderTooLong { length: u64::MAX, .. })));
        for header in [
            "",
            "null",
            "{\"a\":1}",
            "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,12]}}",
            "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[4,20]}}",
            "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}}",
            "{\"a\":{\"dtype\":\"F99\",\"shape\":[4],\"data_offsets\":[0,16]}}",
            "{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,16]}}",
            "{\"a\":{\"dtype\":\"F64\",\"shape\":[-1],\"data_offsets\":[0,16]}}",
        ] {
            let found = parse(&with_header(header, 16), Some("a"));
            assert!(matches!(found, Err(Reason::BrokenHeader { .. })), "{header}: {found:?}");
        }
        // Empty, so its bytes are all there, but its strides do not fit.
        let header = "{\"a\":{\"dtype\":\"F64\",\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]}}";
        assert!(parse(&with_header(header, 0), Some("a")).is_err());
        let nested = format!("{{\"a\":{}", "[".repeat(100_000));
        assert!(matches!(parse(&with_header(&nested, 0), None), Err(Reason::BrokenHeader { .. })));
    }

    #[test]
    fn the_formats_own_reader_accepts_what_is_written() {
        let values = [half::bf16::from_f32(2.0); 6];
        let mut bytes = Vec::new();
        let data = bytemuck::cast_slice(&values);
        write(&mut bytes, "c", ElementType::BF16, &[2, 3], data).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let c = tensors.tensor("c").unwrap();
        assert_eq!((c.dtype(), c.shape(), c.data()), (Dtype::BF16, &[2, 3][..], data));
        assert!(parse(&bytes, None).is_ok());
    }

    proptest! {
        #[test]
        fn damaged_files_never_panic(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            length in any::<prop::sample::Index>(),
        ) {
            let mut bytes = sample();
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            for name in [None, Some("w"), Some("h")] {
                let _ = parse(&bytes, name);
                let _ = parse(&bytes[..length.index(bytes.len())], name);
            }
        }

        #[test]
        fn hostile_shapes_never_panic(
            shape in prop::collection::vec(any::<usize>(), 0..5),
            first in any::<usize>(),
            last in any::<usize>(),
            data in 0usize..64,
        ) {
            let header = format!(
                "{{\"a\":{{\"dtype\":\"F32\",\"shape\":{shape:?},\"data_offsets\":[{first},{last}]}}}}"
            );
            if let Ok(array) = parse(&with_header(&header, data), None) {
                prop_assert_eq!(array.bytes.as_slice().len(), data);
            }
        }
    }
}
