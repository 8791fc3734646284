//! Random problems, strides and offsets: a result within the bound or a typed error, never a panic.

use lapidary_core::oracle::reference;
use lapidary_core::testing::{Random, Values};
use lapidary_core::{
    Activation, AnyMatrixRef, Args, Backend, Cpu, ElementType, Error, Gemm, Layout, Matrix,
    Operands, Placement, PlanOptions, Problem, Shape, TensorSlice,
};
use proptest::prelude::*;

/// A tensor's elements as bytes, every one a finite value.
fn storage(element: ElementType, len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = vec![0; len * element.size()];
    for i in 0..len {
        let value = Values::Uniform.next(element, &mut random);
        lapidary_core::element::write_f64(element, &mut bytes, i, value);
    }
    bytes
}

fn layout() -> impl Strategy<Value = Layout> {
    let stride = || prop_oneof![4 => -12isize..13, 1 => Just(1), 1 => Just(0)];
    (stride(), stride(), -40isize..41).prop_map(|(row_stride, col_stride, batch_stride)| Layout {
        row_stride,
        col_stride,
        batch_stride,
    })
}

fn problem() -> impl Strategy<Value = Problem> {
    let element = || prop::sample::select(ElementType::GENERAL.to_vec());
    let factor = || prop_oneof![Just(0.0), Just(1.0), Just(-2.0), Just(0.5)];
    let layouts = || prop_oneof![2 => layout().prop_map(Some), 1 => Just(None)];
    (
        (0usize..9, 0usize..9, 0usize..9, 0usize..3),
        (element(), element(), any::<bool>()),
        (factor(), factor(), any::<bool>(), prop::sample::select(Activation::ALL.to_vec())),
        (layouts(), layouts(), layouts()),
    )
        .prop_map(|((m, n, k, batch), (ab, c, same), (alpha, beta, bias, act), (a, b, cl))| {
            // Half of them of one type, which is mostly a valid combination.
            let mut problem = Problem::new(m, n, k)
                .elements(ab, if same { ab } else { c })
                .batch(batch)
                .alpha(alpha)
                .beta(beta)
                .bias(bias)
                .activation(act);
            problem.a_layout = a.unwrap_or(problem.a_layout);
            problem.b_layout = b.unwrap_or(problem.b_layout);
            problem.c_layout = cl.unwrap_or(problem.c_layout);
            problem
        })
}

