//! Any bytes as a code object. Seed the corpus with compiled kernels: `cargo +nightly fuzz run code_object SEEDS`.

#![no_main]

#[path = "../../tests/common/exercise.rs"]
#[allow(dead_code, reason = "the other target uses the rest")]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::code_object(bytes));
