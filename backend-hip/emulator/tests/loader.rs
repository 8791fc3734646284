//! Loading what clang writes: kernels, descriptors, arguments, relocations.

mod common;

use common::{kernels, llvm};
use lapidary_cdna::isa::{Opcode, Program};
use lapidary_cdna::loader::args::segment;
use lapidary_cdna::loader::{
    ArgValue, CodeObject, Geometry, HiddenArg, HiddenValues, LOAD_BASE, LineTable, ValueKind,
};
use lapidary_cdna::{Arch, Error};

/// Compiles `tests/kernels/NAME.hip`, or says why the test is skipped.
fn load(name: &str, arch: Arch, options: &[&str]) -> Option<(CodeObject, Vec<u8>)> {
    if let Some(tool) = llvm::missing(&[llvm::CLANG]) {
        println!("skipped: no {tool}");
        return None;
    }
    let source =
        kernels::sources().into_iter().find(|path| path.ends_with(format!("{name}.hip")))?;
    let compiled = kernels::build(&source, arch, options)?;
    let bytes = std::fs::read(&compiled.object).expect("the object was just written");
    Some((CodeObject::parse(&bytes).expect("clang writes code objects"), bytes))
}

#[test]
fn kernels_and_their_arguments_are_found_on_both_targets() {
    for arch in Arch::ALL {
        let Some((object, _)) = load("vector_add", arch, &["-O3"]) else { return };
        assert_eq!(object.arch, arch);
        let kernel = object.kernel("vector_add").unwrap();
        let offsets: Vec<(u32, u32)> =
            kernel.meta.args.iter().take(4).map(|arg| (arg.offset, arg.size)).collect();
        assert_eq!(offsets, [(0, 8), (8, 8), (16, 8), (24, 4)]);
        assert_eq!(kernel.meta.args[0].kind, ValueKind::GlobalBuffer);
        let group = ValueKind::Hidden(HiddenArg::GroupSize(0));
        assert!(kernel.meta.args.iter().any(|arg| arg.kind == group));
        assert!(kernel.descriptor.kernarg_segment_ptr);
        assert_eq!(kernel.descriptor.workgroup_id, [true, false, false]);
        // Templates keep their mangled names.
        assert!(object.kernel("_Z7stridedILi128EEvPfi").is_ok());
        let program = Program::decode(&object, kernel).unwrap();
        assert_eq!(program.index_of(kernel.entry), Some(program.entry));
        assert_eq!(program.index_of(kernel.entry + 2), None);
        assert!(program.instructions.iter().any(|inst| inst.opcode == Opcode::SEndpgm));
    }
}

#[test]
fn an_argument_segment_has_every_value_at_its_offset() {
    let Some((object, _)) = load("vector_add", Arch::Gfx942, &["-O3"]) else { return };
    let geometry = Geometry { grid: [7, 2, 1], block: [96, 1, 1] };
    let hidden = HiddenValues { dynamic_lds_bytes: 4096, ..HiddenValues::default() };
    let kernel = object.kernel("vector_add").unwrap();
    let values = [1u64, 2, 3].map(ArgValue::U64).into_iter().chain([ArgValue::I32(-5)]);
    let bytes = segment(&kernel.meta, &values.collect::<Vec<_>>(), &geometry, &hidden).unwrap();
    assert_eq!(bytes.len(), kernel.meta.kernarg_bytes as usize);
    assert_eq!(bytes[16..24], 3u64.to_le_bytes());
    assert_eq!(bytes[24..28], (-5i32).to_le_bytes());
    for arg in &kernel.meta.args {
        let at = arg.offset as usize;
        match arg.kind {
            ValueKind::Hidden(HiddenArg::BlockCount(d)) => {
                assert_eq!(bytes[at..at + 4], geometry.grid[usize::from(d)].to_le_bytes());
            }
            ValueKind::Hidden(HiddenArg::GroupSize(d)) => {
                assert_eq!(
                    bytes[at..at + 2],
                    (geometry.block[usize::from(d)] as u16).to_le_bytes()
                );
            }
            _ => (),
        }
    }
    // A struct by value, with its padding.
    let kernel = object.kernel("scale").unwrap();
    let params = vec![7u8; 32];
    let values = [ArgValue::U64(9), ArgValue::Bytes(params.clone()), ArgValue::Bytes(vec![b'x'])];
    let bytes = segment(&kernel.meta, &values, &geometry, &hidden).unwrap();
    assert_eq!(bytes[8..40], params[..]);
    assert_eq!(bytes[40], b'x');
    let error = segment(&kernel.meta, &values[..2], &geometry, &hidden).unwrap_err();
    assert!(error.to_string().contains("2 arguments given, it takes 3"), "{error}");
    let wrong = [ArgValue::U64(9), ArgValue::U64(1), ArgValue::Bytes(vec![b'x'])];
    let error = segment(&kernel.meta, &wrong, &geometry, &hidden).unwrap_err();
    assert!(error.to_string().contains("has 8 bytes, its slot at offset 8 has 32"), "{error}");
}

