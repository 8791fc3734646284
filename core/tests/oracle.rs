//! The oracle against a second opinion, and against results with planted errors.

use lapidary_core::oracle::{
    Position, Reference, freivalds, reference, reference_at, sample_positions,
};
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{Activation, AnyMatrixRef, ElementType, Error, Matrix, Problem};

/// The reference's values, rounded to the output type, as a dense matrix: a correct result.
fn correct(case: &Case, reference: &Reference) -> Matrix {
    let mut matrix =
        Matrix::zeros(case.problem.c, case.problem.c_shape()).expect("tests use small matrices");
    let mut view = matrix.as_mut();
    for (i, &value) in reference.values().iter().enumerate() {
        lapidary_core::element::write_f64(case.problem.c, view.bytes_mut(), i, value);
    }
    matrix
}

fn set(matrix: &mut Matrix, index: usize, value: f64) {
    let element = matrix.element();
    lapidary_core::element::write_f64(element, matrix.as_mut().bytes_mut(), index, value);
}

fn get(matrix: &Matrix, index: usize) -> f64 {
    lapidary_core::element::read_f64(matrix.element(), matrix.bytes(), index)
}

#[test]
fn a_dropped_tail_at_large_k_is_caught_by_the_exact_tier_only() {
    // The last of 65,536 products is missing. The γ_K bound allows it, equality does not.
    let k = 65_536;
    let case = Case::new(Problem::new(2, 2, k), Values::Positive, 1);
    let tolerant = reference(&case.problem, &case.operands()).unwrap();
    let short = |case: &Case, at: usize| {
        let (row, col) = (at / 2, at % 2);
        (0..k - 1).map(|i| case.a.view().get(0, row, i) * case.b.view().get(0, i, col)).sum::<f64>()
    };
    let mut result = correct(&case, &tolerant);
    set(&mut result, 3, short(&case, 3));
    assert!(tolerant.compare(&result.as_ref()).passed(), "why the exact tier exists");

    let ones = Case::new(Problem::new(2, 2, k), Values::SmallIntegers(1), 3);
    let exact = reference(&ones.problem, &ones.operands()).unwrap();
    let mut result = correct(&ones, &exact);
    assert!(exact.compare_exact(&result.as_ref()).passed());
    // A random last product may be 0; drop the last one that is not.
    let last =
        (0..k).rev().find(|&i| ones.a.view().get(0, 1, i) * ones.b.view().get(0, i, 1) != 0.0);
    let last = last.unwrap();
    let product = ones.a.view().get(0, 1, last) * ones.b.view().get(0, last, 1);
    let value = get(&result, 3) - product;
    set(&mut result, 3, value);
    let comparison = exact.compare_exact(&result.as_ref());
    assert_eq!(comparison.mismatches, 1, "{comparison}");
    assert_eq!(comparison.worst, Some(Position { batch: 0, row: 1, col: 1 }));
    let report = freivalds(&ones.problem, &ones.operands(), &result.as_ref(), 1, 5).unwrap();
    assert_eq!((report.wrong_rows, report.first.map(|p| p.row)), (1, Some(1)), "{report}");
}

#[test]
fn one_wrong_element_and_every_non_finite_value_is_caught() {
    let problem = Problem::new(9, 7, 33).batch(2).beta(0.5).bias(true);
    let case = Case::new(problem, Values::Uniform, 4);
    let reference = reference(&case.problem, &case.operands()).unwrap();
    let right = correct(&case, &reference);
    let comparison = reference.compare(&right.as_ref());
    assert!(comparison.passed(), "{comparison}");
    assert_eq!(comparison.checked, 2 * 9 * 7);
    for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-3] {
        for index in [0, 62, 125] {
            let mut result = right.clone();
            let value = if wrong == 1e-3 { get(&right, index) + wrong } else { wrong };
            set(&mut result, index, value);
            for comparison in
                [reference.compare(&result.as_ref()), reference.compare_exact(&result.as_ref())]
            {
                assert_eq!(comparison.mismatches, 1, "{wrong} at {index}: {comparison}");
                let at = comparison.worst.unwrap();
                assert_eq!((at.batch * 9 + at.row) * 7 + at.col, index);
                assert!(!comparison.passed() && format!("{comparison}").starts_with("FAILED"));
            }
        }
    }
}

