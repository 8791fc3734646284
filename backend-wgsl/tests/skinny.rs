//! The kernel for few rows or few columns: every count, both ways its larger operand can lie, with
//! subgroups and without.

mod common;

use common::Uploaded;
use lapidary_core::testing::{Arrangement, Case, Values};
use lapidary_core::{ElementType, Error, Gemm, KernelChoice, PlanOptions, Problem};
use lapidary_wgsl::decide::{Skinny, Team, Tuning};
use lapidary_wgsl::{Wgsl, WgslOptions, wgpu};

/// Runs every shape for these types, and returns the teams that were met.
fn run(device: &Wgsl, operand: ElementType, output: ElementType) -> Vec<Skinny> {
    use Arrangement::{ColMajor, Dense, Padded, PaddedColMajor, RowMajor};
    let mut teams = Vec::new();
    for (index, [m, n, k]) in [
        [1, 64, 128],
        [1, 33, 517],
        [2, 70, 1],
        [5, 129, 130],
        [65, 1, 300],
        [37, 3, 131],
        [9, 40, 66],
        [1, 1, 1030],
        [7, 7, 7],
        [1, 1, 2],
    ]
    .into_iter()
    .enumerate()
    {
        for larger in [[RowMajor, ColMajor], [Dense, PaddedColMajor]][index % 2] {
            let batch = 1 + index % 2;
            let problem = Problem::new(m, n, k).elements(operand, output).batch(batch);
            let problem = common::epilogue(problem, index % 3);
            let smaller = [Dense, Padded, ColMajor][index % 3];
            let (a, b) = if m <= n { (smaller, larger) } else { (larger, smaller) };
            let mut case = Case::new(problem, Values::SmallIntegers(3), index as u64).arranged(
                a,
                b,
                Arrangement::OUTPUTS[index % 8],
            );
            let expected = common::expect(&mut case);
            let uploaded = Uploaded::new(device, &case);
            let slices = if index % 4 == 1 { 2 } else { 1 };
            let options = PlanOptions::kernel(KernelChoice::Skinny).k_slices(slices);
            let decision = uploaded.check_with(device, &options, &expected);
            teams.extend(decision.kernel.and_then(|kernel| kernel.skinny));
        }
    }
    teams
}

#[test]
fn every_count_and_layout_is_exact() {
    let Some(device) = common::device() else { return };
    let teams = run(device, ElementType::F32, ElementType::F32);
    assert!(teams.iter().any(|s| matches!(s.team, Team::Across { .. })));
    assert!(teams.iter().any(|s| matches!(s.team, Team::Along { .. })));
    assert!(teams.iter().any(|s| s.few_rows) && teams.iter().any(|s| !s.few_rows));
    let subgroups = device.limits().subgroup_lanes > 1;
    for skinny in teams {
        if let Team::Along { subgroup, .. } = skinny.team {
            assert_eq!(subgroup, subgroups);
        }
    }
    run(device, ElementType::I8, ElementType::I32);
    run(device, ElementType::I8, ElementType::I8);
    run(device, ElementType::F32, ElementType::BF16);
    if device.limits().f16 {
        run(device, ElementType::F16, ElementType::F32);
    } else {
        println!("skipped f16: the device lacks SHADER_F16");
    }
}

#[test]
fn teams_add_up_without_subgroups() {
    let Some(device) = common::downlevel() else { return };
    assert_eq!(device.limits().subgroup_lanes, 0);
    for skinny in run(device, ElementType::F32, ElementType::F32) {
        assert!(!matches!(skinny.team, Team::Along { subgroup: true, .. }), "{skinny:?}");
        assert!(skinny.threads <= 256);
    }
}

#[test]
fn too_many_rows_and_columns_are_refused() {
    let Some(device) = common::device() else { return };
    let options = PlanOptions::kernel(KernelChoice::Skinny);
    match Gemm::<Wgsl>::plan(device, &Problem::new(17, 18, 5), &options).map(|_| ()) {
        Err(Error::KernelUnsuitable { kernel, reason }) => {
            assert_eq!(kernel, "skinny");
            assert_eq!(reason, "it computes up to 16 rows or columns, C is 17x18");
        }
        other => panic!("{other:?}"),
    }
}

/// A device may allow any number of threads; with groups that do not halve evenly sums would be lost.
#[test]
fn odd_numbers_of_threads_are_exact() {
    for threads in [192, 384, 1000] {
        let limits = wgpu::Limits {
            max_compute_invocations_per_workgroup: threads,
            max_compute_workgroup_size_x: threads,
            ..wgpu::Limits::defaults()
        };
        let options =
            WgslOptions::default().restrict(limits, wgpu::Features::empty()).tuning(Tuning::HOPPER);
        let Some(device) = common::own(&options) else { return };
        for [m, n, k] in [[1, 104, 624], [3, 65, 200], [77, 1, 500]] {
            let problem = Problem::new(m, n, k);
            let mut case = Case::new(problem, Values::SmallIntegers(3), 5);
            let expected = common::expect(&mut case);
            let options = PlanOptions::kernel(KernelChoice::Skinny);
            Uploaded::new(&device, &case).check_with(&device, &options, &expected);
        }
    }
}
