//! One text file an instruction: machine words, inputs, and the lanes and flags that the ISA document defines.
//!
//! A case is a block of lines: `inst WORDS ; TEXT`, optionally `arch NAME`, then `in REGISTER = VALUES` and
//! `out REGISTER = VALUES` in hexadecimal. A vector register has up to 64 values, repeated over the lanes; `nan` stands for
//! any NaN. `vcc` and `exec` are 64 bits, `scc` one. The files were written by `filetests/generate.py`; hand-picked cases are
//! in `run/instructions`.

use std::sync::Arc;

use lapidary_cdna::Arch;
use lapidary_cdna::check::Checks;
use lapidary_cdna::exec::{Launch, Machine, Prepared};
use lapidary_cdna::isa::decode;
use lapidary_cdna::loader::{
    Arg, ArgValue, CodeObject, Descriptor, Kernel, KernelMetadata, Segment, ValueKind,
};

const LANES: usize = 64;
/// Bytes of one vector register in the buffer.
const SLOT: usize = LANES * 4;
/// The registers the frame keeps for itself.
const BUFFER: u32 = 96;
const SAVED_EXEC: u32 = 94;
const SAVED_SCC: u32 = 98;
const ADDRESS: u32 = 250;
const TRANSFER: u32 = 251;

const CODE: u64 = 0x1000;

/// A register of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Vector(u32),
    Scalar(u32),
    Vcc,
    Exec,
    Scc,
}

impl Place {
    fn parse(name: &str) -> Option<Place> {
        match name {
            "vcc" => Some(Place::Vcc),
            "exec" => Some(Place::Exec),
            "scc" => Some(Place::Scc),
            _ => {
                let number = name.get(1..)?.parse().ok()?;
                match name.get(..1)? {
                    "v" => Some(Place::Vector(number)),
                    "s" => Some(Place::Scalar(number)),
                    _ => None,
                }
            }
        }
    }
}

/// A place and its values; `None` is any NaN.
type Binding = (Place, Vec<Option<u64>>);

struct Case {
    words: Vec<u32>,
    text: String,
    arch: Option<Arch>,
    inputs: Vec<Binding>,
    outputs: Vec<Binding>,
}

fn binding(text: &str) -> Option<Binding> {
    let (name, values) = text.split_once(" = ")?;
    let values = values
        .split_whitespace()
        .map(|value| match value {
            "nan" => Some(None),
            hex => u64::from_str_radix(hex, 16).ok().map(Some),
        })
        .collect::<Option<Vec<_>>>()?;
    Some((Place::parse(name)?, values))
}

fn parse(block: &str) -> Option<Case> {
    let mut lines = block.lines();
    let (words, text) = lines.next()?.strip_prefix("inst ")?.split_once(" ; ")?;
    let words =
        words.split_whitespace().map(|w| u32::from_str_radix(w, 16).ok()).collect::<Option<_>>()?;
    let mut case =
        Case { words, text: text.to_owned(), arch: None, inputs: Vec::new(), outputs: Vec::new() };
    for line in lines {
        let (keyword, rest) = line.split_once(' ')?;
        match keyword {
            "arch" => case.arch = Some(rest.parse().ok()?),
            "in" => case.inputs.push(binding(rest)?),
            "out" => case.outputs.push(binding(rest)?),
            _ => return None,
        }
    }
    Some(case)
}

/// `s_mov_b32` of a literal.
fn set_scalar(code: &mut Vec<u32>, register: u32, value: u32) {
    code.extend([0xbe80_00ff | register << 16, value]);
}

fn set_pair(code: &mut Vec<u32>, register: u32, value: u64) {
    set_scalar(code, register, value as u32);
    set_scalar(code, register + 1, (value >> 32) as u32);
}

/// `v_mov_b32` of a scalar register, then its store to a slot.
fn store_scalar(code: &mut Vec<u32>, source: u32, slot: usize) {
    code.push(0x7e00_0200 | TRANSFER << 17 | source);
    store_vector(code, TRANSFER, slot);
}

