//! Registers, instructions and model cycles of the preshuffle kernel's hot loops, tile by tile, next to
//! those of FlyDSL's kernel, as a page in Markdown.
//!
//! ```text
//! cargo run -p lapidary-hip --example hip_preshuffle_counts > docs/hip_preshuffle_counts.md
//! ```

mod table;

use lapidary_hip::HipError;
use lapidary_hip::compile::Compiler;

fn main() {
    match Compiler::find().and_then(|compiler| page(&compiler)) {
        Ok(page) => print!("{page}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    }
}

fn page(compiler: &Compiler) -> Result<String, HipError> {
    let found: Result<Vec<_>, _> = table::ROWS.iter().map(|row| row.measure(compiler)).collect();
    Ok(table::page(&found?))
}
