//! Every kernel of the disassembler's corpus is executed, at every optimisation level: whatever its data are, each
//! instruction that a wave meets has execution semantics, or is one of the named families that have none.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use lapidary_cdna::Arch;
use lapidary_cdna::Error;
use lapidary_cdna::check::FindingKind;
use lapidary_cdna::exec::{Launch, Machine, Prepared};
use lapidary_cdna::loader::{ArgValue, CodeObject, ValueKind};

use super::gpu::available;
use super::llvm;

/// Mnemonics without execution semantics, by prefix, and why.
const LEFT_OUT: [&str; 6] = [
    // Matrix instructions of several blocks, of doubles, and sparse ones.
    "v_mfma_f32_32x32x1_2b_f32",
    "v_mfma_f32_16x16x1_4b_f32",
    "v_mfma_f32_4x4x1_16b_f32",
    "v_mfma_f64_",
    // Conversions with stochastic rounding of pairs or of 32 elements.
    "v_cvt_scalef32_sr_",
    "v_cvt_scalef32_pk32_",
];

/// What the compiler answers for, whatever data and sizes a kernel gets: none of it may be found in its code.
const BY_THE_COMPILER: [FindingKind; 3] =
    [FindingKind::RegisterBeforeWait, FindingKind::UninitialisedRegister, FindingKind::Hazard];

#[test]
fn compiled_kernels_meet_no_unknown_instruction() {
    if !available() {
        return;
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels");
    let (mut unsupported, mut wrong) = (BTreeSet::new(), Vec::new());
    let (mut launched, mut instructions) = (0, 0);
    let mut sources: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    sources.retain(|path| path.extension().is_some_and(|e| e == "hip"));
    sources.sort();
    for source in sources {
        let only_gfx950 = std::fs::read_to_string(&source).unwrap().starts_with("// gfx950");
        for arch in Arch::ALL.into_iter().filter(|&arch| !only_gfx950 || arch == Arch::Gfx950) {
            for level in ["-O0", "-O3"] {
                let file = llvm::compile(&source, arch, &[level]).unwrap();
                let object = Arc::new(CodeObject::parse(&std::fs::read(&file).unwrap()).unwrap());
                for kernel in &object.kernels {
                    let prepared = Prepared::new(&object, &kernel.meta.name).unwrap();
                    let mut machine = Machine::new();
                    // A megabyte for every pointer, so that small indices stay inside.
                    let buffer = machine.memory.alloc_from("buffer", &vec![0; 1 << 20]).unwrap();
                    let explicit =
                        kernel.meta.args.iter().filter(|a| !matches!(a.kind, ValueKind::Hidden(_)));
                    let args = explicit
                        .map(|arg| match arg.size {
                            8 => ArgValue::U64(buffer),
                            4 => ArgValue::I32(2),
                            size => ArgValue::Bytes(vec![0; size as usize]),
                        })
                        .collect();
                    let launch = Launch {
                        workgroup: [kernel.meta.max_workgroup_size.min(256), 1, 1],
                        args,
                        instruction_budget: 200_000,
                        threads: Some(1),
                        ..Launch::default()
                    };
                    match machine.launch(&prepared, &launch) {
                        Ok(report) => {
                            launched += 1;
                            let broken = report
                                .findings
                                .iter()
                                .filter(|f| BY_THE_COMPILER.contains(&f.kind));
                            wrong.extend(broken.map(|f| format!("{level} {arch} {f}")));
                            instructions += report.counters.instructions;
                        }
                        Err(Error::UnsupportedInstruction { text, .. }) => {
                            let mnemonic = text.split(' ').next().unwrap_or(&text).to_owned();
                            unsupported.insert(mnemonic);
                        }
                        Err(error) => panic!("{} {}: {error}", source.display(), kernel.meta.name),
                    }
                }
            }
        }
    }
    println!("{launched} launches, {instructions} wave-instructions, unsupported: {unsupported:?}");
    assert!(launched > 100);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let unknown: Vec<_> = unsupported
        .iter()
        .filter(|name| !LEFT_OUT.iter().any(|prefix| name.starts_with(prefix)))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
