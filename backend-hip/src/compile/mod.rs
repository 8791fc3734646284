//! HIP sources to code objects.
//!
//! A [`Compiler`] is ROCm's hiprtc or a clang, found and asked for its version. Clang needs no ROCm: the
//! kernels bring their own qualifiers and use compiler builtins only. Both get the same sources and
//! options. Code objects are cached on disk by the hash of everything that determines them.

mod cache;
mod clang;
mod hiprtc;
mod locate;

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};

pub use cache::{Cache, CacheOutcome};

use crate::error::HipError;
use crate::library;
use crate::sources::{self, Source};
use crate::target::Target;
use clang::Clang;
use hiprtc::Hiprtc;

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
#[derive(Clone)]
#[non_exhaustive]
pub struct CodeObject {
    /// The ELF file.
    pub bytes: Vec<u8>,
    /// SHA-256 of source, options, target and the compiler's description of its version, in
    /// hexadecimal: equal keys are equal code, as far as compilers of one version are equal.
    pub key: String,
    /// Whether it came from the cache, and whether it was put there.
    pub cache: CacheOutcome,
}

impl fmt::Debug for CodeObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeObject")
            .field("bytes", &self.bytes.len())
            .field("key", &self.key)
            .field("cache", &self.cache)
            .finish()
    }
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

/// A compiler for the kernels: a clang, or ROCm's hiprtc.
#[derive(Clone, Debug)]
pub struct Compiler {
    tool: Tool,
    cache: Cache,
    /// Files that take the place of those of the same path.
    replaced: Vec<Source>,
}

#[derive(Clone, Debug)]
enum Tool {
    Clang(Clang),
    Hiprtc(Arc<Hiprtc>),
}

impl Compiler {
    /// Finds a compiler that is new enough for the kernels of some target: the clang that
    /// `LAPIDARY_CLANG` names; hiprtc, on a machine with ROCm; `$ROCM_PATH/llvm/bin/clang`; `clang-22`
    /// down to `clang-19` on `PATH`. Code objects are cached in the user's cache directory, or in
    /// `LAPIDARY_CACHE_DIR`.
    ///
    /// # Errors
    /// [`HipError::CompilerNotFound`] with what was looked for, and why what was found would not do;
    /// [`HipError::CompilerUnusable`] if `LAPIDARY_CLANG` names something that is no clang.
    pub fn find() -> Result<Self, HipError> {
        Self::located(OLDEST_LLVM, hiprtc_of_process)
    }

    /// As [`find`](Self::find), passing over compilers that are too old for `target`.
    ///
    /// # Errors
    /// As [`find`](Self::find), and [`HipError::CompilerTooOld`] if there are only older ones.
    pub fn find_for(target: Target) -> Result<Self, HipError> {
        match Self::located(target.oldest_llvm(), hiprtc_of_process) {
            Err(missing @ HipError::CompilerNotFound { .. }) => match Self::find() {
                Ok(older) => older.for_target(target),
                Err(_) => Err(missing),
            },
            found => found?.for_target(target),
        }
    }

