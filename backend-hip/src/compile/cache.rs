//! Code objects on disk.
//!
//! One file a key: the SHA-256 of the object, then the object. A file that does not match its own
//! hash is treated as absent and replaced. Files appear by renaming, so readers never see half of one.

use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

const HASH_BYTES: usize = 32;

/// What the cache did for a compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheOutcome {
    /// The object was there.
    Hit,
    /// It was compiled and stored.
    Stored,
    /// It was compiled; there is no cache, or it cannot be written, for this reason.
    NotStored(String),
}

/// A directory of code objects, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    dir: Option<PathBuf>,
}

impl Cache {
    /// `LAPIDARY_CACHE_DIR`, else `lapidary/hip` in the user's cache directory.
    #[must_use]
    pub fn of_user() -> Self {
        let named = std::env::var_os("LAPIDARY_CACHE_DIR").filter(|v| !v.is_empty());
        let dir = named
            .map(PathBuf::from)
            .or_else(|| dirs::cache_dir().map(|dir| dir.join("lapidary").join("hip")));
        Self { dir }
    }

    /// A cache in `dir`, which is made when the first object is stored.
    #[must_use]
    pub fn in_directory(dir: impl Into<PathBuf>) -> Self {
        Self { dir: Some(dir.into()) }
    }

    /// No cache.
    #[must_use]
    pub fn none() -> Self {
        Self { dir: None }
    }

    /// The object stored under `key`, if it is whole.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let file = std::fs::read(self.file(key)?).ok()?;
        let (hash, object) = file.split_at_checked(HASH_BYTES)?;
        if Sha256::digest(object).as_slice() != hash {
            tracing::warn!(key, "a cached code object is damaged and will be compiled again");
            return None;
        }
        Some(object.to_vec())
    }

    /// Stores an object under `key`.
    #[must_use]
    pub fn put(&self, key: &str, object: &[u8]) -> CacheOutcome {
        let (Some(dir), Some(file)) = (&self.dir, self.file(key)) else {
            return CacheOutcome::NotStored("there is no cache directory".into());
        };
        match write_atomically(dir, &file, object) {
            Ok(()) => CacheOutcome::Stored,
            Err(error) => {
                tracing::warn!(dir = %dir.display(), %error, "the kernel cache cannot be written");
                CacheOutcome::NotStored(format!("{}: {error}", dir.display()))
            }
        }
    }

    fn file(&self, key: &str) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.join(format!("{key}.co")))
    }
}

fn write_atomically(dir: &Path, file: &Path, object: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut temporary = tempfile::NamedTempFile::new_in(dir)?;
    temporary.write_all(Sha256::digest(object).as_slice())?;
    temporary.write_all(object)?;
    temporary.persist(file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_come_back_and_damaged_ones_do_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = Cache::in_directory(dir.path().join("deep/er"));
        assert_eq!(cache.get("k"), None);
        assert_eq!(cache.put("k", b"object"), CacheOutcome::Stored);
        assert_eq!(cache.get("k").as_deref(), Some(&b"object"[..]));

        let file = dir.path().join("deep/er/k.co");
        let whole = std::fs::read(&file).expect("the file");
        for cut in 0..whole.len() {
            std::fs::write(&file, &whole[..cut]).expect("a shorter file");
            assert_eq!(cache.get("k"), None, "{cut} bytes");
        }
        assert_eq!(cache.put("k", b"object"), CacheOutcome::Stored);
        assert_eq!(cache.get("k").as_deref(), Some(&b"object"[..]));
        let left: Vec<_> =
            std::fs::read_dir(file.parent().expect("a parent")).expect("it").collect();
        assert_eq!(left.len(), 1, "temporary files are gone");
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_reported_not_fatal() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        std::fs::write(&file, "").expect("a file in the way");
        let cache = Cache::in_directory(file.join("cache"));
        assert!(matches!(cache.put("k", b"object"), CacheOutcome::NotStored(_)));
        assert_eq!(cache.get("k"), None);
        assert!(matches!(Cache::none().put("k", b""), CacheOutcome::NotStored(_)));
    }
}
