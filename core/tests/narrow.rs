//! fp8, fp4, i4 and scales of rows, columns and blocks: the CPU backend against the oracle, packed
//! and plain, and what is refused.

use lapidary_core::element::{pack_f64, read_f64};
use lapidary_core::oracle::{freivalds, reference};
use lapidary_core::testing::{Arrangement, Case, Values, block_on};
use lapidary_core::{
    Activation, AnyMatrixRef, AnyVectorRef, Args, BOperand, Backend, Cpu, CpuTensor, E8M0,
    ElementType, Error, F8E4M3, F8E4M3Fnuz, Gemm, Layout, MatrixRef, Operand, Operands, Placement,
    PlanOptions, Problem, Shape, TensorSlice,
};

use ElementType as E;

/// Arrangements of an input.
const INPUTS: usize = Arrangement::INPUTS.len();

/// Every pair of narrow operand types, and whether it has block scales.
fn narrow_pairs() -> Vec<(E, E, bool)> {
    let mut pairs = Vec::new();
    for a in E::ALL {
        for b in E::ALL {
            for blocks in [false, true] {
                let problem = Problem::new(1, 1, 32).factors(a, b).block_scales(blocks);
                let narrow = a.is_fp8() || a == E::F4E2M1 || (a, b) == (E::I8, E::I4);
                if narrow && problem.validate().is_ok() {
                    pairs.push((a, b, blocks));
                }
            }
        }
    }
    pairs
}

/// A problem whose packed operands have lines of whole bytes.
fn dense(m: usize, n: usize, k: usize, (a, b, blocks): (E, E, bool), c: E) -> Problem {
    let mut problem = Problem::new(m, n, k).factors(a, b).block_scales(blocks);
    problem.c = c;
    problem
}

fn outputs(pair: (E, E, bool)) -> Vec<E> {
    let all = [E::F32, E::F16, E::BF16, E::I32];
    all.into_iter().filter(|&c| dense(1, 1, 32, pair, c).validate().is_ok()).collect()
}

fn tensor(device: &Cpu, element: E, len: usize, bytes: &[u8]) -> Result<CpuTensor, Error> {
    let tensor = device.alloc(element, len)?;
    device.upload(&tensor, 0, bytes)?;
    Ok(tensor)
}

/// C's storage after a run with B plain, and after one with B packed.
fn execute(device: &Cpu, case: &Case) -> Result<[Vec<u8>; 2], Error> {
    let problem = &case.problem;
    let plan = Gemm::<Cpu>::plan(device, problem, &PlanOptions::default())?;
    let a = tensor(device, case.a.element(), case.a.len(), case.a.bytes())?;
    let b = tensor(device, case.b.element(), case.b.len(), case.b.bytes())?;
    let bias = tensor(device, problem.bias_element(), problem.n, &case.bias)?;
    let row = tensor(device, E::F32, case.row_scale.len() / 4, &case.row_scale)?;
    let col = tensor(device, E::F32, case.col_scale.len() / 4, &case.col_scale)?;
    let blocks_a = tensor(device, E::E8M0, case.a_block_scales.len(), &case.a_block_scales)?;
    let blocks_b = tensor(device, E::E8M0, case.b_block_scales.len(), &case.b_block_scales)?;
    let at_a = TensorSlice::new(&a, case.a.placement().offset);
    let at_b = TensorSlice::new(&b, case.b.placement().offset);
    let packed = plan.pack_b(at_b)?;
    let run = |packed_b| {
        let c = tensor(device, case.c.element(), case.c.len(), case.c.bytes())?;
        let mut args = Args::new(at_a, at_b, TensorSlice::new(&c, case.c.placement().offset));
        if packed_b {
            args.b = BOperand::Packed(&packed);
        }
        if problem.bias {
            args = args.bias(&bias);
        }
        if problem.row_scale {
            args = args.row_scale(&row);
        }
        if problem.col_scale {
            args = args.col_scale(&col);
        }
        if problem.block_scales {
            args = args.block_scales(&blocks_a, &blocks_b);
        }
        plan.execute(&args)?;
        block_on(device.download(&c))
    };
    Ok([run(false)?, run(true)?])
}

