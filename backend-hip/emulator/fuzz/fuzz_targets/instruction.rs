//! Any bytes as an instruction of both targets: `cargo +nightly fuzz run instruction`.

#![no_main]

#[path = "../../tests/common/exercise.rs"]
#[allow(dead_code, reason = "the other target uses the rest")]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for arch in lapidary_cdna::Arch::ALL {
        exercise::instruction(arch, 0, bytes);
    }
});
