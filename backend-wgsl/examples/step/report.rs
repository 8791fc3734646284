//! Results as text.

use super::Step;
use crate::common::figures::figure;
use crate::common::record::{Device, Geometry, Kernel, Record};

/// Limits worth a line, by the names the backend gives them.
const LIMITS: [&str; 6] = [
    "workgroup memory",
    "workgroup threads",
    "workgroups per axis",
    "storage binding",
    "subgroup size",
    "timestamps",
];

/// The title, the device and the problem.
pub(crate) fn head(step: &Step<'_>, device: &Device, [m, n, k]: [usize; 3]) {
    println!("Step {}: {}\n", step.number, step.name);
    let kind = if device.software { " (a program on the CPU)" } else { "" };
    line("device", &format!("{}, {}{kind}", device.name, device.driver));
    let limits: Vec<String> = LIMITS
        .iter()
        .filter_map(|limit| device.properties.iter().find(|(name, _)| name == limit))
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    line("limits", &limits.join(", "));
    let flops = 2.0 * m as f64 * n as f64 * k as f64;
    line(
        "problem",
        &format!("A {m}×{k} · B {k}×{n}, f32, row-major: {} GFLOP", figure(flops / 1e9)),
    );
}

/// Everything about every kernel, what to observe, and the verdict.
pub(crate) fn results(record: &Record, observe: &str) {
    record.kernels.iter().for_each(kernel);
    for refused in &record.refused {
        println!("\n{}", refused.name);
        line("not run", &refused.reason);
    }
    println!("\nWhat to observe");
    for text in observe.lines() {
        println!("  {}", text.trim());
    }
    println!("\n{}", if record.passed() { "PASSED" } else { "FAILED" });
}

fn kernel(kernel: &Kernel) {
    println!("\n{}", kernel.name);
    geometry(&kernel.geometry);
    for check in &kernel.checks {
        let verdict = if check.passed { "PASSED" } else { "FAILED" };
        let text =
            format!("{verdict}, {} of {} elements: {}", check.checked, check.of, check.detail);
        line(&check.name, &text);
    }
    let time = &kernel.time;
    let [median, min, max] = [time.median, time.min, time.max].map(|t| figure(t * 1e3));
    let clock = time.clock();
    line("time", &format!("median {median} ms, min {min}, max {max}; {} runs, {clock}", time.runs));
    let geometry = &kernel.geometry;
    line("arithmetic", &format!("{} TFLOP/s", figure(time.rate(geometry.flops) / 1e12)));
    line(
        "bandwidth",
        &format!(
            "{} GB/s effective (all loads and stores), {} GB/s of minimum traffic",
            figure(time.rate(geometry.requested_bytes) / 1e9),
            figure(time.rate(geometry.minimum_bytes) / 1e9)
        ),
    );
    if let Some(previous) = &kernel.previous {
        let text = format!(
            "{}× the speed of {} ({} ms)",
            figure(previous.speedup),
            previous.name,
            figure(previous.median * 1e3)
        );
        line("speed-up", &text);
    }
    for note in &kernel.notes {
        line("note", note);
    }
}

fn geometry(geometry: &Geometry) {
    let dispatches: Vec<String> =
        geometry.dispatches.iter().map(|[x, y, z]| format!("{x}×{y}×{z}")).collect();
    line("workgroups", &format!("{} of {} threads", dispatches.join(", "), geometry.threads));
    let [[bm, bn], [tm, tn]] = [geometry.block_tile, geometry.thread_tile];
    let strips = match geometry.k_tile {
        0 => "no strips".to_owned(),
        k_tile => format!("strips of {k_tile} along K, loads of {}", geometry.load_width),
    };
    line("tile", &format!("{bm}×{bn} of C a workgroup, {tm}×{tn} a thread, {strips}"));
    line("memory", &format!("{} B of workgroup memory", geometry.workgroup_bytes));
    line(
        "traffic",
        &format!(
            "{} B loaded and stored an output, {} FLOP/B (at best {})",
            figure(geometry.bytes_per_output),
            figure(geometry.flops / geometry.requested_bytes),
            figure(geometry.flops / geometry.minimum_bytes)
        ),
    );
}

fn line(name: &str, text: &str) {
    println!("  {name:<11} {text}");
}
