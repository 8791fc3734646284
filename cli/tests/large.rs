//! Products shared by several devices, and products that exceed a device's memory.

mod support;

use support::{Folder, has_wgsl_device, refuse, succeed};

fn integers(len: usize, salt: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7 + salt) % 9) as f32 - 4.0).collect()
}

/// Notes of the report, and what was written.
fn run(folder: &Folder, arguments: &[&str]) -> (Vec<String>, Vec<f32>) {
    let output = folder.at("c.npy");
    let text = succeed(&[&["run"], arguments, &["--check", "--json", "-o", &output]].concat());
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let notes = serde_json::from_value(report["notes"].clone()).expect("a list of sentences");
    (notes, folder.read("c.npy").1)
}

#[test]
fn devices_share_and_little_memory_is_enough() {
    if !has_wgsl_device() {
        return;
    }
    let folder = Folder::new();
    let a = folder.npy("a.npy", &[150, 90], &integers(150 * 90, 1));
    let b = folder.npy("b.npy", &[90, 200], &integers(90 * 200, 5));
    let (_, expected) = run(&folder, &[&a, &b, "--backend", "cpu"]);
    let (notes, shared) = run(&folder, &[&a, &b, "--devices", "0,0"]);
    assert_eq!(shared, expected);
    let columns = |note: &&String| note.starts_with("columns ");
    assert_eq!(notes.iter().filter(columns).count(), 2, "{notes:?}");
    let (notes, streamed) = run(&folder, &[&a, &b, "--memory", "128K"]);
    assert_eq!(streamed, expected);
    assert!(notes.iter().any(|note| note.starts_with("streamed in ")), "{notes:?}");
    let (_, both) = run(&folder, &[&a, &b, "--devices", "all", "--memory", "128K"]);
    assert_eq!(both, expected);
    refuse(&["run", &a, &b, "--devices", "0,999"], &["number 999"]);
    refuse(&["run", &a, &b, "--memory", "1K"], &["bytes of device memory", "1024"]);
}

#[test]
fn options_that_contradict_each_other() {
    let folder = Folder::new();
    let a = folder.npy("a.npy", &[2, 2], &[1f32; 4]);
    refuse(&["run", &a, &a, "--devices", "all", "--device", "0"], &["--devices", "--device"]);
    refuse(&["run", &a, &a, "--devices", "some"], &["--devices", "all"]);
    refuse(&["run", &a, &a, "--memory", "much"], &["--memory", "512M"]);
    refuse(&["run", &a, &a, "--backend", "cpu", "--devices", "0"], &["--devices", "--backend cpu"]);
    refuse(&["run", &a, &a, "--backend", "cpu", "--memory", "1G"], &["--memory", "--backend cpu"]);
    refuse(&["run", &a, &a, "--emulate", "gfx942", "--memory", "1G"], &["--memory", "HIP"]);
}
