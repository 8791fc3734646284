//! Sums worked out by hand, each showing one rule of CDNA3's adder or one difference between the architectures.

use lapidary_cdna::Arch;
use lapidary_cdna::isa::Opcode;
use lapidary_cdna::mfma::formats::Overflow;
use lapidary_cdna::mfma::{Format, MfmaShape};

use super::operands::{Matrix, Operands, run};

/// D[0][0] where row 0 of A and column 0 of B hold `terms` (pairs, in order of k) and the rest is zero.
fn dot(arch: Arch, opcode: Opcode, terms: &[(f64, f64)], c: f32) -> f32 {
    let shape = MfmaShape::resolve(arch, opcode, 0, 0, 0).unwrap();
    let code = |format: Format, value: f64| {
        // The registers hold whole f32 values; the multiplier reads them as xf32.
        let format = if format == Format::Xf32 { Format::F32 } else { format };
        let code = format.encode(value, Overflow::NonFinite);
        assert!(format.value(code) == value || value.is_nan(), "{format} cannot hold {value}");
        code
    };
    let term = |k: usize| terms.get(k).copied().unwrap_or((0.0, 0.0));
    let a = Matrix::new(
        shape.m(),
        shape.k(),
        |i, k| if i == 0 { code(shape.a(), term(k).0) } else { 0 },
    );
    let b = Matrix::new(
        shape.k(),
        shape.n(),
        |k, j| if j == 0 { code(shape.b(), term(k).1) } else { 0 },
    );
    let c = Matrix::new(shape.m(), shape.n(), |_, _| c.to_bits());
    f32::from_bits(run(&shape, &Operands { a, b, c, scales: None }, 0).at(0, 0))
}

const F16: Opcode = Opcode::VMfmaF32_16x16x16F16;
const BF16: Opcode = Opcode::VMfmaF32_16x16x16Bf16;
const FP8: Opcode = Opcode::VMfmaF32_16x16x32Fp8Fp8;
const XF32: Opcode = Opcode::VMfmaF32_16x16x8Xf32;

/// 2^exponent.
fn p(exponent: i32) -> f64 {
    2f64.powi(exponent)
}

#[test]
fn products_are_cut_24_bits_below_the_largest() {
    // 1 + 3·2^-25 - 1: the middle term keeps one of its two bits on CDNA3 and both where sums are exact.
    let terms = [(1.0, 1.0), (1.5 * p(-12), p(-12)), (-1.0, 1.0)];
    assert_eq!(f64::from(dot(Arch::Gfx942, F16, &terms, 0.0)), p(-24));
    assert_eq!(f64::from(dot(Arch::Gfx950, F16, &terms, 0.0)), 1.5 * p(-24));
    // Truncation is toward zero for negative products too.
    let negated: Vec<(f64, f64)> = terms.iter().map(|(a, b)| (-a, *b)).collect();
    assert_eq!(f64::from(dot(Arch::Gfx942, F16, &negated, 0.0)), -p(-24));
}

#[test]
fn c_is_floored_so_signs_are_not_symmetric() {
    // Largest exponent 24: C = ∓0.5 becomes -1 or 0, not ∓0.5.
    let up = [(p(12), p(12))];
    let down = [(-p(12), p(12))];
    assert_eq!(dot(Arch::Gfx942, F16, &up, -0.5), 16_777_215.0);
    assert_eq!(dot(Arch::Gfx942, F16, &down, 0.5), -16_777_216.0);
    // Rounded once, 2^24 - 0.5 is a tie to the even 2^24.
    assert_eq!(dot(Arch::Gfx950, F16, &up, -0.5), 16_777_216.0);
}

#[test]
fn the_sum_is_floored_31_bits_below_c() {
    // With C = 2^10 the sum keeps bits down to 2^-21: a product of -2^-22 becomes -2^-21 before the final rounding, which
    // then loses it; next to a product that cancels C it stays.
    assert_eq!(dot(Arch::Gfx942, F16, &[(-p(-11), p(-11))], 1024.0), 1024.0);
    let terms = [(-p(-11), p(-11)), (0.0, 0.0), (-p(5), p(5))];
    // The large product has exponent 10, so the small one is cut at 2^-14 already.
    assert_eq!(dot(Arch::Gfx942, F16, &terms, 1024.0), 0.0);
    // Products of exponent 0 and C = 2^8: the sum 2^0·(1 - 2^-24) keeps its 24 bits, being floored at 2^-23.
    let terms = [(1.0, 1.0), (-p(-12), p(-12))];
    let sum = dot(Arch::Gfx942, F16, &terms, 256.0);
    assert_eq!(f64::from(sum), 257.0);
}

