//! `cargo xtask test`: every check there is.

use std::process::{Command, Stdio};

use crate::Options;
use crate::hip;
use crate::llvm;
use crate::mesa::Mesa;
use crate::runner::{self, Outcome, Runner, cargo};
use crate::vulkan::{self, Wanted};

const VULKAN: &str = "Vulkan device";
const LLVM: &str = "LLVM 22";
const HIP: &str = "HIP runtime";

/// Title and command of each check. One profile throughout, and features that only add, so that
/// dependencies are built once for the lints and once for the tests.
const CHECKS: [(&str, &str); 5] = [
    ("Formatting", "fmt --all --check"),
    (
        "Lints",
        "clippy --workspace --all-targets --features lapidary-core/ndarray,lapidary-core/faer \
         -- -D warnings",
    ),
    (
        "Core without default features",
        "clippy -p lapidary-core --no-default-features -- -D warnings",
    ),
    (
        "WGSL backend without default features",
        "clippy -p lapidary-wgsl --no-default-features -- -D warnings",
    ),
    ("Documentation", "doc --workspace --no-deps"),
];

const TESTS: (&str, &str) = (
    "Tests",
    "test --workspace --no-fail-fast --features lapidary-core/ndarray,lapidary-core/faer \
     -- --show-output",
);

/// The HIP runtime is loaded at run time in the tests above; this is the other way to reach it.
const LINKED: (&str, &str) = (
    "HIP runtime linked",
    "test --workspace --test rocm \
     --features lapidary-core/ndarray,lapidary-core/faer,lapidary-hip/hip-runtime-sys \
     -- --show-output library",
);

/// What the system's software device does not have: matrix units.
const MATRIX_UNITS: (&str, [&str; 2]) = (
    "Matrix units in software",
    [
        "test --workspace --test matrix_units --test narrow --test copies --no-fail-fast \
         --features lapidary-core/ndarray,lapidary-core/faer -- --show-output",
        "test --workspace --test planted \
         --features lapidary-core/ndarray,lapidary-core/faer -- --show-output on_matrix_units",
    ],
);

/// Set where matrix units are known to be there: their absence is then a failure, no reason to skip.
const REQUIRE_UNITS: (&str, &str) = ("LAPIDARY_REQUIRE_MATRIX_UNITS", "1");

/// Views, layouts, validation and quantisation of the core, without undefined behaviour: what needs
/// minutes in an interpreter is left out, and so is the CPU backend, whose vector instructions it does
/// not know.
const MIRI: (&str, &str) = (
    "Miri",
    "run nightly cargo miri test -p lapidary-core --no-default-features --lib \
     -- view:: quantize:: layout:: operands:: problem:: --skip bounds_agree_with_enumeration",
);

/// Set where the HIP runtime is known to be there: its absence is then a failure, no reason to skip.
const REQUIRE_HIP: (&str, &str) = ("LAPIDARY_REQUIRE_HIP_LIBRARY", "1");

