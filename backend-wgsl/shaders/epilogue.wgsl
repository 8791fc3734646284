// What happens to a sum before it is stored: alpha, beta, bias, activation.
//
// HAS_BETA and HAS_BIAS are constants of the pipeline, so a C that beta = 0 excludes is never read.

fn finish(acc: Acc, old: Scalar, col: u32) -> Scalar {
    var x = p.alpha * Scalar(acc);
    if (HAS_BETA) {
        x += p.beta * old;
    }
    if (HAS_BIAS) {
        x += bias[p.bias_base + col];
    }
    return activation(x);
}
