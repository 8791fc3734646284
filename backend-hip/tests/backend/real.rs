//! A layer of a real transformer, and the worked example.

use lapidary_cdna::exec::Workgroups;
use lapidary_core::quantize::quantize_rows;
use lapidary_core::testing::block_on;
use lapidary_core::{
    Activation, AnyMatrixRef, Args, Backend, ElementType, Gemm, MatrixRef, Operands, PlanOptions,
    Problem, bf16, oracle,
};
use lapidary_hip::preshuffle::{PackedB, SourceB, tile_of};
use lapidary_hip::{Hip, Target};

use super::support::{TARGETS, device};

const LAYER: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/data/minilm_layer0.safetensors");

/// A tensor of the layer as f32.
fn layer(name: &str) -> Vec<f32> {
    let bytes = std::fs::read(LAYER).expect("the layer's file");
    let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let tensor = tensors.tensor(name).expect("the tensor");
    match tensor.dtype() {
        safetensors::Dtype::F32 => bytemuck::pod_collect_to_vec(tensor.data()),
        other => panic!("{name} is {other}"),
    }
}

/// C against the oracle on the operands as they were multiplied, within the derived bound; the
/// relative error against `exact` in the Frobenius norm.
fn judge(problem: &Problem, operands: &Operands<'_>, c: AnyMatrixRef<'_>, exact: &[f64]) -> f64 {
    let comparison = oracle::reference(problem, operands).expect("a reference").compare(&c);
    assert!(comparison.passed(), "{comparison}");
    let (mut error, mut size) = (0.0, 0.0);
    for (i, exact) in exact.iter().enumerate() {
        error += (c.get(0, i / problem.n, i % problem.n) - exact).powi(2);
        size += exact * exact;
    }
    f64::sqrt(error / size)
}

#[test]
fn the_layer_in_bf16_and_fp8() {
    let (m, n, k) = (105, 1536, 384);
    let (x, w, bias) = (layer("activations"), layer("ffn.weight"), layer("ffn.bias"));
    let view = |values| MatrixRef::row_major(values, n, k).expect("W").transposed();
    let full = Operands::new(MatrixRef::row_major(&x, m, k).expect("A"), view(&w)).bias(&bias);
    let stated = full.problem(ElementType::F32).expect("a problem").activation(Activation::GeluErf);
    let exact = oracle::reference(&stated, &full).expect("a reference").values().to_vec();
    for target in TARGETS {
        let Some(device) = device(target) else { return };
        let [xs, ws] = [&x, &w].map(|v| v.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>());
        let operands = Operands::new(
            MatrixRef::row_major(&xs, m, k).expect("A"),
            MatrixRef::row_major(&ws, n, k).expect("W").transposed(),
        )
        .bias(&bias);
        let problem = operands.problem(ElementType::BF16).expect("a problem");
        let problem = problem.activation(Activation::GeluErf);
        let output = Gemm::<Hip>::run(&device, &problem, &operands).expect("it runs");
        let off = judge(&problem, &operands, output.matrix.as_ref(), &exact);
        // Half a unit of the last place, 2⁻⁹, of each factor and of the result, and GELU's slope.
        assert!(off <= 3.0 * 1.13 * 2f64.powi(-9), "{target} bf16: {off}");

        let fp8 = match target {
            Target::Gfx942 => ElementType::F8E4M3Fnuz,
            _ => ElementType::F8E4M3,
        };
        let a = quantize_rows(MatrixRef::row_major(&x, m, k).expect("A"), fp8).expect("finite");
        let b = quantize_rows(MatrixRef::row_major(&w, n, k).expect("W"), fp8).expect("finite");
        let operands = Operands::new(a.matrix.as_ref(), b.matrix.as_ref().transposed())
            .row_scale(&a.scales)
            .col_scale(&b.scales)
            .bias(&bias);
        let problem = operands.problem(ElementType::F32).expect("a problem");
        let problem = problem.activation(Activation::GeluErf);
        let output = Gemm::<Hip>::run(&device, &problem, &operands).expect("it runs");
        let off = judge(&problem, &operands, output.matrix.as_ref(), &exact);
        // Half a unit of e4m3's last place is 2⁻⁴.
        assert!(off <= 2.0 * 1.13 * 2f64.powi(-4), "{target} fp8: {off}");
    }
}