    /// As [`find`](Self::find), clang only: it can also give assembly.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn find_clang() -> Result<Self, HipError> {
        Self::located(OLDEST_LLVM, || Err("hiprtc was not asked for".into()))
    }

    fn of(tool: Tool) -> Self {
        Self { tool, cache: Cache::of_user(), replaced: Vec::new() }
    }

    fn located(
        needed: u32,
        hiprtc: impl FnOnce() -> Result<Arc<Hiprtc>, String>,
    ) -> Result<Self, HipError> {
        let tool = locate::locate(&locate::Environment::of_process(), needed, hiprtc)?;
        Ok(Self::of(tool))
    }

    /// Uses the clang at `path`.
    ///
    /// # Errors
    /// [`HipError::CompilerUnusable`] if it does not answer `--version` as a clang does.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, HipError> {
        Ok(Self::of(Tool::Clang(Clang::at(path.into())?)))
    }

    /// Uses ROCm's hiprtc: the library that `LAPIDARY_HIPRTC_LIBRARY` names, or `libhiprtc.so`, or
    /// before ROCm 7 `libamdhip64.so`, where [`Rocm::open`](crate::runtime::rocm::Rocm::open) looks.
    ///
    /// # Errors
    /// [`HipError::Library`] if there is none; [`HipError::CompilerUnusable`] or [`HipError::Hiprtc`]
    /// if it does not work.
    pub fn hiprtc() -> Result<Self, HipError> {
        let hiprtc = Hiprtc::load(&library::HIPRTC.environment())?;
        Ok(Self::of(Tool::Hiprtc(Arc::new(hiprtc))))
    }

    /// Uses the hiprtc in the file `library`.
    ///
    /// # Errors
    /// As [`hiprtc`](Self::hiprtc).
    pub fn hiprtc_at(library: impl AsRef<Path>) -> Result<Self, HipError> {
        let named = Some(library.as_ref().into());
        let environment = library::Environment { named, ..library::Environment::default() };
        let hiprtc = Hiprtc::load(&environment)?;
        Ok(Self::of(Tool::Hiprtc(Arc::new(hiprtc))))
    }

    /// Caches elsewhere, or nowhere. The default is the user's cache directory.
    #[must_use]
    pub fn with_cache(mut self, cache: Cache) -> Self {
        self.cache = cache;
        self
    }

    /// The program, or hiprtc's library.
    #[must_use]
    pub fn path(&self) -> &Path {
        match &self.tool {
            Tool::Clang(clang) => &clang.path,
            Tool::Hiprtc(hiprtc) => Path::new(hiprtc.library()),
        }
    }

    /// The compiler's own description of its version.
    #[must_use]
    pub fn version(&self) -> &str {
        match &self.tool {
            Tool::Clang(clang) => &clang.version,
            Tool::Hiprtc(hiprtc) => hiprtc.version(),
        }
    }

    /// The major version of LLVM.
    #[must_use]
    pub fn major(&self) -> u32 {
        match &self.tool {
            Tool::Clang(clang) => clang.major,
            Tool::Hiprtc(hiprtc) => hiprtc.major(),
        }
    }

    /// Compiles a kernel to a code object, or takes it from the cache.
    ///
    /// # Errors
    /// [`HipError::CompilerTooOld`], [`HipError::CompileFailed`] with the compiler's log,
    /// [`HipError::Io`] or [`HipError::Hiprtc`]. A cache that cannot be read or written is no error.
    pub fn compile(&self, request: &Request) -> Result<CodeObject, HipError> {
        self.check_target(request.target)?;
        let key = self.key(request);
        if let Some(bytes) = self.cache.get(&key) {
            return Ok(CodeObject { bytes, key, cache: CacheOutcome::Hit });
        }
        tracing::debug!(kernel = request.kernel, target = request.target.name(), "compiling");
        let bytes = match &self.tool {
            Tool::Clang(clang) => clang.object(request, &self.sources(request))?,
            Tool::Hiprtc(hiprtc) => {
                let sources = self.sources(request);
                let text = sources.first().map_or("", |source| source.text);
                let headers = sources.get(1..).unwrap_or_default();
                hiprtc.compile(request.kernel, request.target, text, headers, &options(request))?
            }
        };
        let cache = self.cache.put(&key, &bytes);
        Ok(CodeObject { bytes, key, cache })
    }

    /// Compiles a kernel to assembly, with the same options otherwise.
    ///
    /// # Errors
    /// As [`compile`](Self::compile); [`HipError::NoAssembly`] from hiprtc.
    pub fn assembly(&self, request: &Request) -> Result<String, HipError> {
        self.check_target(request.target)?;
        match &self.tool {
            Tool::Clang(clang) => clang.assembly(request, &self.sources(request)),
            Tool::Hiprtc(hiprtc) => {
                Err(HipError::NoAssembly { library: hiprtc.library().to_owned() })
            }
        }
    }

    /// The command line that compiles `request` from the kernel directory, for documentation; for
    /// hiprtc, the options it is given.
    #[must_use]
    pub fn command_line(&self, request: &Request) -> String {
        match &self.tool {
            Tool::Clang(clang) => clang.command_line(request),
            Tool::Hiprtc(hiprtc) => format!(
                "{} {} --offload-arch={} {}",
                hiprtc.library(),
                request.kernel,
                request.target,
                options(request).join(" ")
            ),
        }
    }

    fn for_target(self, target: Target) -> Result<Self, HipError> {
        self.check_target(target)?;
        Ok(self)
    }

    fn check_target(&self, target: Target) -> Result<(), HipError> {
        let needed = target.oldest_llvm();
        if self.major() >= needed {
            return Ok(());
        }
        let (path, version) = (self.path().to_owned(), self.major());
        Err(HipError::CompilerTooOld { path, version, target, needed })
    }

    /// Compiles `text` in place of the kernel source of that path, for tests that plant bugs. The text
    /// stays in memory to the end of the process.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_source(mut self, path: &'static str, text: String) -> Self {
        self.replaced.push(Source { path, text: text.leak() });
        self
    }

    /// The files that make up a request's kernel.
    fn sources(&self, request: &Request) -> Vec<Source> {
        let mut sources = sources::closure(request.kernel);
        for source in &mut sources {
            if let Some(replaced) = self.replaced.iter().find(|r| r.path == source.path) {
                *source = *replaced;
            }
        }
        sources
    }

    /// The hash of everything a code object depends on.
    fn key(&self, request: &Request) -> String {
        let mut hash = Sha256::new();
        let mut field = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        field(match &self.tool {
            Tool::Clang(_) => "clang",
            Tool::Hiprtc(_) => "hiprtc",
        });
        field(self.version());
        field(request.kernel);
        field(request.target.name());
        for option in options(request) {
            field(&option);
        }
        for source in self.sources(request) {
            field(source.path);
            field(source.text);
        }
        hex(&hash.finalize())
    }
}