#[test]
fn dynamic_lds_and_grid_size_fill_their_hidden_arguments() {
    let Some((object, _)) = load("vector_add", Arch::Gfx950, &["-O1"]) else { return };
    let geometry = Geometry { grid: [2, 3, 5], block: [8, 4, 2] };
    let kernel = object.kernel("three_dimensions").unwrap();
    let values = [ArgValue::U64(0), ArgValue::I32(1), ArgValue::I32(1), ArgValue::I32(1)];
    let bytes = segment(&kernel.meta, &values, &geometry, &HiddenValues::default()).unwrap();
    for arg in &kernel.meta.args {
        let at = arg.offset as usize;
        if arg.kind == ValueKind::Hidden(HiddenArg::GridDims) {
            assert_eq!(bytes[at..at + 2], 3u16.to_le_bytes());
        }
    }
    assert_eq!(kernel.descriptor.workgroup_id, [true; 3]);
    assert_eq!(kernel.descriptor.workitem_id_dims, 3);
}

#[test]
fn functions_are_decoded_and_pointers_relocated() {
    let Some((object, _)) = load("scratch", Arch::Gfx942, &["-O2"]) else { return };
    assert!(object.functions.iter().any(|f| f.name.contains("callee")));
    let kernel = object.kernel("calls").unwrap();
    let program = Program::decode(&object, kernel).unwrap();
    for function in &object.functions {
        assert!(
            program.index_of(function.range.start).is_some(),
            "{} is not decoded",
            function.name
        );
    }
    let relocated = object.segments.iter().filter(|segment| segment.writable).any(|segment| {
        segment.bytes.windows(8).any(|word| {
            let value = u64::from_le_bytes(word.try_into().unwrap());
            value > LOAD_BASE && value < LOAD_BASE + 0x10_0000
        })
    });
    assert!(relocated, "no pointer into the image");
    assert!(object.kernel("indexed").unwrap().descriptor.private_segment_bytes > 0);
}

#[test]
fn preloaded_arguments_show_in_the_descriptor() {
    let options = ["-O3", "-mllvm", "-amdgpu-kernarg-preload-count=8"];
    let Some((object, _)) = load("gemm_tiled", Arch::Gfx950, &options) else { return };
    let descriptor = object.kernel("gemm_f32").unwrap().descriptor;
    assert!(descriptor.kernarg_preload_dwords > 0);
    assert!(u16::from(descriptor.user_sgprs) >= u16::from(descriptor.kernarg_preload_dwords));
}

#[test]
fn debug_information_places_every_instruction_on_a_line() {
    let Some((object, bytes)) = load("vector_add", Arch::Gfx942, &["-O3", "-g"]) else { return };
    let table = LineTable::parse(&bytes).unwrap();
    let source = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/vector_add.hip"),
    )
    .unwrap();
    let number =
        |text: &str| 1 + source.lines().position(|line| line.contains(text)).unwrap() as u32;
    let (sum, body) = (number("a[i] + b[i]"), number("KERNEL vector_add")..=number("a[i] + b[i]"));
    let program = Program::decode(&object, object.kernel("vector_add").unwrap()).unwrap();
    let mut adds = 0;
    for inst in &program.instructions[program.entry..] {
        let Some(place) = table.lookup(inst.address) else { continue };
        if inst.opcode == Opcode::VAddF32 {
            assert_eq!(place.line, sum, "{inst}");
            assert!(place.file.ends_with("vector_add.hip"), "{}", place.file);
            adds += 1;
        }
        if place.line > 0 && place.file.ends_with("vector_add.hip") && adds == 0 {
            assert!(body.contains(&place.line), "{inst} on line {}", place.line);
        }
        if inst.opcode == Opcode::SEndpgm {
            break;
        }
    }
    assert_eq!(adds, 1);
    assert!(table.lookup(0).is_none());
    let Some((_, bare)) = load("vector_add", Arch::Gfx942, &["-O3"]) else { return };
    assert!(LineTable::parse(&bare).unwrap().is_empty());
}

#[test]
fn what_is_no_code_object_is_refused_by_name() {
    let reason = |bytes: &[u8]| CodeObject::parse(bytes).unwrap_err().to_string();
    assert!(reason(b"").contains("not an AMDGPU code object"));
    assert!(reason(b"__CLANG_OFFLOAD_BUNDLE__\x01").contains("offload bundle"));
    assert!(reason(b"\x7fELF nothing more").contains("not an AMDGPU code object"));
    let Some((object, bytes)) = load("vector_add", Arch::Gfx942, &["-O3"]) else { return };
    assert!(matches!(object.kernel("absent"), Err(Error::UnknownKernel { .. })));
    let patched = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        bytes
    };
    // e_machine, e_flags and e_type of the ELF header.
    assert!(reason(&patched(18, 62)).contains("machine 62"));
    assert!(reason(&patched(48, 0x3f)).contains("machine 0x3f"));
    assert!(reason(&patched(16, 1)).contains("not linked"));
}