#[test]
fn sixteen_bit_instructions_of_depth_16_round_twice() {
    // 2^24 + 1 in the first eight is a tie to 2^24, and again in the second eight; one exact sum gives 2^24 + 2.
    let mut terms = vec![(0.0, 0.0); 16];
    terms[0] = (p(12), p(12));
    terms[1] = (1.0, 1.0);
    terms[8] = (1.0, 1.0);
    assert_eq!(dot(Arch::Gfx942, F16, &terms, 0.0), 16_777_216.0);
    terms[8] = (0.0, 0.0);
    terms[2] = (1.0, 1.0);
    assert_eq!(dot(Arch::Gfx942, F16, &terms, 0.0), 16_777_218.0);
}

#[test]
fn eight_bit_products_are_summed_by_parity() {
    // Same parity: 2^14 makes 3·2^-11 lose its last bit (cut at 2^-10). Other parity: its sum is floored at 2^-10 as well,
    // which shows for the negative number.
    let large = (128.0, 128.0);
    let gone = (-128.0, 128.0);
    let small = (1.5 * p(-5), p(-5));
    assert_eq!(
        f64::from(dot(Arch::Gfx942, FP8, &[large, (0.0, 0.0), small, (0.0, 0.0), gone], 0.0)),
        p(-10)
    );
    let minus = (-small.0, small.1);
    assert_eq!(
        f64::from(dot(Arch::Gfx942, FP8, &[large, (0.0, 0.0), minus, (0.0, 0.0), gone], 0.0)),
        -p(-10)
    );
    assert_eq!(f64::from(dot(Arch::Gfx942, FP8, &[large, minus, gone], 0.0)), -2.0 * p(-10));
    assert_eq!(f64::from(dot(Arch::Gfx942, FP8, &[large, small, gone], 0.0)), p(-10));
}

#[test]
fn eight_bit_instructions_drop_a_far_smaller_c() {
    // Exponent 0: C is floored to -2^-24 down to an exponent of -25 and dropped below.
    let one = [(1.0, 1.0), (0.0, 0.0), (-1.0, 1.0)];
    assert_eq!(f64::from(dot(Arch::Gfx942, FP8, &one, -(p(-25) as f32))), -p(-24));
    assert_eq!(f64::from(dot(Arch::Gfx942, FP8, &one, -(p(-26) as f32))), 0.0);
    // The 16-bit forms floor it at any distance.
    assert_eq!(f64::from(dot(Arch::Gfx942, F16, &one, -(p(-26) as f32))), -p(-24));
    assert_eq!(f64::from(dot(Arch::Gfx942, F16, &one, -f32::from_bits(1))), -p(-24));
}

#[test]
fn xf32_inputs_lose_their_low_bits() {
    let fine = 1.0 + p(-11);
    let c = 0.0;
    assert_eq!(dot(Arch::Gfx942, XF32, &[(fine, 1.0)], c), 1.0);
    assert_eq!(f64::from(dot(Arch::Gfx942, XF32, &[(1.0 + p(-10), 1.0)], c)), 1.0 + p(-10));
}

#[test]
fn infinities_and_nan() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    for arch in Arch::ALL {
        assert_eq!(dot(arch, F16, &[(inf, 1.0), (1.0, 1.0)], 5.0), f32::INFINITY);
        assert_eq!(dot(arch, F16, &[(inf, -1.0)], 5.0), f32::NEG_INFINITY);
        assert!(dot(arch, F16, &[(inf, 0.0)], 5.0).is_nan());
        assert!(dot(arch, F16, &[(inf, 1.0), (inf, -1.0)], 5.0).is_nan());
        assert!(dot(arch, F16, &[(inf, 1.0)], f32::NEG_INFINITY).is_nan());
        assert!(dot(arch, F16, &[(nan, 0.0)], 5.0).is_nan());
        assert!(dot(arch, FP8, &[(nan, 1.0)], 5.0).is_nan());
        assert!(dot(arch, FP8, &[(1.0, 1.0)], f32::NAN).is_nan());
        assert_eq!(dot(arch, FP8, &[(1.0, 1.0)], f32::INFINITY), f32::INFINITY);
        // Rounding past the largest f32.
        let half = (p(63), p(64));
        assert_eq!(dot(arch, BF16, &[half, half], 0.0), f32::INFINITY);
        assert_eq!(f64::from(dot(arch, BF16, &[half], 0.0)), p(127));
    }
    // A product of 2^128 is an infinity on CDNA3, whatever cancels it; an exact sum does not notice.
    let terms = [(p(64), p(64)), (-p(63), p(64)), (-p(63), p(64))];
    assert_eq!(dot(Arch::Gfx942, BF16, &terms, 0.0), f32::INFINITY);
    assert_eq!(dot(Arch::Gfx950, BF16, &terms, 0.0), 0.0);
    let both = [(p(64), p(64)), (-p(64), p(64))];
    assert!(dot(Arch::Gfx942, BF16, &both, 0.0).is_nan());
    assert_eq!(dot(Arch::Gfx950, BF16, &both, 0.0), 0.0);
}

