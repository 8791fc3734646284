//! Wave-instructions a second of a compiled f32 GEMM of 256 x 256 x 256, on one thread, with the checks off and on.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lapidary_cdna::Arch;
use lapidary_cdna::check::Checks;
use lapidary_cdna::exec::{Launch, Machine, Prepared};
use lapidary_cdna::loader::{ArgValue, CodeObject};

const SIZE: usize = 256;

/// Compiles the kernel source of the end-to-end tests; `None` where there is no clang.
fn compile(source: &str, arch: Arch) -> Option<Arc<CodeObject>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/kernels").join(source);
    let object = tempfile::Builder::new().suffix(".co").tempfile().ok()?.into_temp_path();
    let status = Command::new("clang-22")
        .args(["-x", "hip", "--offload-device-only", "-nogpuinc", "-nogpulib", "-O3"])
        .args(["--no-gpu-bundle-output", "-fuse-ld=lld"])
        .arg(format!("--offload-arch={arch}"))
        .arg("-o")
        .arg(&object)
        .arg(&source)
        .status()
        .ok()?;
    let bytes = std::fs::read(&object).ok().filter(|_| status.success())?;
    CodeObject::parse(&bytes).ok().map(Arc::new)
}

struct Case {
    source: &'static str,
    kernel: &'static str,
    grid: [u32; 3],
    element_bytes: usize,
    sizes: &'static [i32],
}

/// The best rate of a few runs.
fn rate(
    object: &Arc<CodeObject>,
    case: &Case,
    checks: Checks,
) -> lapidary_cdna::Result<(f64, u64)> {
    let prepared = Prepared::new(object, case.kernel)?;
    let mut machine = Machine::new();
    let data = vec![0u8; SIZE * SIZE * case.element_bytes];
    let a = machine.memory.alloc_from("a", &data)?;
    let b = machine.memory.alloc_from("b", &data)?;
    let c = machine.memory.alloc("c", (SIZE * SIZE * 4) as u64)?;
    let mut args: Vec<ArgValue> = [a, b, c].map(ArgValue::U64).into();
    args.extend(case.sizes.iter().map(|&size| ArgValue::I32(size)));
    let launch = Launch {
        grid: case.grid,
        workgroup: [256, 1, 1],
        args,
        checks,
        threads: Some(1),
        count_memory: checks != Checks::NONE,
        ..Launch::default()
    };
    let (mut best, mut count) = (Duration::MAX, 0);
    for _ in 0..5 {
        let start = Instant::now();
        let report = machine.launch(&prepared, &launch)?;
        best = best.min(start.elapsed());
        count = report.counters.instructions;
        assert!(report.is_clean(), "{:?}", report.findings);
    }
    Ok((count as f64 / best.as_secs_f64(), count))
}

fn main() -> lapidary_cdna::Result<()> {
    let cases = [
        Case {
            source: "basic.hip",
            kernel: "gemm_tiled",
            grid: [16, 16, 1],
            element_bytes: 4,
            sizes: &[256, 256, 256],
        },
        Case {
            source: "matrix.hip",
            kernel: "fp8_lds",
            grid: [4, 4, 1],
            element_bytes: 1,
            sizes: &[256, 256],
        },
    ];
    println!(
        "{:<8} {:<12} {:<7} {:>12} {:>16}",
        "arch", "kernel", "checks", "executed", "per second"
    );
    for case in &cases {
        for arch in Arch::ALL {
            let Some(object) = compile(case.source, arch) else {
                println!("skipped: no clang-22");
                return Ok(());
            };
            for (name, checks) in [("off", Checks::NONE), ("on", Checks::ALL)] {
                let (rate, count) = rate(&object, case, checks)?;
                println!(
                    "{:<8} {:<12} {name:<7} {count:>12} {rate:>16.0}",
                    arch.name(),
                    case.kernel
                );
            }
        }
    }
    Ok(())
}
