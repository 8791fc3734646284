//! Random operands of many kinds, every output compared with the reference bit for bit.

use lapidary_cdna::Arch;
use lapidary_cdna::mfma::formats::{Class, Overflow};
use lapidary_cdna::mfma::{Accumulation, Format, MfmaShape};
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::one_hot::shapes;
use super::operands::{Matrix, Operands, run};
use super::reference;

/// How the elements of a case are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Draw {
    /// Every code alike, infinities and NaN among them.
    AnyCode,
    /// Every finite code alike.
    Finite,
    /// Values of ordinary size, as in a real matrix.
    Ordinary,
    /// Two exponents far apart, so that products are cut off.
    Spread,
    /// Subnormals and the smallest normal numbers.
    Tiny,
    /// The largest numbers, some of both signs.
    Huge,
    /// Mostly finite, with one infinity or NaN in a matrix.
    OneSpecial,
}

/// How C is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum DrawC {
    Zero,
    AnyBits,
    Ordinary,
    /// Of about the size of the products, often with nearly the opposite value.
    Cancelling,
    Subnormal,
    Special,
}

fn element(rng: &mut SmallRng, format: Format, draw: Draw) -> u32 {
    let mask = u32::MAX >> (32 - format.bits());
    let any = rng.random::<u32>() & mask;
    let finite = |rng: &mut SmallRng| {
        loop {
            let code = rng.random::<u32>() & mask;
            if format == Format::I8 || format.decode(code).class == Class::Finite {
                return code;
            }
        }
    };
    if format == Format::I8 {
        return match draw {
            Draw::Huge => [0x80, 0x7f][rng.random_range(0..2)],
            _ => any,
        };
    }
    let sign = (any >> (format.bits() - 1)) << (format.bits() - 1);
    match draw {
        Draw::AnyCode => any,
        Draw::Finite | Draw::OneSpecial => finite(rng),
        Draw::Ordinary => format.encode(rng.random_range(-2.0..2.0), Overflow::Saturate),
        Draw::Spread => {
            let exponent = [-10, -3, 0, 4][rng.random_range(0..4)];
            let value = rng.random_range(-2.0..2.0) * 2f64.powi(exponent);
            format.encode(value, Overflow::Saturate)
        }
        Draw::Tiny => {
            let low = any & ((2 << format.fraction_bits()) - 1);
            let code = sign | low;
            if format.decode(code).class == Class::Finite { code } else { low }
        }
        Draw::Huge => {
            let largest = format.encode(format.largest(), Overflow::Saturate);
            sign | (largest - rng.random_range(0..3))
        }
    }
}

fn accumulator(rng: &mut SmallRng, draw: DrawC, near: f32) -> u32 {
    match draw {
        DrawC::Zero => [0, 0x8000_0000][rng.random_range(0..2)],
        DrawC::AnyBits => rng.random(),
        DrawC::Ordinary => rng.random_range(-100f32..100.0).to_bits(),
        DrawC::Cancelling => {
            let step: i32 = rng.random_range(-3..=3);
            (-near).to_bits().wrapping_add_signed(step)
        }
        DrawC::Subnormal => rng.random::<u32>() & 0x80ff_ffff,
        DrawC::Special => [0x7f80_0000, 0xff80_0000, 0x7fc0_0001, 0x7f80_0001, 0x7f7f_ffff]
            [rng.random_range(0..5)],
    }
}

