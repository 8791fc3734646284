//! Correctly rounded sums: f32 multiply-add chains, CDNA4's fused groups, and exact integers.
//!
//! A sum is rounded once, to f32, from an exact value. Products are exact in `f64`; sums in `f64` are checked for lost bits
//! (Knuth's TwoSum), and the last addition is rounded to odd, after which the conversion to f32 rounds as if from the exact
//! value (the 53 bits exceed f32's 24 by more than two). Where the products spread wider than `f64` holds, which takes
//! exponents 30 or more apart within a group, the sum is made again in fixed point.

use super::cdna3::{CANONICAL_NAN, Source, quiet};
use super::factor::{Codes, values};
use super::formats::power_of_two;
use super::wide::WideSum;

/// Exponents of the e8m0 scales of each row or column, `[block of 32 along K][row or column]`; `None` is the NaN scale.
pub(super) type ScaleExponents<const N: usize> = [[Option<i32>; N]; 4];

/// The sum rounded to f64, and the error of that rounding.
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// `a + b` rounded to odd: inexact results get an odd last bit, on the side of zero that truncation leaves them.
#[inline(always)]
pub(super) fn add_round_to_odd(a: f64, b: f64) -> f64 {
    let (sum, error) = two_sum(a, b);
    let bits = sum.to_bits();
    // Non-finite sums have a NaN error, for which the comparison fails.
    let inexact = error.abs() > 0.0;
    let away = (error > 0.0) == (sum > 0.0);
    let odd = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f64::from_bits(if inexact && bits & 1 == 0 { odd } else { bits })
}

/// The indices along K in order.
///
/// The loops read them from memory: with a counted loop the compiler vectorises along K, by gathers, instead of along a row.
#[inline(always)]
fn ascending<const K: usize>() -> [usize; K] {
    std::array::from_fn(|k| k)
}

/// `rows += A·B` by a chain of f32 fused multiply-adds, k ascending, as IEEE 754 defines them.
#[inline(always)]
pub(super) fn fma_chain<const N: usize, const K: usize>(
    a: &Codes<N, K>,
    b: &Codes<N, K>,
    rows: &mut [[u32; N]; N],
) {
    let ks = ascending::<K>();
    for (i, row) in rows.iter_mut().enumerate() {
        for &k in &ks {
            let va = f64::from(f32::from_bits(a[k][i]));
            for j in 0..N {
                let product = va * f64::from(f32::from_bits(b[k][j]));
                let sum = add_round_to_odd(product, f64::from(f32::from_bits(row[j]))) as f32;
                row[j] = quiet(sum.to_bits());
            }
        }
    }
}

/// `rows += A·B` with one rounding for each `group` products, scaled if `scales` is given.
///
/// `exact` states that the formats are so narrow that a group's sum always fits `f64`.
#[inline(always)]
pub(super) fn fused<const N: usize, const K: usize>(
    source: &Source<'_, N, K>,
    group: usize,
    exact: bool,
    scales: Option<&[ScaleExponents<N>; 2]>,
    rows: &mut [[u32; N]; N],
) {
    let a = values(source.a, source.formats[0]);
    let b = values(source.b, source.formats[1]);
    let order = ascending::<K>();
    let any_special_column = b.special.iter().any(|s| *s);
    for (i, row) in rows.iter_mut().enumerate() {
        for ks in order.chunks_exact(group) {
            let mut sum = [0f64; N];
            let mut lost = [0f64; N];
            for &k in ks {
                let va = a.value[k][i];
                if exact {
                    for j in 0..N {
                        sum[j] += va * b.value[k][j];
                    }
                } else {
                    for j in 0..N {
                        let (next, error) = two_sum(sum[j], va * b.value[k][j]);
                        sum[j] = next;
                        lost[j] += error.abs();
                    }
                }
            }
            let mut scale = [1f64; N];
            if let Some([of_a, of_b]) = scales {
                let block = ks[0] / 32;
                for j in 0..N {
                    scale[j] = match (of_a[block][i], of_b[block][j]) {
                        (Some(ea), Some(eb)) => power_of_two(ea + eb),
                        _ => f64::NAN,
                    };
                }
            }
            let before = *row;
            for j in 0..N {
                let c = f64::from(f32::from_bits(row[j]));
                let result = add_round_to_odd(sum[j] * scale[j], c) as f32;
                row[j] = quiet(result.to_bits());
            }
            if any_special_column || a.special[i] || lost.iter().any(|l| *l != 0.0) {
                for j in 0..N {
                    let c = f32::from_bits(before[j]);
                    if a.special[i] || b.special[j] {
                        row[j] = with_special(source, i, j, ks, scale[j], c);
                    } else if lost[j] != 0.0 && scale[j].is_finite() && c.is_finite() {
                        let mut wide = WideSum::new();
                        for &k in ks {
                            wide.add(a.value[k][i] * b.value[k][j] * scale[j]);
                        }
                        wide.add(f64::from(c));
                        row[j] = (wide.round_to_odd() as f32).to_bits();
                    }
                }
            }
        }
    }
}

/// One group's result where a row or column holds an infinity or a NaN, in this group or in another.
fn with_special<const N: usize, const K: usize>(
    source: &Source<'_, N, K>,
    i: usize,
    j: usize,
    ks: &[usize],
    scale: f64,
    c: f32,
) -> u32 {
    let [a_format, b_format] = source.formats;
    let terms = || {
        ks.iter()
            .map(|&k| a_format.value(source.a[k][i]) * b_format.value(source.b[k][j]) * scale)
            .chain(std::iter::once(f64::from(c)))
    };
    if terms().all(f64::is_finite) {
        let mut wide = WideSum::new();
        terms().for_each(|term| wide.add(term));
        return (wide.round_to_odd() as f32).to_bits();
    }
    // No finite term overflows f64, so the plain sum has the right infinity, or is NaN.
    let sum: f64 = terms().filter(|term| !term.is_finite()).sum();
    if sum.is_nan() { CANONICAL_NAN } else { (sum as f32).to_bits() }
}

/// `rows += A·B` in 32-bit integers that wrap.
#[inline(always)]
pub(super) fn integer<const N: usize, const K: usize>(
    a: &Codes<N, K>,
    b: &Codes<N, K>,
    rows: &mut [[u32; N]; N],
) {
    let ks = ascending::<K>();
    for (i, row) in rows.iter_mut().enumerate() {
        for &k in &ks {
            let va = i16::from(a[k][i] as u8 as i8);
            for j in 0..N {
                // At most 2^14 in magnitude: exact in 16 bits.
                let product = va * i16::from(b[k][j] as u8 as i8);
                row[j] = row[j].wrapping_add(product as i32 as u32);
            }
        }
    }
}
