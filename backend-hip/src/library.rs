//! Finds and opens ROCm's shared libraries at run time.
//!
//! What is looked for, and where, is plain data ([`Wanted::candidates`]); opening comes after.

use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use libloading::Library;

/// Why a ROCm library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// No file of that name could be opened.
    #[error(
        "{library} is not there or cannot be loaded: install ROCm 6.4 or newer \
        (https://rocm.docs.amd.com), or set {variable} to the library's path (tried {searched})"
    )]
    NotFound {
        /// The library's plain name.
        library: &'static str,
        /// The environment variable that names it.
        variable: &'static str,
        /// What was tried, in order; what is there but cannot be loaded with the dynamic linker's
        /// reason.
        searched: String,
    },

    /// The library lacks a function.
    #[error(
        "{library} has no function {symbol}: it is no HIP library, or one older than ROCm 5.2; \
        install ROCm 6.4 or newer"
    )]
    SymbolMissing {
        /// The file.
        library: String,
        /// The function.
        symbol: &'static str,
    },
}

/// What the search depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    /// The value of the variable that names this library.
    pub(crate) named: Option<OsString>,
    pub(crate) rocm_path: Option<OsString>,
    pub(crate) hip_path: Option<OsString>,
}

/// A library to look for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The environment variable that names the file.
    pub(crate) variable: &'static str,
    /// File names, the preferred one first.
    pub(crate) names: &'static [&'static str],
}

/// The HIP runtime. The numbered names are there where no development package made the plain one.
pub(crate) const HIP: Wanted = Wanted {
    variable: "LAPIDARY_HIP_LIBRARY",
    names: &["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"],
};

/// The run-time compiler: a library of its own, and before ROCm 7 also a part of the HIP runtime.
pub(crate) const HIPRTC: Wanted = Wanted {
    variable: "LAPIDARY_HIPRTC_LIBRARY",
    names: &[
        "libhiprtc.so",
        "libhiprtc.so.7",
        "libhiprtc.so.6",
        "libamdhip64.so",
        "libamdhip64.so.6",
        "libamdhip64.so.5",
    ],
};

impl Wanted {
    pub(crate) fn environment(&self) -> Environment {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Environment {
            named: variable(self.variable),
            rocm_path: variable("ROCM_PATH"),
            hip_path: variable("HIP_PATH"),
        }
    }

    /// The files to try, in order.
    ///
    /// A file named by the variable is used or refused, never passed over. Otherwise every name is
    /// tried in `$ROCM_PATH/lib`, in `$HIP_PATH/lib`, where the dynamic linker looks, and in
    /// `/opt/rocm/lib`.
    pub(crate) fn candidates(&self, environment: &Environment) -> Vec<PathBuf> {
        if let Some(named) = &environment.named {
            return vec![named.into()];
        }
        let roots = [environment.rocm_path.as_ref(), environment.hip_path.as_ref()];
        let folders = roots.into_iter().flatten().map(|root| Path::new(root).join("lib"));
        let places = folders.map(Some).chain([None, Some("/opt/rocm/lib".into())]);
        places
            .flat_map(|place| {
                self.names.iter().map(move |name| match &place {
                    Some(folder) => folder.join(name),
                    None => PathBuf::from(name),
                })
            })
            .collect()
    }

    /// Opens the first candidate that can be opened and that `accept` takes.
    ///
    /// # Errors
    /// [`LibraryError::NotFound`], or the last refusal of `accept` if every library was refused.
    pub(crate) fn open<T>(
        &self,
        environment: &Environment,
        accept: impl Fn(Opened) -> Result<T, LibraryError>,
    ) -> Result<T, LibraryError> {
        let mut searched = Vec::new();
        let mut refused = None;
        for candidate in self.candidates(environment) {
            match Opened::new(&candidate) {
                Ok(opened) => match accept(opened) {
                    Ok(accepted) => return Ok(accepted),
                    Err(error) => refused = Some(error),
                },
                Err(reason) => searched.push(reason),
            }
        }
        Err(refused.unwrap_or_else(|| LibraryError::NotFound {
            library: self.names.first().copied().unwrap_or_default(),
            variable: self.variable,
            searched: searched.join(", "),
        }))
    }
}

