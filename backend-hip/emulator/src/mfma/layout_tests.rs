//! The layout rules against AMD's tables (gfx942) and against the formulas stated for gfx950.

use super::*;
use crate::Arch;
use crate::isa::Opcode;

/// Instruction of a table, and the file's name for it.
const TABLES: [(Opcode, &str); 10] = [
    (Opcode::VMfmaF32_16x16x16Bf16, "f32_16x16x16_bf16"),
    (Opcode::VMfmaF32_16x16x16F16, "f32_16x16x16_f16"),
    (Opcode::VMfmaF32_16x16x32Fp8Fp8, "f32_16x16x32_fp8_fp8"),
    (Opcode::VMfmaF32_16x16x4F32, "f32_16x16x4_f32"),
    (Opcode::VMfmaF32_16x16x8Xf32, "f32_16x16x8_xf32"),
    (Opcode::VMfmaF32_32x32x16Fp8Fp8, "f32_32x32x16_fp8_fp8"),
    (Opcode::VMfmaF32_32x32x2F32, "f32_32x32x2_f32"),
    (Opcode::VMfmaF32_32x32x8F16, "f32_32x32x8_f16"),
    (Opcode::VMfmaI32_16x16x32I8, "i32_16x16x32_i8"),
    (Opcode::VMfmaI32_32x32x16I8, "i32_32x32x16_i8"),
];

fn table(name: &str, matrix: char) -> String {
    let path = format!(
        "{}/tests/data/layouts/cdna3.v_mfma_{name}.{matrix}.csv",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Register, lane and lowest bit of an entry such as `v1{17}.[31:16]` or `v0{3}`.
fn entry(text: &str) -> (usize, usize, usize) {
    let (register, rest) = text[1..].split_once('{').unwrap();
    let (lane, bits) = rest.split_once('}').unwrap();
    let low = match bits.split_once(':') {
        Some((_, low)) => low.trim_end_matches(']').parse().unwrap(),
        None => 0,
    };
    (register.parse().unwrap(), lane.parse().unwrap(), low)
}

/// Entries by row and column.
fn entries(text: &str) -> Vec<Vec<(usize, usize, usize)>> {
    let rows = text.lines().skip_while(|line| !line.contains('[')).skip(1);
    rows.filter(|line| !line.trim().is_empty())
        .map(|line| line.split(',').skip(1).map(|text| entry(text.trim())).collect())
        .collect()
}

#[test]
fn cdna3_layouts_equal_the_published_tables() {
    for (opcode, name) in TABLES {
        let shape = MfmaShape::resolve(Arch::Gfx942, opcode, 0, 0, 0).unwrap();
        let a = entries(&table(name, 'A'));
        assert_eq!((a.len(), a[0].len()), (shape.m, shape.k), "{name} A");
        let b = entries(&table(name, 'B'));
        assert_eq!((b.len(), b[0].len()), (shape.k, shape.n), "{name} B");
        let d = entries(&table(name, 'D'));
        assert_eq!((d.len(), d[0].len()), (shape.m, shape.n), "{name} D");
        let bits = shape.a.bits() as usize;
        for k in 0..shape.k {
            for outer in 0..shape.m {
                for (layout, (register, lane, low)) in
                    [(shape.a_layout(), a[outer][k]), (shape.b_layout(), b[k][outer])]
                {
                    let place = Place { lane, element: (32 * register + low) / bits };
                    assert_eq!(layout.place(outer, k), place, "{name} {outer} {k}");
                    assert_eq!(layout.element(place), (outer, k), "{name} {outer} {k}");
                }
            }
        }
        for (row, columns) in d.iter().enumerate() {
            for (column, (register, lane, _)) in columns.iter().enumerate() {
                let place = AccPlace { lane: *lane, register: *register };
                assert_eq!(acc_place(shape.n, row, column), place, "{name} {row} {column}");
                assert_eq!(acc_element(shape.n, place), (row, column), "{name} {row} {column}");
            }
        }
    }
}

/// A gfx950 instruction, cbsz and blgp, and `k` of lane `L`'s element `e` as published.
type Stated = (Opcode, u8, fn(usize, usize) -> usize);

#[test]
fn cdna4_layouts_equal_the_stated_formulas() {
    let stated: [Stated; 12] = [
        (Opcode::VMfmaF32_16x16x32F16, 0, |l, e| 8 * (l / 16) + e),
        (Opcode::VMfmaF32_16x16x32Bf16, 0, |l, e| 8 * (l / 16) + e),
        (Opcode::VMfmaF32_32x32x16F16, 0, |l, e| 8 * (l / 32) + e),
        (Opcode::VMfmaF32_32x32x16Bf16, 0, |l, e| 8 * (l / 32) + e),
        (Opcode::VMfmaI32_16x16x64I8, 0, |l, e| 16 * (l / 16) + e),
        (Opcode::VMfmaI32_32x32x32I8, 0, |l, e| 16 * (l / 32) + e),
        (Opcode::VMfmaF32_16x16x128F8f6f4, 0, |l, e| {
            if e < 16 { 16 * (l / 16) + e } else { 64 + 16 * (l / 16) + (e - 16) }
        }),
        (Opcode::VMfmaF32_16x16x128F8f6f4, 1, |l, e| {
            if e < 16 { 16 * (l / 16) + e } else { 64 + 16 * (l / 16) + (e - 16) }
        }),
        (Opcode::VMfmaF32_16x16x128F8f6f4, 4, |l, e| 32 * (l / 16) + e),
        (Opcode::VMfmaF32_32x32x64F8f6f4, 0, |l, e| {
            if e < 16 { 16 * (l / 32) + e } else { 32 + 16 * (l / 32) + e - 16 }
        }),
        (Opcode::VMfmaF32_32x32x64F8f6f4, 4, |l, e| 32 * (l / 32) + e),
        // Not published: fp6 as fp4.
        (Opcode::VMfmaF32_16x16x128F8f6f4, 2, |l, e| 32 * (l / 16) + e),
    ];
    for (opcode, format, k_of) in stated {
        let shape = MfmaShape::resolve(Arch::Gfx950, opcode, format, 0, format).unwrap();
        let mut seen = vec![false; shape.m * shape.k];
        for layout in [shape.a_layout(), shape.b_layout()] {
            for lane in 0..64 {
                for element in 0..layout.per_lane() {
                    let place = Place { lane, element };
                    let expected = (lane % shape.m, k_of(lane, element));
                    assert_eq!(layout.element(place), expected, "{opcode:?} {place:?}");
                    assert_eq!(layout.place(expected.0, expected.1), place, "{opcode:?} {place:?}");
                    seen[expected.0 * shape.k + expected.1] = true;
                }
            }
        }
        assert!(seen.iter().all(|s| *s), "{opcode:?} leaves elements out");
    }
}

#[test]
fn scales_come_from_the_lane_of_their_block() {
    // 16x16x128: lane L carries row or column L mod 16, block L div 16; 32x32x64: L mod 32, L div 32.
    for outer_extent in [16, 32] {
        for lane in 0..64 {
            assert_eq!(scale_lane(outer_extent, lane % outer_extent, lane / outer_extent), lane);
        }
    }
}
