// Compare and select: max(x, 0) would turn NaN into 0.
fn activation(x: Scalar) -> Scalar {
    return select(x, Scalar(0), x < Scalar(0));
}
