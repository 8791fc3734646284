// f16 in integers, because the built-in conversions may round either way and flush subnormals.

fn decode(bits: u32) -> f32 {
    let sign = (bits & 0x8000u) << 16u;
    let exponent = (bits >> 10u) & 0x1fu;
    let fraction = bits & 0x3ffu;
    if (exponent == 0u) {
        // A subnormal is fraction · 2^-24, exact in f32.
        let magnitude = f32(fraction) * 5.9604644775390625e-8;
        return bitcast<f32>(bitcast<u32>(magnitude) | sign);
    }
    if (exponent == 31u) {
        return bitcast<f32>(sign | 0x7f800000u | (fraction << 13u));
    }
    return bitcast<f32>(sign | ((exponent + 112u) << 23u) | (fraction << 13u));
}

// Nearest, ties to even; overflow gives infinity, NaN stays a quiet NaN.
fn encode(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return sign | 0x7e00u;
    }
    // 65520 and above round to infinity.
    if (magnitude >= 0x477ff000u) {
        return sign | 0x7c00u;
    }
    if (magnitude >= 0x38800000u) {
        // Normal: rebias the exponent by 112, drop 13 bits.
        let rebiased = magnitude - (112u << 23u);
        return sign | ((rebiased + 0xfffu + ((rebiased >> 13u) & 1u)) >> 13u);
    }
    // Subnormal or zero: shift the significand into place and round what falls off.
    let exponent = magnitude >> 23u;
    if (exponent < 102u) {
        return sign;
    }
    let significand = (magnitude & 0x7fffffu) | 0x800000u;
    let shift = 126u - exponent;
    let kept = significand >> shift;
    let rest = significand & ((1u << shift) - 1u);
    let half = 1u << (shift - 1u);
    let up = select(0u, 1u, rest > half || (rest == half && (kept & 1u) == 1u));
    return sign | (kept + up);
}
