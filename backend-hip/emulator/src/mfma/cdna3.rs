//! CDNA3's truncating adder for 16-bit, xf32 and 8-bit floating point products.
//!
//! The rules were recovered from hardware by the authors of "MMA-Sim" (arXiv 2511.10909). One step takes a group of
//! products and C, and its rounded result is the C of the next step:
//!
//! 1. Each product is exact. Its exponent is the sum of its factors' exponents (1 ≤ |significand product| < 4 for normal
//!    factors). A product of magnitude 2^128 or more is an infinity.
//! 2. Each product is truncated toward zero to 24 bits after the point of the group's largest exponent, and the terms
//!    are added exactly. In the 8-bit forms the even and the odd products make two such sums; both are floored to 24
//!    bits at the larger of their exponents and added.
//! 3. With E the larger of that exponent and C's, the sum is floored to 31 bits after the point of E, C to 24, and
//!    the two are added. In the 8-bit forms C counts as zero if its exponent is below E - 25.
//! 4. The result is rounded to f32, to nearest, ties to even. Nothing is flushed.
//!
//! Floors are toward minus infinity, so results are not symmetric in sign. Three points are not documented and are
//! chosen here: a zero product takes no part in the largest exponent, a zero C has the exponent -126, and NaN results are
//! `0x7fc00000`.
//!
//! Significand products have at most 22 bits and fit an `i32` with 24 bits after the point, so one row of D is a vector of
//! lanes with a shift each; `i64` holds steps 3 and 4.

use super::factor::{Codes, Significands, significands, used_fraction_bits};
use super::formats::{Class, Format, power_of_two};

/// The NaN that matrix instructions produce here.
pub(super) const CANONICAL_NAN: u32 = 0x7fc0_0000;

/// The codes of both factors, to look at again where a row or column holds an infinity or a NaN.
pub(super) struct Source<'a, const N: usize, const K: usize> {
    pub(super) a: &'a Codes<N, K>,
    pub(super) b: &'a Codes<N, K>,
    pub(super) formats: [Format; 2],
}

/// A row of sums at 24 bits after the point of `exponent`.
struct Sums<const N: usize> {
    sum: [i32; N],
    exponent: [i32; N],
}

/// The products of one step and how they are added.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// Products in a step.
    pub(super) group: usize,
    /// Whether even and odd products are summed apart, and far smaller C are dropped (8-bit forms).
    pub(super) split: bool,
}

impl Step {
    /// The order of products along K: within each group, the even ones before the odd ones if they are summed apart.
    ///
    /// The loops read it from memory: with a counted loop the compiler vectorises along K, by gathers, instead of along a
    /// row.
    fn order<const K: usize>(self) -> [usize; K] {
        std::array::from_fn(|at| {
            let (start, within) = (at / self.group * self.group, at % self.group);
            let half = self.group / 2;
            start + if self.split { within % half * 2 + within / half } else { within }
        })
    }
}

/// `rows += A·B`.
#[inline(always)]
pub(super) fn accumulate<const N: usize, const K: usize>(
    source: &Source<'_, N, K>,
    step: Step,
    rows: &mut [[u32; N]; N],
) {
    let order: [usize; K] = step.order();
    let [a_format, b_format] = source.formats;
    let fraction_bits = used_fraction_bits(a_format) + used_fraction_bits(b_format);
    let a = significands(source.a, a_format, 24 - fraction_bits);
    let b = significands(source.b, b_format, 0);
    let any_special_column = b.special.iter().any(|s| *s);
    for (i, row) in rows.iter_mut().enumerate() {
        let look = any_special_column || a.special[i];
        for group in order.chunks_exact(step.group) {
            let before = *row;
            let sums = if step.split {
                let (even, odd) = group.split_at(step.group / 2);
                add_sums(&sum_products(&a, &b, i, even), &sum_products(&a, &b, i, odd))
            } else {
                sum_products(&a, &b, i, group)
            };
            add_c(&sums, step.split, row);
            // Significand products reach 2, so products can overflow from an exponent of 127 on.
            let largest = sums.exponent.iter().copied().fold(i32::MIN, i32::max);
            if look || largest >= 127 {
                for j in 0..N {
                    if (a.special[i] || b.special[j] || sums.exponent[j] >= 127)
                        && let Some(result) = non_finite(source, i, j, group, before[j])
                    {
                        row[j] = result;
                    }
                }
            }
        }
    }
}