/// Runs all checks, whether or not an earlier one failed; true if none did.
pub(crate) fn run(options: Options) -> bool {
    let titles = [VULKAN, LLVM, HIP]
        .into_iter()
        .chain(CHECKS.map(|(title, _)| title))
        .chain([TESTS.0, MATRIX_UNITS.0, LINKED.0, MIRI.0])
        .collect::<Vec<_>>();
    let mut runner = Runner::new(&titles);
    let device = runner.step(VULKAN, || vulkan::ensure(Wanted::Any, !options.no_install));
    let compiler = runner.step(LLVM, || llvm::ensure(!options.no_install));
    let hip = runner.step(HIP, || hip::ensure(!options.no_install));
    for (title, line) in CHECKS {
        runner.step(title, || run_check(line));
    }
    let mut skips = Vec::new();
    runner.step(TESTS.0, || {
        let mut command = cargo(&words(TESTS.1));
        if device == Outcome::Passed {
            // A device that is there but does not open is a failure, not a reason to skip.
            command.env("LAPIDARY_REQUIRE_GPU", "1");
        }
        if hip == Outcome::Passed {
            command.env(REQUIRE_HIP.0, REQUIRE_HIP.1);
        }
        runner::run_tests(&mut command, &mut skips)
    });
    let units = runner.step(MATRIX_UNITS.0, || {
        let mesa = match Mesa::ensure(!options.no_install) {
            Ok(mesa) => mesa,
            Err(why) => return Outcome::Skipped(why),
        };
        let outcomes = MATRIX_UNITS.1.map(|line| {
            let mut command = cargo(&[]);
            mesa.runs(&mut command);
            command.args(words(line)).env("LAPIDARY_REQUIRE_GPU", "1");
            runner::run_tests(command.env(REQUIRE_UNITS.0, REQUIRE_UNITS.1), &mut skips)
        });
        outcomes.into_iter().find(|outcome| *outcome != Outcome::Passed).unwrap_or(Outcome::Passed)
    });
    runner.step(LINKED.0, || run_linked(&hip));
    let miri = runner.step(MIRI.0, run_miri);

    let mut notes = Vec::new();
    if let Outcome::Skipped(why) = device {
        notes.push(format!("the tests of the WGSL backend had no device: {why}"));
    }
    if let Outcome::Skipped(why) = compiler {
        notes.push(format!("the CDNA tests had no compiler: {why}"));
    }
    if let Outcome::Skipped(why) = hip {
        notes.push(format!("the ROCm tests had no HIP runtime: {why}"));
    }
    if units == Outcome::Passed {
        // What the system's device lacks ran on the newer one.
        let ran = ["cooperative matrices", "matrix units"];
        skips.retain(|reason| !ran.iter().any(|words| reason.contains(words)));
    }
    if let Outcome::Skipped(why) = units {
        notes.push(format!("the kernels on matrix units had no software device to run on: {why}"));
    }
    if let Outcome::Skipped(why) = miri {
        notes.push(format!("nothing ran under Miri: {why}"));
    }
    skips.sort();
    notes.push(format!("tests that skipped something: {}", skips.len()));
    skips.dedup();
    notes.extend(skips.iter().map(|reason| format!("  skipped: {reason}")));
    runner.finish(&notes)
}

fn run_check(line: &str) -> Outcome {
    let mut command = cargo(&words(line));
    if line.starts_with("doc ") {
        // The other commands take the flag as an argument.
        command.env("RUSTDOCFLAGS", "-D warnings");
    }
    runner::run(&mut command)
}

/// Links the HIP runtime that `hip` says is there, and asks it for a device.
fn run_linked(hip: &Outcome) -> Outcome {
    let Some(root) = hip::root().filter(|_| *hip == Outcome::Passed) else {
        return Outcome::Skipped("there is no HIP runtime to link".to_owned());
    };
    let mut command = cargo(&words(LINKED.1));
    command.env("LD_LIBRARY_PATH", root.join("lib")).env("HIP_PATH", &root);
    runner::run(command.env(REQUIRE_HIP.0, REQUIRE_HIP.1))
}

/// Runs the tests under Miri where a nightly toolchain has it and can build the standard library for it.
fn run_miri() -> Outcome {
    let nightly = |line: &str| {
        let mut command = Command::new("rustup");
        command.args(words(line)).current_dir(crate::root());
        command
    };
    for (line, why) in [
        ("run nightly cargo miri --version", "Miri is not installed"),
        ("run nightly cargo miri setup", "its standard library cannot be built"),
    ] {
        let mut command = nightly(line);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        if !command.status().is_ok_and(|status| status.success()) {
            return Outcome::Skipped(why.to_owned());
        }
    }
    // Property tests look for the file of their earlier failures, and take fewer examples here.
    let mut command = nightly(MIRI.1);
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "16");
    runner::run(&mut command)
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
