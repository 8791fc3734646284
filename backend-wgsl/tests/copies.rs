//! Copies of operands, both ways, exactly: every type, lines that start and end anywhere in a word,
//! backwards, in batches.

mod common;

use common::Uploaded;
use lapidary_core::policy::{KernelConfig, RegisterPrefetch, VectorFma, VectorMac};
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{Backend, ElementType, KernelChoice, PlanOptions, Problem};
use lapidary_wgsl::decide::{CopyWay, Reads};

#[test]
fn copies_hold_what_the_operands_hold() {
    use Arrangement::{
        ColMajor, Dense, Padded, PaddedColMajor, ReversedBatch, ReversedCols, ReversedRows,
        SharedBatch, Spread, UnalignedBatch,
    };
    use ElementType::{BF16, F16, F32, I8};
    let Some(device) = common::tuned() else { return };
    let float = KernelConfig::of::<RegisterPrefetch<32, 32, 8>, VectorFma<4, 8>>();
    let integer = KernelConfig::of::<RegisterPrefetch<32, 32, 8>, VectorMac<4, 8>>();
    for element in [F32, F16, BF16, I8] {
        if !device.info().elements.contains(&element) {
            println!("skipped: the device has no {element}");
            continue;
        }
        let config = if element == I8 { integer } else { float };
        let kernel = PlanOptions::kernel(KernelChoice::Policy(config));
        // Straight and through tiles, of A and of B.
        let mut ways = [[0; 2]; 2];
        for (index, [m, n, k]) in
            [[33, 47, 35], [64, 96, 64], [129, 300, 67], [5, 290, 1], [31, 1, 258], [40, 33, 17]]
                .into_iter()
                .enumerate()
        {
            for [a, b] in [
                [Dense, Dense],
                [ColMajor, ColMajor],
                [PaddedColMajor, Padded],
                [Padded, PaddedColMajor],
                [ReversedCols, ReversedRows],
                [ReversedRows, ReversedCols],
                [Spread, ReversedBatch],
                [UnalignedBatch, SharedBatch],
            ] {
                let problem = Problem::new(m, n, k)
                    .elements(element, element.accumulator())
                    .batch(1 + index % 3);
                let mut case = Case::new(problem, Values::SmallIntegers(2), index as u64)
                    .arranged(a, b, Dense);
                let expected = common::expect(&mut case);
                let uploaded = Uploaded::new(device, &case);
                let options = kernel.clone().copies([true, true]);
                let decision = uploaded.check_with(device, &options, &expected);
                let [a_layout, b_layout] =
                    [case.problem.a_layout, case.problem.b_layout.transposed()];
                let sides = [(decision.operands.a, a_layout), (decision.operands.b, b_layout)];
                for (side, (Reads { copy, .. }, source)) in sides.into_iter().enumerate() {
                    let copy = copy.expect("as asked");
                    let straight = CopyWay::of(copy.order, element, source) == CopyWay::Straight;
                    ways[side][usize::from(straight)] += 1;
                }
            }
        }
        assert!(ways.iter().flatten().all(|&count| count > 4), "{element}: {ways:?}");
        println!("{element}: {ways:?} through tiles and straight, all bits equal");
    }
}
