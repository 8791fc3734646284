//! What a driver has compiled, on disk.
//!
//! One file for each adapter, driver and version of this crate, beside the autotuner's measurements.
//! It is replaced as a whole, by a rename, so that no reader sees a part of one. Of two processes that
//! write at the same time the later one's file stays; what only the other had compiled is compiled
//! again some day. A file that cannot be read, is cut short, changed, or of another device counts as
//! absent: its hash says so before the driver sees a byte of it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lapidary_core::Error;
use sha2::{Digest, Sha256};

use crate::device::{Inner, Wgsl};
use crate::errors::scoped;
use crate::tune::CacheError;

/// First bytes of a file; the number is raised whenever its form changes.
const MAGIC: &[u8; 16] = b"lapidary kernel1";

/// Bytes of the hash.
const HASH: usize = 32;

/// Longer files are not read, and not written: a cache only ever grows.
const MOST_BYTES: u64 = 1 << 28;

/// A folder of compiled kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineCache {
    folder: PathBuf,
}

/// What a device's file held when the device was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PipelineCacheState {
    /// So many bytes for this device, which the driver was given.
    Read(usize),
    /// There was no file.
    Absent,
    /// A file that is not this device's, not whole, or not readable.
    Refused(&'static str),
}

impl PipelineCache {
    /// The user's own: the folder of [`TuneCache::user`](crate::tune::TuneCache::user).
    #[must_use]
    pub fn user() -> Option<Self> {
        crate::tune::TuneCache::user().map(|cache| Self::at(cache.folder()))
    }

    /// A folder, which is made when the first kernel is kept.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The file for a device.
    #[must_use]
    pub fn file(&self, device: &str) -> PathBuf {
        let hash = Sha256::digest(device.as_bytes());
        let name: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("{name}.pipelines"))
    }

    /// What was kept for a device.
    fn load(&self, device: &str) -> (Option<Vec<u8>>, PipelineCacheState) {
        let path = self.file(device);
        match read(&path).and_then(|bytes| content(bytes, device)) {
            Ok(data) => {
                let state = PipelineCacheState::Read(data.len());
                (Some(data), state)
            }
            Err(Unusable::Absent) => (None, PipelineCacheState::Absent),
            Err(Unusable::Because(reason)) => {
                tracing::warn!(path = %path.display(), reason, "compiled kernels are not used");
                (None, PipelineCacheState::Refused(reason))
            }
        }
    }

    /// Keeps `data` for a device in place of what was there.
    fn store(&self, device: &str, data: &[u8]) -> Result<PathBuf, CacheError> {
        let path = self.file(device);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| CacheError::Write { path, source }
        };
        fs::create_dir_all(&self.folder).map_err(failed(&self.folder))?;
        let mut file =
            tempfile::NamedTempFile::new_in(&self.folder).map_err(failed(&self.folder))?;
        for part in [&MAGIC[..], &hash(device, data), data] {
            file.write_all(part).map_err(failed(&path))?;
        }
        file.persist(&path).map_err(|error| error.error).map_err(failed(&path))?;
        Ok(path)
    }
}

/// Why there is nothing to use.
enum Unusable {
    Absent,
    Because(&'static str),
}

fn read(path: &Path) -> Result<Vec<u8>, Unusable> {
    let mut bytes = Vec::new();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Unusable::Absent),
        Err(_) => return Err(Unusable::Because("the file cannot be opened")),
    };
    match file.take(MOST_BYTES + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > MOST_BYTES => Err(Unusable::Because("the file is too long")),
        Ok(_) => Ok(bytes),
        Err(_) => Err(Unusable::Because("the file cannot be read")),
    }
}

