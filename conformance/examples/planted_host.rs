//! Says which tier notices the bug of this name in the library that the program was built with.
//!
//! `lapidary conformance --planted-bugs` builds it from sources with the bug in them; built from the
//! real sources it prints that nobody noticed anything.

use std::process::ExitCode;

use lapidary_conformance::planted;

fn main() -> ExitCode {
    let Some(name) = std::env::args().nth(1) else {
        eprintln!("error: the name of a planted bug is missing");
        return ExitCode::from(2);
    };
    let bugs = match planted::bugs() {
        Ok(bugs) => bugs,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let Some(bug) = bugs.iter().find(|bug| bug.name == name) else {
        eprintln!("error: there is no planted bug {name}");
        return ExitCode::from(2);
    };
    match planted::run_here(bug) {
        Ok(kill) => {
            if let Some(tier) = kill.noticed {
                println!("noticed = {:?}", tier.name());
            }
            println!("message = {:?}", kill.message.replace(['\n', '\r'], " "));
            if let Some(passes) = kill.passes_bound {
                println!("passes_bound = {passes}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
