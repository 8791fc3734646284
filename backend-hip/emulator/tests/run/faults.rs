//! Faults planted into compiled kernels: each is caught with a message that names it.

use std::sync::Arc;

use lapidary_cdna::Arch;
use lapidary_cdna::check::{Checks, Finding, FindingKind};
use lapidary_cdna::exec::Report;
use lapidary_cdna::loader::ArgValue::I32;
use lapidary_cdna::loader::CodeObject;

use super::gpu::{Gpu, available, source};
use super::llvm;

/// Compiles a source to assembly, lets `edit` change the text of `kernel`, and assembles it.
///
/// Insists that the edit changes something.
fn edited(name: &str, arch: Arch, kernel: &str, edit: impl Fn(&str) -> String) -> Arc<CodeObject> {
    let text = llvm::compile_to_text(&source(name), arch, &["-O2"]).unwrap();
    let start = text.find(&format!("\n{kernel}:")).expect("the kernel is in the assembly");
    let end = start + text[start..].find(".section").expect("its code ends");
    let body = edit(&text[start..end]);
    assert_ne!(body, text[start..end], "the edit changed nothing:\n{body}");
    let text = [&text[..start], &body, &text[end..]].concat();
    let file = llvm::assemble(&text, arch).unwrap();
    Arc::new(CodeObject::parse(&std::fs::read(&file).unwrap()).unwrap())
}

/// Removes the first line that contains `what` after the first that contains `after`.
fn without(body: &str, after: &str, what: &str) -> String {
    let from = body.find(after).unwrap_or_else(|| panic!("no `{after}` in:\n{body}"));
    let at = from + body[from..].find(what).unwrap_or_else(|| panic!("no `{what}` in:\n{body}"));
    let line_start = body[..at].rfind('\n').map_or(0, |n| n + 1);
    let line_end = at + body[at..].find('\n').map_or(0, |n| n + 1);
    [&body[..line_start], &body[line_end..]].concat()
}

/// Removes the last line before the first `before` that contains `what`.
fn without_before(body: &str, before: &str, what: &str) -> String {
    let end = body.find(before).unwrap_or_else(|| panic!("no `{before}` in:\n{body}"));
    let at = body[..end].rfind(what).unwrap_or_else(|| panic!("no `{what}` in:\n{body}"));
    let line_start = body[..at].rfind('\n').map_or(0, |n| n + 1);
    let line_end = at + body[at..].find('\n').map_or(0, |n| n + 1);
    [&body[..line_start], &body[line_end..]].concat()
}

/// Replaces the first occurrence after `after`.
fn replaced(body: &str, after: &str, from: &str, to: &str) -> String {
    let start = body.find(after).unwrap_or_else(|| panic!("no `{after}` in:\n{body}"));
    [&body[..start], &body[start..].replacen(from, to, 1)].concat()
}

fn find(report: &Report, kind: FindingKind) -> &Finding {
    report.findings.iter().find(|finding| finding.kind == kind).unwrap_or_else(|| {
        let all: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        panic!("no {} among:\n{}", kind.name(), all.join("\n"))
    })
}

/// Insists on one kind of finding, whose message holds every one of `parts`.
fn expect(report: &Report, kind: FindingKind, parts: &[&str]) {
    let finding = find(report, kind);
    let text = finding.to_string();
    for part in parts {
        assert!(text.contains(part), "no `{part}` in: {text}");
    }
    assert!(!finding.text.is_empty() && text.contains(&format!("{:#x}", finding.pc)));
}

/// Runs the tiled GEMM on 32x32x32.
fn gemm(object: &Arc<CodeObject>) -> Report {
    let data = vec![1f32; 32 * 32];
    let mut gpu = Gpu::new([2, 2, 1], [256, 1, 1]);
    let (a, b, c) = (gpu.input("a", &data), gpu.input("b", &data), gpu.output::<f32>("c", 1024));
    let mut args = vec![a.into(), b.into(), c.into()];
    args.extend([32, 32, 32].map(I32));
    gpu.report(object, "gemm_tiled", args)
}

