//! i8 and i4 weights of float activations, with scales of columns and groups: the CPU backend against
//! the oracle, plain and packed, and what is refused.

use lapidary_core::element::pack_f64;
use lapidary_core::oracle::reference;
use lapidary_core::testing::{Arrangement, Case, Values, block_on};
use lapidary_core::{
    AnyMatrixRef, AnyVectorRef, Args, Backend, Cpu, CpuTensor, Element as _, ElementType, Error,
    Gemm, Layout, MatrixRef, Operand, Operands, Placement, PlanOptions, Problem, Shape,
    TensorSlice,
};

use ElementType as E;

const PAIRS: [(E, E); 6] = [
    (E::F32, E::I8),
    (E::F32, E::I4),
    (E::F16, E::I8),
    (E::F16, E::I4),
    (E::BF16, E::I8),
    (E::BF16, E::I4),
];

fn tensor(device: &Cpu, element: E, len: usize, bytes: &[u8]) -> Result<CpuTensor, Error> {
    let tensor = device.alloc(element, len)?;
    device.upload(&tensor, 0, bytes)?;
    Ok(tensor)
}

/// C's storage after a run with B as it is, or packed.
fn execute(case: &Case, packed: bool) -> Result<Vec<u8>, Error> {
    let device = Cpu::new();
    let problem = &case.problem;
    let plan = Gemm::<Cpu>::plan(&device, problem, &PlanOptions::default())?;
    let a = tensor(&device, problem.a, case.a.len(), case.a.bytes())?;
    let b = tensor(&device, problem.b, case.b.len(), case.b.bytes())?;
    let c = tensor(&device, problem.c, case.c.len(), case.c.bytes())?;
    let vector = |bytes: &[u8]| tensor(&device, E::F32, bytes.len() / 4, bytes);
    let [bias, rows, cols, groups] =
        [&case.bias, &case.row_scale, &case.col_scale, &case.b_group_scales].map(|b| vector(b));
    let (bias, rows, cols, groups) = (bias?, rows?, cols?, groups?);
    let at = |tensor, stored: &lapidary_core::testing::Stored| {
        TensorSlice::new(tensor, stored.placement().offset)
    };
    let packed = packed.then(|| plan.pack_b(at(&b, &case.b))).transpose()?;
    let mut args = match &packed {
        Some(packed) => Args::with_packed_b(at(&a, &case.a), packed, at(&c, &case.c)),
        None => Args::new(at(&a, &case.a), at(&b, &case.b), at(&c, &case.c)),
    };
    if problem.bias {
        args = args.bias(&bias);
    }
    if problem.row_scale {
        args = args.row_scale(&rows);
    }
    if problem.col_scale {
        args = args.col_scale(&cols);
    }
    if problem.b_group.is_some() {
        args = args.group_scales(&groups);
    }
    plan.execute(&args)?;
    block_on(device.download(&c))
}

fn check(case: &Case, exact: bool) {
    let what = format!("{:?}", case.problem);
    let reference = reference(&case.problem, &case.operands())
        .unwrap_or_else(|error| panic!("{what}: {error}"))
        .keeping_subnormals();
    for packed in [false, true] {
        let after = execute(case, packed).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(case.c.broken_canaries(&after), [], "{what}");
        let found = AnyMatrixRef::new(&after, case.c.element(), case.c.placement())
            .expect("the storage kept its size");
        let comparison =
            if exact { reference.compare_exact(&found) } else { reference.compare(&found) };
        assert!(comparison.passed(), "packed {packed}, {what}: {comparison}");
        assert_eq!(comparison.unjudged, 0, "{what}");
    }
}

/// Every third of the combinations has groups of 8, every third of 32, the others none.
fn group(count: usize) -> Option<usize> {
    [None, Some(8), Some(32)][count % 3]
}

#[test]
fn every_pair_and_layout_is_right_with_and_without_groups() {
    let mut count = 0;
    for (a, b) in PAIRS {
        for c in [E::F32, E::F16, E::BF16] {
            for (m, n, k) in [(1, 2, 32), (7, 9, 64), (65, 70, 1056), (33, 1, 96), (5, 4, 0)] {
                for (values, exact) in [(Values::SmallIntegers(3), true), (Values::Uniform, false)]
                {
                    let problem = Problem::new(m, n, k)
                        .elements(a, c)
                        .factors(a, b)
                        .batch(1 + count % 2)
                        .alpha([1.0, 2.0][count % 2])
                        .beta([0.0, 1.0, -1.0][count / 2 % 3])
                        .bias(count % 5 == 0)
                        .row_scale(count % 7 == 0)
                        .col_scale(count % 4 == 0)
                        .b_group(group(count / 2));
                    let layouts = Arrangement::INPUTS;
                    let case = Case::new(problem, values, count as u64).arranged(
                        layouts[count % layouts.len()],
                        layouts[count / 3 % layouts.len()],
                        Arrangement::OUTPUTS[count % Arrangement::OUTPUTS.len()],
                    );
                    check(&case, exact);
                    count += 1;
                }
            }
        }
    }
    assert_eq!(count, 6 * 3 * 5 * 2);
}

