//! The decoder and the printer against llvm-objdump: every instruction of the compiled corpus, and operand sweeps that
//! draw from every form of every opcode the decoder claims.

mod common;

use common::compare::{Tally, form_of};
use common::{kernels, llvm, sweep};
use lapidary_cdna::Arch;
use lapidary_cdna::isa::claims::{Form, claims};
use lapidary_cdna::isa::{ConstClass, Encoding, Instruction, Opcode, Operand, decode};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

fn tools() -> bool {
    match llvm::missing(&[llvm::CLANG, llvm::MC, llvm::OBJDUMP]) {
        Some(tool) => {
            println!("skipped: no {tool}");
            false
        }
        None => true,
    }
}

fn assert_equal(tally: &Tally) {
    assert!(
        tally.differences.is_empty(),
        "{} of {} instructions differ:\n{}",
        tally.differences.len(),
        tally.compared,
        tally.differences[..tally.differences.len().min(20)].join("\n")
    );
}

#[test]
fn compiled_kernels_disassemble_as_llvm_objdump_writes_them() {
    if !tools() {
        return;
    }
    let mut tally = Tally::default();
    for kernel in kernels::build_all(&kernels::CONFIGURATIONS[1..=3]) {
        let before = tally.compared;
        tally.compare(kernel.arch, &kernel.name, &llvm::objdump(&kernel.object));
        assert!(tally.compared > before, "{} has no instructions", kernel.name);
    }
    assert_equal(&tally);
    println!("{} instructions compared", tally.compared);
}

#[test]
fn every_claimed_form_prints_as_llvm_objdump_writes_it() {
    if !tools() {
        return;
    }
    for arch in Arch::ALL {
        let claims = claims(arch);
        let words = sweep::draw(arch, &claims, 24, 0x1a_91da);
        let lines = sweep::claimed_only(&claims, llvm::disassemble_words(arch, &words));
        let (object, kept) = llvm::assemble_lines(arch, &lines);
        // Most words must be real instructions, or the sweep sweeps nothing.
        assert!(kept.len() * 4 > words.len() * 3, "{} of {} on {arch}", kept.len(), words.len());
        let mut tally = Tally::default();
        tally.compare(arch, "sweep", &llvm::objdump(&object));
        assert_equal(&tally);
        for claim in &claims {
            let form = match (claim.form, claim.encoding) {
                (Form::Plain, Encoding::Vop3) => Form::Wide,
                (form, _) => form,
            };
            assert!(
                tally.seen.contains_key(&(claim.opcode, claim.encoding, form)),
                "the sweep has no {} {form:?} on {arch}",
                claim.opcode
            );
        }
    }
}

#[test]
fn what_decodes_assembles_back_to_the_same_instruction() {
    if !tools() {
        return;
    }
    let mut random = SmallRng::seed_from_u64(0xb17);
    for arch in Arch::ALL {
        let mut words = sweep::draw(arch, &claims(arch), 8, 0xf11b5);
        // Flipped bits land in fields that the sweep leaves alone.
        for word in words.iter_mut().flatten() {
            for _ in 0..random.random_range(0..3) {
                *word ^= 1 << random.random_range(0..32);
            }
        }
        let decoded: Vec<Instruction> = words
            .iter()
            .filter_map(|words| {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                let inst = decode(arch, "flipped", 0, &bytes).ok()?;
                // A 16-bit literal has no text for the half that is not used, a double's literal is not marked as one,
                // and a float constant of a 16-bit integer prints as the literal it equals.
                let types = inst.opcode.signature().src.iter();
                let lossy = types.zip(inst.src).any(|(ty, operand)| match operand {
                    Operand::Literal(value) => match ty.const_class() {
                        ConstClass::Int16 | ConstClass::Float16 => value > 0xffff,
                        ConstClass::Float64 => true,
                        _ => false,
                    },
                    Operand::Float(_) => ty.const_class() == ConstClass::Int16,
                    _ => false,
                });
                // These ignore bits of their immediate, or have several for one meaning.
                let loose = [
                    Opcode::SWaitcnt,
                    Opcode::SSendmsg,
                    Opcode::SSendmsghalt,
                    Opcode::DsSwizzleB32,
                ];
                (!lossy && !loose.contains(&inst.opcode)).then_some(inst)
            })
            .collect();
        let lines: Vec<String> = decoded.iter().map(Instruction::to_string).collect();
        let (object, kept) = llvm::assemble_lines(arch, &lines);
        // The assembler also knows rules that no field shows, such as how many scalar values one instruction may read.
        assert!(kept.len() * 10 > lines.len() * 7, "{} of {} on {arch}", kept.len(), lines.len());
        let assembled = llvm::objdump(&object);
        assert_eq!(assembled.len(), kept.len());
        for (line, i) in assembled.iter().zip(kept) {
            let back = decode(arch, "flipped", 0, &line.bytes).unwrap();
            assert_eq!(back, decoded[i], "`{}` on {arch}", lines[i]);
        }
    }
}

