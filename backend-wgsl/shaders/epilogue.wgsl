// What happens to a sum before it is stored: scales, alpha, beta, bias, activation.
//
// HAS_BETA and HAS_BIAS are constants of the pipeline, so a C that beta = 0 excludes is never read.

fn finish(acc: Acc, old: Scalar, batch: u32, row: u32, col: u32) -> Scalar {
    var x = p.alpha * scaled(acc, batch, row, col);
    if (HAS_BETA) {
        x += p.beta * old;
    }
    if (HAS_BIAS) {
        x += bias[p.bias_base + col];
    }
    return activation(x);
}
