//! Matrices in files: `.npy`, `.npz` and safetensors in, `.npy` and safetensors out.
//!
//! A file is named as it is, or with `:NAME` behind it where it holds several arrays. Everything a
//! file claims about itself is checked against its length before memory is asked for.

mod array;
mod error;
mod npy;
mod npz;
pub(crate) mod raw;
mod safetensors;

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use lapidary_core::ElementType;

pub(crate) use array::{AlignedBytes, Array};
pub(crate) use error::{FileError, Names, Reason, printable};

#[cfg(target_endian = "big")]
compile_error!("array files hold little-endian numbers, which are used in place");

/// Name of the tensor in a safetensors file that is written without one.
const DEFAULT_NAME: &str = "c";

/// Endings that may be followed by `:NAME`.
const NAMED: [&str; 2] = [".npz:", ".safetensors:"];

/// A file on the command line, split into path and array name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    path: PathBuf,
    name: Option<String>,
}

impl Source {
    /// Splits `FILE.npz:NAME` and `FILE.safetensors:NAME`; anything else is a path.
    fn new(text: &str) -> Self {
        // The name may hold colons and dots, so the first ending counts, unless a later one is what
        // completes the path of a file that exists.
        let splits = text
            .char_indices()
            .filter_map(|(colon, c)| {
                let end = colon + 1;
                let named = c == ':'
                    && NAMED.iter().any(|ending| {
                        text[..end].len() >= ending.len()
                            && text.as_bytes()[end - ending.len()..end]
                                .eq_ignore_ascii_case(ending.as_bytes())
                    });
                named.then(|| (&text[..colon], &text[end..]))
            })
            .collect::<Vec<_>>();
        let split = splits.iter().find(|(path, _)| Path::new(path).is_file()).or(splits.first());
        match split {
            Some((path, name)) => {
                Self { path: PathBuf::from(path), name: Some((*name).to_owned()) }
            }
            None => Self { path: PathBuf::from(text), name: None },
        }
    }

    fn kind(&self) -> Result<Kind, Reason> {
        let extension =
            self.path.extension().map(|e| e.to_string_lossy().into_owned()).unwrap_or_default();
        match extension.to_ascii_lowercase().as_str() {
            "npy" => Ok(Kind::Npy),
            "npz" => Ok(Kind::Npz),
            "safetensors" => Ok(Kind::Safetensors),
            _ => Err(Reason::UnknownType { found: extension }),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Npy,
    Npz,
    Safetensors,
}

/// Bytes that [`load`] will read at most, for the length of a progress bar; 0 if unknown.
pub(crate) fn size_hint(text: &str) -> u64 {
    fs::metadata(Source::new(text).path).map_or(0, |metadata| metadata.len())
}

/// Reads the array that `text` names.
///
/// # Errors
/// [`FileError`] names the file and what is wrong with it.
pub(crate) fn load(text: &str, bar: &ProgressBar) -> Result<Array, FileError> {
    load_source(&Source::new(text), bar).map_err(|reason| reason.of(text))
}

fn load_source(source: &Source, bar: &ProgressBar) -> Result<Array, Reason> {
    let kind = source.kind()?;
    // Asked before opening: opening a pipe would wait for its other end.
    if !fs::metadata(&source.path)?.is_file() {
        return Err(Reason::NotAFile);
    }
    let file = File::open(&source.path)?;
    let length = file.metadata()?.len();
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let name = source.name.as_deref();
    match kind {
        Kind::Npy => {
            let credible = usize::try_from(length).unwrap_or(usize::MAX);
            npy::read(&mut reader, length, credible, bar)
        }
        Kind::Npz => npz::read(reader, length, name, bar),
        Kind::Safetensors => safetensors::read(reader, length, name, bar),
    }
}

/// A file to be written, checked before the work whose result it takes.
#[derive(Debug)]
pub(crate) struct Destination {
    text: String,
    source: Source,
    kind: Kind,
}

impl Destination {
    /// Checks that the result of a product of this type can be written to `text`.
    ///
    /// # Errors
    /// [`FileError`] if the type of file is unknown or cannot hold the elements, if the folder takes no
    /// new file, if something other than a file has that name, or if the file holds other tensors,
    /// which would be lost.
    pub(crate) fn new(text: &str, element: ElementType) -> Result<Self, FileError> {
        let source = Source::new(text);
        let check = || {
            let kind = source.kind()?;
            match kind {
                Kind::Npz => return Err(Reason::NpzOutput),
                Kind::Npy if element == ElementType::BF16 => return Err(Reason::Bf16Npy),
                Kind::Npy | Kind::Safetensors => {}
            }
            probe(&source.path)?;
            match fs::metadata(&source.path) {
                Ok(existing) if kind == Kind::Safetensors => keeps_all(&source, existing.len())?,
                _ => {}
            }
            Ok(kind)
        };
        match check() {
            Ok(kind) => Ok(Self { text: text.to_owned(), source, kind }),
            Err(reason) => Err(reason.of(text)),
        }
    }

    /// Writes a row-major array, replacing the file only once all of it is on the disk.
    ///
    /// # Errors
    /// [`FileError`] if writing fails; the old file, if there was one, is left as it was.
    pub(crate) fn write(
        &self,
        element: ElementType,
        shape: &[usize],
        bytes: &[u8],
    ) -> Result<(), FileError> {
        self.write_beside(element, shape, bytes).map_err(|reason| reason.of(&self.text))
    }

    fn write_beside(
        &self,
        element: ElementType,
        shape: &[usize],
        bytes: &[u8],
    ) -> Result<(), Reason> {
        replace(&self.source.path, |writer| match self.kind {
            Kind::Npy => npy::write(writer, element, shape, bytes),
            Kind::Npz => Err(Reason::NpzOutput),
            Kind::Safetensors => {
                let name = self.source.name.as_deref().unwrap_or(DEFAULT_NAME);
                safetensors::write(writer, name, element, shape, bytes)
            }
        })
    }
}

/// Checks that a file can be written at `path`.
fn probe(path: &Path) -> Result<(), Reason> {
    if fs::metadata(path).is_ok_and(|existing| !existing.is_file()) {
        return Err(Reason::NotAFile);
    }
    // Whether the folder takes a new file is best asked by making one.
    let partial = partial(path);
    File::create(&partial)?;
    fs::remove_file(&partial)?;
    Ok(())
}

/// Writes a file beside `path` and puts it in its place once it is complete.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), Reason>,
) -> Result<(), Reason> {
    let partial = partial(path);
    let written = (|| {
        let mut writer = BufWriter::with_capacity(1 << 16, File::create(&partial)?);
        write(&mut writer)?;
        writer.flush()?;
        fs::rename(&partial, path)?;
        Ok(())
    })();
    if written.is_err() {
        // The first error is the one to report; a leftover partial file is not a second one.
        fs::remove_file(&partial).ok();
    }
    written
}

/// The name under which a file is written before it is complete.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.partial", std::process::id()));
    folder(path).join(name)
}

