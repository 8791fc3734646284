//! Compares the decoder with llvm-objdump on the whole corpus and prints its size and the opcode coverage.
//!
//! `cargo run --release -p lapidary-cdna --example corpus [-- SAMPLES [FILE.co ...]]`: SAMPLES is how many words are drawn
//! for each form of each opcode (default 64); the code objects named are compared as well.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use common::compare::Tally;
use common::{kernels, llvm, sweep};
use lapidary_cdna::Arch;
use lapidary_cdna::isa::claims::{Form, claims};
use lapidary_cdna::loader::CodeObject;

fn main() -> ExitCode {
    if let Some(tool) = llvm::missing(&[llvm::CLANG, llvm::MC, llvm::OBJDUMP]) {
        println!("skipped: no {tool}");
        return ExitCode::SUCCESS;
    }
    let samples = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(64);
    let mut differences = Vec::new();

    let mut tally = Tally::default();
    let compiled = kernels::build_all(&kernels::CONFIGURATIONS);
    for kernel in &compiled {
        tally.compare(kernel.arch, &kernel.name, &llvm::objdump(&kernel.object));
    }
    let opcodes: BTreeSet<_> = tally.seen.keys().map(|(opcode, _, _)| *opcode).collect();
    println!(
        "compiled kernels: {} code objects of {} sources, {} instructions, {} opcodes, {} differ",
        compiled.len(),
        kernels::sources().len(),
        tally.compared,
        opcodes.len(),
        tally.differences.len()
    );
    differences.append(&mut tally.differences);

    for file in std::env::args_os().skip(2).map(PathBuf::from) {
        let object = std::fs::read(&file)
            .map_err(|error| error.to_string())
            .and_then(|bytes| CodeObject::parse(&bytes).map_err(|error| error.to_string()));
        let arch = match object {
            Ok(object) => object.arch,
            Err(error) => {
                eprintln!("{}: {error}", file.display());
                return ExitCode::from(2);
            }
        };
        let mut tally = Tally::default();
        tally.compare(arch, &file.display().to_string(), &llvm::objdump(&file));
        println!(
            "{}: {} instructions, {} differ",
            file.display(),
            tally.compared,
            tally.differences.len()
        );
        differences.append(&mut tally.differences);
    }

    for arch in Arch::ALL {
        let claims = claims(arch);
        let mut tally = Tally::default();
        let words = sweep::draw(arch, &claims, samples, 0x5eed);
        let lines = sweep::claimed_only(&claims, llvm::disassemble_words(arch, &words));
        let (object, kept) = llvm::assemble_lines(arch, &lines);
        tally.compare(arch, "sweep", &llvm::objdump(&object));
        let missing: Vec<String> = claims
            .iter()
            .filter(|claim| {
                let form = match (claim.form, claim.encoding) {
                    (Form::Plain, lapidary_cdna::isa::Encoding::Vop3) => Form::Wide,
                    (form, _) => form,
                };
                let encoding = claim.encoding;
                !tally.seen.contains_key(&(claim.opcode, encoding, form))
            })
            .map(|claim| format!("{} {:?}", claim.opcode, claim.form))
            .collect();
        let opcodes: BTreeSet<_> = claims.iter().map(|claim| claim.opcode).collect();
        println!(
            "sweep {arch}: {} opcodes in {} forms, {} of {} words assembled, {} instructions, {} differ, {} forms unseen",
            opcodes.len(),
            claims.len(),
            kept.len(),
            words.len(),
            tally.compared,
            tally.differences.len(),
            missing.len()
        );
        for form in &missing {
            println!("  unseen: {form}");
        }
        differences.append(&mut tally.differences);
    }
    for difference in &differences {
        println!("{difference}");
    }
    if differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
