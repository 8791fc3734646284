//! `lapidary emulate` on a code object that clang compiles.

#![allow(clippy::unwrap_used, reason = "a helper fails its test by panicking")]

mod support;

use std::fs;
use std::process::Command;

use support::{Folder, lapidary, refuse, succeed};

const CLANG: &str = "clang-22";
/// Makes clang keep the names of arguments.
const NAMES: &[&str] = &["-fno-discard-value-names"];

const SOURCE: &str = r#"
#define KERNEL extern "C" __attribute__((global)) void
typedef _Float16 f16;
struct Pair { float scale, offset; int n; };
#define ITEM (__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x())
KERNEL vector_add(const float *a, const float *b, float *c, int n) {
  int i = ITEM;
  if (i < n) c[i] = a[i] + b[i];
}
KERNEL affine(float *x, Pair p, f16 more, short i16, unsigned char u8, double d, long l) {
  int i = ITEM;
  if (i < p.n) x[i] = x[i] * p.scale + p.offset + (float)more + i16 + u8 + (float)d + l;
}
KERNEL endless(int *x) {
  while (__atomic_load_n(x, __ATOMIC_RELAXED) == 0) {}
}
extern __attribute__((shared)) int dynamic[];
KERNEL race(int *x) {
  int t = __builtin_amdgcn_workitem_id_x();
  dynamic[t] = t;
  x[ITEM] = dynamic[t ^ 64];
}
"#;

/// Compiles `source` for `arch` into the folder; none, and a line that says so, without a compiler.
fn compile(folder: &Folder, source: &str, arch: &str, options: &[&str]) -> Option<String> {
    let found = Command::new(CLANG).arg("--version").output().is_ok();
    if !found {
        println!("skipped: no {CLANG}");
        return None;
    }
    let text = folder.write("kernels.hip", source.as_bytes());
    let object = folder.at(&format!("{arch}.co"));
    let output = Command::new(CLANG)
        .args(["-x", "hip", "--offload-device-only", "-nogpuinc", "-nogpulib", "-O3"])
        .args(["--no-gpu-bundle-output", "-fuse-ld=lld", "-gline-tables-only"])
        .args(options)
        .args([&format!("--offload-arch={arch}"), "-o", &object, &text])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(object)
}

/// A folder with the kernels for gfx942 and inputs a and b of `n` values.
fn prepare(n: usize) -> Option<(Folder, String)> {
    let folder = Folder::new();
    let object = compile(&folder, SOURCE, "gfx942", NAMES)?;
    let values = |f: fn(usize) -> f32| (0..n).flat_map(|i| f(i).to_le_bytes()).collect::<Vec<_>>();
    folder.write("a.bin", &values(|i| i as f32));
    folder.write("b.bin", &values(|i| 0.5 * i as f32));
    Some((folder, object))
}

fn floats(folder: &Folder, name: &str) -> Vec<f32> {
    bytemuck::pod_collect_to_vec(&fs::read(folder.path(name)).unwrap())
}

/// The arguments of vector_add over the files of the folder.
fn add<'a>(object: &'a str, grid: &'a str, args: &'a [String; 4]) -> Vec<&'a str> {
    let mut line =
        vec!["emulate", object, "--kernel", "vector_add", "--grid", grid, "--block", "64"];
    line.extend(args.iter().flat_map(|arg| ["--arg", arg.as_str()]));
    line
}

fn add_args(folder: &Folder, bytes: usize, n: usize) -> [String; 4] {
    [
        format!("in:{}", folder.at("a.bin")),
        format!("in:{}", folder.at("b.bin")),
        format!("out:{}:{bytes}", folder.at("c.bin")),
        format!("i32:{n}"),
    ]
}

fn json(text: &[u8]) -> serde_json::Value {
    serde_json::from_slice(text).unwrap()
}

