// x/2 · (1 + erf(x/√2)) through erfc(z) = t·(a1 + t·(a2 + …))·exp(-z²), t = 1/(1 + 0.3275911·z)
// for z ≥ 0 (Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7). Working with erfc keeps the
// left tail free of cancellation: for x < 0 the value is x/2·erfc(|x|/√2).
fn activation(x: f32) -> f32 {
    let z = abs(x) * 0.7071067812;
    let t = 1.0 / (1.0 + 0.3275911 * z);
    let series = t * (0.254829592
        + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    let erfc = series * exp(-min(z * z, 87.0));
    return 0.5 * x * select(erfc, 2.0 - erfc, x >= 0.0);
}
