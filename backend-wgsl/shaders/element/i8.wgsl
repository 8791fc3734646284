fn decode(bits: u32) -> f32 {
    return f32(extractBits(bitcast<i32>(bits), 0u, 8u));
}

// Nearest, ties to even, saturating; NaN gives 0. round() rounds ties to even in WGSL.
fn encode(x: f32) -> u32 {
    let is_nan = (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
    return select(bitcast<u32>(i32(round(clamp(x, -128.0, 127.0)))), 0u, is_nan);
}
