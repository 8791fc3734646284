//! A host program's own device, buffers and encoder; plans reused; B packed; async.

mod common;

use common::Uploaded;
use lapidary_core::testing::{Arrangement, Case, Values, block_on};
use lapidary_core::{
    AnyMatrixRef, Args, Backend, ElementType, Error, Gemm, KernelChoice, Operands, PlanOptions,
    Problem, Tensor, TensorSlice, oracle,
};
use lapidary_wgsl::{Wgsl, WgslTensor, wgpu};

/// What a program that uses wgpu itself has before it meets this library.
fn host_device() -> Option<(wgpu::Device, wgpu::Queue)> {
    // Says so where there is no adapter, and fails where there must be one.
    common::device()?;
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    let instance = wgpu::Instance::new(descriptor);
    let adapter = block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()));
    let device = block_on(adapter.expect("an adapter").request_device(&wgpu::DeviceDescriptor {
        required_limits: wgpu::Limits::downlevel_defaults(),
        ..wgpu::DeviceDescriptor::default()
    }));
    Some(device.expect("a device"))
}

fn host_buffer(device: &wgpu::Device, size: u64) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("the program's own"),
        size,
        usage: wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    })
}

/// D = A·B and E = D·B with A, B, D and E 256 bytes apart in one buffer, in one encoder, submitted
/// once; the gaps between them keep their bits.
#[test]
fn two_chained_products_in_one_buffer_one_encoder_and_one_submission() {
    let Some((device, queue)) = host_device() else { return };
    let wgsl = Wgsl::from_device(device.clone(), queue.clone()).expect("shares the device");
    let (m, n) = (19, 19);
    let values = |salt: usize| -> Vec<f32> {
        (0..m * n).map(|i| ((i * 7 + salt) % 9) as f32 - 4.0).collect()
    };
    let (a, b) = (values(1), values(5));
    // 361 f32 are 1444 bytes: the next multiple of 256 leaves a gap of 92.
    let place = |index: u64| index * 1536;
    let buffer = host_buffer(&device, place(4));
    let pattern: Vec<u8> = (0..place(4)).map(|i| (i % 251) as u8).collect();
    queue.write_buffer(&buffer, 0, &pattern);
    let tensor = |index| {
        WgslTensor::from_buffer(buffer.clone(), place(index), ElementType::F32, m * n)
            .expect("inside the buffer")
    };
    let [ta, tb, td, te] = [0, 1, 2, 3].map(tensor);
    assert!(ta.same_allocation(&te));
    wgsl.upload(&ta, 0, bytemuck::cast_slice(&a)).expect("uploads");
    wgsl.upload(&tb, 0, bytemuck::cast_slice(&b)).expect("uploads");

    for kernel in common::kernels(ElementType::F32) {
        if matches!(kernel, KernelChoice::Vectorized { width: 2 | 4 }) {
            continue; // Rows of 19 elements.
        }
        let problem = Problem::new(m, n, n);
        let plan =
            Gemm::<Wgsl>::plan(&wgsl, &problem, &PlanOptions::kernel(kernel)).expect("plans");
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        wgsl.encode(plan.inner(), &Args::new(&ta, &tb, &td), &mut encoder).expect("encodes");
        wgsl.encode(plan.inner(), &Args::new(&td, &tb, &te), &mut encoder).expect("encodes");
        queue.submit([encoder.finish()]);

        let product = |a: &[f32]| {
            let left = lapidary_core::MatrixRef::row_major(a, m, n).expect("fits");
            let right = lapidary_core::MatrixRef::row_major(&b, m, n).expect("fits");
            let reference = oracle::reference(&problem, &Operands::new(left, right));
            reference.expect("valid").values().iter().map(|&x| x as f32).collect::<Vec<_>>()
        };
        let d = product(&a);
        let read =
            |tensor| -> Vec<f32> { bytemuck::pod_collect_to_vec(&common::download(&wgsl, tensor)) };
        assert_eq!(read(&td), d, "{}", kernel.name());
        assert_eq!(read(&te), product(&d), "{}", kernel.name());
        let whole = WgslTensor::from_buffer(buffer.clone(), 0, ElementType::I8, pattern.len());
        let after = common::download(&wgsl, &whole.expect("fits"));
        for i in 0..pattern.len() {
            assert!(i % 1536 < 1444 || after[i] == pattern[i], "{}: byte {i}", kernel.name());
        }
    }
}

