//! Any bytes as an `.npy`, `.npz` or safetensors file: `cargo +nightly fuzz run array_file`.

#![no_main]

#[path = "../../../cli/src/io/mod.rs"]
#[allow(dead_code, reason = "files are only read here")]
mod io;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, bytes)) = bytes.split_first() else { return };
    let ending = ["npy", "npz", "safetensors"][usize::from(kind) % 3];
    let path = std::env::temp_dir().join(format!("lapidary-fuzz-{}.{ending}", std::process::id()));
    if std::fs::write(&path, bytes).is_ok() {
        let bar = indicatif::ProgressBar::hidden();
        let _ = io::load(&path.to_string_lossy(), &bar).map_err(|error| error.to_string());
    }
});
