//! Wait states in whole kernels: what clang emits is clean, and every `s_nop` that stands between a matrix instruction and
//! its consumer is missed as soon as it is one shorter.

#![allow(clippy::unwrap_used, reason = "tests report by panicking")]

mod common;

use std::process::Command;
use std::sync::Arc;

use common::{kernels, llvm};
use lapidary_cdna::Arch;
use lapidary_cdna::check::{Checks, Finding, FindingKind};
use lapidary_cdna::exec::{Launch, Machine, Prepared};
use lapidary_cdna::loader::{ArgValue, CodeObject, ValueKind};

/// Iterations of the kernels' loops: enough to take the back edge.
const K: i32 = 3;

/// What the names of the kernels begin with; their arguments are buffers and, last, the count of iterations.
const FAMILIES: [&str; 4] = ["mfma_", "f8f6f4_", "scaled_16_", "scaled_32_"];

/// Assembly of a kernel source, with the `s_nop`s of every kernel found in it.
struct Assembly {
    arch: Arch,
    lines: Vec<String>,
    kernels: Vec<Kernel>,
}

struct Kernel {
    name: String,
    /// Lines with an `s_nop`, and its operand.
    noops: Vec<(usize, u32)>,
}

fn assembly(name: &str, arch: Arch) -> Option<Assembly> {
    if let Some(tool) = llvm::missing(&[llvm::CLANG]) {
        println!("skipped: no {tool}");
        return None;
    }
    let source =
        kernels::sources().into_iter().find(|path| path.ends_with(format!("{name}.hip"))).unwrap();
    let text = llvm::scratch_file(".s");
    let run = Command::new(llvm::CLANG)
        .args(["-x", "hip", "--offload-device-only", "-nogpuinc", "-nogpulib", "-O3", "-S"])
        .arg("--no-gpu-bundle-output")
        .arg(format!("--offload-arch={arch}"))
        .arg("-o")
        .arg(&text)
        .arg(source)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let lines: Vec<String> =
        std::fs::read_to_string(&text).unwrap().lines().map(str::to_owned).collect();
    let mut kernels: Vec<Kernel> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        // A function's label carries its name again in a comment.
        if let Some((name, comment)) = line.split_once(':')
            && comment.trim().starts_with("; @")
        {
            kernels.push(Kernel { name: name.to_owned(), noops: Vec::new() });
        }
        if let (Some(count), Some(kernel)) =
            (line.trim().strip_prefix("s_nop "), kernels.last_mut())
        {
            kernel.noops.push((at, count.trim().parse().unwrap()));
        }
    }
    kernels.retain(|kernel| FAMILIES.iter().any(|family| kernel.name.starts_with(family)));
    assert!(!kernels.is_empty(), "no kernel labels in the assembly of {name}");
    Some(Assembly { arch, lines, kernels })
}

impl Assembly {
    /// Assembles and links the text, with the `n`th `s_nop` of every kernel one shorter.
    fn build(&self, shorten: Option<usize>) -> Arc<CodeObject> {
        let mut lines = self.lines.clone();
        for kernel in &self.kernels {
            if let Some((at, count)) = shorten.and_then(|n| kernel.noops.get(n)) {
                lines[*at] =
                    if *count == 0 { String::new() } else { format!("\ts_nop {}", count - 1) };
            }
        }
        let (source, object) = (llvm::scratch_file(".s"), llvm::scratch_file(".co"));
        std::fs::write(&source, lines.join("\n") + "\n").unwrap();
        let run = Command::new(llvm::CLANG)
            .args(["--target=amdgcn-amd-amdhsa", "-x", "assembler", "-nogpulib", "-fuse-ld=lld"])
            .arg(format!("-mcpu={}", self.arch))
            .arg("-o")
            .arg(&object)
            .arg(&source)
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        Arc::new(CodeObject::parse(&std::fs::read(&object).unwrap()).unwrap())
    }
}