fn both(body: impl Fn(Arch)) {
    if available() {
        Arch::ALL.into_iter().for_each(body);
    }
}

/// Runs the histogram, which clears its bins, counts in them atomically and collects them.
fn histogram(object: &Arc<CodeObject>) -> Report {
    let data: Vec<u32> = (0..256).map(|x| x * 7).collect();
    let mut gpu = Gpu::new([1; 3], [256, 1, 1]);
    let mut args = vec![
        gpu.input("in", &data).into(),
        gpu.inout("bins", &[0u32; 64]).into(),
        gpu.inout("sum", &[0f32]).into(),
        gpu.inout("most", &[0i32]).into(),
        gpu.inout("wide", &[0u64]).into(),
        gpu.inout("cas", &[0f32]).into(),
    ];
    args.push(I32(256));
    gpu.report(object, "atomics", args)
}

#[test]
fn a_removed_barrier_beside_atomics_is_a_race() {
    both(|arch| {
        let cleared =
            edited("basic.hip", arch, "atomics", |body| without(body, "ds_write", "s_barrier"));
        expect(&histogram(&cleared), FindingKind::LdsRace, &["atomics", "ds_add"]);
        let collected = edited("basic.hip", arch, "atomics", |body| {
            without_before(body, "s_endpgm", "s_barrier")
        });
        expect(&histogram(&collected), FindingKind::LdsRace, &["atomics", "ds_read"]);
    });
}

#[test]
fn a_removed_barrier_is_a_race() {
    both(|arch| {
        let object =
            edited("basic.hip", arch, "gemm_tiled", |body| without(body, "ds_write", "s_barrier"));
        let report = gemm(&object);
        expect(
            &report,
            FindingKind::LdsRace,
            &["ds_", "with no barrier between", "wave", "gemm_tiled"],
        );
        let finding = find(&report, FindingKind::LdsRace);
        assert!(finding.lane.is_some() && finding.address.is_some());
    });
}

#[test]
fn a_removed_wait_before_the_barrier_leaves_writes_unpublished() {
    both(|arch| {
        let object = edited("basic.hip", arch, "gemm_tiled", |body| {
            without_before(body, "s_barrier", "s_waitcnt lgkmcnt(0)")
        });
        let report = gemm(&object);
        expect(
            &report,
            FindingKind::LdsBeforeWait,
            &["ds_read", "ds_write", "without s_waitcnt lgkmcnt"],
        );
    });
}

#[test]
fn a_removed_wait_after_an_lds_read_is_seen_at_the_use() {
    both(|arch| {
        let object = edited("basic.hip", arch, "gemm_tiled", |body| {
            without(body, "ds_read", "s_waitcnt lgkmcnt")
        });
        let report = gemm(&object);
        expect(
            &report,
            FindingKind::RegisterBeforeWait,
            &["ds_read", "no s_waitcnt lgkmcnt covers"],
        );
    });
}

#[test]
fn a_removed_wait_after_a_global_load_is_seen_at_the_use() {
    both(|arch| {
        let object = edited("basic.hip", arch, "vector_add", |body| {
            without(body, "global_load", "s_waitcnt vmcnt(0)")
        });
        let report = vector_add(&object, 256);
        expect(
            &report,
            FindingKind::RegisterBeforeWait,
            &["global_load_dword", "no s_waitcnt vmcnt covers"],
        );
    });
}

#[test]
fn a_removed_wait_after_a_scalar_load_is_seen_at_the_use() {
    both(|arch| {
        let object = edited("basic.hip", arch, "vector_add", |body| {
            without(body, "s_load", "s_waitcnt lgkmcnt(0)")
        });
        let report = vector_add(&object, 256);
        expect(
            &report,
            FindingKind::RegisterBeforeWait,
            &["s_load_dword", "no s_waitcnt lgkmcnt covers"],
        );
    });
}

