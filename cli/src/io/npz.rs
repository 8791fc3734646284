//! NumPy's `.npz` format: a zip archive whose members are `.npy` files, stored or deflated.

use std::io::{Read, Seek};

use indicatif::ProgressBar;
use zip::{CompressionMethod, ZipArchive, result::ZipError};

use super::array::Array;
use super::error::{Reason, printable};
use super::npy;

/// Most bytes that deflate can make of one: a match of 258 bytes in two bits.
const MAX_INFLATION: u64 = 1032;

/// Reads the array called `name`, or the only one there is, of an archive of `length` bytes.
///
/// # Errors
/// A [`Reason`] if the archive or the array in it cannot be read, or the name picks none.
pub(crate) fn read(
    file: impl Read + Seek,
    length: u64,
    name: Option<&str>,
    bar: &ProgressBar,
) -> Result<Array, Reason> {
    let mut archive = ZipArchive::new(file).map_err(zip_error)?;
    let members = (0..archive.len())
        .filter_map(|index| {
            let member = archive.name_for_index(index)?.ok()?;
            Some((member.strip_suffix(".npy")?.to_owned(), index))
        })
        .collect::<Vec<_>>();
    let names = || members.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let index = match (name, &members[..]) {
        (None, [(_, only)]) => *only,
        (None, []) => return Err(Reason::Zip { what: "it holds no .npy member".to_owned() }),
        (None, _) => return Err(Reason::NameNeeded { available: names() }),
        (Some(name), _) => members
            .iter()
            .find(|(member, _)| member == name)
            .map(|(_, index)| *index)
            .ok_or_else(|| Reason::NoSuchArray { name: name.to_owned(), available: names() })?,
    };

    let mut member = archive.by_index(index).map_err(zip_error)?;
    let (stored, stated) = (member.compressed_size(), member.size());
    let limit = match member.compression() {
        CompressionMethod::Stored => stored,
        _ => stored.saturating_mul(MAX_INFLATION),
    };
    if stated > limit {
        return Err(Reason::Inflation { stated, stored, limit });
    }
    // Both sizes are claims; that this many bytes exist in the archive is not.
    let credible = usize::try_from(stored.min(length)).unwrap_or(usize::MAX);
    let array = npy::read(&mut member, stated, credible, bar)?;
    // Reading on to the end makes the archive reader compare the checksum.
    match member.read(&mut [0]) {
        Ok(0) => Ok(array),
        Ok(_) => Err(Reason::Zip { what: format!("a member exceeds its stated {stated} bytes") }),
        Err(error) => Err(Reason::Zip { what: printable(&error.to_string()) }),
    }
}

fn zip_error(error: ZipError) -> Reason {
    match error {
        ZipError::Io(error) => Reason::Io(error),
        other => Reason::Zip { what: printable(&other.to_string()) },
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use lapidary_core::ElementType;
    use proptest::prelude::*;
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    fn archive(members: &[(&str, &[f32])], method: CompressionMethod) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, values) in members {
            let options = SimpleFileOptions::default().compression_method(method);
            writer.start_file(*name, options).unwrap();
            let mut npy = Vec::new();
            let bytes = bytemuck::cast_slice(values);
            npy::write(&mut npy, ElementType::F32, &[values.len()], bytes).unwrap();
            writer.write_all(&npy).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn parse(bytes: &[u8], name: Option<&str>) -> Result<Array, Reason> {
        read(Cursor::new(bytes), bytes.len() as u64, name, &ProgressBar::hidden())
    }

    #[test]
    fn stored_and_deflated_members_are_read() {
        let zeros = [0f32; 5000];
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let bytes = archive(&[("a.npy", &[1.0, 2.0]), ("b.npy", &zeros)], method);
            let a = parse(&bytes, Some("a")).unwrap();
            assert_eq!(bytemuck::cast_slice::<u8, f32>(a.bytes.as_slice()), [1.0, 2.0]);
            let b = parse(&bytes, Some("b")).unwrap();
            assert_eq!(bytemuck::cast_slice::<u8, f32>(b.bytes.as_slice()), zeros);
        }
    }

    #[test]
    fn a_name_is_needed_only_when_there_is_a_choice() {
        let one = archive(&[("only.npy", &[1.0]), ("notes.txt", &[])], CompressionMethod::Stored);
        assert!(parse(&one, None).is_ok());
        let two = archive(&[("a.npy", &[1.0]), ("b.npy", &[2.0])], CompressionMethod::Stored);
        let found = parse(&two, None).unwrap_err();
        assert!(matches!(&found, Reason::NameNeeded { available } if available == &["a", "b"]));
        let found = parse(&two, Some("c")).unwrap_err();
        assert!(matches!(&found, Reason::NoSuchArray { name, available }
            if name == "c" && available == &["a", "b"]));
        let none = archive(&[("notes.txt", &[])], CompressionMethod::Stored);
        assert!(matches!(parse(&none, None), Err(Reason::Zip { .. })));
    }

    #[test]
    fn a_flipped_bit_in_the_data_is_found() {
        let mut bytes = archive(&[("a.npy", &[1.0; 64])], CompressionMethod::Stored);
        // The value 1.0f32 is 00 00 80 3f; the last of the 64 lies well inside the data.
        let at = bytes.windows(2).rposition(|pair| pair == [0x80, 0x3f]).unwrap();
        bytes[at] ^= 1;
        assert!(matches!(parse(&bytes, None), Err(Reason::Zip { .. })));
    }

    #[test]
    fn a_size_beyond_what_deflate_can_hold_is_refused() {
        let mut bytes = archive(&[("a.npy", &[1.0; 64])], CompressionMethod::Deflated);
        // The uncompressed size, at offset 24 of the central directory's entry "PK\x01\x02".
        let entry = bytes.windows(4).rposition(|w| w == b"PK\x01\x02").unwrap();
        bytes[entry + 24..entry + 28].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
        let found = parse(&bytes, None);
        assert!(
            matches!(
                found,
                Err(Reason::Inflation { stated: 0x7fff_ffff, .. } | Reason::Zip { .. })
            ),
            "{found:?}"
        );
    }

    proptest! {
        #[test]
        fn damaged_archives_never_panic(
            damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            length in any::<prop::sample::Index>(),
            deflated in any::<bool>(),
        ) {
            let method =
                if deflated { CompressionMethod::Deflated } else { CompressionMethod::Stored };
            let mut bytes = archive(&[("a.npy", &[1.0; 9]), ("b.npy", &[2.0; 3])], method);
            for (at, value) in damage {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            for name in [None, Some("a"), Some("b")] {
                let _ = parse(&bytes, name);
                let _ = parse(&bytes[..length.index(bytes.len())], name);
            }
        }
    }
}