fn operands(shape: &MfmaShape, draw: Draw, draw_c: DrawC, seed: u64) -> Operands {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut a = Matrix::new(shape.m(), shape.k(), |_, _| element(&mut rng, shape.a(), draw));
    let mut b = Matrix::new(shape.k(), shape.n(), |_, _| element(&mut rng, shape.b(), draw));
    if draw == Draw::OneSpecial {
        for (matrix, format) in [(&mut a, shape.a()), (&mut b, shape.b())] {
            let at = rng.random_range(0..matrix.codes.len());
            let infinity = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN][rng.random_range(0..3)];
            matrix.codes[at] = format.encode(infinity, Overflow::NonFinite);
        }
    }
    let scales = shape.scaled().then(|| {
        let narrow: bool = rng.random();
        let mut code = |_, _| {
            if narrow { rng.random_range(120..=134) } else { rng.random_range(0..=255u32) }
        };
        (
            Matrix::new(shape.m(), shape.k() / 32, &mut code),
            Matrix::new(shape.k() / 32, shape.n(), &mut code),
        )
    });
    let c = Matrix::new(shape.m(), shape.n(), |i, j| {
        let sum: f64 = (0..shape.k())
            .map(|k| shape.a().value(a.at(i, k)) * shape.b().value(b.at(k, j)))
            .filter(|product| product.is_finite())
            .sum();
        accumulator(&mut rng, draw_c, sum as f32)
    });
    Operands { a, b, c, scales }
}

fn compare(arch: Arch, shape: &MfmaShape, operands: &Operands) {
    let d = run(shape, operands, 2);
    for i in 0..shape.m() {
        for j in 0..shape.n() {
            let expected = reference::output(shape, operands, i, j);
            let actual = d.at(i, j);
            assert_eq!(
                actual,
                expected,
                "{arch} {shape:?} D[{i}][{j}]: {:e} for {:e}\na {:x?}\nb {:x?}\nc {:#x}",
                f32::from_bits(actual),
                f32::from_bits(expected),
                (0..shape.k()).map(|k| operands.a.at(i, k)).collect::<Vec<_>>(),
                (0..shape.k()).map(|k| operands.b.at(k, j)).collect::<Vec<_>>(),
                operands.c.at(i, j),
            );
        }
    }
}

fn draws() -> impl Strategy<Value = (Draw, DrawC, u64)> {
    let draw = prop_oneof![
        Just(Draw::AnyCode),
        Just(Draw::Finite),
        Just(Draw::Ordinary),
        Just(Draw::Spread),
        Just(Draw::Tiny),
        Just(Draw::Huge),
        Just(Draw::OneSpecial),
    ];
    let draw_c = prop_oneof![
        Just(DrawC::Zero),
        Just(DrawC::AnyBits),
        Just(DrawC::Ordinary),
        Just(DrawC::Cancelling),
        Just(DrawC::Subnormal),
        Just(DrawC::Special),
    ];
    (draw, draw_c, any::<u64>())
}

/// Cases of a model: shapes are taken in turn, so each one is met.
fn run_model(cases: u32, wanted: impl Fn(Arch, &MfmaShape) -> bool) {
    let shapes: Vec<(Arch, MfmaShape)> = Arch::ALL
        .into_iter()
        .flat_map(|arch| shapes(arch).into_iter().map(move |(_, shape)| (arch, shape)))
        .filter(|(arch, shape)| wanted(*arch, shape))
        .collect();
    assert!(!shapes.is_empty());
    let mut config = ProptestConfig::with_cases(cases);
    config.failure_persistence = None;
    let turn = std::cell::Cell::new(0);
    proptest!(config, |((draw, draw_c, seed) in draws())| {
        let (arch, shape) = shapes[turn.get() % shapes.len()];
        turn.set(turn.get() + 1);
        compare(arch, &shape, &operands(&shape, draw, draw_c, seed));
    });
}

#[test]
fn cdna3_sixteen_bit_and_xf32() {
    run_model(180, |_, shape| matches!(shape.accumulation(), Accumulation::Cdna3 { .. }));
}

#[test]
fn cdna3_eight_bit() {
    run_model(180, |_, shape| shape.accumulation() == Accumulation::Cdna3Fp8);
}

#[test]
fn fma_chains() {
    run_model(120, |_, shape| shape.accumulation() == Accumulation::FmaChain);
}

#[test]
fn integers() {
    run_model(60, |_, shape| shape.accumulation() == Accumulation::Integer);
}

#[test]
fn cdna4_sixteen_and_eight_bit() {
    run_model(160, |_, shape| {
        matches!(shape.accumulation(), Accumulation::Fused { .. }) && !shape.is_f8f6f4()
    });
}

#[test]
fn cdna4_f8f6f4_plain_and_scaled() {
    run_model(200, |_, shape| shape.is_f8f6f4());
}
