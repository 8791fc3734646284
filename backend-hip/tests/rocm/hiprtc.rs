//! The compiler that ROCm brings: the installed one up to its refusal, and the way through it against a
//! stand-in that hands its input to clang.

use lapidary_core::ElementType;
use lapidary_hip::compile::{Cache, Compiler, Request};
use lapidary_hip::passes::{PackAConfig, StoreConfig, Sums, pack_scales_request};
use lapidary_hip::preshuffle::{EpilogueTraits, PreshuffleConfig, pack_request};
use lapidary_hip::sources;
use lapidary_hip::steps::{Arithmetic, LaunchHint, Step, StepConfig, TileMovement};
use lapidary_hip::{HipError, LibraryError, Target};

use crate::mock::{Kind, Mock};

/// The clang that the stand-in hands its input to, or a line that says why the test is skipped.
fn clang() -> Option<Compiler> {
    match Compiler::find_clang() {
        Ok(compiler) => Some(compiler.with_cache(Cache::none())),
        Err(error @ HipError::CompilerNotFound { .. }) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn through(clang: &Compiler) -> (Mock, Compiler) {
    let mock = Mock::load(Kind::Hiprtc);
    mock.set("mock_clang", &clang.path().display().to_string());
    let compiler =
        Compiler::hiprtc_at(mock.path()).expect("the stand-in").with_cache(Cache::none());
    (mock, compiler)
}

fn generic(target: Target) -> Request {
    let step = Step::Generic(TileMovement::ALL[0], Arithmetic::ALL[0]);
    StepConfig::new(target, step).request().expect("every target has the scalar policy")
}

#[test]
fn hiprtc_gets_the_sources_and_options_that_clang_gets() {
    let Some(clang) = clang() else { return };
    let (mock, hiprtc) = through(&clang);
    assert_eq!(hiprtc.major(), clang.major());
    let steps = [Step::Naive, Step::Vectorized];
    let requests = steps
        .map(|step| StepConfig::new(Target::Gfx950, step).request().expect("valid"))
        .into_iter()
        .chain(Target::ALL.map(generic));
    for request in requests {
        let name = format!("{} for {}", request.kernel, request.target);
        let ours = hiprtc.compile(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
        let theirs = clang.compile(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(ours.bytes == theirs.bytes, "{name}: the code objects differ");
        assert_ne!(ours.key, theirs.key, "{name}: but not in the cache");
    }
    let calls = mock.calls();
    let count = |name: &str| calls.iter().filter(|call| call.starts_with(name)).count();
    assert_eq!(count("hiprtcDestroyProgram"), count("hiprtcCreateProgram"), "none is left");
}

/// The declarations that hiprtc puts before every program, from the library that holds them.
fn builtin_header() -> Result<Vec<u8>, String> {
    let library = ["libhiprtc-builtins.so", "libhiprtc-builtins.so.5"]
        .into_iter()
        // SAFETY: the library holds data only.
        .find_map(|name| unsafe { libloading::Library::new(name) }.ok())
        .ok_or("libhiprtc-builtins is not installed")?;
    // SAFETY: the symbols are a text, and its length as an unsigned integer.
    unsafe {
        let text = library.get::<*const u8>(b"__hipRTC_header").map_err(|e| e.to_string())?;
        let size = library.get::<*const u32>(b"__hipRTC_header_size").map_err(|e| e.to_string())?;
        Ok(std::slice::from_raw_parts(*text, **size as usize).to_vec())
    }
}

/// Every kernel there is, in one form at least.
fn one_of_each(target: Target) -> Vec<Request> {
    let fp8 = if target == Target::Gfx950 { ElementType::F8E4M3 } else { ElementType::F8E4M3Fnuz };
    let (element, lanes_along_m) = (ElementType::BF16, false);
    let epilogue = EpilogueTraits { bias: true, ..EpilogueTraits::default() };
    let store = StoreConfig { target, sums: Sums::F32, output: element, lanes_along_m, epilogue };
    let mut requests = vec![
        PackAConfig { target, element, lanes_along_m }.request(),
        pack_request(target, fp8),
        pack_scales_request(target),
        store.request().expect("bf16 is written"),
    ];
    for (element, tile) in [(fp8, [64, 256, 128]), (ElementType::BF16, [64, 64, 32])] {
        let config = PreshuffleConfig::new(target, element, tile);
        requests.push(config.request().expect("valid"));
        requests
            .push(PreshuffleConfig { split_k: true, ..config }.reduce_request().expect("valid"));
    }
    let steps = [
        Step::Naive,
        Step::WorkgroupTile,
        Step::RegisterTile,
        Step::Buffered { buffers: 2 },
        Step::Vectorized,
        Step::Occupancy(LaunchHint::None),
        Step::Generic(TileMovement::SoftwareDoubleBuffer, Arithmetic::MfmaF16),
    ];
    requests.extend(steps.map(|step| StepConfig::new(target, step).request().expect("valid")));
    for source in sources::ALL.iter().filter(|source| source.path.ends_with(".hip")) {
        assert!(requests.iter().any(|r| r.kernel == source.path), "{} is missing", source.path);
    }
    requests
}

/// The kernels' names and hiprtc's must not collide.
#[test]
fn every_kernel_compiles_behind_the_declarations_of_real_hiprtc() {
    let Some(clang) = clang() else { return };
    let header = match builtin_header() {
        Ok(header) => header,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("hiprtc_builtins.h");
    let end = header.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    std::fs::write(&path, &header[..end]).expect("the header");

    let mock = Mock::load(Kind::Hiprtc);
    mock.set("mock_clang", &clang.path().display().to_string());
    mock.set("mock_prelude", &path.display().to_string());
    let hiprtc = Compiler::hiprtc_at(mock.path()).expect("works").with_cache(Cache::none());
    let mut requests = [Target::Gfx942, Target::Gfx950].map(one_of_each).concat();
    requests.push(generic(Target::Gfx90a));
    for request in requests {
        let object = hiprtc.compile(&request);
        object.unwrap_or_else(|e| panic!("{} for {}: {e}", request.kernel, request.target));
    }
}

#[test]
fn a_kernel_that_does_not_compile_comes_back_with_its_log() {
    let Some(clang) = clang() else { return };
    let (_mock, hiprtc) = through(&clang);
    // Without macros there are no policies.
    let broken = Request::new("generic.hip", Target::Gfx1100);
    match hiprtc.compile(&broken) {
        Err(HipError::CompileFailed { target: Target::Gfx1100, log, .. }) => {
            assert!(log.contains("error:") && !log.contains('\0'), "{log}");
        }
        other => panic!("{other:?}"),
    }
    match hiprtc.assembly(&generic(Target::Gfx1100)) {
        Err(error @ HipError::NoAssembly { .. }) => {
            assert!(error.to_string().contains("LAPIDARY_CLANG"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_failing_function_is_a_typed_error_that_names_it() {
    for function in
        ["hiprtcCreateProgram", "hiprtcCompileProgram", "hiprtcGetCodeSize", "hiprtcGetCode"]
    {
        let mock = Mock::load(Kind::Hiprtc);
        mock.set("mock_version", "20.0.0git");
        let compiler = Compiler::hiprtc_at(mock.path()).expect("works").with_cache(Cache::none());
        mock.fail(function, 11);
        match compiler.compile(&generic(Target::Gfx942)) {
            Err(HipError::Hiprtc { call, code: 11, name, .. }) => {
                assert_eq!((call, &*name), (function, "HIPRTC_ERROR_INTERNAL_ERROR"));
            }
            other => panic!("{function}: {other:?}"),
        }
    }
}

/// An old hiprtc aborts the process when it is asked for an architecture it does not know, so it must
/// not be asked.
#[test]
fn an_old_hiprtc_is_refused_without_being_asked() {
    let mock = Mock::load(Kind::Hiprtc);
    for (version, major, refused) in [
        ("15.0.6", 15, &Target::ALL[..]),
        ("18.0.0git (roc-6.3.1)", 18, &Target::ALL[..]),
        ("19.0.0git (roc-6.4.0)", 19, &[Target::Gfx950][..]),
    ] {
        mock.set("mock_version", version);
        let compiler = Compiler::hiprtc_at(mock.path()).expect("works").with_cache(Cache::none());
        assert_eq!(compiler.major(), major);
        let probe = mock.calls();
        let compiled = probe.iter().find(|call| call.starts_with("hiprtcCompileProgram"));
        assert!(compiled.is_some_and(|call| call.contains("=gfx90a ")), "{probe:?}");
        for &target in refused {
            match compiler.compile(&generic(target)) {
                Err(HipError::CompilerTooOld { version, needed, .. }) => {
                    assert_eq!((version, needed), (major, target.oldest_llvm()), "{target}");
                }
                other => panic!("{target}: {other:?}"),
            }
        }
        assert_eq!(mock.calls(), Vec::<String>::new());
    }
    mock.set("mock_version", "of another kind");
    let unusable = Compiler::hiprtc_at(mock.path());
    assert!(matches!(unusable, Err(HipError::CompilerUnusable { .. })), "{unusable:?}");
}

#[test]
fn the_installed_hiprtc_refuses_what_it_is_too_old_for() {
    match Compiler::hiprtc() {
        Ok(compiler) => {
            let compiler = compiler.with_cache(Cache::none());
            println!("{}: LLVM {}", compiler.path().display(), compiler.version());
            for target in Target::ALL {
                match compiler.compile(&generic(target)) {
                    Ok(object) => assert!(object.bytes.starts_with(b"\x7fELF"), "{target}"),
                    Err(error @ HipError::CompilerTooOld { .. }) => {
                        println!("{error}");
                        assert!(compiler.major() < target.oldest_llvm(), "{error}");
                    }
                    Err(error) => panic!("{target}: {error}"),
                }
            }
        }
        Err(error @ HipError::Library(LibraryError::NotFound { .. })) => {
            println!("skipped: {error}");
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_library_without_hiprtc_is_refused_by_the_function_it_lacks() {
    match Compiler::hiprtc_at("libc.so.6") {
        Err(HipError::Library(LibraryError::SymbolMissing { symbol, .. })) => {
            assert_eq!(symbol, "hiprtcCreateProgram");
        }
        other => panic!("{other:?}"),
    }
}
