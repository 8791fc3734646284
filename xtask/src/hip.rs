//! Finds the HIP runtime, or installs the one that Debian has.
//!
//! Debian's works without a GPU as far as the answer that there is none, which is what the tests of both
//! ways to reach the library need.

use std::path::PathBuf;

use crate::apt;
use crate::runner::Outcome;

/// Debian's packages of the library, what linking takes, and what its run-time compiler includes.
const PACKAGES: [&str; 3] = ["libamdhip64-5", "libamdhip64-dev", "libhiprtc-builtins5"];

/// The header by which the crate `hip-runtime-sys` tells where HIP is.
const HEADER: &str = "include/hip/hip_runtime_api.h";

/// Makes sure that HIP is there, installing it if `install` allows it.
///
/// Returns [`Outcome::Skipped`] with the reason if it is not.
pub(crate) fn ensure(install: bool) -> Outcome {
    if let Some(root) = root() {
        println!("HIP found in {}; nothing to install", root.display());
        return Outcome::Passed;
    }
    println!("no HIP: no {HEADER} under HIP_PATH, ROCM_PATH, /opt/rocm or /usr");
    if !install {
        return Outcome::Skipped("HIP is not installed, and --no-install was given".to_owned());
    }
    let what = "Debian's HIP runtime (19 MB to download), which the ROCm tests load and link";
    if let Err(why) = apt::install(what, &PACKAGES) {
        return Outcome::Skipped(format!("HIP is not installed, and {why}"));
    }
    match root() {
        Some(_) => Outcome::Passed,
        None => Outcome::Skipped(format!("after the installation, there is no {HEADER}")),
    }
}

/// The folder that HIP's `include` and `lib` are in.
pub(crate) fn root() -> Option<PathBuf> {
    let named = ["HIP_PATH", "ROCM_PATH"].into_iter().filter_map(std::env::var_os);
    let usual = ["/opt/rocm", "/usr"].into_iter().map(Into::into);
    named.chain(usual).map(PathBuf::from).find(|root| root.join(HEADER).is_file())
}