/// 5120×5120×8320 in fp8 with scales and a bias: what is planned is what runs, and is exact on the
/// workgroups that do.
#[test]
fn the_worked_example_runs_the_planned_object() {
    let [m, n, k] = [5120usize, 5120, 8320];
    let target = Target::Gfx942;
    let Some(device) = device(target) else { return };
    let emulator = device.emulator().expect("an emulator");
    // Small integers as codes, so that sums are exact: K · 1 · 1 < 2²⁴.
    let code = |i: usize| [0x00u8, 0x40, 0xc0, 0x00][((i * 2_654_435_761) % (1 << 32)) >> 30];
    let a: Vec<u8> = (0..m * k).map(code).collect();
    let b: Vec<u8> = (0..n * k).map(|i| code(i + 7)).collect();
    let (rows, columns) = (vec![0.5f32; m], vec![2.0f32; n]);
    let bias: Vec<f32> = (0..n).map(|i| (i % 5) as f32).collect();
    let mut problem = Problem::new(m, n, k)
        .elements(ElementType::F8E4M3Fnuz, ElementType::BF16)
        .row_scale(true)
        .col_scale(true)
        .bias(true);
    problem.b_layout = lapidary_core::Layout::col_major(k, n);
    let plan = device.plan(&problem, &PlanOptions::default()).expect("a plan");
    assert_eq!(device.summary(&plan).block_tile, [64, 256]);

    let upload = |element, bytes: &[u8]| {
        let tensor = device.alloc(element, element.capacity(bytes.len())).expect("memory");
        device.upload(&tensor, 0, bytes).expect("an upload");
        tensor
    };
    let source = SourceB {
        bytes: &b,
        element: ElementType::F8E4M3Fnuz,
        k,
        n,
        batch: 1,
        k_stride: 1,
        n_stride: k,
        batch_stride: 0,
    };
    let packed = PackedB::pack(&source, 128).expect("it packs");
    let packed = device.upload_packed_b(&packed).expect("an upload");
    let a_tensor = upload(ElementType::F8E4M3Fnuz, &a);
    let [rows_tensor, columns_tensor, bias_tensor] =
        [&rows, &columns, &bias].map(|v| upload(ElementType::F32, bytemuck::cast_slice(v)));
    let c = device.alloc(ElementType::BF16, m * n).expect("memory");
    let args = Args::with_packed_b(&a_tensor, &packed, &c)
        .row_scale(&rows_tensor)
        .col_scale(&columns_tensor)
        .bias(&bias_tensor);
    let sample = [0u32, 777, 1599];
    emulator.configure(|settings| {
        settings.workgroups = Workgroups::Only(sample.map(|x| [x, 0, 0]).to_vec());
    });
    device.execute(&plan, &args).expect("it runs");

    let launches = emulator.launches();
    assert_eq!(launches.len(), 1);
    assert_eq!(launches[0].grid, [1600, 1, 1]);
    let planned = plan.product().expect("a kernel");
    assert_eq!((&launches[0].kernel[..], &launches[0].key), (planned.name, &planned.key));

    let operands = Operands::new(
        AnyMatrixRef::new(
            &a,
            ElementType::F8E4M3Fnuz,
            lapidary_core::Placement {
                offset: 0,
                shape: problem.a_shape(),
                layout: problem.a_layout,
            },
        )
        .expect("A"),
        AnyMatrixRef::new(
            &b,
            ElementType::F8E4M3Fnuz,
            lapidary_core::Placement {
                offset: 0,
                shape: problem.b_shape(),
                layout: problem.b_layout,
            },
        )
        .expect("B"),
    )
    .row_scale(&rows)
    .col_scale(&columns)
    .bias(&bias);
    let after = block_on(device.download(&c)).expect("C");
    let found = MatrixRef::row_major(bytemuck::cast_slice::<u8, bf16>(&after), m, n).expect("C");
    let config = match &plan.decision().product {
        lapidary_hip::decide::Product::Preshuffle(product) => product.config,
        other => panic!("{other:?}"),
    };
    for id in sample {
        let (tile_m, tile_n) = tile_of(id as usize, 80, 20, config.xcd_group);
        // The corners of the tile, and a diagonal through it.
        let positions: Vec<_> = (0..64)
            .flat_map(|i| [(i, 4 * i), (i, 255 - 4 * i)])
            .map(|(row, col)| oracle::Position {
                batch: 0,
                row: tile_m * 64 + row,
                col: tile_n * 256 + col,
            })
            .collect();
        let reference = oracle::reference_at(&problem, &operands, &positions).expect("it");
        let comparison = reference.compare_exact(&found.erase());
        assert!(comparison.passed(), "workgroup {id}: {comparison}");
    }
}
