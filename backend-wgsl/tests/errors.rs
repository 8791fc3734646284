//! Every bad input is a typed error with the numbers that tell why, and never a panic.

mod common;

use lapidary_core::{
    Activation, AnyMatrixRef, Args, Backend, ElementType, Error, Gemm, KernelChoice, Layout,
    MatrixMut, MatrixRef, Operand, Operands, Placement, PlanOptions, Problem, Shape, TensorSlice,
};
use lapidary_wgsl::decide::decide;
use lapidary_wgsl::{DeviceLimits, Wgsl, WgslTensor, wgpu};

/// Asserts that a result is an error of this form, with these values.
macro_rules! refused {
    ($result:expr, $pattern:pat $(if $guard:expr)?) => {
        match $result {
            Err($pattern) $(if $guard)? => {}
            other => panic!("{:?} instead of {}", other, stringify!($pattern $(if $guard)?)),
        }
    };
}

fn plan(device: &Wgsl, problem: &Problem, kernel: KernelChoice) -> Result<(), Error> {
    Gemm::<Wgsl>::plan(device, problem, &PlanOptions::kernel(kernel)).map(|_| ())
}

/// Executes `problem` on slices of tensors.
fn execute(
    device: &Wgsl,
    problem: &Problem,
    kernel: KernelChoice,
    [a, b, c]: [TensorSlice<'_, WgslTensor>; 3],
) -> Result<(), Error> {
    let plan = Gemm::<Wgsl>::plan(device, problem, &PlanOptions::kernel(kernel))?;
    plan.execute(&Args::new(a, b, c))
}

fn f32s(device: &Wgsl, len: usize) -> WgslTensor {
    device.alloc(ElementType::F32, len).expect("allocates")
}

#[test]
fn inner_dimensions_that_differ() {
    let Some(device) = common::device() else { return };
    let data = [0.0f32; 20];
    let a = MatrixRef::row_major(&data, 4, 5).expect("fits");
    let b = MatrixRef::row_major(&data, 6, 3).expect("fits");
    let operands = Operands::new(a, b);
    refused!(
        operands.problem(ElementType::F32),
        Error::InnerDimensionMismatch { a_cols: 5, b_rows: 6 }
    );
    refused!(
        Gemm::<Wgsl>::run(device, &Problem::new(4, 3, 5), &operands),
        Error::InnerDimensionMismatch { a_cols: 5, b_rows: 6 }
    );
}

#[test]
fn views_past_their_storage() {
    let Some(device) = common::device() else { return };
    let data = [0.0f32; 20];
    refused!(
        MatrixRef::row_major(&data, 4, 6),
        Error::ViewOutOfBounds { rows: 4, cols: 6, reached: 23, len: 20, .. }
    );
    let problem = Problem::new(3, 3, 3);
    let (nine, eight) = (f32s(device, 9), f32s(device, 8));
    let auto = KernelChoice::Auto;
    for [a, b, c] in [[&eight, &nine, &nine], [&nine, &eight, &nine], [&nine, &nine, &eight]] {
        let c = TensorSlice::from(c);
        let (a, b) = (TensorSlice::from(a), TensorSlice::from(b));
        // C is a tensor of its own, so that only the bounds are wrong.
        let apart = f32s(device, c.tensor_len());
        let c = TensorSlice::new(&apart, 0);
        refused!(
            execute(device, &problem, auto, [a, b, c]),
            Error::ViewOutOfBounds { reached: 8, len: 8, .. }
        );
    }
    let apart = f32s(device, 9);
    refused!(
        execute(
            device,
            &problem,
            auto,
            [TensorSlice::new(&nine, 2), (&nine).into(), (&apart).into()]
        ),
        Error::ViewOutOfBounds { offset: 2, reached: 10, len: 9, .. }
    );
    refused!(device.upload(&nine, 5, &[0; 20]), Error::ViewOutOfBounds { len: 9, .. });
    refused!(
        device.upload(&nine, 0, &[0; 3]),
        Error::PartialElement { bytes: 3, element: ElementType::F32 }
    );
}

/// The length of a slice's tensor, for a C of the same length.
trait TensorLen {
    fn tensor_len(&self) -> usize;
}

impl TensorLen for TensorSlice<'_, WgslTensor> {
    fn tensor_len(&self) -> usize {
        lapidary_core::Tensor::len(self.tensor)
    }
}

