//! The configurations that tests compile and run.

use lapidary_core::Activation;
use lapidary_hip::Target;
use lapidary_hip::preshuffle::{
    ACopy, EpilogueTraits, OperandType, OutputType, PreshuffleConfig, ProblemClass, choose,
};

/// The flavours of 8-bit floats a target reads: e4m3 and e5m2.
pub(crate) fn fp8(target: Target) -> (OperandType, OperandType) {
    match target {
        Target::Gfx950 => (OperandType::E4m3, OperandType::E5m2),
        _ => (OperandType::E4m3Fnuz, OperandType::E5m2Fnuz),
    }
}

/// M, N and K of the guide's example.
pub(crate) const WORKED: [usize; 3] = [5120, 5120, 8320];

/// The kernel that is chosen for the guide's example: fp8, bf16 output with scales and bias.
pub(crate) fn worked_example(target: Target) -> PreshuffleConfig {
    let element = fp8(target).0;
    let class = ProblemClass {
        m: WORKED[0],
        n: WORKED[1],
        k: WORKED[2],
        batch: 1,
        a: element,
        b: element,
        output: OutputType::BF16,
        block_scaled: false,
        epilogue: EpilogueTraits {
            row_scale: true,
            col_scale: true,
            bias: true,
            ..EpilogueTraits::default()
        },
        a_aligned: true,
        c_alignment: 8,
        compute_units: if target == Target::Gfx950 { 256 } else { 304 },
    };
    choose(target, &class).expect("a configuration").config
}

/// Every operand pair of a target, with a small tile.
pub(crate) fn operand_pairs(target: Target) -> Vec<PreshuffleConfig> {
    use OperandType as T;
    let (e4m3, e5m2) = fp8(target);
    let new = |element, tile| PreshuffleConfig::new(target, element, tile);
    let mut all = vec![
        new(T::F32, [32, 64, 32]),
        new(T::F16, [32, 64, 64]),
        new(T::BF16, [64, 64, 32]),
        new(T::I8, [64, 64, 64]),
        PreshuffleConfig { b: T::I4, ..new(T::I8, [32, 64, 128]) },
        new(e4m3, [32, 64, 128]),
        new(e5m2, [32, 64, 128]),
        PreshuffleConfig { b: e5m2, ..new(e4m3, [32, 64, 128]) },
        PreshuffleConfig { b: e4m3, ..new(e5m2, [32, 64, 128]) },
    ];
    if target == Target::Gfx950 {
        let mx = |a, b, tile| PreshuffleConfig { b, block_scaled: true, ..new(a, tile) };
        all.extend([
            mx(T::E2m1, T::E2m1, [32, 128, 256]),
            mx(T::E4m3, T::E4m3, [32, 64, 128]),
            mx(T::E5m2, T::E4m3, [32, 256, 128]),
            mx(T::E4m3, T::E2m1, [32, 64, 128]),
            mx(T::E2m1, T::E5m2, [64, 64, 128]),
        ]);
    }
    all
}

/// Every way of copying, staging, scheduling and storing, on one operand pair.
pub(crate) fn movements(target: Target) -> Vec<PreshuffleConfig> {
    let mut all = Vec::new();
    for lds_stage in [1, 2] {
        for copy in [ACopy::Synchronous, ACopy::Direct, ACopy::Guarded] {
            for schedule in [true, false] {
                for (c_shuffle, c_vector) in [(false, 4), (true, 8), (true, 1), (false, 1)] {
                    all.push(PreshuffleConfig {
                        lds_stage,
                        copy,
                        schedule,
                        c_shuffle,
                        c_vector,
                        ..PreshuffleConfig {
                            output: OutputType::BF16,
                            ..PreshuffleConfig::new(target, OperandType::BF16, [32, 128, 64])
                        }
                    });
                }
            }
        }
    }
    all
}

/// Every epilogue part with every output, on i8 operands (which have all four outputs).
pub(crate) fn epilogues(target: Target) -> Vec<PreshuffleConfig> {
    let mut all = Vec::new();
    for output in [OutputType::F32, OutputType::F16, OutputType::BF16, OutputType::I32] {
        let integer = output == OutputType::I32;
        for activation in Activation::ALL {
            if integer && !matches!(activation, Activation::None | Activation::Relu) {
                continue;
            }
            for (scales, rest) in [(false, false), (true, false), (false, true), (true, true)] {
                if integer && scales {
                    continue;
                }
                all.push(PreshuffleConfig {
                    output,
                    epilogue: EpilogueTraits {
                        row_scale: scales,
                        col_scale: scales,
                        alpha: rest,
                        beta: rest,
                        bias: rest,
                        activation,
                    },
                    ..PreshuffleConfig::new(target, OperandType::I8, [64, 64, 64])
                });
            }
        }
    }
    all
}

/// Tiles the chooser hands out, and split-K.
pub(crate) fn tiles(target: Target) -> Vec<PreshuffleConfig> {
    let (e4m3, _) = fp8(target);
    let new = |element, tile| PreshuffleConfig::new(target, element, tile);
    let mut all = vec![
        new(e4m3, [16, 64, 512]),
        new(e4m3, [16, 128, 256]),
        new(e4m3, [32, 64, 512]),
        new(e4m3, [64, 128, 128]),
        new(e4m3, [64, 256, 128]),
        new(OperandType::BF16, [16, 64, 256]),
        new(OperandType::BF16, [64, 256, 64]),
        new(OperandType::F32, [64, 128, 32]),
        PreshuffleConfig { split_k: true, ..new(e4m3, [64, 64, 128]) },
        PreshuffleConfig { waves_per_simd: Some(2), ..new(e4m3, [64, 256, 128]) },
    ];
    if target == Target::Gfx950 {
        all.push(PreshuffleConfig { copy: ACopy::Direct, ..new(e4m3, [128, 256, 128]) });
        all.push(new(OperandType::E2m1, [64, 256, 256]));
    }
    all
}
