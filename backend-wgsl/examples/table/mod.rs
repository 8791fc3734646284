//! The table of measured steps, and its place in a document.

use std::fmt::Write as _;

use crate::common::figures::figure;
use crate::common::record::{Kernel, Record};

/// The record as Markdown: how it was measured, then a row a kernel.
pub(crate) fn markdown(record: &Record) -> String {
    let [m, n, k] = record.sizes;
    let device = &record.device;
    let kind = if device.software { ", a software device: good for correctness only" } else { "" };
    let (runs, clock) =
        record.kernels.first().map_or((0, ""), |kernel| (kernel.time.runs, kernel.time.clock()));
    let mut text = format!(
        "Adapter {}{kind}; driver {}; A {m}×{k} · B {k}×{n}, f32; median of {runs} runs, {clock}; \
         {}.\n\n```sh\n{}\n```\n\n",
        device.name, device.driver, record.date, record.command
    );
    text.push_str("| step | kernel | median | TFLOP/s | speed |\n|-:|-|-:|-:|-|\n");
    record.kernels.iter().for_each(|kernel| row(&mut text, kernel));
    for refused in &record.refused {
        let _ = writeln!(text, "\n{} was not run: {}.", refused.name, refused.reason);
    }
    text
}

fn row(text: &mut String, kernel: &Kernel) {
    let variant = kernel
        .name
        .strip_prefix(&kernel.step.to_string())
        .and_then(|rest| rest.strip_prefix('_'))
        .unwrap_or(&kernel.name);
    let tflops = figure(kernel.time.rate(kernel.geometry.flops) / 1e12);
    let previous = kernel
        .previous
        .as_ref()
        .map_or(String::new(), |p| format!("{}× {}", figure(p.speedup), p.name));
    let step = kernel.step;
    let median = figure(kernel.time.median * 1e3);
    let note = if kernel.notes.is_empty() {
        String::new()
    } else {
        format!(" ({})", kernel.notes.join("; "))
    };
    let _ = writeln!(text, "| {step} | {variant}{note} | {median} ms | {tflops} | {previous} |");
}

/// `text` with the record's tables between their markers, and how many there were.
///
/// `<!-- steps:begin -->` and `<!-- steps:end -->` enclose the table of all steps, `<!-- step 4:begin
/// -->` and `<!-- step 4:end -->` that of one.
pub(crate) fn replace(text: &str, record: &Record) -> Result<(String, usize), String> {
    let mut text = text.to_owned();
    let mut written = 0;
    for step in 0..=7 {
        let name = if step == 0 { "steps".to_owned() } else { format!("step {step}") };
        let (begin, end) = (format!("<!-- {name}:begin -->"), format!("<!-- {name}:end -->"));
        let Some(first) = text.find(&begin).map(|at| at + begin.len()) else {
            continue;
        };
        let last = text[first..].find(&end).ok_or_else(|| format!("there is no {end}"))? + first;
        let mut part = record.clone();
        part.kernels.retain(|kernel| step == 0 || kernel.step == step);
        part.refused.retain(|r| step == 0 || r.name.starts_with(&format!("{step}_")));
        text.replace_range(first..last, &format!("\n{}", markdown(&part)));
        written += 1;
    }
    Ok((text, written))
}
