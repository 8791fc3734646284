//! One-hot inputs over all elements: a single one in A brings out a row of B, a single one in B a column of A.

use lapidary_cdna::Arch;
use lapidary_cdna::isa::Opcode;
use lapidary_cdna::mfma::formats::Overflow;
use lapidary_cdna::mfma::{Format, MfmaShape};

use super::operands::{Matrix, Operands, run};

/// Every emulated instruction and format combination of an architecture.
pub(crate) fn shapes(arch: Arch) -> Vec<(Opcode, MfmaShape)> {
    let mut shapes = Vec::new();
    for opcode in Opcode::ALL {
        for cbsz in 0..5 {
            for blgp in 0..5 {
                if let Ok(shape) = MfmaShape::resolve(arch, *opcode, cbsz, 0, blgp) {
                    shapes.push((*opcode, shape));
                }
            }
        }
    }
    shapes
}

fn encode(format: Format, value: f64) -> u32 {
    let code = format.encode(value, Overflow::NonFinite);
    assert_eq!(format.value(code), value, "{format} cannot hold {value}");
    code
}

/// A small number that every format holds, different for neighbouring elements.
fn value(row: usize, column: usize) -> f64 {
    const VALUES: [f64; 7] = [1.0, -1.0, 2.0, 3.0, -4.0, 6.0, -6.0];
    VALUES[(row * 3 + column * 5 + row * column) % 7]
}

fn result(shape: &MfmaShape, bits: u32) -> f64 {
    if shape.a() == Format::I8 { f64::from(bits as i32) } else { f64::from(f32::from_bits(bits)) }
}

fn check(opcode: Opcode, shape: &MfmaShape) {
    let (m, n, k) = (shape.m(), shape.n(), shape.k());
    let scales = shape
        .scaled()
        .then(|| (Matrix::new(m, k / 32, |_, _| 127), Matrix::new(k / 32, n, |_, _| 127)));
    let zero_c = Matrix::new(m, n, |_, _| 0);
    let full_a = Matrix::new(m, k, |i, k| encode(shape.a(), value(i, k)));
    let full_b = Matrix::new(k, n, |k, j| encode(shape.b(), value(k, j)));
    for outer in 0..m {
        for inner in 0..k {
            let one = |format, hot: bool| if hot { encode(format, 1.0) } else { 0 };
            let a = Matrix::new(m, k, |i, at| one(shape.a(), (i, at) == (outer, inner)));
            let operands =
                Operands { a, b: full_b.clone(), c: zero_c.clone(), scales: scales.clone() };
            let d = run(shape, &operands, 0);
            for i in 0..m {
                for j in 0..n {
                    let expected = if i == outer { value(inner, j) } else { 0.0 };
                    assert_eq!(
                        result(shape, d.at(i, j)),
                        expected,
                        "{opcode:?}: A[{outer}][{inner}] in D[{i}][{j}]"
                    );
                }
            }
            let b = Matrix::new(k, n, |at, j| one(shape.b(), (at, j) == (inner, outer)));
            let operands =
                Operands { a: full_a.clone(), b, c: zero_c.clone(), scales: scales.clone() };
            let d = run(shape, &operands, 0);
            for i in 0..m {
                for j in 0..n {
                    let expected = if j == outer { value(i, inner) } else { 0.0 };
                    assert_eq!(
                        result(shape, d.at(i, j)),
                        expected,
                        "{opcode:?}: B[{inner}][{outer}] in D[{i}][{j}]"
                    );
                }
            }
        }
    }
}

#[test]
fn one_hot_inputs_on_gfx942() {
    let shapes = shapes(Arch::Gfx942);
    assert_eq!(shapes.len(), 18);
    for (opcode, shape) in shapes {
        check(opcode, &shape);
    }
}

#[test]
fn one_hot_inputs_on_gfx950() {
    let shapes = shapes(Arch::Gfx950);
    // Without xf32, with six more unscaled shapes, and f8f6f4 in 25 combinations of formats, two sizes, plain and scaled.
    assert_eq!(shapes.len(), 16 + 6 + 100);
    for (opcode, shape) in shapes {
        // Each format once on either side covers the layouts.
        let tried = !shape.is_f8f6f4() || shape.a() == shape.b() || shape.a() == Format::E4m3Fn;
        if tried && !shape.scaled() {
            check(opcode, &shape);
        }
    }
}

#[test]
fn c_passes_through_and_lands_where_d_does() {
    for arch in Arch::ALL {
        for (opcode, shape) in shapes(arch) {
            let c = Matrix::new(shape.m(), shape.n(), |i, j| {
                let number = (i * 64 + j) as i32 - 700;
                if shape.a() == Format::I8 { number as u32 } else { (number as f32).to_bits() }
            });
            let operands = Operands {
                a: Matrix::new(shape.m(), shape.k(), |_, _| 0),
                b: Matrix::new(shape.k(), shape.n(), |_, _| 0),
                c: c.clone(),
                scales: None,
            };
            assert_eq!(run(&shape, &operands, 0).codes, c.codes, "{arch} {opcode:?}");
        }
    }
}

#[test]
fn each_scale_reaches_its_row_column_and_block() {
    for opcode in [Opcode::VMfmaScaleF32_16x16x128F8f6f4, Opcode::VMfmaScaleF32_32x32x64F8f6f4] {
        for format in 0..5 {
            let shape = MfmaShape::resolve(Arch::Gfx950, opcode, format, 0, format).unwrap();
            let (m, n, k) = (shape.m(), shape.n(), shape.k());
            // Exponents from -5 to 4: sums of 32·2^(sa + sb) stay exact.
            let exponent = |outer: usize, block: usize| ((outer * 5 + block * 3) % 10) as i32 - 5;
            let one_a = encode(shape.a(), 1.0);
            for byte in 0..4 {
                let code = |outer, block| (exponent(outer, block) + 127) as u32;
                let operands = Operands {
                    a: Matrix::new(m, k, |_, _| one_a),
                    b: Matrix::new(k, n, |_, _| one_a),
                    c: Matrix::new(m, n, |_, _| 0),
                    scales: Some((
                        Matrix::new(m, k / 32, code),
                        Matrix::new(k / 32, n, |block, j| code(j + 7, block)),
                    )),
                };
                let d = run(&shape, &operands, byte);
                for i in 0..m {
                    for j in 0..n {
                        let expected: f64 = (0..k / 32)
                            .map(|t| 32.0 * 2f64.powi(exponent(i, t) + exponent(j + 7, t)))
                            .sum();
                        assert_eq!(result(&shape, d.at(i, j)), expected, "{opcode:?} {i} {j}");
                    }
                }
            }
        }
    }
}
