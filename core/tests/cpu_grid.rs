//! The CPU backend, bit for bit, on every element type, shape class, arrangement and epilogue.

use lapidary_core::oracle::reference;
use lapidary_core::testing::{Arrangement, Case, SIZES, Values, block_on, pairwise_shapes};
use lapidary_core::{
    Activation, AnyMatrixRef, Args, BOperand, Backend, Cpu, CpuTensor, ElementType, Error, Gemm,
    PlanOptions, Problem, TensorSlice,
};

/// Arrangements of an input.
const INPUTS: usize = Arrangement::INPUTS.len();

/// Every combination of operand and output type that a problem may have.
fn element_types() -> Vec<(ElementType, ElementType)> {
    let all = ElementType::ALL;
    let pairs = all.iter().flat_map(|&ab| all.iter().map(move |&c| (ab, c)));
    pairs.filter(|&(ab, c)| Problem::new(1, 1, 1).elements(ab, c).validate().is_ok()).collect()
}

fn tensor(device: &Cpu, element: ElementType, bytes: &[u8]) -> Result<CpuTensor, Error> {
    let tensor = device.alloc(element, bytes.len() / element.size())?;
    device.upload(&tensor, 0, bytes)?;
    Ok(tensor)
}

/// Runs a case through a plan, with B plain and packed, and returns C's storage after each.
fn execute(device: &Cpu, case: &Case) -> Result<[Vec<u8>; 2], Error> {
    let plan = Gemm::<Cpu>::plan(device, &case.problem, &PlanOptions::default())?;
    let a = tensor(device, case.a.element(), case.a.bytes())?;
    let b = tensor(device, case.b.element(), case.b.bytes())?;
    let bias = tensor(device, case.problem.bias_element(), &case.bias)?;
    let at_a = TensorSlice::new(&a, case.a.placement().offset);
    let at_b = TensorSlice::new(&b, case.b.placement().offset);
    let packed = plan.pack_b(at_b)?;
    let run = |packed_b| {
        let c = tensor(device, case.c.element(), case.c.bytes())?;
        let mut args = Args::new(at_a, at_b, TensorSlice::new(&c, case.c.placement().offset));
        if packed_b {
            args.b = BOperand::Packed(&packed);
        }
        if case.problem.bias {
            args = args.bias(&bias);
        }
        plan.execute(&args)?;
        block_on(device.download(&c))
    };
    Ok([run(false)?, run(true)?])
}

/// Small integers whose sums every accumulator here holds exactly, through alpha and beta too.
fn exact_case(problem: Problem, seed: u64) -> Case {
    Case::new(problem, Values::SmallIntegers(4), seed)
}

fn check_exact(device: &Cpu, case: &Case, what: &str) {
    let results = execute(device, case).unwrap_or_else(|error| panic!("{what}: {error}"));
    let reference = reference(&case.problem, &case.operands()).expect("a valid case");
    for (after, b) in results.iter().zip(["plain", "packed"]) {
        assert_eq!(case.c.broken_canaries(after), [], "{what}, {b} B");
        let found = AnyMatrixRef::new(after, case.c.element(), case.c.placement())
            .expect("the storage kept its size");
        let comparison = reference.compare_exact(&found);
        assert!(comparison.passed(), "{what}, {b} B: {comparison}");
    }
}

/// Every pair of sizes with every element type; arrangements and epilogues rotate through all.
#[test]
fn every_shape_and_element_type_is_bit_exact() {
    let device = Cpu::new();
    let factors = [(1.0, 0.0), (2.0, 1.0), (-1.0, 3.0), (0.0, 2.0), (3.0, -1.0)];
    let activations = [Activation::None, Activation::Relu];
    let mut count = 0;
    for (ab, c) in element_types() {
        for [m, n, k] in pairwise_shapes() {
            let (alpha, beta) = factors[count % factors.len()];
            let problem = Problem::new(m, n, k)
                .elements(ab, c)
                .batch(if m * n * k > 100_000 { 1 } else { count % 4 })
                .alpha(alpha)
                .beta(beta)
                .bias(count % 4 < 2)
                .activation(activations[count / 7 % 2]);
            let arrangements = (
                Arrangement::INPUTS[count % INPUTS],
                Arrangement::INPUTS[count / INPUTS % INPUTS],
                Arrangement::OUTPUTS[count % 8],
            );
            let case = exact_case(problem, count as u64).arranged(
                arrangements.0,
                arrangements.1,
                arrangements.2,
            );
            let what = format!("{ab} -> {c} {m}x{n}x{k} {arrangements:?}: {:?}", case.problem);
            check_exact(&device, &case, &what);
            count += 1;
        }
    }
    assert_eq!(count, 27 * SIZES.len() * SIZES.len());
}

#[test]
fn every_pair_of_arrangements_gives_the_same_product() {
    let device = Cpu::new();
    for (ab, c) in [
        (ElementType::F32, ElementType::F32),
        (ElementType::BF16, ElementType::F16),
        (ElementType::I8, ElementType::I8),
    ] {
        for a in Arrangement::INPUTS {
            for b in Arrangement::INPUTS {
                for out in Arrangement::OUTPUTS {
                    let problem =
                        Problem::new(17, 15, 33).elements(ab, c).batch(2).beta(1.0).bias(true);
                    let case = exact_case(problem, 3).arranged(a, b, out);
                    check_exact(&device, &case, &format!("{ab} -> {c} {a:?} {b:?} {out:?}"));
                }
            }
        }
    }
}

