//! Bugs in host code: a copy of the sources is patched, built and run.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::{Bug, Kill, PlantError};
use crate::check::Fault;
use crate::tier::Tier;

/// Crates that the copy consists of.
const CRATES: [&str; 4] = ["core", "backend-wgsl", "backend-hip", "conformance"];

/// Folders of a crate that its library and its examples are built from.
const FOLDERS: [&str; 6] = ["src", "examples", "cases", "planted", "shaders", "kernels"];

/// The emulator, a dependency, and where it is: no bugs are planted in it, so that it is built once.
const EMULATOR: [&str; 2] = ["lapidary-cdna", "backend-hip/emulator"];

/// The file that describes a crate.
const MANIFEST: &str = "Cargo.toml";

/// The program in the copy that says who noticed.
const PROGRAM: &str = "planted_host";

/// A copy of the sources in the target directory, in which bugs are planted one after the other. It is
/// kept, so that each build starts from the last.
#[derive(Debug)]
pub struct HostLab {
    root: PathBuf,
    copy: PathBuf,
    target: PathBuf,
}

/// What the program prints.
#[derive(Deserialize)]
struct Answer {
    noticed: Option<Tier>,
    message: String,
    passes_bound: Option<bool>,
}

fn failed(what: impl Into<String>, message: impl ToString) -> PlantError {
    PlantError::Host { what: what.into(), message: message.to_string() }
}

