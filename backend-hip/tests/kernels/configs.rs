//! The configurations that tests compile and run.

use lapidary_core::ElementType;
use lapidary_hip::Target;
use lapidary_hip::preshuffle::{ACopy, EpilogueTraits, PreshuffleConfig, ProblemClass, choose};

/// The flavours of 8-bit floats a target reads: e4m3 and e5m2.
pub(crate) fn fp8(target: Target) -> (ElementType, ElementType) {
    match target {
        Target::Gfx950 => (ElementType::F8E4M3, ElementType::F8E5M2),
        _ => (ElementType::F8E4M3Fnuz, ElementType::F8E5M2Fnuz),
    }
}

/// M, N and K of the worked example.
pub(crate) const WORKED: [usize; 3] = [5120, 5120, 8320];

/// The kernel that is chosen for the worked example: fp8, bf16 output with scales and bias.
pub(crate) fn worked_example(target: Target) -> PreshuffleConfig {
    let element = fp8(target).0;
    let class = ProblemClass {
        m: WORKED[0],
        n: WORKED[1],
        k: WORKED[2],
        batch: 1,
        a: element,
        b: element,
        output: ElementType::BF16,
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
    use ElementType as T;
    let (e4m3, e5m2) = fp8(target);
    let new = |element, tile| PreshuffleConfig::new(target, element, tile);
    let mut all = vec![
        new(T::F32, [32, 64, 32]),
        new(T::F16, [32, 64, 64]),
        new(T::BF16, [64, 64, 32]),
        new(T::I8, [64, 64, 64]),
        PreshuffleConfig { output: ElementType::F32, ..new(T::I8, [64, 64, 64]) },
        PreshuffleConfig { b: T::I4, ..new(T::I8, [32, 64, 128]) },
        PreshuffleConfig { b: T::I4, output: ElementType::F32, ..new(T::I8, [32, 64, 128]) },
        new(e4m3, [32, 64, 128]),
        new(e5m2, [32, 64, 128]),
        PreshuffleConfig { b: e5m2, ..new(e4m3, [32, 64, 128]) },
        PreshuffleConfig { b: e4m3, ..new(e5m2, [32, 64, 128]) },
    ];
    if target == Target::Gfx950 {
        let mx = |a, b, tile| PreshuffleConfig { b, block_scaled: true, ..new(a, tile) };
        all.extend([
            mx(T::F4E2M1, T::F4E2M1, [32, 128, 256]),
            mx(T::F8E4M3, T::F8E4M3, [32, 64, 128]),
            mx(T::F8E5M2, T::F8E4M3, [32, 256, 128]),
            mx(T::F8E4M3, T::F4E2M1, [32, 64, 128]),
            mx(T::F4E2M1, T::F8E5M2, [64, 64, 128]),
        ]);
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
        new(ElementType::BF16, [16, 64, 256]),
        new(ElementType::BF16, [64, 256, 64]),
        new(ElementType::F32, [64, 128, 32]),
        PreshuffleConfig { split_k: true, ..new(e4m3, [64, 64, 128]) },
        PreshuffleConfig { waves_per_simd: Some(2), ..new(e4m3, [64, 256, 128]) },
    ];
    if target == Target::Gfx950 {
        all.push(PreshuffleConfig { copy: ACopy::Direct, ..new(e4m3, [128, 256, 128]) });
        all.push(new(ElementType::F4E2M1, [64, 256, 256]));
    }
    all
}
