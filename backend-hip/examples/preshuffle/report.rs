//! Results as text.

use std::path::Path;
use std::time::Duration;

use lapidary_hip::compile::Compiler;
use lapidary_hip::decide::{Decision, PreshuffleProduct};
use lapidary_hip::inspect::{HotLoop, Occupancy, Resources};
use lapidary_hip::prelude::*;
use lapidary_hip::preshuffle::{Figures, PreshuffleConfig, THREADS};

use super::Result;
use super::run::Checked;

pub(crate) fn device(device: &Hip, no_rocm: Option<&str>) {
    let description = device.description();
    line("device", &format!("{}, {}", description.name, description.driver));
    if let Some(reason) = no_rocm {
        line("no ROCm", reason);
    }
}

/// The choice and its reasons.
pub(crate) fn decision(problem: &Problem, decision: &Decision) {
    let Problem { m, n, k, a, b, c, .. } = problem;
    line("problem", &format!("A {m}×{k} {a} · B {k}×{n} {b} -> {c}"));
    line("kernel", &decision.summary.kernel);
    line("because", &decision.summary.reason);
    for note in &decision.summary.notes {
        line("note", note);
    }
}

/// What follows from the choice.
pub(crate) fn figures(product: &PreshuffleProduct, sizes: [usize; 3]) {
    let figures = Figures::of(&product.config, sizes);
    let [rows, columns] = figures.grid;
    line(
        "workgroups",
        &format!(
            "{rows}×{columns} = {} tiles × {} range(s) of K, {THREADS} threads each: 4 waves",
            figures.tiles(),
            product.splits
        ),
    );
    line(
        "strip",
        &format!(
            "a wave: {} MFMA, {} LDS reads, {} LDS writes, {} loads of A, {} of B",
            figures.mfma, figures.lds_reads, figures.lds_writes, figures.loads_a, figures.loads_b
        ),
    );
    line("strips", &format!("{}: {} MFMA a wave", figures.strips, figures.mfma_a_wave()));
    line(
        "work",
        &format!(
            "{:.1} GFLOP, {:.1} MB at least, {:.0} FLOP/B",
            figures.operations / 1e9,
            figures.bytes / 1e6,
            figures.intensity()
        ),
    );
}

/// Registers, occupancy, hot loop and static utilisation.
pub(crate) fn machine_code(config: &PreshuffleConfig, loop_file: Option<&Path>) -> Result<()> {
    let target = config.target;
    let compiler = match Compiler::find_clang() {
        Ok(compiler) if compiler.major() >= target.oldest_llvm() => compiler,
        Ok(compiler) => {
            line("assembly", &format!("none: {} is too old for {target}", compiler.version()));
            return Ok(());
        }
        Err(error) => {
            line("assembly", &format!("none: {error}"));
            return Ok(());
        }
    };
    let request = config.request()?;
    let object = compiler.compile(&request)?;
    let resources = Resources::of_object(&object.bytes, "preshuffle")?;
    line("compiler", compiler.version());
    line(
        "registers",
        &format!(
            "{} vector ({} accumulation), {} scalar, {} B of scratch a lane, {} B of LDS a workgroup",
            resources.vgprs, resources.agprs, resources.sgprs, resources.scratch, resources.lds
        ),
    );
    if let Some(occupancy) = Occupancy::of(target, &resources, u32::try_from(THREADS)?) {
        line(
            "occupancy",
            &format!("{} waves a SIMD, bound by {}", occupancy.waves(), occupancy.limit()),
        );
    }
    let hot = HotLoop::of(&compiler.assembly(&request)?)?;
    let mix = &hot.mix;
    line(
        "hot loop",
        &format!(
            "{} instructions, {:.1} % MFMA: {} MFMA, {} LDS reads, {} LDS writes, {} loads, {} loads \
             to LDS, {} barriers, {} waits, {} vector, {} scalar",
            mix.total(),
            100.0 * mix.mfma_share(),
            mix.mfma,
            mix.lds_read,
            mix.lds_write,
            mix.load,
            mix.load_lds,
            mix.barrier,
            mix.wait,
            mix.vector,
            mix.scalar + mix.nop
        ),
    );
    match hot.mca_cycles(&format!("llvm-mca-{}", compiler.major()), target) {
        Ok(cycles) => line(
            "static",
            &format!(
                "MFMA utilisation {:.1} % ({:.1} of {cycles:.1} cycles of llvm-mca's model; not a speed)",
                100.0 * hot.mfma_cycles() / cycles,
                hot.mfma_cycles()
            ),
        ),
        Err(error) => line("static", &format!("no MFMA utilisation: {error}")),
    }
    if let Some(path) = loop_file {
        std::fs::write(path, hot.for_mca())?;
        line("written", &format!("the hot loop, to {}", path.display()));
    }
    line("command", &compiler.command_line(&request));
    Ok(())
}

