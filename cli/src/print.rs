//! Reports on standard output, for people or as JSON.

use std::fmt::Display;
use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Prints `report` as text, or as JSON.
///
/// # Errors
/// [`Failure::Print`] if standard output is closed or full.
pub(crate) fn report(report: &(impl Display + Serialize), json: bool) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        let mut out = io::stdout().lock();
        if json {
            serde_json::to_writer_pretty(&mut out, report)?;
            writeln!(out)?;
        } else {
            write!(out, "{report}")?;
        }
        out.flush()
    };
    write().map_err(Failure::Print)
}

/// Prints `report` on standard error, where standard output has something else. Where nobody can read
/// it, that has to do.
pub(crate) fn aside(report: &impl Display) {
    write!(io::stderr(), "{report}").ok();
}
