//! Every bad input gives a typed error that carries the numbers, and nothing is written.

use lapidary_core::{
    Activation, AnyMatrixRef, Args, Backend, Cpu, CpuTensor, ElementType, Error, Gemm, Layout,
    Matrix, MatrixMut, MatrixRef, Operand, Operands, PlanOptions, Problem, Shape, TensorSlice,
};

const ZEROS: [f32; 64] = [0.0; 64];

fn view(rows: usize, cols: usize) -> MatrixRef<'static, f32> {
    MatrixRef::row_major(&ZEROS, rows, cols).expect("it fits")
}

fn run(problem: &Problem, operands: &Operands<'_>) -> Error {
    Gemm::<Cpu>::run(&Cpu::new(), problem, operands).expect_err("the input is bad")
}

fn tensor(element: ElementType, len: usize) -> CpuTensor {
    Cpu::new().alloc(element, len).expect("a small tensor")
}

/// The error of executing `problem` on the given tensors; C must keep its bits.
fn execute(problem: &Problem, args: &Args<'_, Cpu>) -> Error {
    let device = Cpu::new();
    let plan =
        Gemm::<Cpu>::plan(&device, problem, &PlanOptions::default()).expect("a valid problem");
    let read = || pollster::block_on(device.download(args.c.tensor)).expect("in memory");
    let before = read();
    let error = plan.execute(args).expect_err("the operands are bad");
    assert_eq!(read(), before);
    error
}

#[test]
fn mismatched_inner_dimension() {
    let operands = Operands::new(view(2, 3), view(4, 5));
    for error in
        [run(&Problem::new(2, 5, 3), &operands), operands.problem(ElementType::F32).unwrap_err()]
    {
        assert!(matches!(error, Error::InnerDimensionMismatch { a_cols: 3, b_rows: 4 }));
        assert!(error.to_string().contains("A has 3 columns but B has 4 rows"));
    }
}

#[test]
fn shapes_that_do_not_fit_the_problem() {
    let operands = Operands::new(view(2, 3), view(3, 5));
    let error = run(&Problem::new(2, 6, 3), &operands);
    assert!(matches!(
        error,
        Error::ShapeMismatch { operand: Operand::B, found: [1, 3, 5], expected: [1, 3, 6] }
    ));
    let error = run(&Problem::new(2, 5, 3).beta(1.0), &operands.c(view(2, 4)));
    assert!(matches!(
        error,
        Error::ShapeMismatch { operand: Operand::C, found: [1, 2, 4], expected: [1, 2, 5] }
    ));
    let batched = MatrixRef::batched(&ZEROS, 2, 3, 5).unwrap();
    let error = Operands::new(view(2, 3), batched).problem(ElementType::F32).unwrap_err();
    assert!(matches!(error, Error::ShapeMismatch { operand: Operand::B, found: [2, 3, 5], .. }));
    let mut c = [0.0f32; 4];
    let c = MatrixMut::row_major(&mut c, 2, 2).unwrap();
    let error =
        Gemm::<Cpu>::run_into(&Cpu::new(), &Problem::new(2, 5, 3), &operands, c).unwrap_err();
    assert!(matches!(error, Error::ShapeMismatch { operand: Operand::C, .. }));
}

#[test]
fn a_view_larger_than_its_slice() {
    let error = MatrixRef::row_major(&ZEROS, 9, 8).unwrap_err();
    assert!(matches!(error, Error::ViewOutOfBounds { rows: 9, cols: 8, reached: 71, len: 64, .. }));
    assert!(error.to_string().contains("reaches element 71"));
    let backwards = Layout { row_stride: -1, col_stride: 1, batch_stride: 0 };
    let error = MatrixRef::strided(&ZEROS, 0, Shape::new(2, 2), backwards).unwrap_err();
    assert!(matches!(error, Error::ViewOutOfBounds { reached: -1, .. }));
    let huge = Layout { row_stride: isize::MAX, col_stride: isize::MAX, batch_stride: isize::MAX };
    let shape = Shape { batch: usize::MAX, rows: usize::MAX, cols: usize::MAX };
    assert!(matches!(
        MatrixRef::strided(&ZEROS, 63, shape, huge),
        Err(Error::ViewOutOfBounds { .. })
    ));
    let (a, c) = (tensor(ElementType::F32, 16), tensor(ElementType::F32, 16));
    let problem = Problem::new(4, 4, 4);
    for (args, reached) in [
        (Args::new(TensorSlice::new(&a, 1), &a, &c), 16),
        (Args::new(&a, TensorSlice::new(&a, 2), &c), 17),
        (Args::new(&a, &a, TensorSlice::new(&c, 3)), 18),
    ] {
        let error = execute(&problem, &args);
        assert!(
            matches!(error, Error::ViewOutOfBounds { reached: r, len: 16, .. } if r == reached)
        );
    }
}