fn store_vector(code: &mut Vec<u32>, register: u32, slot: usize) {
    code.extend([0xdc70_8000 | (slot * SLOT) as u32, BUFFER << 16 | register << 8 | ADDRESS]);
}

/// The case's instruction between loads of its inputs and stores of its outputs.
fn frame(case: &Case) -> Vec<u32> {
    let mut code = vec![
        // s_load_dwordx2 s[96:97], s[0:1], 0x0; v_lshlrev_b32 v250, 2, v0; s_waitcnt
        0xc006_0000 | BUFFER << 6,
        0,
        0x12 << 25 | ADDRESS << 17 | 130,
        0xbf8c_0000,
    ];
    for (slot, (place, _)) in case.inputs.iter().enumerate() {
        if let Place::Vector(register) = place {
            let offset = (slot * SLOT) as u32;
            code.extend([0xdc50_8000 | offset, register << 24 | BUFFER << 16 | ADDRESS]);
        }
    }
    code.push(0xbf8c_0000);
    for (place, values) in &case.inputs {
        let value = values[0].unwrap_or(0);
        match place {
            Place::Vector(_) => (),
            Place::Scalar(register) => set_scalar(&mut code, *register, value as u32),
            Place::Vcc => set_pair(&mut code, 106, value),
            // s_cmp_eq_u32 0, 0 or s_cmp_lg_u32 0, 0
            Place::Scc => code.push(if value == 1 { 0xbf06_8080 } else { 0xbf07_8080 }),
            Place::Exec => (),
        }
    }
    for (place, values) in &case.inputs {
        if *place == Place::Exec {
            set_pair(&mut code, 126, values[0].unwrap_or(0));
        }
    }
    code.extend(&case.words);
    // s_cselect_b32 s98, 1, 0; s_mov_b64 s[94:95], exec; s_mov_b64 exec, -1
    code.extend([0x8500_8081 | SAVED_SCC << 16, 0xbe80_017e | SAVED_EXEC << 16, 0xbefe_01c1]);
    for (slot, (place, _)) in case.outputs.iter().enumerate() {
        match place {
            Place::Vector(register) => store_vector(&mut code, *register, 2 * slot),
            Place::Scalar(register) => store_scalar(&mut code, *register, 2 * slot),
            Place::Scc => store_scalar(&mut code, SAVED_SCC, 2 * slot),
            Place::Vcc | Place::Exec => {
                let register = if *place == Place::Vcc { 106 } else { SAVED_EXEC };
                store_scalar(&mut code, register, 2 * slot);
                store_scalar(&mut code, register + 1, 2 * slot + 1);
            }
        }
    }
    code.push(0xbf81_0000);
    code
}

/// A code object with one kernel that takes a pointer and has every register.
fn object(arch: Arch, code: &[u32]) -> CodeObject {
    let bytes: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    let range = CODE..CODE + bytes.len() as u64;
    let pointer = Arg { name: None, offset: 0, size: 8, kind: ValueKind::GlobalBuffer };
    let meta = KernelMetadata {
        name: "case".to_owned(),
        symbol: "case.kd".to_owned(),
        args: vec![pointer],
        kernarg_bytes: 8,
        group_segment_bytes: 0,
        private_segment_bytes: 0,
        max_workgroup_size: 64,
        sgprs: 102,
        vgprs: 512,
        agprs: 256,
    };
    // As clang sets it up: round to nearest even, keep denormals, IEEE mode, a kernel argument pointer in s[0:1].
    let mut raw = [0u8; 64];
    raw[44..48].copy_from_slice(&63u32.to_le_bytes());
    raw[48..52].copy_from_slice(&(63u32 | 0xf0 << 12 | 1 << 21 | 1 << 23).to_le_bytes());
    raw[52..56].copy_from_slice(&(2u32 << 1).to_le_bytes());
    raw[56..58].copy_from_slice(&8u16.to_le_bytes());
    let descriptor = Descriptor::parse("case", &raw).expect("the descriptor is valid");
    CodeObject {
        arch,
        segments: vec![Segment { address: CODE, bytes, writable: false, executable: true }],
        kernels: vec![Kernel { meta, descriptor, entry: CODE, code: range }],
        functions: Vec::new(),
    }
}

