//! The programs of the course, run as a user runs them.
//!
//! `cargo test` builds them; a run of this test alone does not, and says so.

use std::path::PathBuf;
use std::process::{Command, Output};

use lapidary_hip::compile::Compiler;

const STEPS: [&str; 7] = [
    "hip_step1_naive",
    "hip_step2_workgroup_tile",
    "hip_step3_register_tile",
    "hip_step4_buffered",
    "hip_step5_vectorized",
    "hip_step6_occupancy",
    "hip_step7_generic",
];

/// The program, beside the directory of this test.
fn program(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().expect("this test has a path");
    let path = test.parent()?.parent()?.join("examples").join(name);
    let path = path.with_extension(std::env::consts::EXE_EXTENSION);
    if path.is_file() {
        return Some(path);
    }
    println!("skipped: {name} is not built (cargo test without --test builds it)");
    None
}

fn run(name: &str, arguments: &[&str]) -> Option<Output> {
    let output = Command::new(program(name)?).args(arguments).output();
    Some(output.expect("it starts"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Whether there is a compiler that makes code objects of gfx950, and gives assembly.
fn has_compiler() -> bool {
    let found = Compiler::find_clang().is_ok_and(|compiler| compiler.major() >= 20);
    if !found {
        println!("skipped: there is no clang of LLVM 20 or newer");
    }
    found
}

#[test]
fn every_step_reports_what_it_should_and_passes() {
    if !has_compiler() {
        return;
    }
    for (index, name) in STEPS.into_iter().enumerate() {
        let arch = ["gfx942", "gfx950"][index % 2];
        let sizes = ["--arch", arch, "--m", "33", "--n", "40", "--k", "20"];
        let Some(output) = run(name, &sizes) else { return };
        let out = text(&output.stdout);
        assert!(output.status.success(), "{name}: {out}{}", text(&output.stderr));
        let mut expected = vec![
            arch,
            "emulated",
            "registers",
            "occupancy",
            "hot loop",
            "bit for bit",
            "rocprofv3",
        ];
        if index > 0 {
            expected.push("conflict cycles");
        }
        for part in expected {
            assert!(out.contains(part), "{name} does not say {part}:\n{out}");
        }
        assert!(out.ends_with("\nPASSED\n") && !out.contains("FAILED"), "{name}:\n{out}");
    }
}

#[test]
fn vectors_that_do_not_fit_are_refused_with_the_stride() {
    if !has_compiler() {
        return;
    }
    let sizes = ["--arch", "gfx942", "--m", "9", "--n", "9", "--k", "21"];
    let Some(output) = run(STEPS[4], &sizes) else { return };
    let out = text(&output.stdout);
    assert!(output.status.success(), "{out}");
    assert_eq!(out.matches("the row stride of A is 21").count(), 2, "{out}");
}

#[test]
fn the_preshuffle_program_plans_checks_and_writes_the_loop() {
    if !has_compiler() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("loop.s");
    let path = file.to_str().expect("UTF-8");
    let Some(output) = run("hip_preshuffle", &["--arch", "gfx942", "--loop", path]) else { return };
    let out = text(&output.stdout);
    assert!(output.status.success(), "{out}{}", text(&output.stderr));
    for part in ["64x256x128", "80×20 = 1600 tiles", "65: 4160 MFMA", "436.2 GFLOP", "137.7 MB"] {
        assert!(out.contains(part), "{part}:\n{out}");
    }
    assert!(out.ends_with("\nPASSED\n"), "{out}");
    let written = std::fs::read_to_string(file).expect("the loop");
    assert_eq!(written.lines().filter(|line| line.starts_with("v_mfma")).count(), 128);
}

/// A small product alone would take another tile and another copy of A.
#[test]
fn the_preshuffle_example_checks_the_kernel_that_it_describes() {
    let Some(output) = run("hip_preshuffle", &["--arch", "gfx950"]) else { return };
    let out = text(&output.stdout);
    assert!(output.status.success(), "{out}{}", text(&output.stderr));
    let line = |name: &str| {
        out.lines().find_map(|line| line.trim_start().strip_prefix(name)).unwrap_or_default()
    };
    let described = line("kernel").trim();
    assert!(described.contains("128x256x128"), "{out}");
    let checked = out.lines().filter(|line| line.trim_start().starts_with("checked"));
    let checked: Vec<&str> = checked.collect();
    assert_eq!(checked.len(), 2, "{out}");
    assert!(checked.iter().all(|line| line.ends_with(&format!(", {described}"))), "{out}");
}

#[test]
fn what_cannot_run_is_one_line_and_exit_code_2() {
    for name in STEPS.into_iter().chain(["hip_preshuffle"]) {
        let Some(program) = program(name) else { return };
        let output = Command::new(program)
            .args(["--arch", "gfx942"])
            .env("LAPIDARY_CLANG", "/no/such/clang")
            .output()
            .expect("it starts");
        let err = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {err}");
        assert_eq!(err.lines().count(), 1, "{name}: {err}");
        assert!(err.contains("/no/such/clang"), "{name}: {err}");
        let Some(output) = run(name, &["--arch", "gfx1100"]) else { return };
        assert_eq!(output.status.code(), Some(2), "{name}");
        let err = text(&output.stderr);
        assert!(err.contains("gfx1100") && !err.contains("no HIP device"), "{name}: {err}");
    }
}
