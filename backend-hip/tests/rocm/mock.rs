//! Builds the stand-in for libamdhip64 and talks to it.

use std::ffi::CString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use core::ffi::{c_char, c_int};
use libloading::Library;

/// How the stand-in is built.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Like HIP 6 and 7.
    Current,
    /// Like HIP 5: the old device properties.
    Legacy,
    /// Without `hipEventDestroy`.
    Incomplete,
}

/// One loaded copy of the stand-in, with a state of its own.
pub(crate) struct Mock {
    library: Library,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Mock {
    /// A copy whose devices have these architectures.
    pub(crate) fn new(kind: Kind, archs: &[&str]) -> Self {
        static BUILT: [OnceLock<Vec<u8>>; 3] = [const { OnceLock::new() }; 3];
        let image = BUILT[kind as usize].get_or_init(|| build(kind));
        // A file of its own: the dynamic linker gives the same library for the same file.
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("libamdhip64.so");
        std::fs::write(&path, image).expect("the library");
        // SAFETY: the stand-in has no initialisers.
        let library = unsafe { Library::new(&path) }.expect("the stand-in loads");
        let mock = Self { library, path, _dir: dir };
        let archs = CString::new(archs.join("\n")).expect("text");
        // SAFETY: the type is that of the stand-in's function.
        unsafe {
            let devices = mock.library.get::<unsafe extern "C" fn(*const c_char)>(b"mock_devices");
            devices.expect("the function")(archs.as_ptr());
        }
        mock
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Makes a HIP function return `code`, or work again with 0.
    pub(crate) fn fail(&self, function: &str, code: c_int) {
        let name = CString::new(function).expect("a name");
        // SAFETY: the type is that of the stand-in's function.
        unsafe {
            let fail = self.library.get::<unsafe extern "C" fn(*const c_char, c_int)>(b"mock_fail");
            fail.expect("the function")(name.as_ptr(), code);
        }
    }

    /// The calls since the last time this was asked.
    pub(crate) fn calls(&self) -> Vec<String> {
        let mut text = vec![0u8; 1 << 20];
        // SAFETY: the type is that of the stand-in's function, which writes at most `len` bytes.
        let length = unsafe {
            let calls =
                self.library.get::<unsafe extern "C" fn(*mut u8, usize) -> usize>(b"mock_calls");
            calls.expect("the function")(text.as_mut_ptr(), text.len())
        };
        text.truncate(length);
        String::from_utf8(text).expect("text").lines().map(str::to_owned).collect()
    }
}

fn build(kind: Kind) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a directory");
    let output = dir.path().join("libamdhip64.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rocm/mock_hip.rs");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "mock_hip"]);
    match kind {
        Kind::Current => {}
        Kind::Legacy => drop(rustc.args(["--cfg", "legacy"])),
        Kind::Incomplete => drop(rustc.args(["--cfg", "incomplete"])),
    }
    // `--check-cfg` would warn of both names.
    let status = rustc
        .args(["--check-cfg", "cfg(legacy, incomplete)", "-o"])
        .arg(&output)
        .arg(source)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(status.expect("rustc runs").success(), "the stand-in does not compile");
    std::fs::read(&output).expect("the stand-in")
}
