//! The autotuner: right results whatever the cache holds, and candidates that fail are dropped.

#![cfg(feature = "tune")]

mod common;

use std::fs;
use std::time::Duration;

use lapidary_core::testing::{Case, Values};
use lapidary_core::{
    Backend, ElementType, Gemm, KernelChoice, Layout, PlanOptions, Problem, oracle,
};
use lapidary_wgsl::tune::{Outcome, TuneCache, TuneOptions, candidates};
use lapidary_wgsl::{Wgsl, WgslOptions};

/// Two runs, no warm-up, and none too slow: what matters here is not the time.
fn quick() -> TuneOptions {
    let mut options = TuneOptions::default().runs(2).warm_up(Duration::ZERO);
    options.give_up = f64::INFINITY;
    options
}

/// The candidates with these names.
fn some(problem: &Problem, names: &[&str]) -> Vec<candidates::Candidate> {
    candidates::candidates(problem, false)
        .into_iter()
        .filter(|candidate| names.contains(&candidate.name.as_str()))
        .collect()
}

fn device_with(cache: &TuneCache) -> Option<Wgsl> {
    common::own(&WgslOptions::default().tune_cache(cache.clone()))
}

/// Multiplies on `device` and compares every element with the oracle.
fn check(device: &Wgsl, problem: &Problem) {
    let case = Case::new(problem.clone(), Values::Uniform, 3);
    let output = Gemm::<Wgsl>::run(device, problem, &case.operands()).expect("multiplies");
    let reference = oracle::reference(problem, &case.operands()).expect("a valid case");
    let comparison = reference.compare(&output.matrix.as_ref());
    assert!(comparison.passed(), "{}: {comparison}", output.summary.kernel);
}

fn summary(device: &Wgsl, problem: &Problem) -> (String, String) {
    let plan = device.plan(problem, &PlanOptions::default()).expect("plans");
    let summary = device.summary(&plan);
    (summary.kernel.clone(), summary.reason.clone())
}

#[test]
fn the_winner_is_remembered_and_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = TuneCache::at(folder.path().join("tune"));
    let Some(device) = device_with(&cache) else { return };
    let problem = Problem::new(40, 36, 33);
    let (before, reason) = summary(&device, &problem);
    assert!(!reason.contains("measured"), "{reason}");

    // Two kernels that are not what the backend picks; the table lists both as timed.
    let among = some(&problem, &["2_workgroup_tile", "4_single_buffer"]);
    assert_eq!(among.len(), 2);
    let report = device.tune_among(&problem, &quick(), &among).expect("tunes");
    for row in &report.candidates {
        assert!(matches!(row.outcome, Outcome::Timed { seconds, .. } if seconds > 0.0), "{row:?}");
        assert_ne!(row.kernel, before);
    }
    let winner = &report.candidates[report.winner.expect("one was the fastest")];
    let stored = report.stored.expect("there is a cache").expect("it can be written");
    assert!(stored.starts_with(folder.path()));

    // This device uses it, and so does one that another process would open; not one without a cache.
    let (kernel, reason) = summary(&device, &problem);
    assert_eq!((&kernel, reason.contains("measured")), (&winner.kernel, true));
    let other = device_with(&cache).expect("it opened before");
    assert_eq!(summary(&other, &problem).0, winner.kernel);
    check(&other, &problem);
    let without = common::device().expect("it opened before");
    assert_eq!(summary(without, &problem).0, before);

    // A kernel that is asked for is not replaced, and other classes are as they were.
    let asked = PlanOptions::kernel(KernelChoice::Naive);
    let plan = device.plan(&problem, &asked).expect("plans");
    assert_eq!(device.summary(&plan).kernel, "1_naive");
    let transposed = problem.b_layout(Layout::col_major(33, 36));
    assert!(!summary(&device, &transposed).1.contains("measured"));
}

#[test]
fn a_cache_that_is_empty_corrupt_or_wrong_changes_no_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = TuneCache::at(folder.path());
    let Some(device) = device_with(&cache) else { return };
    let problem = Problem::new(33, 20, 17).bias(true).beta(0.5);
    check(&device, &problem);

    let among = some(&problem, &["1_naive", "2_workgroup_tile"]);
    let report = device.tune_among(&problem, &quick(), &among).expect("tunes");
    let path = report.stored.expect("there is a cache").expect("it can be written");
    check(&device, &problem);
    let text = fs::read_to_string(&path).expect("it was written");
    let winner = &report.candidates[report.winner.expect("one was the fastest")].candidate;
    // Half a file, no JSON, a kernel that does not exist, and one for other element types.
    let unknown = text.replace(winner.as_str(), "9_warp_drive");
    let unsuitable =
        text.replace(winner.as_str(), &KernelChoice::generic(ElementType::I8)[0].name());
    for damage in [&text[..text.len() / 2], "\u{0}\u{1}", &unknown, &unsuitable] {
        fs::write(&path, damage).expect("writable");
        check(&device, &problem);
        assert!(!summary(&device, &problem).1.contains("measured"));
    }
}

