//! Writes the table of `docs/speed.md` from rows of CSV: those of `--bench versus`, of `cublas.py` and of
//! `peers/`, in as many runs as there are.
//!
//! `cargo run -p lapidary-bench --example versus_table -- docs/speed.md ours1.csv cublas1.csv ours2.csv …`

use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use lapidary_bench::row;
use lapidary_bench::versus;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(document) = arguments.next() else {
        eprintln!("usage: versus_table DOCUMENT CSV...");
        return ExitCode::from(2);
    };
    match run(Path::new(&document), arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err((path, error)) => {
            eprintln!("{path}: {error}");
            ExitCode::from(2)
        }
    }
}

/// Writes into the document; what failed, with its path, otherwise.
fn run(document: &Path, tables: impl Iterator<Item = String>) -> Result<(), (String, io::Error)> {
    let mut rows = Vec::new();
    for path in tables {
        let read = fs::File::open(&path).map_err(csv::Error::from).and_then(row::read);
        rows.extend(read.map_err(|error| (path, io::Error::other(error)))?);
    }
    let name = |error| (document.display().to_string(), error);
    let text = fs::read_to_string(document).map_err(name)?;
    let Some(text) = versus::with_table(&text, &versus::table(&rows)) else {
        let missing = format!("it has no lines {} and {}", versus::BEGIN, versus::END);
        return Err(name(io::Error::other(missing)));
    };
    fs::write(document, text).map_err(name)
}
