//! Installs Debian's packages where that is possible without asking.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::runner::{Outcome, run};

/// Installs `packages`, which are `what` in words, and says so first.
///
/// The error is the reason it was not done, and what to do instead.
pub(crate) fn install(what: &str, packages: &[&str]) -> Result<(), String> {
    let prefix = prefix(packages)?;
    println!("about to install {what} with apt-get: {}", packages.join(", "));
    let apt_get = |arguments: &[&str]| {
        let mut words = prefix.iter().chain(arguments).copied();
        run(Command::new(words.next().unwrap_or("apt-get")).args(words))
    };
    // A source that cannot be refreshed does not mean that the packages cannot be had.
    apt_get(&["apt-get", "update"]);
    let install = ["apt-get", "install", "--yes", "--no-install-recommends"];
    match apt_get(&[&install[..], packages].concat()) {
        Outcome::Failed(why) => Err(format!("installing it did not work: {why}")),
        Outcome::Passed | Outcome::Skipped(_) => Ok(()),
    }
}

/// The words to put before `apt-get` here, or why it cannot be used.
fn prefix(packages: &[&str]) -> Result<Vec<&'static str>, String> {
    let packages = packages.join(" ");
    if !Path::new("/etc/debian_version").exists() {
        return Err(format!(
            "this is neither Debian nor Ubuntu: install what {packages} are there"
        ));
    }
    if output_of("id", &["-u"]).as_deref() == Some("0") {
        Ok(vec!["env", "DEBIAN_FRONTEND=noninteractive"])
    } else if output_of("sudo", &["-n", "true"]).is_some() {
        Ok(vec!["sudo", "-n", "env", "DEBIAN_FRONTEND=noninteractive"])
    } else {
        Err(format!(
            "installing needs root or sudo without a password: run `apt-get install {packages}` as root"
        ))
    }
}

/// What a command printed, if it could be run and succeeded.
pub(crate) fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