/// The driver's bytes in those of a file, if the file is whole and the device's.
fn content(mut bytes: Vec<u8>, device: &str) -> Result<Vec<u8>, Unusable> {
    if bytes.get(..MAGIC.len()) != Some(MAGIC) {
        return Err(Unusable::Because("the file is of another form"));
    }
    let Some(found) = bytes.get(MAGIC.len()..MAGIC.len() + HASH).map(<[u8]>::to_vec) else {
        return Err(Unusable::Because("the file is cut short"));
    };
    let data = bytes.split_off(MAGIC.len() + HASH);
    if found == hash(device, &data) {
        Ok(data)
    } else {
        Err(Unusable::Because("the hash is wrong"))
    }
}

fn hash(device: &str, data: &[u8]) -> [u8; HASH] {
    let mut hash = Sha256::new();
    hash.update((device.len() as u64).to_le_bytes());
    hash.update(device);
    hash.update(data);
    hash.finalize().into()
}

/// A driver's cache that goes to disk.
#[derive(Debug)]
pub(crate) struct Kept {
    cache: wgpu::PipelineCache,
    folder: PipelineCache,
    /// Everything about device and driver on which the bytes depend.
    identity: String,
    state: PipelineCacheState,
    /// Whether kernels were compiled since the file was read or written.
    grown: AtomicBool,
}

