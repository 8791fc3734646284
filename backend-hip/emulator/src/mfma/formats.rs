//! Element formats of matrix instructions and conversions: decoding and rounding by integer arithmetic.
//!
//! A code decodes to a sign, an exponent and an integer significand, the form that the accumulation models work on: the
//! exponent of a subnormal is that of the smallest normal number and its significand lacks the leading one, as it does
//! in the multiplier.
//!
//! The 8-bit formats follow "FP8 Formats for Deep Learning" as adopted by OCP OFP8 1.0 (gfx950), and their FNUZ variants
//! (gfx942: bias one higher, no infinity, no negative zero, 0x80 is the NaN). The 6- and 4-bit formats and the scale are
//! those of OCP Microscaling Formats 1.0. No published table of an fp6 matrix instruction's register layout was at hand:
//! the format is sure, its place in registers is not ([`Format::is_verified`]).

/// The type of a matrix element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// IEEE binary32.
    F32,
    /// IEEE binary32 of which the multiplier uses the upper 10 fraction bits (gfx942).
    Xf32,
    /// IEEE binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// 8-bit two's complement integer.
    I8,
    /// 4 exponent bits, 3 fraction bits, bias 8, FNUZ: largest 240.
    E4m3Fnuz,
    /// 5 exponent bits, 2 fraction bits, bias 16, FNUZ: largest 57344.
    E5m2Fnuz,
    /// 4 exponent bits, 3 fraction bits, bias 7, OCP: largest 448, no infinity.
    E4m3Fn,
    /// 5 exponent bits, 2 fraction bits, bias 15, OCP: largest 57344, infinities and NaN as IEEE has them.
    E5m2,
    /// 6 bits: 2 exponent, 3 fraction, bias 1: largest 7.5, neither infinity nor NaN.
    E2m3,
    /// 6 bits: 3 exponent, 2 fraction, bias 3: largest 28, neither infinity nor NaN.
    E3m2,
    /// 4 bits: 2 exponent, 1 fraction, bias 1: largest 6, neither infinity nor NaN.
    E2m1,
}

/// What a code stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Zero or any finite number.
    Finite,
    /// An infinity.
    Infinite,
    /// Not a number.
    Nan,
}

/// A decoded element: `(-1)^negative · significand · 2^(exponent − fraction bits)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decoded {
    /// Which kind of value it is; the other fields matter for finite ones and `negative` for infinities.
    pub class: Class,
    /// The sign bit.
    pub negative: bool,
    /// The unbiased exponent of the significand's leading place; that of the smallest normal number for subnormals and
    /// zero.
    pub exponent: i32,
    /// The significand with [`Format::fraction_bits`] bits after the point; at least 1.0 for normal numbers, 0 for zero.
    pub significand: u32,
}

/// Which codes a format sets aside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Specials {
    /// The largest exponent holds infinity and NaN.
    Ieee,
    /// Only negative zero, which is the NaN.
    Fnuz,
    /// Only the code of all ones, which is NaN.
    AllOnes,
    /// None.
    Nothing,
}

/// Field widths and bias of a floating point format.
#[derive(Clone, Copy)]
struct Fields {
    exponent_bits: u32,
    fraction_bits: u32,
    bias: i32,
    specials: Specials,
}

/// What a conversion does with a finite number beyond the largest of the target format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// Infinity where the format has one, otherwise NaN; formats with neither take the largest number. What gfx9
    /// conversions do unless MODE.FP16_OVFL is set.
    NonFinite,
    /// The largest number of that sign. What MODE.FP16_OVFL asks for, which nobody confirmed on hardware.
    Saturate,
}

impl Format {
    /// Every format, in declaration order.
    pub const ALL: [Format; 12] = [
        Format::F32,
        Format::Xf32,
        Format::F16,
        Format::Bf16,
        Format::I8,
        Format::E4m3Fnuz,
        Format::E5m2Fnuz,
        Format::E4m3Fn,
        Format::E5m2,
        Format::E2m3,
        Format::E3m2,
        Format::E2m1,
    ];

    /// Bits that one element takes in a register.
    pub const fn bits(self) -> u32 {
        match self {
            Format::F32 | Format::Xf32 => 32,
            Format::F16 | Format::Bf16 => 16,
            Format::I8 | Format::E4m3Fnuz | Format::E5m2Fnuz | Format::E4m3Fn | Format::E5m2 => 8,
            Format::E2m3 | Format::E3m2 => 6,
            Format::E2m1 => 4,
        }
    }

    /// Whether the format's register layout in matrix instructions comes from a published table or log; false for fp6,
    /// which is taken to be laid out as fp4 is.
    pub const fn is_verified(self) -> bool {
        !matches!(self, Format::E2m3 | Format::E3m2)
    }

