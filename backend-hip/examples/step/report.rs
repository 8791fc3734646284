//! Results as text.

use std::collections::BTreeMap;

use lapidary_cdna::exec::{Class, Counters};
use lapidary_hip::Target;
use lapidary_hip::compile::{CodeObject, Request};
use lapidary_hip::inspect::{HotLoop, Mix, Occupancy, Resources};
use lapidary_hip::steps::{Step as Kernel, StepConfig, StepError};

use super::lab::{Check, Lab};
use super::{Result, Step, watch};

/// The title, the device and the problem.
pub(crate) fn head(step: &Step<'_>, lab: &Lab, [m, n, k]: [usize; 3]) {
    println!("Step {}: {}\n", step.number, step.name);
    let device = lab.runtime.description();
    line("device", &format!("{}, {}", device.name, device.driver));
    if device.emulated {
        line("emulated", "results and counts are the machine code's, but there is no time");
    }
    if let Some(reason) = &lab.no_rocm {
        line("no ROCm", reason);
    }
    line("compiler", lab.compiler.version());
    line("checked", &format!("A {m}×{k} · B {k}×{n}, row-major"));
}

/// A variant that the target does not have.
pub(crate) fn refused(config: &StepConfig, error: &StepError) {
    println!("\n{config}");
    line("not there", &error.to_string());
}

/// A kernel that does not take these operands.
pub(crate) fn not_run(error: &dyn std::error::Error) {
    line("not run", &error.to_string());
}

/// Geometry, registers, occupancy and the hot loop.
pub(crate) fn machine_code(
    lab: &Lab,
    config: &StepConfig,
    request: &Request,
    object: &CodeObject,
    [m, n, _]: [usize; 3],
) -> Result<()> {
    println!("\n{config}");
    let threads: usize = config.threads().iter().product();
    let target = config.target;
    let [[bm, bn], [tm, tn]] = [config.block, config.thread];
    let strips = match config.step {
        Kernel::Naive => "no strips".to_owned(),
        _ => format!("strips of {} along K, loads of {}", config.k_tile, config.load_width),
    };
    line("tile", &format!("{bm}×{bn} of C a workgroup, {tm}×{tn} a thread, {strips}"));
    let waves = threads.div_ceil(target.wave() as usize);
    let grid = [n.div_ceil(bn), m.div_ceil(bm)].map(|side| side.to_string()).join("×");
    line(
        "launch",
        &format!("{grid} workgroups of {threads} threads: {waves} waves of {}", target.wave()),
    );
    line("LDS", &format!("{} B a workgroup of at most {}", config.lds_bytes(), target.lds_bytes()));
    let assembly = lab.clang.as_ref().map(|clang| clang.assembly(request)).transpose()?;
    let resources = match (target, &assembly) {
        (Target::Gfx942 | Target::Gfx950, _) => Resources::of_object(&object.bytes, "gemm")?,
        (_, Some(assembly)) => Resources::of(assembly)?,
        (_, None) => {
            line(
                "registers",
                "unknown: only clang gives assembly, and there is none that knows the target",
            );
            return Ok(());
        }
    };
    line(
        "registers",
        &format!(
            "{} vector ({} accumulation), {} scalar, {} B of scratch a lane",
            resources.vgprs, resources.agprs, resources.sgprs, resources.scratch
        ),
    );
    if let Some(occupancy) = Occupancy::of(target, &resources, u32::try_from(threads)?) {
        line(
            "occupancy",
            &format!(
                "{} waves a SIMD, bound by {} (registers allow {}, LDS {})",
                occupancy.waves(),
                occupancy.limit(),
                occupancy.vgprs.min(occupancy.sgprs),
                occupancy.lds
            ),
        );
    }
    match assembly {
        Some(assembly) => line("hot loop", &mix(&HotLoop::of(&assembly)?.mix)),
        None => line(
            "hot loop",
            "unknown: only clang gives assembly, and there is none that knows the target",
        ),
    }
    Ok(())
}

/// A loop's instructions, largest share first.
fn mix(mix: &Mix) -> String {
    let mut kinds = vec![
        (mix.mfma, "matrix"),
        (mix.fma, "multiply-add"),
        (mix.lds_read, "LDS read"),
        (mix.lds_write, "LDS write"),
        (mix.load, "load"),
        (mix.load_lds, "load to LDS"),
        (mix.store, "store"),
        (mix.scratch, "scratch"),
        (mix.barrier, "barrier"),
        (mix.wait, "wait"),
        (mix.nop, "s_nop"),
        (mix.vector + mix.readfirstlane + mix.exec_mask, "other vector"),
        (mix.scalar, "scalar"),
    ];
    kinds.retain(|(count, _)| *count > 0);
    kinds.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let list: Vec<String> = kinds.iter().map(|(count, kind)| format!("{count} {kind}")).collect();
    let multiplies = mix.mfma + mix.fma;
    format!(
        "{} instructions, {:.0} % multiply: {}",
        mix.total(),
        100.0 * multiplies as f64 / mix.total().max(1) as f64,
        list.join(", ")
    )
}

