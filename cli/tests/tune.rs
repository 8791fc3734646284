//! `lapidary tune` as a user runs it.

mod support;

use std::process::{Command, Output};

use support::Folder;

fn tune(folder: &Folder, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lapidary"))
        .arg("tune")
        .args(arguments)
        .env("LAPIDARY_TUNE_CACHE", folder.path("tune"))
        .output()
        .expect("the command starts")
}

/// Whether there is a device; says so where there is none.
fn has_device(output: &Output) -> bool {
    let error = String::from_utf8_lossy(&output.stderr);
    let none = error.contains("adapter was found");
    if none {
        let required = std::env::var("LAPIDARY_REQUIRE_GPU").is_ok_and(|value| value == "1");
        assert!(!required, "{error}");
        println!("skipped: no Vulkan adapter");
    }
    !none
}

/// What was found with f16 sums allowed is for runs that allow them, and no others.
#[test]
fn f16_sums_are_a_class_of_their_own() {
    let folder = Folder::new();
    let arguments =
        ["8", "8", "8", "--dtype", "f16", "--out-dtype", "f32", "--f16-sums", "--runs", "1"];
    let output = tune(&folder, &[&arguments[..], &["--warm-up", "0", "--json"]].concat());
    if !has_device(&output) {
        return;
    }
    assert!(output.status.success(), "{output:?}");
    let table: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(table["class"].as_str().unwrap().contains("f16-sums"), "{table}");
    let a = folder.npy("a.npy", &[8, 8], &[1f32; 64]);
    for (flag, measured) in [(None, false), (Some("--f16-sums"), true)] {
        let run = Command::new(env!("CARGO_BIN_EXE_lapidary"))
            .args(["run", &a, &a, "--dtype", "f16", "--out-dtype", "f32", "--backend", "wgsl"])
            .args(["--check", "--json"])
            .args(flag)
            .env("LAPIDARY_TUNE_CACHE", folder.path("tune"))
            .output()
            .unwrap();
        assert!(run.status.success(), "{run:?}");
        let text = String::from_utf8(run.stdout).unwrap();
        assert_eq!(text.contains("measured on this device"), measured, "{flag:?} {text}");
    }
}

#[test]
fn the_table_is_printed_and_the_winner_used_by_run() {
    let folder = Folder::new();
    let arguments = ["8", "8", "8", "--runs", "1", "--warm-up", "0", "--json"];
    let output = tune(&folder, &arguments);
    if !has_device(&output) {
        return;
    }
    assert!(output.status.success(), "{output:?}");
    let table: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let winner = table["winner"].as_str().unwrap();
    let first = &table["candidates"][0];
    assert_eq!(
        (first["candidate"].as_str(), first["status"].as_str()),
        (Some(winner), Some("timed"))
    );
    assert!(first["us"].as_f64().unwrap() > 0.0);
    assert!(std::path::Path::new(table["stored"].as_str().unwrap()).exists());

    let a = folder.npy("a.npy", &[8, 8], &[1f32; 64]);
    let run = Command::new(env!("CARGO_BIN_EXE_lapidary"))
        .args(["run", &a, &a, "--backend", "wgsl", "--check", "--json"])
        .env("LAPIDARY_TUNE_CACHE", folder.path("tune"))
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
    let text = String::from_utf8(run.stdout).unwrap();
    assert!(text.contains("measured on this device"), "{text}");
}

#[test]
fn bad_input_takes_one_line() {
    let folder = Folder::new();
    for (arguments, expected) in [
        (&["8", "8"][..], "<K>"),
        (&["0", "8", "8"], "0 is not in 1.."),
        (&["8", "8", "8", "--dtype", "f64"], "f64"),
        (&["8", "8", "8", "--dtype", "f32", "--out-dtype", "i32"], "i32"),
    ] {
        let output = tune(&folder, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(error.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{error}");
        assert!(error.contains(expected), "{error}");
    }
}