    const fn fields(self) -> Fields {
        let (exponent_bits, fraction_bits, bias, specials) = match self {
            Format::F32 | Format::Xf32 => (8, 23, 127, Specials::Ieee),
            Format::F16 => (5, 10, 15, Specials::Ieee),
            Format::Bf16 => (8, 7, 127, Specials::Ieee),
            // An integer is a significand with no exponent field; `decode` treats it apart.
            Format::I8 => (0, 0, 0, Specials::Nothing),
            Format::E4m3Fnuz => (4, 3, 8, Specials::Fnuz),
            Format::E5m2Fnuz => (5, 2, 16, Specials::Fnuz),
            Format::E4m3Fn => (4, 3, 7, Specials::AllOnes),
            Format::E5m2 => (5, 2, 15, Specials::Ieee),
            Format::E2m3 => (2, 3, 1, Specials::Nothing),
            Format::E3m2 => (3, 2, 3, Specials::Nothing),
            Format::E2m1 => (2, 1, 1, Specials::Nothing),
        };
        Fields { exponent_bits, fraction_bits, bias, specials }
    }

    /// Bits of [`Decoded::significand`] after the point (23 for xf32 too, of which the lower 13 decode as zero).
    pub const fn fraction_bits(self) -> u32 {
        self.fields().fraction_bits
    }

    /// Decodes the low [`Format::bits`] bits of `code`.
    pub const fn decode(self, code: u32) -> Decoded {
        if matches!(self, Format::I8) {
            let value = code as u8 as i8;
            return Decoded {
                class: Class::Finite,
                negative: value < 0,
                exponent: 0,
                significand: value.unsigned_abs() as u32,
            };
        }
        let f = self.fields();
        let fraction_mask = (1u32 << f.fraction_bits) - 1;
        let exponent_mask = (1u32 << f.exponent_bits) - 1;
        let mut fraction = code & fraction_mask;
        let field = code >> f.fraction_bits & exponent_mask;
        let negative = code >> (f.fraction_bits + f.exponent_bits) & 1 == 1;
        let class = match f.specials {
            Specials::Ieee if field == exponent_mask => {
                if fraction == 0 {
                    Class::Infinite
                } else {
                    Class::Nan
                }
            }
            Specials::Fnuz if negative && field == 0 && fraction == 0 => Class::Nan,
            Specials::AllOnes if field == exponent_mask && fraction == fraction_mask => Class::Nan,
            _ => Class::Finite,
        };
        if matches!(self, Format::Xf32) {
            // Truncated after the class is known: a NaN whose payload lies in the low bits stays a NaN.
            fraction &= !0x1fff;
        }
        let normal = field != 0;
        Decoded {
            class,
            negative,
            exponent: (if normal { field as i32 } else { 1 }) - f.bias,
            significand: fraction | (normal as u32) << f.fraction_bits,
        }
    }

    /// The value of a code; exact, for every format fits in f64.
    pub fn value(self, code: u32) -> f64 {
        self.decode(code).value(self.fraction_bits())
    }

    /// The largest finite number.
    pub fn largest(self) -> f64 {
        if self == Format::I8 {
            return 127.0;
        }
        let f = self.fields();
        let top = (1i32 << f.exponent_bits) - 1;
        let (field, fraction) = match f.specials {
            Specials::Ieee => (top - 1, (1u32 << f.fraction_bits) - 1),
            Specials::AllOnes => (top, (1u32 << f.fraction_bits) - 2),
            Specials::Fnuz | Specials::Nothing => (top, (1u32 << f.fraction_bits) - 1),
        };
        f64::from(fraction | 1 << f.fraction_bits)
            * power_of_two(field - f.bias - f.fraction_bits as i32)
    }