fn check(device: &Cpu, case: &Case, exact: bool, what: &str) {
    let results = execute(device, case).unwrap_or_else(|error| panic!("{what}: {error}"));
    let reference = reference(&case.problem, &case.operands())
        .unwrap_or_else(|error| panic!("{what}: {error}"))
        .keeping_subnormals();
    for (after, b) in results.iter().zip(["plain", "packed"]) {
        assert_eq!(case.c.broken_canaries(after), [], "{what}, {b} B");
        let found = AnyMatrixRef::new(after, case.c.element(), case.c.placement())
            .expect("the storage kept its size");
        let comparison =
            if exact { reference.compare_exact(&found) } else { reference.compare(&found) };
        assert!(comparison.passed(), "{what}, {b} B: {comparison}");
        assert_eq!(comparison.unjudged, 0, "{what}");
    }
}

#[test]
fn the_supported_pairs_are_those_documented() {
    let pairs = narrow_pairs();
    // Two flavours of 2 × 2, OCP ones and fp4 with block scales 3 × 3, and i8 with i4.
    assert_eq!(pairs.len(), 4 + 4 + 9 + 1);
    let combinations: usize = pairs.iter().map(|&pair| outputs(pair).len()).sum();
    assert_eq!(combinations, 17 * 3 + 4);
}

#[test]
fn every_pair_is_bit_exact_on_small_integers() {
    let device = Cpu::new();
    let factors = [(1.0, 0.0), (2.0, 1.0), (-1.0, 3.0), (0.0, 2.0)];
    let mut count = 0;
    for pair in narrow_pairs() {
        for c in outputs(pair) {
            for (m, n, k) in
                [(1, 1, 32), (7, 9, 64), (65, 70, 96), (33, 1, 544), (1, 66, 1056), (5, 4, 0)]
            {
                // Without block scales K is odd.
                let k = if pair.2 || k == 0 { k } else { k + 1 };
                let (alpha, beta) = factors[count % factors.len()];
                let float = c != E::I32;
                let problem = dense(m, n, k, pair, c)
                    .batch(1 + count % 3)
                    .alpha(alpha)
                    .beta(beta)
                    .bias(count % 2 == 0)
                    .row_scale(float && count % 3 != 1)
                    .col_scale(float && count % 4 < 2)
                    .activation([Activation::None, Activation::Relu][count / 5 % 2]);
                let arrangements = [
                    Arrangement::INPUTS[count % INPUTS],
                    Arrangement::INPUTS[count / INPUTS % INPUTS],
                    Arrangement::OUTPUTS[count % 8],
                ];
                let [a, b, out] = arrangements;
                let case =
                    Case::new(problem, Values::SmallIntegers(3), count as u64).arranged(a, b, out);
                check(
                    &device,
                    &case,
                    true,
                    &format!("{pair:?} {arrangements:?} {:?}", case.problem),
                );
                count += 1;
            }
        }
    }
    assert_eq!(count, 55 * 6);
}

#[test]
fn every_arrangement_of_packed_operands_gives_the_same_product() {
    let device = Cpu::new();
    for pair in [(E::I8, E::I4, false), (E::F4E2M1, E::F4E2M1, true), (E::F8E4M3, E::F4E2M1, true)]
    {
        for a in Arrangement::INPUTS {
            for b in Arrangement::INPUTS {
                for out in [Arrangement::Dense, Arrangement::PaddedColMajor] {
                    let problem =
                        dense(7, 5, 64, pair, E::F32).batch(2).row_scale(true).col_scale(true);
                    let case = Case::new(problem, Values::SmallIntegers(4), 3).arranged(a, b, out);
                    check(&device, &case, true, &format!("{pair:?} {a:?} {b:?} {out:?}"));
                }
            }
        }
    }
}

#[test]
fn random_data_with_scales_stays_within_the_bound() {
    let device = Cpu::new();
    for pair in narrow_pairs() {
        for c in outputs(pair).into_iter().filter(|&c| c != E::I32) {
            for values in [Values::Uniform, Values::Positive, Values::Exponents(4)] {
                let problem = dense(20, 18, 608, pair, c)
                    .alpha(0.37)
                    .beta(-0.61)
                    .bias(true)
                    .row_scale(true)
                    .col_scale(true)
                    .activation(Activation::Silu);
                let case = Case::new(problem, values, 77).arranged(
                    Arrangement::Padded,
                    Arrangement::PaddedColMajor,
                    Arrangement::Dense,
                );
                check(&device, &case, false, &format!("{pair:?} -> {c} {values:?}"));
            }
        }
    }
}

