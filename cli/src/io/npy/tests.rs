use npyz::WriterBuilder;
use proptest::prelude::*;

use super::*;

/// A version 1.0 file with this header text and data.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn parse(bytes: &[u8]) -> Result<Array, Reason> {
    read(&mut &bytes[..], bytes.len() as u64, bytes.len(), &ProgressBar::hidden())
}

fn header(descr: &str, fortran: bool, shape: &str) -> String {
    let fortran = if fortran { "True" } else { "False" };
    format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
}

/// What another implementation of the format writes.
fn written_by_npyz<T: npyz::AutoSerialize + Copy>(
    order: npyz::Order,
    shape: &[u64],
    values: &[T],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = npyz::WriteOptions::new()
        .default_dtype()
        .shape(shape)
        .order(order)
        .writer(&mut bytes)
        .begin_nd()
        .unwrap();
    writer.extend(values.iter().copied()).unwrap();
    writer.finish().unwrap();
    bytes
}

#[test]
fn reads_what_another_implementation_writes() {
    let values = [1.5f64, -2.0, 3.25, 0.0, f64::INFINITY, 6.0];
    let array = parse(&written_by_npyz(npyz::Order::C, &[2, 3], &values)).unwrap();
    assert_eq!((array.element, &array.shape[..]), (ElementType::F64, &[2, 3][..]));
    assert_eq!(array.strides, [3, 1]);
    assert_eq!(bytemuck::cast_slice::<u8, f64>(array.bytes.as_slice()), values);

    let array = parse(&written_by_npyz(npyz::Order::Fortran, &[2, 3], &values)).unwrap();
    assert_eq!(array.strides, [1, 2], "a Fortran-order array is a column-major view");
    assert_eq!(bytemuck::cast_slice::<u8, f64>(array.bytes.as_slice()), values);

    let array = parse(&written_by_npyz(npyz::Order::C, &[2, 1, 2], &[1i8, -2, 3, 127])).unwrap();
    assert_eq!((array.element, array.strides), (ElementType::I8, vec![2, 2, 1]));
    let array = parse(&written_by_npyz(npyz::Order::C, &[3], &[1i32, -2, i32::MAX])).unwrap();
    assert_eq!((array.element, array.shape), (ElementType::I32, vec![3]));
    let array = parse(&written_by_npyz(npyz::Order::C, &[], &[2.5f32])).unwrap();
    assert_eq!((array.element, array.shape), (ElementType::F32, vec![]));
    let half = [half::f16::from_f32(0.5), half::f16::NEG_INFINITY];
    let array = parse(&written_by_npyz(npyz::Order::C, &[1, 2], &half)).unwrap();
    assert_eq!(bytemuck::cast_slice::<u8, half::f16>(array.bytes.as_slice()), half);
}

#[test]
fn another_implementation_reads_what_is_written() {
    let values = [1.5f32, -2.0, 3.25, 0.0, f32::NEG_INFINITY, 6.0];
    for shape in [&[2usize, 3][..], &[6], &[1, 3, 2]] {
        let mut bytes = Vec::new();
        write(&mut bytes, ElementType::F32, shape, bytemuck::cast_slice(&values)).unwrap();
        let npy = npyz::NpyFile::new(&bytes[..]).unwrap();
        assert_eq!(npy.shape(), shape.iter().map(|&n| n as u64).collect::<Vec<_>>());
        assert_eq!(npy.order(), npyz::Order::C);
        assert_eq!(npy.into_vec::<f32>().unwrap(), values);
        assert_eq!((bytes.len() - 24) % HEADER_ALIGNMENT, 0);
    }
    let refused = write(&mut Vec::new(), ElementType::BF16, &[1], &[0; 2]);
    assert!(matches!(refused, Err(Reason::Bf16Npy)));
}

#[test]
fn every_truncation_is_an_error() {
    let whole = file(&header("<f4", false, "(2, 3)"), &[0; 24]);
    assert!(parse(&whole).is_ok());
    for end in 0..whole.len() {
        let found = parse(&whole[..end]);
        match found {
            Err(Reason::NoNpyMagic) => assert!(end < 8),
            Err(Reason::Truncated { needed, found }) => {
                assert!(found == end as u64 && needed > found);
            }
            other => panic!("{end} bytes: {other:?}"),
        }
    }
}

#[test]
fn bytes_after_the_end_are_reported() {
    let found = parse(&file(&header("<f4", false, "(2, 3)"), &[0; 27]));
    assert!(matches!(found, Err(Reason::TrailingBytes { extra: 3 })), "{found:?}");
}

#[test]
fn a_shape_is_checked_against_the_file_before_anything_is_allocated() {
    let found = parse(&file(&header("<f8", false, "(1099511627776, 4096)"), &[0; 8]));
    assert!(matches!(found, Err(Reason::Truncated { .. })), "{found:?}");
    let found = parse(&file(&header("<f8", false, "(1099511627776, 1099511627776)"), &[0; 8]));
    assert!(matches!(found, Err(Reason::ShapeTooLarge { .. })), "{found:?}");
}

