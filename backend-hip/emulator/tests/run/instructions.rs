//! One line a case: an instruction, what registers hold before, and what they hold after.
//!
//! `asm; asm | inputs | outputs`. A register is `v1`, `a1`, `s4`, `vcc_lo`, `vcc_hi`, `exec_lo`, `exec_hi`, `m0` or `scc`;
//! a value is an integer, a hexadecimal word or a float (`1.5f`); a vector register takes several by commas, which repeat
//! over the lanes. Files named `gfx950_*` are for that target only, the others for both. The expected values come from the
//! ISA documents' definitions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lapidary_cdna::Arch;
use lapidary_cdna::loader::CodeObject;

use super::gpu::{Gpu, available};
use super::llvm;

struct Setting {
    register: String,
    values: Vec<u32>,
}

struct Case {
    line: usize,
    code: Vec<String>,
    inputs: Vec<Setting>,
    outputs: Vec<Setting>,
}

fn value(text: &str) -> u32 {
    let parsed = if let Some(float) = text.strip_suffix('f').filter(|_| !text.starts_with("0x")) {
        float.parse::<f32>().ok().map(f32::to_bits)
    } else if let Some(hex) = text.strip_prefix("0x") {
        u32::from_str_radix(hex, 16).ok()
    } else {
        text.parse::<i64>().ok().map(|x| x as u32)
    };
    parsed.unwrap_or_else(|| panic!("`{text}` is no value"))
}

fn settings(text: &str) -> Vec<Setting> {
    text.split_whitespace()
        .map(|part| {
            let (register, values) = part.split_once('=').unwrap_or_else(|| panic!("`{part}`"));
            Setting {
                register: register.to_owned(),
                values: values.split(',').map(value).collect(),
            }
        })
        .collect()
}

fn parse(text: &str) -> Vec<Case> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|(n, line)| {
            let mut parts = line.split('|');
            let mut part = || parts.next().unwrap_or_else(|| panic!("line {}: {line}", n + 1));
            let code = part().split(';').map(|asm| asm.trim().to_owned()).collect();
            Case { line: n + 1, code, inputs: settings(part()), outputs: settings(part()) }
        })
        .collect()
}

/// Whether a register is per lane.
fn is_vector(register: &str) -> bool {
    register.starts_with('a') || register.starts_with('v') && !register.starts_with("vcc")
}

/// A kernel that loads the inputs, runs the case, and stores the outputs.
fn kernel(name: &str, case: &Case) -> String {
    let mut text = format!(
        ".globl {name}\n.p2align 8\n.type {name},@function\n{name}:\ns_load_dwordx4 s[20:23], s[0:1], 0x0\n\
         v_lshlrev_b32 v60, 2, v0\ns_waitcnt lgkmcnt(0)\n"
    );
    let vectors = case.inputs.iter().filter(|s| is_vector(&s.register));
    for (n, setting) in vectors.enumerate() {
        let register = &setting.register;
        text += &format!("global_load_dword {register}, v60, s[20:21] offset:{}\n", 256 * n);
    }
    text += "s_waitcnt vmcnt(0)\n";
    // EXEC last: everything before runs on all lanes.
    let scalars = case.inputs.iter().filter(|s| !is_vector(&s.register));
    let (exec, others): (Vec<_>, Vec<_>) = scalars.partition(|s| s.register.starts_with("exec"));
    for setting in others.into_iter().chain(exec) {
        let value = setting.values[0];
        if setting.register == "scc" {
            text += &format!("s_cmp_eq_u32 {value}, 1\n");
        } else {
            text += &format!("s_mov_b32 {}, {value:#x}\n", setting.register);
        }
    }
    let pause = "s_nop 7\n".repeat(3);
    text += &pause;
    for line in &case.code {
        text += &format!("{line}\n");
    }
    text += &pause;
    if case.outputs.iter().any(|setting| setting.register == "scc") {
        text += "s_cselect_b32 s30, 1, 0\n";
    }
    text += "s_mov_b64 s[32:33], exec\ns_waitcnt vmcnt(0) lgkmcnt(0)\ns_mov_b64 exec, -1\n";
    for (n, setting) in case.outputs.iter().enumerate() {
        let source = match setting.register.as_str() {
            "scc" => "s30",
            "exec_lo" => "s32",
            "exec_hi" => "s33",
            other => other,
        };
        let register = if is_vector(source) {
            source
        } else {
            text += &format!("v_mov_b32 v61, {source}\n");
            "v61"
        };
        text +=
            &format!("s_nop 7\nglobal_store_dword v60, {register}, s[22:23] offset:{}\n", 256 * n);
    }
    text + &format!("s_endpgm\n.size {name}, .-{name}\n")
}