#[test]
fn a_removed_wait_for_a_direct_to_lds_load() {
    both(|arch| {
        let object = edited("basic.hip", arch, "lds_dma", |body| {
            body.lines()
                .filter(|line| !line.contains("s_waitcnt vmcnt(0)"))
                .collect::<Vec<_>>()
                .join("\n")
                + "\n"
        });
        let mut gpu = Gpu::new([1; 3], [256, 1, 1]);
        let (input, output) = (gpu.input("in", &vec![1i32; 1024]), gpu.output::<i32>("out", 1024));
        let report = gpu.report(&object, "lds_dma", vec![input.into(), output.into()]);
        expect(
            &report,
            FindingKind::LdsBeforeWait,
            &["global_load_lds_dword", "no s_waitcnt vmcnt covers"],
        );
    });
}

/// Adds `n` numbers with buffers of exactly `n`.
fn vector_add(object: &Arc<CodeObject>, n: usize) -> Report {
    vector_add_sized(object, n, n as i32)
}

fn vector_add_sized(object: &Arc<CodeObject>, n: usize, claimed: i32) -> Report {
    let data = vec![1f32; n];
    let mut gpu = Gpu::new([n.div_ceil(256) as u32, 1, 1], [256, 1, 1]);
    let (a, b) = (gpu.input("a", &data), gpu.input("b", &data));
    let c = gpu.output::<f32>("c", n);
    gpu.report(object, "vector_add", vec![a.into(), b.into(), c.into(), I32(claimed)])
}

#[test]
fn a_read_past_a_buffer_names_it_and_the_lane() {
    both(|arch| {
        let object = super::gpu::compile("basic.hip", arch, &["-O2"]);
        let report = vector_add_sized(&object, 200, 201);
        expect(
            &report,
            FindingKind::OutOfBounds,
            &["global_load_dword", "`a`", "has 800 bytes", "byte 800", "wave 3 lane 8"],
        );
        assert!(report.findings.iter().any(|f| f.text.starts_with("global_store")));
    });
}

#[test]
fn a_read_past_num_records_is_reported_when_asked_for() {
    both(|arch| {
        let object = super::gpu::compile("basic.hip", arch, &["-O2"]);
        let run = |checks: Checks, records: i32| {
            let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
            gpu.launch.checks = checks;
            let input = gpu.input("in", &vec![1i32; 250]);
            let output = gpu.output::<i32>("out", 250);
            gpu.report(&object, "buffers", vec![input.into(), output.into(), I32(records)])
        };
        assert!(run(Checks::ALL, 250).is_clean());
        expect(
            &run(Checks::STRICT, 250),
            FindingKind::DescriptorBounds,
            &["buffer_load_dwordx4", "num_records 1000", "lane 62"],
        );
        // A descriptor larger than its buffer protects nothing.
        expect(&run(Checks::ALL, 256), FindingKind::OutOfBounds, &["buffer_load_dwordx4", "`in`"]);
    });
}

#[test]
fn an_lds_read_past_the_end() {
    both(|arch| {
        let object = super::gpu::compile("basic.hip", arch, &["-O2"]);
        let mut gpu = Gpu::new([1; 3], [256, 1, 1]);
        gpu.launch.dynamic_lds = 4 * 300 - 4;
        let (input, output) = (gpu.input("in", &vec![1i32; 300]), gpu.output::<i32>("out", 300));
        let report = gpu.report(&object, "reverse", vec![input.into(), output.into(), I32(300)]);
        expect(&report, FindingKind::OutOfBounds, &["ds_", "LDS offset 1196", "1196 bytes of LDS"]);
        assert!(report.findings.iter().any(|f| f.text.starts_with("ds_read")));
    });
}