#[test]
fn stride_zero_for_an_output() {
    let mut storage = [0.0f32; 64];
    let layout = Layout { row_stride: 0, col_stride: 1, batch_stride: 0 };
    let error = MatrixMut::strided(&mut storage, 0, Shape::new(3, 4), layout).unwrap_err();
    assert!(matches!(error, Error::OutputOverlapsItself { rows: 3, cols: 4, row_stride: 0, .. }));
    let problem = Problem::new(3, 4, 2).c_layout(layout);
    assert!(matches!(problem.validate(), Err(Error::OutputOverlapsItself { .. })));
    assert!(matches!(
        Cpu::new().plan(&problem, &PlanOptions::default()),
        Err(Error::OutputOverlapsItself { .. })
    ));
}

#[test]
fn c_that_overlaps_an_input() {
    let all = tensor(ElementType::F32, 64);
    let other = tensor(ElementType::F32, 64);
    let at = |offset| TensorSlice::new(&all, offset);
    let problem = Problem::new(4, 4, 4);
    let error = execute(&problem, &Args::new(at(0), &other, at(15)));
    assert!(matches!(
        error,
        Error::Aliasing { operand: Operand::A, c_first: 60, c_end: 124, first: 0, end: 64 }
    ));
    let error = execute(&problem, &Args::new(&other, at(16), at(16)));
    assert!(matches!(error, Error::Aliasing { operand: Operand::B, .. }));
    let problem = problem.bias(true);
    let error = execute(&problem, &Args::new(&other, &other, at(0)).bias(at(3)));
    assert!(matches!(error, Error::Aliasing { operand: Operand::Bias, first: 12, end: 28, .. }));
}

#[test]
fn element_types_that_do_not_go_together() {
    let problem = Problem::new(2, 2, 2).elements(ElementType::I32, ElementType::I32);
    assert!(matches!(problem.validate(), Err(Error::ElementTypesUnsupported { .. })));
    let mut problem = Problem::new(2, 2, 2);
    problem.b = ElementType::F16;
    let error = problem.validate().unwrap_err();
    assert!(error.to_string().contains("f32 x f16 -> f32"), "{error}");
    let halves = Problem::new(2, 2, 2).elements(ElementType::F16, ElementType::F32);
    assert!(matches!(
        run(&halves, &Operands::new(view(2, 2), view(2, 2))),
        Error::ElementTypeMismatch {
            operand: Operand::A,
            found: ElementType::F32,
            expected: ElementType::F16
        }
    ));
    let f32s = tensor(ElementType::F32, 4);
    let error =
        execute(&Problem::new(2, 2, 2), &Args::new(&tensor(ElementType::F64, 4), &f32s, &f32s));
    assert!(matches!(error, Error::ElementTypeMismatch { operand: Operand::A, .. }));
    assert!(matches!(
        Matrix::zeros(ElementType::F32, Shape::new(1, 1)).unwrap().to_vec::<f64>(),
        Err(Error::ElementTypeMismatch { .. })
    ));
}

#[test]
fn a_bias_of_the_wrong_length_or_none_where_one_is_due() {
    let operands = Operands::new(view(2, 3), view(3, 5));
    let problem = Problem::new(2, 5, 3).bias(true);
    let short = [0.0f32; 4];
    assert!(matches!(
        run(&problem, &operands.bias(&short)),
        Error::BiasLength { found: 4, expected: 5 }
    ));
    assert!(matches!(
        run(&problem, &operands),
        Error::MissingOperand { operand: Operand::Bias, .. }
    ));
    assert!(matches!(
        run(&Problem::new(2, 5, 3), &operands.bias(&short)),
        Error::UnexpectedOperand { operand: Operand::Bias, .. }
    ));
    let integers = [0i32; 5];
    assert!(matches!(
        run(&problem, &operands.bias(&integers)),
        Error::ElementTypeMismatch { operand: Operand::Bias, .. }
    ));
    let (t, bias) = (tensor(ElementType::F32, 16), tensor(ElementType::F32, 5));
    let c = tensor(ElementType::F32, 16);
    let problem = Problem::new(4, 4, 4).bias(true);
    let error = execute(&problem, &Args::new(&t, &t, &c).bias(TensorSlice::new(&bias, 2)));
    assert!(matches!(error, Error::BiasLength { found: 3, expected: 4 }));
    assert!(matches!(
        execute(&problem, &Args::new(&t, &t, &c)),
        Error::MissingOperand { operand: Operand::Bias, .. }
    ));
}

#[test]
fn c_missing_at_beta_or_given_twice() {
    let operands = Operands::new(view(2, 3), view(3, 5));
    assert!(matches!(
        run(&Problem::new(2, 5, 3).beta(1.0), &operands),
        Error::MissingOperand { operand: Operand::C, .. }
    ));
    let mut c = [0.0f32; 10];
    let c = MatrixMut::row_major(&mut c, 2, 5).unwrap();
    let error =
        Gemm::<Cpu>::run_into(&Cpu::new(), &Problem::new(2, 5, 3), &operands.c(view(2, 5)), c)
            .unwrap_err();
    assert!(matches!(error, Error::UnexpectedOperand { operand: Operand::C, .. }));
}

