//! `lapidary emulate`: a kernel of any CDNA code object, run and checked on the CPU.

mod arguments;
mod error;
mod report;
mod run;
mod value;

pub(crate) use arguments::Arguments;
pub(crate) use error::EmulateError;
pub(crate) use run::run;