#[test]
fn an_uninitialised_register() {
    both(|arch| {
        // The second factor of the sum is never loaded.
        let object = edited("basic.hip", arch, "vector_add", |body| {
            let first = body.find("global_load_dword").unwrap();
            let second = first + 1 + body[first + 1..].find("global_load_dword").unwrap();
            [&body[..second], &without(&body[second..], "global_load", "global_load")].concat()
        });
        let report = vector_add(&object, 256);
        expect(
            &report,
            FindingKind::UninitialisedRegister,
            &["v_add_f32", "which nothing wrote", "lane 0"],
        );
    });
}

#[test]
fn of_a_pair_copied_from_scalars_each_half_counts_alone() {
    // Compilers set one half of a pair, copy both, and let packed instructions select the one.
    both(|arch| {
        let using = |half: &str| {
            let object = edited("basic.hip", arch, "vector_add", |body| {
                let copy = "\n\ts_mov_b32 s14, 0\n\tv_mov_b64_e32 v[4:5], s[14:15]\n\t";
                let add = format!("v_add_f32_e32 {half}, {half}, {half}\n\tv_add_f32");
                body.replacen("v_add_f32", &[copy, &add].concat(), 1)
            });
            vector_add(&object, 256)
        };
        assert!(using("v4").is_clean(), "{:?}", using("v4").findings);
        expect(&using("v5"), FindingKind::UninitialisedRegister, &["reads v5", "nothing wrote"]);
    });
}

#[test]
fn uninitialised_memory_and_lds() {
    both(|arch| {
        let object = super::gpu::compile("basic.hip", arch, &["-O2"]);
        let mut gpu = Gpu::new([1; 3], [256, 1, 1]);
        let a = gpu.input("a", &vec![1f32; 256]);
        let (b, c) = (gpu.output::<f32>("b", 256), gpu.output::<f32>("c", 256));
        let report =
            gpu.report(&object, "vector_add", vec![a.into(), b.into(), c.into(), I32(256)]);
        expect(&report, FindingKind::UninitialisedMemory, &["global_load_dword", "byte 0 of `b`"]);

        // The histogram's bins are not cleared.
        let object = edited("basic.hip", arch, "atomics", |body| {
            without(body, "ds_write_b32", "ds_write_b32")
        });
        let mut gpu = Gpu::new([1; 3], [256, 1, 1]);
        let input = gpu.input("in", &vec![3u32; 256]);
        let mut args = vec![input.into(), gpu.inout("bins", &[0u32; 64]).into()];
        args.push(gpu.inout("sum", &[0f32]).into());
        args.push(gpu.inout("most", &[0i32]).into());
        args.push(gpu.inout("wide", &[0u64]).into());
        args.push(gpu.inout("cas", &[0f32]).into());
        args.push(I32(256));
        let report = gpu.report(&object, "atomics", args);
        expect(&report, FindingKind::UninitialisedLds, &["ds_add_u32", "which nothing wrote"]);
    });
}

#[test]
fn divergent_and_mismatched_barriers() {
    both(|arch| {
        let object = super::gpu::compile("faults.hip", arch, &["-O2"]);
        let mut gpu = Gpu::new([1; 3], [256, 1, 1]);
        let output = gpu.output::<i32>("out", 256);
        let report = gpu.report(&object, "divergent_barrier", vec![output.into(), I32(100)]);
        expect(&report, FindingKind::DivergentBarrier, &["s_barrier", "divergent", "wave 1"]);

        let mut gpu = Gpu::new([1; 3], [256, 1, 1]);
        let output = gpu.output::<i32>("out", 256);
        let report = gpu.report(&object, "mismatched_barrier", vec![output.into(), I32(2)]);
        expect(
            &report,
            FindingKind::MismatchedBarrier,
            &["s_barrier", "ended after 0 barriers", "at its barrier 1"],
        );
    });
}

