// A compare of bits: max(x, 0) would turn NaN into 0, and drivers make a max of a compare of floats.
// What goes from 0x80000001 to 0xff800000 is below zero; -0 and NaN of either sign lie outside.
fn activation(x: f32) -> f32 {
    return select(x, 0.0, bitcast<u32>(x) - 0x80000001u <= 0x7f7fffffu);
}
