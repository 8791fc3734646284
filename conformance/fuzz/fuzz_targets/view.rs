//! Any bytes as a view: `cargo +nightly fuzz run view`.

#![no_main]

#[path = "../../tests/common/exercise.rs"]
#[allow(dead_code, reason = "the other targets use the rest")]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::view(bytes));
