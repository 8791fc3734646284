//! Cooperative matrices, exactly, where the device lists a configuration: whole and cut blocks, tails
//! of K, slices, every arrangement, every epilogue.
//!
//! Small integers are exact in f16 and their sums in f32, whatever the order and rounding inside the
//! matrix units.

mod common;

use common::Uploaded;
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{ElementType, Error, KernelChoice, PlanOptions, Problem};
use lapidary_wgsl::decide::{Body, cooperative_blocks, decide};

#[test]
fn every_block_is_exact_or_refused_for_want_of_matrix_units() {
    let Some(device) = common::tuned() else { return };
    let block = KernelChoice::Policy(cooperative_blocks()[0].config);
    if !device.limits().cooperative {
        let problem = Problem::new(128, 128, 32).elements(ElementType::F16, ElementType::F32);
        match decide(&problem, device.limits(), block, "a device") {
            Err(Error::KernelUnsuitable { reason, .. }) => {
                assert!(reason.starts_with("the device lists no 16x16x16"), "{reason}");
            }
            Err(Error::ElementTypeUnavailable { .. }) => {}
            other => panic!("{other:?}"),
        }
        println!("skipped: the device lists no cooperative matrices");
        return;
    }
    use Arrangement::{ColMajor, Dense, Padded, RowMajor};
    let mut runs = 0;
    for row in cooperative_blocks() {
        let kernel = KernelChoice::Policy(row.config);
        for (index, [m, n, k]) in [
            [128, 256, 64],
            [256, 256, 128],
            [127, 257, 67],
            [130, 66, 35],
            [33, 40, 3],
            [255, 129, 131],
            [64, 64, 40],
            [1, 1, 1],
            [129, 513, 1027],
        ]
        .into_iter()
        .enumerate()
        {
            for (output, epilogue) in
                [(ElementType::F32, 0), (ElementType::F32, 1), (ElementType::F16, index % 3)]
            {
                let problem =
                    Problem::new(m, n, k).elements(ElementType::F16, output).batch(1 + index % 2);
                let problem = common::epilogue(problem, epilogue);
                let [a, b, c] = [
                    [RowMajor, RowMajor, RowMajor],
                    [Dense, Padded, Padded],
                    [ColMajor, ColMajor, ColMajor],
                    [Padded, Dense, Dense],
                ][(index + epilogue) % 4];
                let seed = index as u64;
                let mut case = Case::new(problem, Values::SmallIntegers(2), seed).arranged(a, b, c);
                let expected = common::expect(&mut case);
                let uploaded = Uploaded::new(device, &case);
                // Operands that do not start at a multiple of 16 bytes are copied or, where they
                // need not be, left to plain arithmetic.
                for (slices, copies) in [(1, [false; 2]), (1, [true; 2]), (3, [true; 2])] {
                    let options = PlanOptions::kernel(kernel).k_slices(slices).copies(copies);
                    let decision = uploaded.check_with(device, &options, &expected);
                    let kernel = decision.kernel.expect("a product");
                    assert_eq!(kernel.body, Body::Cooperative);
                    runs += 1;
                }
            }
        }
    }
    println!("{runs} runs, all bits equal");
}

/// i8 and i4 weights become f16 on their way to the tiles, which is exact; scales of columns follow.
#[test]
fn weights_are_exact_on_matrix_units() {
    let Some(device) = common::tuned() else { return };
    if !device.limits().cooperative {
        println!("skipped: the device lists no cooperative matrices");
        return;
    }
    use Arrangement::{ColMajor, Dense, Padded, RowMajor};
    for weights in [ElementType::I8, ElementType::I4] {
        for row in cooperative_blocks() {
            let kernel = KernelChoice::Policy(row.config);
            for (index, [m, n, k]) in [[128, 256, 64], [127, 257, 67], [33, 40, 3], [255, 129, 131]]
                .into_iter()
                .enumerate()
            {
                let problem = Problem::new(m, n, k)
                    .factors(ElementType::F16, weights)
                    .col_scale(index % 2 == 0)
                    .bias(index == 3);
                let b = [RowMajor, Padded, ColMajor, Dense][index];
                let mut case =
                    Case::new(problem, Values::SmallIntegers(3), 5).arranged(Dense, b, Padded);
                let expected = common::expect(&mut case);
                let uploaded = Uploaded::new(device, &case);
                for slices in [1, 2] {
                    let options =
                        PlanOptions::kernel(kernel).k_slices(slices).copies([true, index % 2 == 1]);
                    uploaded.check_with(device, &options, &expected);
                }
            }
        }
    }
}