#[test]
fn big_endian_names_the_type_to_save_as() {
    let found = parse(&file(&header(">f8", false, "(1,)"), &[0; 8])).unwrap_err();
    assert!(
        matches!(&found, Reason::BigEndian { descr, little } if descr == ">f8" && little == "<f8")
    );
}

#[test]
fn other_types_are_named() {
    for descr in ["<i8", "|u1", "|b1", "<c8", "<V2", "|O", "<U3", "", ">u2", "f4"] {
        let found = parse(&file(&header(descr, false, "(1,)"), &[0; 8]));
        assert!(
            matches!(&found, Err(Reason::ElementType { found, .. }) if found == descr),
            "{descr}: {found:?}"
        );
    }
    let records =
        "{'descr': [('a', '<f4'), ('b', '<f4', (2, 2))], 'fortran_order': False, 'shape': (1,)}";
    assert!(matches!(parse(&file(records, &[0; 20])), Err(Reason::ElementType { .. })));
}

#[test]
fn broken_headers_say_what_is_wrong() {
    let with = |shape: &str| header("<f4", false, shape);
    for (text, expected) in [
        (String::new(), "dictionary"),
        ("(1, 2)".to_owned(), "dictionary"),
        ("{'descr': '<f4'".to_owned(), "dictionary"),
        ("{'descr': '<f4'}".to_owned(), "'fortran_order' is missing"),
        ("{'descr': '<f4', 'fortran_order': False}".to_owned(), "'shape' is missing"),
        ("{'fortran_order': False, 'shape': ()}".to_owned(), "'descr' is missing"),
        ("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}".to_owned(), "expected a boolean"),
        ("{'descr': '<f4', 'extra': 1}".to_owned(), "unknown key 'extra'"),
        (with("3"), "expected a tuple"),
        (with("(-3,)"), "dimension -3"),
        (with("(2.0,)"), "dimension 2"),
        (with("(18446744073709551616,)"), "dimension 18446744073709551616"),
        (with("(((((1,),),),),)"), "nest deeper than 4"),
    ] {
        match parse(&file(&text, &[])) {
            Err(Reason::BrokenHeader { what }) => assert!(what.contains(expected), "{what}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    assert!(matches!(
        parse(&file(&with("(1, 1, 1, 1)"), &[0; 4])),
        Err(Reason::TooManyDimensions { found: 4 })
    ));
}

#[test]
fn versions_and_header_lengths_are_checked() {
    let mut bytes = MAGIC.to_vec();
    bytes.extend([2, 0]);
    bytes.extend(u32::MAX.to_le_bytes());
    assert!(matches!(parse(&bytes), Err(Reason::HeaderTooLong { length: 0xffff_ffff, .. })));
    let text = header("<f4", false, "()");
    let mut version_2 = MAGIC.to_vec();
    version_2.extend([2, 0]);
    version_2.extend((text.len() as u32).to_le_bytes());
    version_2.extend(text.as_bytes());
    version_2.extend(1.5f32.to_le_bytes());
    assert!(parse(&version_2).is_ok());
    version_2[6] = 4;
    assert!(matches!(parse(&version_2), Err(Reason::NpyVersion { major: 4, minor: 0 })));
}

fn dimension_text() -> impl Strategy<Value = String> {
    prop_oneof![
        (0u64..9).prop_map(|n| n.to_string()),
        any::<u64>().prop_map(|n| n.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        "[0-9]{1,40}",
        "[-+0-9xboe_.jTrueNone'\\\\() ]{0,12}",
    ]
}

proptest! {
    /// Whatever a header says, the answer is an array that the file really holds or an error.
    #[test]
    fn hostile_headers_never_panic(
        descr in prop_oneof![Just("<f8".to_owned()), Just("|i1".to_owned()), "[<>|=][a-zA-Z][0-9]{0,22}", ".{0,8}"],
        fortran in prop_oneof![Just("True"), Just("False"), Just("None"), Just("1")],
        shape in prop::collection::vec(dimension_text(), 0..5),
        data in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let text = format!(
            "{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({},), }}\n",
            shape.join(", ")
        );
        let bytes = file(&text, &data);
        if let Ok(array) = parse(&bytes) {
            prop_assert_eq!(array.bytes.as_slice().len(), data.len());
            prop_assert_eq!(
                array.shape.iter().product::<usize>() * array.element.size(), data.len()
            );
        }
    }

    /// Neither do arbitrary bytes after the magic string, nor a valid file with bytes overwritten.
    #[test]
    fn damaged_files_never_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        length in any::<prop::sample::Index>(),
        noise in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut bytes = file(&header("<f4", true, "(3, 5)"), &[1; 60]);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = parse(&bytes);
        let _ = parse(&bytes[..length.index(bytes.len())]);
        let mut arbitrary = MAGIC.to_vec();
        arbitrary.extend(noise);
        let _ = parse(&arbitrary);
    }
}