#[test]
fn a_finite_value_where_nan_belongs_is_caught() {
    let mut case = Case::new(Problem::new(3, 3, 3), Values::Uniform, 4);
    let index = case.a.placement().offset;
    lapidary_core::element::write_f64(ElementType::F32, case.a.bytes_mut(), index, f64::NAN);
    let reference = reference(&case.problem, &case.operands()).unwrap();
    let mut result = correct(&case, &reference);
    assert!(reference.compare(&result.as_ref()).passed());
    set(&mut result, 1, 0.0);
    assert_eq!(reference.compare(&result.as_ref()).mismatches, 1);
    assert_eq!(reference.compare_exact(&result.as_ref()).mismatches, 1);
    let lenient = reference.with_unspecified_non_finite();
    let comparison = lenient.compare(&result.as_ref());
    assert_eq!((comparison.mismatches, comparison.unjudged), (0, 3));
    set(&mut result, 3, f64::NAN);
    assert_eq!(lenient.compare(&result.as_ref()).mismatches, 1, "rows without NaN are judged");
}

#[test]
fn infinities_keep_their_sign_and_relu_of_minus_infinity_is_zero() {
    for (activation, expected) in [(Activation::None, f64::NEG_INFINITY), (Activation::Relu, 0.0)] {
        let problem = Problem::new(1, 1, 1).activation(activation);
        let mut case = Case::new(problem, Values::Positive, 2);
        case.a.fill(f64::NEG_INFINITY);
        let reference = reference(&case.problem, &case.operands()).unwrap();
        assert_eq!(reference.values(), [expected]);
        let mut result = correct(&case, &reference);
        assert!(reference.compare(&result.as_ref()).passed());
        for wrong in [f64::INFINITY, 1.0, f64::NAN] {
            set(&mut result, 0, wrong);
            assert!(!reference.compare(&result.as_ref()).passed(), "{activation} {wrong}");
        }
    }
}

#[test]
fn overflow_of_the_output_type_wants_infinity_and_only_there() {
    for (value, right, wrong) in [
        (70_000.0, f64::INFINITY, 65_504.0),
        (-70_000.0, f64::NEG_INFINITY, f64::INFINITY),
        (60_000.0, 60_000.0, f64::INFINITY),
    ] {
        let problem = Problem::new(1, 1, 1).elements(ElementType::F32, ElementType::F16);
        let mut case = Case::new(problem, Values::Positive, 2);
        case.a.fill(value);
        case.b.fill(1.0);
        let reference = reference(&case.problem, &case.operands()).unwrap();
        let mut result = correct(&case, &reference);
        set(&mut result, 0, right);
        assert!(reference.compare(&result.as_ref()).passed());
        assert!(reference.compare_exact(&result.as_ref()).passed());
        set(&mut result, 0, wrong);
        assert!(!reference.compare(&result.as_ref()).passed(), "{value} as {wrong}");
        assert!(!reference.compare_exact(&result.as_ref()).passed());
    }
}

