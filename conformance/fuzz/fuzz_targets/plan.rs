//! Any bytes as a plan: `cargo +nightly fuzz run plan`.

#![no_main]

#[path = "../../tests/common/exercise.rs"]
#[allow(dead_code, reason = "the other targets use the rest")]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::plan(bytes));
