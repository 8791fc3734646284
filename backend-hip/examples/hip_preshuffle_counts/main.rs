//! Registers, instructions and model cycles of the preshuffle kernel's hot loops, tile by tile, next to
//! those of FlyDSL's kernel, as a table in Markdown.
//!
//! ```text
//! cargo run -p lapidary-hip --example hip_preshuffle_counts > docs/hip_preshuffle_counts.md
//! ```

mod table;

use lapidary_hip::HipError;
use lapidary_hip::compile::Compiler;

fn main() {
    match Compiler::find().and_then(|compiler| markdown(&compiler)) {
        Ok(text) => print!("{text}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    }
}

fn markdown(compiler: &Compiler) -> Result<String, HipError> {
    use std::fmt::Write as _;
    let mut text = String::from(HEAD);
    let _ = writeln!(text, "Compiler: {}.\n", compiler.version());
    text.push_str(
        "| Target | Operands | Tile | A | Registers | Waves a SIMD | Instructions | Model cycles |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for row in table::ROWS {
        let found = row.measure(compiler)?;
        let [m, n, k] = row.tile;
        let copy = if row.direct { "direct" } else { "synchronous" };
        let (a, f) = (row.anchor, found);
        let _ = writeln!(
            text,
            "| {} | {:?} | {m}×{n}×{k} | {copy}, {} stage(s) | {} / {} | {} / {} | {} / {} | {:.0} / {:.0} |",
            row.target,
            row.operands,
            row.lds_stage,
            f.registers,
            a.registers,
            f.waves,
            a.waves,
            f.instructions,
            a.instructions,
            f.cycles,
            a.cycles,
        );
    }
    Ok(text)
}

const HEAD: &str = "HEAD\n";
