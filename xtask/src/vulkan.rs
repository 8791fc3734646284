//! Finds a Vulkan device for the WGSL backend, or installs the software one where that is possible.
//!
//! Vulkan takes two parts: the loader `libvulkan.so.1`, and a driver that a manifest in one of the
//! loader's folders names. macOS and Windows need neither: their own interfaces are always there.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::apt;
use crate::runner::Outcome;

const LOADER: &str = "libvulkan.so.1";

/// Debian's packages of the loader, and of Mesa's drivers with the software device among them.
const PACKAGES: [&str; 2] = ["libvulkan1", "mesa-vulkan-drivers"];

/// Names that the manifests of software devices begin with: Mesa's lavapipe, and SwiftShader.
const SOFTWARE: [&str; 2] = ["lvp_", "vk_swiftshader"];

/// What counts as a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A driver for the GPU of this machine, or the software device.
    Any,
    /// The software device: what is left when the GPU's driver turned out not to work.
    Software,
}

/// Makes sure that there is a Vulkan device, installing the software one if `install` allows it.
///
/// Returns [`Outcome::Skipped`] with the reason if there is none.
pub(crate) fn ensure(wanted: Wanted, install: bool) -> Outcome {
    if !cfg!(target_os = "linux") {
        println!("this system brings a graphics interface of its own; nothing to install");
        return Outcome::Passed;
    }
    let missing = match find(wanted) {
        Ok(manifest) => {
            println!("Vulkan driver found: {}; nothing to install", manifest.display());
            return Outcome::Passed;
        }
        Err(missing) => missing,
    };
    println!("no Vulkan device: {missing}");
    if !install {
        return Outcome::Skipped(format!("{missing}, and --no-install was given"));
    }
    if let Err(why) = apt::install("the software Vulkan device", &PACKAGES) {
        return Outcome::Skipped(format!("{missing}, and {why}"));
    }
    match find(wanted) {
        Ok(manifest) => {
            println!("Vulkan driver installed: {}", manifest.display());
            Outcome::Passed
        }
        Err(missing) => Outcome::Skipped(format!("after the installation, {missing}")),
    }
}

/// The manifest of a driver whose library is there, or what is missing.
///
/// Mesa installs drivers for every GPU it knows, so one for a GPU counts only where there is a GPU.
fn find(wanted: Wanted) -> Result<PathBuf, String> {
    let libraries = library_folders();
    if !in_folders(&libraries, LOADER) {
        return Err(format!("{LOADER} is not installed"));
    }
    let gpu = wanted == Wanted::Any && has_gpu();
    manifests()
        .into_iter()
        .find(|manifest| (gpu || is_software(manifest)) && driver_is_there(manifest, &libraries))
        .ok_or_else(|| match gpu {
            true => "no Vulkan driver is installed".to_owned(),
            false => "no software Vulkan driver is installed".to_owned(),
        })
}

fn is_software(manifest: &Path) -> bool {
    let name = manifest.file_name().unwrap_or_default().to_string_lossy();
    SOFTWARE.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether the kernel shows a GPU: a render node, NVIDIA's device, or the one of WSL.
fn has_gpu() -> bool {
    let render_node = fs::read_dir("/dev/dri").is_ok_and(|nodes| {
        nodes.flatten().any(|node| node.file_name().to_string_lossy().starts_with("renderD"))
    });
    render_node || ["/dev/nvidia0", "/dev/dxg"].iter().any(|node| Path::new(node).exists())
}

/// Folders in which the dynamic linker finds libraries on the usual distributions.
fn library_folders() -> Vec<PathBuf> {
    let multiarch = format!("{}-linux-gnu", env::consts::ARCH);
    let fixed = ["/usr/local/lib", "/usr/lib", "/lib", "/usr/lib64", "/lib64"].map(PathBuf::from);
    let by_arch = ["/usr/lib", "/lib"].map(|folder| Path::new(folder).join(&multiarch));
    env::var_os("LD_LIBRARY_PATH")
        .iter()
        .flat_map(env::split_paths)
        .chain(fixed)
        .chain(by_arch)
        .collect()
}

fn in_folders(folders: &[PathBuf], library: impl AsRef<Path>) -> bool {
    folders.iter().any(|folder| folder.join(&library).exists())
}

/// Driver manifests where the loader looks for them: the files a variable names, or all in the
/// standard folders.
fn manifests() -> Vec<PathBuf> {
    if let Some(named) = env::var_os("VK_DRIVER_FILES").or_else(|| env::var_os("VK_ICD_FILENAMES"))
    {
        return env::split_paths(&named).collect();
    }
    let data = env::var_os("XDG_DATA_DIRS").unwrap_or_else(|| "/usr/local/share:/usr/share".into());
    let home = env::var_os("HOME").map(|home| Path::new(&home).join(".local/share"));
    let folders = [PathBuf::from("/etc")].into_iter().chain(env::split_paths(&data)).chain(home);
    let mut found = folders
        .filter_map(|folder| fs::read_dir(folder.join("vulkan/icd.d")).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension() == Some(OsStr::new("json")))
        .collect::<Vec<_>>();
    found.sort();
    found
}

/// Whether the library that a manifest names exists, and is built for this machine.
fn driver_is_there(manifest: &Path, libraries: &[PathBuf]) -> bool {
    // Debian installs a manifest for every architecture it can run, 32-bit ones included; the name
    // carries the architecture, and a library for another one cannot be loaded.
    let name = manifest.file_name().unwrap_or_default().to_string_lossy();
    let foreign = ["i386", "i686", "x86_64", "aarch64", "armhf"]
        .iter()
        .any(|arch| name.contains(&format!(".{arch}.")) && *arch != env::consts::ARCH);
    if foreign {
        return false;
    }
    let library = fs::read(manifest)
        .ok()
        .and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok())
        .and_then(|json| Some(json.pointer("/ICD/library_path")?.as_str()?.to_owned()));
    match library {
        Some(library) if library.contains('/') => {
            manifest.parent().is_some_and(|folder| folder.join(&library).exists())
        }
        Some(library) => in_folders(libraries, library),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_devices_are_known_by_name() {
        for (name, software) in [
            ("/usr/share/vulkan/icd.d/lvp_icd.x86_64.json", true),
            ("/opt/vk_swiftshader_icd.json", true),
            ("/usr/share/vulkan/icd.d/radeon_icd.x86_64.json", false),
        ] {
            assert_eq!(is_software(Path::new(name)), software, "{name}");
        }
    }

    #[test]
    fn a_driver_counts_only_with_its_library() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let libraries = [folder.path().to_path_buf()];
        let write = |name: &str, library: &str| {
            let text = format!(r#"{{"ICD": {{"library_path": "{library}"}}}}"#);
            fs::write(at(name), text).unwrap();
            at(name)
        };
        fs::write(at("libvulkan_there.so"), b"").unwrap();

        assert!(driver_is_there(&write("bare.json", "libvulkan_there.so"), &libraries));
        assert!(driver_is_there(&write("relative.json", "./libvulkan_there.so"), &[]));
        let absolute = at("libvulkan_there.so").display().to_string();
        assert!(driver_is_there(&write("absolute.json", &absolute), &[]));
        assert!(!driver_is_there(&write("gone.json", "libvulkan_gone.so"), &libraries));
        assert!(!driver_is_there(&write("other.armhf.json", "libvulkan_there.so"), &libraries));
        fs::write(at("broken.json"), b"{").unwrap();
        assert!(!driver_is_there(&at("broken.json"), &libraries));
    }
}