/// An open library. It stays loaded: HIP keeps threads and exit handlers of its own.
#[derive(Debug)]
pub(crate) struct Opened {
    library: ManuallyDrop<Library>,
    path: String,
}

impl Opened {
    fn new(path: &Path) -> Result<Self, String> {
        // SAFETY: loading runs the library's initialisers. The names are those of AMD's runtime, or
        // the user's own choice; there is no weaker guarantee to be had from a shared library.
        let library = unsafe { Library::new(path) };
        let library = library.map_err(|error| {
            let reason = error.to_string();
            let shown = path.display().to_string();
            let absent = format!("{shown}: cannot open shared object file: No such file");
            if reason.starts_with(&absent) {
                shown
            } else if reason.contains(&shown) {
                reason
            } else {
                format!("{shown}: {reason}")
            }
        })?;
        Ok(Self { library: ManuallyDrop::new(library), path: path.display().to_string() })
    }

    /// The name or path it was opened by.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The address of a function, as a function pointer of type `F`.
    ///
    /// # Safety
    /// `F` is the `extern "C"` type of the function called `symbol`. It may be called for as long as
    /// the process lives, since the library is never unloaded.
    pub(crate) unsafe fn function<F: Copy>(&self, symbol: &'static str) -> Result<F, LibraryError> {
        // SAFETY: the caller states the type.
        match unsafe { self.library.get::<F>(symbol.as_bytes()) } {
            Ok(function) => Ok(*function),
            Err(_) => Err(LibraryError::SymbolMissing { library: self.path.clone(), symbol }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_library_is_the_only_candidate() {
        let environment = Environment {
            named: Some("/a/b.so".into()),
            rocm_path: Some("/rocm".into()),
            hip_path: None,
        };
        assert_eq!(HIP.candidates(&environment), [PathBuf::from("/a/b.so")]);
    }

    #[test]
    fn rocm_path_comes_before_hip_path_before_the_linkers_choice() {
        let environment = Environment {
            named: None,
            rocm_path: Some("/rocm".into()),
            hip_path: Some("/hip".into()),
        };
        let candidates = HIP.candidates(&environment);
        let position = |path: &str| {
            candidates.iter().position(|c| c == Path::new(path)).unwrap_or_else(|| panic!("{path}"))
        };
        let order = [
            "/rocm/lib/libamdhip64.so",
            "/rocm/lib/libamdhip64.so.7",
            "/hip/lib/libamdhip64.so",
            "libamdhip64.so",
            "libamdhip64.so.7",
            "libamdhip64.so.6",
            "libamdhip64.so.5",
            "/opt/rocm/lib/libamdhip64.so",
        ];
        assert!(order.is_sorted_by_key(|path| position(path)), "{candidates:?}");
    }

    #[test]
    fn what_is_not_there_is_reported_with_what_was_tried_and_what_to_install() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("libamdhip64.so");
        std::fs::write(&file, "not a library").expect("a file");
        for named in [file, dir.path().join("absent.so")] {
            let environment =
                Environment { named: Some(named.clone().into()), ..Environment::default() };
            let error = HIP.open(&environment, Ok).expect_err("no library");
            let message = error.to_string();
            for part in [&*named.display().to_string(), "LAPIDARY_HIP_LIBRARY", "install ROCm"] {
                assert!(message.contains(part), "{message}");
            }
            assert_eq!(message.lines().count(), 1, "{message}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_absent_is_listed_without_a_reason() {
        let nowhere =
            Wanted { variable: "NAMED", names: &["liblapidary-a.so", "liblapidary-b.so"] };
        match nowhere.open(&Environment::default(), Ok) {
            Err(LibraryError::NotFound { library, searched, .. }) => {
                assert_eq!(library, "liblapidary-a.so");
                let tried = "liblapidary-a.so, liblapidary-b.so, /opt/rocm/lib/liblapidary-a.so, \
                    /opt/rocm/lib/liblapidary-b.so";
                assert_eq!(searched, tried);
            }
            other => panic!("{other:?}"),
        }
    }
}
