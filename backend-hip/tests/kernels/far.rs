//! Operands past 4 GiB: the far end of each, on a sample of workgroups.
//!
//! Only what the sampled tiles use is written; the emulator gives a page when it is touched and
//! reports a read of anything else.

use super::configs;
use super::elements::{Sequence, decode, put, rounded};
use super::emulate::{compiler, prepare};
use lapidary_cdna::exec::{Launch, Machine, Prepared, Workgroups};
use lapidary_cdna::loader::ArgValue;
use lapidary_core::ElementType;
use lapidary_hip::Target;
use lapidary_hip::compile::Compiler;
use lapidary_hip::preshuffle::{Args, EpilogueTraits, PackedB, PreshuffleConfig, SourceB, tile_of};

const TARGETS: [Target; 2] = [Target::Gfx942, Target::Gfx950];

/// The farthest apart that 64 rows may be: 2³¹ bytes, and a multiple of 16.
const FAR_ROWS: u64 = (1 << 31) / 64 - 16;
const GIB: u64 = 1 << 30;

/// A problem whose operands are mostly holes.
struct Far {
    config: PreshuffleConfig,
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    splits: usize,
    a_stride: u64,
    c_stride: u64,
    /// Bytes from matrix to matrix of A, B and C.
    batches: [u64; 3],
    /// Bytes of a packed column of B.
    column_bytes: u64,
}

/// An integer from −3 to 3 that stands at (`i`, `j`).
fn value(seed: usize, i: usize, j: usize) -> i32 {
    Sequence::new((seed * 1_000_003 + i) as u64 * 65_537 + j as u64).small()
}

impl Far {
    /// 64×256 tiles with nothing far away.
    fn near(config: PreshuffleConfig, [m, n, k]: [usize; 3]) -> Self {
        let column_bytes = (k.next_multiple_of(config.tile[2]) * config.b.bits() / 8) as u64;
        Self {
            config,
            m,
            n,
            k,
            batch: 1,
            splits: 1,
            a_stride: (k * config.a.bits() / 8).next_multiple_of(16) as u64,
            c_stride: (n * config.output.bits() / 8) as u64,
            batches: [0; 3],
            column_bytes,
        }
    }

    fn launch(
        &self,
        machine: &mut Machine,
        kernel: &Prepared,
        args: &Args,
        launch: lapidary_hip::preshuffle::Launch,
        ids: Vec<[u32; 3]>,
    ) {
        let launch = Launch {
            grid: launch.grid,
            workgroup: [launch.threads, 1, 1],
            args: vec![ArgValue::Bytes(bytemuck::bytes_of(args).to_vec())],
            workgroups: Workgroups::Only(ids),
            ..Launch::default()
        };
        let report = machine.launch(kernel, &launch).expect("it runs");
        assert!(report.is_clean(), "{}: {}", self.config, report.findings[0]);
    }

