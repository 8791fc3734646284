//! Where the compiler is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::HipError;

/// The newest and the oldest versioned names looked for on `PATH`.
const NEWEST: u32 = 22;
const OLDEST: u32 = 19;

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

/// The first usable compiler: its path, version line and major version.
///
/// A compiler named by `LAPIDARY_CLANG` is used or refused, never passed over.
pub(super) fn locate(environment: &Environment) -> Result<(PathBuf, String, u32), HipError> {
    if let Some(named) = &environment.lapidary_clang {
        let path = PathBuf::from(named);
        let (version, major) = ask_version(&path)?;
        return Ok((path, version, major));
    }
    let mut searched = vec!["LAPIDARY_CLANG".to_owned()];
    let mut candidates = Vec::new();
    match &environment.rocm_path {
        Some(root) => {
            let path = Path::new(root).join("llvm/bin/clang");
            searched.push(path.display().to_string());
            candidates.push(path);
        }
        None => searched.push("ROCM_PATH".to_owned()),
    }
    searched.push(format!("clang-{NEWEST} to clang-{OLDEST} on PATH"));
    for version in (OLDEST..=NEWEST).rev() {
        let name = format!("clang-{version}");
        candidates.extend(
            environment.path.iter().flat_map(std::env::split_paths).map(|dir| dir.join(&name)),
        );
    }
    for path in candidates {
        if path.is_file() {
            match ask_version(&path) {
                Ok((version, major)) => return Ok((path, version, major)),
                Err(error) => searched.push(error.to_string()),
            }
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

    /// A directory with a program that answers as `clang --version` does.
    fn program(name: &str, answer: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("its directory");
        std::fs::write(&path, format!("#!/bin/sh\necho '{answer}'\n")).expect("a script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its mode");
        (dir, path)
    }

    #[test]
    fn the_environment_variable_wins_and_is_not_passed_over() {
        let (_dir, path) = program("mine", "AMD clang version 20.0.0git (roc-7.0)");
        let mut environment =
            Environment { lapidary_clang: Some(path.clone().into()), rocm_path: None, path: None };
        let (found, _, major) = locate(&environment).expect("found");
        assert_eq!((found, major), (path, 20));
        environment.lapidary_clang = Some("/nonexistent/clang".into());
        assert!(matches!(locate(&environment), Err(HipError::CompilerUnusable { .. })));
    }

    #[test]
    fn rocm_comes_before_path_and_newer_before_older() {
        let (rocm, rocm_clang) = program("llvm/bin/clang", "clang version 19.0.0");
        let (a, _) = program("clang-19", "clang version 19.1.7");
        let (b, newer) = program("clang-21", "Debian clang version 21.1.0 (1)");
        let path = std::env::join_paths([a.path(), b.path()]).expect("a path");
        let mut environment = Environment {
            lapidary_clang: None,
            rocm_path: Some(rocm.path().into()),
            path: Some(path),
        };
        assert_eq!(locate(&environment).expect("found").0, rocm_clang);
        environment.rocm_path = None;
        assert_eq!(locate(&environment).expect("found").0, newer);
    }

    #[test]
    fn nothing_found_says_what_to_install() {
        let environment = Environment { lapidary_clang: None, rocm_path: None, path: None };
        let message = locate(&environment).expect_err("nothing").to_string();
        assert!(message.contains("apt-get install clang-22 lld-22"), "{message}");
        assert_eq!(message.lines().count(), 1);
    }

    #[test]
    fn a_program_that_is_no_clang_is_refused() {
        let (_dir, path) = program("clang-22", "hello");
        assert!(matches!(ask_version(&path), Err(HipError::CompilerUnusable { .. })));
    }
}
