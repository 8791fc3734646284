//! Compilers that are missing, old, broken, or given what does not compile: each a typed error.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lapidary_hip::compile::{Cache, CacheOutcome, Compiler, Request};
use lapidary_hip::steps::{Arithmetic, Step, StepConfig, StepError, TileMovement};
use lapidary_hip::{HipError, Target};

/// A program in a directory of its own.
struct Fake {
    dir: tempfile::TempDir,
    path: PathBuf,
    /// A process that another test starts while the program is written would keep it open for writing,
    /// and so from being run.
    _alone: MutexGuard<'static, ()>,
}

/// A program that answers `--version` with `version` and does `otherwise` when it is to compile.
fn fake(version: &str, otherwise: &str) -> Fake {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("clang");
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '{version}'; exit; fi\n{otherwise}\n"
    );
    std::fs::write(&path, script).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
    Fake { dir, path, _alone: alone }
}

fn at(fake: &Fake) -> Compiler {
    Compiler::at(&fake.path).expect("it says it is a clang").with_cache(Cache::none())
}

fn naive(target: Target) -> Request {
    StepConfig::new(target, Step::Naive).request().expect("every target has it")
}

#[test]
fn a_compiler_that_is_not_there_is_unusable() {
    match Compiler::at("/nonexistent/clang") {
        Err(error @ HipError::CompilerUnusable { .. }) => {
            let message = error.to_string();
            assert!(message.starts_with("/nonexistent/clang cannot be used"), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_program_that_is_no_clang_or_fails_is_unusable() {
    let gcc = fake("gcc (Debian 12.2.0-14) 12.2.0", "exit 1");
    assert!(matches!(Compiler::at(&gcc.path), Err(HipError::CompilerUnusable { .. })));
    match Compiler::at("/bin/false") {
        Err(HipError::CompilerUnusable { reason, .. }) => {
            assert!(reason.contains("--version ended with"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn llvm_19_is_too_old_for_gfx950_and_is_not_run() {
    let clang = fake("clang version 19.1.7", "touch \"$(dirname \"$0\")/ran\"; exit 1");
    match at(&clang).compile(&naive(Target::Gfx950)) {
        Err(error @ HipError::CompilerTooOld { version: 19, needed: 20, .. }) => {
            let message = error.to_string();
            for part in [&*clang.path.display().to_string(), "LLVM 19", "gfx950", "LLVM 20"] {
                assert!(message.contains(part), "{message}");
            }
        }
        other => panic!("{other:?}"),
    }
    assert!(!clang.dir.path().join("ran").exists());
}

#[test]
fn what_the_compiler_says_of_a_kernel_comes_back() {
    let clang = fake("clang version 22.1.8", "echo 'kernel.hip:1:1: error: no' >&2; exit 1");
    for result in [
        at(&clang).compile(&naive(Target::Gfx942)).map(drop),
        at(&clang).assembly(&naive(Target::Gfx942)).map(drop),
    ] {
        match result {
            Err(HipError::CompileFailed { kernel, target: Target::Gfx942, log }) => {
                assert_eq!(log, "kernel.hip:1:1: error: no\n");
                assert_eq!(kernel, "steps/1_naive.hip");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_compiler_that_succeeds_without_an_object_is_an_error() {
    let clang = fake("clang version 22.1.8", "exit 0");
    let result = at(&clang).compile(&naive(Target::Gfx942));
    assert!(matches!(result, Err(HipError::Io { .. })), "{result:?}");
}

#[test]
fn a_failure_is_not_cached_and_a_success_is() {
    let cache = tempfile::tempdir().expect("a directory");
    let clang = fake(
        "clang version 22.1.8",
        "[ -e \"$(dirname \"$0\")/works\" ] || exit 1; echo object > kernel.co",
    );
    let compiler =
        Compiler::at(&clang.path).expect("a clang").with_cache(Cache::in_directory(cache.path()));
    assert!(compiler.compile(&naive(Target::Gfx942)).is_err());
    std::fs::write(clang.dir.path().join("works"), "").expect("a file");
    for outcome in [CacheOutcome::Stored, CacheOutcome::Hit] {
        let object = compiler.compile(&naive(Target::Gfx942)).expect("it compiles now");
        assert_eq!((object.cache, &*object.bytes), (outcome, &b"object\n"[..]));
    }
}

/// The other ROCm GPUs have the scalar kernels; asking for matrix cores there is one line.
#[test]
fn matrix_cores_are_refused_by_name_where_there_are_none() {
    for target in [Target::Gfx90a, Target::Gfx1100, Target::Gfx1201] {
        for arithmetic in Arithmetic::ALL.into_iter().filter(|a| a.is_matrix()) {
            let step = Step::Generic(TileMovement::SingleBuffer, arithmetic);
            match StepConfig::new(target, step).request() {
                Err(error @ StepError::Target { .. }) => {
                    let message = error.to_string();
                    assert!(message.contains(target.name()), "{message}");
                    assert!(message.contains("matrix cores of gfx942 or gfx950"), "{message}");
                    assert_eq!(message.lines().count(), 1, "{message}");
                }
                other => panic!("{target}: {other:?}"),
            }
        }
    }
}
