//! Sums over very many products: the whole of K, in pieces where a device would lose a tail or an
//! operand is too long for one binding.

mod common;

use common::Uploaded;
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{
    Activation, Backend, ElementType, Error, KernelChoice, PlanOptions, Problem, oracle,
};
use lapidary_wgsl::decide::{decide, dot4_blocks};
use lapidary_wgsl::{Wgsl, WgslOptions, wgpu};

/// Whether a plan adds up pieces of K.
fn is_cut(device: &Wgsl, problem: &Problem, options: &PlanOptions) -> bool {
    let plan = device.plan(problem, options).expect("plans");
    device.summary(&plan).notes.iter().any(|note| note.contains("whose sums a pass of its own"))
}

/// Software devices end loops after so many iterations; kernels that would run into that get K in
/// pieces, the backend's own choice is one that does not.
#[test]
fn long_sums_are_exact() {
    let Some(device) = common::device() else { return };
    let (mut exact, mut cut) = (0, 0);
    for (operand, k) in [
        // Just below the limit of the kernels with the most loops, and ones far past it.
        (ElementType::F32, 28_880),
        (ElementType::F32, 65_000),
        (ElementType::F32, 400_000),
        (ElementType::I8, 131_071),
    ] {
        let problem = Problem::new(2, 3, k).elements(operand, operand.accumulator());
        let mut case = Case::new(problem, Values::SmallIntegers(2), k as u64).arranged(
            Arrangement::Dense,
            Arrangement::ColMajor,
            Arrangement::Padded,
        );
        let expected = common::expect(&mut case);
        let uploaded = Uploaded::aligned(device, &case);
        uploaded.check(device, KernelChoice::Auto, &expected);
        let mut here = 0;
        for kernel in common::kernels(operand) {
            let whole = device.decide(&uploaded.problem, kernel);
            if let Err(error) = &whole {
                assert!(device.limits().software, "{}: {error}", kernel.name());
                match error {
                    Error::LimitExceeded { what, requested, limit: 65_000 } => {
                        assert!(what.starts_with("loop iterations of a thread"), "{what}");
                        assert!(*requested > 65_000);
                    }
                    other => panic!("{}: {other}", kernel.name()),
                }
                assert!(is_cut(device, &uploaded.problem, &PlanOptions::kernel(kernel)));
                cut += 1;
                here += 1;
                // What is special about pieces does not depend on the kernel, and a whole block of
                // outputs for these few takes a software device seconds.
                if here > 1 {
                    continue;
                }
            }
            uploaded.check(device, kernel, &expected);
            exact += 1;
        }
    }
    println!("{exact} exact, {cut} planned in pieces");
    assert!(exact >= 16, "all kernels are exact at the smallest K");
}

