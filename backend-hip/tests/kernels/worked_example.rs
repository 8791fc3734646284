//! The worked example, 5120×5120×8320 in fp8, on a sample of workgroups.
//!
//! It runs the very code object that `gates.rs` measures: the one chosen for the problem.

use super::configs;
use super::elements::{Sequence, put};
use super::emulate::{compiler, prepare};
use lapidary_cdna::exec::{Launch, Machine, Workgroups};
use lapidary_cdna::loader::ArgValue;
use lapidary_core::{Backend, PlanOptions, Problem};
use lapidary_hip::preshuffle::{Args, PackedB, SourceB, tile_of};
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