/// Whether the bits are a NaN of 16 or 32 bits.
fn is_nan(width: u32, value: u32) -> bool {
    match width {
        16 => value & 0x7fff > 0x7c00,
        _ => value & 0x7fff_ffff > 0x7f80_0000,
    }
}

fn run(case: &Case, arch: Arch) -> Result<(), String> {
    let bytes: Vec<u8> = case.words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let inst = decode(arch, "case", 0, &bytes).map_err(|error| error.to_string())?;
    if inst.to_string() != case.text {
        return Err(format!("decodes as `{inst}`"));
    }
    let object = Arc::new(object(arch, &frame(case)));
    let prepared = Prepared::new(&object, "case").map_err(|error| error.to_string())?;
    let slots = case.inputs.len().max(2 * case.outputs.len()).max(1);
    let mut buffer = vec![0u8; slots * SLOT];
    for (slot, (place, values)) in case.inputs.iter().enumerate() {
        if let Place::Vector(_) = place {
            for lane in 0..LANES {
                let at = slot * SLOT + lane * 4;
                let value = values[lane % values.len()].unwrap_or(0) as u32;
                buffer[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
    let mut machine = Machine::new();
    let address = machine.memory.alloc_from("buffer", &buffer).map_err(|e| e.to_string())?;
    let launch = Launch {
        args: vec![ArgValue::U64(address)],
        // The frame leaves no room for wait states, and tests what one instruction does.
        checks: Checks::NONE,
        threads: Some(1),
        ..Launch::default()
    };
    let report = machine.launch(&prepared, &launch).map_err(|error| error.to_string())?;
    if !report.complete {
        return Err(format!("stopped: {:?}", report.findings));
    }
    let result = machine.memory.read(address, buffer.len()).map_err(|error| error.to_string())?;
    let word = |slot: usize, lane: usize| {
        let at = slot * SLOT + lane * 4;
        u32::from_le_bytes([result[at], result[at + 1], result[at + 2], result[at + 3]])
    };
    let half = case.text.contains("f16") && !case.text.starts_with("v_cvt_f32");
    let double = case.text.contains("f64");
    for (slot, (place, values)) in case.outputs.iter().enumerate() {
        for lane in 0..LANES {
            let low = word(2 * slot, lane);
            let got = match place {
                Place::Vcc | Place::Exec => {
                    u64::from(low) | u64::from(word(2 * slot + 1, lane)) << 32
                }
                Place::Vector(_) | Place::Scalar(_) | Place::Scc => u64::from(low),
            };
            match values[lane % values.len()] {
                Some(want) if want == got => (),
                // Both halves of a double say `nan`; only the high one shows it.
                None if double || is_nan(if half { 16 } else { 32 }, low) => (),
                want => {
                    let want = want.map_or("nan".to_owned(), |want| format!("{want:x}"));
                    return Err(format!("{place:?} lane {lane}: {got:x} instead of {want}"));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn every_file_describes_what_its_instruction_does() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "test"))
        .collect();
    files.sort();
    let (mut cases, mut failures) = (0, Vec::new());
    for path in &files {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        for block in std::fs::read_to_string(path).unwrap().trim().split("\n\n") {
            let case = parse(block).unwrap_or_else(|| panic!("{name}: cannot read\n{block}"));
            for arch in Arch::ALL {
                if case.arch.is_none_or(|only| only == arch) {
                    cases += 1;
                    if let Err(reason) = run(&case, arch) {
                        failures.push(format!("{name} on {arch}: `{}`: {reason}", case.text));
                    }
                }
            }
        }
    }
    println!("{} files, {cases} cases", files.len());
    assert!(files.len() >= 300, "only {} files", files.len());
    assert!(failures.is_empty(), "{} of {cases} fail:\n{}", failures.len(), failures.join("\n"));
}
