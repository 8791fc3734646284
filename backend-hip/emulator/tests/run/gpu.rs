//! Compiling a source once for each configuration, and running its kernels with all checks on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lapidary_cdna::Arch;
use lapidary_cdna::exec::{Launch, Machine, Prepared, Report};
use lapidary_cdna::loader::{ArgValue, CodeObject};

use super::llvm;

/// The optimisation levels that every kernel runs at.
pub(crate) const LEVELS: [&str; 3] = ["-O1", "-O2", "-O3"];

/// Whether clang is there; says so if not.
pub(crate) fn available() -> bool {
    match llvm::missing(&[llvm::CLANG]) {
        None => true,
        Some(tool) => {
            println!("skipped: no {tool}");
            false
        }
    }
}

pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/kernels").join(name)
}

type Key = (String, Arch, Vec<String>);

static COMPILED: Mutex<Option<HashMap<Key, Arc<CodeObject>>>> = Mutex::new(None);

/// The code object of a source under `tests/run/kernels`, compiled once in a test run.
pub(crate) fn compile(name: &str, arch: Arch, options: &[&str]) -> Arc<CodeObject> {
    let key = (name.to_owned(), arch, options.iter().map(|o| (*o).to_owned()).collect::<Vec<_>>());
    let mut compiled = COMPILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let compiled = compiled.get_or_insert_default();
    if let Some(object) = compiled.get(&key) {
        return Arc::clone(object);
    }
    let file = llvm::compile(&source(name), arch, options)
        .unwrap_or_else(|errors| panic!("{name} for {arch} with {options:?}:\n{errors}"));
    let object = Arc::new(CodeObject::parse(&std::fs::read(&file).unwrap()).unwrap());
    compiled.insert(key, Arc::clone(&object));
    object
}

/// Element types that go to and from memory.
pub(crate) trait Element: Copy {
    const BYTES: usize;
    fn put(self, out: &mut Vec<u8>);
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! element {
    ($($t:ty),+) => {
        $(impl Element for $t {
            const BYTES: usize = size_of::<$t>();
            fn put(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn get(bytes: &[u8]) -> $t {
                <$t>::from_le_bytes(bytes.try_into().unwrap())
            }
        })+
    };
}
element!(u8, i8, u16, i32, u32, u64, f32, f64);

/// A device for one launch.
pub(crate) struct Gpu {
    pub(crate) machine: Machine,
    pub(crate) launch: Launch,
}

/// A device buffer's address.
#[derive(Clone, Copy)]
pub(crate) struct Buffer(pub u64);

impl From<Buffer> for ArgValue {
    fn from(buffer: Buffer) -> ArgValue {
        ArgValue::U64(buffer.0)
    }
}

impl Gpu {
    pub(crate) fn new(grid: [u32; 3], workgroup: [u32; 3]) -> Gpu {
        let launch = Launch { grid, workgroup, threads: Some(1), ..Launch::default() };
        Gpu { machine: Machine::new(), launch }
    }

    /// A read-only buffer exactly as large as the data.
    pub(crate) fn input<T: Element>(&mut self, name: &str, data: &[T]) -> Buffer {
        Buffer(self.machine.memory.alloc_read_only(name, &bytes(data)).unwrap())
    }

    /// A buffer that the kernel updates.
    pub(crate) fn inout<T: Element>(&mut self, name: &str, data: &[T]) -> Buffer {
        Buffer(self.machine.memory.alloc_from(name, &bytes(data)).unwrap())
    }

    /// A buffer of `count` elements that holds nothing.
    pub(crate) fn output<T: Element>(&mut self, name: &str, count: usize) -> Buffer {
        Buffer(self.machine.memory.alloc(name, (count * T::BYTES) as u64).unwrap())
    }

    pub(crate) fn read<T: Element>(&self, buffer: Buffer, count: usize) -> Vec<T> {
        let bytes = self.machine.memory.read(buffer.0, count * T::BYTES).unwrap();
        bytes.chunks_exact(T::BYTES).map(T::get).collect()
    }

    /// Launches and returns the report.
    pub(crate) fn report(
        &mut self,
        object: &Arc<CodeObject>,
        kernel: &str,
        args: Vec<ArgValue>,
    ) -> Report {
        let prepared = Prepared::new(object, kernel).unwrap_or_else(|error| panic!("{error}"));
        self.launch.args = args;
        self.machine
            .launch(&prepared, &self.launch)
            .unwrap_or_else(|error| panic!("{} {kernel}: {error}", object.arch))
    }

    /// Launches and insists that no check finds anything.
    pub(crate) fn run(
        &mut self,
        object: &Arc<CodeObject>,
        kernel: &str,
        args: Vec<ArgValue>,
    ) -> Report {
        let report = self.report(object, kernel, args);
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(report.is_clean(), "{}: {}", object.arch, findings.join("\n"));
        report
    }
}

pub(crate) fn bytes<T: Element>(data: &[T]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() * T::BYTES);
    for &x in data {
        x.put(&mut out);
    }
    out
}

/// Runs a body for both targets at every level.
pub(crate) fn everywhere(source: &str, body: impl Fn(&Arc<CodeObject>)) {
    if !available() {
        return;
    }
    for arch in Arch::ALL {
        for level in LEVELS {
            body(&compile(source, arch, &[level]));
        }
    }
}

/// Small pseudo-random numbers, the same in every run.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 24
    }

    /// From -n to n.
    pub(crate) fn small(&mut self, n: i32) -> i32 {
        (self.next() % (2 * n as u64 + 1)) as i32 - n
    }

    /// In [-1, 1).
    pub(crate) fn unit(&mut self) -> f32 {
        (self.next() & 0xff_ffff) as f32 / 8_388_608.0 - 1.0
    }
}