fn module(arch: Arch, cases: &[Case]) -> String {
    let mut text = format!(".amdgcn_target \"amdgcn-amd-amdhsa--{arch}\"\n.text\n");
    let mut descriptors = String::from(".rodata\n.p2align 6\n");
    let mut metadata =
        String::from(".amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.kernels:\n");
    for case in cases {
        let name = format!("case_{}", case.line);
        text += &kernel(&name, case);
        descriptors += &format!(
            ".amdhsa_kernel {name}\n.amdhsa_group_segment_fixed_size 4096\n.amdhsa_next_free_vgpr 128\n\
             .amdhsa_accum_offset 64\n.amdhsa_next_free_sgpr 40\n.amdhsa_user_sgpr_kernarg_segment_ptr 1\n\
             .amdhsa_user_sgpr_count 2\n.amdhsa_float_denorm_mode_32 3\n.end_amdhsa_kernel\n"
        );
        metadata += &format!(
            "  - .name: {name}\n    .symbol: {name}.kd\n    .kernarg_segment_size: 16\n    \
             .group_segment_fixed_size: 4096\n    .private_segment_fixed_size: 0\n    .kernarg_segment_align: 8\n    \
             .wavefront_size: 64\n    .sgpr_count: 40\n    .vgpr_count: 128\n    .max_flat_workgroup_size: 64\n    \
             .args:\n      - {{ .offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global }}\n      \
             - {{ .offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global }}\n"
        );
    }
    text + &descriptors + &metadata + "...\n.end_amdgpu_metadata\n"
}

fn run(file: &Path, arch: Arch) -> usize {
    let cases = parse(&std::fs::read_to_string(file).unwrap());
    let name = file.file_name().unwrap().to_string_lossy();
    let object = llvm::assemble(&module(arch, &cases), arch)
        .unwrap_or_else(|errors| panic!("{name} for {arch}: {errors}"));
    let object = Arc::new(CodeObject::parse(&std::fs::read(&object).unwrap()).unwrap());
    let mut failures = Vec::new();
    for case in &cases {
        let mut gpu = Gpu::new([1; 3], [64, 1, 1]);
        let vectors = case.inputs.iter().filter(|s| is_vector(&s.register));
        let data: Vec<u32> =
            vectors.flat_map(|s| (0..64).map(|lane| s.values[lane % s.values.len()])).collect();
        let input = gpu.input("inputs", if data.is_empty() { &[0] } else { data.as_slice() });
        let output = gpu.output::<u32>("outputs", 64 * case.outputs.len());
        let kernel = format!("case_{}", case.line);
        let report = gpu.report(&object, &kernel, vec![input.into(), output.into()]);
        let place = format!("{name}:{} {arch} `{}`", case.line, case.code.join("; "));
        failures.extend(report.findings.iter().map(|finding| format!("{place}: {finding}")));
        let got = gpu.read::<u32>(output, 64 * case.outputs.len());
        for (n, setting) in case.outputs.iter().enumerate() {
            let lanes = if is_vector(&setting.register) { 64 } else { 1 };
            for lane in 0..lanes {
                let (got, want) = (got[64 * n + lane], setting.values[lane % setting.values.len()]);
                if got != want {
                    let register = &setting.register;
                    failures.push(format!(
                        "{place}: {register} lane {lane} is {got:#x}, not {want:#x}"
                    ));
                    break;
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    cases.len()
}

#[test]
fn every_instruction_file_holds() {
    if !available() {
        return;
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/instructions");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let mut count = 0;
    for file in files {
        let only_gfx950 = file.file_name().unwrap().to_string_lossy().starts_with("gfx950");
        for arch in Arch::ALL.into_iter().filter(|&arch| !only_gfx950 || arch == Arch::Gfx950) {
            count += run(&file, arch);
        }
    }
    println!("{count} cases");
    assert!(count > 300);
}