#[test]
fn a_read_still_queued_at_a_barrier_is_overwritten() {
    both(|arch| {
        let object = super::gpu::compile("faults.hip", arch, &["-O2"]);
        let mut gpu = Gpu::new([1; 3], [128, 1, 1]);
        let (input, output) = (gpu.input("in", &[1i32; 128]), gpu.output::<i32>("out", 128));
        let report = gpu.report(&object, "late_read", vec![input.into(), output.into()]);
        expect(
            &report,
            FindingKind::LdsOverwriteBeforeWait,
            &["ds_write_b32", "ds_read_b32", "without s_waitcnt lgkmcnt", "lane"],
        );
    });
}

#[test]
fn halts_traps_and_stores_into_inputs() {
    both(|arch| {
        let object = edited("basic.hip", arch, "vector_add", |body| {
            replaced(body, "vector_add", "s_endpgm", "s_sethalt 1\n\ts_endpgm")
        });
        let report = vector_add(&object, 256);
        expect(&report, FindingKind::Deadlock, &["s_sethalt", "halted"]);
        assert!(!report.complete);

        let object = super::gpu::compile("faults.hip", arch, &["-O2"]);
        let mut gpu = Gpu::new([1; 3], [128, 1, 1]);
        let output = gpu.output::<i32>("out", 128);
        let report = gpu.report(&object, "trap", vec![output.into()]);
        expect(&report, FindingKind::Trap, &["s_trap", "executes trap 2"]);

        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let (input, output) = (gpu.input("in", &[1i32; 64]), gpu.input("constants", &[1i32; 64]));
        let report = gpu.report(&object, "copy", vec![input.into(), output.into()]);
        expect(&report, FindingKind::ReadOnly, &["global_store_dword", "`constants`"]);
    });
}

#[test]
fn launches_that_do_not_fit_are_refused_with_the_limit() {
    both(|arch| {
        let object = super::gpu::compile("basic.hip", arch, &["-O2"]);
        let prepared = lapidary_cdna::exec::Prepared::new(&object, "reverse").unwrap();
        let refuse = |edit: fn(&mut Gpu), words: &str| {
            let mut gpu = Gpu::new([1; 3], [256, 1, 1]);
            edit(&mut gpu);
            let error = gpu.machine.launch(&prepared, &gpu.launch).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("`reverse`"), "{error}");
        };
        refuse(|gpu| gpu.launch.workgroup = [257, 1, 1], "1 to 256 are allowed");
        refuse(|gpu| gpu.launch.workgroup = [0, 1, 1], "1 to 256 are allowed");
        refuse(|gpu| gpu.launch.dynamic_lds = 200_000, "200000 bytes of LDS");
        refuse(|gpu| gpu.launch.grid = [1 << 31; 3], "workgroups: the limit is");
        refuse(|_| (), "0 arguments given, it takes 3");
        refuse(
            |gpu| {
                gpu.launch.workgroups = lapidary_cdna::exec::Workgroups::Only(vec![[0, 1, 0]]);
            },
            "workgroup 0,1,0 is not in a grid of 1x1x1",
        );
    });
}

#[test]
fn an_endless_loop_uses_up_its_budget() {
    both(|arch| {
        let object = super::gpu::compile("faults.hip", arch, &["-O2"]);
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        gpu.launch.instruction_budget = 10_000;
        let flag = gpu.inout("flag", &[0i32]);
        let report = gpu.report(&object, "endless", vec![flag.into()]);
        expect(&report, FindingKind::InstructionBudget, &["10000 instructions", "endless"]);
        assert!(!report.complete);
    });
}

