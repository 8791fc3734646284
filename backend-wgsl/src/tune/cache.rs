//! What was measured before, on disk.
//!
//! One JSON file for each adapter, driver, set of limits and version of this crate. A file is only
//! ever replaced as a whole, by a rename, so that no reader sees a part of one; writers take turns
//! through a lock beside it. A file that cannot be read or understood counts as empty.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Raised whenever the meaning of a file changes.
const FORMAT: u32 = 1;

/// How long a writer waits for another one.
const PATIENCE: Duration = Duration::from_secs(2);

/// A folder of measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TuneCache {
    folder: PathBuf,
}

/// The fastest candidate of a class of problems.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Winner {
    /// Its name, by which [`candidates`](super::candidates::candidates) lists it.
    pub candidate: String,
    /// Median seconds of a run on the problem measured.
    pub seconds: f64,
    /// Candidates it was compared with, itself included.
    pub compared: usize,
}

/// Why a measurement, or a compiled kernel, was not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The folder or file cannot be written.
    #[error("{path} cannot be written: {source}", path = .path.display())]
    Write {
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The measurements cannot be written as JSON.
    #[error("measurements cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

#[derive(Serialize, Deserialize)]
struct Contents {
    format: u32,
    device: String,
    winners: BTreeMap<String, Winner>,
}

impl TuneCache {
    /// The user's own: the folder that the environment variable `LAPIDARY_TUNE_CACHE` names, else
    /// `lapidary/tune` in the system's folder for caches; `None` where the system names none.
    #[must_use]
    pub fn user() -> Option<Self> {
        if let Some(folder) = std::env::var_os("LAPIDARY_TUNE_CACHE") {
            return Some(Self::at(folder));
        }
        dirs::cache_dir().map(|folder| Self::at(folder.join("lapidary").join("tune")))
    }

    /// A folder, which is made at the first measurement.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file for a device.
    #[must_use]
    pub fn file(&self, device: &str) -> PathBuf {
        let hash = Sha256::digest(device.as_bytes());
        let name: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{name}.json"))
    }

    /// The winner for a class of problems on a device, if one is remembered.
    #[must_use]
    pub fn find(&self, device: &str, key: &str) -> Option<Winner> {
        read(&self.file(device), device).remove(key)
    }

    /// Remembers a winner; those of other classes are kept.
    ///
    /// # Errors
    /// [`CacheError`] if the folder cannot be written. What was there before is still there then.
    pub fn store(&self, device: &str, key: &str, winner: Winner) -> Result<PathBuf, CacheError> {
        let path = self.file(device);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| CacheError::Write { path, source }
        };
        fs::create_dir_all(&self.folder).map_err(failed(&self.folder))?;
        let lock = path.with_extension("lock");
        let _turn = Turn::take(&lock).map_err(failed(&lock))?;
        let mut winners = read(&path, device);
        winners.insert(key.to_owned(), winner);
        let contents = Contents { format: FORMAT, device: device.to_owned(), winners };
        let mut text = serde_json::to_string_pretty(&contents)?;
        text.push('\n');
        let mut file =
            tempfile::NamedTempFile::new_in(&self.folder).map_err(failed(&self.folder))?;
        file.write_all(text.as_bytes()).map_err(failed(&path))?;
        file.persist(&path).map_err(|error| error.error).map_err(failed(&path))?;
        Ok(path)
    }
}

/// The right to replace a file, given back when dropped.
struct Turn(File);

