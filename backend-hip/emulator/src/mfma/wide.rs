//! An exact sum of doubles of limited range, in fixed point.

/// Limbs of 64 bits.
const LIMBS: usize = 11;

/// Weight of the least significant bit, as a power of two: below any product of two elements (bf16: 2^-266; fp8 under both
/// scales: 2^-286) and any f32 (2^-149).
const LOWEST: i32 = -340;

/// A two's complement accumulator of 704 bits, from 2^-340 to 2^363: above any sum of scaled products (2^292).
pub(super) struct WideSum {
    limbs: [u64; LIMBS],
}

impl WideSum {
    /// Zero.
    pub(super) fn new() -> WideSum {
        WideSum { limbs: [0; LIMBS] }
    }

    /// Adds a finite term whose bits all lie in the accumulator's range.
    pub(super) fn add(&mut self, term: f64) {
        let bits = term.to_bits();
        let field = (bits >> 52 & 0x7ff) as i32;
        if field == 0 {
            // Zero: terms in range are never subnormal doubles.
            return;
        }
        let significand = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
        let position = (field - 1075 - LOWEST).max(0) as usize;
        let (limb, shift) = (position / 64, position % 64);
        let shifted = significand << shift;
        let mut parts = [0u64; LIMBS];
        for (offset, part) in [shifted as u64, (shifted >> 64) as u64].into_iter().enumerate() {
            if let Some(place) = parts.get_mut(limb + offset) {
                *place = part;
            }
        }
        if term < 0.0 {
            negate(&mut parts);
        }
        let mut carry = false;
        for (limb, part) in self.limbs.iter_mut().zip(parts) {
            let (sum, over) = limb.overflowing_add(part);
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            *limb = sum;
            carry = over || over_again;
        }
    }

    /// The sum rounded to odd: truncated to 53 bits, the last one set if anything was cut off.
    pub(super) fn round_to_odd(mut self) -> f64 {
        let negative = self.limbs[LIMBS - 1] >> 63 == 1;
        if negative {
            negate(&mut self.limbs);
        }
        let Some(top) = self.limbs.iter().rposition(|limb| *limb != 0) else {
            return 0.0;
        };
        let length = top * 64 + 64 - self.limbs[top].leading_zeros() as usize;
        let cut = length.saturating_sub(53);
        let mut significand = 0u64;
        for bit in (cut..length).rev() {
            significand = significand << 1 | (self.limbs[bit / 64] >> (bit % 64) & 1);
        }
        let sticky = (0..cut).any(|bit| self.limbs[bit / 64] >> (bit % 64) & 1 == 1);
        significand |= u64::from(sticky);
        let magnitude = significand as f64 * super::formats::power_of_two(cut as i32 + LOWEST);
        if negative { -magnitude } else { magnitude }
    }
}

/// Two's complement negation.
fn negate(limbs: &mut [u64; LIMBS]) {
    let mut carry = true;
    for limb in limbs {
        let (value, over) = (!*limb).overflowing_add(u64::from(carry));
        *limb = value;
        carry = over;
    }
}
