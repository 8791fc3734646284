//! Kernels compiled by ROCm's own run-time compiler.
//!
//! It takes the same sources and the same options as clang, the headers as a list of names and texts.
//! Which LLVM it is made of decides what it can compile, and nothing tells: `hiprtcVersion` answers 9.0
//! whatever the release. So it is asked by compiling a few lines that hold the compiler's version as
//! text, for an architecture that every hiprtc knows. That comes first because an old one does not
//! refuse an architecture it has never heard of: it aborts the process.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, PoisonError};

use crate::error::HipError;
use crate::library::{self, Environment, LibraryError, Opened};
use crate::sources::Source;
use crate::target::Target;

/// `hiprtcProgram`.
type Program = *mut c_void;
/// `HIPRTC_ERROR_COMPILATION`: the program is at fault, and the log says where.
const COMPILATION: c_int = 6;

/// Precedes the version in the code object of [`PROBE`].
const MARK: &str = "lapidary llvm ";
const PROBE: &str = "extern \"C\" __device__ char lapidary_version[] = \"lapidary llvm \" __clang_version__;\n\
    extern \"C\" __global__ void lapidary_probe(char* out) { *out = lapidary_version[*out]; }\n";

/// hiprtc's functions (`hiprtc.h`).
#[derive(Clone, Copy, Debug)]
struct Table {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> c_int,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    log: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    code_size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
    code: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    destroy: unsafe extern "C" fn(*mut Program) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Table {
    fn of_library(library: &Opened) -> Result<Self, LibraryError> {
        // SAFETY: the types are those of hiprtc.h.
        unsafe {
            Ok(Self {
                create: library.function("hiprtcCreateProgram")?,
                compile: library.function("hiprtcCompileProgram")?,
                log_size: library.function("hiprtcGetProgramLogSize")?,
                log: library.function("hiprtcGetProgramLog")?,
                code_size: library.function("hiprtcGetCodeSize")?,
                code: library.function("hiprtcGetCode")?,
                destroy: library.function("hiprtcDestroyProgram")?,
                error_string: library.function("hiprtcGetErrorString")?,
            })
        }
    }
}

/// hiprtc, loaded and asked for its version.
#[derive(Debug)]
pub(super) struct Hiprtc {
    table: Table,
    /// The name or path it was opened by.
    library: String,
    /// `__clang_version__`, such as `20.0.0git (…)`.
    version: String,
    major: u32,
    /// Nothing promises that two threads may compile at once.
    one_at_a_time: Mutex<()>,
}

impl Hiprtc {
    /// Loads the library as [`library::HIPRTC`] looks for it, and finds out its version.
    pub(super) fn load(environment: &Environment) -> Result<Self, HipError> {
        let (table, library) = library::HIPRTC.open(environment, |opened| {
            Ok((Table::of_library(&opened)?, opened.path().to_owned()))
        })?;
        let (version, major) = (String::new(), 0);
        let mut hiprtc = Self { table, library, version, major, one_at_a_time: Mutex::new(()) };
        let object =
            hiprtc.compile("version probe", Target::Gfx90a, PROBE, &[], &["-O1".to_owned()])?;
        (hiprtc.version, hiprtc.major) =
            version_in(&object).ok_or_else(|| HipError::CompilerUnusable {
                path: hiprtc.library.clone().into(),
                reason: "its code objects do not show which LLVM it is made of".into(),
            })?;
        Ok(hiprtc)
    }

    pub(super) fn library(&self) -> &str {
        &self.library
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn major(&self) -> u32 {
        self.major
    }

    /// Compiles `source`, called `name`, to an ELF code object. The caller has made sure that this LLVM
    /// knows the target.
    pub(super) fn compile(
        &self,
        name: &'static str,
        target: Target,
        source: &str,
        headers: &[Source],
        options: &[String],
    ) -> Result<Vec<u8>, HipError> {
        let _alone = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        let program = self.create(name, source, headers)?;
        let arch = format!("--offload-arch={target}");
        let options =
            strings([arch.as_str()].into_iter().chain(options.iter().map(String::as_str)))?;
        let pointers = pointers(&options);
        // SAFETY: the program lives, and so do as many strings as are counted.
        let code = unsafe {
            (self.table.compile)(program.handle, pointers.len() as c_int, pointers.as_ptr())
        };
        if code == COMPILATION {
            return Err(HipError::CompileFailed { kernel: name, target, log: program.log()? });
        }
        self.check("hiprtcCompileProgram", code)?;
        program.code()
    }

    fn create(
        &self,
        name: &str,
        source: &str,
        headers: &[Source],
    ) -> Result<LoadedProgram<'_>, HipError> {
        let [source, name] = [source, name].map(string);
        let (source, name) = (source?, name?);
        let texts = strings(headers.iter().map(|header| header.text))?;
        let names = strings(headers.iter().map(|header| header.path))?;
        let mut handle = null_mut();
        // SAFETY: all strings end in zero, and both lists have as many as are counted; hiprtc copies
        // them.
        let code = unsafe {
            (self.table.create)(
                &raw mut handle,
                source.as_ptr(),
                name.as_ptr(),
                headers.len() as c_int,
                pointers(&texts).as_ptr(),
                pointers(&names).as_ptr(),
            )
        };
        self.check("hiprtcCreateProgram", code)?;
        Ok(LoadedProgram { hiprtc: self, handle })
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), HipError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: takes any number; the string is hiprtc's and lives as long as the process.
        let name = unsafe {
            let name = (self.table.error_string)(code);
            if name.is_null() {
                "unknown".to_owned()
            } else {
                CStr::from_ptr(name).to_string_lossy().into_owned()
            }
        };
        Err(HipError::Hiprtc { library: self.library.clone(), call, code, name })
    }
}

