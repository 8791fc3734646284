//! A newer software Vulkan device than the system's, in a folder of its own: one that has matrix units.
//!
//! Mesa 26.1 lists cooperative matrices, 25.0 does not. Debian's archive has it with all it needs, the C library
//! included, so that nothing of the system changes and nothing is asked of it: packages are fetched and
//! checked by `apt-get` and unpacked by `dpkg`, as any user, and programs are started by the loader that
//! came with them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apt::output_of;
use crate::runner::{Outcome, run};

/// The release of Debian whose Mesa has matrix units.
const RELEASE: &str = "forky";
const ARCHIVE: &str = "http://deb.debian.org/debian";
/// What the archive's signatures are checked with.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
const PACKAGES: [&str; 2] = ["libvulkan1", "mesa-vulkan-drivers"];

/// An unpacked device.
pub(crate) struct Mesa {
    libraries: PathBuf,
    manifest: PathBuf,
}

impl Mesa {
    /// The device in the target folder, fetched first where it is not there and `fetch` allows it.
    ///
    /// The error is the reason that there is none.
    pub(crate) fn ensure(fetch: bool) -> Result<Self, String> {
        let folder = crate::root().join("target").join(format!("mesa-{RELEASE}"));
        if let Some(found) = Self::find(&folder) {
            println!("found: {}; nothing to fetch", found.manifest.display());
            return Ok(found);
        }
        if !cfg!(target_os = "linux") {
            return Err("Mesa's software device is for Linux".to_owned());
        }
        if !fetch {
            return Err("it is not there, and --no-install was given".to_owned());
        }
        if !has_eight_lanes() {
            return Err(
                "its subgroups have eight lanes, as the tests expect, on x86-64 with AVX2 only"
                    .to_owned(),
            );
        }
        if !Path::new(KEYRING).exists() {
            return Err(format!("{KEYRING}, which it is checked with, is Debian's and not here"));
        }
        let unpacked = tempfile::tempdir_in(ensured(folder.parent().unwrap_or(&folder))?)
            .map_err(|error| format!("no folder to unpack it to: {error}"))?;
        download(unpacked.path())?;
        let root = unpacked.path().join("root");
        let _ = fs::remove_dir_all(&folder);
        fs::rename(&root, &folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Self::find(&folder).ok_or_else(|| format!("{RELEASE}'s packages hold no software device"))
    }

    fn find(root: &Path) -> Option<Self> {
        let arch = std::env::consts::ARCH;
        let libraries = root.join(format!("usr/lib/{arch}-linux-gnu"));
        let manifest = root.join("usr/share/vulkan/icd.d/lvp_icd.json");
        let found = Self { libraries, manifest };
        (found.manifest.exists() && found.loader().is_some()).then_some(found)
    }

    /// The program that starts programs with this folder's libraries.
    fn loader(&self) -> Option<PathBuf> {
        Some(self.libraries.join("ld-linux-x86-64.so.2")).filter(|path| path.exists())
    }

    /// Has a `cargo` command run its programs on this device.
    pub(crate) fn runs(&self, command: &mut Command) {
        let loader = self.loader().unwrap_or_default();
        let words = [loader.as_path(), Path::new("--library-path"), &self.libraries];
        let words = words.map(|word| format!("{:?}", word.to_string_lossy())).join(", ");
        command
            .args(["--config", &format!("target.\"cfg(all())\".runner = [{words}]")])
            .env("VK_DRIVER_FILES", &self.manifest)
            .env_remove("LP_NATIVE_VECTOR_WIDTH");
    }
}

/// Whether the software device has vectors, and so subgroups, of eight lanes here.
fn has_eight_lanes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

fn ensured(folder: &Path) -> Result<&Path, String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Fetches the packages and unpacks them to the folder `root` of `folder`.
fn download(folder: &Path) -> Result<(), String> {
    println!("about to fetch Mesa of Debian {RELEASE} from {ARCHIVE} to the folder target, 80 MB");
    let at = |name: &str| folder.join(name);
    for name in ["lists/partial", "cache/archives/partial", "root"] {
        ensured(&at(name))?;
    }
    let source = format!("deb [signed-by={KEYRING}] {ARCHIVE} {RELEASE} main\n");
    for (name, text) in [("sources.list", source.as_str()), ("status", "")] {
        fs::write(at(name), text).map_err(|error| format!("{name}: {error}"))?;
    }
    let options = [
        ("Dir::Etc::SourceList", at("sources.list")),
        ("Dir::Etc::SourceParts", PathBuf::from("/dev/null")),
        ("Dir::State::Lists", at("lists")),
        // Nothing that the system's preferences would rather install or leave.
        ("Dir::Etc::Preferences", PathBuf::from("/dev/null")),
        ("Dir::Etc::PreferencesParts", PathBuf::from("/dev/null")),
        ("APT::Default-Release", PathBuf::from(RELEASE)),
        // As if nothing were installed: all that it needs comes along.
        ("Dir::State::status", at("status")),
        ("Dir::Cache", at("cache")),
    ];
    let apt_get = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        for (name, value) in &options {
            command.arg(format!("-o{name}={}", value.display()));
        }
        // The sandbox's user cannot write to folders of this one.
        let user = output_of("id", &["-un"]).unwrap_or_default();
        command.arg(format!("-oAPT::Sandbox::User={user}")).arg("-oAcquire::Languages=none");
        match run(command.args(["--quiet=2", "-oDebug::NoLocking=1"]).args(arguments)) {
            Outcome::Failed(why) => Err(format!("fetching it did not work: {why}")),
            Outcome::Passed | Outcome::Skipped(_) => Ok(()),
        }
    };
    apt_get(&["update"])?;
    let install = ["install", "--download-only", "--yes", "--no-install-recommends"];
    apt_get(&[&install[..], &PACKAGES].concat())?;
    let archives = fs::read_dir(at("cache/archives")).map_err(|error| error.to_string())?;
    for archive in archives.flatten().map(|entry| entry.path()) {
        if archive.extension().is_some_and(|extension| extension == "deb") {
            let status = Command::new("dpkg").arg("-x").arg(&archive).arg(at("root")).status();
            if !status.is_ok_and(|status| status.success()) {
                return Err(format!("{} cannot be unpacked", archive.display()));
            }
        }
    }
    Ok(())
}