#[test]
fn outputs_that_overlap_themselves() {
    let Some(device) = common::device() else { return };
    let flat = Layout { row_stride: 0, col_stride: 1, batch_stride: 0 };
    refused!(
        plan(device, &Problem::new(2, 3, 4).c_layout(flat), KernelChoice::Auto),
        Error::OutputOverlapsItself { rows: 2, cols: 3, row_stride: 0, col_stride: 1, .. }
    );
    let mut data = [0.0f32; 6];
    refused!(
        MatrixMut::strided(&mut data, 0, Shape::new(2, 3), flat),
        Error::OutputOverlapsItself { row_stride: 0, .. }
    );
}

#[test]
fn outputs_that_overlap_inputs() {
    let Some(device) = common::device() else { return };
    let tensor = f32s(device, 64);
    let other = f32s(device, 16);
    let problem = Problem::new(4, 4, 4);
    let at = |offset| TensorSlice::new(&tensor, offset);
    let auto = KernelChoice::Auto;
    refused!(
        execute(device, &problem, auto, [at(0), (&other).into(), at(15)]),
        Error::Aliasing { operand: Operand::A, c_first: 60, c_end: 124, first: 0, end: 64 }
    );
    refused!(
        execute(device, &problem, auto, [(&other).into(), at(8), at(0)]),
        Error::Aliasing { operand: Operand::B, c_first: 0, c_end: 64, first: 32, end: 96 }
    );
    let with_bias =
        Gemm::<Wgsl>::plan(device, &problem.clone().bias(true), &PlanOptions::default());
    refused!(
        with_bias.expect("plans").execute(&Args::new(&other, &other, at(0)).bias(at(3))),
        Error::Aliasing { operand: Operand::Bias, first: 12, end: 28, .. }
    );
    execute(device, &problem, auto, [at(0), at(16), at(32)]).expect("side by side is fine");
}

/// Blocks of one 8×8 matrix: each factor and the result in a quarter of its own.
#[test]
fn disjoint_blocks_of_one_matrix_are_fine() {
    let Some(device) = common::device() else { return };
    let values: Vec<f32> = (0..64).map(|i| (i % 7) as f32 - 3.0).collect();
    let pitch = Layout { row_stride: 8, col_stride: 1, batch_stride: 0 };
    let problem = Problem::new(4, 4, 4).a_layout(pitch).b_layout(pitch).c_layout(pitch);
    for kernel in common::kernels(ElementType::F32) {
        let tensor = common::upload_bytes(device, ElementType::F32, bytemuck::cast_slice(&values));
        let at = |offset| TensorSlice::new(&tensor, offset);
        execute(device, &problem, kernel, [at(0), at(4), at(36)]).expect("the blocks are apart");
        let after: Vec<f32> = bytemuck::pod_collect_to_vec(&common::download(device, &tensor));
        for (i, (&found, &before)) in after.iter().zip(&values).enumerate() {
            let (row, col) = (i / 8, i % 8);
            let expected = if row < 4 || col < 4 {
                before
            } else {
                (0..4).map(|k| values[8 * (row - 4) + k] * values[8 * k + col]).sum()
            };
            assert_eq!(found, expected, "{} at {row}, {col}", kernel.name());
        }
    }
    let tensor = f32s(device, 64);
    let at = |offset| TensorSlice::new(&tensor, offset);
    refused!(
        execute(device, &problem, KernelChoice::Auto, [at(0), at(4), at(28)]),
        Error::Aliasing { .. }
    );
}