#[test]
fn overflow_of_finite_operands_allows_what_some_order_leads_to_and_nothing_else() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let relu = |k: usize| Problem::new(1, 1, k).activation(Activation::Relu);
    // Products of a row of A with ones; results judged right, not judged, and wrong.
    for (problem, row, right, unjudged, wrong) in [
        // Beyond f32 by more than the bound, with one sign: infinity is the only result.
        (
            Problem::new(1, 1, 2),
            &[3e38, 3e38][..],
            &[inf][..],
            &[][..],
            &[-inf, nan, 3e38, 0.0][..],
        ),
        (Problem::new(1, 1, 2), &[-3e38, -3e38], &[-inf], &[], &[inf, nan, -3e38]),
        // Beyond it, and back: the order decides, but no −∞ meets the +∞.
        (Problem::new(1, 1, 3), &[3e38, 3e38, -3e38], &[3e38], &[inf], &[-inf, nan, 1e38]),
        // Both sides overflow.
        (
            Problem::new(1, 1, 4),
            &[3e38, 3e38, -3e38, -3e38],
            &[0.0],
            &[inf, -inf, nan],
            &[3e38, 1e36],
        ),
        // A negative alpha turns the infinity; one that counts as zero makes NaN of it.
        (Problem::new(1, 1, 2).alpha(-0.5), &[3e38, 3e38], &[-3e38], &[-inf], &[inf, nan, 3e38]),
        (Problem::new(1, 1, 2).alpha(1e-40), &[3e38, 3e38], &[0.06], &[inf, nan], &[-inf, 1.0]),
        // relu of −∞ is 0.
        (relu(3), &[-3e38, -3e38, 3.2e38], &[0.0], &[], &[inf, nan, 3e38]),
        // No overflow: nothing is excused.
        (Problem::new(1, 1, 2), &[3e38, -3e38], &[0.0], &[], &[inf, -inf, nan]),
        // The finite terms beside an infinity reach the other one.
        (Problem::new(1, 1, 3), &[inf, -3e38, -3e38], &[inf], &[nan], &[-inf, 0.0]),
        (Problem::new(1, 1, 2), &[inf, -3e38], &[inf], &[], &[nan, -inf]),
    ] {
        let mut case = Case::new(problem, Values::Positive, 2);
        case.b.fill(1.0);
        let offset = case.a.placement().offset;
        for (index, &value) in row.iter().enumerate() {
            lapidary_core::element::write_f64(
                ElementType::F32,
                case.a.bytes_mut(),
                offset + index,
                value,
            );
        }
        let reference = reference(&case.problem, &case.operands()).unwrap();
        let compare = |value: f64| {
            let mut result = correct(&case, &reference);
            set(&mut result, 0, value);
            reference.compare(&result.as_ref())
        };
        for &value in right {
            // 0.06 stands for f32's nearest to a product with a rounded, subnormal alpha.
            let value = if value == 0.06 { reference.values()[0] } else { value };
            let comparison = compare(value);
            assert!(comparison.passed() && comparison.unjudged == 0, "{row:?}: {comparison}");
        }
        for &value in unjudged {
            let comparison = compare(value);
            assert_eq!((comparison.mismatches, comparison.unjudged), (0, 1), "{row:?} {value}");
            assert_eq!(comparison.why_unjudged.overflow, 1);
            assert!(!comparison.passed() && comparison.to_string().starts_with("NOTHING CHECKED"));
        }
        for &value in wrong {
            assert_eq!(compare(value).mismatches, 1, "{row:?}: {value} passes");
        }
    }
}

#[test]
fn an_integer_product_that_overflows_in_the_epilogue_is_excused_too() {
    // 127² · 1e35 is beyond f32, and C brings it back.
    let problem =
        Problem::new(1, 1, 1).elements(ElementType::I8, ElementType::F32).alpha(1e35).beta(-4.0);
    let mut case = Case::new(problem, Values::Positive, 2);
    case.a.fill(127.0);
    case.b.fill(127.0);
    case.c.fill(3.2e38);
    let reference = reference(&case.problem, &case.operands()).unwrap();
    for (value, mismatches, unjudged) in
        [(reference.values()[0], 0, 0), (f64::INFINITY, 0, 1), (1e36, 1, 0)]
    {
        let mut result = correct(&case, &reference);
        set(&mut result, 0, value);
        let comparison = reference.compare(&result.as_ref());
        assert_eq!((comparison.mismatches, comparison.unjudged), (mismatches, unjudged), "{value}");
    }
}

