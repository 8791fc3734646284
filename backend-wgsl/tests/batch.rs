//! Products recorded together: the bits of separate executions, whatever reads whose result.

mod common;

use common::Uploaded;
use lapidary_core::testing::{Arrangement, Case, Values, block_on};
use lapidary_core::{Args, Backend, ElementType, Error, PlanOptions, Problem};
use lapidary_wgsl::{Wgsl, WgslPlan, WgslTensor, wgpu};

fn tensor(device: &Wgsl, values: &[f32]) -> WgslTensor {
    common::upload_bytes(device, ElementType::F32, bytemuck::cast_slice(values))
}

fn plan(device: &Wgsl, problem: &Problem) -> WgslPlan {
    device.plan(problem, &PlanOptions::default()).expect("plans")
}

fn small(len: usize, salt: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7 + salt) % 9) as f32 - 4.0).collect()
}

#[test]
fn a_batch_has_the_bits_of_separate_executions() {
    let Some(device) = common::device() else { return };
    let cases: Vec<Case> = [
        (ElementType::F32, ElementType::F32, [37, 29, 41]),
        (ElementType::BF16, ElementType::BF16, [33, 21, 18]),
        (ElementType::I8, ElementType::I8, [19, 50, 23]),
        (ElementType::F32, ElementType::F16, [64, 64, 64]),
    ]
    .into_iter()
    .zip(1..)
    .map(|((operand, output, [m, n, k]), seed)| {
        let problem =
            Problem::new(m, n, k).elements(operand, output).alpha(0.3).beta(0.7).bias(true);
        let dense = Arrangement::Dense;
        Case::new(problem, Values::Uniform, seed).arranged(dense, dense, Arrangement::Padded)
    })
    .collect();
    let uploaded: Vec<_> = cases.iter().map(|case| Uploaded::new(device, case)).collect();
    let plans: Vec<_> = uploaded.iter().map(|u| plan(device, &u.problem)).collect();
    let outputs = || -> Vec<WgslTensor> {
        cases.iter().map(|case| common::upload(device, &case.c)).collect()
    };
    let (apart, together, encoded) = (outputs(), outputs(), outputs());
    // The third submission reads what the second wrote: C counts at beta 0.7.
    let (mut batch, mut other) = (device.batch(), device.batch());
    assert!(batch.is_empty() && batch.submissions() == 0);
    for _ in 0..3 {
        for ((uploaded, plan), c) in uploaded.iter().zip(&plans).zip(&apart) {
            device.execute(plan, &uploaded.args(c)).expect("executes");
        }
    }
    for ((uploaded, plan), (c, d)) in uploaded.iter().zip(&plans).zip(together.iter().zip(&encoded))
    {
        batch.add(plan, &uploaded.args(c)).expect("adds");
        other.add(plan, &uploaded.args(d)).expect("adds");
    }
    assert_eq!(batch.submissions(), 1);
    for _ in 0..3 {
        batch.submit().expect("submits");
    }
    let mut encoder = device.device().create_command_encoder(&Default::default());
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for _ in 0..3 {
            other.encode(&mut pass).expect("encodes");
        }
    }
    device.queue().submit([encoder.finish()]);
    for (case, ((apart, together), encoded)) in
        cases.iter().zip(apart.iter().zip(&together).zip(&encoded))
    {
        let expected = common::download(device, apart);
        assert!(expected != case.c.bytes(), "{} did something", case.problem.c);
        assert_eq!(common::download(device, together), expected, "{}", case.problem.c);
        assert_eq!(common::download(device, encoded), expected, "{} in a pass", case.problem.c);
    }
}

/// x ← W·x again and again in one batch: each product reads what the one before wrote.
#[test]
fn a_product_reads_what_an_earlier_one_of_its_batch_wrote() {
    let Some(device) = common::device() else { return };
    let (n, layers) = (40, 12);
    // Rows that permute and negate: exact whatever the order, and no product may be left out.
    let weights: Vec<f32> = (0..n * n)
        .map(|i| match (i / n * 7 + 3) % n == i % n {
            true if i / n % 3 == 0 => -1.0,
            true => 1.0,
            false => 0.0,
        })
        .collect();
    let x = small(n * n, 2);
    let plan = plan(device, &Problem::new(n, n, n));
    let (w, first) = (tensor(device, &weights), tensor(device, &x));
    let outputs: Vec<_> = (0..layers).map(|_| tensor(device, &vec![f32::NAN; n * n])).collect();
    let mut batch = device.batch();
    let mut input = &first;
    for output in &outputs {
        batch.add(&plan, &Args::new(&w, input, output)).expect("adds");
        input = output;
    }
    assert_eq!(batch.submissions(), 1);
    batch.submit().expect("submits");
    let mut expected = x;
    for output in &outputs {
        expected = (0..n * n)
            .map(|i| (0..n).map(|k| weights[i / n * n + k] * expected[k * n + i % n]).sum())
            .collect();
        let bytes = common::download(device, output);
        assert_eq!(bytemuck::pod_collect_to_vec::<u8, f32>(&bytes), expected);
    }
}

#[test]
fn a_batch_outlives_its_plans_and_tensors_and_survives_a_refusal() {
    let (Some(device), Some(other)) = (common::device(), common::downlevel()) else { return };
    let c = tensor(device, &[0.0; 4]);
    let mut batch = device.batch();
    {
        let (a, b) = (tensor(device, &[1.0, 2.0, 3.0, 4.0]), tensor(device, &[1.0, 0.0, 0.0, 1.0]));
        let accumulate = plan(device, &Problem::new(2, 2, 2).beta(1.0));
        batch.add(&accumulate, &Args::new(&a, &b, &c)).expect("adds");
        let foreign = plan(other, &Problem::new(2, 2, 2));
        match batch.add(&foreign, &Args::new(&a, &b, &c)) {
            Err(Error::KernelUnsuitable { reason, .. }) => {
                assert_eq!(reason, "the plan was made on another device");
            }
            other => panic!("{:?}", other.map(|_| ())),
        }
        match batch.add(&accumulate, &Args::new(&a, &b, &a)) {
            Err(Error::Aliasing { .. }) => {}
            other => panic!("{:?}", other.map(|_| ())),
        }
    }
    for _ in 0..5 {
        batch.submit().expect("submits");
    }
    let bytes = common::download(device, &c);
    assert_eq!(bytemuck::pod_collect_to_vec::<u8, f32>(&bytes), [5.0, 10.0, 15.0, 20.0]);
    block_on(device.sync()).expect("alive");
}

/// No submission has more work than one dispatch may have, and none is cut smaller than that asks for.
#[test]
fn a_long_batch_is_cut_into_submissions() {
    let Some(device) = common::device() else { return };
    let n = 256;
    let (a, b, c) = (
        tensor(device, &vec![0.0; n * n]),
        tensor(device, &vec![0.0; n * n]),
        tensor(device, &vec![0.0; n * n]),
    );
    let plan = plan(device, &Problem::new(n, n, n));
    let each = 2.0 * (n * n * n) as f64;
    let fit = (device.limits().dispatch_operations() / each) as usize;
    let mut batch = device.batch();
    for count in 1..=2 * fit + 1 {
        batch.add(&plan, &Args::new(&a, &b, &c)).expect("adds");
        let expected = count.div_ceil(fit);
        if count % fit < 2 || count == fit - 1 {
            assert_eq!(batch.submissions(), expected, "{count} of {fit}");
        }
    }
}
