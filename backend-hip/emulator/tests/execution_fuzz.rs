//! Every form of every opcode runs with random operands, and damaged kernels run: results, findings or errors, never panics.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use common::{kernels, llvm, sweep};
use lapidary_cdna::Arch;
use lapidary_cdna::check::Checks;
use lapidary_cdna::exec::{Launch, Machine, Prepared};
use lapidary_cdna::isa::claims::claims;
use lapidary_cdna::isa::{Opcode, decode};
use lapidary_cdna::loader::{ArgValue, CodeObject, ValueKind};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A kernel whose code the tests replace, with the whole register file.
struct Host {
    object: CodeObject,
    kernel: usize,
    room: usize,
}

impl Host {
    fn new(arch: Arch) -> Option<Host> {
        if let Some(tool) = llvm::missing(&[llvm::CLANG]) {
            println!("skipped: no {tool}");
            return None;
        }
        let source = kernels::sources().into_iter().find(|p| p.ends_with("gemm_tiled.hip"))?;
        let compiled = kernels::build(&source, arch, &["-O3"])?;
        let bytes = std::fs::read(&compiled.object).expect("the object was just written");
        let mut object = CodeObject::parse(&bytes).expect("clang writes code objects");
        object.functions.clear();
        let kernel = object.kernels.iter().position(|k| k.meta.name == "gemm_f64")?;
        let host = &mut object.kernels[kernel];
        host.descriptor.vector_registers = 512;
        host.descriptor.accum_offset = 256;
        let room = (host.code.end - host.code.start) as usize;
        Some(Host { object, kernel, room })
    }

    /// The code object with the kernel's code replaced.
    fn with_code(&self, code: &[u8]) -> CodeObject {
        assert!(code.len() <= self.room, "{} bytes of code, room for {}", code.len(), self.room);
        let mut object = self.object.clone();
        let kernel = &mut object.kernels[self.kernel];
        let start = kernel.entry;
        kernel.code = start..start + code.len() as u64;
        let segment = object
            .segments
            .iter_mut()
            .find(|s| s.executable && s.address <= start)
            .expect("the kernel has a segment");
        let at = (start - segment.address) as usize;
        segment.bytes[at..at + code.len()].copy_from_slice(code);
        object
    }

    /// Runs the code; `Ok` tells whether the workgroup came to its end.
    fn run(&self, code: &[u8], checks: Checks) -> lapidary_cdna::Result<bool> {
        let object = Arc::new(self.with_code(code));
        let kernel = &object.kernels[self.kernel];
        let prepared = Prepared::new(&object, &kernel.meta.name)?;
        let mut machine = Machine::new();
        let buffer = machine.memory.alloc("buffer", 4096).expect("there is room");
        let args = kernel
            .meta
            .args
            .iter()
            .filter(|arg| !matches!(arg.kind, ValueKind::Hidden(_)))
            .map(|arg| match arg.kind {
                ValueKind::GlobalBuffer => ArgValue::U64(buffer),
                _ => ArgValue::Bytes(vec![1; arg.size as usize]),
            })
            .collect();
        let launch = Launch {
            args,
            checks,
            instruction_budget: 2_000,
            threads: Some(1),
            ..Launch::default()
        };
        machine.launch(&prepared, &launch).map(|report| report.complete)
    }
}

/// Instructions that give registers values: every sixteenth vector register and half of the scalar ones, small numbers,
/// large ones, floats and their special values.
fn preamble(random: &mut SmallRng) -> Vec<u8> {
    let mut words: Vec<u32> = Vec::new();
    let value = |random: &mut SmallRng| match random.random_range(0..6) {
        0 => random.random_range(0..64),
        1 => 0x3f80_0000 | random.random_range(0..0x40_0000),
        2 => [0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x8000_0000, 1, 0x7fff_ffff, 0xffff_ffff]
            [random.random_range(0..7)],
        _ => random.random(),
    };
    for sgpr in (2..102u32).step_by(2) {
        words.extend([0xbe80_00ff | sgpr << 16, value(random)]);
    }
    for _ in 0..24 {
        let vgpr = random.random_range(0..256u32);
        words.extend([0x7e00_02ff | vgpr << 17, value(random)]);
    }
    // M0 and VCC.
    words.extend([0xbefc_00ff, value(random) & 0xffff, 0xbeea_00ff, value(random)]);
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

const END: [u8; 4] = 0xbf81_0000u32.to_le_bytes();

#[test]
fn every_claimed_form_runs_with_random_operands_without_a_panic() {
    let mut panics = Vec::new();
    let (mut runs, mut executed) = (0, 0);
    for arch in Arch::ALL {
        let Some(host) = Host::new(arch) else { return };
        let mut random = SmallRng::seed_from_u64(0xe4ec);
        for words in sweep::draw(arch, &claims(arch), 4, 0xcafe) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let Ok(inst) = decode(arch, "fuzz", 0, &bytes) else { continue };
            let mut code = preamble(&mut random);
            code.extend(&bytes[..usize::from(inst.size)]);
            code.extend(END);
            let checks = if random.random() { Checks::ALL } else { Checks::NONE };
            runs += 1;
            match catch_unwind(AssertUnwindSafe(|| host.run(&code, checks))) {
                Ok(outcome) => executed += usize::from(outcome.is_ok()),
                Err(_) => panics.push(format!("{arch}: {inst}")),
            }
        }
    }
    // What is refused are sparse and multi-block matrix instructions, scalar stores and the like.
    assert!(executed * 4 > runs * 3, "only {executed} of {runs} were executed");
    assert!(panics.is_empty(), "{} panics:\n{}", panics.len(), panics.join("\n"));
}

#[test]
fn random_sequences_with_branches_run_within_their_budget() {
    let mut panics = 0;
    for arch in Arch::ALL {
        let Some(host) = Host::new(arch) else { return };
        let words = sweep::draw(arch, &claims(arch), 6, 0xbeef);
        let mut random = SmallRng::seed_from_u64(0x5e9);
        for _ in 0..1_000 {
            let mut code = preamble(&mut random);
            for _ in 0..random.random_range(2..24) {
                let words = &words[random.random_range(0..words.len())];
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                let Ok(inst) = decode(arch, "fuzz", 0, &bytes) else { continue };
                let size = usize::from(inst.size);
                if inst.opcode == Opcode::SBranch {
                    // Branches stay near, so that loops happen.
                    let dwords = random.random_range(0..12u16).wrapping_sub(6);
                    code.extend((0xbf82_0000 | u32::from(dwords)).to_le_bytes());
                } else {
                    code.extend(&bytes[..size]);
                }
            }
            code.extend(END);
            if catch_unwind(AssertUnwindSafe(|| host.run(&code, Checks::ALL))).is_err() {
                panics += 1;
            }
        }
    }
    assert_eq!(panics, 0);
}
