//! The command `lapidary`: what the machine can do, products of matrices in files, and emulated code
//! objects.

mod conformance;
mod devices;
mod emulate;
mod failure;
mod hip;
mod io;
mod print;
mod progress;
mod run;
mod tune;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::failure::{BAD_INPUT, Failure};

/// Multiply matrices on any GPU, or on the CPU.
///
/// RUST_LOG=info shows on standard error what the library does on the way, and how long it takes.
#[derive(Parser)]
#[command(name = "lapidary", version, about, long_about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Devices(devices::Arguments),
    Run(Box<run::Arguments>),
    Tune(tune::Arguments),
    Emulate(Box<emulate::Arguments>),
    Conformance(Box<conformance::Arguments>),
}

fn main() -> ExitCode {
    quiet_vulkan_loader();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::from_default_env())
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return report_usage(&error),
    };
    let result = match cli.command {
        Command::Devices(arguments) => devices::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Tune(arguments) => tune::run(&arguments),
        Command::Emulate(arguments) => emulate::run(&arguments),
        Command::Conformance(arguments) => conformance::run(&arguments),
    };
    result.unwrap_or_else(|failure: Failure| {
        complain(&format!("error: {failure}"));
        failure.exit_code()
    })
}

/// Prints a line on standard error. Where nobody can read it, the exit code has to do.
fn complain(line: &str) {
    writeln!(std::io::stderr(), "{line}").ok();
}

/// Keeps Mesa's device-select layer from complaining, once per device, that a machine without a
/// desktop has no Wayland display to ask for its preferred GPU.
fn quiet_vulkan_loader() {
    let headless =
        ["XDG_RUNTIME_DIR", "WAYLAND_DISPLAY"].iter().all(|name| std::env::var_os(name).is_none());
    if cfg!(target_os = "linux") && headless {
        // SAFETY: `main` calls this first, so no other thread reads the environment meanwhile.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}

/// Prints help where it was asked for, and anything else as one line.
fn report_usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        _ => {
            complain(&one_line(&error.to_string()));
            ExitCode::from(BAD_INPUT)
        }
    }
}

/// The message of an error of the command line, without the usage that follows it.
fn one_line(rendered: &str) -> String {
    rendered
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn usage_errors_take_one_line() {
        for (arguments, expected) in [
            (&["lapidary", "run", "a.npy"][..], "<B>"),
            (&["lapidary", "run", "a.npy", "b.npy", "--step", "9"], "9 is not in 1..=7"),
            (&["lapidary", "run", "a.npy", "b.npy", "--activation", "tanh"], "gelu-erf"),
            (&["lapidary", "run", "a.npy", "b.npy", "--alpha", "x"], "--alpha"),
            (&["lapidary", "multiply"], "multiply"),
        ] {
            let error = Cli::try_parse_from(arguments).err().unwrap();
            let line = one_line(&error.to_string());
            assert!(line.starts_with("error: ") && line.contains(expected), "{line}");
            assert_eq!(line.lines().count(), 1);
        }
    }

    #[test]
    fn negative_factors_need_no_equals_sign() {
        let line = ["lapidary", "run", "a.npy", "b.npy", "--alpha", "-1.5", "--beta", "-2"];
        assert!(Cli::try_parse_from(line).is_ok());
    }
}