/// On a device whose bindings end at 1 MiB, operands whose every strip spans several.
#[test]
fn k_is_cut_where_an_operand_exceeds_a_binding() {
    let options = WgslOptions::default().restrict(
        wgpu::Limits {
            max_storage_buffer_binding_size: 1 << 20,
            ..wgpu::Limits::downlevel_defaults()
        },
        wgpu::Features::empty(),
    );
    let Some(device) = common::own(&options) else { return };
    use ElementType as E;
    let base = Problem::new(20, 300, 3000).alpha(0.5).beta(-1.5).bias(true);
    let mut checked = 0;
    for (operand, output, batch) in [
        (E::F32, E::F32, 1),
        (E::F32, E::F16, 1),
        (E::BF16, E::BF16, 2),
        (E::I8, E::I32, 2),
        (E::I8, E::I8, 2),
    ] {
        let mut problem =
            base.clone().elements(operand, output).batch(batch).activation(Activation::Relu);
        // A byte an element: twice as many of them are needed.
        problem.n *= 4 / operand.size();
        if output == E::I32 {
            problem = problem.alpha(3.0).beta(-2.0);
        }
        // B row by row: a column spans all of it.
        let mut case = Case::new(problem, Values::SmallIntegers(1), 23).arranged(
            Arrangement::Padded,
            Arrangement::Dense,
            Arrangement::Padded,
        );
        let expected = common::expect(&mut case);
        let uploaded = Uploaded::new(&device, &case);
        let options = PlanOptions::default();
        assert!(is_cut(&device, &uploaded.problem, &options), "{operand} {output}");
        uploaded.check_with(&device, &options, &expected);
        checked += 1;
    }
    assert_eq!(checked, 5);

    // A kernel that reads copies, whose copy of B no binding holds.
    let dot4 = KernelChoice::Policy(dot4_blocks()[1].config);
    let problem = Problem::new(20, 1100, 3000).elements(E::I8, E::I32);
    let mut case = Case::new(problem, Values::SmallIntegers(1), 37);
    let expected = common::expect(&mut case);
    let uploaded = Uploaded::new(&device, &case);
    let options = PlanOptions::kernel(dot4);
    match decide(&uploaded.problem, device.limits(), dot4, "a device") {
        Err(Error::LimitExceeded { what, requested, limit }) => {
            assert!(what.starts_with("bytes of B, or of the copy"), "{what}");
            assert!(requested > limit && limit == 1 << 20, "{requested} {limit}");
        }
        other => panic!("{other:?}"),
    }
    assert!(is_cut(&device, &uploaded.problem, &options));
    uploaded.check_with(&device, &options, &expected);

    // Twenty rows of A exceed a binding wherever K is cut: fewer rows at a time.
    let mut case = Case::new(Problem::new(20, 30, 20_000), Values::SmallIntegers(1), 31);
    let expected = common::expect(&mut case);
    let uploaded = Uploaded::new(&device, &case);
    assert!(is_cut(&device, &uploaded.problem, &PlanOptions::default()));
    uploaded.check_with(&device, &PlanOptions::default(), &expected);

    // The sums of C exceed a binding as well; twice through a batch, so that C counts once more.
    let problem = Problem::new(600, 500, 600).beta(1.0);
    let case = Case::new(problem, Values::SmallIntegers(1), 29);
    let uploaded = Uploaded::new(&device, &case);
    assert!(is_cut(&device, &uploaded.problem, &PlanOptions::default()));
    let plan = device.plan(&uploaded.problem, &PlanOptions::default()).expect("plans");
    let c = common::upload(&device, &case.c);
    let mut batch = device.batch();
    batch
        .add(&plan, &uploaded.args(&c))
        .expect("adds")
        .add(&plan, &uploaded.args(&c))
        .expect("adds");
    batch.submit().expect("submits");
    // C + A·B + A·B = C + 2 A·B.
    let twice = case.problem.clone().alpha(2.0);
    let expected = oracle::reference(&twice, &case.operands()).expect("valid");
    let after = common::download(&device, &c);
    let comparison = expected.compare_exact(&common::found(&case.c, &after));
    assert!(comparison.passed(), "{comparison}");
}

/// A packed B that no binding holds is packed in parts and read in pieces of K, whether B lay by rows or
/// by columns.
#[test]
fn b_is_packed_past_a_binding() {
    let options = WgslOptions::default().restrict(
        wgpu::Limits {
            max_storage_buffer_binding_size: 1 << 18,
            ..wgpu::Limits::downlevel_defaults()
        },
        wgpu::Features::empty(),
    );
    let Some(device) = common::own(&options) else { return };
    use ElementType as E;
    for (operands, output, [batch, m, n, k]) in [
        ([E::F32, E::F32], E::F32, [1, 5, 130, 1500]),
        ([E::F32, E::F32], E::F32, [1, 3, 1000, 300]),
        ([E::BF16, E::BF16], E::BF16, [3, 5, 333, 700]),
        ([E::I8, E::I8], E::I32, [1, 5, 700, 777]),
        ([E::F32, E::I4], E::F32, [1, 5, 1026, 1000]),
    ] {
        for b in [Arrangement::Dense, Arrangement::ColMajor, Arrangement::ReversedRows] {
            let mut problem = Problem::new(m, n, k).batch(batch).beta(1.0);
            problem = problem.elements(operands[0], output).factors(operands[0], operands[1]);
            let mut case = Case::new(problem, Values::SmallIntegers(1), 41).arranged(
                Arrangement::Dense,
                b,
                Arrangement::Dense,
            );
            let expected = common::expect(&mut case);
            let uploaded = Uploaded::new(&device, &case);
            let plan = device.plan(&uploaded.problem, &PlanOptions::default()).expect("plans");
            let packed = device.pack_b(&plan, uploaded.b()).expect("packs");
            assert!(plan.packed_summary().is_some_and(|summary| {
                summary.notes.iter().any(|note| note.contains("whose sums a pass of its own"))
            }));
            let c = common::upload(&device, &case.c);
            device.execute(&plan, &uploaded.args_packed(&packed, &c)).expect("executes");
            let after = common::download(&device, &c);
            let comparison = expected.compare_exact(&common::found(&case.c, &after));
            assert!(comparison.passed(), "{operands:?} {n} {k} {b:?}: {comparison}");
        }
    }
}