/// Packed outputs take two dispatches and a scratch buffer; in one buffer with their operands too.
#[test]
fn small_outputs_next_to_their_operands() {
    let Some((device, queue)) = host_device() else { return };
    let wgsl = Wgsl::from_device(device.clone(), queue.clone()).expect("shares the device");
    let problem = Problem::new(9, 5, 7).elements(ElementType::BF16, ElementType::BF16).bias(true);
    let case = Case::new(problem.clone(), Values::SmallIntegers(3), 3);
    let reference = oracle::reference(&case.problem, &case.operands()).expect("valid");
    let buffer = host_buffer(&device, 1024);
    let tensor = |at, element, len| WgslTensor::from_buffer(buffer.clone(), at, element, len);
    let bf16 = ElementType::BF16;
    let a = tensor(0, bf16, 63).expect("fits");
    let b = tensor(256, bf16, 35).expect("fits");
    let c = tensor(512, bf16, 45).expect("fits");
    let bias = tensor(768, ElementType::F32, 5).expect("fits");
    for (tensor, bytes) in
        [(&a, case.a.bytes()), (&b, case.b.bytes()), (&bias, case.bias.as_slice())]
    {
        wgsl.upload(tensor, 0, bytes).expect("uploads");
    }
    let plan = Gemm::<Wgsl>::plan(&wgsl, &problem, &PlanOptions::default()).expect("plans");
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    wgsl.encode(plan.inner(), &Args::new(&a, &b, &c).bias(&bias), &mut encoder).expect("encodes");
    queue.submit([encoder.finish()]);
    let after = common::download(&wgsl, &c);
    let comparison = reference.compare_exact(&common::found(&case.c, &after));
    assert!(comparison.passed(), "{comparison}");
}

/// One plan, eleven sets of tensors in turn (more than a plan keeps bindings of), each used twice.
#[test]
fn a_plan_is_reused_with_other_tensors() {
    let Some(device) = common::device() else { return };
    let problem = Problem::new(33, 18, 21).beta(1.0);
    let plan = Gemm::<Wgsl>::plan(device, &problem, &PlanOptions::default()).expect("plans");
    let cases: Vec<Case> =
        (0..11).map(|seed| Case::new(problem.clone(), Values::SmallIntegers(4), seed)).collect();
    let uploaded: Vec<_> = cases.iter().map(|case| Uploaded::new(device, case)).collect();
    for order in [(0..11).collect::<Vec<_>>(), (0..11).rev().collect(), vec![3, 7, 3, 7]] {
        for i in order {
            let c = common::upload(device, &cases[i].c);
            plan.execute(&uploaded[i].args(&c)).expect("executes");
            let after = common::download(device, &c);
            let reference = oracle::reference(&problem, &cases[i].operands()).expect("valid");
            let comparison = reference.compare_exact(&common::found(&cases[i].c, &after));
            assert!(comparison.passed(), "set {i}: {comparison}");
        }
    }
}

/// The same tensors at other offsets are other operands.
#[test]
fn a_plan_is_reused_with_other_offsets() {
    let Some(device) = common::device() else { return };
    let problem = Problem::new(2, 2, 2);
    let plan = Gemm::<Wgsl>::plan(device, &problem, &PlanOptions::default()).expect("plans");
    let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let a = common::upload_bytes(device, ElementType::F32, bytemuck::cast_slice(&values));
    let identity = [1.0f32, 0.0, 0.0, 1.0];
    let b = common::upload_bytes(device, ElementType::F32, bytemuck::cast_slice(&identity));
    for offset in [0, 8, 1, 0, 5] {
        let c = device.alloc(ElementType::F32, 4).expect("allocates");
        plan.execute(&Args::new(TensorSlice::new(&a, offset), &b, &c)).expect("executes");
        let found: Vec<f32> = bytemuck::pod_collect_to_vec(&common::download(device, &c));
        assert_eq!(found, values[offset..offset + 4]);
    }
}

