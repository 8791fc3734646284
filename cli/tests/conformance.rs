//! `lapidary conformance` as a program.

use std::path::Path;
use std::process::{Command, Output};

fn conformance(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lapidary"))
        .arg("conformance")
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The cases of one pair of types on the CPU: a table, a report, exit code 0; the same twice.
#[test]
fn a_filtered_run_passes_and_writes_its_report() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |name: &str| {
        let report = dir.path().join(name);
        let path = report.to_string_lossy().into_owned();
        let arguments = [
            "--backend",
            "cpu",
            "--quick",
            "--filter",
            "f32-f32.",
            "--seed",
            "7",
            "--report",
            &path,
        ];
        let output = conformance(&arguments);
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        (text(&output.stdout), read(&report))
    };
    let (table, report) = run("first.json");
    for part in ["cpu", "canaries broken", "seed 7"] {
        assert!(table.contains(part), "{part} in\n{table}");
    }
    let (_, again) = run("second.json");
    let cases = |report: &serde_json::Value| count(report, "cases");
    assert!(cases(&report) > 0 && cases(&report) == cases(&again), "{report}");
}

fn read(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).expect("a report")).expect("JSON")
}

/// The sum of every number of that name.
fn count(value: &serde_json::Value, name: &str) -> u64 {
    match value {
        serde_json::Value::Object(map) => map
            .iter()
            .map(|(key, value)| match value.as_u64() {
                Some(number) if key == name => number,
                _ => count(value, name),
            })
            .sum(),
        serde_json::Value::Array(all) => all.iter().map(|value| count(value, name)).sum(),
        _ => 0,
    }
}

#[test]
fn what_cannot_be_checked_is_one_line_and_code_2() {
    for arguments in [
        &["--backend", "cpu", "--filter", "no-such-case"][..],
        &["--backend", "abacus"],
        &["--tier", "guesswork"],
    ] {
        let output = conformance(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}
