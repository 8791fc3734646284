fn decode(bits: u32) -> f32 {
    return bitcast<f32>(bits);
}

fn encode(x: f32) -> u32 {
    return bitcast<u32>(x);
}