#[test]
fn what_the_oracle_cannot_say_has_its_own_reason() {
    let mut case = Case::new(
        Problem::new(1, 1, 2).elements(ElementType::F64, ElementType::F64),
        Values::Positive,
        2,
    );
    case.a.fill(1e308);
    case.b.fill(10.0);
    let reference = reference(&case.problem, &case.operands()).unwrap();
    let comparison = reference.compare(&correct(&case, &reference).as_ref());
    assert_eq!((comparison.unjudged, comparison.why_unjudged.oracle_overflow), (1, 1));
    assert!(!comparison.passed() && comparison.judged_nothing());
    assert!(comparison.to_string().contains("overflow float64"), "{comparison}");
}

#[test]
fn a_flushed_subnormal_is_allowed_unless_the_device_keeps_them() {
    let mut case = Case::new(Problem::new(1, 1, 1), Values::Positive, 2);
    case.a.fill(1e-39);
    case.b.fill(1.0);
    let reference = reference(&case.problem, &case.operands()).unwrap();
    let mut result = correct(&case, &reference);
    let strict = reference.clone().keeping_subnormals();
    assert!(strict.compare(&result.as_ref()).passed());
    set(&mut result, 0, 0.0);
    assert!(reference.compare(&result.as_ref()).passed());
    assert!(!strict.compare(&result.as_ref()).passed());
}

#[test]
fn a_result_of_another_shape_or_type_never_passes() {
    let case = Case::new(Problem::new(2, 3, 4), Values::Uniform, 1);
    let reference = reference(&case.problem, &case.operands()).unwrap();
    let right = correct(&case, &reference);
    assert!(!reference.compare(&right.as_ref().transposed()).passed());
    let other = Matrix::zeros(ElementType::F16, case.problem.c_shape()).unwrap();
    assert!(!reference.compare(&other.as_ref()).passed());
}

#[test]
fn integer_results_are_exact_modulo_two_to_the_32() {
    let problem = Problem::new(3, 4, 5)
        .elements(ElementType::I8, ElementType::I32)
        .alpha(1_000_003.0)
        .beta(-65_537.0)
        .bias(true);
    let case = Case::new(problem, Values::Uniform, 8);
    let reference = reference(&case.problem, &case.operands()).unwrap();
    for (&at, &value) in reference.positions().iter().zip(reference.values()) {
        let mut sum = 0i32;
        for k in 0..5 {
            let a = case.a.view().get(0, at.row, k) as i32;
            sum = sum.wrapping_add(a.wrapping_mul(case.b.view().get(0, k, at.col) as i32));
        }
        let c = case.c.view().get(0, at.row, at.col) as i32;
        let bias = i32::from_le_bytes(case.bias[at.col * 4..][..4].try_into().unwrap());
        let expected =
            sum.wrapping_mul(1_000_003).wrapping_add(c.wrapping_mul(-65_537)).wrapping_add(bias);
        assert_eq!(value, f64::from(expected));
        assert_eq!(reference.bound(0), 0.0);
    }
    let mut result = correct(&case, &reference);
    assert!(reference.compare(&result.as_ref()).passed());
    let off = get(&result, 5) + 1.0;
    set(&mut result, 5, off);
    assert_eq!(reference.compare(&result.as_ref()).mismatches, 1);
    let report = freivalds(&case.problem, &case.operands(), &result.as_ref(), 2, 1).unwrap();
    assert_eq!(report.wrong_rows, 1);
}

