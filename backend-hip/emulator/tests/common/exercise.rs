//! Driving the loader and the decoder with any input: what comes back is sound or an error.

use lapidary_cdna::Arch;
use lapidary_cdna::isa::{Program, decode};
use lapidary_cdna::loader::args::segment;
use lapidary_cdna::loader::{CodeObject, Geometry, HiddenValues, LineTable, MAX_IMAGE_BYTES};

/// Decodes one instruction and checks what an instruction always satisfies.
pub fn instruction(arch: Arch, address: u64, bytes: &[u8]) {
    match decode(arch, "fuzz", address, bytes) {
        Ok(inst) => {
            assert!(usize::from(inst.size) <= bytes.len());
            assert!(matches!(inst.size, 4 | 8 | 16));
            assert!(inst.to_string().starts_with(inst.opcode.mnemonic()));
            inst.branch_target();
        }
        Err(error) => assert!(error.to_string().contains("`fuzz`")),
    }
}

/// Loads a code object and decodes everything it leads to.
pub fn code_object(bytes: &[u8]) {
    if let Ok(table) = LineTable::parse(bytes) {
        table.lookup(0x1900);
    }
    let Ok(object) = CodeObject::parse(bytes) else { return };
    let total: u64 = object.segments.iter().map(|segment| segment.bytes.len() as u64).sum();
    assert!(total <= MAX_IMAGE_BYTES);
    for kernel in &object.kernels {
        if let Ok(program) = Program::decode(&object, kernel) {
            assert!(program.instructions.len() as u64 * 4 <= total);
            for inst in &program.instructions {
                assert!(inst.to_string().is_ascii());
            }
        }
        let geometry = Geometry { grid: [1; 3], block: [64, 1, 1] };
        let filled = segment(&kernel.meta, &[], &geometry, &HiddenValues::default());
        assert!(
            filled.is_ok_and(|b| b.len() == kernel.meta.kernarg_bytes as usize)
                || !kernel.meta.args.is_empty()
        );
    }
}
