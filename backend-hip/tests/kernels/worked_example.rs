//! The worked example, 5120×5120×8320 in fp8, on a sample of workgroups.
//!
//! It runs the very code object that `gates.rs` measures: the one chosen for the problem. And the figures
//! of the page about it, from the configuration and from the code object.

use super::configs;
use super::elements::{Sequence, put};
use super::emulate::{compiler, prepare};
use lapidary_cdna::exec::{Launch, Machine, Workgroups};
use lapidary_cdna::loader::ArgValue;
use lapidary_core::{Backend, PlanOptions, Problem};
use lapidary_hip::inspect::{HotLoop, Occupancy, Resources};
use lapidary_hip::preshuffle::{Args, Figures, PackedB, SourceB, tile_of};
use lapidary_hip::{Hip, Target};

#[test]
fn a_sample_of_workgroups_is_exact() {
    let Some(compiler) = compiler() else { return };
    let [m, n, k] = configs::WORKED;
    for target in [Target::Gfx942, Target::Gfx950] {
        let config = configs::worked_example(target);
        let request = config.request().expect("valid");
        let kernel = prepare(&compiler, &request, "preshuffle");
        // What a plan launches is this code object.
        let problem = Problem::new(m, n, k)
            .elements(config.a, config.output)
            .row_scale(true)
            .col_scale(true)
            .bias(true);
        let device = Hip::emulated(target).expect("a device");
        let plan = device.plan(&problem, &PlanOptions::default()).expect("a plan");
        let planned = plan.product().expect("a product");
        assert_eq!(planned.key, compiler.compile(&request).expect("it compiles").key);
        let mut numbers = Sequence::new(11);
        let a: Vec<i8> = (0..m * k).map(|_| numbers.small() as i8).collect();
        let b: Vec<i8> = (0..n * k).map(|_| numbers.small() as i8).collect();
        let encode = |values: &[i8], element| {
            let mut bytes = vec![0; values.len()];
            for (index, &value) in values.iter().enumerate() {
                put(element, &mut bytes, index, i32::from(value));
            }
            bytes
        };
        let source = SourceB {
            bytes: &encode(&b, config.b),
            element: config.b,
            k,
            n,
            batch: 1,
            k_stride: 1,
            n_stride: k,
            batch_stride: n * k,
        };
        let packed = PackedB::pack(&source, config.tile[2]).expect("B packs");
        let floats = |count: usize, of: &dyn Fn(usize) -> f32| -> Vec<u8> {
            (0..count).flat_map(|i| of(i).to_le_bytes()).collect()
        };
        let row_scale = |row: usize| if row.is_multiple_of(3) { 0.5 } else { 2.0 };
        let col_scale = |col: usize| if col.is_multiple_of(5) { 0.25 } else { 1.0 };
        let bias = |col: usize| (col % 7) as f32 - 3.0;

        let mut machine = Machine::new();
        let memory = &mut machine.memory;
        let mut input =
            |name: &str, bytes: &[u8]| memory.alloc_read_only(name, bytes).expect("memory");
        let args = Args {
            a: input("A", &encode(&a, config.a)),
            b: input("B", packed.bytes()),
            row_scale: input("row scale", &floats(m, &row_scale)),
            col_scale: input("column scale", &floats(n, &col_scale)),
            bias: input("bias", &floats(n, &bias)),
            a_stride: k as u64,
            c_stride: (n * 2) as u64,
            ..Args::sizes(&config, [m, n, k], packed.layout().column_bytes(), 1).expect("sizes fit")
        };
        let args =
            Args { c: machine.memory.alloc("C", (m * n * 2) as u64).expect("memory"), ..args };
        let grid = args.launch(1).expect("the grid fits").grid;
        let sample = [0, 777, grid[0] - 1];
        let report = machine
            .launch(
                &kernel,
                &Launch {
                    grid,
                    workgroup: [256, 1, 1],
                    args: vec![ArgValue::Bytes(bytemuck::bytes_of(&args).to_vec())],
                    workgroups: Workgroups::Only(sample.iter().map(|&id| [id, 0, 0]).collect()),
                    ..Launch::default()
                },
            )
            .expect("it runs");
        assert!(report.is_clean(), "{}", report.findings[0]);
        let strips = k / config.tile[2];
        let mfma = report.counters.by_class[&lapidary_cdna::exec::Class::Mfma];
        assert_eq!(mfma as usize, sample.len() * 4 * strips * config.mfma_per_strip());

        let c = machine.memory.read(args.c, m * n * 2).expect("C");
        for id in sample {
            let (tile_m, tile_n) = tile_of(
                id as usize,
                args.tiles_m as usize,
                args.tiles_n as usize,
                config.xcd_group,
            );
            for row in tile_m * config.tile[0]..(tile_m + 1) * config.tile[0] {
                for col in tile_n * config.tile[1]..(tile_n + 1) * config.tile[1] {
                    let (x, y) = (&a[row * k..][..k], &b[col * k..][..k]);
                    let sum: i32 =
                        x.iter().zip(y).map(|(&x, &y)| i32::from(x) * i32::from(y)).sum();
                    let value = sum as f32 * row_scale(row) * col_scale(col) + bias(col);
                    let at = (row * n + col) * 2;
                    let found = half::bf16::from_le_bytes([c[at], c[at + 1]]);
                    assert_eq!(found, half::bf16::from_f32(value), "{target} {row} {col}");
                }
            }
        }
    }
}

