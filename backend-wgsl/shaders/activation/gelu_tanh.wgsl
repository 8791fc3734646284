// x/2 · (1 + tanh(u)) = x / (1 + exp(-2u)), u = √(2/π)·(x + 0.044715·x³): one exp, and no
// cancellation where tanh is near -1. The exponent is held below 88 as in silu.
fn activation(x: f32) -> f32 {
    let u = 0.7978845608 * (x + 0.044715 * x * x * x);
    return x / (1.0 + exp(min(-2.0 * u, 88.0)));
}