/// Checks that replacing a safetensors file drops no tensor but the one to be written.
///
/// A file that is no safetensors file has none to lose.
fn keeps_all(source: &Source, length: u64) -> Result<(), Reason> {
    let name = source.name.as_deref().unwrap_or(DEFAULT_NAME);
    let held = safetensors::names(File::open(&source.path)?, length).unwrap_or_default();
    let others: Vec<_> = held.into_iter().filter(|held| held != name).collect();
    if others.is_empty() { Ok(()) } else { Err(Reason::OtherTensors { others }) }
}

/// The folder a path lies in.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_other_tensors_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let text = |name: &str| format!("{}:{name}", folder.path().join("l.safetensors").display());
        let values = [1.0f32, 2.0];
        let bytes = bytemuck::cast_slice(&values);
        let first = Destination::new(&text("w"), ElementType::F32).unwrap();
        first.write(ElementType::F32, &[2], bytes).unwrap();
        let error = Destination::new(&text("v"), ElementType::F32).unwrap_err().to_string();
        assert!(error.contains("holds w too"), "{error}");
        Destination::new(&text("w"), ElementType::F32).unwrap();
    }

    fn source(path: &str, name: Option<&str>) -> Source {
        Source { path: PathBuf::from(path), name: name.map(str::to_owned) }
    }

    #[test]
    fn names_are_split_from_files_that_hold_several() {
        for (text, expected) in [
            ("a.npy", source("a.npy", None)),
            ("odd:name.npy", source("odd:name.npy", None)),
            ("d/a.npz:w", source("d/a.npz", Some("w"))),
            ("a.NPZ:w", source("a.NPZ", Some("w"))),
            ("m.safetensors:layer.0:w", source("m.safetensors", Some("layer.0:w"))),
            ("m.safetensors", source("m.safetensors", None)),
            ("m.safetensors:", source("m.safetensors", Some(""))),
            ("é.npz:ü", source("é.npz", Some("ü"))),
        ] {
            assert_eq!(Source::new(text), expected, "{text}");
        }
    }

    #[test]
    fn a_file_that_exists_decides_where_its_name_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz:b.npz");
        fs::write(&path, b"").unwrap();
        let text = format!("{}:w", path.display());
        assert_eq!(Source::new(&text), Source { path, name: Some("w".to_owned()) });
    }

    #[test]
    fn unsuitable_paths_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let reason = |name: &str| load(&at(name), &ProgressBar::hidden()).unwrap_err().reason;
        assert!(matches!(reason("a.txt"), Reason::UnknownType { found } if found == "txt"));
        assert!(matches!(reason("a"), Reason::UnknownType { found } if found.is_empty()));
        assert!(matches!(reason("a.npy"), Reason::Io(_)));
        fs::create_dir(at("d.npy")).unwrap();
        assert!(matches!(reason("d.npy"), Reason::NotAFile));

        let refused =
            |name: &str, element| Destination::new(&at(name), element).unwrap_err().reason;
        assert!(matches!(refused("c.npz", ElementType::F32), Reason::NpzOutput));
        assert!(matches!(refused("c.npy", ElementType::BF16), Reason::Bf16Npy));
        assert!(matches!(refused("d.npy", ElementType::F32), Reason::NotAFile));
        assert!(matches!(refused("missing/c.npy", ElementType::F32), Reason::Io(_)));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let values = [1.0f32, -2.0, 3.5, 0.0, 5.0, 6.0];
        for file in ["c.npy", "c.safetensors", "d.safetensors:product"] {
            let text = folder.path().join(file).display().to_string();
            let destination = Destination::new(&text, ElementType::F32).unwrap();
            destination.write(ElementType::F32, &[1, 2, 3], bytemuck::cast_slice(&values)).unwrap();
            let array = load(&text, &ProgressBar::hidden()).unwrap();
            assert_eq!((array.element, array.shape), (ElementType::F32, vec![1, 2, 3]));
            assert_eq!(bytemuck::cast_slice::<u8, f32>(array.bytes.as_slice()), values);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no partial file stays");
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("c.npy").display().to_string();
        fs::write(&text, b"old").unwrap();
        let destination = Destination::new(&text, ElementType::F32).unwrap();
        assert!(destination.write(ElementType::BF16, &[1], &[0; 2]).is_err());
        assert_eq!(fs::read(&text).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no partial file stays");
    }
}