/// A packed B gives the bits that B gives, whatever its type, its layout and its tail.
#[test]
fn packed_b_equals_b() {
    let Some(device) = common::device() else { return };
    for operand in [ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::I8] {
        if operand == ElementType::F16 && !device.limits().f16 {
            println!("skipped: the device lacks SHADER_F16");
            continue;
        }
        for (index, [n, k]) in
            [[7, 1], [33, 5], [16, 16], [65, 30], [1, 67]].into_iter().enumerate()
        {
            let arrangement =
                [Arrangement::Padded, Arrangement::ColMajor, Arrangement::ReversedCols][index % 3];
            let problem = Problem::new(20, n, k).elements(operand, operand.accumulator()).batch(2);
            let case = Case::new(problem, Values::Uniform, index as u64).arranged(
                Arrangement::Dense,
                arrangement,
                Arrangement::Padded,
            );
            let uploaded = Uploaded::aligned(device, &case);
            let b = common::upload(device, &case.b);
            let kernels = common::kernels(operand);
            let mut chosen = vec![
                kernels[0],
                kernels[1],
                kernels[4],
                kernels[9],
                kernels[12],
                KernelChoice::Auto,
            ];
            // Few columns of C, whose B is lines along K as well as across.
            chosen.extend((n <= 16).then_some(KernelChoice::Skinny));
            for kernel in chosen {
                let options = PlanOptions::kernel(kernel);
                let plan = Gemm::<Wgsl>::plan(device, &uploaded.problem, &options).expect("plans");
                let packed =
                    plan.pack_b(TensorSlice::new(&b, case.b.placement().offset)).expect("packs");
                let c = common::upload(device, &case.c);
                let plain = uploaded.args(&c);
                plan.execute(&plain).expect("executes");
                let expected = common::download(device, &c);
                let again = common::upload(device, &case.c);
                let target = TensorSlice::new(&again, case.c.placement().offset);
                plan.execute(&Args::with_packed_b(plain.a, &packed, target)).expect("executes");
                assert!(
                    expected == common::download(device, &again),
                    "{operand} {n}x{k} {}",
                    kernel.name()
                );
            }
        }
    }
}

/// Few rows of C read B in vectors across K, which a packed B does not have.
#[test]
fn few_rows_take_a_packed_b() {
    let Some(device) = common::device() else { return };
    for operand in [ElementType::F32, ElementType::I8] {
        for (index, [m, n, k]) in
            [[1, 1, 2], [1, 64, 128], [15, 64, 128], [3, 130, 33]].into_iter().enumerate()
        {
            let problem = Problem::new(m, n, k).elements(operand, operand.accumulator());
            // Sums of small integers are the same in any order.
            let case = Case::new(problem, Values::SmallIntegers(3), index as u64);
            let uploaded = Uploaded::aligned(device, &case);
            let b = common::upload(device, &case.b);
            let naive = PlanOptions::kernel(KernelChoice::Naive);
            let c = common::upload(device, &case.c);
            let plan = Gemm::<Wgsl>::plan(device, &uploaded.problem, &naive).expect("plans");
            plan.execute(&uploaded.args(&c)).expect("executes");
            let expected = common::download(device, &c);
            for choice in [KernelChoice::Skinny, KernelChoice::Auto] {
                let options = PlanOptions::kernel(choice);
                let plan = Gemm::<Wgsl>::plan(device, &uploaded.problem, &options).expect("plans");
                let packed =
                    plan.pack_b(TensorSlice::new(&b, case.b.placement().offset)).expect("packs");
                let c = common::upload(device, &case.c);
                let target = TensorSlice::new(&c, case.c.placement().offset);
                let a = uploaded.args(&c).a;
                plan.execute(&Args::with_packed_b(a, &packed, target)).expect("executes");
                let found = common::download(device, &c);
                assert!(found == expected, "{operand} {m}x{n}x{k} {}", choice.name());
            }
        }
    }
}

