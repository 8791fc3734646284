//! `lapidary run` on the emulated HIP devices.

mod support;

use support::{Folder, LAYER, layer, refuse, succeed};

/// Whether kernels can be compiled here; prints the reason where they cannot.
fn has_compiler() -> bool {
    let devices: serde_json::Value =
        serde_json::from_str(&succeed(&["devices", "--json"])).expect("JSON");
    let emulated = devices["devices"].as_array().expect("a list").iter().find(|device| {
        device["backend"] == "hip"
            && device["name"].as_str().expect("a text").contains("gfx942, emulated")
    });
    let emulated = emulated.expect("the emulator is always listed");
    if emulated["usable"] != true {
        println!("skipped: {}", emulated["lacks"]);
        return false;
    }
    true
}

/// Runs a product of the layer; the report and C as f32.
fn run(arch: &str, arguments: &[&str]) -> (serde_json::Value, Vec<f32>) {
    let folder = Folder::new();
    let output = folder.at("c.npy");
    let operand = |name: &str| format!("{LAYER}:{name}");
    let (a, b, bias) = (operand("activations"), operand("ffn.weight"), operand("ffn.bias"));
    let mut line = vec!["run", &a, &b, "--trans-b", "--bias", &bias, "-o", &output, "--json"];
    line.extend(["--backend", "hip", "--emulate", arch, "--check", "--out-dtype", "f32"]);
    line.extend(arguments);
    let report = serde_json::from_str(&succeed(&line)).expect("JSON");
    let (shape, values) = folder.read::<f32>("c.npy");
    assert_eq!(shape, [105, 1536]);
    (report, values)
}

/// ‖found − expected‖ / ‖expected‖.
fn relative_error(found: &[f32], expected: &[f64]) -> f64 {
    let error: f64 = found.iter().zip(expected).map(|(f, e)| (f64::from(*f) - e).powi(2)).sum();
    let size: f64 = expected.iter().map(|e| e * e).sum();
    (error / size).sqrt()
}

#[test]
fn the_layer_runs_in_bf16_and_fp8_on_both_targets() {
    if !has_compiler() {
        return;
    }
    let (_, expected) = layer("ffn.gelu_erf");
    for (arch, fp8) in [("gfx942", "f8e4m3fnuz"), ("gfx950", "f8e4m3")] {
        let activation = ["--activation", "gelu-erf"];
        let (report, found) = run(arch, &[&activation[..], &["--dtype", "bf16"]].concat());
        assert_eq!(
            (report["element_a"].as_str(), report["check"]["passed"].as_bool()),
            (Some("bf16"), Some(true))
        );
        assert!(report["device"].as_str().expect("a text").contains("emulated"));
        assert!(report["kernel"].as_str().expect("a text").starts_with("preshuffle"));
        // Each factor of a product is off by at most half a unit of bf16's last place, 2⁻⁹; the
        // norm of random errors is smaller than their sum, and GELU's slope is at most 1.13.
        let off = relative_error(&found, &expected);
        assert!(off <= 1.13 * 2.0 * 2f64.powi(-9), "{arch}: {off}");

        let (report, found) = run(arch, &[&activation[..], &["--quantize", "fp8"]].concat());
        assert_eq!(
            (report["element_a"].as_str(), report["check"]["passed"].as_bool()),
            (Some(fp8), Some(true))
        );
        let off = relative_error(&found, &expected);
        // Half a unit of e4m3's last place is 2⁻⁴ for each factor.
        assert!(off <= 1.13 * 2.0 * 2f64.powi(-4), "{arch}: {off}");
        let reported = report["quantization"]["relative_error"].as_f64().expect("a number");
        assert!((reported - off).abs() <= 1e-3 * off + 1e-6, "{reported} {off}");
    }
}

#[test]
fn a_step_and_i8_run_too() {
    if !has_compiler() {
        return;
    }
    let (report, _) = run("gfx942", &["--step", "3"]);
    assert!(report["kernel"].as_str().expect("a text").starts_with("3_register_tile"));
    let (report, _) = run("gfx950", &["--quantize", "i8"]);
    assert_eq!(report["element_b"], "i8");
    assert!(report["quantization"]["relative_error"].as_f64().expect("a number") < 2e-2);
}

#[test]
fn bad_requests_take_one_line() {
    let folder = Folder::new();
    let a = folder.npy("a.npy", &[2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
    let nan = folder.npy("nan.npy", &[2, 2], &[1.0f32, f32::NAN, 3.0, 4.0]);
    let run = |arguments: &[&str], expected: &[&str]| {
        refuse(&[&["run", &a, &a][..], arguments].concat(), expected);
    };
    run(&["--emulate", "gfx90a"], &["gfx90a", "gfx942", "gfx950"]);
    run(&["--backend", "cpu", "--emulate", "gfx942"], &["--emulate", "HIP"]);
    run(&["--emulate", "gfx942", "--device", "0"], &["--device", "--emulate"]);
    run(&["--backend", "hip", "--device", "best"], &["best", "lapidary devices"]);
    run(&["--quantize", "fp4"], &["fp4", "fp8"]);
    refuse(&["run", &nan, &a, "--backend", "cpu", "--quantize", "i8"], &["row 0, column 1", "NaN"]);
    if has_compiler() {
        run(&["--emulate", "gfx942", "--dtype", "f64"], &["f64", "--dtype f32"]);
    }
}

#[test]
fn without_a_rocm_device_one_line_says_what_is_missing() {
    let devices: serde_json::Value =
        serde_json::from_str(&succeed(&["devices", "--json"])).expect("JSON");
    let Some(reason) = devices["hip_reason"].as_str() else {
        println!("skipped: there is a ROCm device");
        return;
    };
    assert_eq!(reason.lines().count(), 1, "{reason}");
    let folder = Folder::new();
    let a = folder.npy("a.npy", &[2, 2], &[1.0f32, 2.0, 3.0, 4.0]);
    refuse(&["run", &a, &a, "--backend", "hip"], &["no device", "HIP"]);
}
