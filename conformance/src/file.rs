//! Case files.

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use lapidary_core::ElementType;
use serde::{Deserialize, Serialize};

use crate::names;
use crate::spec::Spec;

/// Bytes of a case file that are read: a hundred thousand cases.
const FILE_BYTES: u64 = 64 << 20;

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
    /// A name that a line of a report cannot show as it is.
    #[error("{file}: the name {name:?} of a case has a control character, or a space at an end")]
    Name {
        /// The file.
        file: String,
        /// The name.
        name: String,
    },
    /// A factor with which nothing could be compared.
    #[error("{file}: case {name:?} has {what} = {value:?}, which is not finite in {element}")]
    Factor {
        /// The file.
        file: String,
        /// The case.
        name: String,
        /// Alpha or beta.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The type that it is used in.
        element: ElementType,
    },
    /// A file that is longer than any list of cases.
    #[error("{file} has more than {} bytes, the limit of a case file", FILE_BYTES)]
    TooLong {
        /// The file.
        file: String,
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
    parse(&path.display().to_string(), &text(path)?)
}

fn text(path: &Path) -> Result<String, FileError> {
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(io(path))?;
    file.take(FILE_BYTES + 1).read_to_string(&mut text).map_err(io(path))?;
    if text.len() as u64 > FILE_BYTES {
        return Err(FileError::TooLong { file: path.display().to_string() });
    }
    Ok(text)
}

/// The cases in `text`, which `file` names in errors. No operand of any case is made.
///
/// # Errors
/// [`FileError`] with the case at fault.
pub fn parse(file: &str, text: &str) -> Result<Vec<Spec>, FileError> {
    let cases: Cases = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map(|text| format!("line {}: ", text.matches('\n').count() + 1));
        let message: Vec<_> = error.message().split_whitespace().collect();
        FileError::Syntax {
            file: file.to_owned(),
            message: line.unwrap_or_default() + &message.join(" "),
        }
    })?;
    cases.case.iter().try_for_each(|spec| judge(file, spec))?;
    check_names(file, &cases.case)?;
    Ok(cases.case)
}

/// Whether `spec` is a case that a report can name and the suite can check.
fn judge(file: &str, spec: &Spec) -> Result<(), FileError> {
    let (file, name) = (file.to_owned(), spec.name.clone());
    if spec.reason.trim().is_empty() || name.trim().is_empty() {
        return Err(FileError::NoReason { file, name });
    }
    if name.chars().any(char::is_control) || name.trim() != name {
        return Err(FileError::Name { file, name });
    }
    let element = spec.problem().bias_element();
    for (what, value) in [("alpha", spec.alpha), ("beta", spec.beta)] {
        // Factors are f32 wherever they are no f64: what is infinite there hides every result.
        let finite = match element {
            ElementType::F64 => value.is_finite(),
            _ => (value as f32).is_finite(),
        };
        if !finite {
            return Err(FileError::Factor { file, name, what, value, element });
        }
    }
    match spec.laid_out() {
        Ok(_) => Ok(()),
        Err(error) => Err(FileError::Invalid { file, name, error: Box::new(error) }),
    }
}

/// The cases at `path` that are none of the suite's own.
///
/// # Errors
/// [`FileError`] as [`read`] says, or [`FileError::Duplicate`] if one has the name of a built-in case
/// and is another: a name is how a failure is run again.
pub fn read_more(path: &Path) -> Result<Vec<Spec>, FileError> {
    let built_in = built_in()?;
    let mut more = Vec::new();
    for spec in read(path)? {
        match built_in.iter().find(|known| known.name == spec.name) {
            None => more.push(spec),
            Some(known) if *known == spec => {}
            Some(_) => {
                let file = format!("{} and the built-in cases", path.display());
                return Err(FileError::Duplicate { file, name: spec.name });
            }
        }
    }
    Ok(more)
}

fn check_names(file: &str, cases: &[Spec]) -> Result<(), FileError> {
    let mut names = HashSet::new();
    match cases.iter().find(|spec| !names.insert(&spec.name)) {
        None => Ok(()),
        Some(spec) => Err(FileError::Duplicate { file: file.to_owned(), name: spec.name.clone() }),
    }
}

/// Whether [`append`] can add to the file at `path`, as far as reading it tells; one that is not there
/// can be made.
///
/// # Errors
/// [`FileError`] if it is no list of cases, or a list that ends within brackets.
pub fn appendable(path: &Path) -> Result<(), FileError> {
    if !path.exists() {
        return Ok(());
    }
    let (file, text) = (path.display().to_string(), text(path)?);
    parse(&file, &text)?;
    let more = format!("{text}\n[[case]]\n");
    more.parse::<toml::Table>().map(drop).map_err(|_| FileError::Syntax {
        file,
        message: "its cases are in brackets: none can be appended but to [[case]]".into(),
    })
}

/// Appends a case to a file, which is made if it is not there. A case that is there already, name
/// aside, is not added again; another of the same name gets a number that keeps its data.
///
/// # Errors
/// [`FileError`] if the file is no list of cases or cannot be written.
pub fn append(path: &Path, spec: &Spec) -> Result<bool, FileError> {
    let file = path.display().to_string();
    let mut text = if path.exists() { text(path)? } else { String::new() };
    let known = parse(&file, &text)?;
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
        spec.name = names::another(&base, number);
        number += 1;
    }
    let entry = toml::to_string(&Cases { case: vec![spec] })
        .map_err(|error| FileError::Syntax { file: file.clone(), message: error.to_string() })?;
    if !text.is_empty() && !text.ends_with("\n\n") {
        text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
    }
    text.push_str(&entry);
    // What cannot be read back is not written.
    parse(&file, &text)?;
    std::fs::write(path, text).map_err(io(path))?;
    Ok(true)
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> FileError + '_ {
    move |error| FileError::Io { path: path.to_owned(), error }
}