/// Runs the command, expects exit code 1, and returns its JSON.
fn reported(line: &[&str]) -> serde_json::Value {
    let output = lapidary(&[line, &["--json"]].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert_eq!(message, "", "reports go to standard output");
    json(&output.stdout)
}

#[test]
fn a_vector_addition_of_odd_length() {
    for arch in ["gfx942", "gfx950"] {
        let Some((folder, _)) = prepare(1001) else { return };
        let object = compile(&folder, SOURCE, arch, NAMES).unwrap();
        let args = add_args(&folder, 4004, 1001);
        let text = succeed(&add(&object, "16", &args));
        assert!(text.contains("vector_add") && text.contains("nothing to report"), "{text}");
        assert!(text.contains("global_load_dword") && text.contains("kernels.hip:"), "{text}");
        let expected: Vec<f32> = (0..1001).map(|i| 1.5 * i as f32).collect();
        assert_eq!(floats(&folder, "c.bin"), expected);

        for order in ["reverse", "random:7"] {
            fs::remove_file(folder.path("c.bin")).unwrap();
            let line = [&add(&object, "16", &args)[..], &["--order", order, "--json"]].concat();
            let report = json(succeed(&line).as_bytes());
            assert_eq!(floats(&folder, "c.bin"), expected);
            assert_eq!(report["arch"], arch);
            assert_eq!(report["order"], order);
            assert_eq!(report["complete"], true);
            assert_eq!(report["reports"].as_array().unwrap().len(), 0);
            assert_eq!(report["counters"]["waves"], 16);
            let buffers = report["buffers"].as_array().unwrap();
            assert_eq!((&buffers[0]["read"], &buffers[0]["written"]), (&4004.into(), &0.into()));
            assert_eq!((&buffers[2]["read"], &buffers[2]["written"]), (&0.into(), &4004.into()));
            let executed = |list: &str| -> u64 {
                let list = report[list].as_array().unwrap();
                list.iter().map(|line| line["executed"].as_u64().unwrap()).sum()
            };
            assert_eq!(report["counters"]["instructions"], executed("lines"));
            assert!(executed("source_lines") > 0);
        }
        let left = fs::read_dir(folder.path("")).unwrap();
        let partial = left.filter(|entry| {
            entry.as_ref().unwrap().file_name().to_string_lossy().contains("partial")
        });
        assert_eq!(partial.count(), 0, "no partial file stays");
    }
}

#[test]
fn a_read_past_a_buffer_is_reported() {
    let Some((folder, object)) = prepare(100) else { return };
    // The output has room for the 101st value, the inputs do not have it.
    let args = add_args(&folder, 404, 101);
    let line = add(&object, "2", &args);
    let report = reported(&line);
    let found = report["reports"].as_array().unwrap();
    assert!(found.iter().any(|report| report["kind"] == "out-of-bounds"), "{found:?}");
    let first = &found[0];
    assert_eq!(first["kernel"], "vector_add");
    assert_eq!(first["workgroup"], serde_json::json!([1, 0, 0]));
    assert_eq!(first["lane"], 36);
    assert!(first["instruction"].as_str().unwrap().starts_with("global_load_dword"), "{first}");
    assert_eq!(floats(&folder, "c.bin")[99], 148.5, "outputs are written all the same");

    let output = lapidary(&line);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let reports = text.lines().filter(|line| line.starts_with("report    ")).count();
    assert_eq!(reports, found.len(), "{text}");
}

#[test]
fn empty_buffers_hold_nothing() {
    let Some((folder, object)) = prepare(0) else { return };
    let args = add_args(&folder, 0, 0);
    succeed(&add(&object, "1", &args));
    assert_eq!(fs::read(folder.path("c.bin")).unwrap(), b"");
    let args = add_args(&folder, 0, 1);
    let report = reported(&add(&object, "1", &args));
    assert_eq!(report["reports"][0]["kind"], "out-of-bounds");
}

#[test]
fn a_store_into_an_input_is_reported() {
    let Some((folder, object)) = prepare(64) else { return };
    let mut args = add_args(&folder, 256, 64);
    args[2] = args[1].clone();
    let report = reported(&add(&object, "1", &args));
    assert_eq!(report["reports"][0]["kind"], "read-only");
}

#[test]
fn an_endless_loop_runs_into_its_budget() {
    let Some((folder, object)) = prepare(1) else { return };
    let zero = format!("in:{}", folder.write("zero.bin", &[0; 4]));
    let report = reported(&[
        "emulate", &object, "--kernel", "endless", "--grid", "1", "--block", "64", "--arg", &zero,
        "--budget", "1000",
    ]);
    assert_eq!(report["reports"][0]["kind"], "instruction-budget");
    assert_eq!(report["complete"], false);
}

#[test]
fn a_race_in_dynamic_lds_is_reported_unless_unchecked() {
    let Some((folder, object)) = prepare(1) else { return };
    let out = format!("out:{}:512", folder.at("x.bin"));
    let line = [
        "emulate", &object, "--kernel", "race", "--grid", "1", "--block", "128", "--lds", "512",
        "--arg", &out,
    ];
    let report = reported(&line);
    let kinds: Vec<_> = report["reports"].as_array().unwrap().iter().map(|r| &r["kind"]).collect();
    assert!(kinds.iter().any(|kind| *kind == "lds-race"), "{kinds:?}");
    let report = json(succeed(&[&line[..], &["--unchecked", "--json"]].concat()).as_bytes());
    assert_eq!(report["checked"], false);
    assert_eq!(report["dynamic_lds"], 512);
}

#[test]
fn values_of_every_width_and_a_structure() {
    let Some((folder, object)) = prepare(64) else { return };
    let pair = [2f32.to_le_bytes(), 0.25f32.to_le_bytes(), 64i32.to_le_bytes()].concat();
    let (pair, x) = (folder.write("pair.bin", &pair), folder.at("a.bin"));
    let (pair, x) = (format!("bytes:{pair}"), format!("inout:{x}"));
    succeed(&[
        "emulate",
        &object,
        "--kernel",
        "affine",
        "--grid",
        "1,1,1",
        "--block",
        "64,1,1",
        "--arg",
        &x,
        "--arg",
        &pair,
        "--arg",
        "f16:0.5",
        "--arg",
        "i16:-3",
        "--arg",
        "u8:200",
        "--arg",
        "f64:1000",
        "--arg",
        "i64:-5000",
    ]);
    let expected: Vec<f32> = (0..64).map(|i| 2.0 * i as f32 + 0.75 - 3803.0).collect();
    assert_eq!(floats(&folder, "a.bin"), expected);
}

#[test]
fn a_sample_of_the_workgroups() {
    let Some((folder, object)) = prepare(1000) else { return };
    let args = add_args(&folder, 4000, 1000);
    let sample = ["--workgroups", "2/4,0,0", "--threads", "1", "--json"];
    let report = json(succeed(&[&add(&object, "16", &args)[..], &sample].concat()).as_bytes());
    assert_eq!(report["counters"]["workgroups"], 2);
    for (i, value) in floats(&folder, "c.bin").into_iter().enumerate() {
        let ran = (128..192).contains(&i) || (256..320).contains(&i);
        assert_eq!(value, if ran { 1.5 * i as f32 } else { 0.0 }, "element {i}");
    }
}

#[test]
fn the_only_kernel_needs_no_name() {
    let folder = Folder::new();
    let source = r#"extern "C" __attribute__((global)) void only(int *x) { *x = 5; }"#;
    let Some(object) = compile(&folder, source, "gfx950", &[]) else { return };
    let out = format!("out:{}:4", folder.at("x.bin"));
    let line = ["emulate", &object, "--grid", "1", "--block", "1", "--arg", &out];
    refuse(&line[..6], &["`only` takes 1 arguments", "0: buffer (8-byte address)"]);
    succeed(&line);
    assert_eq!(fs::read(folder.path("x.bin")).unwrap(), 5i32.to_le_bytes());
}

#[test]
fn kernels_that_cannot_be_picked() {
    let Some((_folder, object)) = prepare(1) else { return };
    let sizes = ["--grid", "1", "--block", "64"];
    refuse(
        &[&["emulate", &object], &sizes[..]].concat(),
        &["gfx942.co", "4 kernels", "--kernel", "vector_add", "affine", "endless", "race"],
    );
    refuse(
        &[&["emulate", &object, "--kernel", "vectoradd"], &sizes[..]].concat(),
        &["no kernel \"vectoradd\"", "vector_add"],
    );
}

#[test]
fn arguments_that_do_not_fit_the_kernel() {
    let Some((folder, object)) = prepare(64) else { return };
    let args = add_args(&folder, 256, 64);
    let line = add(&object, "1", &args);
    refuse(
        &line[..line.len() - 2],
        &[
            "`vector_add` takes 4 arguments",
            "given 3 times",
            "0 (a): buffer",
            "3 (n): value of 4 bytes",
        ],
    );
    refuse(
        &[&line[..], &["--arg", "i32:1"]].concat(),
        &["takes 4 arguments", "given 5 times", "2 (c): buffer"],
    );
    let with = |index: usize, text: &str, expected: &[&str]| {
        let mut args = args.clone();
        args[index] = text.to_owned();
        refuse(&add(&object, "1", &args), expected);
    };
    with(3, "i64:64", &["i64:64 has 8 bytes", "argument 3 (n)", "value of 4 bytes"]);
    with(3, &args[0], &["a.bin has 8 bytes", "argument 3 (n)", "value of 4 bytes"]);
    with(0, "i32:5", &["i32:5 has 4 bytes", "argument 0 (a)", "buffer (8-byte address)"]);
    with(0, "f64:5", &["f64:5 is no buffer", "argument 0 (a)", "inout"]);
    with(3, &format!("bytes:{}", folder.at("a.bin")), &["has 256 bytes", "argument 3 (n)"]);
    with(1, &args[2], &["c.bin", "two arguments would be written"]);
    with(1, &format!("inout:{}", folder.at("./c.bin")), &["c.bin", "No such file"]);
    with(0, "in:/nonexistent/a.bin", &["/nonexistent/a.bin", "No such file"]);
    with(0, &format!("in:{}", folder.at("")), &["is not a regular file"]);
    with(2, &format!("out:{}:256", folder.at("no/c.bin")), &["no/c.bin", "No such file"]);
    with(
        2,
        &format!("out:{}:99999999999", folder.at("c.bin")),
        &["100000000", "limit is 17179869184"],
    );
    with(3, "i32:x", &["--arg", "\"x\" is not a number that i32 holds"]);
    with(3, "int:5", &["\"int\" is no kind of argument", "inout"]);
    with(2, "out:c.bin", &["out:FILE:BYTES"]);
    assert!(!folder.path("c.bin").exists(), "nothing ran");
}

#[test]
fn launches_that_make_no_sense() {
    let Some((folder, object)) = prepare(64) else { return };
    let args = add_args(&folder, 256, 64);
    let line = add(&object, "1", &args);
    let with = |more: &[&str], expected: &[&str]| refuse(&[&line[..], more].concat(), expected);
    with(&["--order", "random"], &["--order", "random:SEED"]);
    with(&["--workgroups", "1"], &["workgroup 1,0,0", "1x1x1"]);
    with(&["--workgroups", "0/0"], &["workgroup 0,0,0 is named twice"]);
    with(&["--workgroups", "a"], &["\"a\"", "X,Y,Z"]);
    with(&["--lds", "65537"], &["65537 bytes of LDS", "gfx942 has 65536"]);
    with(&["--threads", "0"], &["--threads", "1..=1024"]);
    refuse(&add(&object, "1,1,1,1", &args), &["--grid", "one to three numbers"]);
    refuse(&add(&object, "0", &args), &["--grid", "1 or more"]);
    refuse(&add(&object, "4294967295,2", &args), &["limit is 16777216"]);
    let mut wide = line.clone();
    wide[7] = "2048";
    refuse(&wide, &["2048x1x1", "1024"]);
    refuse(&line[..6], &["--block"]);
}

#[test]
fn files_that_are_no_code_objects() {
    let folder = Folder::new();
    let sizes = ["--grid", "1", "--block", "64"];
    let text = folder.write("text.co", b"not an ELF file");
    let none = folder.at("none.co");
    for (file, expected) in
        [(&text, "not an AMDGPU code object"), (&none, "No such file"), (&folder.at(""), "regular")]
    {
        refuse(&[&["emulate", file], &sizes[..]].concat(), &[expected]);
    }
    let program = env!("CARGO_BIN_EXE_lapidary");
    refuse(&[&["emulate", program], &sizes[..]].concat(), &["not an AMDGPU code object"]);
    if let Some((_folder, object)) = prepare(1) {
        let whole = fs::read(object).unwrap();
        let half = folder.write("half.co", &whole[..whole.len() / 2]);
        refuse(&[&["emulate", &half], &sizes[..]].concat(), &["half.co"]);
    }
}