    /// Rounds to nearest, ties to even, and encodes.
    ///
    /// An f32 operand widens to `f64` exactly, so this is the conversion from f32 too, and a division by a power of two
    /// before it loses nothing. Results below the smallest subnormal become zero, positive in the FNUZ formats. A NaN
    /// keeps its sign where the format has signed NaNs; in a format without NaN it becomes the largest number, an
    /// unconfirmed choice. Infinities go to infinity or NaN and are not clamped by [`Overflow::Saturate`], except in
    /// formats that have neither. For [`Format::I8`] the number is rounded to an integer and clamped, NaN giving zero.
    pub fn encode(self, value: f64, overflow: Overflow) -> u32 {
        if self == Format::I8 {
            return value.round_ties_even() as i8 as u8 as u32;
        }
        let f = self.fields();
        let sign = u32::from(value.is_sign_negative()) << (f.exponent_bits + f.fraction_bits);
        if value.is_nan() {
            return self.nan(sign);
        }
        if value.is_infinite() {
            return self.beyond(sign);
        }
        let bits = value.abs().to_bits();
        let field = (bits >> 52) as i32;
        if field == 0 {
            // Below every format's smallest subnormal by far.
            return self.signed_zero(sign);
        }
        let exponent = field - 1023;
        let significand = bits & ((1 << 52) - 1) | 1 << 52;
        let min_exponent = 1 - f.bias;
        // Fraction bits to drop: more for results below the smallest normal number.
        let drop = 52 - f.fraction_bits as i32 + (min_exponent - exponent).max(0);
        if drop > 54 {
            return self.signed_zero(sign);
        }
        let drop = drop as u32;
        let kept = significand >> drop;
        let rest = significand & ((1u64 << drop) - 1);
        let half = 1u64 << (drop - 1);
        let rounded = kept + u64::from(rest > half || (rest == half && kept & 1 == 1));
        // Adding the significand to the exponent field carries a rounding up into the next binade, and from the largest
        // subnormal to the smallest normal number.
        let base = (exponent.max(min_exponent) + f.bias - 1) as u64;
        let code = (base << f.fraction_bits) + rounded;
        if code > u64::from(self.largest_code()) {
            return match overflow {
                Overflow::NonFinite => self.beyond(sign),
                Overflow::Saturate => sign | self.largest_code(),
            };
        }
        if code == 0 { self.signed_zero(sign) } else { sign | code as u32 }
    }

    /// The code of the largest finite number.
    fn largest_code(self) -> u32 {
        let f = self.fields();
        let all = (1u32 << (f.exponent_bits + f.fraction_bits)) - 1;
        match f.specials {
            Specials::Ieee => all - (1 << f.fraction_bits),
            Specials::AllOnes => all - 1,
            Specials::Fnuz | Specials::Nothing => all,
        }
    }

    fn signed_zero(self, sign: u32) -> u32 {
        if self.fields().specials == Specials::Fnuz { 0 } else { sign }
    }

    fn nan(self, sign: u32) -> u32 {
        let f = self.fields();
        let all = (1u32 << (f.exponent_bits + f.fraction_bits)) - 1;
        match f.specials {
            // The quiet bit alone, as the canonical NaN has it.
            Specials::Ieee if f.fraction_bits > 2 => {
                sign | (all & !((1 << (f.fraction_bits - 1)) - 1))
            }
            Specials::Ieee | Specials::AllOnes | Specials::Nothing => sign | all,
            Specials::Fnuz => 1 << (f.exponent_bits + f.fraction_bits),
        }
    }

    /// What lies beyond the largest number: infinity, NaN or the largest number itself.
    fn beyond(self, sign: u32) -> u32 {
        match self.fields().specials {
            Specials::Ieee => sign | (self.largest_code() + 1),
            Specials::AllOnes | Specials::Fnuz => self.nan(sign),
            Specials::Nothing => sign | self.largest_code(),
        }
    }
}

impl Decoded {
    /// The value, given the format's [`Format::fraction_bits`].
    pub fn value(self, fraction_bits: u32) -> f64 {
        let magnitude = match self.class {
            Class::Nan => return f64::NAN,
            Class::Infinite => f64::INFINITY,
            Class::Finite => {
                f64::from(self.significand) * power_of_two(self.exponent - fraction_bits as i32)
            }
        };
        if self.negative { -magnitude } else { magnitude }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Format::F32 => "f32",
            Format::Xf32 => "xf32",
            Format::F16 => "f16",
            Format::Bf16 => "bf16",
            Format::I8 => "i8",
            Format::E4m3Fnuz => "e4m3fnuz",
            Format::E5m2Fnuz => "e5m2fnuz",
            Format::E4m3Fn => "e4m3fn",
            Format::E5m2 => "e5m2",
            Format::E2m3 => "e2m3",
            Format::E3m2 => "e3m2",
            Format::E2m1 => "e2m1",
        })
    }
}

/// The exponent that an e8m0 scale stands for (`2^(code − 127)`), or `None` for 0xff, its NaN.
pub const fn decode_e8m0(code: u8) -> Option<i32> {
    if code == 0xff { None } else { Some(code as i32 - 127) }
}

/// `2^exponent` for exponents of normal doubles, -1022 to 1023; outside it saturates to zero and infinity.
pub(crate) fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023).clamp(0, 2047) as u64) << 52)
}

#[cfg(test)]
#[path = "formats_tests.rs"]
mod tests;
