fn decode(bits: u32) -> f32 {
    return bitcast<f32>(bits << 16u);
}

// Nearest, ties to even, in integers: add half of the dropped part, one less when the kept part is
// even. A carry into the exponent is right as it stands, up to infinity. NaN stays a quiet NaN.
fn encode(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (bits >> 16u) | 0x40u;
    }
    return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}
