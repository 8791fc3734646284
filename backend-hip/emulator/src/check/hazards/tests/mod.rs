//! The table against what LLVM inserts: for every matrix instruction and every kind of consumer, and for every other rule,
//! `llc` adds the `s_nop`s that it holds necessary, and the tracker must ask for exactly as many.

mod matrix;

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use matrix::{A, B, C, D, F16, F32, matrix, matrix_cases, matrix_ops, regs};

use super::*;
use crate::Arch;
use crate::isa::{Instruction, Opcode, decode};

/// Random sequences of instructions that are tried on each architecture.
const SEQUENCES: usize = 1500;

/// Two instructions in LLVM's machine IR, and the rule that binds them.
struct Case {
    name: String,
    producer: String,
    consumer: String,
    rule: Option<Rule>,
}

/// The cases of `pairs.txt`: every rule that is not about matrix instructions, with neighbours that need nothing.
fn other_cases(arch: Arch) -> Vec<Case> {
    let text = include_str!("pairs.txt");
    let mut lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut cases = Vec::new();
    while let Some(name) = lines.next() {
        if name == "gfx950" {
            if arch == Arch::Gfx950 {
                continue;
            }
            break;
        }
        let [rule, producer, consumer] = [(); 3].map(|()| lines.next().unwrap().to_owned());
        let named = |wanted: &Rule| format!("{wanted:?}") == rule;
        let bound = Rule::ALL.into_iter().find(named);
        assert_eq!(bound.is_none(), rule == "-", "{name}: no rule is called {rule}");
        cases.push(Case { name: name.to_owned(), producer, consumer, rule: bound });
    }
    cases
}