#[test]
fn a_cache_that_cannot_be_written_costs_the_memory_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let blocked = folder.path().join("file");
    fs::write(&blocked, "in the way").expect("writable");
    let Some(device) = device_with(&TuneCache::at(&blocked)) else { return };
    let problem = Problem::new(24, 24, 24);
    let among = some(&problem, &["1_naive"]);
    let report = device.tune_among(&problem, &quick(), &among).expect("tunes");
    assert_eq!(report.winner, Some(0));
    let reason = report.stored.expect("there is a cache").expect_err("a file is in the way");
    assert!(reason.contains("cannot be written"), "{reason}");
    check(&device, &problem);
}

#[test]
fn processes_that_tune_at_the_same_time_all_finish_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = TuneCache::at(folder.path());
    // A device each, as processes have: nothing is shared but the folder.
    let devices: Vec<Wgsl> = (0..3).map_while(|_| device_with(&cache)).collect();
    std::thread::scope(|scope| {
        for (index, device) in devices.iter().enumerate() {
            scope.spawn(move || {
                let problem = Problem::new(16 + index, 16, 16);
                let among = some(&problem, &["1_naive", "2_workgroup_tile"]);
                for _ in 0..3 {
                    device.tune_among(&problem, &quick(), &among).expect("tunes");
                    check(device, &problem);
                }
            });
        }
    });
    for (index, device) in devices.iter().enumerate() {
        assert!(summary(device, &Problem::new(16 + index, 16, 16)).1.contains("measured"));
    }
}

/// The same with a process of its own: this test again, told to tune and nothing else.
#[test]
fn another_process_that_tunes_does_no_harm() {
    const NAME: &str = "another_process_that_tunes_does_no_harm";
    const INSIDE: &str = "LAPIDARY_TEST_TUNE_FOLDER";
    let problem = |index: usize| Problem::new(16, 24 + index, 16);
    let tune = |device: &Wgsl, index: usize| {
        let among = some(&problem(index), &["1_naive", "2_workgroup_tile"]);
        device.tune_among(&problem(index), &quick(), &among).expect("tunes");
        check(device, &problem(index));
    };
    if let Some(folder) = std::env::var_os(INSIDE) {
        let Some(device) = device_with(&TuneCache::at(folder)) else { return };
        (0..4).for_each(|index| tune(&device, index));
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let Some(device) = device_with(&TuneCache::at(folder.path())) else { return };
    let program = std::env::current_exe().expect("this program");
    let mut other = std::process::Command::new(program)
        .args(["--exact", NAME])
        .env(INSIDE, folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("starts");
    (4..8).for_each(|index| tune(&device, index));
    assert!(other.wait().expect("ends").success());
    for index in 0..8 {
        assert!(summary(&device, &problem(index)).1.contains("measured"), "{index}");
    }
}

#[test]
fn weights_with_scales_are_measured() {
    let Some(device) = common::device() else { return };
    let problem = Problem::new(3, 32, 64)
        .factors(ElementType::F32, ElementType::I4)
        .row_scale(true)
        .b_group(Some(16));
    let among = some(&problem, &["1_naive", "skinny, 1 slices of K"]);
    assert_eq!(among.len(), 2);
    let report = device.tune_among(&problem, &quick(), &among).expect("tunes");
    for row in &report.candidates {
        assert!(matches!(row.outcome, Outcome::Timed { .. }), "{row:?}");
    }
}

#[test]
fn candidates_that_are_refused_are_dropped() {
    let Some(device) = common::downlevel() else { return };
    // An odd row length, which loads of four elements refuse; blocks beyond the device's limits.
    let problem = Problem::new(30, 31, 29).elements(ElementType::F32, ElementType::F32);
    let names = ["1_naive", "5_vectorized_4"];
    let report = device.tune_among(&problem, &quick(), &some(&problem, &names)).expect("tunes");
    assert_eq!(report.winner, Some(0));
    assert!(matches!(report.candidates[1].outcome, Outcome::Refused { .. }));
    assert!(report.stored.is_none(), "there is no cache");
}

#[test]
fn a_problem_that_cannot_be_planned_is_an_error() {
    let Some(device) = common::device() else { return };
    let problem = Problem::new(4, 4, 4).elements(ElementType::F64, ElementType::F64);
    assert!(device.tune(&problem, &quick()).is_err());
    // Nothing to compute: nothing to measure, and no candidate that fails.
    let report = device.tune(&Problem::new(0, 4, 4), &quick()).expect("nothing to do");
    assert!(report.candidates.iter().all(|row| !matches!(row.outcome, Outcome::Wrong { .. })));
}
