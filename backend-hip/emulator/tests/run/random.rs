//! Damaged code objects and random instructions run to an error, a finding or their end: never to a panic, and never longer
//! than the instruction budget allows.

use std::sync::Arc;

use lapidary_cdna::Arch;
use lapidary_cdna::exec::{Launch, Machine, Prepared};
use lapidary_cdna::isa::decode;
use lapidary_cdna::loader::{ArgValue, CodeObject, ValueKind};

use super::gpu::{Numbers, available, source};
use super::llvm;

/// Launches every kernel with arguments that point at one small buffer.
fn launch_all(object: CodeObject) -> usize {
    let object = Arc::new(object);
    let mut launched = 0;
    for kernel in &object.kernels {
        let Ok(prepared) = Prepared::new(&object, &kernel.meta.name) else { continue };
        let mut machine = Machine::new();
        let buffer = machine.memory.alloc_from("buffer", &[1; 4096]).unwrap();
        let explicit = kernel.meta.args.iter().filter(|a| !matches!(a.kind, ValueKind::Hidden(_)));
        let args = explicit
            .map(|arg| match arg.size {
                8 => ArgValue::U64(buffer),
                4 => ArgValue::I32(20),
                size => ArgValue::Bytes(vec![3; (size as usize).min(4096)]),
            })
            .collect();
        let launch = Launch {
            workgroup: [kernel.meta.max_workgroup_size.clamp(1, 128), 1, 1],
            args,
            instruction_budget: 3000,
            threads: Some(1),
            ..Launch::default()
        };
        launched += usize::from(machine.launch(&prepared, &launch).is_ok());
    }
    launched
}

/// Overwrites instructions of the kernels' code by others that decode, or bytes anywhere.
fn damage(bytes: &mut [u8], text: std::ops::Range<usize>, numbers: &mut Numbers, arch: Arch) {
    for _ in 0..1 + numbers.next() % 6 {
        if numbers.next().is_multiple_of(4) {
            let at = numbers.next() as usize % bytes.len();
            bytes[at] ^= 1 << (numbers.next() % 8);
            continue;
        }
        let at = text.start + numbers.next() as usize % (text.len() / 4) * 4;
        for _ in 0..50 {
            let word = (numbers.next() as u32) ^ (numbers.next() << 16) as u32;
            let mut code = [0u8; 16];
            code[..4].copy_from_slice(&word.to_le_bytes());
            let following = (at + 4).min(bytes.len())..(at + 16).min(bytes.len());
            let count = following.len();
            code[4..4 + count].copy_from_slice(&bytes[following]);
            if decode(arch, "random", 0, &code).is_ok() {
                bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
                break;
            }
        }
    }
}

#[test]
fn damaged_kernels_do_not_panic() {
    if !available() {
        return;
    }
    for (name, arch) in [("basic.hip", Arch::Gfx942), ("matrix.hip", Arch::Gfx950)] {
        let file = llvm::compile(&source(name), arch, &["-O2"]).unwrap();
        let whole = std::fs::read(&file).unwrap();
        let object = CodeObject::parse(&whole).unwrap();
        let code = object.segments.iter().find(|segment| segment.executable).unwrap();
        let place = whole.windows(64).position(|w| w == &code.bytes[..64]).unwrap();
        let text = place..place + code.bytes.len().min(whole.len() - place);
        let mut numbers = Numbers::new(arch as u64 + 99);
        let (mut parsed, mut launched) = (0, 0);
        for _ in 0..60 {
            let mut bytes = whole.clone();
            damage(&mut bytes, text.clone(), &mut numbers, arch);
            if let Ok(object) = CodeObject::parse(&bytes) {
                parsed += 1;
                launched += launch_all(object);
            }
        }
        assert!(parsed > 10 && launched > 40, "{parsed} parsed, {launched} launched");
    }
}