impl Kept {
    /// What `folder` has for a device, or an empty cache; `None` where the device has no such thing.
    ///
    /// # Errors
    /// [`Error::Device`] or [`Error::OutOfMemory`] if the device cannot make a cache.
    pub(crate) fn open(
        device: &wgpu::Device,
        info: &wgpu::AdapterInfo,
        folder: Option<&PipelineCache>,
    ) -> Result<Option<Self>, Error> {
        let Some(folder) = folder else { return Ok(None) };
        if !device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return Ok(None);
        }
        let identity = format!(
            "{} | {:?} {:x}:{:x} | {} {} | lapidary {}",
            info.name,
            info.backend,
            info.vendor,
            info.device,
            info.driver,
            info.driver_info,
            env!("CARGO_PKG_VERSION")
        );
        let (data, state) = folder.load(&identity);
        let bytes = data.as_ref().map_or(0, Vec::len) as u64;
        let cache = scoped(device, &info.name, "opening the pipeline cache", bytes, || {
            // SAFETY: the bytes are `None` or what `PipelineCache::get_data` returned for this adapter
            // and driver: `Wgsl::save_pipelines` alone writes such files, and the hash over them and
            // the device's identity is right. wgpu checks its own header besides, and with `fallback`
            // starts an empty cache where that does not fit.
            unsafe {
                device.create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                    label: Some("lapidary"),
                    data: data.as_deref(),
                    fallback: true,
                })
            }
        })?;
        let folder = folder.clone();
        Ok(Some(Self { cache, folder, identity, state, grown: AtomicBool::new(false) }))
    }

    /// The driver's cache.
    pub(super) fn cache(&self) -> &wgpu::PipelineCache {
        &self.cache
    }

    /// Notes that something was compiled into the cache. Afterwards, not before: what is written
    /// meanwhile lacks it.
    pub(super) fn grown(&self) {
        self.grown.store(true, Ordering::Relaxed);
    }

    /// Writes the file if there is anything new.
    pub(crate) fn save(&self) -> Result<Option<PathBuf>, CacheError> {
        if !self.grown.swap(false, Ordering::Relaxed) {
            return Ok(None);
        }
        match self.cache.get_data() {
            Some(data) if (data.len() + MAGIC.len() + HASH) as u64 <= MOST_BYTES => {
                self.folder.store(&self.identity, &data).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// What the last clone of a device does: what was compiled is there for the next process.
#[derive(Debug)]
pub(crate) struct SavesWhenDropped(pub(crate) Arc<Inner>);

impl Drop for SavesWhenDropped {
    fn drop(&mut self) {
        let saved = match &self.0.pipelines.kept {
            Some(kept) if self.0.check_alive().is_ok() => kept.save(),
            _ => return,
        };
        if let Err(error) = saved {
            tracing::warn!(device = self.0.name, %error, "compiled kernels are not kept");
        }
    }
}

impl Wgsl {
    /// Writes the kernels compiled so far to the device's file of
    /// [`WgslOptions::pipeline_cache`](crate::WgslOptions::pipeline_cache); the file, or `None` where
    /// nothing is new or the device keeps none. The last clone of a device does so by itself when it is
    /// dropped.
    ///
    /// # Errors
    /// [`CacheError`] if the folder cannot be written. What was there before is still there then.
    pub fn save_pipelines(&self) -> Result<Option<PathBuf>, CacheError> {
        self.inner.pipelines.kept.as_ref().map_or(Ok(None), Kept::save)
    }

    /// The device's file of compiled kernels, and what it held when the device was opened; `None`
    /// where the device was opened without, or has no such thing.
    #[must_use]
    pub fn pipeline_cache(&self) -> Option<(PathBuf, &PipelineCacheState)> {
        let kept = self.inner.pipelines.kept.as_ref()?;
        Some((kept.folder.file(&kept.identity), &kept.state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_again_by_device_and_only_whole() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PipelineCache::at(folder.path().join("deep").join("er"));
        assert_eq!(cache.load("d"), (None, PipelineCacheState::Absent));
        let path = cache.store("d", b"data").unwrap();
        assert_eq!(path, cache.file("d"));
        cache.store("e", b"").unwrap();
        assert_eq!(cache.load("d"), (Some(b"data".to_vec()), PipelineCacheState::Read(4)));
        assert_eq!(cache.load("e"), (Some(Vec::new()), PipelineCacheState::Read(0)));
        // Another device's file under this one's name.
        fs::copy(cache.file("e"), cache.file("d")).unwrap();
        assert_eq!(cache.load("d"), (None, PipelineCacheState::Refused("the hash is wrong")));
        cache.store("d", b"data").unwrap();
        let whole = fs::read(&path).unwrap();
        for len in 0..whole.len() {
            fs::write(&path, &whole[..len]).unwrap();
            let (data, state) = cache.load("d");
            assert!(data.is_none() && matches!(state, PipelineCacheState::Refused(_)), "{len}");
        }
        for index in 0..whole.len() {
            let mut changed = whole.clone();
            changed[index] ^= 0x10;
            fs::write(&path, &changed).unwrap();
            let (data, state) = cache.load("d");
            assert!(data.is_none() && matches!(state, PipelineCacheState::Refused(_)), "{index}");
        }
        cache.store("d", b"new").unwrap();
        assert_eq!(cache.load("d").0, Some(b"new".to_vec()));
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_an_error_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        // A file where the folder should be: root may write to a read-only folder, but not to this.
        let blocked = folder.path().join("file");
        fs::write(&blocked, "x").unwrap();
        let cache = PipelineCache::at(&blocked);
        assert!(cache.load("d").0.is_none());
        let error = cache.store("d", b"data").unwrap_err();
        assert!(error.to_string().contains("cannot be written"), "{error}");
        // A folder where the file should be.
        let cache = PipelineCache::at(folder.path());
        fs::create_dir(cache.file("d")).unwrap();
        assert!(matches!(cache.load("d"), (None, PipelineCacheState::Refused(_))));
        assert!(cache.store("d", b"data").is_err());
        assert_eq!(fs::read_to_string(&blocked).unwrap(), "x");
    }

    #[test]
    fn writers_and_readers_at_the_same_time_see_whole_files() {
        let folder = tempfile::tempdir().unwrap();
        let cache = PipelineCache::at(folder.path());
        cache.store("d", &[0; 5000]).unwrap();
        std::thread::scope(|scope| {
            for writer in 1..4u8 {
                let cache = &cache;
                scope.spawn(move || {
                    for turn in 0..20 {
                        let len = 5000 * usize::from(writer) + turn;
                        cache.store("d", &vec![writer; len]).unwrap();
                        let data = cache.load("d").0.expect("whole");
                        assert!(data.iter().all(|&byte| byte == data[0]));
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing temporary is left");
    }
}
