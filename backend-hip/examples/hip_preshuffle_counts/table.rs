//! The hot loop of each tile against that of FlyDSL's kernel, by static figures.

use lapidary_core::ElementType;
use lapidary_hip::compile::Compiler;
use lapidary_hip::inspect::{HotLoop, Resources, llvm_mca};
use lapidary_hip::preshuffle::{ACopy, EpilogueTraits, PreshuffleConfig};
use lapidary_hip::{HipError, Target};

use Operands::{BF16, F16, Fp8, I8};
use Target::{Gfx942, Gfx950};

/// Operands of a row; fp8 is e4m3 in the target's flavour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operands {
    Fp8,
    I8,
    F16,
    BF16,
}

/// Figures of a hot loop over two strips.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    /// Vector registers a lane, accumulation registers included.
    pub(crate) registers: u32,
    /// Waves a SIMD, by registers and LDS.
    pub(crate) waves: u32,
    /// Instructions.
    pub(crate) instructions: u32,
    /// Cycles of llvm-mca's model of one wave, four clocks each.
    pub(crate) cycles: f64,
}

/// One tile, and what FlyDSL's kernel comes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) target: Target,
    pub(crate) operands: Operands,
    pub(crate) tile: [usize; 3],
    pub(crate) lds_stage: usize,
    pub(crate) direct: bool,
    pub(crate) anchor: Figures,
}

const fn row(
    target: Target,
    operands: Operands,
    tile: [usize; 3],
    lds_stage: usize,
    direct: bool,
    [registers, waves, instructions]: [u32; 3],
    cycles: f64,
) -> Row {
    let anchor = Figures { registers, waves, instructions, cycles };
    Row { target, operands, tile, lds_stage, direct, anchor }
}