#[test]
fn hand_picked_words_read_as_the_isa_document_has_them() {
    let cases: [(Arch, &[u32], &str); 12] = [
        (Arch::Gfx942, &[0x8004_0602], "s_add_u32 s4, s2, s6"),
        (Arch::Gfx942, &[0xbf8c_c07f], "s_waitcnt lgkmcnt(0)"),
        (Arch::Gfx942, &[0xbf8c_0f70], "s_waitcnt vmcnt(0)"),
        (Arch::Gfx942, &[0xb004_ffff], "s_movk_i32 s4, 0xffff"),
        (Arch::Gfx942, &[0xc006_0101, 0x0000_0010], "s_load_dwordx2 s[4:5], s[2:3], 0x10"),
        (Arch::Gfx942, &[0x0208_0cff, 0x3f80_0000], "v_add_f32_e32 v4, lit(0x3f800000), v6"),
        (Arch::Gfx942, &[0xd101_0301, 0x2001_e501], "v_add_f32_e64 v1, -|v1|, |1.0|"),
        (
            Arch::Gfx942,
            &[0x7e02_02fa, 0xff09_5302],
            "v_mov_b32_dpp v1, v2 row_newbcast:3 row_mask:0xf bank_mask:0xf bound_ctrl:1",
        ),
        (
            Arch::Gfx942,
            &[0xd3f3_0000, 0x0412_0904],
            "v_mfma_f32_16x16x32_fp8_fp8 v[0:3], v[4:5], v[4:5], v[4:7]",
        ),
        (
            Arch::Gfx950,
            &[0xd3ac_0800, 0x1002_3318, 0xd3ad_8900, 0x0c52_1904],
            "v_mfma_scale_f32_16x16x128_f8f6f4 a[0:3], a[4:11], v[12:19], a[20:23], v24, v25 op_sel:[1,0,0] \
             op_sel_hi:[0,1,0] cbsz:1",
        ),
        (
            Arch::Gfx950,
            &[0xdc50_9000, 0x0104_0002],
            "global_load_dword v1, v2, s[4:5] offset:-4096",
        ),
        (
            Arch::Gfx950,
            &[0xe051_1004, 0x0301_0002],
            "buffer_load_dword v2, s[4:7], s3 offen offset:4 lds",
        ),
    ];
    for (arch, words, text) in cases {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let inst = decode(arch, "test", 0, &bytes).unwrap();
        assert_eq!(inst.to_string(), text);
        assert_eq!(usize::from(inst.size), bytes.len(), "{text}");
        assert_ne!(form_of(&inst) == Form::Scaled, bytes.len() < 16, "{text}");
    }
}

#[test]
fn refusals_name_the_bytes_the_address_the_kernel_and_the_reason() {
    let cases: [(Arch, &[u32], &str); 9] = [
        (Arch::Gfx942, &[0xf000_0000], "encoding 0x3c (bits 31:26)"),
        (Arch::Gfx942, &[0x7e00_b302], "VOP1 opcode 0x59 is not known on gfx942"),
        (Arch::Gfx950, &[0xd3be_0000, 0], "VOP3P opcode 0x3e is not known on gfx950"),
        (Arch::Gfx942, &[0xd101_0001], "the code ends inside the instruction"),
        (Arch::Gfx942, &[0xd101_0001, 0x0401_e501], "reserved field unused source"),
        (Arch::Gfx942, &[0xd1cb_0001, 0x0402_04ff], "source code 255 is reserved"),
        (
            Arch::Gfx942,
            &[0xdc54_8000, 0x017f_0002],
            "a tuple of 2 vector registers starts at odd 1",
        ),
        (Arch::Gfx942, &[0xe05d_0000, 0x8001_0000], "4 dwords to LDS on gfx942"),
        (Arch::Gfx950, &[0xd3ac_0000, 0x1802_0300, 0xbf80_0000], "without its matrix instruction"),
    ];
    for (arch, words, reason) in cases {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let text = decode(arch, "my_kernel", 0x1940, &bytes).unwrap_err().to_string();
        assert!(text.contains(reason), "{text}");
        assert!(text.contains("`my_kernel` at 0x1940"), "{text}");
        assert!(text.contains(&format!("{:02x} {:02x}", bytes[0], bytes[1])), "{text}");
    }
}
