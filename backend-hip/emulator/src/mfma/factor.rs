//! Operands read out of registers into matrices, and elements turned into numbers the adders work on.

use super::formats::Format;
use super::layout::{FactorLayout, Place, acc_place};

/// A register of a wave: one dword a lane.
pub type Register = [u32; 64];

/// Exponent of a zero element: so low that no product with it is ever the largest of a group.
const ZERO_EXPONENT: i32 = -10_000;

/// The codes of a factor, `[k][row of A or column of B]`.
pub(super) type Codes<const N: usize, const K: usize> = [[u32; N]; K];

/// A factor as integers with exponents, `[k][row of A or column of B]`.
pub(super) struct Significands<const N: usize, const K: usize> {
    /// Signed significands with the format's fraction bits; zero for infinities and NaN, which `special` marks.
    pub(super) significand: [[i32; N]; K],
    /// The exponent of each significand's leading place, far below all others for zeros.
    pub(super) exponent: [[i32; N]; K],
    /// Whether a row or column holds an infinity or a NaN.
    pub(super) special: [bool; N],
}

/// A factor as doubles, `[k][row of A or column of B]`.
pub(super) struct Values<const N: usize, const K: usize> {
    /// Values; zero for infinities and NaN, which `special` marks.
    pub(super) value: [[f64; N]; K],
    /// Whether a row or column holds an infinity or a NaN.
    pub(super) special: [bool; N],
}

/// Reads a factor's codes out of its registers.
#[inline(always)]
pub(super) fn unpack<const N: usize, const K: usize>(
    registers: &[Register],
    bits: u32,
    layout: FactorLayout,
) -> Codes<N, K> {
    // Each width by itself, so that the compiler sees constant shifts and whole rows.
    match bits {
        4 => unpack_width::<4, N, K>(registers, layout),
        6 => unpack_width::<6, N, K>(registers, layout),
        8 => unpack_width::<8, N, K>(registers, layout),
        16 => unpack_width::<16, N, K>(registers, layout),
        _ => unpack_width::<32, N, K>(registers, layout),
    }
}

#[inline(always)]
fn unpack_width<const BITS: usize, const N: usize, const K: usize>(
    registers: &[Register],
    layout: FactorLayout,
) -> Codes<N, K> {
    let mask = u32::MAX >> (32 - BITS);
    let mut codes = [[0; N]; K];
    for group in 0..64 / N {
        // The N lanes of a group hold the same k of N consecutive rows or columns.
        let lanes = group * N..group * N + N;
        for element in 0..N * K / 64 {
            let (_, k) = layout.element(Place { lane: group * N, element });
            let (register, shift) = (element * BITS / 32, element * BITS % 32);
            let low = &registers[register][lanes.clone()];
            for (code, word) in codes[k].iter_mut().zip(low) {
                *code = word >> shift & mask;
            }
            if shift + BITS > 32 {
                let high = &registers[register + 1][lanes.clone()];
                for (code, word) in codes[k].iter_mut().zip(high) {
                    *code |= word << (32 - shift) & mask;
                }
            }
        }
    }
    codes
}

/// The fields of a format, as the lane loops use them.
struct Recipe {
    magnitude_bits: u32,
    fraction_bits: u32,
    bias: i32,
    /// Bits of the code that the multiplier does not use.
    dropped: u32,
    /// Magnitudes from here on are infinity or NaN.
    special_from: u32,
    /// Whether the code of negative zero is the NaN.
    negative_zero_is_nan: bool,
}

impl Recipe {
    fn of(format: Format) -> Recipe {
        let magnitude_bits = format.bits() - 1;
        let fraction_bits = format.fraction_bits();
        // Code 0 decodes with the exponent of the smallest normal number, 1 - bias.
        let bias = 1 - format.decode(0).exponent;
        let (special_from, negative_zero_is_nan) = match format {
            Format::E4m3Fnuz | Format::E5m2Fnuz => (u32::MAX, true),
            Format::E4m3Fn => (0x7f, false),
            Format::E5m2 | Format::F16 | Format::Bf16 | Format::F32 | Format::Xf32 => {
                let exponent_bits = magnitude_bits - fraction_bits;
                (((1 << exponent_bits) - 1) << fraction_bits, false)
            }
            Format::E2m3 | Format::E3m2 | Format::E2m1 | Format::I8 => (u32::MAX, false),
        };
        let dropped = if format == Format::Xf32 { 0x1fff } else { 0 };
        Recipe { magnitude_bits, fraction_bits, bias, dropped, special_from, negative_zero_is_nan }
    }