/// Worked out by hand: two columns of sixteen weights, in groups of eight.
#[test]
fn a_weight_is_its_scale_times_what_is_stored() {
    let a = [1.0f32; 16];
    let mut weights = [1.0f64; 32];
    weights[16..].fill(-8.0);
    let stored = pack_f64(E::I4, &weights);
    let by_columns = Layout { row_stride: 1, col_stride: 16, batch_stride: 32 };
    let place = Placement { offset: 0, shape: Shape::new(16, 2), layout: by_columns };
    let scales = [0.5f32, 2.0, 0.25, 4.0];
    let operands = Operands::new(
        MatrixRef::row_major(&a, 1, 16).expect("sixteen"),
        AnyMatrixRef::new(&stored, E::I4, place).expect("two columns of sixteen"),
    )
    .group_scales(&scales);
    let problem = operands.problem(E::F32).expect("a problem");
    assert_eq!((problem.b_group, problem.is_weight_only()), (Some(8), true));
    let c = Gemm::<Cpu>::run(&Cpu::new(), &problem, &operands).expect("a product");
    let c = c.matrix.to_vec::<f32>().expect("f32");
    // 8·(0.5 + 2) and −8·8·(0.25 + 4).
    assert_eq!(c, [20.0, -272.0]);
}

#[test]
fn group_scales_that_do_not_fit_are_refused() {
    let weights = Problem::new(2, 2, 32).factors(E::F16, E::I8);
    assert!(weights.clone().b_group(Some(16)).validate().is_ok());
    for length in [0, 4, 12] {
        assert!(matches!(
            weights.clone().b_group(Some(length)).validate(),
            Err(Error::ScalesUnsupported { .. })
        ));
    }
    assert!(matches!(
        weights.b_group(Some(24)).validate(),
        Err(Error::PartialScaleBlock { k: 32, block: 24 })
    ));
    for (a, b) in [(E::F32, E::F32), (E::I8, E::I8), (E::I8, E::I4)] {
        let problem = Problem::new(2, 2, 32).factors(a, b).b_group(Some(16));
        assert!(matches!(problem.validate(), Err(Error::ScalesUnsupported { .. })), "{a} x {b}");
    }
    for (a, b, c) in [(E::I4, E::F16, E::F32), (E::F64, E::I8, E::F64), (E::F16, E::I8, E::I8)] {
        let problem = Problem::new(2, 2, 32).elements(a, c).factors(a, b);
        assert!(matches!(problem.validate(), Err(Error::ElementTypesUnsupported { .. })));
    }

    let a = [0.5f32; 64];
    let b = [1i8; 64];
    let operands = Operands::new(
        MatrixRef::row_major(&a, 2, 32).expect("a view"),
        MatrixRef::row_major(&b, 32, 2).expect("a view"),
    );
    // Neither a whole number a column, nor one that divides K.
    for count in [0, 3, 10] {
        let scales = vec![1.0f32; count];
        assert!(matches!(
            operands.group_scales(&scales).problem(E::F32),
            Err(Error::ScaleLength { operand: Operand::GroupScalesB, .. })
        ));
    }
    let scales = [1.0f32; 4];
    let problem = operands.group_scales(&scales).problem(E::F32).expect("two groups a column");
    assert_eq!(problem.b_group, Some(16));
    let run = |operands: &Operands<'_>| Gemm::<Cpu>::run(&Cpu::new(), &problem, operands);
    assert!(run(&operands.group_scales(&scales)).is_ok());
    assert!(matches!(
        run(&operands),
        Err(Error::MissingOperand { operand: Operand::GroupScalesB, .. })
    ));
    assert!(matches!(
        run(&operands.group_scales(&scales[..3])),
        Err(Error::ScaleLength { operand: Operand::GroupScalesB, found: 3, expected: 4 })
    ));
    let codes = [127u8; 4];
    assert!(matches!(
        run(&operands.group_scales(AnyVectorRef::new(&codes, E::E8M0))),
        Err(Error::ElementTypeMismatch { operand: Operand::GroupScalesB, .. })
    ));
    let none = problem.clone().b_group(None);
    assert!(matches!(
        Gemm::<Cpu>::run(&Cpu::new(), &none, &operands.group_scales(&scales)),
        Err(Error::UnexpectedOperand { operand: Operand::GroupScalesB, .. })
    ));
}

/// The bound must tell a wrong scale from a right one.
#[test]
fn the_oracle_finds_a_scale_of_the_wrong_group() {
    let problem = Problem::new(3, 4, 64).factors(E::F32, E::I4).b_group(Some(32));
    let case = Case::new(problem, Values::Uniform, 5);
    let mut wrong = case.clone();
    let (first, rest) = wrong.b_group_scales.split_at_mut(f32::TYPE.size());
    first.swap_with_slice(&mut rest[..f32::TYPE.size()]);
    let after = execute(&wrong, false).expect("it runs");
    let found = AnyMatrixRef::new(&after, E::F32, case.c.placement()).expect("C");
    let comparison = reference(&case.problem, &case.operands()).expect("valid").compare(&found);
    assert_eq!(comparison.mismatches, 3, "column 0 of three rows: {comparison}");
}