/// Scaled elements that f32 cannot hold, whose product is an ordinary number; and the same the
/// other way round.
#[test]
fn block_scales_at_the_ends_of_their_range_cancel() {
    let ones = pack_f64(E::F4E2M1, &[6.0; 32]);
    let row = Placement { offset: 0, shape: Shape::new(1, 32), layout: Layout::row_major(1, 32) };
    let a = AnyMatrixRef::new(&ones, E::F4E2M1, row).unwrap();
    for (sa, sb) in [(254, 0), (0, 254), (127, 127), (200, 54)] {
        let (sa, sb) = ([E8M0::from_bits(sa)], [E8M0::from_bits(sb)]);
        let operands = Operands::new(a, a.transposed()).block_scales(&sa, &sb);
        let problem = operands.problem(E::F32).unwrap();
        assert!(problem.block_scales);
        let found = Gemm::<Cpu>::run(&Cpu::new(), &problem, &operands).unwrap().matrix;
        assert_eq!(found.to_vec::<f32>().unwrap(), [36.0 * 32.0]);
    }
    let (nan, one) = ([E8M0::NAN], [E8M0::ONE]);
    let operands = Operands::new(a, a.transposed()).block_scales(&nan, &one);
    let problem = operands.problem(E::F32).unwrap();
    let found = Gemm::<Cpu>::run(&Cpu::new(), &problem, &operands).unwrap().matrix;
    assert!(found.to_vec::<f32>().unwrap()[0].is_nan());
    assert!(reference(&problem, &operands).unwrap().compare(&found.as_ref()).passed());
}

#[test]
fn each_block_and_line_has_its_own_scale() {
    // Ones: element (i, j) is r_i · s_j · Σ over blocks of 32 · 2^(a scale) · 2^(b scale).
    let k = 64;
    let ones: Vec<F8E4M3> = vec![lapidary_core::Element::from_f64(1.0); 2 * k];
    let a_scales = [128, 127, 126, 130].map(E8M0::from_bits); // row 0: 2, 1; row 1: ½, 8
    let b_scales = [127, 127, 129, 127].map(E8M0::from_bits); // column 0: 1, 1; column 1: 4, 1
    let (rows, cols) = ([1.0f32, 10.0], [1.0f32, 100.0]);
    let operands = Operands::new(
        MatrixRef::row_major(&ones, 2, k).unwrap(),
        MatrixRef::row_major(&ones, k, 2).unwrap(),
    )
    .block_scales(&a_scales, &b_scales)
    .row_scale(&rows)
    .col_scale(&cols);
    let problem = operands.problem(E::F32).unwrap();
    let found = Gemm::<Cpu>::run(&Cpu::new(), &problem, &operands).unwrap().matrix;
    let expected = [3.0, 9.0 * 100.0, 8.5 * 10.0, 10.0 * 1000.0].map(|x: f32| 32.0 * x);
    assert_eq!(found.to_vec::<f32>().unwrap(), expected);
    let oracle = reference(&problem, &operands).unwrap();
    assert_eq!(oracle.values(), expected.map(f64::from));
}

#[test]
fn a_planted_error_in_a_scale_is_caught() {
    for pair in [(E::F8E4M3, E::F4E2M1, true), (E::F8E5M2Fnuz, E::F8E4M3Fnuz, false)] {
        let problem = dense(6, 8, 64, pair, E::F32).row_scale(true).col_scale(true);
        let case = Case::new(problem, Values::Uniform, 5);
        let expected = reference(&case.problem, &case.operands()).unwrap();
        let mut wrong = case.clone();
        let blocks = !wrong.a_block_scales.is_empty();
        if blocks {
            wrong.a_block_scales[3] += 1; // row 1, second block
        } else {
            wrong.row_scale[4..8].copy_from_slice(&3.0f32.to_ne_bytes());
        }
        let result = Gemm::<Cpu>::run(&Cpu::new(), &wrong.problem, &wrong.operands()).unwrap();
        let comparison = expected.compare(&result.matrix.as_ref());
        assert_eq!(comparison.mismatches, 8, "row 1: {comparison}");
    }
}

