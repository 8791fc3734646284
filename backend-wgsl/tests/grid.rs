//! Every kernel at sizes on both sides of every tile edge, bit for bit, with canaries everywhere.
//!
//! Small integers make every sum exact, so any difference is a defect of indexing. Operands lie in
//! storages filled with NaN (a pattern, for integers), C is NaN itself where beta is 0, and all of
//! C's storage is read back.

mod common;

use common::Uploaded;
use lapidary_core::testing::{Arrangement, Case, Values, pairwise_shapes};
use lapidary_core::{ElementType, Problem};
use lapidary_wgsl::Wgsl;

/// Runs every kernel for these element types on `shapes`, with each of `epilogues` in turn, and
/// returns how many runs there were.
fn run(
    device: &Wgsl,
    (operand, output): (ElementType, ElementType),
    shapes: &[[usize; 3]],
    epilogues: &[usize],
) -> usize {
    let kernels = common::kernels(operand);
    for (index, &[m, n, k]) in shapes.iter().enumerate() {
        let problem = Problem::new(m, n, k).elements(operand, output);
        // Batches of two where the product is small.
        let batch = if m * n * k < 70_000 && index % 3 == 0 { 2 } else { 1 };
        let problem = common::epilogue(problem, epilogues[index % epilogues.len()]).batch(batch);
        let outputs = Arrangement::OUTPUTS;
        let mut case = Case::new(problem, Values::SmallIntegers(4), index as u64).arranged(
            Arrangement::Dense,
            Arrangement::Padded,
            outputs[(index + index / outputs.len()) % outputs.len()],
        );
        let expected = common::expect(&mut case);
        let uploaded = Uploaded::aligned(device, &case);
        for &kernel in &kernels {
            uploaded.check(device, kernel, &expected);
        }
    }
    println!("{operand} -> {output}: {} runs, all bits equal", shapes.len() * kernels.len());
    shapes.len() * kernels.len()
}

/// Every `step`-th of the pairwise shapes; with a step that has no factor in common with the number
/// of sizes, every size still occurs along every axis.
fn sampled(step: usize) -> Vec<[usize; 3]> {
    pairwise_shapes().into_iter().step_by(step).collect()
}

#[test]
fn f32_at_every_pair_of_sizes() {
    let Some(device) = common::device() else { return };
    let f32 = ElementType::F32;
    let runs = run(device, (f32, f32), &pairwise_shapes(), &[0, 1, 2, 3, 4, 5, 0]);
    assert_eq!(runs, 196 * 16);
}

#[test]
fn every_other_combination_of_types() {
    let Some(device) = common::device() else { return };
    for types in common::COMBINATIONS.into_iter().skip(1) {
        if types.0 == ElementType::F16 && !device.limits().f16 {
            println!("skipped: the device lacks SHADER_F16");
            continue;
        }
        // Where the kernel itself stores C, each epilogue is a kernel to compile.
        let epilogues: &[usize] =
            if types.1.size() == 4 { &[0, 1, 4] } else { &[0, 1, 2, 3, 4, 5] };
        run(device, types, &sampled(13), epilogues);
    }
}
