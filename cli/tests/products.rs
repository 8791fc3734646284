//! Small products whose results are exact, through every kind of file and option.

mod support;

use std::io::Write;

use npyz::Order;
use support::{Folder, lapidary, succeed};

/// 2×3.
const A: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
/// 3×2.
const B: [f32; 6] = [7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
/// A · B.
const C: [f32; 4] = [58.0, 64.0, 139.0, 154.0];

fn transposed(values: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    (0..cols).flat_map(|col| (0..rows).map(move |row| values[row * cols + col])).collect()
}

/// Runs on the CPU, writes `c.npy` and returns it.
fn product(folder: &Folder, arguments: &[&str]) -> (Vec<u64>, Vec<f32>) {
    let output = folder.at("c.npy");
    succeed(&[&["run"], arguments, &["--backend", "cpu", "--check", "-o", &output]].concat());
    folder.read("c.npy")
}

#[test]
fn fortran_order_and_transposition_are_views_of_the_same_matrix() {
    let folder = Folder::new();
    let expected = (vec![2, 2], C.to_vec());
    let (a, b) = (folder.npy("a.npy", &[2, 3], &A), folder.npy("b.npy", &[3, 2], &B));
    assert_eq!(product(&folder, &[&a, &b]), expected);

    let (at, bt) = (transposed(&A, 2, 3), transposed(&B, 3, 2));
    let a = folder.npy("at.npy", &[3, 2], &at);
    assert_eq!(product(&folder, &[&a, &b, "--trans-a"]), expected);
    let b = folder.npy("bt.npy", &[2, 3], &bt);
    assert_eq!(product(&folder, &[&a, &b, "--trans-a", "--trans-b"]), expected);

    let a = folder.npy_in(Order::Fortran, "af.npy", &[2, 3], &at);
    let b = folder.npy_in(Order::Fortran, "bf.npy", &[3, 2], &bt);
    assert_eq!(product(&folder, &[&a, &b]), expected);
}

#[test]
fn every_part_of_the_formula_counts() {
    let folder = Folder::new();
    let (a, b) = (folder.npy("a.npy", &[2, 3], &A), folder.npy("b.npy", &[3, 2], &B));
    let c = folder.npy("c_in.npy", &[2, 2], &[1f32, 2.0, 3.0, 4.0]);
    let bias = folder.npy("bias.npy", &[2], &[-100f32, 1.0]);
    let factors = ["--alpha", "0.5", "--beta", "-2", "--c-in", &c, "--bias", &bias];
    // Half the product, minus twice C, plus the bias.
    let line = [29.0 - 2.0 - 100.0, 32.0 - 4.0 + 1.0, 69.5 - 6.0 - 100.0, 77.0 - 8.0 + 1.0];
    let found = product(&folder, &[&[&a[..], &b], &factors[..]].concat());
    assert_eq!(found.1, line);
    let found = product(&folder, &[&[&a[..], &b, "--activation", "relu"], &factors[..]].concat());
    assert_eq!(found.1, line.map(|value| value.max(0.0)));
}

#[test]
fn three_dimensions_are_a_batch_and_two_serve_all_of_it() {
    let folder = Folder::new();
    let twice = A.iter().chain(&A.map(|value| -value)).copied().collect::<Vec<_>>();
    let a = folder.npy("a.npy", &[2, 2, 3], &twice);
    let b = folder.npy("b.npy", &[3, 2], &B);
    let expected = C.iter().chain(&C.map(|value| -value)).copied().collect::<Vec<_>>();
    assert_eq!(product(&folder, &[&a, &b]), (vec![2, 2, 2], expected.clone()));
    let b = folder.npy("bb.npy", &[2, 3, 2], &B.repeat(2));
    assert_eq!(product(&folder, &[&a, &b]), (vec![2, 2, 2], expected));

    // A batch of one stays a batch.
    let a = folder.npy("a1.npy", &[1, 2, 3], &A);
    let b = folder.npy("b1.npy", &[1, 3, 2], &B);
    assert_eq!(product(&folder, &[&a, &b]), (vec![1, 2, 2], C.to_vec()));
}

#[test]
fn archives_and_tensors_are_named() {
    let folder = Folder::new();
    let mut archive = zip::ZipWriter::new(std::fs::File::create(folder.path("ab.npz")).unwrap());
    let methods = [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated];
    for ((name, shape, values), method) in
        [("a", [2, 3], A), ("b", [3, 2], B)].into_iter().zip(methods)
    {
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        archive.start_file(format!("{name}.npy"), options).unwrap();
        let npy = folder.npy("member.npy", &shape, &values);
        archive.write_all(&std::fs::read(npy).unwrap()).unwrap();
    }
    archive.finish().unwrap();
    let named = |name: &str| format!("{}:{name}", folder.at("ab.npz"));
    assert_eq!(product(&folder, &[&named("a"), &named("b")]), (vec![2, 2], C.to_vec()));

    // Written as a tensor, read back as one.
    let output = format!("{}:product", folder.at("c.safetensors"));
    succeed(&["run", &named("a"), &named("b"), "--backend", "cpu", "-o", &output]);
    let identity = folder.npy("one.npy", &[2, 2], &[1f32, 0.0, 0.0, 1.0]);
    assert_eq!(product(&folder, &[&output, &identity]).1, C);
}

#[test]
fn every_element_type_has_its_result_type() {
    let folder = Folder::new();
    let run = |a: &str, b: &str, more: &[&str]| {
        let output = folder.at("c.npy");
        let fixed = ["run", a, b, "--backend", "cpu", "--check", "-o", &output];
        succeed(&[&fixed[..], more].concat());
    };
    let a = folder.npy("a8.npy", &[2, 3], &A.map(|value| value as i8));
    let b = folder.npy("b8.npy", &[3, 2], &B.map(|value| value as i8));
    run(&a, &b, &[]);
    assert_eq!(folder.read::<i32>("c.npy").1, C.map(|value| value as i32));
    run(&a, &b, &["--out-dtype", "f32"]);
    assert_eq!(folder.read::<f32>("c.npy").1, C);
    run(&a, &b, &["--dtype", "f64"]);
    assert_eq!(folder.read::<f64>("c.npy").1, C.map(f64::from));

    let a = folder.npy("a64.npy", &[2, 3], &A.map(f64::from));
    let b = folder.npy("b64.npy", &[3, 2], &B.map(f64::from));
    run(&a, &b, &[]);
    assert_eq!(folder.read::<f64>("c.npy").1, C.map(f64::from));
    run(&a, &b, &["--dtype", "f16"]);
    assert_eq!(folder.read::<half::f16>("c.npy").1, C.map(half::f16::from_f32));
    run(&a, &b, &["--dtype", "bf16", "--out-dtype", "f32"]);
    assert_eq!(folder.read::<f32>("c.npy").1, C);

    // A bias of a narrower type is widened without being asked.
    let bias = folder.npy("bias.npy", &[2], &[0.5f32, -0.5]);
    run(&a, &b, &["--bias", &bias]);
    assert_eq!(folder.read::<f64>("c.npy").1, [58.5, 63.5, 139.5, 153.5]);
}

#[test]
fn empty_dimensions_give_empty_or_zero_results() {
    let folder = Folder::new();
    let none: [f32; 0] = [];
    let a = folder.npy("a.npy", &[0, 3], &none);
    let b = folder.npy("b.npy", &[3, 2], &B);
    assert_eq!(product(&folder, &[&a, &b]), (vec![0, 2], vec![]));
    let a = folder.npy("a0.npy", &[2, 0], &none);
    let b = folder.npy("b0.npy", &[0, 2], &none);
    assert_eq!(product(&folder, &[&a, &b]), (vec![2, 2], vec![0.0; 4]));
}

#[test]
fn an_input_may_be_overwritten() {
    let folder = Folder::new();
    let (a, b) = (folder.npy("a.npy", &[2, 3], &A), folder.npy("b.npy", &[3, 2], &B));
    succeed(&["run", &a, &b, "--backend", "cpu", "-o", &a]);
    assert_eq!(folder.read::<f32>("a.npy"), (vec![2, 2], C.to_vec()));
}

/// Every input is finite, and every sum may overflow.
#[test]
fn a_check_of_sums_that_overflow_judges_what_it_can_and_says_what_it_cannot() {
    let folder = Folder::new();
    let a = folder.npy("big.npy", &[2, 2], &[3e38f32; 4]);
    let ones = folder.npy("ones.npy", &[2, 2], &[1f32; 4]);
    let text = succeed(&["run", &a, &ones, "--backend", "cpu", "--check"]);
    assert!(text.contains("PASSED: 4 of 4 elements"), "{text}");
    // The check computes in f64, which does not hold these.
    let huge = folder.npy("huge.npy", &[2, 2], &[1e308f64; 4]);
    let tens = folder.npy("tens.npy", &[2, 2], &[10f64; 4]);
    let output = lapidary(&["run", &huge, &tens, "--backend", "cpu", "--check"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in ["NOTHING CHECKED: 0 of 4", "4 not judged (sums of finite inputs overflow float64"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let output = lapidary(&["run", &huge, &tens, "--backend", "cpu", "--check", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let check = &report["check"];
    assert_eq!(
        (check["passed"].as_bool(), check["verdict"].as_str()),
        (Some(false), Some("nothing_checked"))
    );
    assert_eq!(check["why_unjudged"]["oracle_overflow"], 4);
}

#[test]
fn the_report_names_what_ran() {
    let folder = Folder::new();
    let (a, b) = (folder.npy("a.npy", &[2, 3], &A), folder.npy("b.npy", &[3, 2], &B));
    let text = succeed(&["run", &a, &b, "--backend", "cpu", "--check"]);
    for part in ["A · B", "M = 2, N = 2, K = 3", "kernel", "check", "154"] {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    let text = succeed(&["run", &a, &b, "--backend", "cpu", "--check", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&report["m"], &report["k"]), (&2.into(), &3.into()));
    assert_eq!(report["backend"], "cpu");
    assert_eq!(report["check"]["passed"], true);
    assert_eq!(report["check"]["checked"], 4);
    assert!(report["kernel"].as_str().is_some_and(|kernel| !kernel.is_empty()));
}

#[test]
fn the_log_is_asked_for_and_goes_to_standard_error() {
    let folder = Folder::new();
    let (a, b) = (folder.npy("a.npy", &[2, 3], &A), folder.npy("b.npy", &[3, 2], &B));
    let run = |log: &str| {
        let arguments = ["run", &a, &b, "--backend", "cpu", "--json"];
        let output = support::command(&arguments).env("RUST_LOG", log).output().unwrap();
        assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok());
        String::from_utf8(output.stderr).unwrap()
    };
    let log = run("info");
    assert!(log.contains("plan{m=2 n=2 k=3"), "{log}");
    assert_eq!(run("off"), "");
}

#[test]
fn devices_lists_the_cpu_and_says_why_others_are_missing() {
    let text = succeed(&["devices"]);
    assert!(text.contains("cpu"), "{text}");
    let devices: serde_json::Value =
        serde_json::from_str(&succeed(&["devices", "--json"])).unwrap();
    let list = devices["devices"].as_array().unwrap();
    assert!(list.iter().any(|device| device["backend"] == "cpu" && device["usable"] == true));
    let wgsl = list.iter().any(|device| device["backend"] == "wgsl");
    assert!(wgsl || devices["wgsl_reason"].is_string(), "{devices}");
}

#[test]
fn help_is_asked_for_and_goes_to_standard_output() {
    for arguments in [&["--help"][..], &["run", "--help"], &["devices", "--help"]] {
        let output = lapidary(arguments);
        assert!(output.status.success() && !output.stdout.is_empty(), "{arguments:?}");
    }
}