/// Verdicts.
pub(crate) fn checks(lab: &Lab, checks: &[Check]) {
    let place = if lab.runtime.description().emulated { " (emulated)" } else { "" };
    for check in checks {
        let verdict = if check.passed { "PASSED" } else { "FAILED" };
        line(check.name, &format!("{verdict}{place}: {}", check.detail));
    }
}

/// What the emulator counted.
pub(crate) fn executed(config: &StepConfig, counters: &Counters) {
    let names: BTreeMap<Class, &str> = [
        (Class::Valu, "vector"),
        (Class::Mfma, "matrix"),
        (Class::Lds, "LDS"),
        (Class::Vmem, "global memory"),
        (Class::Salu, "scalar"),
        (Class::Wait, "wait"),
        (Class::Barrier, "barrier"),
    ]
    .into();
    let waves = counters.waves.max(1) as f64;
    let list: Vec<String> = names
        .iter()
        .filter_map(|(class, name)| {
            let count = *counters.by_class.get(class)? as f64;
            Some(format!("{} {name}", figure(count / waves)))
        })
        .collect();
    line(
        "executed",
        &format!(
            "{} instructions a wave: {}",
            figure(counters.instructions as f64 / waves),
            list.join(", ")
        ),
    );
    let conflicts = |prefix: &str| {
        let lines = counters.lines.iter().filter(|line| line.text.starts_with(prefix));
        lines.fold((0, 0), |(cycles, count), line| {
            (cycles + line.access.conflict_cycles, count + line.executed)
        })
    };
    if config.lds_bytes() > 0 {
        let parts = [("reads", "ds_read"), ("writes", "ds_write")].map(|(name, prefix)| {
            let (cycles, count) = conflicts(prefix);
            let each = cycles as f64 / count.max(1) as f64;
            format!("{count} {name} with {cycles} conflict cycles ({} each)", figure(each))
        });
        line("banks", &parts.join(", "));
    }
    let bytes = |of: fn(&lapidary_cdna::exec::Traffic) -> u64| -> u64 {
        counters.traffic.values().map(of).sum()
    };
    line(
        "traffic",
        &format!(
            "{} B read and {} B written by lanes, {} cache lines touched",
            bytes(|traffic| traffic.read),
            bytes(|traffic| traffic.written),
            counters.cache_lines
        ),
    );
}

/// Time on the device.
pub(crate) fn time(config: &StepConfig, mut seconds: Vec<f64>, size: usize) {
    seconds.sort_by(f64::total_cmp);
    let Some(&median) = seconds.get(seconds.len() / 2) else {
        return line("time", "the device has no clock");
    };
    let side = size as f64;
    let (flops, bytes) =
        (2.0 * side.powi(3), side * side * (2 * config.element_bytes() + 4) as f64);
    let extreme = |at: Option<&f64>| figure(at.copied().unwrap_or(median) * 1e3);
    line(
        "time",
        &format!(
            "{size}³: median {} ms, min {}, max {}; {} runs, device events",
            figure(median * 1e3),
            extreme(seconds.first()),
            extreme(seconds.last()),
            seconds.len()
        ),
    );
    line("arithmetic", &format!("{} TFLOP/s", figure(flops / median / 1e12)));
    line("bandwidth", &format!("{} GB/s of minimum traffic", figure(bytes / median / 1e9)));
}

/// What to measure and observe, and the verdict.
pub(crate) fn tail(step: &Step<'_>, target: Target, passed: bool) {
    watch::print(step.number, target);
    println!("\nWhat to observe");
    for text in step.observe.lines() {
        println!("  {}", text.trim());
    }
    println!("\n{}", if passed { "PASSED" } else { "FAILED" });
}

/// A number with three significant digits.
fn figure(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e7).contains(&magnitude) {
        return format!("{value:.2e}");
    }
    let digits = (2 - magnitude.log10().floor() as i32).max(0) as usize;
    format!("{value:.digits$}")
}

fn line(name: &str, text: &str) {
    println!("  {name:<11} {text}");
}