#[test]
fn unread_factors_leave_their_scales_unread() {
    let mut case = Case::new(
        dense(3, 4, 32, (E::F8E4M3, E::F8E4M3, true), E::F32)
            .alpha(0.0)
            .bias(true)
            .row_scale(true)
            .col_scale(true),
        Values::SmallIntegers(3),
        9,
    );
    for scale in case.row_scale.chunks_exact_mut(4) {
        scale.copy_from_slice(&f32::NAN.to_ne_bytes());
    }
    case.b_block_scales.fill(0xff);
    check(&Cpu::new(), &case, true, "alpha = 0");
}

#[test]
fn scales_are_checked_with_their_numbers() {
    let fp8: Vec<F8E4M3Fnuz> = vec![F8E4M3Fnuz::MAX; 64 * 64];
    let matrix = |m, n| MatrixRef::row_major(&fp8, m, n).unwrap();
    let (short, right) = ([1.0f32; 3], [1.0f32; 4]);
    let run = |operands: &Operands<'_>, problem: &Problem| {
        Gemm::<Cpu>::run(&Cpu::new(), problem, operands).map(|_| ())
    };
    let plain = Operands::new(matrix(4, 32), matrix(32, 4));
    let scaled = plain.row_scale(&short).col_scale(&right);
    let problem = scaled.problem(E::BF16).unwrap();
    assert!(matches!(
        run(&scaled, &problem),
        Err(Error::ScaleLength { operand: Operand::RowScale, found: 3, expected: 4 })
    ));
    assert!(matches!(
        run(&plain, &problem),
        Err(Error::MissingOperand { operand: Operand::RowScale, .. })
    ));
    assert!(matches!(
        run(&plain.row_scale(&right), &plain.problem(E::F32).unwrap()),
        Err(Error::UnexpectedOperand { operand: Operand::RowScale, .. })
    ));
    assert!(matches!(
        run(&scaled.row_scale(&[1.0f64; 4]), &problem),
        Err(Error::ElementTypeMismatch { operand: Operand::RowScale, found: E::F64, .. })
    ));
    let one = [E8M0::ONE; 4];
    assert!(matches!(
        run(&plain.block_scales(&one, &one), &plain.problem(E::F32).unwrap().block_scales(true)),
        Err(Error::ScalesUnsupported { scales: "block scales", a: E::F8E4M3Fnuz, .. })
    ));
    let partial = Problem::new(4, 4, 48).elements(E::F8E4M3, E::F32).block_scales(true);
    let error = partial.validate().unwrap_err();
    assert!(matches!(error, Error::PartialScaleBlock { k: 48, block: 32 }));
    assert!(error.to_string().contains("to K = 64"), "{error}");
    for bad in [
        Problem::new(1, 1, 32).factors(E::F8E4M3, E::F8E4M3Fnuz),
        Problem::new(1, 1, 32).factors(E::F4E2M1, E::F4E2M1),
        Problem::new(1, 1, 32).factors(E::I4, E::I4),
        Problem::new(1, 1, 32).factors(E::I4, E::I8),
        Problem::new(1, 1, 32).elements(E::I8, E::I8).factors(E::I8, E::I4),
        Problem::new(1, 1, 32).elements(E::F8E4M3, E::I32),
        Problem::new(1, 1, 32).elements(E::F32, E::F8E4M3),
        Problem::new(1, 1, 32).factors(E::E8M0, E::E8M0),
    ] {
        assert!(matches!(bad.validate(), Err(Error::ElementTypesUnsupported { .. })), "{bad:?}");
    }
    for (ab, c) in [(E::I8, E::I32), (E::F64, E::F64)] {
        let bad = Problem::new(2, 2, 2).elements(ab, c).row_scale(true);
        assert!(matches!(bad.validate(), Err(Error::ScalesUnsupported { .. })));
    }
    let wide = Problem::new(1, 2, 2_097_152).elements(E::I8, E::I32).factors(E::I8, E::I4);
    assert!(matches!(
        wide.validate(),
        Err(Error::AccumulatorOverflow { k: 2_097_152, limit: 2_097_151 })
    ));
    let case = Case::new(
        Problem::new(2, 2, 2).elements(E::F8E4M3, E::F32).row_scale(true),
        Values::SmallIntegers(1),
        1,
    );
    let result = Gemm::<Cpu>::run(&Cpu::new(), &case.problem, &case.operands()).unwrap();
    assert!(matches!(
        freivalds(&case.problem, &case.operands(), &result.matrix.as_ref(), 1, 1),
        Err(Error::ScalesUnavailable { .. })
    ));
}

