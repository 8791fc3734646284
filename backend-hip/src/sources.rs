//! The kernels' sources, embedded, so that a program needs no files beside it.

/// A source file: its path relative to the kernel directory, and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a name and a text")]
pub struct Source {
    /// The path that `#include` lines use.
    pub path: &'static str,
    /// The text.
    pub text: &'static str,
}

macro_rules! sources {
    ($($path:literal),* $(,)?) => {
        &[$(Source { path: $path, text: include_str!(concat!("../kernels/", $path)) }),*]
    };
}

/// Every file under `kernels/`.
pub const ALL: &[Source] = sources![
    "common/gpu.h",
    "common/activation.h",
    "preshuffle.hip",
    "preshuffle/config.h",
    "preshuffle/args.h",
    "preshuffle/mma.h",
    "preshuffle/a_strip.h",
    "preshuffle/block_scales.h",
    "preshuffle/b_strip.h",
    "preshuffle/schedule.h",
    "preshuffle/quad.h",
    "preshuffle/finish.h",
    "preshuffle/epilogue.h",
    "preshuffle/order.h",
    "reduce.hip",
    "pack_a.hip",
    "pack_b.hip",
    "pack_scales.hip",
    "store.hip",
    "steps/common.h",
    "steps/buffers.h",
    "steps/buffered_loop.h",
    "steps/vector_load.h",
    "steps/1_naive.hip",
    "steps/2_workgroup_tile.hip",
    "steps/3_register_tile.hip",
    "steps/4_buffered.hip",
    "steps/5_vectorized.hip",
    "steps/6_occupancy.hip",
    "generic.hip",
    "generic/tile.h",
    "generic/compute.h",
];

/// `main` and every file it includes, directly or not, each once, `main` first.
///
/// Empty if there is no such file. Includes of unknown files are left to the compiler to report.
#[must_use]
pub fn closure(main: &str) -> Vec<Source> {
    let mut found: Vec<Source> = ALL.iter().filter(|source| source.path == main).copied().collect();
    let mut next = 0;
    while let Some(source) = found.get(next).copied() {
        for path in includes(source.text) {
            if let Some(included) = ALL.iter().find(|s| s.path == path)
                && !found.contains(included)
            {
                found.push(*included);
            }
        }
        next += 1;
    }
    found
}

fn includes(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.trim().strip_prefix("#include \"")?.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_file_of_the_directory_is_embedded() {
        fn walk(dir: &Path, root: &Path, into: &mut BTreeSet<String>) {
            for entry in std::fs::read_dir(dir).expect("the kernel directory") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    walk(&path, root, into);
                } else {
                    let name = path.strip_prefix(root).expect("under the root");
                    into.insert(name.to_string_lossy().replace('\\', "/"));
                }
            }
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let mut files = BTreeSet::new();
        walk(&root, &root, &mut files);
        let embedded: BTreeSet<String> = ALL.iter().map(|s| s.path.to_owned()).collect();
        assert_eq!(files, embedded);
    }

    #[test]
    fn includes_resolve_and_headers_have_a_user() {
        let mains = ALL.iter().filter(|s| s.path.ends_with(".hip"));
        let mut used = BTreeSet::new();
        for main in mains {
            for source in closure(main.path) {
                used.insert(source.path);
                for path in includes(source.text) {
                    assert!(ALL.iter().any(|s| s.path == path), "{}: {path}", source.path);
                }
            }
        }
        assert_eq!(used.len(), ALL.len());
    }
}
