// x / (1 + exp(-x)). The exponent is held below 88, where exp would leave the range of f32; the
// quotient is under 1e-36 there already.
fn activation(x: f32) -> f32 {
    return x / (1.0 + exp(min(-x, 88.0)));
}