/// The oldest LLVM that compiles the kernels for any target.
const OLDEST_LLVM: u32 = 19;

/// The machine's hiprtc, loaded once in a process, or why there is none.
fn hiprtc_of_process() -> Result<Arc<Hiprtc>, String> {
    static HIPRTC: OnceLock<Result<Arc<Hiprtc>, String>> = OnceLock::new();
    let loaded = HIPRTC.get_or_init(|| {
        let environment = library::HIPRTC.environment();
        Hiprtc::load(&environment).map(Arc::new).map_err(|error| error.to_string())
    });
    loaded.clone()
}

/// The options that determine the code, beside the target: the same for clang and hiprtc.
fn options(request: &Request) -> Vec<String> {
    // Unrolling is asked for everywhere; a loop left rolled shows in the gates on the assembly.
    let mut options = ["-O3", "-std=c++17", "-Wno-pass-failed"].map(str::to_owned).to_vec();
    options.extend(request.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiler(version: &str, major: u32) -> Compiler {
        let clang = Clang { path: "clang".into(), version: version.into(), major };
        Compiler::of(Tool::Clang(clang)).with_cache(Cache::none())
    }

    #[test]
    fn the_key_depends_on_options_target_and_compiler() {
        let a = compiler("clang version 19.1.0", 19);
        let request = Request::new("preshuffle.hip", Target::Gfx942);
        let mut keys = vec![
            a.key(&request),
            a.key(&request.clone().define("X", 1)),
            a.key(&request.clone().define("X", 2)),
            a.key(&Request::new("preshuffle.hip", Target::Gfx950)),
            compiler("clang version 20", 20).key(&request),
        ];
        assert_eq!(keys[0], a.key(&request));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 5);
    }

    #[test]
    fn an_old_compiler_is_refused_for_gfx950_with_both_versions() {
        let old = compiler("clang version 19.1.0", 19);
        let error = old.compile(&Request::new("preshuffle.hip", Target::Gfx950));
        assert!(matches!(
            error,
            Err(HipError::CompilerTooOld { version: 19, needed: 20, target: Target::Gfx950, .. })
        ));
    }
}