impl Turn {
    /// Waits for other writers. One that hangs, or a file system without locks, is not waited for
    /// longer than [`PATIENCE`]: at worst another's measurement is lost, and made again some day.
    fn take(path: &Path) -> std::io::Result<Self> {
        let file = File::create(path)?;
        let start = Instant::now();
        while let Err(TryLockError::WouldBlock) = file.try_lock() {
            if start.elapsed() > PATIENCE {
                tracing::warn!(path = %path.display(), "another writer holds on to the cache");
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Self(file))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Closing the file would do the same; where that fails there is nothing left to do.
        self.0.unlock().ok();
    }
}

fn read(path: &Path, device: &str) -> BTreeMap<String, Winner> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "measurements cannot be read");
            }
            return BTreeMap::new();
        }
    };
    match serde_json::from_str::<Contents>(&text) {
        Ok(contents) if contents.format == FORMAT && contents.device == device => contents.winners,
        Ok(_) => BTreeMap::new(),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "measurements are not understood");
            BTreeMap::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn winner(candidate: &str) -> Winner {
        Winner { candidate: candidate.into(), seconds: 1e-3, compared: 3 }
    }

    fn cache() -> (tempfile::TempDir, TuneCache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = TuneCache::at(folder.path().join("deep").join("er"));
        (folder, cache)
    }

    #[test]
    fn winners_are_found_again_by_device_and_class() {
        let (_folder, cache) = cache();
        assert_eq!(cache.find("d", "k"), None);
        let path = cache.store("d", "k", winner("a")).unwrap();
        assert_eq!(path, cache.file("d"));
        cache.store("d", "l", winner("b")).unwrap();
        cache.store("e", "k", winner("c")).unwrap();
        assert_eq!(cache.find("d", "k"), Some(winner("a")));
        assert_eq!(cache.find("d", "l"), Some(winner("b")));
        assert_eq!(cache.find("e", "k"), Some(winner("c")));
        cache.store("d", "k", winner("b")).unwrap();
        assert_eq!(cache.find("d", "k"), Some(winner("b")));
    }

    #[test]
    fn a_corrupt_file_counts_as_empty_and_is_replaced() {
        let (_folder, cache) = cache();
        let path = cache.store("d", "k", winner("a")).unwrap();
        let whole = fs::read(&path).unwrap();
        for damage in [&b""[..], b"{", b"[1, 2]", b"\xff\xfe\x00", &whole[..whole.len() / 2]] {
            fs::write(&path, damage).unwrap();
            assert_eq!(cache.find("d", "k"), None);
            cache.store("d", "l", winner("b")).unwrap();
            assert_eq!(cache.find("d", "l"), Some(winner("b")));
        }
    }

    #[test]
    fn another_format_or_device_counts_as_empty() {
        let (_folder, cache) = cache();
        let path = cache.store("d", "k", winner("a")).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for (from, to) in
            [("\"format\": 1", "\"format\": 2"), ("\"device\": \"d\"", "\"device\": \"x\"")]
        {
            assert!(text.contains(from), "{text}");
            fs::write(&path, text.replace(from, to)).unwrap();
            assert_eq!(cache.find("d", "k"), None);
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        // A file where the folder should be: root may write to a read-only folder, but not to this.
        let blocked = folder.path().join("file");
        fs::write(&blocked, "x").unwrap();
        let cache = TuneCache::at(&blocked);
        assert_eq!(cache.find("d", "k"), None);
        let error = cache.store("d", "k", winner("a")).unwrap_err();
        assert!(error.to_string().contains("cannot be written"), "{error}");
        assert_eq!(fs::read_to_string(&blocked).unwrap(), "x");
    }

    #[test]
    fn writers_at_the_same_time_keep_each_others_winners() {
        let (_folder, cache) = cache();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    for turn in 0..5 {
                        cache.store("d", &format!("{writer} {turn}"), winner("a")).unwrap();
                        assert!(cache.find("d", &format!("{writer} {turn}")).is_some());
                    }
                });
            }
        });
        for writer in 0..4 {
            for turn in 0..5 {
                assert!(cache.find("d", &format!("{writer} {turn}")).is_some());
            }
        }
        // Nothing temporary is left behind.
        let files = fs::read_dir(cache.file("d").parent().unwrap()).unwrap().count();
        assert_eq!(files, 2, "the measurements and the lock");
    }
}