#[test]
fn ambiguous_offsets_and_misaligned_accesses() {
    both(|arch| {
        let object = super::gpu::compile("faults.hip", arch, &["-O2"]);
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let input = gpu.input("in", &vec![1i32; 128]);
        let output = gpu.output::<i32>("out", 64);
        // 64 records of 4 bytes, read from soffset 16 on: the last four lanes depend on who adds soffset.
        let args = vec![input.into(), output.into(), I32(256), I32(16)];
        let report = gpu.report(&object, "scalar_offset", args);
        expect(
            &report,
            FindingKind::AmbiguousOffset,
            &["buffer_load_dword", "soffset 16", "lane 60"],
        );

        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let input = gpu.input("in", &vec![1i32; 65]);
        let output = gpu.output::<i32>("out", 64);
        let shifted = lapidary_cdna::loader::ArgValue::U64(input.0 + 2);
        let report = gpu.report(&object, "copy", vec![shifted, output.into()]);
        expect(&report, FindingKind::Misaligned, &["global_load_dword", "multiple of 4"]);
    });
}

#[test]
fn a_shortened_nop_is_a_hazard() {
    both(|arch| {
        let object = edited("matrix.hip", arch, "f16_agpr", |body| {
            let at = body.rfind("s_nop").expect("clang waits for the matrix result");
            let line = body[at..].lines().next().unwrap();
            let count: u32 = line.trim_start_matches("s_nop").trim().parse().unwrap();
            assert!(count > 0);
            [&body[..at], &body[at..].replacen(line, &format!("s_nop {}", count - 1), 1)].concat()
        });
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let (a, b) = (gpu.input("a", &[0u16; 64 * 16]), gpu.input("b", &[0u16; 64 * 16]));
        let c = gpu.output::<f32>("c", 64 * 64);
        let args = vec![a.into(), b.into(), c.into(), I32(64), I32(16)];
        let report = gpu.report(&object, "f16_agpr", args);
        expect(&report, FindingKind::Hazard, &["v_mfma_f32_16x16x16_f16", "are required"]);
    });
}

#[test]
fn a_swizzle_on_one_side_conflicts_and_is_wrong() {
    both(|arch| {
        let object = super::gpu::compile("faults.hip", arch, &["-O2"]);
        let data: Vec<i32> = (0..1024).collect();
        let run = |kernel: &str| {
            let mut gpu = Gpu::new([1; 3], [256, 1, 1]);
            let (input, output) = (gpu.input("in", &data), gpu.output::<i32>("out", 1024));
            let report = gpu.run(&object, kernel, vec![input.into(), output.into()]);
            let reads = report.counters.lines.iter().filter(|l| l.text.starts_with("ds_read_b128"));
            let conflicts: u64 = reads.map(|line| line.access.conflict_cycles).sum();
            (conflicts, gpu.read::<i32>(output, 1024))
        };
        let want: Vec<i32> = (0..1024)
            .map(|at| {
                let (thread, word) = (at / 4, at % 4);
                let (row, chunk) = (thread / 64 * 16 + thread % 16, thread / 16 % 4);
                row * 16 + chunk * 4 + word
            })
            .collect();
        assert_eq!(run("swizzled"), (0, want.clone()));
        let (conflicts, got) = run("half_swizzled");
        assert!(conflicts > 0);
        assert_ne!(got, want);
    });
}

#[test]
fn an_unknown_meaning_is_an_error_that_names_it() {
    both(|arch| {
        let object = edited("basic.hip", arch, "vector_add", |body| {
            replaced(
                body,
                "vector_add",
                "s_waitcnt",
                "s_getreg_b32 s9, hwreg(HW_REG_HW_ID)\n\ts_waitcnt",
            )
        });
        let data = vec![1f32; 64];
        let mut gpu = Gpu::new([1; 3], [256, 1, 1]);
        let (a, b, c) = (gpu.input("a", &data), gpu.input("b", &data), gpu.output::<f32>("c", 64));
        gpu.launch.args = vec![a.into(), b.into(), c.into(), I32(64)];
        let prepared = lapidary_cdna::exec::Prepared::new(&object, "vector_add").unwrap();
        let error = gpu.machine.launch(&prepared, &gpu.launch).unwrap_err().to_string();
        assert!(error.contains("s_getreg_b32 s9") && error.contains("`vector_add`"), "{error}");
    });
}