#[test]
fn packed_views_keep_lines_on_whole_bytes() {
    let bytes = [0u8; 32];
    let view = |offset, rows, cols, row_stride, col_stride| {
        let layout = Layout { row_stride, col_stride, batch_stride: 0 };
        let place = Placement { offset, shape: Shape::new(rows, cols), layout };
        AnyMatrixRef::new(&bytes, E::I4, place).map(|_| ())
    };
    assert!(view(0, 4, 5, 6, 1).is_ok());
    assert!(view(2, 5, 4, 1, 6).is_ok());
    assert!(view(0, 1, 64, 64, 1).is_ok());
    assert!(matches!(view(0, 1, 65, 66, 1), Err(Error::ViewOutOfBounds { reached: 64, .. })));
    for (bad, value) in [
        (view(1, 2, 2, 2, 1), 1),
        (view(0, 3, 5, 5, 1), 5),
        (view(0, 5, 3, 1, 5), 5),
        (view(0, 2, 3, 8, 2), 2),
    ] {
        match bad {
            Err(Error::PackedView { element: E::I4, value: found, .. }) => assert_eq!(found, value),
            other => panic!("{other:?}"),
        }
    }
    let zeros = |cols| lapidary_core::Matrix::zeros(E::I4, Shape::new(2, cols));
    assert!(matches!(zeros(3), Err(Error::PackedView { value: 3, .. })));
    assert_eq!(zeros(4).map(|matrix| matrix.bytes().len()).ok(), Some(4));
    let odd = Problem::new(2, 3, 4).factors(E::I8, E::I4);
    assert!(matches!(odd.validate(), Err(Error::PackedView { value: 3, .. })));

    let device = Cpu::new();
    let tensor = device.alloc(E::I4, 5).unwrap();
    device.upload(&tensor, 2, &[0x21, 0x03]).unwrap();
    assert_eq!(block_on(device.download(&tensor)).unwrap(), [0, 0x21, 0x03]);
    assert!(matches!(device.upload(&tensor, 1, &[0]), Err(Error::PackedView { value: 1, .. })));
    assert!(matches!(device.upload(&tensor, 2, &[0; 3]), Err(Error::ViewOutOfBounds { .. })));
    let values: Vec<f64> = (0..16).map(|code| read_f64(E::I4, &[code], 0)).collect();
    let expected: Vec<f64> = (0..8).chain(-8..0).map(f64::from).collect();
    assert_eq!(values, expected);
    assert_eq!(AnyVectorRef::new(&[0x21, 0x43], E::I4).get(3), 4.0);
}

#[test]
fn scales_that_lie_in_c_are_refused() {
    let device = Cpu::new();
    let problem = Problem::new(4, 4, 32).elements(E::F8E4M3, E::F32).row_scale(true);
    let plan = Gemm::<Cpu>::plan(&device, &problem, &PlanOptions::default()).unwrap();
    let factor = device.alloc(E::F8E4M3, 128).unwrap();
    let c = device.alloc(E::F32, 20).unwrap();
    let args = |at| Args::new(&factor, &factor, &c).row_scale(TensorSlice::new(&c, at));
    assert!(matches!(
        plan.execute(&args(13)),
        Err(Error::Aliasing { operand: Operand::RowScale, .. })
    ));
    assert!(plan.execute(&args(16)).is_ok());
    assert!(matches!(
        plan.execute(&args(17)),
        Err(Error::ScaleLength { operand: Operand::RowScale, found: 3, expected: 4 })
    ));
}