impl HostLab {
    /// Copies the sources of the repository that this crate was built from.
    ///
    /// # Errors
    /// [`PlantError::Host`] if they are not there any more, or cannot be copied.
    pub fn new() -> Result<Self, PlantError> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .filter(|root| root.join("core/src/lib.rs").exists())
            .ok_or_else(|| {
                failed("planting bugs in host code", "it needs a checkout of the sources")
            })?
            .to_owned();
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let copy = target.join("planted");
        let lab = Self { root, copy, target };
        let _alone = lab.alone()?;
        for name in CRATES {
            lab.copy_folder(name)?;
        }
        lab.write_manifests()?;
        Ok(lab)
    }

    /// Waits until nobody else plants in the copy, which all tests and processes with this target
    /// directory share; others wait until what it returns is dropped.
    fn alone(&self) -> Result<File, PlantError> {
        let path = self.target.join("planted.lock");
        let error = |error: std::io::Error| failed(format!("locking {}", path.display()), error);
        std::fs::create_dir_all(&self.target).map_err(error)?;
        let file = File::create(&path).map_err(error)?;
        file.lock().map_err(error)?;
        Ok(file)
    }

    /// Copies a folder, and removes what is no longer in it from an older copy: a module that has moved
    /// would be found in two places.
    fn copy_folder(&self, folder: &str) -> Result<(), PlantError> {
        let from = self.root.join(folder);
        let to = self.copy.join(folder);
        let error = |error: std::io::Error| failed(format!("copying {}", from.display()), error);
        std::fs::create_dir_all(&to).map_err(error)?;
        let mut copied = HashSet::new();
        for entry in std::fs::read_dir(&from).map_err(error)? {
            let entry = entry.map_err(error)?;
            let file_name = entry.file_name();
            let name = file_name.to_string_lossy();
            let path = format!("{folder}/{name}");
            if entry.file_type().map_err(error)?.is_dir() {
                // Neither what fuzzing leaves behind nor crates within crates.
                if !FOLDERS.contains(&&*name) && !folder.contains('/') {
                    continue;
                }
                self.copy_folder(&path)?;
            } else if folder.contains('/') || name != MANIFEST {
                self.write(&path, &std::fs::read_to_string(entry.path()).map_err(error)?)?;
            }
            // The manifest among them: it is written apart.
            copied.insert(file_name);
        }
        for entry in std::fs::read_dir(&to).map_err(error)? {
            let entry = entry.map_err(error)?;
            if copied.contains(&entry.file_name()) {
                continue;
            }
            let removed = match entry.file_type().map_err(error)?.is_dir() {
                true => std::fs::remove_dir_all(entry.path()),
                false => std::fs::remove_file(entry.path()),
            };
            removed.map_err(error)?;
        }
        Ok(())
    }

    /// Writes a file of the copy, unless it has that text already: a build looks at times.
    fn write(&self, path: &str, text: &str) -> Result<(), PlantError> {
        let to = self.copy.join(path);
        if std::fs::read_to_string(&to).is_ok_and(|old| old == text) {
            return Ok(());
        }
        std::fs::write(&to, text)
            .map_err(|error| failed(format!("writing {}", to.display()), error))
    }

    fn read(&self, path: &str) -> Result<String, PlantError> {
        let from = self.root.join(path);
        std::fs::read_to_string(&from)
            .map_err(|error| failed(format!("reading {}", from.display()), error))
    }

    /// The workspace of the copied crates alone.
    fn write_manifests(&self) -> Result<(), PlantError> {
        let parse = |text: &str| text.parse::<toml::Table>().map_err(|e| failed("a manifest", e));
        let mut workspace = parse(&self.read(MANIFEST)?)?;
        if let Some(toml::Value::Table(table)) = workspace.get_mut("workspace") {
            table.insert("members".into(), CRATES.to_vec().into());
            table.remove("exclude");
            let [name, place] = EMULATOR;
            if let Some(path) = table
                .get_mut("dependencies")
                .and_then(|dependencies| dependencies.get_mut(name)?.get_mut("path"))
            {
                *path = self.root.join(place).display().to_string().into();
            }
        }
        // The same profile, so that dependencies are taken as they were built; but what is built a dozen
        // times is better built fast than made fast.
        if let Some(packages) = workspace
            .get_mut("profile")
            .and_then(|profile| profile.get_mut("dev")?.get_mut("package"))
            .and_then(toml::Value::as_table_mut)
        {
            packages.retain(|name, _| name == EMULATOR[0]);
        }
        self.write(MANIFEST, &workspace.to_string())?;
        for name in CRATES {
            let path = format!("{name}/{MANIFEST}");
            let mut manifest = parse(&self.read(&path)?)?;
            // Neither tests nor what they need; examples are found where they lie.
            for part in ["dev-dependencies", "test", "bench", "example"] {
                manifest.remove(part);
            }
            self.write(&path, &manifest.to_string())?;
        }
        self.write("Cargo.lock", &self.read("Cargo.lock")?)
    }

    /// Plants a bug, builds, runs, and takes the bug out again.
    ///
    /// # Errors
    /// [`PlantError`] if it does not fit, does not build, or gives no answer.
    pub fn run(&self, bug: &Bug) -> Result<Kill, PlantError> {
        let _alone = self.alone()?;
        let file = bug.file().unwrap_or_default().to_owned();
        let original = self.read(&file)?;
        self.write(&file, &bug.apply(&original)?)?;
        let answer = self.build_and_run(bug);
        self.write(&file, &original)?;
        let answer = answer?;
        let fault = answer.noticed.map(|tier| Fault { tier, message: answer.message });
        Ok(Kill::new(bug, fault, answer.passes_bound))
    }

    fn build_and_run(&self, bug: &Bug) -> Result<Answer, PlantError> {
        let (name, feature) = (&bug.name, bug.feature().unwrap_or_default());
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build
            .current_dir(&self.copy)
            .env("CARGO_TARGET_DIR", &self.target)
            // What cargo sets for the crate whose test this is.
            .env_remove("CARGO_MANIFEST_DIR")
            .args(["build", "--quiet", "-p", "lapidary-conformance", "--example", PROGRAM])
            .args(["--no-default-features", "--features", feature]);
        let output = build.output().map_err(|error| failed("running cargo", error))?;
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stderr);
            return Err(failed(format!("building {name}"), log.trim()));
        }
        let program = self.target.join("debug/examples").join(PROGRAM);
        let output = Command::new(&program)
            .arg(name)
            .output()
            .map_err(|error| failed(format!("running {}", program.display()), error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        toml::from_str(&text).map_err(|error| {
            let log = String::from_utf8_lossy(&output.stderr);
            failed(format!("{name} gave no answer"), format!("{error}; {}", log.trim()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_sources_no_longer_have_leaves_the_copy() {
        let folder = std::env::temp_dir().join(format!("lapidary-copy-{}", std::process::id()));
        let (root, target) = (folder.join("root"), folder.join("target"));
        let write = |path: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            std::fs::write(&path, "// text").expect("it is written");
        };
        let lab =
            HostLab { copy: target.join("planted"), root: root.clone(), target: target.clone() };
        for path in ["core/src/lib.rs", "core/src/moved.rs", "core/src/gone/mod.rs"] {
            write(path);
        }
        lab.copy_folder("core").expect("it is copied");
        assert!(lab.copy.join("core/src/gone/mod.rs").exists());
        std::fs::remove_file(root.join("core/src/moved.rs")).expect("it is there");
        std::fs::remove_dir_all(root.join("core/src/gone")).expect("it is there");
        write("core/src/moved/mod.rs");
        lab.copy_folder("core").expect("it is copied");
        let copy = lab.copy.join("core/src");
        assert!(copy.join("moved/mod.rs").exists() && copy.join("lib.rs").exists());
        assert!(!copy.join("moved.rs").exists() && !copy.join("gone").exists());
        let alone = lab.alone().expect("nobody else is there");
        let other = File::open(target.join("planted.lock")).expect("it is there");
        assert!(other.try_lock().is_err(), "two at once");
        drop(alone);
        assert!(other.try_lock().is_ok(), "others may follow");
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}
