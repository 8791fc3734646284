//! Gates on the compiled preshuffle kernel: registers, scratch, and its hot loop's instructions.

use super::{configs, covering};
use lapidary_core::ElementType;
use lapidary_hip::HipError;
use lapidary_hip::Target;
use lapidary_hip::compile::{Cache, Compiler};
use lapidary_hip::inspect::{HotLoop, Resources, llvm_mca};
use lapidary_hip::preshuffle::{ACopy, PreshuffleConfig};
use rayon::prelude::*;

/// The compiler, or a line that says why the test is skipped.
fn compiler() -> Option<Compiler> {
    match Compiler::find_clang() {
        Ok(compiler) => Some(compiler.with_cache(Cache::none())),
        Err(error @ HipError::CompilerNotFound { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_worked_example_on_gfx942_beats_the_targets() {
    let Some(compiler) = compiler() else { return };
    let config = configs::worked_example(Target::Gfx942);
    assert_eq!((config.tile, config.lds_stage), ([64, 256, 128], 2));
    let request = config.request().expect("a valid configuration");
    let assembly = compiler.assembly(&request).expect("it compiles");
    let resources = Resources::of(&assembly).expect("metadata");
    // The code object that plan() launches and worked_example.rs runs.
    let object = compiler.compile(&request).expect("it compiles");
    let of_object = Resources::of_object(&object.bytes, "preshuffle").expect("metadata");
    assert_eq!(of_object, resources);
    assert_eq!(resources.scratch, 0);
    assert_eq!(resources.agprs, 0);
    assert!(resources.vgprs <= 168, "{resources:?}");
    assert_eq!(resources.waves_per_simd(), 3);
    assert_eq!(resources.lds, 16 * 1024);

    let hot = HotLoop::of(&assembly).expect("a hot loop");
    let mix = hot.mix;
    assert_eq!(mix.mfma, 128, "two strips");
    assert!(mix.lds_read <= 16, "{mix:?}");
    assert!(mix.lds_write <= 4, "{mix:?}");
    assert!(mix.load <= 20 && mix.load_lds == 0, "{mix:?}");
    assert_eq!(mix.barrier, 2);
    assert_eq!((mix.store, mix.scratch, mix.readfirstlane, mix.exec_mask), (0, 0, 0, 0));
    assert!(mix.mfma_share() >= 0.57, "{:.3} of {}", mix.mfma_share(), mix.total());

    let cycles = hot.mca_cycles(&llvm_mca(&compiler), Target::Gfx942).expect("llvm-mca");
    let utilisation = hot.mfma_cycles() / cycles;
    assert!(utilisation >= 0.92, "{utilisation:.3}: {cycles} cycles");
    println!(
        "{} VGPRs, {} instructions, MFMA share {:.1} %, static MFMA utilisation {:.1} %",
        resources.vgprs,
        mix.total(),
        100.0 * mix.mfma_share(),
        100.0 * utilisation
    );
}

#[test]
fn the_worked_example_on_gfx950_holds_two_waves() {
    let Some(compiler) = compiler() else { return };
    let request = configs::worked_example(Target::Gfx950).request().expect("a valid configuration");
    let assembly = compiler.assembly(&request).expect("it compiles");
    let resources = Resources::of(&assembly).expect("metadata");
    assert_eq!((resources.scratch, resources.agprs), (0, 0));
    assert_eq!(resources.waves_per_simd(), 2, "{resources:?}");
    let hot = HotLoop::of(&assembly).expect("a hot loop");
    assert_eq!((hot.mix.mfma, hot.mix.lds_write, hot.mix.barrier), (64, 0, 2));
    let cycles = hot.mca_cycles(&llvm_mca(&compiler), Target::Gfx950).expect("llvm-mca");
    let utilisation = hot.mfma_cycles() / cycles;
    assert!(utilisation >= 0.92, "{utilisation:.3}: {cycles} cycles");
    println!(
        "{} VGPRs, {} instructions, MFMA share {:.1} %, static MFMA utilisation {:.1} %",
        resources.vgprs,
        hot.mix.total(),
        100.0 * hot.mix.mfma_share(),
        100.0 * utilisation
    );
}

#[test]
fn the_schedule_is_worth_its_name() {
    let Some(compiler) = compiler() else { return };
    for target in [Target::Gfx942, Target::Gfx950] {
        let cycles = |schedule| {
            let config = PreshuffleConfig { schedule, ..configs::worked_example(target) };
            let request = config.request().expect("a valid configuration");
            let hot =
                HotLoop::of(&compiler.assembly(&request).expect("it compiles")).expect("a loop");
            hot.mca_cycles(&llvm_mca(&compiler), target).expect("llvm-mca")
        };
        let (with, without) = (cycles(true), cycles(false));
        assert!(with < without, "{target}: {with} against {without}");
    }
}

/// Every configuration compiles, and its hot loop has no loop over lanes and no spill.
fn gate(target: Target, configs: &[PreshuffleConfig]) {
    let Some(compiler) = compiler() else { return };
    configs.par_iter().for_each(|config| {
        let request = config.request().unwrap_or_else(|e| panic!("{config}: {e}"));
        let assembly = compiler.assembly(&request).unwrap_or_else(|e| panic!("{config}: {e}"));
        let mix = HotLoop::of(&assembly).unwrap_or_else(|e| panic!("{config}: {e}")).mix;
        assert_eq!(mix.readfirstlane, 0, "{target} {config}: a value of one lane in the hot loop");
        assert_eq!(mix.exec_mask, 0, "{target} {config}: a loop over lanes or a branch");
        assert_eq!(mix.scratch, 0, "{target} {config}: a spill in the hot loop");
        assert_eq!(mix.mfma, 2 * config.mfma_per_strip(), "{target} {config}");
        assert_eq!(mix.barrier, if config.lds_stage == 2 { 2 } else { 4 }, "{target} {config}");
        if config.copy == ACopy::Direct {
            assert!(mix.load_lds > 0 && mix.lds_write == 0, "{target} {config}: {mix:?}");
        } else {
            assert!(mix.load_lds == 0 && mix.lds_write > 0, "{target} {config}: {mix:?}");
        }
        let resources = Resources::of(&assembly).expect("metadata");
        assert_eq!(resources.lds as usize, config.lds_bytes(), "{target} {config}");
        assert_eq!(resources.scratch, 0, "{target} {config}");
    });
}

#[test]
fn operand_pairs_compile() {
    for target in [Target::Gfx942, Target::Gfx950] {
        gate(target, &configs::operand_pairs(target));
    }
}

#[test]
fn pairwise_choices_compile() {
    for target in [Target::Gfx942, Target::Gfx950] {
        let cases = covering::pairwise(target);
        // Every third: conformance runs them all.
        let configs: Vec<_> = cases.into_iter().step_by(3).map(|(config, _)| config).collect();
        gate(target, &configs);
    }
}

#[test]
fn tiles_compile() {
    for target in [Target::Gfx942, Target::Gfx950] {
        gate(target, &configs::tiles(target));
    }
}

#[test]
fn each_operand_type_uses_the_fastest_instruction() {
    let Some(compiler) = compiler() else { return };
    use ElementType as T;
    let cases = [
        (Target::Gfx942, T::F8E4M3Fnuz, "v_mfma_f32_16x16x32_fp8_fp8"),
        (Target::Gfx942, T::F8E5M2Fnuz, "v_mfma_f32_16x16x32_bf8_bf8"),
        (Target::Gfx942, T::I8, "v_mfma_i32_16x16x32_i8"),
        (Target::Gfx942, T::F16, "v_mfma_f32_16x16x16_f16"),
        (Target::Gfx942, T::BF16, "v_mfma_f32_16x16x16_bf16"),
        (Target::Gfx942, T::F32, "v_mfma_f32_16x16x4_f32"),
        (Target::Gfx950, T::F8E4M3, "v_mfma_f32_16x16x128_f8f6f4"),
        (Target::Gfx950, T::I8, "v_mfma_i32_16x16x64_i8"),
        (Target::Gfx950, T::F16, "v_mfma_f32_16x16x32_f16"),
        (Target::Gfx950, T::BF16, "v_mfma_f32_16x16x32_bf16"),
        (Target::Gfx950, T::F32, "v_mfma_f32_16x16x4_f32"),
        (Target::Gfx950, T::F4E2M1, "v_mfma_scale_f32_16x16x128_f8f6f4"),
    ];
    for (target, element, expected) in cases {
        let configs = configs::operand_pairs(target);
        let config =
            configs.iter().find(|c| c.a == element && c.b == element).expect("in the list");
        let assembly = compiler.assembly(&config.request().expect("valid")).expect("it compiles");
        let hot = HotLoop::of(&assembly).expect("a loop");
        for text in hot.instructions.iter().filter(|text| text.starts_with("v_mfma")) {
            assert_eq!(text.split_whitespace().next(), Some(expected), "{target} {element}");
        }
    }
}

#[test]
fn a_refused_kernel_comes_back_with_the_compilers_log() {
    let Some(compiler) = compiler() else { return };
    let config = PreshuffleConfig::new(Target::Gfx942, ElementType::F16, [64, 64, 64]);
    let mut request = config.request().expect("valid");
    for (name, value) in &mut request.defines {
        if name == "CFG_TILE_M" {
            *value = "40".into();
        }
    }
    let error = compiler.compile(&request).expect_err("40 is no multiple of 16");
    let HipError::CompileFailed { log, target, .. } = &error else { panic!("{error}") };
    assert_eq!(*target, Target::Gfx942);
    assert!(log.contains("TILE_M must be a multiple of 16"), "{log}");
}

#[test]
fn a_code_object_is_an_amdgpu_elf_and_the_cache_serves_it() {
    use lapidary_hip::compile::CacheOutcome;
    let Some(compiler) = compiler() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let compiler = compiler.with_cache(Cache::in_directory(dir.path()));
    for (target, machine) in [(Target::Gfx942, 0x4c), (Target::Gfx950, 0x4f)] {
        let request = configs::worked_example(target).request().expect("valid");
        let first = compiler.compile(&request).expect("it compiles");
        assert_eq!(first.cache, CacheOutcome::Stored);
        assert_eq!(&first.bytes[..4], b"\x7fELF");
        // e_flags names the architecture in its low byte.
        assert_eq!(first.bytes[48], machine);
        let second = compiler.compile(&request).expect("from the cache");
        assert_eq!(second.cache, CacheOutcome::Hit);
        assert_eq!((first.bytes, first.key), (second.bytes, second.key));
    }
}

/// LLVM 19 lacks a builtin for direct-to-LDS loads, and gfx950.
#[test]
fn the_oldest_clang_compiles_every_kernel_of_gfx942() {
    let Ok(compiler) = Compiler::at("clang-19") else {
        eprintln!("skipped: clang-19 is not installed");
        return;
    };
    let compiler = compiler.with_cache(Cache::none());
    configs::operand_pairs(Target::Gfx942).par_iter().for_each(|pair| {
        for copy in [ACopy::Synchronous, ACopy::Direct, ACopy::Guarded] {
            let config = PreshuffleConfig { copy, ..*pair };
            let assembly = compiler.assembly(&config.request().expect("valid"));
            let assembly = assembly.unwrap_or_else(|e| panic!("{config}: {e}"));
            let hot = HotLoop::of(&assembly).expect("a loop");
            assert_eq!(hot.mix.mfma, 2 * config.mfma_per_strip(), "{config}");
            assert_eq!(hot.mix.load_lds > 0, copy == ACopy::Direct, "{config}");
            assert_eq!(Resources::of(&assembly).expect("metadata").scratch, 0, "{config}");
        }
    });
    let request = configs::worked_example(Target::Gfx950).request().expect("valid");
    let error = compiler.assembly(&request).expect_err("it does not know gfx950");
    assert!(matches!(error, HipError::CompilerTooOld { version: 19, needed: 20, .. }));
}