#[test]
fn beta_zero_never_reads_c_and_alpha_zero_never_reads_a_or_b() {
    let device = Cpu::new();
    for (ab, c) in element_types().into_iter().filter(|(_, c)| c.is_float()) {
        for out in Arrangement::OUTPUTS {
            let mut case =
                exact_case(Problem::new(20, 30, 40).elements(ab, c), 1).arranged(out, out, out);
            case.c.fill(f64::NAN);
            check_exact(&device, &case, &format!("{ab} -> {c}, C full of NaN, {out:?}"));

            let problem = Problem::new(20, 30, 40).elements(ab, c).alpha(0.0).beta(2.0).bias(true);
            let mut case = exact_case(problem, 1).arranged(out, out, out);
            case.a.fill(f64::NAN);
            case.b.fill(f64::INFINITY);
            check_exact(&device, &case, &format!("{ab} -> {c}, alpha 0, {out:?}"));
        }
    }
}

#[test]
fn with_alpha_zero_or_k_zero_tensors_of_any_size_do_for_a_and_b() {
    let device = Cpu::new();
    let nothing = device.alloc(ElementType::F32, 0).expect("an empty tensor");
    for problem in [Problem::new(3, 4, 5).alpha(0.0).beta(1.0), Problem::new(3, 4, 0).beta(1.0)] {
        let c = tensor(&device, ElementType::F32, bytemuck::cast_slice(&[2.5f32; 12]))
            .expect("a small tensor");
        let plan = Gemm::<Cpu>::plan(&device, &problem, &PlanOptions::default()).expect("valid");
        plan.execute(&Args::new(&nothing, &nothing, &c)).expect("A and B are not read");
        let after = block_on(device.download(&c)).expect("in memory");
        assert_eq!(bytemuck::cast_slice::<u8, f32>(&after), [2.5; 12]);
    }
}

#[test]
fn products_too_large_for_one_block_are_exact() {
    // Several blocks along every axis, conversion blocks along K included, and the wave loop.
    let device = Cpu::new();
    for (ab, c) in [
        (ElementType::F32, ElementType::F32),
        (ElementType::F16, ElementType::F32),
        (ElementType::I8, ElementType::I32),
        (ElementType::F64, ElementType::F64),
    ] {
        let problem = Problem::new(300, 270, 1100).elements(ab, c).beta(1.0);
        let case = Case::new(problem, Values::SmallIntegers(2), 5).arranged(
            Arrangement::Padded,
            Arrangement::ColMajor,
            Arrangement::Padded,
        );
        check_exact(&device, &case, &format!("{ab} -> {c}"));
    }
}

#[test]
fn factors_that_tasks_share_are_converted_whole_whatever_their_arrangement() {
    use ElementType::{BF16, F8E4M3, F8E5M2Fnuz, F16, F32, I8, I32};
    // More columns or more rows than a block has, and enough to be converted in parts.
    let shapes = [(200, 260, 90, 2), (70, 600, 60, 1), (600, 130, 250, 1)];
    let elements =
        [(F16, F32), (BF16, BF16), (F8E4M3, F32), (F8E5M2Fnuz, F16), (I8, I32), (I8, F16)];
    let arrangements = [Arrangement::Dense, Arrangement::ColMajor, Arrangement::Padded];
    let device = Cpu::with_threads(4).expect("threads");
    for (m, n, k, batch) in shapes {
        for (element, c) in elements {
            for (index, arrangement) in arrangements.into_iter().enumerate() {
                let other = arrangements[(index + 1) % arrangements.len()];
                let problem = Problem::new(m, n, k).batch(batch).elements(element, c);
                let case = exact_case(problem, 8).arranged(arrangement, other, Arrangement::Dense);
                let what = format!("{m}x{n}x{k}x{batch} {element} {c} {arrangement:?}");
                check_exact(&device, &case, &what);
            }
        }
    }
}

#[test]
fn long_thin_products_are_exact() {
    let device = Cpu::new();
    for (m, n, k) in [(70_000, 1, 3), (1, 70_000, 3), (40_000, 2, 2), (3, 2, 70_000)] {
        for out in [Arrangement::Dense, Arrangement::ColMajor, Arrangement::Padded] {
            let problem = Problem::new(m, n, k).beta(1.0).bias(true);
            let case = Case::new(problem, Values::SmallIntegers(2), 5).arranged(out, out, out);
            check_exact(&device, &case, &format!("{m}x{n}x{k} {out:?}"));
        }
    }
}

#[test]
fn i8_sums_are_exact_at_the_largest_magnitudes_and_wrap_when_asked() {
    let device = Cpu::new();
    for (k, wrapping) in [(131_071, false), (140_000, true)] {
        let problem =
            Problem::new(2, 3, k).elements(ElementType::I8, ElementType::I32).wrapping(wrapping);
        let mut case = Case::new(problem, Values::Uniform, 5);
        case.a.fill(-128.0);
        case.b.fill(-128.0);
        check_exact(&device, &case, &format!("K = {k}"));
        let problem = case.problem.elements(ElementType::I8, ElementType::F32);
        let case = Case::new(problem, Values::Uniform, 6);
        let comparison =
            reference(&case.problem, &case.operands()).expect("a valid case").compare_exact(
                &Gemm::<Cpu>::run(&device, &case.problem, &case.operands())
                    .expect("a valid case")
                    .matrix
                    .as_ref(),
            );
        assert!(comparison.passed(), "K = {k}: {comparison}");
    }
}

#[test]
fn a_rerun_gives_the_same_bits_whatever_the_order_of_threads() {
    let problem = Problem::new(200, 190, 700).beta(0.5).bias(true).activation(Activation::Silu);
    let case = Case::new(problem, Values::Uniform, 9);
    let device = Cpu::with_threads(3).expect("threads");
    assert_eq!(device.threads(), 3);
    let first = execute(&device, &case).expect("a valid case");
    for _ in 0..5 {
        assert_eq!(execute(&device, &case).expect("a valid case"), first);
    }
}