/// A verdict, and what the emulator counted.
pub(crate) fn check(check: &Checked) {
    let [m, n, k] = check.sizes;
    println!();
    line("checked", &format!("{m}×{n}×{k}, {}", check.kernel));
    let place = if check.counters.is_some() { "emulated; " } else { "" };
    line(check.name, &format!("{place}{}", check.comparison));
    if let Some(counters) = &check.counters {
        let conflicts = |prefix: &str| -> (u64, u64) {
            let lines = counters.lines.iter().filter(|line| line.text.starts_with(prefix));
            lines.fold((0, 0), |(cycles, count), line| {
                (cycles + line.access.conflict_cycles, count + line.executed)
            })
        };
        let parts = [("reads", "ds_read"), ("writes", "ds_write")].map(|(name, prefix)| {
            let (cycles, count) = conflicts(prefix);
            format!("{count} {name} with {cycles} conflict cycles")
        });
        let c = if check.c_through_lds { ", with those of C on its way out" } else { "" };
        line("banks", &format!("{}{c}", parts.join(", ")));
        line(
            "executed",
            &format!(
                "{} instructions by {} waves, {} passes of the matrix cores",
                counters.instructions, counters.waves, counters.matrix_passes
            ),
        );
    }
}

/// Time on the device.
pub(crate) fn time(problem: &Problem, mut times: Vec<Duration>) {
    times.sort_unstable();
    let Some(median) = times.get(times.len() / 2).map(Duration::as_secs_f64) else { return };
    println!();
    line("time", &format!("median {:.4} ms of {} runs, device events", median * 1e3, times.len()));
    line("arithmetic", &format!("{:.1} TFLOP/s", problem.flops() / median / 1e12));
    line(
        "bandwidth",
        &format!("{:.1} GB/s of minimum traffic", problem.min_bytes() / median / 1e9),
    );
}

/// What to measure on a ROCm machine.
pub(crate) fn watch(target: Target) {
    let program = "target/release/examples/hip_preshuffle";
    println!("\nOn a ROCm machine");
    println!("  rocprofv3 --kernel-trace --stats --output-format csv -- {program}");
    println!("    time is End_Timestamp - Start_Timestamp in nanoseconds");
    let registers = match target {
        Target::Gfx950 => "VGPR_Count is half of what is granted up to ROCm 7.2",
        _ => "VGPR_Count + Accum_VGPR_Count is what is granted, each alone is not what it says",
    };
    println!("    {registers}; the registers above are the code object's");
    for (counters, expect) in [
        ("SQ_INSTS_MFMA SQ_INSTS_VALU", "MFMA as above, strips times waves; little else"),
        ("SQ_LDS_BANK_CONFLICT SQ_INSTS_LDS", "no conflicts but those of C on its way out"),
        ("SQ_WAIT_INST_LDS SQ_WAIT_INST_ANY", "small where the loads run under the arithmetic"),
        (
            "TCC_EA0_RDREQ_sum TCC_BUBBLE_sum TCC_EA0_RDREQ_32B_sum",
            "bytes from memory: \
          128·BUBBLE + 64·(RDREQ − BUBBLE − RDREQ_32B) + 32·RDREQ_32B",
        ),
        ("TCC_HIT_sum TCC_MISS_sum", "L2 hits: the order of tiles keeps A and B in an XCD's L2"),
    ] {
        println!("  rocprofv3 --pmc {counters} --output-format csv -- {program}");
        println!("    {expect}");
    }
}

fn line(name: &str, text: &str) {
    println!("  {name:<11} {text}");
}