#[test]
fn subnormals_are_kept_in_and_out() {
    for arch in Arch::ALL {
        assert_eq!(f64::from(dot(arch, F16, &[(p(-24), p(-24))], 0.0)), p(-48));
        assert_eq!(f64::from(dot(arch, BF16, &[(p(-133), 1.0)], 0.0)), p(-133));
        assert_eq!(f64::from(dot(arch, BF16, &[(p(-70), p(-70))], 0.0)), p(-140));
        assert_eq!(dot(arch, BF16, &[(0.0, 1.0)], f32::from_bits(3)), f32::from_bits(3));
        let f32_shape = Opcode::VMfmaF32_16x16x4F32;
        assert_eq!(f64::from(dot(arch, f32_shape, &[(p(-149), 1.0)], 0.0)), p(-149));
    }
}

#[test]
fn the_same_byte_is_half_as_large_in_fnuz() {
    // 0x38 is 0.5 in e4m3fnuz and 1 in e4m3fn.
    for (arch, expected) in [(Arch::Gfx942, 0.25), (Arch::Gfx950, 1.0)] {
        let shape = MfmaShape::resolve(arch, FP8, 0, 0, 0).unwrap();
        let one = |hot: bool| if hot { 0x38 } else { 0 };
        let operands = Operands {
            a: Matrix::new(shape.m(), shape.k(), |i, k| one((i, k) == (3, 5))),
            b: Matrix::new(shape.k(), shape.n(), |k, j| one((k, j) == (5, 7))),
            c: Matrix::new(shape.m(), shape.n(), |_, _| 0),
            scales: None,
        };
        assert_eq!(f32::from_bits(run(&shape, &operands, 0).at(3, 7)), expected);
    }
}

#[test]
fn integers_wrap() {
    for arch in Arch::ALL {
        let shape = MfmaShape::resolve(arch, Opcode::VMfmaI32_16x16x32I8, 0, 0, 0).unwrap();
        let operands = Operands {
            a: Matrix::new(shape.m(), shape.k(), |_, _| 0x80),
            b: Matrix::new(shape.k(), shape.n(), |_, _| 0x80),
            c: Matrix::new(shape.m(), shape.n(), |_, _| i32::MAX as u32),
            scales: None,
        };
        let expected = i32::MAX.wrapping_add(32 * 128 * 128) as u32;
        assert!(run(&shape, &operands, 0).codes.iter().all(|d| *d == expected));
    }
}

#[test]
fn a_nan_scale_spoils_its_row_or_column_only() {
    let shape =
        MfmaShape::resolve(Arch::Gfx950, Opcode::VMfmaScaleF32_16x16x128F8f6f4, 4, 0, 4).unwrap();
    let operands = Operands {
        a: Matrix::new(shape.m(), shape.k(), |_, _| 2),
        b: Matrix::new(shape.k(), shape.n(), |_, _| 2),
        c: Matrix::new(shape.m(), shape.n(), |_, _| 0),
        scales: Some((
            Matrix::new(shape.m(), 4, |i, block| if (i, block) == (3, 2) { 255 } else { 127 }),
            Matrix::new(4, shape.n(), |block, j| if (block, j) == (0, 9) { 255 } else { 128 }),
        )),
    };
    let d = run(&shape, &operands, 1);
    for i in 0..shape.m() {
        for j in 0..shape.n() {
            let value = f32::from_bits(d.at(i, j));
            if i == 3 || j == 9 {
                assert!(value.is_nan(), "D[{i}][{j}] = {value}");
            } else {
                assert_eq!(value, 256.0, "D[{i}][{j}]");
            }
        }
    }
}