/// Runs the problem on tensors of the given lengths and checks the result and every other element.
fn execute(problem: &Problem, lengths: [usize; 3], offsets: [usize; 3]) -> Result<(), Error> {
    let device = Cpu::new();
    let plan = Gemm::<Cpu>::plan(&device, problem, &PlanOptions::default())?;
    let upload = |element: ElementType, bytes: &[u8]| {
        let tensor = device.alloc(element, bytes.len() / element.size())?;
        device.upload(&tensor, 0, bytes).map(|()| tensor)
    };
    let a = storage(problem.a, lengths[0], 1);
    let b = storage(problem.b, lengths[1], 2);
    let before = storage(problem.c, lengths[2], 3);
    let bias = storage(problem.bias_element(), problem.n, 4);
    let tensors = [upload(problem.a, &a)?, upload(problem.b, &b)?, upload(problem.c, &before)?];
    let bias_tensor = upload(problem.bias_element(), &bias)?;
    let at = |i: usize| TensorSlice::new(&tensors[i], offsets[i]);
    let mut args = Args::new(at(0), at(1), at(2));
    if problem.bias {
        args = args.bias(&bias_tensor);
    }
    plan.execute(&args)?;
    let after = pollster::block_on(device.download(&tensors[2]))?;

    let place = |offset, shape, layout| Placement { offset, shape, layout };
    let place_c = place(offsets[2], problem.c_shape(), problem.c_layout);
    let mut touched = vec![false; lengths[2]];
    for (r, c) in (0..problem.m).flat_map(|r| (0..problem.n).map(move |c| (r, c))) {
        for batch in 0..problem.batch {
            let index = offsets[2] as i128 + problem.c_layout.index(batch, r, c);
            touched[usize::try_from(index).expect("execute has checked the bounds")] = true;
        }
    }
    let size = problem.c.size();
    for i in (0..lengths[2]).filter(|&i| !touched[i]) {
        assert_eq!(after[i * size..][..size], before[i * size..][..size], "element {i} of C");
    }
    let place_a = place(offsets[0], problem.a_shape(), problem.a_layout);
    let place_b = place(offsets[1], problem.b_shape(), problem.b_layout);
    // Where A and B are not read, execute has not looked at them and the oracle needs some.
    let unread = [problem.a_shape(), problem.b_shape()].map(|s| Matrix::zeros(problem.a, s));
    let [unread_a, unread_b] = unread;
    let (unread_a, unread_b) = (unread_a?, unread_b?);
    let mut operands = if problem.reads_factors() {
        Operands::new(
            AnyMatrixRef::new(&a, problem.a, place_a)?,
            AnyMatrixRef::new(&b, problem.b, place_b)?,
        )
    } else {
        Operands::new(unread_a.as_ref(), unread_b.as_ref())
    };
    if problem.reads_c() {
        operands = operands.c(AnyMatrixRef::new(&before, problem.c, place_c)?);
    }
    if problem.bias {
        operands = operands.bias(lapidary_core::AnyVectorRef::new(&bias, problem.bias_element()));
    }
    let found = AnyMatrixRef::new(&after, problem.c, place_c)?;
    let comparison = reference(problem, &operands)?.keeping_subnormals().compare(&found);
    assert!(comparison.passed(), "{problem:?}: {comparison}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn a_result_within_the_bound_or_a_typed_error(
        problem in problem(),
        lengths in [0usize..400, 0usize..400, 0usize..400],
        offsets in [0usize..120, 0usize..120, 0usize..120],
    ) {
        match execute(&problem, lengths, offsets) {
            Ok(()) => {}
            Err(
                Error::ViewOutOfBounds { .. }
                | Error::OutputOverlapsItself { .. }
                | Error::ElementTypesUnsupported { .. }
                | Error::FactorNotInteger { .. }
                | Error::ActivationUnsupported { .. },
            ) => {}
            Err(error) => prop_assert!(false, "{problem:?}: {error}"),
        }
    }

    #[test]
    fn no_size_or_stride_makes_a_plan_panic(
        sizes in [any::<usize>(), any::<usize>(), any::<usize>(), any::<usize>()],
        strides in [any::<isize>(), any::<isize>(), any::<isize>()],
        offset in any::<usize>(),
        factors in [any::<f64>(), any::<f64>()],
    ) {
        let [m, n, k, batch] = sizes;
        let [row_stride, col_stride, batch_stride] = strides;
        let layout = Layout { row_stride, col_stride, batch_stride };
        let problem = Problem::new(m, n, k)
            .batch(batch)
            .alpha(factors[0])
            .beta(factors[1])
            .a_layout(layout)
            .c_layout(layout);
        let device = Cpu::new();
        let planned = Gemm::<Cpu>::plan(&device, &problem, &PlanOptions::default());
        let shape = Shape { batch, rows: m, cols: n };
        let place = Placement { offset, shape, layout };
        if shape.is_empty() {
            prop_assert!(place.check_bounds(0).is_ok());
        } else {
            prop_assert!(planned.is_err() || layout.is_injective(shape));
            prop_assert!(place.check_bounds(usize::from(offset == 0)).is_err() || shape.len() == Some(1)
                || strides == [0; 3]);
        }
    }
}

#[test]
fn the_random_problems_are_not_all_refused() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let strategy = (problem(), [0usize..120, 0usize..120, 0usize..120]);
    let mut products = 0;
    for _ in 0..1000 {
        let (problem, offsets) = strategy.new_tree(&mut runner).expect("no filter").current();
        let run = !problem.is_empty() && problem.reads_factors();
        products += usize::from(run && execute(&problem, [400; 3], offsets).is_ok());
    }
    assert!(products > 50, "only {products} of 1000 random problems were multiplied");
}