#[test]
fn integer_problems_with_fractions_smooth_activations_or_too_long_sums() {
    let problem = Problem::new(2, 2, 2).elements(ElementType::I8, ElementType::I32);
    assert!(matches!(
        problem.clone().beta(0.5).validate(),
        Err(Error::FactorNotInteger { name: "beta", value: 0.5 })
    ));
    assert!(matches!(
        problem.activation(Activation::GeluErf).validate(),
        Err(Error::ActivationUnsupported { activation: "gelu-erf", element: ElementType::I32 })
    ));
    let long = Problem::new(2, 2, 131_072).elements(ElementType::I8, ElementType::F32);
    assert!(matches!(
        Cpu::new().plan(&long, &PlanOptions::default()),
        Err(Error::AccumulatorOverflow { k: 131_072, limit: 131_071 })
    ));
    assert!(Cpu::new().plan(&long.wrapping(true), &PlanOptions::default()).is_ok());
}

#[test]
fn a_packed_b_of_another_problem() {
    let device = Cpu::new();
    let plan =
        |n| Gemm::<Cpu>::plan(&device, &Problem::new(4, n, 4), &PlanOptions::default()).unwrap();
    let (t, c) = (tensor(ElementType::F32, 32), tensor(ElementType::F32, 32));
    let packed = plan(8).pack_b(&t).unwrap();
    let error = plan(4).execute(&Args::with_packed_b(&t, &packed, &c)).unwrap_err();
    assert!(
        matches!(&error, Error::PackedMismatch { found, expected }
            if found.contains("1x4x8") && expected.contains("1x4x4")),
        "{error}"
    );
    assert!(plan(8).execute(&Args::with_packed_b(&t, &packed, &c)).is_ok());
    assert!(matches!(plan(9).pack_b(&t), Err(Error::ViewOutOfBounds { reached: 35, len: 32, .. })));
    let other = tensor(ElementType::F16, 32);
    assert!(matches!(
        plan(8).pack_b(&other),
        Err(Error::ElementTypeMismatch { operand: Operand::B, .. })
    ));
}

#[test]
fn memory_that_cannot_be_had() {
    let device = Cpu::new();
    assert!(matches!(
        device.alloc(ElementType::F64, usize::MAX / 8),
        Err(Error::LimitExceeded { .. })
    ));
    assert!(matches!(
        device.alloc(ElementType::F32, 1 << 60),
        Err(Error::OutOfMemory { requested, .. }) if requested >= 1 << 62
    ));
    assert!(matches!(
        Matrix::zeros(ElementType::F32, Shape { batch: usize::MAX, rows: 2, cols: 2 }),
        Err(Error::LimitExceeded { .. })
    ));
}

#[test]
fn uploads_past_the_end() {
    let device = Cpu::new();
    let tensor = tensor(ElementType::F32, 4);
    assert!(device.upload(&tensor, 2, &[0; 8]).is_ok());
    for (offset, bytes) in [(3, 8), (5, 4), (usize::MAX, 4)] {
        let error = device.upload(&tensor, offset, &vec![0; bytes]).unwrap_err();
        assert!(matches!(error, Error::ViewOutOfBounds { len: 4, .. }), "{offset} {bytes}");
    }
    let partial = device.upload(&tensor, 0, &[0; 5]).unwrap_err();
    assert!(matches!(partial, Error::PartialElement { bytes: 5, element: ElementType::F32 }));
}

#[test]
fn backend_methods_called_directly_check_their_operands() {
    let device = Cpu::new();
    let operands = Operands::new(view(2, 3), view(3, 4));
    let mut c = [0.0f32; 64];
    for (problem, rows, cols) in [
        (Problem::new(2, 4, 3), 2, 5),
        (Problem::new(9, 4, 3), 9, 4),
        (Problem::new(2, 4, 5), 2, 4),
    ] {
        let c = MatrixMut::row_major(&mut c, rows, cols).unwrap().erase();
        let options = PlanOptions::default();
        let run = device.run_host(&problem, &options, &operands, c, &|_| {});
        let error = pollster::block_on(run).unwrap_err();
        assert!(matches!(error, Error::ShapeMismatch { .. }), "{error}");
    }
    let bytes = [0u8; 7];
    let place = lapidary_core::Placement {
        offset: 0,
        shape: Shape::new(1, 2),
        layout: Layout::row_major(1, 2),
    };
    assert!(matches!(
        AnyMatrixRef::new(&bytes, ElementType::F32, place),
        Err(Error::ViewOutOfBounds { len: 1, .. })
    ));
}
