fn decode(bits: u32) -> i32 {
    return bitcast<i32>(bits);
}

fn encode(x: i32) -> u32 {
    return bitcast<u32>(x);
}