/// A program that is destroyed when dropped.
struct LoadedProgram<'a> {
    hiprtc: &'a Hiprtc,
    handle: Program,
}

impl LoadedProgram<'_> {
    /// What the compiler said.
    fn log(&self) -> Result<String, HipError> {
        let table = &self.hiprtc.table;
        let bytes = self.bytes(
            ["hiprtcGetProgramLogSize", "hiprtcGetProgramLog"],
            table.log_size,
            table.log,
        )?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned())
    }

    /// The code object.
    fn code(&self) -> Result<Vec<u8>, HipError> {
        let table = &self.hiprtc.table;
        self.bytes(["hiprtcGetCodeSize", "hiprtcGetCode"], table.code_size, table.code)
    }

    /// What `get` writes, which is as much as `size` says.
    fn bytes(
        &self,
        calls: [&'static str; 2],
        size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        get: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, HipError> {
        let mut length = 0;
        // SAFETY: the program lives, and the pointer is to a live integer.
        let code = unsafe { size(self.handle, &raw mut length) };
        self.hiprtc.check(calls[0], code)?;
        // At least one byte, so that the pointer below is to memory even if there is nothing to get.
        let mut bytes = vec![0u8; length.max(1)];
        // SAFETY: the buffer has the bytes that hiprtc said it would write.
        let code = unsafe { get(self.handle, bytes.as_mut_ptr().cast()) };
        self.hiprtc.check(calls[1], code)?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

impl Drop for LoadedProgram<'_> {
    fn drop(&mut self) {
        // SAFETY: made by hiprtcCreateProgram, and not destroyed before.
        let code = unsafe { (self.hiprtc.table.destroy)(&raw mut self.handle) };
        if let Err(error) = self.hiprtc.check("hiprtcDestroyProgram", code) {
            tracing::warn!(%error, "a hiprtc program was not destroyed");
        }
    }
}

/// The version in the code object of [`PROBE`], and its first number.
fn version_in(object: &[u8]) -> Option<(String, u32)> {
    let mark = MARK.as_bytes();
    let start = object.windows(mark.len()).position(|window| window == mark)? + mark.len();
    let text = CStr::from_bytes_until_nul(object.get(start..)?).ok()?.to_str().ok()?.trim();
    let major = text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    Some((text.to_owned(), major))
}

fn string(text: &str) -> Result<CString, HipError> {
    CString::new(text).map_err(|error| HipError::Io {
        what: format!("a zero byte in {text:?}"),
        source: error.into(),
    })
}

fn strings<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<CString>, HipError> {
    texts.into_iter().map(string).collect()
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_up_to_its_end() {
        let object = b"\x7fELF..lapidary llvm 20.0.0git (roc-7.0)\0rest";
        assert_eq!(version_in(object), Some(("20.0.0git (roc-7.0)".into(), 20)));
        assert_eq!(version_in(b"lapidary llvm 9"), None, "it does not end");
        assert_eq!(version_in(b"lapidary llvm git\0"), None, "no number");
        assert_eq!(version_in(b"lapidary"), None);
    }

    #[test]
    fn the_probe_carries_the_mark() {
        assert!(PROBE.contains(&format!("\"{MARK}\" __clang_version__")));
    }

    /// Real hiprtc of any age, with no GPU: headers by name, macros, a log, a code object.
    #[test]
    fn the_installed_hiprtc_compiles_for_gfx90a() {
        let hiprtc = match Hiprtc::load(&library::HIPRTC.environment()) {
            Ok(hiprtc) => hiprtc,
            Err(error @ HipError::Library(LibraryError::NotFound { .. })) => {
                let required = std::env::var_os("LAPIDARY_REQUIRE_HIP_LIBRARY");
                assert!(required.is_none(), "LAPIDARY_REQUIRE_HIP_LIBRARY is set, but {error}");
                println!("skipped: hiprtc is not installed");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        println!("{}: LLVM {}", hiprtc.library(), hiprtc.version());
        assert!(hiprtc.major() >= 15, "{}", hiprtc.version());
        let headers = [
            Source { path: "a/deep.h", text: "#pragma once\n#include \"a/deeper.h\"\n" },
            Source { path: "a/deeper.h", text: "#pragma once\n#define TWICE(x) ((x) * FACTOR)\n" },
        ];
        let compile = |body: &str| {
            let source = format!(
                "#include \"a/deep.h\"\nextern \"C\" __global__ void k(float* x) {{ {body} }}\n"
            );
            hiprtc.compile("k.hip", Target::Gfx90a, &source, &headers, &["-DFACTOR=2".to_owned()])
        };
        let object = compile("*x = TWICE(*x);").expect("it compiles");
        assert!(object.starts_with(b"\x7fELF"), "a code object");
        match compile("*x = nothing_of_that_name;") {
            Err(HipError::CompileFailed { kernel: "k.hip", target: Target::Gfx90a, log }) => {
                assert!(log.contains("nothing_of_that_name"), "{log}");
            }
            other => panic!("{other:?}"),
        }
    }
}
