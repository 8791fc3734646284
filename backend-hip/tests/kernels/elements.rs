//! Elements of every type as bytes, and numbers to fill them with.

use lapidary_core::ElementType;

/// Numbers of a fixed sequence.
pub(crate) struct Sequence(u64);

impl Sequence {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }

    /// An integer from −3 to 3.
    pub(crate) fn small(&mut self) -> i32 {
        self.below(7) as i32 - 3
    }
}

/// Puts an integer from −3 to 3 into `bytes` as element `index`.
pub(crate) fn put(element: ElementType, bytes: &mut [u8], index: usize, value: i32) {
    use ElementType as T;
    let magnitude = |codes: [u8; 4], sign: u8| {
        codes[value.unsigned_abs() as usize] | if value < 0 { sign } else { 0 }
    };
    match element {
        T::F32 => bytes[index * 4..][..4].copy_from_slice(&(value as f32).to_le_bytes()),
        T::F16 => bytes[index * 2..][..2]
            .copy_from_slice(&half::f16::from_f32(value as f32).to_le_bytes()),
        T::BF16 => bytes[index * 2..][..2]
            .copy_from_slice(&half::bf16::from_f32(value as f32).to_le_bytes()),
        T::I8 => bytes[index] = value as i8 as u8,
        T::F8E4M3 => bytes[index] = magnitude([0, 0x38, 0x40, 0x44], 0x80),
        T::F8E4M3Fnuz => bytes[index] = magnitude([0, 0x40, 0x48, 0x4c], 0x80),
        T::F8E5M2 => bytes[index] = magnitude([0, 0x3c, 0x40, 0x42], 0x80),
        T::F8E5M2Fnuz => bytes[index] = magnitude([0, 0x40, 0x44, 0x46], 0x80),
        T::I4 => put_nibble(bytes, index, value as u8 & 0xf),
        T::F4E2M1 => put_nibble(bytes, index, magnitude([0, 2, 4, 5], 8)),
        _ => panic!("{element} has no test values"),
    }
}

/// A random finite element: its code, and its value.
pub(crate) fn random_element(element: ElementType, numbers: &mut Sequence) -> (u32, f64) {
    use ElementType as T;
    // A float in [-1, 1) with 24 random bits.
    let unit = |numbers: &mut Sequence| numbers.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0;
    match element {
        T::F32 => {
            let value = unit(numbers);
            (value.to_bits(), f64::from(value))
        }
        T::F16 => {
            let value = half::f16::from_f32(unit(numbers));
            (u32::from(value.to_bits()), value.to_f64())
        }
        T::BF16 => {
            let value = half::bf16::from_f32(unit(numbers));
            (u32::from(value.to_bits()), value.to_f64())
        }
        T::I8 => {
            let code = numbers.below(256) as u8;
            (u32::from(code), f64::from(code as i8))
        }
        T::I4 => {
            let code = numbers.below(16) as u8;
            (u32::from(code), f64::from((code << 4) as i8 >> 4))
        }
        _ => loop {
            let code = numbers.below(1 << element.bits()) as u32;
            if let Some(value) = small_float(element, code) {
                return (code, value);
            }
        },
    }
}

/// The value of an 8- or 4-bit float, `None` where it is not finite.
fn small_float(element: ElementType, code: u32) -> Option<f64> {
    use ElementType as T;
    let (exponent_bits, bias) = match element {
        T::F8E4M3 => (4, 7),
        T::F8E4M3Fnuz => (4, 8),
        T::F8E5M2 => (5, 15),
        T::F8E5M2Fnuz => (5, 16),
        _ => (2, 1),
    };
    let fraction_bits = element.bits() as i32 - 1 - exponent_bits;
    let magnitude = code & ((1 << (element.bits() - 1)) - 1);
    let negative = code != magnitude;
    let finite = match element {
        T::F8E4M3 => magnitude != 0x7f,
        T::F8E5M2 => magnitude < 0x7c,
        T::F8E4M3Fnuz | T::F8E5M2Fnuz => code != 0x80,
        _ => true,
    };
    let fraction =
        f64::from(magnitude & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
    let exponent = (magnitude >> fraction_bits) as i32;
    let value = if exponent == 0 {
        fraction * 2f64.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2f64.powi(exponent - bias)
    };
    finite.then_some(if negative { -value } else { value })
}

/// Puts an element's code into `bytes` as element `index`.
pub(crate) fn put_code(element: ElementType, bytes: &mut [u8], index: usize, code: u32) {
    match element.bits() {
        4 => put_nibble(bytes, index, code as u8),
        bits => {
            bytes[index * bits / 8..][..bits / 8].copy_from_slice(&code.to_le_bytes()[..bits / 8]);
        }
    }
}

fn put_nibble(bytes: &mut [u8], index: usize, nibble: u8) {
    let shift = index % 2 * 4;
    bytes[index / 2] = bytes[index / 2] & !(0xf << shift) | nibble << shift;
}

/// Writes an integer as an element of C.
pub(crate) fn encode(output: ElementType, to: &mut [u8], value: i32) {
    match output {
        ElementType::F32 => to[..4].copy_from_slice(&(value as f32).to_le_bytes()),
        ElementType::I32 => to[..4].copy_from_slice(&value.to_le_bytes()),
        ElementType::F16 => {
            to[..2].copy_from_slice(&half::f16::from_f32(value as f32).to_le_bytes());
        }
        ElementType::BF16 => {
            to[..2].copy_from_slice(&half::bf16::from_f32(value as f32).to_le_bytes());
        }
        _ => panic!("no such output"),
    }
}

/// Reads an element of C.
pub(crate) fn decode(output: ElementType, from: &[u8]) -> f64 {
    match output {
        ElementType::F32 => {
            f64::from(f32::from_le_bytes(from[..4].try_into().expect("four bytes")))
        }
        ElementType::I32 => {
            f64::from(i32::from_le_bytes(from[..4].try_into().expect("four bytes")))
        }
        ElementType::F16 => half::f16::from_le_bytes([from[0], from[1]]).to_f64(),
        ElementType::BF16 => half::bf16::from_le_bytes([from[0], from[1]]).to_f64(),
        _ => panic!("no such output"),
    }
}

/// `value` rounded to the output type once. Expected values are exact in f32 here.
pub(crate) fn rounded(output: ElementType, value: f64) -> f64 {
    match output {
        ElementType::F16 => half::f16::from_f32(value as f32).to_f64(),
        ElementType::BF16 => half::bf16::from_f32(value as f32).to_f64(),
        _ => f64::from(value as f32),
    }
}