    /// Runs the last `tiles` workgroups of the last matrix; every element they write must be right.
    fn check(&self, compiler: &Compiler, tiles: u32) {
        let Self { config, m, n, k, batch, .. } = *self;
        let kernel = prepare(compiler, &config.request().expect("valid"), "preshuffle");
        let size = config.output.bits() as u64 / 8;
        let (last, groups) = (batch as u64 - 1, n.div_ceil(16) as u64);
        let [a_batch, b_batch, c_batch] = self.batches;
        let mut machine = Machine::new();
        let memory = &mut machine.memory;
        let mut alloc = |name: &str, bytes: u64| memory.alloc(name, bytes).expect("memory");
        let row_bytes = (k * config.a.bits() / 8) as u64;
        let mut args = Args {
            a: alloc("A", last * a_batch + (m as u64 - 1) * self.a_stride + row_bytes),
            b: alloc("B", last * b_batch + groups * 16 * self.column_bytes),
            c: alloc("C", last * c_batch + (m as u64 - 1) * self.c_stride + n as u64 * size),
            bias: alloc("bias", n as u64 * 4),
            a_stride: self.a_stride,
            c_stride: self.c_stride,
            a_batch,
            b_batch,
            c_batch,
            beta: 3f32.to_bits(),
            ..Args::sizes(&config, [m, n, k], self.column_bytes as usize, self.splits)
                .expect("sizes fit")
        };
        if config.split_k {
            args.workspace = alloc("sums", args.workspace_bytes(batch) as u64);
        }
        args.check_spans(&config).expect("offsets reach");
        let launch = args.launch(batch).expect("the grid fits");
        let ids: Vec<u32> = (launch.grid[0] - tiles..launch.grid[0]).collect();

        // What the tiles read.
        let place = |id: u32| {
            tile_of(id as usize, args.tiles_m as usize, args.tiles_n as usize, config.xcd_group)
        };
        let rows_of = |tile: usize| tile * config.tile[0]..((tile + 1) * config.tile[0]).min(m);
        let columns_of = |tile: usize| tile * config.tile[1]..((tile + 1) * config.tile[1]).min(n);
        let mut rows: Vec<usize> = ids.iter().flat_map(|&id| rows_of(place(id).0)).collect();
        let mut columns: Vec<usize> = ids.iter().flat_map(|&id| columns_of(place(id).1)).collect();
        for list in [&mut rows, &mut columns] {
            list.sort_unstable();
            list.dedup();
        }
        let memory = &mut machine.memory;
        for &row in &rows {
            // A row is loaded in 16-byte chunks; what follows its elements is a NaN.
            let used = (row_bytes as usize).next_multiple_of(16);
            let mut bytes = vec![0xff; if row + 1 == m { row_bytes as usize } else { used }];
            (0..k).for_each(|i| put(config.a, &mut bytes, i, value(1, row, i)));
            let at = args.a + last * a_batch + row as u64 * self.a_stride;
            memory.write(at, &bytes).expect("A");
            for &column in &columns {
                let mut bytes = vec![0; size as usize];
                let old = value(3, row, column) as f32;
                match config.output {
                    ElementType::F32 => bytes.copy_from_slice(&old.to_le_bytes()),
                    _ => bytes.copy_from_slice(&half::bf16::from_f32(old).to_le_bytes()),
                }
                let at = args.c + last * c_batch + row as u64 * self.c_stride;
                memory.write(at + column as u64 * size, &bytes).expect("C");
            }
        }
        for first in columns.iter().copied().filter(|c| c.is_multiple_of(16)) {
            let count = 16.min(n - first);
            let mut bytes = vec![0; (count * k * config.b.bits()).div_ceil(8)];
            for i in 0..count * k {
                put(config.b, &mut bytes, i, value(2, first + i / k, i % k));
            }
            let source = SourceB {
                bytes: &bytes,
                element: config.b,
                k,
                n: count,
                batch: 1,
                k_stride: 1,
                n_stride: k,
                batch_stride: 0,
            };
            let packed = PackedB::pack(&source, config.tile[2]).expect("B packs");
            let at = args.b + last * b_batch + first as u64 * self.column_bytes;
            memory.write(at, packed.bytes()).expect("B");
        }
        for &column in &columns {
            let bias = value(4, 0, column) as f32;
            memory.write(args.bias + column as u64 * 4, &bias.to_le_bytes()).expect("bias");
        }

        let all = ids
            .iter()
            .flat_map(|&id| (0..self.splits).map(move |split| [id, last as u32, split as u32]));
        self.launch(&mut machine, &kernel, &args, launch, all.collect());
        let mut written: Vec<(usize, usize)> = ids
            .iter()
            .flat_map(|&id| {
                let (tile_m, tile_n) = place(id);
                rows_of(tile_m).flat_map(move |row| columns_of(tile_n).map(move |c| (row, c)))
            })
            .collect();
        if config.split_k {
            let request = config.reduce_request().expect("valid");
            let reduce = prepare(compiler, &request, "reduce");
            let launch = args.reduce_launch(batch).expect("the grid fits");
            let id = [launch.grid[0] - 1, last as u32, 0];
            self.launch(&mut machine, &reduce, &args, launch, vec![id]);
            let quads = n.div_ceil(4);
            written.retain(|&(row, c)| (row * quads + c / 4) / 256 == id[0] as usize);
        }
        assert!(!written.is_empty());
        for (row, column) in written {
            let at = args.c + last * c_batch + row as u64 * self.c_stride + column as u64 * size;
            let bytes = machine.memory.read(at, size as usize).expect("C");
            let sum: i32 = (0..k).map(|i| value(1, row, i) * value(2, column, i)).sum();
            let expected = (sum + 3 * value(3, row, column) + value(4, 0, column)) as f32;
            let expected = rounded(config.output, f64::from(expected));
            let found = decode(config.output, &bytes);
            assert_eq!(found, expected, "{} {}: ({row}, {column})", config.target, config);
        }
    }
}

fn config(target: Target, element: ElementType, strip: usize) -> PreshuffleConfig {
    PreshuffleConfig {
        output: ElementType::BF16,
        xcd_group: 4,
        epilogue: EpilogueTraits { beta: true, bias: true, ..EpilogueTraits::default() },
        ..PreshuffleConfig::new(target, element, [64, 256, strip])
    }
}

#[test]
fn rows_of_a_and_c_past_4_gib() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        for c_shuffle in [false, true] {
            let config = PreshuffleConfig {
                c_shuffle,
                c_vector: if c_shuffle { 8 } else { 4 },
                ..config(target, configs::fp8(target).0, 128)
            };
            // The third row of tiles starts at 4 GiB.
            let near = Far::near(config, [150, 264, 300]);
            Far { a_stride: FAR_ROWS, c_stride: FAR_ROWS, ..near }.check(&compiler, 2);
        }
    }
}

#[test]
fn columns_of_b_past_4_gib() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        // A column of 1 MiB, of which one strip is used: tile 17 starts at 4.25 GiB.
        let near = Far::near(config(target, ElementType::BF16, 64), [33, 4360, 50]);
        Far { column_bytes: 1 << 20, ..near }.check(&compiler, 2);
    }
}

#[test]
fn matrices_of_a_batch_past_4_gib() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        let config = config(target, ElementType::I8, 128);
        let config = PreshuffleConfig { output: ElementType::F32, ..config };
        let near = Far::near(config, [70, 264, 200]);
        for operand in 0..3 {
            let mut batches = near.batches;
            batches[operand] = 4 * GIB + 4096;
            Far { batch: 2, batches, ..Far::near(config, [70, 264, 200]) }.check(&compiler, 2);
        }
    }
}

#[test]
fn sums_of_split_k_past_4_gib() {
    let Some(compiler) = compiler() else { return };
    for target in TARGETS {
        let config = PreshuffleConfig {
            split_k: true,
            xcd_group: 0,
            ..config(target, ElementType::BF16, 64)
        };
        // 1 GiB a range: 64 rows of 16 MiB.
        let near = Far::near(config, [64, 1 << 22, 320]);
        Far { splits: 5, ..near }.check(&compiler, 4);
    }
}
