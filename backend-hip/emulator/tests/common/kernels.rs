//! The kernel sources under `tests`, compiled in every configuration of the corpus.

use std::path::{Path, PathBuf};

use lapidary_cdna::Arch;

use super::llvm::compile;

/// A compiled kernel file.
pub struct Compiled {
    /// Source file, target and options.
    pub name: String,
    pub arch: Arch,
    pub object: tempfile::TempPath,
}

/// The sources of the corpus and of the kernels that the tests run, sorted by path.
pub fn sources() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = ["tests/kernels", "tests/run/kernels"]
        .iter()
        .map(|dir| Path::new(env!("CARGO_MANIFEST_DIR")).join(dir))
        .flat_map(|dir| std::fs::read_dir(dir).expect("the kernels are there"))
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "hip"))
        .collect();
    files.sort();
    files
}

/// Compiles one source for one target. Sources whose first line is `// gfx950` exist for that target only.
pub fn build(source: &Path, arch: Arch, options: &[&str]) -> Option<Compiled> {
    let text = std::fs::read_to_string(source).expect("the source is readable");
    if text.starts_with("// gfx950") && arch != Arch::Gfx950 {
        return None;
    }
    let stem = source.file_stem().and_then(|s| s.to_str()).unwrap_or("kernel");
    let name = format!("{stem} {arch} {}", options.join(" "));
    match compile(source, arch, options) {
        Ok(object) => Some(Compiled { name, arch, object }),
        Err(errors) => panic!("{name} does not compile:\n{errors}"),
    }
}

/// The option sets of the corpus; those from 1 to 3 are the optimisation levels that kernels are shipped with.
pub const CONFIGURATIONS: [&[&str]; 5] = [
    &["-O0"],
    &["-O1"],
    &["-O2"],
    &["-O3"],
    &["-O3", "-ffast-math", "-mllvm", "-amdgpu-kernarg-preload-count=8"],
];

/// Every source with each of the option sets on both targets, two compilations at a time.
pub fn build_all(configurations: &[&'static [&'static str]]) -> Vec<Compiled> {
    let mut jobs = Vec::new();
    for source in sources() {
        for arch in Arch::ALL {
            for options in configurations {
                jobs.push((source.clone(), arch, *options));
            }
        }
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let done = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some((source, arch, options)) = jobs.get(i) else { break };
                    if let Some(compiled) = build(source, *arch, options) {
                        done.lock().expect("no thread panicked").push((i, compiled));
                    }
                }
            });
        }
    });
    let mut all = done.into_inner().expect("no thread panicked");
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, compiled)| compiled).collect()
}
