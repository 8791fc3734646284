// From a sum to the value of an element of C: scales, alpha, beta, bias, activation.
//
//   x = sum · row_scale[m] · col_scale[n] · alpha + beta · C[m][n] + bias[n]
//   C[m][n] = convert(activation(x))
#pragma once

// The factors of a lane's row in each row block, and of its four columns in each column block.
struct Factors {
    float row[HAS_ROW_SCALE ? M_REPEAT : 1];
    f32x4 col[HAS_COL_SCALE ? N_REPEAT : 1];
    Result bias[HAS_BIAS ? N_REPEAT : 1];
};

// `R` is Result; a template so that only the branch of this configuration's types is compiled.
template <typename R>
DEVICE R finish([[maybe_unused]] const Args& args, [[maybe_unused]] const Factors& f, Accumulator sum,
                [[maybe_unused]] int mi, [[maybe_unused]] int ni, [[maybe_unused]] R old) {
    R x = __builtin_convertvector(undo_shift(sum), R);
    if constexpr (OUT_TYPE == T_I32) {
        if constexpr (HAS_ALPHA) x *= (int)args.alpha;
        if constexpr (HAS_BETA) x += (int)args.beta * old;
        if constexpr (HAS_BIAS) x += f.bias[ni];
        if constexpr (ACTIVATION == ACT_RELU) {
            UNROLL for (int i = 0; i < 4; ++i) x[i] = x[i] < 0 ? 0 : x[i];
        }
    } else {
        if constexpr (HAS_ROW_SCALE) x *= f.row[mi];
        if constexpr (HAS_COL_SCALE) x *= f.col[ni];
        if constexpr (HAS_ALPHA) x *= __builtin_bit_cast(float, args.alpha);
        if constexpr (HAS_BETA) x += __builtin_bit_cast(float, args.beta) * old;
        if constexpr (HAS_BIAS) x += f.bias[ni];
        UNROLL for (int i = 0; i < 4; ++i) x[i] = activation<ACTIVATION>(x[i]);
    }
    return x;
}