/// Step 2 for one row of A and every column, of the products at `ks`.
#[inline(always)]
fn sum_products<const N: usize, const K: usize>(
    a: &Significands<N, K>,
    b: &Significands<N, K>,
    i: usize,
    ks: &[usize],
) -> Sums<N> {
    let mut exponent = [i32::MIN; N];
    for &k in ks {
        let ea = a.exponent[k][i];
        for j in 0..N {
            exponent[j] = exponent[j].max(ea + b.exponent[k][j]);
        }
    }
    let mut sum = [0i32; N];
    for &k in ks {
        let (sa, ea) = (a.significand[k][i], a.exponent[k][i]);
        for j in 0..N {
            let product = sa * b.significand[k][j];
            // Below 2^26, so a shift by 31 leaves nothing.
            let shift = (exponent[j] - ea - b.exponent[k][j]).min(31);
            let magnitude = (product.unsigned_abs() >> shift) as i32;
            let sign = product >> 31;
            sum[j] += (magnitude ^ sign) - sign;
        }
    }
    Sums { sum, exponent }
}

/// The end of step 2 for the 8-bit forms.
#[inline(always)]
fn add_sums<const N: usize>(even: &Sums<N>, odd: &Sums<N>) -> Sums<N> {
    let mut total = Sums { sum: [0; N], exponent: [0; N] };
    for j in 0..N {
        let exponent = even.exponent[j].max(odd.exponent[j]);
        let floor = |sums: &Sums<N>| sums.sum[j] >> (exponent - sums.exponent[j]).min(31);
        total.sum[j] = floor(even) + floor(odd);
        total.exponent[j] = exponent;
    }
    total
}

/// Steps 3 and 4 for finite operands; an infinite or NaN C stays what it is.
#[inline(always)]
fn add_c<const N: usize>(sums: &Sums<N>, drop_small_c: bool, row: &mut [u32; N]) {
    for j in 0..N {
        let c = row[j];
        let field = (c >> 23 & 0xff) as i32;
        let c_exponent = field.max(1) - 127;
        let magnitude = (c & 0x7f_ffff | u32::from(field != 0) << 23) as i32;
        let significand = if c >> 31 == 1 { -magnitude } else { magnitude };
        let sum_exponent = sums.exponent[j];
        let e = sum_exponent.max(c_exponent);
        let sum = (i64::from(sums.sum[j]) << 7) >> (e - sum_exponent).min(63);
        // 23 bits after the point become 24 by one shift left, and 31 after the floor.
        let c_floor = (i64::from(significand) << 1) >> (e - c_exponent).min(63);
        let dropped = drop_small_c && c_exponent < e - 25;
        let total = sum + if dropped { 0 } else { c_floor << 7 };
        // At most 40 significant bits and an exponent far from f64's limits: exact until the conversion rounds.
        let result = (total as f64 * power_of_two(e - 31)) as f32;
        row[j] = if field == 0xff { quiet(c) } else { result.to_bits() };
    }
}

/// An infinity as it is, any NaN as the canonical one.
#[inline(always)]
pub(super) fn quiet(bits: u32) -> u32 {
    if bits & 0x7fff_ffff > 0x7f80_0000 { CANONICAL_NAN } else { bits }
}

/// The result of a step in which something is infinite or NaN, `None` if nothing is.
fn non_finite<const N: usize, const K: usize>(
    source: &Source<'_, N, K>,
    i: usize,
    j: usize,
    ks: &[usize],
    c: u32,
) -> Option<u32> {
    let [a_format, b_format] = source.formats;
    let (mut positive, mut negative) = (false, false);
    for &k in ks {
        let a = a_format.decode(source.a[k][i]);
        let b = b_format.decode(source.b[k][j]);
        let infinite = match (a.class, b.class) {
            (Class::Nan, _) | (_, Class::Nan) => return Some(CANONICAL_NAN),
            (Class::Infinite, Class::Finite) if b.significand == 0 => return Some(CANONICAL_NAN),
            (Class::Finite, Class::Infinite) if a.significand == 0 => return Some(CANONICAL_NAN),
            (Class::Infinite, _) | (_, Class::Infinite) => true,
            (Class::Finite, Class::Finite) => {
                let product = a.value(a_format.fraction_bits()) * b.value(b_format.fraction_bits());
                product.abs() >= power_of_two(128)
            }
        };
        positive |= infinite && a.negative == b.negative;
        negative |= infinite && a.negative != b.negative;
    }
    if c & 0x7fff_ffff == 0x7f80_0000 {
        positive |= c >> 31 == 0;
        negative |= c >> 31 == 1;
    }
    let c_is_nan = c & 0x7fff_ffff > 0x7f80_0000;
    match (positive, negative) {
        _ if c_is_nan => Some(CANONICAL_NAN),
        (true, true) => Some(CANONICAL_NAN),
        (true, false) => Some(f32::INFINITY.to_bits()),
        (false, true) => Some(f32::NEG_INFINITY.to_bits()),
        (false, false) => None,
    }
}
