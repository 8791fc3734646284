//! What the course's programs share: arguments, data, checks, timing, and a record of the results.
//!
//! [`lab::Lab`] opens a device and holds the operands; [`lab::Lab::measure`] checks kernels, times
//! them side by side and returns a [`record::Record`], plain data that is printed or saved.

pub(crate) mod args;
pub(crate) mod data;
pub(crate) mod figures;
pub(crate) mod identity;
pub(crate) mod lab;
pub(crate) mod random;
pub(crate) mod record;
pub(crate) mod timing;

use std::path::Path;

/// Errors end a program with a message; what they are is the library's business.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Sends the library's spans and events to standard error, as `RUST_LOG` asks.
pub(crate) fn log_to_stderr() {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::CLOSE)
        .with_writer(std::io::stderr)
        .init();
}

/// The command that runs this program, with the arguments it was given.
pub(crate) fn command() -> String {
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    let name = Path::new(&program).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut command = format!("cargo run --release -p lapidary-wgsl --example {name}");
    let rest: Vec<String> = arguments.collect();
    if !rest.is_empty() {
        command.push_str(" -- ");
        command.push_str(&rest.join(" "));
    }
    command
}