#[test]
fn element_types_the_device_lacks() {
    let Some(device) = common::device() else { return };
    let f64 = Problem::new(2, 2, 2).elements(ElementType::F64, ElementType::F64);
    refused!(
        plan(device, &f64, KernelChoice::Auto),
        Error::ElementTypeUnavailable { element: ElementType::F64, needs, .. }
            if needs.contains("CPU backend")
    );
    let data = [1.0f64; 4];
    let view = MatrixRef::row_major(&data, 2, 2).expect("fits");
    refused!(
        Gemm::<Wgsl>::run(device, &f64, &Operands::new(view, view)),
        Error::ElementTypeUnavailable { element: ElementType::F64, .. }
    );
    refused!(
        plan(
            device,
            &Problem::new(2, 2, 2).elements(ElementType::F32, ElementType::I32),
            KernelChoice::Auto
        ),
        Error::ElementTypesUnsupported { a: ElementType::F32, c: ElementType::I32, .. }
    );
    let tensor = device.alloc(ElementType::BF16, 4).expect("allocates");
    let c = f32s(device, 4);
    refused!(
        execute(
            device,
            &Problem::new(2, 2, 2),
            KernelChoice::Auto,
            [(&tensor).into(), (&tensor).into(), (&c).into()]
        ),
        Error::ElementTypeMismatch {
            operand: Operand::A,
            found: ElementType::BF16,
            expected: ElementType::F32
        }
    );
}

#[test]
fn vector_loads_that_are_not_aligned() {
    let Some(device) = common::device() else { return };
    let vec4 = KernelChoice::Vectorized { width: 4 };
    refused!(
        plan(device, &Problem::new(4, 4, 6), vec4),
        Error::Misaligned { operand: Operand::A, width: 4, what: "the row stride", value: 6 }
    );
    plan(device, &Problem::new(4, 4, 6), KernelChoice::Vectorized { width: 2 }).expect("even rows");
    plan(device, &Problem::new(1, 4, 6), vec4).expect("a single row may have any length");
    let batched = Problem::new(1, 4, 6).batch(2);
    refused!(
        plan(device, &batched, vec4),
        Error::Misaligned { what: "the batch stride", value: 6, .. }
    );
    let column_major = Problem::new(4, 4, 8).a_layout(Layout::col_major(4, 8));
    refused!(
        plan(device, &column_major, vec4),
        Error::KernelUnsuitable { reason, .. }
            if reason == "the column stride of A must be 1 for vector loads, it is 4"
    );
    refused!(
        plan(device, &Problem::new(4, 4, 8), KernelChoice::Vectorized { width: 3 }),
        Error::KernelUnsuitable { reason, .. }
            if reason == "a load fetches 1, 2 or 4 elements, not 3"
    );
    refused!(
        plan(device, &Problem::new(4, 4, 8), KernelChoice::Buffered { buffers: 3 }),
        Error::KernelUnsuitable { reason, .. }
            if reason == "there are kernels with 1 or 2 buffers, not 3"
    );
    // The offset is known when the plan is used.
    let problem = Problem::new(4, 4, 8);
    let (a, b, c) = (f32s(device, 40), f32s(device, 32), f32s(device, 16));
    let at = |offset| TensorSlice::new(&a, offset);
    refused!(
        execute(device, &problem, vec4, [at(2), (&b).into(), (&c).into()]),
        Error::Misaligned { what: "the offset of its first element", value: 2, width: 4, .. }
    );
    execute(device, &problem, vec4, [at(4), (&b).into(), (&c).into()]).expect("aligned");
    // Where the width is the backend's own choice, it falls back to scalar loads.
    for variant in lapidary_core::Occupancy::ALL {
        let kernel = KernelChoice::Occupancy(variant);
        execute(device, &problem, kernel, [at(2), (&b).into(), (&c).into()]).expect("falls back");
    }
}