/// Runs one kernel; `None` if it has instructions that are not emulated.
fn hazards(object: &Arc<CodeObject>, kernel: &str) -> Option<Vec<Finding>> {
    let prepared = Prepared::new(object, kernel).unwrap();
    let mut machine = Machine::new();
    let buffers = prepared.kernel().meta.args.iter().filter(|a| a.kind == ValueKind::GlobalBuffer);
    let mut args: Vec<ArgValue> =
        buffers.map(|_| ArgValue::U64(machine.memory.alloc("operand", 1 << 20).unwrap())).collect();
    args.push(ArgValue::I32(K));
    let threads =
        if kernel.ends_with("_agpr") { 64 } else { prepared.kernel().meta.max_workgroup_size };
    let launch = Launch {
        workgroup: [threads, 1, 1],
        args,
        checks: Checks { hazards: true, ..Checks::NONE },
        threads: Some(1),
        ..Launch::default()
    };
    match machine.launch(&prepared, &launch) {
        Ok(report) => {
            assert!(report.complete, "{kernel}: {:?}", report.findings);
            Some(report.findings)
        }
        Err(lapidary_cdna::Error::UnsupportedInstruction { .. }) => None,
        Err(error) => panic!("{kernel}: {error}"),
    }
}

fn shortened_noops_are_caught(source: &str, arch: Arch) {
    let Some(assembly) = assembly(source, arch) else { return };
    let whole = assembly.build(None);
    let emulated: Vec<&Kernel> = assembly
        .kernels
        .iter()
        .filter(|kernel| match hazards(&whole, &kernel.name) {
            Some(findings) => {
                assert_eq!(findings, [], "{arch} {}: as clang emits it", kernel.name);
                true
            }
            None => false,
        })
        .collect();
    let most = emulated.iter().map(|kernel| kernel.noops.len()).max().unwrap();
    let mut caught = 0;
    for n in 0..most {
        let object = assembly.build(Some(n));
        for kernel in emulated.iter().filter(|kernel| n < kernel.noops.len()) {
            let findings = hazards(&object, &kernel.name).unwrap();
            let (line, count) = kernel.noops[n];
            assert!(
                findings.iter().any(|finding| finding.kind == FindingKind::Hazard),
                "{arch} {}: `s_nop {count}` of line {} shortened and not caught",
                kernel.name,
                line + 1
            );
            caught += 1;
        }
    }
    println!("{arch} {source}: {} kernels, {caught} shortened s_nops, all caught", emulated.len());
    assert!(caught > 0);
}

#[test]
fn matrix_kernels_of_both_targets() {
    for arch in Arch::ALL {
        shortened_noops_are_caught("gemm_mfma", arch);
    }
}

#[test]
fn matrix_kernels_of_gfx950() {
    shortened_noops_are_caught("gemm_mfma_gfx950", Arch::Gfx950);
}

#[test]
fn a_report_names_both_instructions_and_the_wait_states() {
    let Some(assembly) = assembly("gemm_mfma_gfx950", Arch::Gfx950) else { return };
    let kernel = assembly.kernels.iter().find(|k| k.name == "f8f6f4_32_fp8_bf8").unwrap();
    let reports: Vec<String> = (0..kernel.noops.len())
        .flat_map(|n| hazards(&assembly.build(Some(n)), &kernel.name).unwrap())
        .map(|finding| finding.to_string())
        .collect();
    let parts = [
        "hazard: `",
        "` at 0x",
        "in `f8f6f4_32_fp8_bf8`, workgroup 0,0,0 wave 0",
        "reads a matrix result in v",
        "19 wait states after `v_mfma_f32_32x32x64_f8f6f4",
        "20 are required",
    ];
    let complete = reports.iter().find(|text| parts.iter().all(|part| text.contains(part)));
    assert!(complete.is_some(), "{reports:#?}");
}