#[test]
fn a_second_oracle_agrees_within_its_own_bound() {
    // matrixmultiply sums in f64 in its own order, blocked and fused; alpha and beta included.
    for (m, n, k, values) in [
        (17, 13, 300, Values::Uniform),
        (5, 64, 2000, Values::Exponents(20)),
        (64, 3, 1, Values::Positive),
    ] {
        let problem = Problem::new(m, n, k)
            .elements(ElementType::F64, ElementType::F64)
            .alpha(-1.25)
            .beta(0.75);
        let case = Case::new(problem, values, 11).arranged(
            Arrangement::Dense,
            Arrangement::ColMajor,
            Arrangement::Dense,
        );
        let reference = reference(&case.problem, &case.operands()).unwrap();
        let mut c: Vec<f64> = bytemuck::pod_collect_to_vec(case.c.bytes());
        let a: Vec<f64> = bytemuck::pod_collect_to_vec(case.a.bytes());
        let b: Vec<f64> = bytemuck::pod_collect_to_vec(case.b.bytes());
        let (pa, pb) = (case.a.placement(), case.b.placement());
        // SAFETY: the pointers are those of the placements' first elements, in vectors that hold
        // every element of the views; c is dense m×n.
        unsafe {
            matrixmultiply::dgemm(
                m,
                k,
                n,
                -1.25,
                a.as_ptr().add(pa.offset),
                pa.layout.row_stride,
                pa.layout.col_stride,
                b.as_ptr().add(pb.offset),
                pb.layout.row_stride,
                pb.layout.col_stride,
                0.75,
                c.as_mut_ptr(),
                n as isize,
                1,
            );
        }
        let found =
            AnyMatrixRef::new(bytemuck::cast_slice(&c), ElementType::F64, case.c.placement())
                .unwrap();
        let comparison = reference.compare(&found);
        assert!(comparison.passed(), "{m}x{n}x{k}: {comparison}");
        // The oracle's own sequential sum: with one exponent its error does not grow with K.
        assert!(comparison.max_units < 8.0 || values == Values::Exponents(20), "{comparison}");
        // An f32 result of the same sums is far outside: the bound is not merely generous.
        for value in &mut c {
            *value = f64::from(*value as f32);
        }
        let rounded =
            AnyMatrixRef::new(bytemuck::cast_slice(&c), ElementType::F64, case.c.placement())
                .unwrap();
        assert!(!reference.compare(&rounded).passed());
    }
}

#[test]
fn the_bound_holds_for_f32_in_its_worst_order_and_catches_f16_accumulation() {
    let case = Case::new(Problem::new(8, 8, 500), Values::Uniform, 21);
    let reference = reference(&case.problem, &case.operands()).unwrap();
    let mut in_f32 = correct(&case, &reference);
    let mut in_f16 = in_f32.clone();
    for (i, at) in reference.positions().iter().enumerate() {
        let mut narrow = 0.0f32;
        let mut half = 0.0f64;
        for k in 0..500 {
            let product = case.a.view().get(0, at.row, k) * case.b.view().get(0, k, at.col);
            narrow += product as f32;
            half = lapidary_core::f16::from_f64(half + product).to_f64();
        }
        set(&mut in_f32, i, f64::from(narrow));
        set(&mut in_f16, i, half);
    }
    let good = reference.compare(&in_f32.as_ref());
    assert!(good.passed() && good.max_units < 8.0, "{good}");
    let bad = reference.compare(&in_f16.as_ref());
    assert!(bad.mismatches > 32, "{bad}");
}