/// The page that shows the figures.
const PAGE: &str = include_str!("../../../docs/hip_preshuffle.md");

/// The published dense peak of an MI300X in fp8: 304 compute units of four matrix cores, 16 cycles for a
/// 16×16×32 instruction, 2.1 GHz.
const PEAK: f64 = 2.0 * 16.0 * 16.0 * 32.0 / 16.0 * 304.0 * 4.0 * 2.1e9;

/// Every figure of the guide that is right comes out of the configuration.
#[test]
fn the_configuration_gives_the_guides_figures() {
    let config = configs::worked_example(Target::Gfx942);
    assert_eq!(config.tile, [64, 256, 128]);
    let figures = Figures::of(&config, configs::WORKED);
    assert_eq!((figures.grid, figures.tiles()), ([80, 20], 1600));
    assert_eq!((figures.strips, figures.mfma, figures.mfma_a_wave()), (65, 64, 4160));
    assert_eq!((figures.strip_bytes, figures.strips_bytes), (8 * 1024, 16 * 1024));
    assert_eq!((figures.accumulators, figures.b_registers), (64, 32));
    assert_eq!(figures.operations, 436_207_616_000.0);
    assert_eq!(figures.bytes, 42_598_400.0 * 2.0 + 52_428_800.0 + 40_960.0);
    let seconds = figures.seconds_at(500e12);
    assert_eq!(format!("{:.2} ms", seconds * 1e3), "0.87 ms");
    assert_eq!(format!("{:.0} GB/s", figures.bytes / seconds / 1e9), "158 GB/s");
    // Where it is wrong: 8 reads and 8 loads of B (not 16), 2 loads and 2 writes of A (not 8), and so 8
    // registers for A on its way (not 32).
    assert_eq!((figures.lds_reads, figures.loads_b), (8, 8));
    assert_eq!((figures.loads_a, figures.lds_writes, figures.staged), (2, 2, 8));
    assert_eq!(format!("{:.1}", PEAK / 1e12), "2614.9");
    assert_eq!(format!("{:.1} MB", figures.bytes / 1e6), "137.7 MB");
    assert_eq!(format!("{:.0} FLOP/B", figures.intensity()), "3169 FLOP/B");
    assert_eq!(format!("{:.0} %", 100.0 * 500e12 / PEAK), "19 %");
    for figure in
        ["436.2 GFLOP", "137.7 MB", "3169 FLOP/B", "0.87 ms", "158 GB/s", "19 %", "16,640"]
    {
        assert!(PAGE.contains(figure), "the page lacks {figure}");
    }
}

