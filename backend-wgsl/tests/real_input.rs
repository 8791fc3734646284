//! A layer of a real transformer, by every kernel, against results computed in float64 elsewhere.

mod common;

use lapidary_core::oracle;
use lapidary_core::{
    Activation, Args, Backend, ElementType, Gemm, KernelChoice, Layout, MatrixRef, Operands,
    PlanOptions, Problem, Shape,
};
use lapidary_wgsl::Wgsl;
use safetensors::SafeTensors;

const LAYER: &[u8] = include_bytes!("../../cli/tests/data/minilm_layer0.safetensors");

struct Layer<'a>(SafeTensors<'a>);

impl Layer<'_> {
    fn shape(&self, name: &str) -> Vec<usize> {
        self.0.tensor(name).expect(name).shape().to_vec()
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        bytemuck::pod_collect_to_vec(self.0.tensor(name).expect(name).data())
    }

    fn doubles(&self, name: &str) -> Vec<f64> {
        bytemuck::pod_collect_to_vec(self.0.tensor(name).expect(name).data())
    }
}

#[test]
fn every_kernel_reproduces_the_layer() {
    let Some(device) = common::device() else { return };
    let layer = Layer(SafeTensors::deserialize(LAYER).expect("a safetensors file"));
    let a = layer.floats("activations");
    for (weight, bias, expected, activation) in [
        ("query.weight", "query.bias", "query.linear", Activation::None),
        ("ffn.weight", "ffn.bias", "ffn.linear", Activation::None),
        ("ffn.weight", "ffn.bias", "ffn.gelu_erf", Activation::GeluErf),
    ] {
        let [n, k] = layer.shape(weight)[..] else { panic!("{weight} is a matrix") };
        let m = layer.shape("activations")[0];
        let (b, bias) = (layer.floats(weight), layer.floats(bias));
        // Output features are the rows of the weight: B is its transpose.
        let transposed = Layout { row_stride: 1, col_stride: k as isize, batch_stride: 0 };
        let operands = Operands::new(
            MatrixRef::row_major(&a, m, k).expect("fits"),
            MatrixRef::strided(&b, 0, Shape::new(k, n), transposed).expect("fits"),
        )
        .bias(&bias);
        let problem = operands.problem(ElementType::F32).expect("agrees").activation(activation);
        let reference = oracle::reference(&problem, &operands).expect("valid");

        // The oracle itself agrees with the results from elsewhere, far below what f32 can tell.
        let elsewhere = layer.doubles(expected);
        assert_eq!(layer.shape(expected), [m, n]);
        for (i, (&ours, &theirs)) in reference.values().iter().zip(&elsewhere).enumerate() {
            let gauge = reference.gauges()[i];
            assert!((ours - theirs).abs() <= 1e-13 * gauge, "{expected} {i}: {ours} {theirs}");
        }

        let upload = |values: &[f32]| {
            common::upload_bytes(device, ElementType::F32, bytemuck::cast_slice(values))
        };
        let (ta, tb, tbias) = (upload(&a), upload(&b), upload(&bias));
        let mut worst = 0.0f64;
        for kernel in kernels() {
            let c = device.alloc(ElementType::F32, m * n).expect("allocates");
            let plan = Gemm::<Wgsl>::plan(device, &problem, &PlanOptions::kernel(kernel));
            let args = Args::new(&ta, &tb, &c).bias(&tbias);
            plan.expect("plans").execute(&args).expect("executes");
            let after = common::download(device, &c);
            let place = lapidary_core::Placement {
                offset: 0,
                shape: Shape::new(m, n),
                layout: Layout::row_major(m, n),
            };
            let found = lapidary_core::AnyMatrixRef::new(&after, ElementType::F32, place);
            let found = found.expect("fits");
            let comparison = reference.compare(&found);
            assert!(comparison.passed(), "{expected} by {}: {comparison}", kernel.name());
            assert_eq!(comparison.unjudged, 0);
            // And within the same bound of the results from elsewhere.
            for (i, &theirs) in elsewhere.iter().enumerate() {
                let error = (found.get(0, i / n, i % n) - theirs).abs();
                let allowed = reference.bound(i) + 1e-13 * reference.gauges()[i];
                assert!(error <= allowed, "{expected} by {} at {i}: {error}", kernel.name());
            }
            worst = worst.max(comparison.max_ratio);
        }
        println!("{expected}: at most {worst:.4} of the bound");
    }
}

/// Every kernel, and the backend's own choice.
fn kernels() -> Vec<KernelChoice> {
    let mut all = common::kernels(ElementType::F32);
    all.push(KernelChoice::Auto);
    all
}

/// The same layer with its operands rounded to f16, as models are shipped.
#[test]
fn the_layer_in_f16() {
    let Some(device) = common::device() else { return };
    if !device.limits().f16 {
        println!("skipped: the device lacks SHADER_F16");
        return;
    }
    let layer = Layer(SafeTensors::deserialize(LAYER).expect("a safetensors file"));
    let half = |name| -> Vec<lapidary_core::f16> {
        layer.floats(name).into_iter().map(lapidary_core::f16::from_f32).collect()
    };
    let (a, b) = (half("activations"), half("query.weight"));
    let [n, k] = layer.shape("query.weight")[..] else { panic!("a matrix") };
    let m = layer.shape("activations")[0];
    let weight = MatrixRef::row_major(&b, n, k).expect("fits");
    let operands =
        Operands::new(MatrixRef::row_major(&a, m, k).expect("fits"), weight.transposed());
    let problem: Problem = operands.problem(ElementType::F16).expect("agrees");
    let output = Gemm::<Wgsl>::run(device, &problem, &operands).expect("runs");
    let reference = oracle::reference(&problem, &operands).expect("valid");
    let comparison = reference.compare(&output.matrix.as_ref());
    assert!(comparison.passed(), "{comparison}");
}