    /// The magnitude that enters the multiplier, zero for specials; the sign bit; and whether it is a special.
    #[inline(always)]
    fn split(&self, code: u32) -> (u32, u32, bool) {
        let magnitude = code & ((1 << self.magnitude_bits) - 1);
        let sign = code >> self.magnitude_bits & 1;
        let special = magnitude >= self.special_from
            || (self.negative_zero_is_nan && magnitude == 0 && sign == 1);
        (if special { 0 } else { magnitude & !self.dropped }, sign, special)
    }
}

/// Turns codes into integers; significands are shifted left by `shift` minus the bits that the format never uses (xf32's
/// lower 13).
#[inline(always)]
pub(super) fn significands<const N: usize, const K: usize>(
    codes: &Codes<N, K>,
    format: Format,
    shift: u32,
) -> Significands<N, K> {
    let r = Recipe::of(format);
    let unused = r.dropped.count_ones();
    let mut factor = Significands {
        significand: [[0; N]; K],
        exponent: [[ZERO_EXPONENT; N]; K],
        special: [false; N],
    };
    for k in 0..K {
        for o in 0..N {
            let (magnitude, sign, special) = r.split(codes[k][o]);
            let field = (magnitude >> r.fraction_bits) as i32;
            let fraction = magnitude & ((1 << r.fraction_bits) - 1);
            let leading = u32::from(field != 0) << r.fraction_bits;
            let significand = (((fraction | leading) >> unused) << shift) as i32;
            factor.significand[k][o] = if sign == 1 { -significand } else { significand };
            factor.exponent[k][o] =
                if magnitude == 0 { ZERO_EXPONENT } else { field.max(1) - r.bias };
            factor.special[o] |= special;
        }
    }
    factor
}

/// Bits after the point of the significands that [`significands`] gives with no shift.
pub(super) fn used_fraction_bits(format: Format) -> u32 {
    format.fraction_bits() - Recipe::of(format).dropped.count_ones()
}

/// Turns codes into doubles.
#[inline(always)]
pub(super) fn values<const N: usize, const K: usize>(
    codes: &Codes<N, K>,
    format: Format,
) -> Values<N, K> {
    let r = Recipe::of(format);
    let shift = 23 - r.fraction_bits;
    // Moving the fields to where f32 has them leaves the exponent off by the difference of the biases; the product is
    // exact, for subnormal codes too.
    let rebias = super::formats::power_of_two(127 - r.bias);
    let mut factor = Values { value: [[0.0; N]; K], special: [false; N] };
    for k in 0..K {
        for o in 0..N {
            let (magnitude, sign, special) = r.split(codes[k][o]);
            let misplaced = f32::from_bits(magnitude << shift | sign << 31);
            factor.value[k][o] = f64::from(misplaced) * rebias;
            factor.special[o] |= special;
        }
    }
    factor
}

/// Reads an accumulator into rows.
#[inline(always)]
pub(super) fn load_rows<const N: usize>(registers: &[Register]) -> [[u32; N]; N] {
    let mut rows = [[0; N]; N];
    for (row, values) in rows.iter_mut().enumerate() {
        let place = acc_place(N, row, 0);
        values.copy_from_slice(&registers[place.register][place.lane..place.lane + N]);
    }
    rows
}

/// Writes rows to an accumulator's registers.
#[inline(always)]
pub(super) fn store_rows<const N: usize>(rows: &[[u32; N]; N], registers: &mut [Register]) {
    for (row, values) in rows.iter().enumerate() {
        let place = acc_place(N, row, 0);
        registers[place.register][place.lane..place.lane + N].copy_from_slice(values);
    }
}
