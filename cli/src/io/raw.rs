//! Files without a format: their bytes are all there is.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{FileError, Reason, probe, replace};

/// Reads a whole file of at most `limit` bytes.
///
/// # Errors
/// [`FileError`] if it is no regular file, is larger than `limit`, or cannot be read.
pub(crate) fn read(text: &str, limit: u64) -> Result<Vec<u8>, FileError> {
    let read = || {
        // Asked before opening: opening a pipe would wait for its other end.
        let metadata = fs::metadata(text)?;
        if !metadata.is_file() {
            return Err(Reason::NotAFile);
        }
        if metadata.len() > limit {
            return Err(Reason::TooLarge { length: metadata.len(), limit });
        }
        Ok(fs::read(text)?)
    };
    read().map_err(|reason| reason.of(text))
}

/// A file to be written, checked before the work whose result it takes.
#[derive(Debug)]
pub(crate) struct RawDestination {
    text: String,
}

impl RawDestination {
    /// Checks that `text` can be written.
    ///
    /// # Errors
    /// [`FileError`] if the folder takes no new file or something other than a file has that name.
    pub(crate) fn new(text: &str) -> Result<Self, FileError> {
        match probe(Path::new(text)) {
            Ok(()) => Ok(Self { text: text.to_owned() }),
            Err(reason) => Err(reason.of(text)),
        }
    }

    /// The file by a path that two spellings of one file share.
    pub(crate) fn resolved(&self) -> PathBuf {
        let path = Path::new(&self.text);
        let folder = super::folder(path);
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf());
        folder.join(path.file_name().unwrap_or_default())
    }

    /// Writes `bytes`, replacing the file only once all of them are on the disk.
    ///
    /// # Errors
    /// [`FileError`] if writing fails; the old file, if there was one, is left as it was.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), FileError> {
        replace(Path::new(&self.text), |writer| Ok(writer.write_all(bytes)?))
            .map_err(|reason| reason.of(&self.text))
    }
}
