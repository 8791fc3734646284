//! Kernels compiled by a clang, which needs no ROCm.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use super::{Request, locate, options};
use crate::error::HipError;
use crate::sources::Source;

/// A clang that was asked for its version.
#[derive(Clone, Debug)]
pub(super) struct Clang {
    pub(super) path: PathBuf,
    /// The first line of `--version`.
    pub(super) version: String,
    pub(super) major: u32,
}

impl Clang {
    /// The clang at `path`, if it is one.
    pub(super) fn at(path: PathBuf) -> Result<Self, HipError> {
        let (version, major) = locate::ask_version(&path)?;
        Ok(Self { path, version, major })
    }

    /// Compiles to an ELF code object.
    pub(super) fn object(
        &self,
        request: &Request,
        sources: &[Source],
    ) -> Result<Vec<u8>, HipError> {
        self.run(request, sources, &["-fuse-ld=lld"], "kernel.co")
    }

    /// Compiles to assembly.
    pub(super) fn assembly(
        &self,
        request: &Request,
        sources: &[Source],
    ) -> Result<String, HipError> {
        let bytes = self.run(request, sources, &["-S"], "kernel.s")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The command that compiles from the kernel directory.
    pub(super) fn command_line(&self, request: &Request) -> String {
        let mut line = self.path.display().to_string();
        for option in arguments(request) {
            let _ = write!(line, " {option}");
        }
        let _ = write!(line, " -fuse-ld=lld -o kernel.co {}", request.kernel);
        line
    }

    fn run(
        &self,
        request: &Request,
        sources: &[Source],
        mode: &[&str],
        output: &str,
    ) -> Result<Vec<u8>, HipError> {
        let dir = tempfile::Builder::new()
            .prefix("lapidary-")
            .tempdir()
            .map_err(HipError::io("making a temporary directory"))?;
        for source in sources {
            let path = dir.path().join(source.path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(HipError::io("writing kernel sources"))?;
            }
            std::fs::write(&path, source.text).map_err(HipError::io("writing kernel sources"))?;
        }
        let result = Command::new(&self.path)
            .current_dir(dir.path())
            .args(arguments(request))
            .args(mode)
            .args(["-o", output, request.kernel])
            .output()
            .map_err(HipError::io(format!("running {}", self.path.display())))?;
        if !result.status.success() {
            return Err(HipError::CompileFailed {
                kernel: request.kernel,
                target: request.target,
                log: String::from_utf8_lossy(&result.stderr).into_owned(),
            });
        }
        std::fs::read(dir.path().join(output)).map_err(HipError::io("reading the code object"))
    }
}

/// What makes clang compile for the device only, with no ROCm there, and the options of the request.
fn arguments(request: &Request) -> Vec<String> {
    let mut arguments: Vec<String> = [
        "-x",
        "hip",
        &format!("--offload-arch={}", request.target),
        "--offload-device-only",
        "-nogpuinc",
        "-nogpulib",
        "--no-gpu-bundle-output",
        // Otherwise a hash of the temporary directory's name ends up in the code object.
        "-fuse-cuid=none",
        "-I.",
    ]
    .map(str::to_owned)
    .into();
    arguments.extend(options(request));
    arguments
}
