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