/// The hot loop of the code object has exactly the memory and matrix instructions that the figures say.
#[test]
fn the_code_objects_have_the_figures_instructions() {
    let Some(compiler) = compiler() else { return };
    for target in [Target::Gfx942, Target::Gfx950] {
        let config = configs::worked_example(target);
        let figures = Figures::of(&config, configs::WORKED);
        let assembly = compiler.assembly(&config.request().expect("valid")).expect("assembly");
        let mix = HotLoop::of(&assembly).expect("a loop").mix;
        // Two strips a turn.
        assert_eq!(mix.mfma, 2 * figures.mfma, "{target}");
        assert_eq!(mix.lds_read, 2 * figures.lds_reads, "{target}");
        assert_eq!(mix.lds_write, 2 * figures.lds_writes, "{target}");
        assert_eq!(mix.load + mix.load_lds, 2 * (figures.loads_a + figures.loads_b), "{target}");
    }
}

/// The table of the page.
#[test]
fn the_pages_figures_are_the_codes() {
    let Some(compiler) = compiler() else { return };
    let of = |target| {
        let config = configs::worked_example(target);
        let request = config.request().expect("valid");
        let object = compiler.compile(&request).expect("it compiles");
        let resources = Resources::of_object(&object.bytes, "preshuffle").expect("metadata");
        let occupancy = Occupancy::of(target, &resources, 256).expect("CDNA");
        let hot = HotLoop::of(&compiler.assembly(&request).expect("assembly")).expect("a loop");
        (config, Figures::of(&config, configs::WORKED), resources, occupancy, hot.mix)
    };
    let both = [Target::Gfx942, Target::Gfx950].map(of);
    let mut text = String::from("| | gfx942 | gfx950 |\n|-|-:|-:|\n");
    let mut row = |name: &str, cells: [String; 2]| {
        text.push_str(&format!("| {name} | {} | {} |\n", cells[0], cells[1]));
    };
    let x = |sizes: &[usize]| sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join("×");
    row("tile", both.each_ref().map(|(c, ..)| x(&c.tile)));
    row(
        "tiles, one a workgroup",
        both.each_ref().map(|(_, f, ..)| format!("{} = {}", x(&f.grid), f.tiles())),
    );
    row("strips of K", both.each_ref().map(|(_, f, ..)| f.strips.to_string()));
    row("MFMA a strip and wave", both.each_ref().map(|(_, f, ..)| f.mfma.to_string()));
    row("MFMA a tile and wave", both.each_ref().map(|(_, f, ..)| f.mfma_a_wave().to_string()));
    row(
        "LDS reads of A, a strip and wave",
        both.each_ref().map(|(_, f, ..)| f.lds_reads.to_string()),
    );
    row("LDS writes of A", both.each_ref().map(|(_, f, ..)| f.lds_writes.to_string()));
    row("loads of A", both.each_ref().map(|(_, f, ..)| f.loads_a.to_string()));
    row("loads of B", both.each_ref().map(|(_, f, ..)| f.loads_b.to_string()));
    row("LDS of A's strips", both.each_ref().map(|(_, f, ..)| format!("{} B", f.strips_bytes)));
    row("registers: sums", both.each_ref().map(|(_, f, ..)| f.accumulators.to_string()));
    row(
        "registers: B, two strips",
        both.each_ref().map(|(_, f, ..)| (2 * f.b_registers).to_string()),
    );
    row("registers: A on its way to LDS", both.each_ref().map(|(_, f, ..)| f.staged.to_string()));
    row(
        "registers compiled, of these accumulation",
        both.each_ref().map(|(_, _, r, ..)| format!("{}, {}", r.vgprs, r.agprs)),
    );
    row("scratch", both.each_ref().map(|(_, _, r, ..)| format!("{} B", r.scratch)));
    row(
        "waves a SIMD, bound by",
        both.each_ref().map(|(_, _, _, o, _)| format!("{}, {}", o.waves(), o.limit())),
    );
    row(
        "hot loop, two strips",
        both.each_ref().map(|(.., mix)| {
            format!("{} instructions, {:.1} % MFMA", mix.total(), 100.0 * mix.mfma_share())
        }),
    );
    let found = PAGE.split("<!-- figures:begin -->\n").nth(1);
    let found = found.and_then(|rest| rest.split("<!-- figures:end -->").next());
    if compiler.major() == 22 {
        assert!(found == Some(&text), "the table of docs/hip_preshuffle.md:\n{text}");
    } else {
        println!("skipped: the table is LLVM 22's, this is {}", compiler.version());
    }
}