/// FlyDSL's preshuffle kernel (ROCm/FlyDSL 11c4174d, wheel 0.4.2, LLVM 24), N = K = 8192, bf16
/// output: its machine code counted the same way, its loop through the same model. Bodies of one
/// strip count twice.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    row(Gfx942, BF16, [128, 128, 64], 2, false, [150, 2, 255], 618.0),
    row(Gfx942, BF16, [128, 256, 64], 2, false, [232, 2, 406], 1167.0),
    row(Gfx942, BF16, [16, 64, 256], 2, false, [84, 4, 123], 220.0),
    row(Gfx942, BF16, [16, 64, 512], 2, false, [122, 2, 235], 294.0),
    row(Gfx942, BF16, [64, 256, 128], 2, false, [190, 2, 426], 1106.9),
    row(Gfx942, BF16, [64, 256, 64], 2, false, [144, 3, 222], 603.6),
    row(Gfx942, BF16, [64, 256, 64], 1, false, [120, 4, 230], 744.0),
    row(Gfx942, F16, [128, 128, 64], 2, false, [142, 2, 253], 617.0),
    row(Gfx942, F16, [128, 256, 64], 2, false, [236, 2, 407], 1170.0),
    row(Gfx942, F16, [16, 64, 256], 2, false, [84, 4, 123], 220.0),
    row(Gfx942, F16, [16, 64, 512], 2, false, [122, 2, 235], 294.0),
    row(Gfx942, F16, [64, 256, 128], 2, false, [188, 2, 423], 1106.9),
    row(Gfx942, F16, [64, 256, 64], 2, false, [144, 3, 222], 603.6),
    row(Gfx942, Fp8, [128, 128, 128], 2, false, [154, 2, 247], 617.0),
    row(Gfx942, Fp8, [128, 256, 128], 2, false, [234, 2, 392], 1167.0),
    row(Gfx942, Fp8, [128, 256, 128], 1, false, [244, 2, 402], 1245.4),
    row(Gfx942, Fp8, [16, 128, 256], 2, false, [88, 5, 91], 252.0),
    row(Gfx942, Fp8, [16, 64, 256], 2, false, [56, 8, 61], 201.0),
    row(Gfx942, Fp8, [16, 64, 512], 2, false, [92, 4, 108], 219.0),
    row(Gfx942, Fp8, [16, 64, 512], 1, false, [72, 7, 116], 214.0),
    row(Gfx942, Fp8, [32, 64, 512], 2, false, [112, 2, 187], 307.0),
    row(Gfx942, Fp8, [64, 256, 128], 2, false, [148, 3, 214], 597.6),
    row(Gfx942, Fp8, [64, 256, 128], 1, false, [164, 3, 226], 739.6),
    row(Gfx942, Fp8, [64, 64, 256], 2, false, [80, 2, 181], 390.0),
    row(Gfx942, I8, [128, 256, 128], 2, false, [230, 2, 392], 1167.0),
    row(Gfx942, I8, [16, 128, 256], 2, false, [88, 5, 91], 252.0),
    row(Gfx942, I8, [16, 64, 512], 2, false, [92, 4, 108], 219.0),
    row(Gfx942, I8, [64, 256, 128], 2, false, [148, 3, 214], 597.6),
    row(Gfx942, I8, [64, 256, 128], 1, false, [160, 3, 224], 772.0),
    row(Gfx950, BF16, [128, 128, 64], 2, false, [136, 3, 185], 485.0),
    row(Gfx950, BF16, [128, 256, 64], 2, false, [284, 1, 267], 738.0),
    row(Gfx950, BF16, [128, 256, 64], 2, true, [230, 2, 242], 760.6),
    row(Gfx950, BF16, [16, 64, 256], 2, false, [70, 7, 107], 350.0),
    row(Gfx950, BF16, [16, 64, 512], 2, false, [106, 4, 204], 520.0),
    row(Gfx950, BF16, [64, 256, 128], 2, false, [256, 2, 288], 824.5),
    row(Gfx950, BF16, [64, 256, 64], 2, false, [160, 3, 156], 427.7),
    row(Gfx950, BF16, [64, 256, 64], 1, false, [120, 4, 158], 548.0),
    row(Gfx950, F16, [128, 128, 64], 2, false, [136, 3, 185], 485.0),
    row(Gfx950, F16, [128, 256, 64], 2, false, [284, 1, 267], 738.0),
    row(Gfx950, F16, [16, 64, 256], 2, false, [70, 7, 107], 350.0),
    row(Gfx950, F16, [16, 64, 512], 2, false, [106, 4, 204], 520.0),
    row(Gfx950, F16, [64, 256, 128], 2, false, [256, 2, 288], 824.5),
    row(Gfx950, F16, [64, 256, 64], 2, false, [160, 3, 156], 427.7),
    row(Gfx950, Fp8, [128, 128, 128], 2, false, [182, 2, 136], 321.0),
    row(Gfx950, Fp8, [128, 256, 128], 2, false, [280, 1, 181], 562.0),
    row(Gfx950, Fp8, [128, 256, 128], 1, true, [252, 2, 174], 746.0),
    row(Gfx950, Fp8, [128, 256, 128], 1, false, [252, 2, 186], 714.0),
    row(Gfx950, Fp8, [16, 128, 256], 2, false, [96, 5, 61], 195.5),
    row(Gfx950, Fp8, [16, 64, 256], 2, false, [52, 8, 45], 184.0),
    row(Gfx950, Fp8, [16, 64, 512], 2, false, [104, 4, 77], 187.0),
    row(Gfx950, Fp8, [16, 64, 512], 2, true, [80, 6, 70], 178.6),
    row(Gfx950, Fp8, [16, 64, 512], 1, false, [76, 6, 84], 236.9),
    row(Gfx950, Fp8, [32, 64, 512], 2, false, [118, 4, 124], 242.9),
    row(Gfx950, Fp8, [64, 256, 128], 2, false, [194, 2, 112], 303.0),
    row(Gfx950, Fp8, [64, 256, 128], 2, true, [188, 2, 97], 298.0),
    row(Gfx950, Fp8, [64, 256, 128], 1, false, [158, 3, 110], 414.9),
    row(Gfx950, Fp8, [64, 64, 256], 2, false, [98, 4, 117], 197.0),
    row(Gfx950, I8, [128, 256, 128], 2, false, [268, 1, 394], 1109.0),
    row(Gfx950, I8, [16, 128, 256], 2, false, [96, 5, 95], 191.0),
    row(Gfx950, I8, [16, 64, 512], 2, false, [108, 4, 109], 192.0),
    row(Gfx950, I8, [64, 256, 128], 2, false, [172, 2, 212], 580.0),
    row(Gfx950, I8, [64, 256, 128], 1, false, [164, 3, 224], 734.9),
];

