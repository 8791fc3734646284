//! `cargo xtask test`: every check there is.

use crate::Options;
use crate::llvm;
use crate::runner::{self, Outcome, Runner, cargo};
use crate::vulkan::{self, Wanted};

const VULKAN: &str = "Vulkan device";
const LLVM: &str = "LLVM 22";

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

/// Runs all checks, whether or not an earlier one failed; true if none did.
pub(crate) fn run(options: Options) -> bool {
    let titles = [VULKAN, LLVM]
        .into_iter()
        .chain(CHECKS.map(|(title, _)| title))
        .chain([TESTS.0])
        .collect::<Vec<_>>();
    let mut runner = Runner::new(&titles);
    let device = runner.step(VULKAN, || vulkan::ensure(Wanted::Any, !options.no_install));
    let compiler = runner.step(LLVM, || llvm::ensure(!options.no_install));
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
        runner::run_tests(&mut command, &mut skips)
    });

    let mut notes = Vec::new();
    if let Outcome::Skipped(why) = device {
        notes.push(format!("the tests of the WGSL backend had no device: {why}"));
    }
    if let Outcome::Skipped(why) = compiler {
        notes.push(format!("the CDNA tests had no compiler: {why}"));
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

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}
