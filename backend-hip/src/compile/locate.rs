//! Where the compiler is.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use super::clang::Clang;
use super::hiprtc::Hiprtc;
use super::{OLDEST_LLVM, Tool};
use crate::error::HipError;

/// The newest versioned name looked for on `PATH`.
const NEWEST: u32 = 22;

/// What the search depends on.
pub(super) struct Environment {
    pub(super) lapidary_clang: Option<OsString>,
    pub(super) rocm_path: Option<OsString>,
    pub(super) path: Option<OsString>,
}

impl Environment {
    pub(super) fn of_process() -> Self {
        Self {
            lapidary_clang: std::env::var_os("LAPIDARY_CLANG").filter(|v| !v.is_empty()),
            rocm_path: std::env::var_os("ROCM_PATH").filter(|v| !v.is_empty()),
            path: std::env::var_os("PATH"),
        }
    }
}

/// The first usable compiler of LLVM `needed` or newer.
///
/// A compiler named by `LAPIDARY_CLANG` is used or refused, never passed over; of the others, an older
/// one is. `hiprtc` is asked only if it comes to that.
pub(super) fn locate(
    environment: &Environment,
    needed: u32,
    hiprtc: impl FnOnce() -> Result<Arc<Hiprtc>, String>,
) -> Result<Tool, HipError> {
    if let Some(named) = &environment.lapidary_clang {
        return match Clang::at(named.into()) {
            Err(HipError::CompilerUnusable { path, reason }) => {
                let reason = format!(
                    "{reason}. LAPIDARY_CLANG names it: unset that, or name a clang 20 or newer (Debian \
                     and Ubuntu: apt-get install clang-22 lld-22)"
                );
                Err(HipError::CompilerUnusable { path, reason })
            }
            clang => clang.map(Tool::Clang),
        };
    }
    let mut searched = vec!["LAPIDARY_CLANG".to_owned()];
    let too_old = |path: &str, major: u32| format!("{path} is LLVM {major}, {needed} is needed");
    match hiprtc() {
        Ok(hiprtc) if hiprtc.major() >= needed => return Ok(Tool::Hiprtc(hiprtc)),
        Ok(hiprtc) => {
            searched.push(format!("hiprtc: {}", too_old(hiprtc.library(), hiprtc.major())));
        }
        Err(reason) => {
            tracing::debug!(reason, "no hiprtc");
            searched.push("hiprtc".to_owned());
        }
    }
    let mut candidates = Vec::new();
    match &environment.rocm_path {
        Some(root) => {
            let path = Path::new(root).join("llvm/bin/clang");
            searched.push(path.display().to_string());
            candidates.push(path);
        }
        None => searched.push("ROCM_PATH".to_owned()),
    }
    searched.push(format!("clang-{NEWEST} to clang-{OLDEST_LLVM} on PATH"));
    for version in (OLDEST_LLVM..=NEWEST).rev() {
        let name = format!("clang-{version}");
        candidates.extend(
            environment.path.iter().flat_map(std::env::split_paths).map(|dir| dir.join(&name)),
        );
    }
    for path in candidates.into_iter().filter(|path| path.is_file()) {
        match Clang::at(path) {
            Ok(clang) if clang.major >= needed => return Ok(Tool::Clang(clang)),
            Ok(clang) => searched.push(too_old(&clang.path.display().to_string(), clang.major)),
            Err(error) => searched.push(error.to_string()),
        }
    }
    Err(HipError::CompilerNotFound { searched: searched.join(", ") })
}

/// Runs `--version` and reads the major version from `… version 22.1.8 …`.
pub(super) fn ask_version(path: &Path) -> Result<(String, u32), HipError> {
    let unusable = |reason: String| HipError::CompilerUnusable { path: path.to_owned(), reason };
    let output =
        Command::new(path).arg("--version").output().map_err(|e| unusable(e.to_string()))?;
    if !output.status.success() {
        return Err(unusable(format!("--version ended with {}", output.status)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default().to_owned();
    let major = line
        .split_once("clang version ")
        .and_then(|(_, rest)| rest.split(['.', ' ', '-']).next()?.parse().ok())
        .ok_or_else(|| unusable(format!("--version says {line:?}, not a clang version")))?;
    Ok((line, major))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    /// A directory with a program that answers as `clang --version` does.
    fn program(name: &str, answer: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("its directory");
        std::fs::write(&path, format!("#!/bin/sh\necho '{answer}'\n")).expect("a script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        (dir, path)
    }

    /// The clang that is found with no hiprtc there: its path and version.
    fn located(environment: &Environment, needed: u32) -> Result<(PathBuf, u32), HipError> {
        match locate(environment, needed, || Err("there is none".into()))? {
            Tool::Clang(clang) => Ok((clang.path, clang.major)),
            Tool::Hiprtc(hiprtc) => panic!("{hiprtc:?}"),
        }
    }

    #[test]
    fn the_environment_variable_wins_and_is_not_passed_over() {
        let (_dir, path) = program("mine", "AMD clang version 20.0.0git (roc-7.0)");
        let mut environment =
            Environment { lapidary_clang: Some(path.clone().into()), rocm_path: None, path: None };
        assert_eq!(located(&environment, 19).expect("found"), (path.clone(), 20));
        assert_eq!(located(&environment, 21).expect("found although too old"), (path, 20));
        environment.lapidary_clang = Some("/nonexistent/clang".into());
        let error = located(&environment, 19).expect_err("no such program");
        assert!(matches!(error, HipError::CompilerUnusable { .. }), "{error}");
        for part in ["/nonexistent/clang", "LAPIDARY_CLANG", "apt-get install clang-22"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn rocm_comes_before_path_and_newer_before_older_and_too_old_ones_are_passed_over() {
        let (rocm, rocm_clang) = program("llvm/bin/clang", "clang version 19.0.0");
        let (a, _) = program("clang-19", "clang version 19.1.7");
        let (b, newer) = program("clang-21", "Debian clang version 21.1.0 (1)");
        let path = std::env::join_paths([a.path(), b.path()]).expect("a path");
        let mut environment = Environment {
            lapidary_clang: None,
            rocm_path: Some(rocm.path().into()),
            path: Some(path),
        };
        assert_eq!(located(&environment, 19).expect("found").0, rocm_clang);
        assert_eq!(located(&environment, 20).expect("found").0, newer);
        let message = located(&environment, 22).expect_err("all are older").to_string();
        for part in ["is LLVM 19, 22 is needed", "is LLVM 21, 22 is needed"] {
            assert!(message.contains(part), "{message}");
        }
        environment.rocm_path = None;
        assert_eq!(located(&environment, 19).expect("found").0, newer);
    }

    #[test]
    fn nothing_found_says_what_to_install() {
        let environment = Environment { lapidary_clang: None, rocm_path: None, path: None };
        let message = located(&environment, 19).expect_err("nothing").to_string();
        assert!(message.contains("apt-get install clang-22 lld-22"), "{message}");
        assert!(message.contains("hiprtc"), "{message}");
        assert_eq!(message.lines().count(), 1);
    }

    #[test]
    fn a_program_that_is_no_clang_is_refused() {
        let (_dir, path) = program("clang-22", "hello");
        assert!(matches!(ask_version(&path), Err(HipError::CompilerUnusable { .. })));
    }
}
