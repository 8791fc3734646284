//! Case files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use lapidary_core::testing::Values;
use serde::{Deserialize, Serialize};

use crate::spec::Spec;

/// The suite's own cases.
const BUILT_IN: [(&str, &str); 2] = [
    ("cases/cases.toml", include_str!("../cases/cases.toml")),
    ("cases/regressions.toml", include_str!("../cases/regressions.toml")),
];

/// Why cases cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The text is no list of cases.
    #[error("{file}: {message}")]
    Syntax {
        /// The file.
        file: String,
        /// What is wrong, and where.
        message: String,
    },
    /// Two cases have one name.
    #[error("{file}: there are two cases of the name {name:?}")]
    Duplicate {
        /// The file.
        file: String,
        /// The name.
        name: String,
    },
    /// A case without a name or a reason.
    #[error("{file}: case {name:?} lacks a name or a reason")]
    NoReason {
        /// The file.
        file: String,
        /// The case.
        name: String,
    },
    /// A case that is no valid problem.
    #[error("{file}: case {name:?} is no valid problem: {error}")]
    Invalid {
        /// The file.
        file: String,
        /// The case.
        name: String,
        /// The rule it breaks.
        error: Box<lapidary_core::Error>,
    },
    /// The file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    #[serde(default)]
    case: Vec<Spec>,
}

/// The cases that come with the suite, regressions included.
///
/// # Errors
/// [`FileError`] if they are not valid; a test sees to that.
pub fn built_in() -> Result<Vec<Spec>, FileError> {
    let mut all = Vec::new();
    for (file, text) in BUILT_IN {
        all.extend(parse(file, text)?);
    }
    check_names("the built-in cases", &all)?;
    Ok(all)
}

/// The cases of a file.
///
/// # Errors
/// [`FileError`] with the file and the case at fault.
pub fn read(path: &Path) -> Result<Vec<Spec>, FileError> {
    let text = std::fs::read_to_string(path).map_err(io(path))?;
    parse(&path.display().to_string(), &text)
}

/// The cases in `text`, which `file` names in errors.
///
/// # Errors
/// [`FileError`] with the case at fault.
pub fn parse(file: &str, text: &str) -> Result<Vec<Spec>, FileError> {
    let cases: Cases = toml::from_str(text).map_err(|error| FileError::Syntax {
        file: file.to_owned(),
        message: error.to_string().trim().replace('\n', "; "),
    })?;
    check_names(file, &cases.case)?;
    for spec in &cases.case {
        if spec.reason.trim().is_empty() || spec.name.trim().is_empty() {
            return Err(FileError::NoReason { file: file.to_owned(), name: spec.name.clone() });
        }
        let invalid = |error| FileError::Invalid {
            file: file.to_owned(),
            name: spec.name.clone(),
            error: Box::new(error),
        };
        // Sizes first: operands of a size that no problem may have are never made.
        spec.problem().validate().map_err(invalid)?;
        spec.case(Values::SmallIntegers(1), 0).problem.validate().map_err(invalid)?;
    }
    Ok(cases.case)
}

fn check_names(file: &str, cases: &[Spec]) -> Result<(), FileError> {
    let mut names = HashSet::new();
    match cases.iter().find(|spec| !names.insert(&spec.name)) {
        None => Ok(()),
        Some(spec) => Err(FileError::Duplicate { file: file.to_owned(), name: spec.name.clone() }),
    }
}

/// Appends a case to a file, which is made if it is not there. A case that is there already, name
/// aside, is not added again.
///
/// # Errors
/// [`FileError`] if the file is no list of cases or cannot be written.
pub fn append(path: &Path, spec: &Spec) -> Result<bool, FileError> {
    let known = if path.exists() { read(path)? } else { Vec::new() };
    let same = |known: &Spec| {
        Spec { name: String::new(), ..known.clone() }
            == Spec { name: String::new(), ..spec.clone() }
    };
    if known.iter().any(same) {
        return Ok(false);
    }
    let mut spec = spec.clone();
    let base = spec.name.clone();
    let mut number = 2;
    while known.iter().any(|k| k.name == spec.name) {
        spec.name = format!("{base}-{number}");
        number += 1;
    }
    let entry = toml::to_string(&Cases { case: vec![spec] }).map_err(|error| {
        FileError::Syntax { file: path.display().to_string(), message: error.to_string() }
    })?;
    let mut text = if path.exists() {
        std::fs::read_to_string(path).map_err(io(path))?
    } else {
        String::new()
    };
    if !text.is_empty() && !text.ends_with("\n\n") {
        text.push('\n');
    }
    text.push_str(&entry);
    std::fs::write(path, text).map_err(io(path))?;
    Ok(true)
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> FileError + '_ {
    move |error| FileError::Io { path: path.to_owned(), error }
}
