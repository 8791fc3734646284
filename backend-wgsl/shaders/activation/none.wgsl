fn activation(x: Scalar) -> Scalar {
    return x;
}
