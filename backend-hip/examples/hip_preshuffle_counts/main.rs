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

const HEAD: &str = "\
# The preshuffle kernel's hot loop, counted

Each pair of figures is this kernel's, then that of FlyDSL's preshuffle kernel (ROCm/FlyDSL 11c4174d, \
wheel 0.4.2), for the same tile with bf16 output. All are static: registers and instructions of the \
compiled hot loop over two strips of K, and the cycles that llvm-mca's model of one wave takes for \
it, four clocks each. The model has fixed memory latencies, no bandwidth, no bank conflicts and no \
second wave; 8-bit f8f6f4 instructions count their true eight cycles. It ranks schedules of the same \
work; it is no speed. `cargo run -p lapidary-hip --example hip_preshuffle_counts` makes this page.

What the figures say:

- Fewer model cycles and fewer instructions for every tile of 64 rows and more by 256 columns, on \
  both targets. i8 on gfx950 takes half, with 16x16x64 in place of 16x16x32.
- More registers at small tiles: a whole second strip of B is in flight while one is multiplied. \
  Where LDS or the granule of eight does not decide, that costs waves: 16x128x256 holds four in \
  place of five on gfx942.
- Tiles of 16 rows on gfx950 wait for memory most of the loop: two load latencies of the model are \
  160 of about 195 cycles, and the figures differ by a few cycles either way.
- A direct copy's loop is rolled: it sets M0 before each load, which FlyDSL's unrolled K does not \
  repeat. Its code does not grow with K.
- 128x256 on gfx942 needs a few accumulation registers, and so one wave a SIMD; it is not chosen there.

";