/// Runs LLVM's hazard recognizer over sequences and decodes the result, a list of instructions for each; `None` if there is
/// no `llc-22`.
fn with_noops(arch: Arch, sequences: &[Vec<&str>]) -> Option<Vec<Vec<Instruction>>> {
    if Command::new("llc-22").arg("--version").output().is_err() {
        println!("skipped: no llc-22");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let (input, output) = (directory.path().join("in.mir"), directory.path().join("out.o"));
    let mut text = String::new();
    for (number, sequence) in sequences.iter().enumerate() {
        let body: String = sequence.iter().map(|line| format!("    {line}\n")).collect();
        write!(text, "---\nname: case{number}\nbody: |\n  bb.0:\n{body}    S_ENDPGM 0\n...\n")
            .unwrap();
    }
    std::fs::write(&input, text).unwrap();
    let run = Command::new("llc-22")
        .args(["-mtriple=amdgcn-amd-amdhsa", "-start-before=post-RA-hazard-rec", "-filetype=obj"])
        // Replayable memory accesses would add `s_nop`s that end clauses, which have nothing to do with wait states.
        .args([format!("-mcpu={arch}"), "-mattr=-xnack".to_owned()])
        .args([input.as_path(), Path::new("-o"), output.as_path()])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let bytes = std::fs::read(&output).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let code = file.section_by_name(".text").unwrap().data().unwrap();
    let functions = (0..sequences.len()).map(|number| {
        let name = format!("case{number}");
        let symbol = file.symbols().find(|s| s.name() == Ok(&name)).unwrap();
        let mut at = symbol.address() as usize;
        let mut instructions = Vec::new();
        loop {
            let instruction = decode(arch, &name, at as u64, &code[at..]).unwrap();
            if instruction.opcode == Opcode::SEndpgm {
                break;
            }
            at += usize::from(instruction.size);
            instructions.push(instruction);
        }
        instructions
    });
    Some(functions.collect())
}

/// The first finding in a sequence.
fn first_finding(arch: Arch, instructions: &[Instruction]) -> Option<HazardFinding> {
    let infos: Vec<HazardInfo> = instructions.iter().map(|i| HazardInfo::new(arch, i)).collect();
    let mut tracker = HazardTracker::new();
    (0..infos.len()).find_map(|step| tracker.issue(&infos, step))
}

/// The sequence with one `s_nop` shorter by one, or without it.
fn shortened(instructions: &[Instruction], at: usize) -> Vec<Instruction> {
    let mut short = instructions.to_vec();
    if short[at].mods.imm == 0 {
        short.remove(at);
    } else {
        short[at].mods.imm -= 1;
    }
    short
}

fn check(arch: Arch, cases: &[Case]) {
    let pairs: Vec<Vec<&str>> =
        cases.iter().map(|case| vec![case.producer.as_str(), case.consumer.as_str()]).collect();
    let Some(compiled) = with_noops(arch, &pairs) else { return };
    for (case, instructions) in cases.iter().zip(compiled) {
        let name = format!("{arch} {}", case.name);
        let is_noop = |i: &Instruction| i.opcode == Opcode::SNop;
        let inserted: u32 =
            instructions.iter().filter(|i| is_noop(i)).map(|i| u32::from(i.mods.imm) + 1).sum();
        assert_eq!(first_finding(arch, &instructions), None, "{name}: as LLVM emits it");
        let bare: Vec<Instruction> = instructions.iter().copied().filter(|i| !is_noop(i)).collect();
        let finding = first_finding(arch, &bare);
        assert_eq!(finding.as_ref().map(|f| f.rule), case.rule, "{name}");
        assert_eq!(finding.as_ref().map_or(0, |f| f.required), inserted, "{name}: wait states");
        // Each s_nop shortened by one.
        for at in (0..instructions.len()).filter(|at| is_noop(&instructions[*at])) {
            let short = shortened(&instructions, at);
            let finding =
                first_finding(arch, &short).unwrap_or_else(|| panic!("{name}: not caught"));
            assert_eq!((finding.rule, finding.producer), (case.rule.unwrap(), 0), "{name}");
            assert_eq!((finding.required, finding.actual), (inserted, inserted - 1), "{name}");
        }
    }
    println!("{arch}: {} pairs agree with LLVM", cases.len());
}

#[test]
fn matrix_rules_ask_for_what_llvm_inserts() {
    for arch in Arch::ALL {
        let cases: Vec<Case> = matrix_ops(arch).iter().flat_map(matrix_cases).collect();
        check(arch, &cases);
    }
}

#[test]
fn other_rules_ask_for_what_llvm_inserts() {
    for arch in Arch::ALL {
        check(arch, &other_cases(arch));
    }
}

#[test]
fn accumulation_registers_follow_the_same_rules() {
    let product = |d: &str, c: &str| {
        let d = regs(d, 0, 4);
        let c = regs(c, 20, 4);
        format!(
            "{d} = V_MFMA_F32_16X16X16F16_e64 $vgpr10_vgpr11, $vgpr12_vgpr13, {c}, 0, 0, 0, \
             implicit $mode, implicit $exec"
        )
    };
    let case = |name: &str, rule: Option<Rule>, producer: String, consumer: &str| Case {
        name: name.to_owned(),
        producer,
        consumer: consumer.to_owned(),
        rule,
    };
    let in_agprs = || product("agpr", "agpr");
    let cases = [
        case(
            "AGPR result -> v_accvgpr_read",
            Some(Rule::MatrixResultRead),
            in_agprs(),
            "$vgpr9 = V_ACCVGPR_READ_B32_e64 $agpr0, implicit $exec",
        ),
        case(
            "AGPR result -> v_accvgpr_write",
            Some(Rule::MatrixResultOverwritten),
            in_agprs(),
            "$agpr3 = V_ACCVGPR_WRITE_B32_e64 $vgpr9, implicit $exec",
        ),
        case(
            "AGPR C -> v_accvgpr_write",
            Some(Rule::MatrixCOverwritten),
            in_agprs(),
            "$agpr20 = V_ACCVGPR_WRITE_B32_e64 $vgpr9, implicit $exec",
        ),
        case(
            "AGPR result, VGPR of the same number",
            None,
            in_agprs(),
            "$vgpr9 = V_MOV_B32_e32 $vgpr0, implicit $exec",
        ),
        case(
            "AGPR result -> store",
            Some(Rule::MatrixResultRead),
            in_agprs(),
            "GLOBAL_STORE_DWORD $vgpr2_vgpr3, $agpr1, 0, 0, implicit $exec",
        ),
        case(
            "v_accvgpr_write -> matrix factor",
            Some(Rule::VectorToMatrix),
            "$agpr10 = V_ACCVGPR_WRITE_B32_e64 $vgpr3, implicit $exec".to_owned(),
            "$vgpr0_vgpr1_vgpr2_vgpr3 = V_MFMA_F32_16X16X16F16_vgprcd_e64 $agpr10_agpr11, \
             $vgpr12_vgpr13, $vgpr20_vgpr21_vgpr22_vgpr23, 0, 0, 0, implicit $mode, implicit $exec",
        ),
        case(
            "v_accvgpr_mov -> matrix factor",
            Some(Rule::VectorToMatrix),
            "$agpr10 = V_ACCVGPR_MOV_B32 $agpr2, implicit $exec".to_owned(),
            "$vgpr0_vgpr1_vgpr2_vgpr3 = V_MFMA_F32_16X16X16F16_vgprcd_e64 $agpr10_agpr11, \
             $vgpr12_vgpr13, $vgpr20_vgpr21_vgpr22_vgpr23, 0, 0, 0, implicit $mode, implicit $exec",
        ),
    ];
    for arch in Arch::ALL {
        check(arch, &cases);
    }
}

#[test]
fn intervening_instructions_count_as_wait_states() {
    let product = F16.text(D, A, B, C);
    let read = "$vgpr220 = V_MOV_B32_e32 $vgpr0, implicit $exec";
    let Some(compiled) = with_noops(Arch::Gfx942, &[vec![&product, read]]) else { return };
    let producer = compiled[0][0];
    let consumer = *compiled[0].last().unwrap();
    let filler = decode(Arch::Gfx942, "", 0, &0x7e00_0280_u32.to_le_bytes()).unwrap();
    let unrelated = Instruction { dst: consumer.dst, ..filler };
    for between in 0..9 {
        let mut sequence = vec![producer];
        sequence.extend(std::iter::repeat_n(unrelated, between));
        sequence.push(consumer);
        let found = first_finding(Arch::Gfx942, &sequence);
        assert_eq!(found.map(|f| f.actual as usize), (between < 7).then_some(between));
    }
    // The producer is named through many later ones, and forgotten after its reach.
    let infos: Vec<HazardInfo> =
        [producer, unrelated, consumer].iter().map(|i| HazardInfo::new(Arch::Gfx942, i)).collect();
    let mut tracker = HazardTracker::new();
    for round in 0..100 {
        assert_eq!(tracker.issue(&infos, 0), None, "round {round}");
        for _ in 0..6 {
            assert_eq!(tracker.issue(&infos, 1), None, "round {round}");
        }
        let finding = tracker.issue(&infos, 2).unwrap();
        assert_eq!((finding.producer, finding.required, finding.actual), (0, 7, 6));
        assert_eq!(
            finding.describe("`v_mfma`"),
            "reads a matrix result in v0: 6 wait states after `v_mfma`, 7 are required"
        );
    }
    assert_eq!(tracker.issue(&infos, 3), None, "no such step");
}

#[test]
fn random_sequences_need_exactly_the_noops_of_llvm() {
    for arch in Arch::ALL {
        // Few registers, so that instructions meet: the lines of all pairs, and products on the same registers.
        let pairs = other_cases(arch);
        let mut lines: Vec<String> =
            pairs.iter().flat_map(|pair| [pair.producer.clone(), pair.consumer.clone()]).collect();
        // No operand overlaps the results of two products: there LLVM regards the nearer one alone.
        let wide = matrix("V_MFMA_F32_32X32X8F16", 2, 16);
        lines.extend([
            F32[0].text(0, 20, 22, 0),
            F32[0].text(0, 4, 22, 0),
            F32[0].text(24, 1, 22, 24),
        ]);
        lines.extend([F16.text(4, 20, 22, 4), F16.text(4, 2, 22, 8), F16.text(8, 20, 4, 24)]);
        lines.extend([
            wide.text(32, 20, 22, 32),
            wide.text(48, 4, 8, 32),
            wide.text(64, 20, 22, 36),
        ]);
        // Left out where LLVM keeps wait states that the documents do not ask for: DPP after any instruction, packed dot
        // products, whose modifiers it takes for a partial write, and direct-to-LDS loads, which it counts as VALU too.
        let left_out = ["_dpp", "V_DOT4_I32_I8 ", "_LDS_"];
        lines.retain(|line| !left_out.iter().any(|part| line.contains(part)));
        let mut rng = SmallRng::seed_from_u64(950);
        let sequences: Vec<Vec<&str>> = (0..SEQUENCES)
            .map(|_| (0..8).map(|_| lines[rng.random_range(0..lines.len())].as_str()).collect())
            .collect();
        let Some(compiled) = with_noops(arch, &sequences) else { return };
        let (mut noops, mut without) = (0, 0);
        for (sequence, instructions) in sequences.iter().zip(compiled) {
            let found = first_finding(arch, &instructions);
            assert_eq!(found, None, "{arch}: as LLVM emits {sequence:#?}");
            let places: Vec<usize> = (0..instructions.len())
                .filter(|at| instructions[*at].opcode == Opcode::SNop)
                .collect();
            without += usize::from(places.is_empty());
            for at in places {
                noops += 1;
                let found = first_finding(arch, &shortened(&instructions, at));
                assert!(found.is_some(), "{arch}: the s_nop at {at} of {sequence:#?}");
            }
        }
        println!("{arch}: {noops} s_nops in {SEQUENCES} random sequences, {without} need none");
        assert!(noops > SEQUENCES / 2);
    }
}

#[test]
fn the_documents_numbers() {
    // The CDNA3 and CDNA4 ISA documents, VALU read of a result, by passes.
    let result = |arch, passes, xdl| Matrix { passes, xdl, arch }.result();
    for (passes, cdna3, cdna4) in [(4, 7, 8), (8, 11, 12), (16, 19, 20)] {
        assert_eq!(result(Arch::Gfx942, passes, true), cdna3);
        assert_eq!(result(Arch::Gfx950, passes, true), cdna4);
    }
    for (passes, both) in [(8, 10), (16, 18)] {
        for arch in Arch::ALL {
            assert_eq!(result(arch, passes, false), both);
        }
    }
}
