//! Every planted bug is noticed, by the tier that it says, and no case fails without its bug.

use lapidary_conformance::planted::{self, Harvest, Selection};
use lapidary_conformance::tier::Tier;

/// Plants the bugs whose name contains `filter` and prints what became of them.
fn plant(filter: &str) -> Harvest {
    let mut selection = Selection::default();
    selection.filter = Some(filter.to_owned());
    let harvest = planted::plant(&selection, &|_, _| {}).unwrap_or_else(|error| panic!("{error}"));
    for (name, reason) in harvest.skipped.iter().chain(&harvest.left_out) {
        println!("skipped: {name}: {reason}");
    }
    for kill in &harvest.kills {
        let by = kill.noticed.map_or("nobody", Tier::name);
        println!("{}: {} ({})", kill.name, by, kill.what);
        assert!(
            kill.as_expected(),
            "{}: {by}, not {}: {}",
            kill.name,
            kill.expected.name(),
            kill.message
        );
    }
    assert!(harvest.spoiled.is_empty(), "fail without the bug: {:?}", harvest.spoiled);
    harvest
}

/// Bugs that pass a plain tolerance check at 128×128×128: why there are better tiers.
fn plain(harvest: &Harvest) -> usize {
    harvest.kills.iter().filter(|kill| kill.passes_bound == Some(true)).count()
}

#[test]
fn bugs_in_shaders() {
    let harvest = plant("wgsl-");
    if harvest.skipped.is_empty() {
        assert!(harvest.kills.len() >= 20 && plain(&harvest) >= 10, "{}", plain(&harvest));
    }
    let required = std::env::var("LAPIDARY_REQUIRE_GPU").is_ok_and(|value| value == "1");
    assert!(!required || harvest.skipped.is_empty(), "{:?}", harvest.skipped);
}

/// On a device that lists cooperative matrices; `LAPIDARY_REQUIRE_MATRIX_UNITS` says that there is one.
#[test]
fn bugs_in_kernels_on_matrix_units() {
    let harvest = plant("matrix-");
    let required = std::env::var("LAPIDARY_REQUIRE_MATRIX_UNITS").is_ok_and(|value| value == "1");
    assert!(!required || harvest.kills.len() >= 8, "{:?} {:?}", harvest.skipped, harvest.left_out);
}

#[test]
fn bugs_in_hip_kernels() {
    let harvest = plant("hip-");
    if harvest.skipped.is_empty() {
        assert!(harvest.kills.len() >= 20 && plain(&harvest) >= 8, "{}", plain(&harvest));
    }
}

#[test]
fn bugs_in_the_cpu_backend_and_in_the_checker() {
    for (filter, at_least, pass_plain) in [("cpu-", 8, 6), ("oracle-", 20, 0)] {
        let harvest = plant(filter);
        assert!(harvest.kills.len() >= at_least && plain(&harvest) >= pass_plain);
        assert_eq!(harvest.skipped, [], "the sources are here");
    }
}

#[test]
fn bugs_are_short_diffs_of_the_real_source() {
    let bugs = planted::bugs().expect("the lists are valid");
    assert!(bugs.len() >= 30);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names = std::collections::HashSet::new();
    for bug in &bugs {
        assert!(names.insert(&bug.name), "{} twice", bug.name);
        let changed = |sign: char| {
            let body = bug.patch.lines().skip(2);
            body.filter(|line| line.starts_with(sign)).count()
        };
        assert!(changed('+') <= 2 && changed('-') <= 2, "{}", bug.name);
        let file = bug.file().expect("a file");
        let mut source = std::fs::read_to_string(root.join(file)).expect("the source");
        if bug.emitted {
            source = planted::emitted(bug).unwrap_or_else(|error| panic!("{error}"));
        }
        let planted = bug.apply(&source).unwrap_or_else(|error| panic!("{error}"));
        assert_ne!(planted, source, "{}", bug.name);
    }
}

#[test]
fn the_checker_itself_is_right() {
    lapidary_conformance::check::oracle().unwrap_or_else(|fault| panic!("{}", fault.message));
}
