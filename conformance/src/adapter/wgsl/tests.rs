//! Whether the generated cases are cut where they are meant to be.

use std::collections::BTreeMap;

use lapidary_core::{Backend, PlanOptions};
use lapidary_wgsl::stream;

use super::devices::{BUDGET, Cutting};
use super::*;
use crate::generate::generate;

/// Along which axes a spec's product is cut on the device of its route.
fn cuts(cutting: &Cutting, spec: &Spec, kernel: KernelChoice) -> Vec<&'static str> {
    let problem = spec.laid_out().expect("a valid problem").0;
    let options = PlanOptions::kernel(kernel);
    let of = |along: [bool; 4]| {
        let names = ["batch", "M", "N", "K"].into_iter().zip(along);
        names.filter_map(|(name, cut)| cut.then_some(name)).collect()
    };
    let device = &cutting.pieces;
    match spec.route {
        Route::Streamed => {
            let limits = cutting.streamed.limits();
            stream::cut(&problem, limits, &options, "none", BUDGET).map_or_else(
                |error| panic!("{spec}: {error}"),
                |cut| {
                    let [batch, m, n] = cut.c.to_array();
                    let k = problem.reads_factors() && cut.k < problem.k;
                    of([batch < problem.batch, m < problem.m, n < problem.n, k])
                },
            )
        }
        _ => match device.decide(&problem, kernel) {
            Ok(decision) => of([
                decision.chunks.iter().any(|chunk| chunk.batch0 > 0),
                decision.chunks.iter().any(|chunk| chunk.row0 > 0),
                decision.chunks.iter().any(|chunk| chunk.col0 > 0),
                false,
            ]),
            Err(Error::LimitExceeded { .. }) => {
                let plan = device.plan(&problem, &options).expect("it runs in pieces");
                let notes = &device.summary(&plan).notes;
                assert!(notes.iter().any(|note| note.contains("whose sums a pass of its own")));
                of([false, false, false, true])
            }
            Err(error) => panic!("{spec}: {error}"),
        },
    }
}

/// The default device; says so where there is none, and fails where there has to be one.
fn adapter() -> Option<WgslAdapter> {
    WgslAdapter::open(&WgslOptions::default())
        .inspect_err(|error| {
            assert!(std::env::var("LAPIDARY_REQUIRE_GPU").as_deref() != Ok("1"), "{error}");
            println!("skipped: {error}");
        })
        .ok()
}

/// A list as long as that of `--quick` has products cut along every axis, with a bias and with scales
/// where scales can be.
#[test]
fn generated_products_are_cut_along_every_axis() {
    let Some(adapter) = adapter() else { return };
    let cutting = adapter.devices.cutting.as_ref().expect("it was opened");
    let items = generate(&adapter, 1200, 4, 1);
    let mut count: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    let (mut all, mut cut) = ([0; 2], [0; 2]);
    for item in items.iter().filter(|item| item.spec.route.is_cut()) {
        let (spec, route) = (&item.spec, item.spec.route);
        let outline = Outline::of_spec(spec).expect("a valid problem");
        if adapter.expect(&item.kernel, &outline, route) != Expectation::Runs {
            continue;
        }
        let along = cuts(cutting, spec, item.kernel);
        let streamed = usize::from(route == Route::Streamed);
        all[streamed] += 1;
        cut[streamed] += usize::from(!along.is_empty());
        for axis in along {
            for (with, given) in [("bias", spec.bias), ("scales", spec.row_scale)] {
                *count.entry((route.name(), axis, with)).or_default() += usize::from(given);
            }
        }
    }
    println!("{cut:?} of {all:?} are cut: {count:?}");
    assert!(all.iter().zip(cut).all(|(&all, cut)| all >= 80 && cut * 2 > all));
    for axis in ["batch", "M", "N", "K"] {
        for (route, with) in [("pieces", "bias"), ("pieces", "scales"), ("streamed", "bias")] {
            // Scales keep K whole.
            let possible = (axis, with) != ("K", "scales");
            let some = count.get(&(route, axis, with)).is_some_and(|&count| count > 0);
            assert_eq!(some, possible, "{route} {axis} {with}");
        }
    }
}

/// A list as long as that of `--quick` has kernels of every body that knows sizes, on a device that writes
/// them into the text where the plain one does not, and outputs that such kernels store four at a time.
#[test]
fn generated_products_are_specialised() {
    let Some(adapter) = adapter() else { return };
    let (mut count, mut quads) = (BTreeMap::<_, usize>::new(), 0);
    for item in generate(&adapter, 1300, 4, 1) {
        let (spec, route) = (&item.spec, item.spec.route);
        let outline = Outline::of_spec(spec).expect("a valid problem");
        if route != Route::Specialised
            || adapter.expect(&item.kernel, &outline, route) != Expectation::Runs
        {
            continue;
        }
        let problem = spec.laid_out().expect("a valid problem").0;
        let mut options = PlanOptions::kernel(item.kernel);
        (options.k_slices, options.copies) = (spec.k_slices, spec.copies);
        let plan = adapter.devices.of(route).plan(&problem, &options).expect("it runs");
        let decision = plan.decision();
        let Some(kernel) = decision.kernel.as_ref().filter(|kernel| kernel.body.is_written_out())
        else {
            continue;
        };
        assert!(kernel.sizes.is_some(), "{spec}");
        *count.entry(format!("{:?}", kernel.body)).or_default() += 1;
        quads += usize::from(decision.stores_quads());
    }
    println!("{count:?}, of which {quads} store four narrow elements at a time");
    assert!(
        ["Vector", "Skinny", "Split"].iter().all(|body| count.contains_key(*body)),
        "{count:?}"
    );
    assert!(quads > 0);
}