#[test]
fn the_bound_is_the_stated_one_and_no_looser() {
    // Ones: gauge and value are K; K + 4 roundings in the sum and one of the output.
    let u = f64::from(f32::EPSILON) / 2.0;
    for k in [1, 1000] {
        let mut case = Case::new(Problem::new(1, 1, k), Values::Positive, 1);
        case.a.fill(1.0);
        case.b.fill(1.0);
        let reference = reference(&case.problem, &case.operands()).unwrap();
        let expected = (k as f64 + 5.0) * u * k as f64;
        let ratio = reference.bound(0) / expected;
        assert!((1.0..1.001).contains(&ratio), "K = {k}: {ratio}");
    }
    // Where the output is coarse, correct rounding comes close to the bound, and two steps exceed it.
    for c in [ElementType::F16, ElementType::BF16] {
        let case = Case::new(Problem::new(40, 40, 4).elements(c, c), Values::Uniform, 5);
        let reference = reference(&case.problem, &case.operands()).unwrap();
        let mut result = correct(&case, &reference);
        let comparison = reference.compare(&result.as_ref());
        assert!(comparison.passed() && comparison.max_ratio > 0.8, "{c}: {comparison}");
        for code in result.as_mut().bytes_mut().chunks_exact_mut(2) {
            let up = u16::from_le_bytes([code[0], code[1]]) + 2;
            code.copy_from_slice(&up.to_le_bytes());
        }
        let comparison = reference.compare(&result.as_ref());
        assert!(comparison.mismatches > 1500, "{c}: {comparison}");
    }
}

#[test]
fn activations_in_f32_stay_within_the_bound() {
    // The f32 forms a device would evaluate, over the range where they bend.
    let silu = |x: f32| x / (1.0 + (-x).exp());
    let gelu_tanh = |x: f32| {
        let inner = lapidary_core::SQRT_2_OVER_PI as f32 * (x + 0.044715 * x * x * x);
        x / (1.0 + (-2.0 * inner).exp())
    };
    // Abramowitz and Stegun 7.1.26, the coarsest erf the bound allows.
    let erf = |x: f32| {
        let t = 1.0 / (1.0 + 0.3275911 * x.abs());
        let poly = t
            * (0.254_829_6
                + t * (-0.284_496_74 + t * (1.421_413_7 + t * (-1.453_152 + t * 1.061_405_4))));
        (1.0 - poly * (-x * x).exp()).copysign(x)
    };
    let gelu_erf = |x: f32| 0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2));
    let forms: [(Activation, &dyn Fn(f32) -> f32); 3] = [
        (Activation::Silu, &silu),
        (Activation::GeluTanh, &gelu_tanh),
        (Activation::GeluErf, &gelu_erf),
    ];
    for (activation, form) in forms {
        let count = 20_001;
        let mut case =
            Case::new(Problem::new(1, count, 1).activation(activation), Values::Uniform, 1);
        case.a.fill(1.0);
        for i in 0..count {
            let x = (i as f64 - 10_000.0) * 0.01;
            lapidary_core::element::write_f64(ElementType::F32, case.b.bytes_mut(), i, x);
        }
        let reference = reference(&case.problem, &case.operands()).unwrap();
        let mut result = correct(&case, &reference);
        for i in 0..count {
            let x = case.b.view().get(0, 0, i) as f32;
            set(&mut result, i, f64::from(form(x)));
        }
        let comparison = reference.compare(&result.as_ref());
        assert!(comparison.passed(), "{activation}: {comparison}");
    }
}

#[test]
fn samples_hold_every_corner_and_every_border_tile() {
    let problem = Problem::new(300, 517, 4).batch(3);
    let sample = sample_positions(&problem, [128, 64], 4096, 9);
    assert!(sample.len() >= 4096);
    assert!(sample.windows(2).all(|w| w[0] < w[1]), "distinct and in order");
    for batch in [0, 2] {
        for (row, col) in [(0, 0), (0, 516), (299, 0), (299, 516)] {
            assert!(sample.contains(&Position { batch, row, col }));
        }
        for i in 0..3 {
            for j in 0..9 {
                let border = i == 0 || i == 2 || j == 0 || j == 8;
                let hit =
                    sample.iter().any(|p| p.batch == batch && p.row / 128 == i && p.col / 64 == j);
                assert!(hit || !border, "tile ({i}, {j})");
            }
        }
    }
    assert_eq!(sample_positions(&problem, [128, 64], usize::MAX, 9).len(), 3 * 300 * 517);
    assert!(sample_positions(&Problem::new(0, 5, 5), [16, 16], 10, 1).is_empty());
}

