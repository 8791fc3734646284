//! Builds the stand-ins for ROCm's libraries and talks to them.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use core::ffi::{c_char, c_int};
use libloading::Library;

/// Which stand-in, and how it is built.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Like HIP 6 and 7.
    Current,
    /// Like HIP 5: the old device properties.
    Legacy,
    /// Without `hipEventDestroy`.
    Incomplete,
    /// hiprtc.
    Hiprtc,
}

/// One loaded copy of the stand-in, with a state of its own.
pub(crate) struct Mock {
    library: Library,
    path: PathBuf,
    _dir: tempfile::TempDir,
}

impl Mock {
    /// A stand-in for HIP whose devices have these architectures.
    pub(crate) fn new(kind: Kind, archs: &[&str]) -> Self {
        let mock = Self::load(kind);
        mock.set("mock_devices", &archs.join("\n"));
        mock
    }

    /// A stand-in.
    pub(crate) fn load(kind: Kind) -> Self {
        static BUILT: [OnceLock<Vec<u8>>; 4] = [const { OnceLock::new() }; 4];
        let image = BUILT[kind as usize].get_or_init(|| build(kind));
        // A file of its own: the dynamic linker gives the same library for the same file.
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("stand-in.so");
        std::fs::write(&path, image).expect("the library");
        // SAFETY: the stand-ins have no initialisers.
        let library = unsafe { Library::new(&path) }.expect("the stand-in loads");
        Self { library, path, _dir: dir }
    }

    /// Calls one of the stand-in's own functions that take a text.
    pub(crate) fn set(&self, function: &str, value: &str) {
        let value = CString::new(value).expect("text");
        // SAFETY: the type is that of the stand-in's functions with a text.
        unsafe {
            let set = self.library.get::<unsafe extern "C" fn(*const c_char)>(function.as_bytes());
            set.expect("the function")(value.as_ptr());
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Calls one of the stand-in's own functions that take a pointer.
    ///
    /// # Safety
    /// The function takes a pointer to a `T` of the stand-in's layout.
    #[cfg(feature = "emulator")]
    pub(crate) unsafe fn call<T>(&self, function: &str, value: &T) {
        // SAFETY: the caller says so.
        unsafe {
            let call = self.library.get::<unsafe extern "C" fn(*const T)>(function.as_bytes());
            call.expect("the function")(value);
        }
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
    let output = dir.path().join("stand-in.so");
    let (source, cfg) = match kind {
        Kind::Current => ("mock_hip.rs", "current"),
        Kind::Legacy => ("mock_hip.rs", "legacy"),
        Kind::Incomplete => ("mock_hip.rs", "incomplete"),
        Kind::Hiprtc => ("mock_hiprtc.rs", "current"),
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rocm").join(source);
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "stand_in"]);
    let status = rustc
        .args(["--check-cfg", "cfg(current, legacy, incomplete)", "--cfg", cfg, "-o"])
        .arg(&output)
        .arg(source)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(status.expect("rustc runs").success(), "the stand-in does not compile");
    std::fs::read(&output).expect("the stand-in")
}
