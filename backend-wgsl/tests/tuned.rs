//! What only large GPUs are planned for, run exactly on whatever device there is: sizes written into
//! the text, copies of operands, slices of K, packed dot products.

mod common;

use common::Uploaded;
use lapidary_core::policy::{KernelConfig, RegisterPrefetch, VectorDot4, VectorFma};
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{Args, Backend, ElementType, KernelChoice, PlanOptions, Problem, TensorSlice};
use lapidary_wgsl::Wgsl;

fn small_blocks() -> KernelChoice {
    KernelChoice::Policy(KernelConfig::of::<RegisterPrefetch<32, 64, 16>, VectorFma<4, 8>>())
}

fn dot4() -> KernelChoice {
    KernelChoice::Policy(KernelConfig::of::<RegisterPrefetch<64, 64, 64>, VectorDot4<8, 8>>())
}

/// Runs a case exactly as each of `options` says.
fn check(device: &Wgsl, problem: Problem, [a, b, c]: [Arrangement; 3], options: &[PlanOptions]) {
    let seed = (problem.m * 31 + problem.n * 7 + problem.k) as u64;
    let mut case = Case::new(problem, Values::SmallIntegers(3), seed).arranged(a, b, c);
    let expected = common::expect(&mut case);
    let uploaded = Uploaded::new(device, &case);
    for options in options {
        let decision = uploaded.check_with(device, options, &expected);
        let kernel = decision.kernel.as_ref();
        if let (Some(kernel), Some(slices)) = (kernel, options.k_slices) {
            let strips = decision.operands.k.div_ceil(kernel.k_tile as usize);
            let each = strips.div_ceil(slices);
            assert_eq!(decision.slices() as usize, strips.div_ceil(each), "{decision:?}");
        }
        if let Some([a, b]) = options.copies.filter(|_| kernel.is_some_and(|k| !k.packs_quads())) {
            let copied = [decision.operands.a, decision.operands.b].map(|r| r.copy.is_some());
            assert_eq!(copied, [a, b]);
        }
    }
}

#[test]
fn whole_and_cut_blocks_strips_and_slices() {
    let Some(device) = common::tuned() else { return };
    use Arrangement::{ColMajor, Dense, Padded, RowMajor};
    let options =
        |slices, copies| PlanOptions::kernel(small_blocks()).k_slices(slices).copies(copies);
    let every = [
        options(1, [false, false]),
        options(3, [false, false]),
        options(1, [true, false]),
        options(2, [true, true]),
    ];
    for (index, [m, n, k]) in
        [[64, 128, 64], [64, 128, 67], [33, 66, 16], [31, 65, 15], [70, 64, 1], [96, 61, 50]]
            .into_iter()
            .enumerate()
    {
        let problem = common::epilogue(Problem::new(m, n, k), index);
        let arrangements = [
            [RowMajor, RowMajor, RowMajor],
            [Dense, Dense, Padded],
            [ColMajor, ColMajor, ColMajor],
            [Padded, ColMajor, RowMajor],
        ];
        check(device, problem, arrangements[index % 4], &every);
    }
}

#[test]
fn slices_and_copies_of_every_type_and_of_batches() {
    let Some(device) = common::tuned() else { return };
    use Arrangement::{ColMajor, Dense, Padded};
    for (index, (operand, output)) in common::COMBINATIONS.into_iter().enumerate() {
        if operand == ElementType::F16 && !device.limits().f16 {
            println!("skipped: the device lacks SHADER_F16");
            continue;
        }
        let kernel = if operand == ElementType::I8 { dot4() } else { small_blocks() };
        let [m, n, k] = [[64, 64, 128], [37, 70, 131]][index % 2];
        let problem = Problem::new(m, n, k).elements(operand, output).batch(1 + index % 3);
        let problem = common::epilogue(problem, index % 3);
        let copies = [index % 4 < 2, index % 3 == 0];
        let options = [
            PlanOptions::kernel(kernel).copies(copies),
            PlanOptions::kernel(kernel).k_slices(2).copies(copies),
        ];
        let arrangement = [[Dense, Padded, Padded], [ColMajor, Dense, Dense]][index / 2 % 2];
        check(device, problem, arrangement, &options);
    }
}

#[test]
fn the_backends_own_choices_are_exact() {
    let Some(device) = common::tuned() else { return };
    use Arrangement::{ColMajor, Dense, RowMajor};
    let mut names = std::collections::BTreeSet::new();
    for (index, [m, n, k]) in [
        [1, 300, 70],
        [300, 16, 33],
        [64, 64, 2048],
        [105, 384, 300],
        [130, 129, 131],
        [128, 256, 64],
        [200, 100, 515],
    ]
    .into_iter()
    .enumerate()
    {
        for operand in [ElementType::F32, ElementType::I8] {
            let problem = Problem::new(m, n, k).elements(operand, operand.accumulator());
            let b = if index % 2 == 0 { Dense } else { ColMajor };
            let seed = index as u64;
            let mut case =
                Case::new(problem, Values::SmallIntegers(3), seed).arranged(Dense, b, RowMajor);
            let expected = common::expect(&mut case);
            let uploaded = Uploaded::new(device, &case);
            let decision = uploaded.check_with(device, &PlanOptions::default(), &expected);
            names.insert(decision.summary.kernel);
        }
    }
    println!("{names:#?}");
    assert!(names.iter().any(|name| name.starts_with("skinny across")));
    assert!(names.iter().any(|name| name.starts_with("skinny along")));
    assert!(names.iter().any(|name| name.contains("vector-dot4")));
    assert!(names.iter().any(|name| name.contains("vector-fma")));
}

/// The copying passes fill what lies behind the ends of an operand with zeros, not with NaN: an Inf
/// or NaN in the last column of one row must not reach another.
#[test]
fn copies_keep_non_finite_values_in_their_row() {
    let Some(device) = common::tuned() else { return };
    let problem = Problem::new(40, 40, 37);
    let mut case = Case::new(problem, Values::SmallIntegers(3), 9);
    common::expect(&mut case);
    let place = case.a.placement();
    let index = (place.offset as i128 + place.layout.index(0, 7, 36)) as usize;
    let mut bytes = case.a.bytes().to_vec();
    lapidary_core::element::write_f64(ElementType::F32, &mut bytes, index, f64::NAN);
    let a = common::upload_bytes(device, ElementType::F32, &bytes);
    let b = common::upload(device, &case.b);
    let c = common::upload(device, &case.c);
    let options = PlanOptions::kernel(small_blocks()).copies([true, true]);
    let plan = device.plan(&case.problem, &options).expect("plans");
    let args = Args::new(
        TensorSlice::new(&a, place.offset),
        TensorSlice::new(&b, case.b.placement().offset),
        TensorSlice::new(&c, case.c.placement().offset),
    );
    device.execute(&plan, &args).expect("executes");
    let after = common::download(device, &c);
    let found = common::found(&case.c, &after);
    for row in (0..40).filter(|&row| row != 7) {
        for col in 0..40 {
            let value = found.get(0, row, col);
            assert!(value.is_finite(), "row {row}, column {col}: {value}");
        }
    }
}
