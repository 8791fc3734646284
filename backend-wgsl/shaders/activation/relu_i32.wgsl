fn activation(x: i32) -> i32 {
    return max(x, 0);
}
