//! What is not emulated says so by name.

use lapidary_cdna::Arch;
use lapidary_cdna::isa::Opcode;
use lapidary_cdna::mfma::{MfmaError, MfmaShape, Scales, execute};

fn refusal(arch: Arch, opcode: Opcode, cbsz: u8, abid: u8, blgp: u8) -> String {
    MfmaShape::resolve(arch, opcode, cbsz, abid, blgp).unwrap_err().to_string()
}

#[test]
fn every_matrix_opcode_is_emulated_or_refused_by_family() {
    for opcode in Opcode::ALL {
        let name = opcode.mnemonic();
        let matrix = name.starts_with("v_mfma_") || name.starts_with("v_smfmac_");
        let emulated =
            Arch::ALL.iter().any(|arch| MfmaShape::resolve(*arch, *opcode, 0, 0, 0).is_ok());
        let error = MfmaShape::resolve(Arch::Gfx950, *opcode, 0, 0, 0).err();
        match error {
            None => assert!(matrix, "{name}"),
            Some(MfmaError::NotMfma { .. }) => assert!(!matrix, "{name}"),
            Some(MfmaError::NotOnArch { .. }) => assert!(emulated, "{name}"),
            Some(MfmaError::UnsupportedFamily { .. }) => assert!(matrix && !emulated, "{name}"),
            Some(other) => panic!("{name}: {other}"),
        }
    }
}

#[test]
fn refusals_name_the_instruction_and_the_reason() {
    assert_eq!(
        refusal(Arch::Gfx942, Opcode::VMfmaF32_4x4x4_16bF16, 0, 0, 0),
        "`v_mfma_f32_4x4x4_16b_f16` is not emulated: multi-block matrix instructions are not supported"
    );
    assert_eq!(
        refusal(Arch::Gfx942, Opcode::VMfmaF64_16x16x4F64, 0, 0, 0),
        "`v_mfma_f64_16x16x4_f64` is not emulated: f64 matrix instructions are not supported"
    );
    assert_eq!(
        refusal(Arch::Gfx942, Opcode::VMfmaF32_16x16x128F8f6f4, 0, 0, 0),
        "gfx942 has no `v_mfma_f32_16x16x128_f8f6f4`"
    );
    assert_eq!(
        refusal(Arch::Gfx950, Opcode::VMfmaF32_16x16x8Xf32, 0, 0, 0),
        "gfx950 has no `v_mfma_f32_16x16x8_xf32`"
    );
    assert_eq!(
        refusal(Arch::Gfx942, Opcode::VMfmaF32_16x16x4F32, 0, 0, 5),
        "`v_mfma_f32_16x16x4_f32` with blgp:5 is not emulated: at most 0 is"
    );
    assert_eq!(
        refusal(Arch::Gfx950, Opcode::VMfmaF32_16x16x128F8f6f4, 5, 0, 0),
        "`v_mfma_f32_16x16x128_f8f6f4` with cbsz:5 is not emulated: at most 4 is"
    );
    assert_eq!(
        refusal(Arch::Gfx942, Opcode::VAddF32, 0, 0, 0),
        "`v_add_f32` is not a matrix instruction"
    );
}

#[test]
fn short_operands_and_missing_scales_leave_d_alone() {
    let shape = MfmaShape::resolve(Arch::Gfx942, Opcode::VMfmaF32_16x16x16F16, 0, 0, 0).unwrap();
    let registers = [[1u32; 64]; 4];
    let mut d = [[7u32; 64]; 4];
    let error = execute(&shape, &registers[..1], &registers, &registers, None, &mut d).unwrap_err();
    assert_eq!(error, MfmaError::TooFewRegisters { operand: "A", actual: 1, needed: 2 });
    let error = execute(&shape, &registers, &registers, &registers[..3], None, &mut d).unwrap_err();
    assert_eq!(error, MfmaError::TooFewRegisters { operand: "C", actual: 3, needed: 4 });
    let scaled =
        MfmaShape::resolve(Arch::Gfx950, Opcode::VMfmaScaleF32_16x16x128F8f6f4, 4, 1, 4).unwrap();
    let error = execute(&scaled, &registers, &registers, &registers, None, &mut d).unwrap_err();
    assert_eq!(error, MfmaError::MissingScales);
    assert_eq!(d, [[7u32; 64]; 4]);
    let scale = [0x7f7f_7f7f; 64];
    let scales = Scales { a: &scale, a_byte: 0, b: &scale, b_byte: 0 };
    assert_eq!(execute(&scaled, &registers, &registers, &registers, Some(&scales), &mut d), Ok(()));
    assert_ne!(d, [[7u32; 64]; 4]);
}