#[test]
fn a_sample_has_the_values_of_the_whole() {
    let case = Case::new(Problem::new(40, 30, 20), Values::Uniform, 2);
    let whole = reference(&case.problem, &case.operands()).unwrap();
    let sample = sample_positions(&case.problem, [16, 16], 100, 3);
    let part = reference_at(&case.problem, &case.operands(), &sample).unwrap();
    for (i, at) in sample.iter().enumerate() {
        assert_eq!(part.values()[i], whole.values()[at.row * 30 + at.col]);
        assert_eq!(part.bound(i), whole.bound(at.row * 30 + at.col));
    }
    let outside = [Position { batch: 0, row: 40, col: 0 }];
    assert!(matches!(
        reference_at(&case.problem, &case.operands(), &outside),
        Err(Error::LimitExceeded { requested: 40, limit: 39, .. })
    ));
}

#[test]
fn freivalds_finds_one_wrong_element_in_every_place() {
    let problem = Problem::new(6, 5, 70).batch(2).alpha(2.0).beta(-3.0).bias(true);
    let case = Case::new(problem, Values::SmallIntegers(4), 3);
    let reference = reference(&case.problem, &case.operands()).unwrap();
    let right = correct(&case, &reference);
    let check = |m: &Matrix| freivalds(&case.problem, &case.operands(), &m.as_ref(), 2, 7).unwrap();
    assert!(check(&right).passed());
    for index in 0..60 {
        for wrong in [get(&right, index) + 1.0, get(&right, index) + 0.5, f64::NAN] {
            let mut result = right.clone();
            set(&mut result, index, wrong);
            let report = check(&result);
            assert_eq!(report.wrong_rows, 1);
            let at = report.first.unwrap();
            assert_eq!(at.batch * 6 + at.row, index / 5);
        }
    }
}

#[test]
fn freivalds_refuses_what_it_cannot_check_exactly() {
    let run = |problem: Problem, values: Values| {
        let case = Case::new(problem, values, 3);
        let found = Matrix::zeros(case.problem.c, case.problem.c_shape()).unwrap();
        freivalds(&case.problem, &case.operands(), &found.as_ref(), 1, 1)
    };
    let problem = Problem::new(3, 3, 3);
    assert!(matches!(run(problem.clone(), Values::Uniform), Err(Error::NotInteger { .. })));
    assert!(matches!(
        run(problem.clone().alpha(0.5), Values::SmallIntegers(2)),
        Err(Error::NotInteger { what: "alpha", .. })
    ));
    assert!(matches!(
        run(problem.activation(Activation::Silu), Values::SmallIntegers(2)),
        Err(Error::ActivationUnsupported { .. })
    ));
    assert!(matches!(
        run(Problem::new(3, 3, 2000), Values::SmallIntegers(1000)),
        Err(Error::LimitExceeded { limit: 16_777_216, .. })
    ));
    let bf16 = Problem::new(3, 3, 70).elements(ElementType::BF16, ElementType::BF16);
    assert!(matches!(
        run(bf16, Values::SmallIntegers(2)),
        Err(Error::LimitExceeded { limit: 256, .. })
    ));
}

#[test]
fn every_element_type_rounds_within_its_bound() {
    for element in ElementType::ALL {
        for output in ElementType::ALL {
            let problem = Problem::new(6, 6, 40).elements(element, output).beta(1.0).bias(true);
            if problem.validate().is_err() {
                continue;
            }
            let case = Case::new(problem, Values::Uniform, 5);
            let reference = reference(&case.problem, &case.operands()).unwrap();
            let comparison = reference.compare(&correct(&case, &reference).as_ref());
            assert!(comparison.passed(), "{element} -> {output}: {comparison}");
            assert!(comparison.max_ratio <= 1.0);
        }
    }
}
