// Activation functions in f32. exp2 and the reciprocal are one hardware instruction each, within
// one unit in the last place; no device library is needed.
#pragma once

constexpr int ACT_NONE = 0, ACT_RELU = 1, ACT_SILU = 2, ACT_GELU_TANH = 3, ACT_GELU_ERF = 4;

// x / (1 + 2^t): the shape that silu and the tanh form of gelu share. 2^t overflows to infinity
// before x does, and x · (1/infinity) is a zero of x's sign.
DEVICE float logistic_times(float x, float t) {
    return x * __builtin_amdgcn_rcpf(1.0f + __builtin_amdgcn_exp2f(t));
}

template <int ACT>
DEVICE float activation(float x) {
    constexpr float LOG2_E = 1.44269504f;
    if constexpr (ACT == ACT_RELU) {
        // Compare and select: v_max_f32 and v_med3_f32 would turn a NaN into 0.
        return x < 0.0f ? 0.0f : x;
    } else if constexpr (ACT == ACT_SILU) {
        return logistic_times(x, -LOG2_E * x);
    } else if constexpr (ACT == ACT_GELU_TANH) {
        // x/2 · (1 + tanh u) = x / (1 + e^-2u), u = √(2/π)·(x + 0.044715·x³): one exponential, and
        // no cancellation where tanh is near -1.
        float u = 0.7978845608f * (x + 0.044715f * x * x * x);
        return logistic_times(x, -2.0f * LOG2_E * u);
    } else if constexpr (ACT == ACT_GELU_ERF) {
        // x/2 · (1 + erf(x/√2)) through erfc(z) = t·(a1 + t·(a2 + …))·e^(-z²), t = 1/(1 + p·z),
        // for z ≥ 0 (Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7). erfc keeps the
        // left tail free of cancellation: for x < 0 the value is x/2 · erfc(|x|/√2).
        float z = __builtin_fabsf(x) * 0.7071067812f;
        float t = __builtin_amdgcn_rcpf(1.0f + 0.3275911f * z);
        float series =
            t * (0.254829592f +
                 t * (-0.284496736f +
                      t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
        float erfc = series * __builtin_amdgcn_exp2f(-LOG2_E * z * z);
        return 0.5f * x * (x < 0.0f ? erfc : 2.0f - erfc);
    } else {
        return x;
    }
}