/// A vector that the end of the program's own buffer cuts off.
#[test]
fn buffers_too_small_or_without_the_usage() {
    let Some(device) = common::device() else { return };
    let buffer = |size, usage| {
        device.device().create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation: false,
        })
    };
    let storage = wgpu::BufferUsages::STORAGE;
    let f32 = ElementType::F32;
    refused!(
        WgslTensor::from_buffer(buffer(64, storage), 16, f32, 13),
        Error::LimitExceeded { requested: 68, limit: 64, .. }
    );
    // Whole words: three bytes from byte 64 of 68 on are fine, from byte 68 on they are not.
    WgslTensor::from_buffer(buffer(68, storage), 64, ElementType::I8, 3).expect("one more word");
    refused!(
        WgslTensor::from_buffer(buffer(68, storage), 68, ElementType::I8, 3),
        Error::LimitExceeded { requested: 72, limit: 68, .. }
    );
    refused!(
        WgslTensor::from_buffer(buffer(64, storage), 0, f32, usize::MAX),
        Error::LimitExceeded { requested: u128::MAX, limit: 64, .. }
    );
    refused!(
        WgslTensor::from_buffer(buffer(64, storage), 6, ElementType::I8, 1),
        Error::UnsupportedView { reason } if reason.contains("not at 6")
    );
    refused!(
        WgslTensor::from_buffer(buffer(64, wgpu::BufferUsages::UNIFORM), 0, f32, 1),
        Error::UnsupportedView { reason } if reason.contains("lacks STORAGE")
    );
    // Uploads and downloads need a usage of their own, and the device survives the refusal.
    let bare = WgslTensor::from_buffer(buffer(64, storage), 0, f32, 16).expect("fits");
    refused!(device.upload(&bare, 0, &[0; 64]), Error::Device { operation: "uploading", .. });
    refused!(
        lapidary_core::testing::block_on(device.download(&bare)),
        Error::Device { operation: "allocating a staging buffer", .. }
    );
    // 1×6 in a buffer of 24 bytes: the second vector of four would end at byte 32.
    let cut = WgslTensor::from_buffer(buffer(24, storage), 0, f32, 6).expect("fits");
    let (b, c) = (f32s(device, 12), f32s(device, 2));
    let problem = Problem::new(1, 2, 6);
    let slices = || [(&cut).into(), (&b).into(), (&c).into()];
    refused!(
        execute(device, &problem, KernelChoice::Vectorized { width: 4 }, slices()),
        Error::Misaligned { value: 6, width: 4, .. }
    );
    execute(device, &problem, KernelChoice::Vectorized { width: 2 }, slices()).expect("fits");
    execute(device, &problem, KernelChoice::Auto, slices()).expect("falls back");
}

#[test]
fn operands_missing_or_of_the_wrong_length() {
    let Some(device) = common::device() else { return };
    let problem = Problem::new(2, 5, 2).bias(true);
    let plan = Gemm::<Wgsl>::plan(device, &problem, &PlanOptions::default()).expect("plans");
    let (a, b, c) = (f32s(device, 4), f32s(device, 10), f32s(device, 10));
    let bias = f32s(device, 5);
    refused!(
        plan.execute(&Args::new(&a, &b, &c)),
        Error::MissingOperand { operand: Operand::Bias, .. }
    );
    refused!(
        plan.execute(&Args::new(&a, &b, &c).bias(TensorSlice::new(&bias, 1))),
        Error::BiasLength { found: 4, expected: 5 }
    );
    let without = Problem::new(2, 5, 2);
    let without = Gemm::<Wgsl>::plan(device, &without, &PlanOptions::default()).expect("plans");
    refused!(
        without.execute(&Args::new(&a, &b, &c).bias(&bias)),
        Error::UnexpectedOperand { operand: Operand::Bias, .. }
    );
    let data = [0.0f32; 10];
    let view = |rows, cols| MatrixRef::row_major(&data, rows, cols).expect("fits");
    refused!(
        Gemm::<Wgsl>::run(
            device,
            &Problem::new(2, 5, 2).beta(1.0),
            &Operands::new(view(2, 2), view(2, 5))
        ),
        Error::MissingOperand { operand: Operand::C, .. }
    );
}

