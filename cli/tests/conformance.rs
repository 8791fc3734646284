//! `lapidary conformance` as a program.

mod support;

use std::path::Path;
use std::process::Output;

use support::{Folder, command, lapidary, refuse, succeed};

fn conformance(arguments: &[&str]) -> Output {
    command(&["conformance"]).args(arguments).output().expect("the command starts")
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
    let folder = Folder::new();
    let file = |name: &str, lines: &str| {
        let text = format!("[[case]]\nname = 'mine'\nreason = 'because'\n{lines}\n");
        folder.write(name, text.as_bytes())
    };
    let cases = file("cases.toml", "shape = [1, 2, 3]");
    let four = file("four.toml", "shape = [1, 2, 3, 4]");
    let vast = file("vast.toml", "shape = [9000000000000000000, 2, 2]");
    let abacus = file("abacus.toml", "shape = [1, 2, 3]\nbackends = ['abacus']");
    let taken = folder.write(
        "taken.toml",
        b"[[case]]\nname = 'k-strip-and-one'\nreason = 'another'\nshape = [1, 2, 3]\n",
    );
    let json = folder.write("report.json", b"{}");
    let brackets = folder.write("brackets.toml", b"case = []");
    let missing = folder.at("no/report.json");
    let folder_path = folder.at("");
    for (arguments, expected) in [
        (&["--backend", "abacus"][..], &["abacus", "gfx942"][..]),
        (&["--tier", "guesswork"], &["guesswork", "worst-case"]),
        (&["--backend", "cpu", "--filter", "no-such"], &["cpu", "\"no-such\" in its name"]),
        (
            &["--backend", "cpu", "--filter", "k-strip", "--tier", "codes", "--tier", "oracle"],
            &["cpu", "\"k-strip\"", "tier codes or oracle"],
        ),
        (&["--backend", "cpu", "--tier", "checks"], &["cpu", "tier checks"]),
        (&["--backend", "cpu", "--filter", ""], &["--filter"]),
        (&["--backend", "cpu", "--jobs", "100000"], &["--jobs", "512"]),
        (&["--backend", "cpu", "--seed", "-1"], &["-1"]),
        (&["--backend", "cpu", "--backend", "gfx942", "--device", "7"], &["--device", "WGSL"]),
        (&["--planted-bugs", "--device", "7"], &["--planted-bugs", "--device"]),
        (&["--planted-bugs", "--seed", "7"], &["--planted-bugs", "--seed"]),
        (&["--planted-bugs", "--filter", "no-such"], &["no planted bug", "\"no-such\""]),
        (&["--cases", &four], &["four.toml", "line 4", "3 sizes", "there are 4"]),
        (&["--cases", &vast], &["vast.toml", "mine", "bytes of A's storage"]),
        (&["--cases", &abacus], &["abacus.toml", "mine", "\"abacus\"", "gfx950"]),
        (&["--cases", &taken], &["taken.toml", "built-in", "\"k-strip-and-one\""]),
        (&["--cases", "-"], &["--cases", "./-"]),
        (&["--cases", &folder_path], &["Is a directory"]),
        (&["--record", "-"], &["--record", "./-"]),
        (&["--record", &json], &["report.json", "line 1"]),
        (&["--record", &brackets], &["brackets.toml", "[[case]]"]),
        (&["--record", &folder_path], &["Is a directory"]),
        (&["--report", &folder_path], &["Is a directory"]),
        (&["--report", &missing], &["no/report.json", "No such file"]),
        (&["--report", &cases, "--cases", &cases], &["--report and --cases", "cases.toml"]),
        (&["--report", &cases, "--record", &cases], &["--report and --record", "cases.toml"]),
    ] {
        let report = folder.at("left.json");
        let record = folder.at("left.toml");
        let mut all = vec!["conformance"];
        all.extend(arguments);
        for (option, path) in [("--report", &report), ("--record", &record)] {
            if !arguments.contains(&option) && !arguments.contains(&"--planted-bugs") {
                all.extend([option, path.as_str()]);
            }
        }
        refuse(&all, expected);
        assert!(!Path::new(&report).exists() && !Path::new(&record).exists(), "{all:?}");
    }
    assert_eq!(std::fs::read(&json).expect("it is there"), b"{}", "and unchanged");
    assert!(!Path::new("-").exists());
}

#[test]
fn a_case_too_large_to_run_is_counted_and_costs_nothing() {
    let folder = Folder::new();
    let text = "[[case]]\nname = 'vast'\nreason = '120 GB'\nshape = [100000, 100000, 100000]\n\
                [[case]]\nname = 'vast no more'\nreason = '1 kB'\nshape = [3, 4, 5]\nkernel = 'auto'\n";
    let cases = folder.write("vast.toml", text.as_bytes());
    let printed = succeed(&[
        "conformance",
        "--backend",
        "cpu",
        "--backend",
        "cpu",
        "--filter",
        "vast",
        "--cases",
        &cases,
    ]);
    for part in ["2 cases, 1 distinct: 1 passed", "skipped: 1 more mult", "2 cases (1 skipped)"] {
        assert!(printed.contains(part), "{part} in\n{printed}");
    }
    assert_eq!(printed.matches("cpu: ").count(), 1, "a backend named twice runs once\n{printed}");
}