#[test]
fn a_packed_b_of_another_problem_is_refused() {
    let Some(device) = common::device() else { return };
    let plan = |n, k| {
        Gemm::<Wgsl>::plan(device, &Problem::new(4, n, k), &PlanOptions::default()).expect("plans")
    };
    let tensor = |len| device.alloc(ElementType::F32, len).expect("allocates");
    let (a, b, c) = (tensor(4 * 6), tensor(5 * 6), tensor(4 * 5));
    let packed = plan(5, 6).pack_b(&b).expect("packs");
    assert!(plan(5, 6).execute(&Args::with_packed_b(&a, &packed, &c)).is_ok());
    match plan(5, 5).execute(&Args::with_packed_b(&a, &packed, &c)) {
        Err(Error::PackedMismatch { found, expected }) => {
            assert_eq!(found, "f32 of batch 1, N 5, K 6, in 1 matrices by rows of 16");
            assert_eq!(expected, "f32 of batch 1, N 5, K 5, in 1 matrices by rows of 16");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_batch_broadcasts_and_strides() {
    let Some(device) = common::device() else { return };
    // One B for all five matrices: batch stride 0.
    let problem = Problem::new(18, 20, 9).batch(5);
    let mut case = Case::new(problem, Values::SmallIntegers(4), 1).arranged(
        Arrangement::Padded,
        Arrangement::RepeatedRow,
        Arrangement::PaddedColMajor,
    );
    case.problem.b_layout = lapidary_core::Layout { batch_stride: 0, ..case.problem.b_layout };
    let place = lapidary_core::Placement { layout: case.problem.b_layout, ..case.b.placement() };
    let b = AnyMatrixRef::new(case.b.bytes(), ElementType::F32, place).expect("fits");
    let reference = oracle::reference(&case.problem, &Operands::new(case.a.view(), b));
    let reference = reference.expect("valid");
    let uploaded = Uploaded::new(device, &case);
    for kernel in [KernelChoice::Naive, KernelChoice::RegisterTile, KernelChoice::Auto] {
        uploaded.check(device, kernel, &reference);
    }
}

/// Without blocking, from several threads at once, on one device and one plan.
#[test]
fn async_from_several_threads() {
    let Some(device) = common::device() else { return };
    let problem = Problem::new(40, 30, 20).elements(ElementType::F32, ElementType::F16);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let problem = &problem;
            scope.spawn(move || {
                for round in 0..3 {
                    let case =
                        Case::new(problem.clone(), Values::SmallIntegers(3), seed * 10 + round);
                    let operands = case.operands();
                    let output =
                        block_on(Gemm::<Wgsl>::run_async(device, &case.problem, &operands));
                    let output = output.expect("runs").matrix;
                    let reference = oracle::reference(&case.problem, &operands).expect("valid");
                    let comparison = reference.compare_exact(&output.as_ref());
                    assert!(comparison.passed(), "thread {seed}: {comparison}");
                }
            });
        }
    });
    // Two at once in one task: neither blocks the thread that polls both.
    let case = Case::new(problem, Values::SmallIntegers(3), 99);
    let operands = case.operands();
    let mut first = Box::pin(Gemm::<Wgsl>::run_async(device, &case.problem, &operands));
    let mut second = Box::pin(Gemm::<Wgsl>::run_async(device, &case.problem, &operands));
    let both = block_on(async {
        let mut done = (None, None);
        std::future::poll_fn(|context| {
            use std::future::Future as _;
            use std::task::Poll;
            if done.0.is_none()
                && let Poll::Ready(output) = first.as_mut().poll(context)
            {
                done.0 = Some(output);
            }
            if done.1.is_none()
                && let Poll::Ready(output) = second.as_mut().poll(context)
            {
                done.1 = Some(output);
            }
            if done.0.is_some() && done.1.is_some() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        done
    });
    let bits = |output: Option<Result<lapidary_core::Output, Error>>| {
        output.expect("done").expect("runs").matrix
    };
    assert_eq!(bits(both.0), bits(both.1));
}

/// A plan belongs to its device.
#[test]
fn a_plan_of_another_device_is_refused() {
    let (Some(device), Some(other)) = (common::device(), common::downlevel()) else { return };
    let plan = Gemm::<Wgsl>::plan(other, &Problem::new(2, 2, 2), &PlanOptions::default());
    let plan = plan.expect("plans");
    let tensor = device.alloc(ElementType::F32, 4).expect("allocates");
    let c = device.alloc(ElementType::F32, 4).expect("allocates");
    match device.execute(plan.inner(), &Args::new(&tensor, &tensor, &c)) {
        Err(Error::KernelUnsuitable { reason, .. }) => {
            assert_eq!(reason, "the plan was made on another device");
        }
        other => panic!("{other:?}"),
    }
    // Nor do tensors move.
    let refused = |result: Result<(), Error>| match result {
        Err(Error::Device { operation: "using a tensor", message, .. }) => {
            assert_eq!(message, "it was allocated on another device");
        }
        other => panic!("{other:?}"),
    };
    refused(plan.execute(&Args::new(&tensor, &tensor, &c)));
    refused(other.upload(&tensor, 0, &[0; 4]));
    refused(block_on(other.download(&tensor)).map(|_| ()));
    refused(plan.pack_b(&tensor).map(|_| ()));
    // Neither device is the worse for it.
    let plan = Gemm::<Wgsl>::plan(device, &Problem::new(2, 2, 2), &PlanOptions::default());
    plan.expect("plans").execute(&Args::new(&tensor, &tensor, &c)).expect("executes");
}
