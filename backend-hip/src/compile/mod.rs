//! HIP sources to code objects.
//!
//! A [`Compiler`] is a clang that was found and asked for its version. It needs no ROCm: the kernels
//! bring their own qualifiers and use compiler builtins only. Code objects are cached on disk by the
//! hash of everything that determines them.

mod cache;
mod locate;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

pub use cache::{Cache, CacheOutcome};

use crate::error::HipError;
use crate::sources;
use crate::target::Target;

/// One kernel file, with the macros that select what is built from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Request {
    /// The file, as in [`sources::ALL`].
    pub kernel: &'static str,
    /// The architecture.
    pub target: Target,
    /// Macros, name and value.
    pub defines: Vec<(String, String)>,
}

impl Request {
    /// A kernel without macros.
    #[must_use]
    pub fn new(kernel: &'static str, target: Target) -> Self {
        Self { kernel, target, defines: Vec::new() }
    }

    /// Adds a macro.
    #[must_use]
    pub fn define(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.defines.push((name.into(), value.to_string()));
        self
    }
}

/// A compiled kernel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CodeObject {
    /// The ELF file.
    pub bytes: Vec<u8>,
    /// SHA-256 of source, options, target and compiler, in hexadecimal.
    pub key: String,
    /// Whether it came from the cache, and whether it was put there.
    pub cache: CacheOutcome,
}

impl CodeObject {
    /// A code object that was compiled elsewhere; its key is the hash of its bytes.
    #[must_use]
    pub fn prebuilt(bytes: Vec<u8>) -> Self {
        let key = hex(&Sha256::digest(&bytes));
        let cache = CacheOutcome::NotStored("it was compiled elsewhere".into());
        Self { bytes, key, cache }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A clang that can compile the kernels.
#[derive(Clone, Debug)]
pub struct Compiler {
    path: PathBuf,
    /// The first line of `--version`.
    version: String,
    major: u32,
    cache: Cache,
}

impl Compiler {
    /// Finds a compiler: `LAPIDARY_CLANG`, then `$ROCM_PATH/llvm/bin/clang`, then `clang-22` down to
    /// `clang-19` on `PATH`. Code objects are cached in the user's cache directory, or in
    /// `LAPIDARY_CACHE_DIR`.
    ///
    /// # Errors
    /// [`HipError::CompilerNotFound`]; [`HipError::CompilerUnusable`] if `LAPIDARY_CLANG` names
    /// something that is no clang.
    pub fn find() -> Result<Self, HipError> {
        let (path, version, major) = locate::locate(&locate::Environment::of_process())?;
        Ok(Self { path, version, major, cache: Cache::of_user() })
    }

    /// Uses the clang at `path`.
    ///
    /// # Errors
    /// [`HipError::CompilerUnusable`] if it does not answer `--version` as a clang does.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, HipError> {
        let path = path.into();
        let (version, major) = locate::ask_version(&path)?;
        Ok(Self { path, version, major, cache: Cache::of_user() })
    }

    /// Caches elsewhere, or nowhere. The default is the user's cache directory.
    #[must_use]
    pub fn with_cache(mut self, cache: Cache) -> Self {
        self.cache = cache;
        self
    }

    /// The program.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The compiler's own description of its version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The major version of LLVM.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.major
    }

    /// Compiles a kernel to a code object, or takes it from the cache.
    ///
    /// # Errors
    /// [`HipError::CompilerTooOld`], [`HipError::CompileFailed`] with the compiler's log, or
    /// [`HipError::Io`]. A cache that cannot be read or written is no error.
    pub fn compile(&self, request: &Request) -> Result<CodeObject, HipError> {
        self.check_target(request.target)?;
        let key = self.key(request);
        if let Some(bytes) = self.cache.get(&key) {
            return Ok(CodeObject { bytes, key, cache: CacheOutcome::Hit });
        }
        let bytes = self.run(request, &["-fuse-ld=lld"], "kernel.co")?;
        let cache = self.cache.put(&key, &bytes);
        Ok(CodeObject { bytes, key, cache })
    }

    /// Compiles a kernel to assembly, with the same options otherwise.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn assembly(&self, request: &Request) -> Result<String, HipError> {
        self.check_target(request.target)?;
        let bytes = self.run(request, &["-S"], "kernel.s")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The command line that compiles `request` from the kernel directory, for documentation.
    #[must_use]
    pub fn command_line(&self, request: &Request) -> String {
        let mut line = self.path.display().to_string();
        for option in options(request) {
            let _ = write!(line, " {option}");
        }
        let _ = write!(line, " -fuse-ld=lld -o kernel.co {}", request.kernel);
        line
    }

    fn check_target(&self, target: Target) -> Result<(), HipError> {
        let needed = target.oldest_llvm();
        if self.major >= needed {
            return Ok(());
        }
        Err(HipError::CompilerTooOld {
            path: self.path.clone(),
            version: self.major,
            target,
            needed,
        })
    }

    /// The hash of everything a code object depends on.
    fn key(&self, request: &Request) -> String {
        let mut hash = Sha256::new();
        let mut field = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        field(&self.version);
        field(request.kernel);
        for option in options(request) {
            field(&option);
        }
        for source in sources::closure(request.kernel) {
            field(source.path);
            field(source.text);
        }
        hex(&hash.finalize())
    }

    fn run(&self, request: &Request, mode: &[&str], output: &str) -> Result<Vec<u8>, HipError> {
        let dir = tempfile::Builder::new()
            .prefix("lapidary-")
            .tempdir()
            .map_err(HipError::io("making a temporary directory"))?;
        for source in sources::closure(request.kernel) {
            let path = dir.path().join(source.path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(HipError::io("writing kernel sources"))?;
            }
            std::fs::write(&path, source.text).map_err(HipError::io("writing kernel sources"))?;
        }
        tracing::debug!(kernel = request.kernel, target = request.target.name(), "compiling");
        let result = Command::new(&self.path)
            .current_dir(dir.path())
            .args(options(request))
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

/// The options that determine the code.
fn options(request: &Request) -> Vec<String> {
    let mut options: Vec<String> = [
        "-x",
        "hip",
        &format!("--offload-arch={}", request.target),
        "--offload-device-only",
        "-nogpuinc",
        "-nogpulib",
        "-O3",
        "-std=c++17",
        "--no-gpu-bundle-output",
        "-I.",
        // Unrolling is asked for everywhere; a loop left rolled shows in the gates on the assembly.
        "-Wno-pass-failed",
    ]
    .map(str::to_owned)
    .into();
    options.extend(request.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiler() -> Compiler {
        Compiler {
            path: "clang".into(),
            version: "clang version 19.1.0".into(),
            major: 19,
            cache: Cache::none(),
        }
    }

    #[test]
    fn the_key_depends_on_options_target_and_compiler() {
        let a = compiler();
        let request = Request::new("preshuffle.hip", Target::Gfx942);
        let mut keys = vec![
            a.key(&request),
            a.key(&request.clone().define("X", 1)),
            a.key(&request.clone().define("X", 2)),
            a.key(&Request::new("preshuffle.hip", Target::Gfx950)),
            Compiler { version: "clang version 20".into(), ..a.clone() }.key(&request),
        ];
        assert_eq!(keys[0], a.key(&request));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 5);
    }

    #[test]
    fn an_old_compiler_is_refused_for_gfx950_with_both_versions() {
        let error = compiler().compile(&Request::new("preshuffle.hip", Target::Gfx950));
        assert!(matches!(
            error,
            Err(HipError::CompilerTooOld { version: 19, needed: 20, target: Target::Gfx950, .. })
        ));
    }
}