#[test]
fn integer_problems_past_their_range() {
    let Some(device) = common::device() else { return };
    let problem = |k| Problem::new(1, 1, k).elements(ElementType::I8, ElementType::I32);
    refused!(
        plan(device, &problem(131_072), KernelChoice::Auto),
        Error::AccumulatorOverflow { k: 131_072, limit: 131_071 }
    );
    plan(device, &problem(131_072).wrapping(true), KernelChoice::Auto).expect("asked for");
    refused!(
        plan(device, &problem(4).alpha(0.5), KernelChoice::Auto),
        Error::FactorNotInteger { name: "alpha", value } if value == 0.5
    );
    refused!(
        plan(device, &problem(4).activation(Activation::Silu), KernelChoice::Auto),
        Error::ActivationUnsupported { activation: "silu", element: ElementType::I32 }
    );
    // The largest K that is allowed, with the largest products: −128 · −128.
    let k = 131_071;
    let data = vec![-128i8; k];
    let a = MatrixRef::row_major(&data, 1, k).expect("fits");
    let b = MatrixRef::row_major(&data, k, 1).expect("fits");
    let output = Gemm::<Wgsl>::run(device, &problem(k), &Operands::new(a, b)).expect("runs");
    assert_eq!(output.matrix.to_vec::<i32>().expect("i32"), [131_071 * 16_384]);
}

/// A device too small for any tile is refused with the smallest tile's bytes.
#[test]
fn workgroup_limits_too_small() {
    let mut limits = DeviceLimits::from_limits(
        &wgpu::Limits::downlevel_defaults(),
        wgpu::Features::empty(),
        false,
    );
    limits.workgroup_bytes = 1000;
    let problem = Problem::new(128, 128, 128);
    // 128 + 128 lines of one 4-byte element.
    refused!(
        decide(&problem, &limits, KernelChoice::RegisterTile, "tiny"),
        Error::LimitExceeded { requested: 1024, limit: 1000, .. }
    );
    // Two buffers of vectors of four.
    refused!(
        decide(&problem, &limits, KernelChoice::Vectorized { width: 4 }, "tiny"),
        Error::LimitExceeded { requested: 8192, limit: 1000, .. }
    );
    // 16 + 16 lines: strips of 16 take 2,048 bytes, strips of 4 fit.
    let small = decide(&problem, &limits, KernelChoice::WorkgroupTile, "tiny").expect("fits");
    assert_eq!((small.summary.k_tile_size, small.summary.workgroup_bytes), (4, 512));
    limits.workgroup_bytes = 100;
    refused!(
        decide(&problem, &limits, KernelChoice::WorkgroupTile, "tiny"),
        Error::LimitExceeded { requested: 128, limit: 100, .. }
    );
    limits.workgroup_bytes = 16352;
    limits.workgroup_threads = 128;
    refused!(
        decide(&problem, &limits, KernelChoice::RegisterTile, "tiny"),
        Error::LimitExceeded { what: "threads of a workgroup", requested: 256, limit: 128 }
    );
}

#[test]
fn sizes_no_device_can_have() {
    let Some(device) = common::device() else { return };
    let huge = Problem::new(usize::MAX, 2, 2);
    refused!(plan(device, &huge, KernelChoice::Auto), Error::LimitExceeded { .. });
    let wide = u32::MAX as usize;
    let empty = Layout { row_stride: 0, col_stride: 0, batch_stride: 0 };
    let problem = Problem::new(1, 1, wide).a_layout(empty).b_layout(empty);
    refused!(
        plan(device, &problem, KernelChoice::Auto),
        Error::LimitExceeded { what: "K", requested: 0xffff_ffff, limit: 0x7fff_ffff }
    );
    let bytes = device.limits().buffer_bytes;
    refused!(
        device.alloc(ElementType::I8, bytes as usize + 1),
        Error::LimitExceeded { limit, .. } if limit == u128::from(bytes)
    );
    refused!(
        device.alloc(ElementType::F32, usize::MAX),
        Error::LimitExceeded { requested: u128::MAX, .. }
    );
    let placement =
        Placement { offset: usize::MAX, shape: Shape::new(1, 1), layout: Layout::row_major(1, 1) };
    refused!(
        AnyMatrixRef::new(&[0; 4], ElementType::F32, placement),
        Error::ViewOutOfBounds { len: 1, .. }
    );
    let (a, c) = (f32s(device, 1), f32s(device, 1));
    let slices = [TensorSlice::new(&a, usize::MAX), (&a).into(), (&c).into()];
    refused!(
        execute(device, &Problem::new(1, 1, 1), KernelChoice::Auto, slices),
        Error::ViewOutOfBounds { len: 1, .. }
    );
}
