//! Runs commands as titled, timed steps and sums them up at the end.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It did what it should.
    Passed,
    /// It did not, and why.
    Failed(String),
    /// It was not done, and why.
    Skipped(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Failed(why) => write!(f, "FAILED: {why}"),
            Self::Skipped(why) => write!(f, "skipped: {why}"),
        }
    }
}

struct Step {
    title: String,
    outcome: Outcome,
    elapsed: Duration,
}

/// Steps done so far.
pub(crate) struct Runner {
    total: usize,
    steps: Vec<Step>,
    start: Instant,
}

impl Runner {
    /// Announces the titles of all steps that will be run.
    pub(crate) fn new(titles: &[&str]) -> Self {
        println!("Steps:");
        for (index, title) in titles.iter().enumerate() {
            println!("  {}. {title}", index + 1);
        }
        Self { total: titles.len(), steps: Vec::new(), start: Instant::now() }
    }

    /// Runs one step under its title and keeps its outcome.
    pub(crate) fn step(&mut self, title: &str, work: impl FnOnce() -> Outcome) -> Outcome {
        println!("\n== {}/{} {title}", self.steps.len() + 1, self.total);
        let start = Instant::now();
        let outcome = work();
        let elapsed = start.elapsed();
        println!("== {outcome} ({})", seconds(elapsed));
        self.steps.push(Step { title: title.to_owned(), outcome: outcome.clone(), elapsed });
        outcome
    }

    /// Prints the summary; true if no step failed.
    pub(crate) fn finish(self, notes: &[String]) -> bool {
        println!("\nSummary");
        let width = self.steps.iter().map(|step| step.title.len()).max().unwrap_or(0);
        for Step { title, outcome, elapsed } in &self.steps {
            println!("  {title:width$}  {:>11}  {outcome}", seconds(*elapsed));
        }
        for note in notes {
            println!("  {note}");
        }
        let count = |kind: fn(&Outcome) -> bool| {
            self.steps.iter().filter(|step| kind(&step.outcome)).count()
        };
        let passed = count(|outcome| matches!(outcome, Outcome::Passed));
        let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
        let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
        let elapsed = seconds(self.start.elapsed());
        println!("steps: {passed} passed, {failed} failed, {skipped} skipped, in {elapsed}");
        failed == 0
    }
}

fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    if whole < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{} min {:02} s", whole / 60, whole % 60)
    }
}

/// The `cargo` that runs this program, started in the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(crate::root());
    command
}

/// The command as a user would type it.
fn show(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}={:?}", name.to_string_lossy(), value?.to_string_lossy()))
    });
    let program = std::path::Path::new(command.get_program()).file_stem().unwrap_or_default();
    variables
        .chain([program.to_string_lossy().into_owned()])
        .chain(command.get_args().map(|argument| argument.to_string_lossy().into_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Prints the command and runs it, its output going straight to the terminal.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let shown = show(command);
    println!("$ {shown}");
    match command.status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(format!("`{shown}`: {status}")),
        Err(error) => Outcome::Failed(format!("`{shown}` could not be started: {error}")),
    }
}

/// Runs a test command that shows the output of passing tests, keeping the lines in which a test
/// says that it skipped something.
///
/// The rest of what passing tests print is left out: the harness would hide it too.
pub(crate) fn run_tests(command: &mut Command, skips: &mut Vec<String>) -> Outcome {
    let shown = show(command);
    println!("$ {shown}");
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            return Outcome::Failed(format!("`{shown}` could not be started: {error}"));
        }
    };
    let mut filter = TestOutput::default();
    for line in child.stdout.take().into_iter().flat_map(|out| BufReader::new(out).split(b'\n')) {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line);
        if let Some(reason) = line.trim_start().strip_prefix("skipped: ") {
            skips.push(reason.to_owned());
        }
        if filter.shows(&line) {
            println!("{line}");
        }
    }
    match child.wait() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(format!("`{shown}`: {status}")),
        Err(error) => Outcome::Failed(format!("`{shown}`: {error}")),
    }
}

/// Tells the harness's own lines from the output of passing tests.
#[derive(Default)]
struct TestOutput {
    in_successes: bool,
}

impl TestOutput {
    fn shows(&mut self, line: &str) -> bool {
        if line == "successes:" {
            self.in_successes = true;
        } else if line == "failures:" || line.starts_with("test result:") {
            self.in_successes = false;
        }
        !self.in_successes || line.trim_start().starts_with("skipped: ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_skips_are_shown_of_passing_tests() {
        let output = "test a ... ok\n\nsuccesses:\n\n---- a stdout ----\nnoise\nskipped: no device\n\n\
                      successes:\n    a\n\ntest result: ok. 1 passed\nfailures:\n---- b stdout ----\nkept";
        let mut filter = TestOutput::default();
        let shown = output.lines().filter(|line| filter.shows(line)).collect::<Vec<_>>();
        assert_eq!(
            shown,
            [
                "test a ... ok",
                "",
                "skipped: no device",
                "test result: ok. 1 passed",
                "failures:",
                "---- b stdout ----",
                "kept"
            ]
        );
    }

    #[test]
    fn a_failing_command_fails_its_step_and_the_whole() {
        let mut runner = Runner::new(&["good", "bad", "not done"]);
        runner.step("good", || Outcome::Passed);
        runner.step("bad", || run(&mut Command::new("/nonexistent/program")));
        runner.step("not done", || Outcome::Skipped("no device".to_owned()));
        assert!(!runner.finish(&[]));
    }
}
