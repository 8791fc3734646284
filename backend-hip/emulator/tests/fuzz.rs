//! Random bytes and damaged code objects give errors, never panics, and stay within bounds.

mod common;

use std::sync::OnceLock;

use common::exercise::{code_object, instruction};
use common::{kernels, llvm};
use lapidary_cdna::Arch;
use lapidary_cdna::isa::decode;
use proptest::prelude::*;

fn arch() -> impl Strategy<Value = Arch> {
    prop_oneof![Just(Arch::Gfx942), Just(Arch::Gfx950)]
}

/// A real code object to damage.
fn sample() -> Option<&'static [u8]> {
    static SAMPLE: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    SAMPLE
        .get_or_init(|| {
            if let Some(tool) = llvm::missing(&[llvm::CLANG]) {
                println!("skipped: no {tool}");
                return None;
            }
            let source = kernels::sources().into_iter().find(|p| p.ends_with("scratch.hip"))?;
            let compiled = kernels::build(&source, Arch::Gfx942, &["-O1", "-g"])?;
            std::fs::read(&compiled.object).ok()
        })
        .as_deref()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_decode_or_are_refused(
        arch in arch(),
        bytes in proptest::collection::vec(any::<u8>(), 0..24),
        address: u64,
    ) {
        instruction(arch, address, &bytes);
    }

    #[test]
    fn decoding_reads_only_the_bytes_of_the_instruction(
        arch in arch(),
        bytes in proptest::collection::vec(any::<u8>(), 16..=16),
    ) {
        if let Ok(inst) = decode(arch, "fuzz", 0, &bytes) {
            let size = usize::from(inst.size);
            prop_assert_eq!(decode(arch, "fuzz", 0, &bytes[..size]).ok(), Some(inst));
            prop_assert!(decode(arch, "fuzz", 0, &bytes[..size - 1]).is_err());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn damaged_code_objects_are_refused_or_still_sound(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        header in proptest::collection::vec((0usize..0x400, any::<u8>()), 0..6),
        cut in proptest::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let Some(sample) = sample() else { return Ok(()) };
        let mut bytes = sample.to_vec();
        for (at, value) in &edits {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        for (at, value) in &header {
            bytes[*at] = *value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(sample.len()));
        }
        code_object(&bytes);
    }

    #[test]
    fn random_files_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let mut bytes = bytes;
        code_object(&bytes);
        // Behind a valid magic the rest of the header is still random.
        let magic = [0x7f, b'E', b'L', b'F', 2, 1, 1, 64];
        let n = bytes.len().min(magic.len());
        bytes[..n].copy_from_slice(&magic[..n]);
        code_object(&bytes);
    }
}
