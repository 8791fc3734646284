//! A stand-in for libhiprtc, built by the tests as a shared library: it hands what it is given to a
//! clang, with what real hiprtc adds (`__HIPCC_RTC__` and HIP's qualifiers) and nothing else.
//!
//! Told a version, it compiles nothing and answers with a "code object" that claims that version.

#![allow(
    non_snake_case,
    clippy::missing_safety_doc,
    reason = "the names and contracts are those of the library it stands in for"
)]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

const COMPILATION: c_int = 6;
const INTERNAL_ERROR: c_int = 11;

#[derive(Default)]
struct State {
    calls: Vec<String>,
    failures: HashMap<String, c_int>,
    clang: String,
    version: String,
    prelude: String,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

#[derive(Default)]
struct Program {
    files: Vec<(String, String)>,
    log: String,
    code: Vec<u8>,
}

fn state<T>(work: impl FnOnce(&mut State) -> T) -> T {
    let mut guard: MutexGuard<'_, Option<State>> =
        STATE.lock().unwrap_or_else(PoisonError::into_inner);
    work(guard.get_or_insert_default())
}

fn call(name: &str, details: &str) -> Result<(), c_int> {
    state(|state| {
        state.calls.push(format!("{name} {details}").trim_end().to_owned());
        state.failures.get(name).map_or(Ok(()), |&code| Err(code))
    })
}

fn answer(work: impl FnOnce() -> Result<(), c_int>) -> c_int {
    work().err().unwrap_or(0)
}

unsafe fn text(pointer: *const c_char) -> String {
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mock_fail(name: *const c_char, code: c_int) {
    let name = unsafe { text(name) };
    state(|state| match code {
        0 => drop(state.failures.remove(&name)),
        code => drop(state.failures.insert(name, code)),
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mock_clang(path: *const c_char) {
    let path = unsafe { text(path) };
    state(|state| state.clang = path);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mock_version(version: *const c_char) {
    let version = unsafe { text(version) };
    state(|state| state.version = version);
}

/// A file to include first that brings HIP's qualifiers, as real hiprtc has one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mock_prelude(path: *const c_char) {
    let path = unsafe { text(path) };
    state(|state| state.prelude = path);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mock_calls(into: *mut u8, capacity: usize) -> usize {
    let text = state(|state| std::mem::take(&mut state.calls).join("\n"));
    let length = text.len().min(capacity);
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), into, length) };
    length
}

#[unsafe(no_mangle)]
pub extern "C" fn hiprtcGetErrorString(code: c_int) -> *const c_char {
    match code {
        COMPILATION => c"HIPRTC_ERROR_COMPILATION".as_ptr(),
        INTERNAL_ERROR => c"HIPRTC_ERROR_INTERNAL_ERROR".as_ptr(),
        _ => std::ptr::null(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcCreateProgram(
    program: *mut *mut c_void,
    source: *const c_char,
    name: *const c_char,
    headers: c_int,
    texts: *const *const c_char,
    names: *const *const c_char,
) -> c_int {
    answer(|| {
        let name = unsafe { text(name) };
        call("hiprtcCreateProgram", &name)?;
        let mut files = vec![(name, unsafe { text(source) })];
        for index in 0..headers as usize {
            files.push(unsafe { (text(*names.add(index)), text(*texts.add(index))) });
        }
        let made = Box::new(Program { files, ..Program::default() });
        unsafe { *program = Box::into_raw(made).cast() };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcCompileProgram(
    program: *mut c_void,
    count: c_int,
    options: *const *const c_char,
) -> c_int {
    answer(|| {
        let options: Vec<String> =
            (0..count as usize).map(|index| unsafe { text(*options.add(index)) }).collect();
        call("hiprtcCompileProgram", &options.join(" "))?;
        let program = unsafe { &mut *program.cast::<Program>() };
        let version = state(|state| state.version.clone());
        if !version.is_empty() {
            program.code = format!("\x7fELF lapidary llvm {version}\0").into_bytes();
            return Ok(());
        }
        // Several copies of this library may be loaded; a program's address is its own.
        let own = format!("mock-hiprtc-{}-{:p}", std::process::id(), program);
        let folder = std::env::temp_dir().join(own);
        let result = program.compile(&options, &folder);
        let _ = std::fs::remove_dir_all(&folder);
        result
    })
}

impl Program {
    fn compile(&mut self, options: &[String], folder: &Path) -> Result<(), c_int> {
        for (name, text) in &self.files {
            let path = folder.join(name);
            let parent = path.parent().ok_or(INTERNAL_ERROR)?;
            std::fs::create_dir_all(parent).map_err(|_| INTERNAL_ERROR)?;
            std::fs::write(&path, text).map_err(|_| INTERNAL_ERROR)?;
        }
        let (clang, prelude) = state(|state| (state.clang.clone(), state.prelude.clone()));
        let builtins: Vec<String> = if prelude.is_empty() {
            let qualifiers = ["global", "device", "shared"];
            qualifiers.map(|q| format!("-D__{q}__=__attribute__(({q}))")).into()
        } else {
            // The macro is the compiler's own before LLVM 22; the prelude's few warnings are not ours.
            ["-D__AMDGCN_WAVEFRONT_SIZE=64", "-w", "-include", &prelude].map(str::to_owned).into()
        };
        let output = Command::new(clang)
            .current_dir(folder)
            .args(["-x", "hip", "--offload-device-only", "-nogpuinc", "-nogpulib", "-I."])
            .args(["--no-gpu-bundle-output", "-fuse-cuid=none", "-fuse-ld=lld"])
            .arg("-D__HIPCC_RTC__=1")
            .args(builtins)
            .args(options)
            .args(["-o", "out.co", &self.files[0].0])
            .output()
            .map_err(|_| INTERNAL_ERROR)?;
        self.log = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(COMPILATION);
        }
        self.code = std::fs::read(folder.join("out.co")).map_err(|_| INTERNAL_ERROR)?;
        Ok(())
    }
}

unsafe fn program<'a>(pointer: *mut c_void) -> &'a Program {
    unsafe { &*pointer.cast::<Program>() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcGetProgramLogSize(pointer: *mut c_void, size: *mut usize) -> c_int {
    answer(|| {
        call("hiprtcGetProgramLogSize", "")?;
        // As real hiprtc does, the zero at the end is counted.
        unsafe { *size = program(pointer).log.len() + 1 };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcGetProgramLog(pointer: *mut c_void, into: *mut c_char) -> c_int {
    answer(|| {
        call("hiprtcGetProgramLog", "")?;
        let log = unsafe { &program(pointer).log };
        unsafe {
            std::ptr::copy_nonoverlapping(log.as_ptr(), into.cast::<u8>(), log.len());
            *into.add(log.len()) = 0;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcGetCodeSize(pointer: *mut c_void, size: *mut usize) -> c_int {
    answer(|| {
        call("hiprtcGetCodeSize", "")?;
        unsafe { *size = program(pointer).code.len() };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcGetCode(pointer: *mut c_void, into: *mut c_char) -> c_int {
    answer(|| {
        call("hiprtcGetCode", "")?;
        let code = unsafe { &program(pointer).code };
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), into.cast::<u8>(), code.len()) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcDestroyProgram(pointer: *mut *mut c_void) -> c_int {
    answer(|| {
        call("hiprtcDestroyProgram", "")?;
        drop(unsafe { Box::from_raw((*pointer).cast::<Program>()) });
        Ok(())
    })
}
