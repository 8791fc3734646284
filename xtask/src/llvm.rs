//! Finds the LLVM tools that compile and disassemble kernels for CDNA, or installs them.

use crate::apt;
use crate::runner::Outcome;

/// Debian's packages of the compiler, the linker, and the assembler and disassembler.
const PACKAGES: [&str; 3] = ["clang-22", "lld-22", "llvm-22"];

/// One program of each package.
const PROGRAMS: [&str; 3] = ["clang-22", "ld.lld-22", "llvm-mc-22"];

/// Makes sure that the tools are there, installing them if `install` allows it.
///
/// Returns [`Outcome::Skipped`] with the reason if they are not.
pub(crate) fn ensure(install: bool) -> Outcome {
    let Some(missing) = missing() else {
        println!("LLVM 22 found; nothing to install");
        return Outcome::Passed;
    };
    let missing = format!("{missing} is not installed");
    println!("no LLVM 22: {missing}");
    if !install {
        return Outcome::Skipped(format!("{missing}, and --no-install was given"));
    }
    if let Err(why) = apt::install("LLVM 22, which compiles kernels for CDNA", &PACKAGES) {
        return Outcome::Skipped(format!("{missing}, and {why}"));
    }
    match self::missing() {
        None => Outcome::Passed,
        Some(program) => Outcome::Skipped(format!("after the installation, there is no {program}")),
    }
}

fn missing() -> Option<&'static str> {
    PROGRAMS.into_iter().find(|program| apt::output_of(program, &["--version"]).is_none())
}