/// A misspelt kernel is found by none: the report counts it, and nothing has passed.
#[test]
fn a_run_that_ran_nothing_has_not_passed() {
    let folder = Folder::new();
    let text =
        "[[case]]\nname = 'misspelt'\nreason = 'a slip'\nshape = [3, 4, 5]\nkernel = '1_naiv'\n";
    let cases = folder.write("misspelt.toml", text.as_bytes());
    let arguments = ["--backend", "cpu", "--filter", "misspelt", "--cases", &cases];
    let all: Vec<&str> = std::iter::once("conformance").chain(arguments).collect();
    let output = lapidary(&all);
    assert_eq!(output.status.code(), Some(2));
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(report.contains("skipped: 1 no kernel named \"1_naiv\""), "{report}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("nothing to check: all that was asked for was skipped"), "{error}");
}

/// Where no Vulkan driver and no compiler is: what is here passes, and the exit code says that it was not
/// all. Asked for by name, what is not here is an error.
#[cfg(target_os = "linux")]
#[test]
fn a_default_backend_that_is_not_here_is_named_and_code_3() {
    let folder = Folder::new();
    let run = |arguments: &[&str]| {
        let mut command = command(&["conformance"]);
        for (variable, value) in [
            ("VK_DRIVER_FILES", folder.at("no-driver.json")),
            ("VK_ICD_FILENAMES", folder.at("no-driver.json")),
            // Refused, and no other looked for.
            ("LAPIDARY_CLANG", folder.at("no-clang")),
        ] {
            command.env(variable, value);
        }
        command.args(arguments).output().expect("the command starts")
    };
    let output = run(&["--filter", "k-strip"]);
    let printed = text(&output.stdout);
    let last = printed.lines().last().unwrap_or_default();
    assert_eq!(output.status.code(), Some(3), "{printed}{}", text(&output.stderr));
    assert!(last.starts_with("PASSED: "), "{last}");
    assert!(last.contains("3 backends not here (wgsl, gfx942, gfx950)"), "{last}");
    let output = run(&["--filter", "k-strip", "--backend", "cpu", "--backend", "wgsl"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert_eq!(run(&["--filter", "k-strip", "--backend", "cpu"]).status.code(), Some(0));
    assert!(text(&run(&["--help"]).stdout).contains("Exit codes:"));
}

#[test]
fn json_on_standard_output_leaves_the_table_to_standard_error() {
    for markdown in [false, true] {
        let mut arguments = vec!["--backend", "cpu", "--filter", "k-strip", "--report", "-"];
        arguments.extend(markdown.then_some("--markdown"));
        let output = conformance(&arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: serde_json::Value =
            serde_json::from_slice(&output.stdout).expect("JSON and nothing else");
        assert_eq!(report["backends"][0]["name"], "cpu");
        assert_eq!(report["passed"], true);
        let table = text(&output.stderr);
        let title = if markdown { "# Conformance: --quick" } else { "cpu: " };
        assert!(table.starts_with(title) && table.contains("PASSED"), "{table}");
        assert!(!Path::new("-").exists());
    }
}

/// Each of what a run leaves behind is left although another one cannot be.
#[cfg(target_os = "linux")]
#[test]
fn a_report_that_cannot_be_written_costs_no_table() {
    let output = conformance(&["--backend", "cpu", "--filter", "k-strip", "--report", "/dev/full"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("PASSED"), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("/dev/full"), "{}", text(&output.stderr));
}

#[cfg(unix)]
#[test]
fn files_of_any_name_are_read_and_written() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let odd = folder.path("").join(std::ffi::OsStr::from_bytes(b"it's\xff\n"));
    std::fs::write(&odd, "[[case]]\nname = 'mine'\nreason = 'because'\nshape = [1, 2, 3]\n")
        .expect("it is written");
    let report = folder.path("").join(std::ffi::OsStr::from_bytes(b"\xfe.json"));
    let output = command(&["conformance", "--backend", "cpu", "--filter", "mine", "--cases"])
        .arg(&odd)
        .arg("--report")
        .arg(&report)
        .output()
        .expect("the command starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(count(&read(&report)["backends"][0], "cases"), 2, "one case, and its kernel's");
}

/// The suite's own cases, given again, are run once.
#[test]
fn cases_that_are_built_in_are_not_run_twice() {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/cases/cases.toml");
    let arguments = ["conformance", "--backend", "cpu", "--filter", "k-strip", "--cases", own];
    let printed = succeed(&arguments);
    assert!(printed.contains("PASSED: 1 case, "), "{printed}");
}

/// A bug that cannot be planted for want of a compiler is no bug that was noticed.
#[test]
fn an_incomplete_kill_table_is_a_failure() {
    let folder = Folder::new();
    let output = command(&["conformance", "--planted-bugs", "--filter", "cpu-bias"])
        .env("CARGO", folder.path("no-cargo"))
        .env("CARGO_TARGET_DIR", folder.path("target"))
        .output()
        .expect("the command starts");
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{printed}{}", text(&output.stderr));
    for part in
        ["not planted: cpu-bias", "0 of 1 planted bug noticed", "1 not planted (1 running cargo"]
    {
        assert!(printed.contains(part), "{part} in\n{printed}");
    }
}
