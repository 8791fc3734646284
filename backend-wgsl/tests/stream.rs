//! Products that the device does not hold whole: the same results in pieces.

mod common;

use std::cell::RefCell;

use lapidary_core::policy::{KernelConfig, RegisterPrefetch, VectorFma};
use lapidary_core::testing::{Arrangement, Case, Values, block_on};
use lapidary_core::{
    Activation, AnyMatrixMut, AnyMatrixRef, Backend, ElementType, Error, Gemm, KernelChoice,
    Layout, MatrixRef, Operands, Output, PlanOptions, Problem, Progress, oracle,
};
use lapidary_wgsl::stream::{Piece, cut};
use lapidary_wgsl::{DeviceLimits, Wgsl, WgslOptions, wgpu};
use proptest::prelude::*;

fn limits(binding_bytes: u64, buffer_bytes: u64) -> DeviceLimits {
    let mut limits = DeviceLimits::from_limits(
        &wgpu::Limits::downlevel_defaults(),
        wgpu::Features::empty(),
        true,
    );
    (limits.binding_bytes, limits.buffer_bytes, limits.f16) = (binding_bytes, buffer_bytes, true);
    limits
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    /// Every product of every element is in one piece, and what is held stays below the budget.
    #[test]
    fn pieces_cover_a_product_once_within_the_budget(
        (m, n, k, batch) in (1usize..300, 1usize..300, 0usize..400, 1usize..4),
        types in 0..common::COMBINATIONS.len(),
        (transposed, shared) in (any::<bool>(), any::<bool>()),
        (budget, binding, buffer) in (4_000u64..800_000, 20_000u64..400_000, 20_000u64..400_000),
    ) {
        let (operand, output) = common::COMBINATIONS[types];
        let mut problem = Problem::new(m, n, k).elements(operand, output).batch(batch).beta(1.0);
        if transposed {
            problem.b_layout = Layout::col_major(k, n);
        }
        if shared {
            problem.a_layout.batch_stride = 0;
        }
        let limits = limits(binding, buffer);
        match cut(&problem, &limits, &PlanOptions::default(), "synthetic", budget) {
            Ok(cut) => {
                prop_assert!(cut.bytes <= budget);
                let mut seen = vec![0usize; batch * m * n];
                for Piece { batch, rows, cols, k, .. } in cut.pieces(&problem) {
                    prop_assert!(batch.len() <= cut.c.batch && rows.len() <= cut.c.rows);
                    prop_assert!(cols.len() <= cut.c.cols && k.len() <= cut.k.max(1));
                    for b in batch {
                        for r in rows.clone() {
                            for c in cols.clone() {
                                seen[(b * m + r) * n + c] += k.len().max(1);
                            }
                        }
                    }
                }
                prop_assert!(seen.iter().all(|&products| products == k.max(1)));
            }
            Err(Error::LimitExceeded { requested, limit, .. }) => prop_assert!(requested > limit),
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}

/// A product in pieces, with what it reported.
fn streamed(device: &Wgsl, case: &Case, options: &PlanOptions) -> Output {
    let seen = RefCell::new(Vec::<Progress>::new());
    let output = block_on(Gemm::<Wgsl>::run_with(
        device,
        &case.problem,
        &case.operands(),
        options,
        &|progress| seen.borrow_mut().push(progress),
    ));
    let output = output.unwrap_or_else(|error| panic!("{:?}: {error}", case.problem));
    let seen = seen.into_inner();
    let notes = &output.summary.notes;
    assert!(notes.iter().any(|note| note.starts_with("streamed in ")), "{notes:?}");
    assert!(seen.len() > 1, "{notes:?}");
    for (index, progress) in seen.iter().enumerate() {
        assert_eq!((progress.done, progress.total), (index as u64 + 1, seen.len() as u64));
    }
    output
}

fn with_budget(bytes: u64) -> Option<Wgsl> {
    common::own(&WgslOptions::default().memory_budget(bytes))
}

/// Pieces of C with all of K: with the same kernel, the same bits.
#[test]
fn a_streamed_product_has_the_bits_of_the_whole() {
    let (Some(whole), Some(device)) = (common::device(), with_budget(300_000)) else { return };
    use ElementType as E;
    let base = Problem::new(300, 211, 97).alpha(0.3);
    for (problem, arrangements) in [
        (base.clone(), [Arrangement::Dense, Arrangement::Dense]),
        (
            base.clone().beta(0.7).bias(true).activation(Activation::Silu),
            [Arrangement::ColMajor, Arrangement::Padded],
        ),
        (
            base.clone().elements(E::BF16, E::BF16).beta(0.7).batch(3),
            [Arrangement::ReversedRows, Arrangement::ColMajor],
        ),
        (base.clone().elements(E::I8, E::F32).batch(2), [Arrangement::Padded, Arrangement::Dense]),
        (base.alpha(0.0).beta(0.7).bias(true).batch(2), [Arrangement::Dense; 2]),
    ] {
        let [a, b] = arrangements;
        let case = Case::new(problem, Values::Uniform, 3).arranged(a, b, Arrangement::Padded);
        let options = PlanOptions::kernel(KernelChoice::WorkgroupTile);
        let expected = block_on(Gemm::<Wgsl>::run_with(
            whole,
            &case.problem,
            &case.operands(),
            &options,
            &|_| {},
        ));
        let expected = expected.expect("fits").matrix;
        assert_eq!(streamed(&device, &case, &options).matrix, expected, "{:?}", case.problem);
    }
}

/// What the caller asks for holds for every piece: with it, the bits of the whole.
#[test]
fn pieces_are_planned_as_asked() {
    let (Some(whole), Some(device)) = (common::device(), with_budget(300_000)) else { return };
    // Rows of whole vectors, as the tiles of pieces are.
    let case = Case::new(Problem::new(300, 212, 97).alpha(0.3), Values::Uniform, 5);
    let blocks = KernelConfig::of::<RegisterPrefetch<32, 32, 16>, VectorFma<4, 4>>();
    let blocks = PlanOptions::kernel(KernelChoice::Policy(blocks));
    let mut seen = Vec::new();
    for options in [
        PlanOptions::kernel(KernelChoice::RegisterTile),
        blocks.clone(),
        blocks.clone().k_slices(3),
        blocks.copies([true, true]),
    ] {
        let operands = case.operands();
        let run = Gemm::<Wgsl>::run_with(whole, &case.problem, &operands, &options, &|_| {});
        let expected = block_on(run).expect("fits");
        let found = streamed(&device, &case, &options);
        let said = |output: &Output| (output.summary.kernel.clone(), output.summary.passes.clone());
        assert_eq!(said(&found), said(&expected), "{options:?}");
        assert_eq!(found.matrix, expected.matrix, "{options:?}");
        assert!(!seen.contains(&said(&found)), "{options:?} makes a difference");
        seen.push(said(&found));
    }
}

/// Pieces of K: sums over all of them are exact where the accumulator is, and the epilogue comes last.
#[test]
fn pieces_of_k_add_up() {
    let Some(device) = with_budget(150_000) else { return };
    use ElementType as E;
    let base = Problem::new(70, 66, 3000).alpha(0.5).beta(-1.5).bias(true);
    let mut checked = 0;
    for (operand, output) in
        [(E::F32, E::F32), (E::F32, E::F16), (E::BF16, E::BF16), (E::I8, E::I32), (E::I8, E::I8)]
    {
        for batch in [1, 2] {
            let mut problem = base.clone().elements(operand, output).batch(batch);
            problem.activation = Activation::Relu;
            if output == E::I32 {
                problem = problem.alpha(3.0).beta(-2.0);
            }
            let case = Case::new(problem, Values::SmallIntegers(1), 17).arranged(
                Arrangement::ColMajor,
                Arrangement::Dense,
                Arrangement::Dense,
            );
            let expected = oracle::reference(&case.problem, &case.operands()).expect("valid");
            let output = streamed(&device, &case, &PlanOptions::default());
            let comparison = expected.compare_exact(&output.matrix.as_ref());
            assert!(comparison.passed(), "{:?}: {comparison}", case.problem);
            let note = output.summary.notes.last().cloned().unwrap_or_default();
            assert!(!note.contains("x3000 "), "K was cut: {note}");
            checked += 1;
        }
    }
    assert_eq!(checked, 10);
}

/// No budget, but buffers and bindings of 1 MiB: what fits neither is streamed, into the caller's own
/// view, and nothing outside that changes.
#[test]
fn what_exceeds_a_buffer_or_a_binding_is_streamed_by_itself() {
    let options = WgslOptions::default().restrict(
        wgpu::Limits {
            max_storage_buffer_binding_size: 1 << 20,
            max_buffer_size: 1 << 20,
            ..wgpu::Limits::downlevel_defaults()
        },
        wgpu::Features::empty(),
    );
    let Some(device) = common::own(&options) else { return };
    // A has 2.4 MB, and so has B, each of whose columns spans all of it.
    let problem = Problem::new(40, 600, 1000).beta(1.0);
    let case = Case::new(problem, Values::SmallIntegers(3), 9).arranged(
        Arrangement::Padded,
        Arrangement::Dense,
        Arrangement::Padded,
    );
    let expected = oracle::reference(&case.problem, &case.operands()).expect("valid");
    let mut bytes = case.c.bytes().to_vec();
    let c = AnyMatrixMut::from_bytes(&mut bytes, case.c.element(), case.c.placement());
    let operands = Operands::new(case.a.view(), case.b.view());
    let summary = Gemm::<Wgsl>::run_into(&device, &case.problem, &operands, c.expect("a view"));
    let summary = summary.expect("runs in pieces");
    assert!(summary.notes.iter().any(|note| note.starts_with("streamed in ")), "{summary:?}");
    common::assert_canaries(&case.c, &bytes, || "streamed".into());
    let comparison = expected.compare_exact(&common::found(&case.c, &bytes));
    assert!(comparison.passed(), "{comparison}");
}

#[test]
fn a_budget_below_the_smallest_piece_is_refused_with_its_numbers() {
    let Some(device) = with_budget(10_000) else { return };
    let case = Case::new(Problem::new(100, 100, 100), Values::Uniform, 1);
    match Gemm::<Wgsl>::run(&device, &case.problem, &case.operands()) {
        Err(Error::LimitExceeded { what, requested, limit: 10_000 }) => {
            assert_eq!(what, "bytes of device memory for a product");
            assert_eq!(requested, 120_000);
        }
        other => panic!("{other:?}"),
    }
    // What fits is not streamed.
    let case = Case::new(Problem::new(10, 10, 10), Values::Uniform, 1);
    let output = Gemm::<Wgsl>::run(&device, &case.problem, &case.operands()).expect("fits");
    let notes = &output.summary.notes;
    assert!(notes.iter().all(|note| !note.starts_with("streamed")), "{notes:?}");
}

/// Takes nearly all memory, and multiplies what does not fit into the rest.
fn multiply_in_little_memory(device: &Wgsl) {
    let (m, n, k) = (2048, 64, 40_000);
    let a: Vec<f32> = (0..m * k).map(|i| (i / k % 7) as f32 - 3.0).collect();
    let b: Vec<f32> = (0..k * n).map(|i| if i / n % 2 == 0 { 1.0 } else { 2.0 }).collect();
    let mut kept = Vec::new();
    for bytes in [device.limits().buffer_bytes.min(1 << 31) as usize / 16 * 16, 64 << 20] {
        loop {
            match device.alloc(ElementType::I8, bytes) {
                Ok(tensor) => kept.push(tensor),
                Err(Error::OutOfMemory { .. }) => break,
                Err(other) => panic!("{other}"),
            }
            assert!(kept.len() < 1 << 12, "no device has {} buffers", kept.len());
        }
    }
    // 320 MiB are free again; A alone has 312 MiB, and needs as much again on its way.
    let left = kept.len().saturating_sub(5);
    kept.truncate(left);
    block_on(device.sync()).expect("alive");
    let operands = Operands::new(
        MatrixRef::row_major(&a, m, k).expect("fits"),
        MatrixRef::row_major(&b, k, n).expect("fits"),
    );
    let problem = operands.problem(ElementType::F32).expect("agrees");
    let output = Gemm::<Wgsl>::run(device, &problem, &operands).expect("runs in pieces");
    let found: AnyMatrixRef<'_> = output.matrix.as_ref();
    for row in 0..m {
        for col in 0..n {
            let expected = (row % 7) as f64 - 3.0;
            assert_eq!(found.get(0, row, col), expected * 1.5 * k as f64, "{row} {col}");
        }
    }
    println!("computed: {:?}", output.summary.notes);
    assert!(output.summary.notes.iter().any(|note| note.starts_with("streamed in ")));
}

/// A software device hands out as much address space as there is, so it gets a process with little:
/// this test again, with a limit.
#[test]
fn what_exceeds_the_memory_there_is_is_streamed_by_itself() {
    const NAME: &str = "what_exceeds_the_memory_there_is_is_streamed_by_itself";
    const INSIDE: &str = "LAPIDARY_TEST_LITTLE_MEMORY";
    let Some(device) = common::own(&WgslOptions::default()) else { return };
    if std::env::var_os(INSIDE).is_some() {
        return multiply_in_little_memory(&device);
    }
    if !device.limits().software || !cfg!(unix) {
        println!("skipped: limiting memory needs a device in this process and a Unix shell");
        return;
    }
    // 8 GiB in units of 1 KiB; the device's largest buffer is 2 GiB.
    let script = format!("ulimit -v 8388608 && exec \"$0\" --exact {NAME} --nocapture");
    let program = std::env::current_exe().expect("this program");
    let mut command = std::process::Command::new("sh");
    let output = command.arg("-c").arg(script).arg(program).env(INSIDE, "1").output();
    let output = output.expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("computed: "), "{text}");
}