impl Row {
    /// The same tile of this crate's kernel.
    pub(crate) fn config(&self) -> PreshuffleConfig {
        let element = match (self.operands, self.target) {
            (Fp8, Gfx950) => ElementType::F8E4M3,
            (Fp8, _) => ElementType::F8E4M3Fnuz,
            (I8, _) => ElementType::I8,
            (F16, _) => ElementType::F16,
            (BF16, _) => ElementType::BF16,
        };
        let scales = matches!(self.operands, Fp8 | I8);
        PreshuffleConfig {
            output: ElementType::BF16,
            lds_stage: self.lds_stage,
            copy: if self.direct { ACopy::Direct } else { ACopy::Synchronous },
            epilogue: EpilogueTraits {
                row_scale: scales,
                col_scale: scales,
                ..EpilogueTraits::default()
            },
            c_shuffle: true,
            c_vector: 8,
            ..PreshuffleConfig::new(self.target, element, self.tile)
        }
    }

    /// Compiles the tile and counts.
    ///
    /// # Errors
    /// As [`Compiler::assembly`] and [`HotLoop::mca_cycles`].
    pub(crate) fn measure(&self, compiler: &Compiler) -> Result<Figures, HipError> {
        let config = self.config();
        let assembly = compiler.assembly(&config.request()?)?;
        let resources = Resources::of(&assembly)?;
        let hot = HotLoop::of(&assembly)?;
        let by_lds = self.target.lds_bytes() / config.lds_bytes() as u32;
        Ok(Figures {
            registers: resources.vgprs,
            waves: resources.waves_per_simd().min(by_lds),
            instructions: hot.mix.total() as u32,
            cycles: hot.mca_cycles(&llvm_mca(compiler), self.target)?.max(hot.mfma_cycles()),
        })
    }
}

/// The page of the figures, a pair for each row of [`ROWS`]: found, then the anchor's.
pub(crate) fn page(found: &[Figures]) -> String {
    let mut text = String::from(HEAD);
    for (row, f) in ROWS.iter().zip(found) {
        let [m, n, k] = row.tile;
        let copy = if row.direct { "direct" } else { "synchronous" };
        let a = row.anchor;
        text.push_str(&format!(
            "| {} | {:?} | {m}x{n}x{k} | {copy} | {} | {} / {} | {} / {} | {} / {} | {:.0} / {:.0} |\n",
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
        ));
    }
    text
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

- Fewer model cycles for every tile of 64 rows and more by 256 columns, on both targets, and with a \
  synchronous copy fewer instructions. i8 on gfx950 takes half, with 16x16x64 in place of 16x16x32.
- More registers at small tiles: a whole second strip of B is in flight while one is multiplied. \
  Where LDS or the granule of eight does not decide, that costs waves: 16x128x256 holds four in \
  place of five on gfx942. Loops of one stage, which are not chosen, hold one wave to four.
- Tiles of 16 rows on gfx950 wait for memory most of the loop: two load latencies of the model are \
  160 of about 195 cycles, and the figures differ by a few cycles either way.
- A direct copy's loop is rolled: it sets M0 before each load, which FlyDSL's unrolled K does not \
  repeat. Its code does not grow with K.
- 128x256 on gfx942 needs a few accumulation registers, and so one wave a SIMD; it is not chosen there.

The compiler is LLVM 22.

| target | operands | tile | copy of A | stages | registers | waves a SIMD | instructions | model cycles |
|-|-|-|-|-:|-:|-:|-:|-:|
";
