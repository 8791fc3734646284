//! Case files: the built-in ones, and what is wrong with others.

use lapidary_conformance::adapter::{Adapter, CpuAdapter};
use lapidary_conformance::file::{self, FileError};
use lapidary_conformance::report::Report;
use lapidary_conformance::shapes::ShapeClass;
use lapidary_conformance::spec::{Spec, Tag};
use lapidary_conformance::suite::{self, Mode, Options, Share};

#[test]
fn the_built_in_cases_are_valid_and_of_every_kind() {
    let cases = file::built_in().unwrap_or_else(|error| panic!("{error}"));
    for tag in [
        Tag::Tail,
        Tag::Skinny,
        Tag::Stride,
        Tag::Batch,
        Tag::SpecialValue,
        Tag::LargeIndex,
        Tag::Epilogue,
        Tag::Dtype,
        Tag::Limit,
        Tag::Empty,
    ] {
        assert!(cases.iter().any(|case| case.tags.contains(&tag)), "{tag:?}");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_the_case() {
    let parse = |text: &str| file::parse("x.toml", text).expect_err("it is wrong");
    let syntax = |text: &str| {
        let error = parse(text);
        assert!(matches!(error, FileError::Syntax { .. }), "{error}");
        let message = error.to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        message
    };
    assert!(syntax("[[case]]\nname = 1").contains("x.toml"));
    let unknown = syntax("[[case]]\nname = 'a'\nreason = 'b'\nshape = [1, 2, 3]\ntypo = 1");
    assert!(unknown.contains("typo"), "{unknown}");
    let layout = "[[case]]\nname = 'a'\nreason = 'b'\nshape = [1, 2, 3]\nlayouts = ['dense', 'diagonal', 'dense']";
    assert!(syntax(layout).contains("padded-columns"), "names what there is");
    let types =
        "[[case]]\nname = 'a'\nreason = 'b'\nshape = [1, 2, 3]\ntypes = ['f32', 'f32', 'f7']";
    assert!(syntax(types).contains("f8e4m3fnuz"));
    assert!(matches!(
        parse("[[case]]\nname = 'a'\nshape = [1, 2, 3]"),
        FileError::NoReason { name, .. } if name == "a"
    ));
    let twice = "[[case]]\nname = 'a'\nreason = 'b'\nshape = [1, 2, 3]\n".repeat(2);
    assert!(matches!(parse(&twice), FileError::Duplicate { name, .. } if name == "a"));
    let invalid =
        "[[case]]\nname = 'a'\nreason = 'b'\nshape = [1, 2, 3]\ntypes = ['f32', 'f16', 'f32']";
    assert!(matches!(parse(invalid), FileError::Invalid { name, .. } if name == "a"));
    let huge =
        "[[case]]\nname = 'a'\nreason = 'b'\nshape = [9000000000000000000, 9000000000000000000, 3]";
    assert!(matches!(parse(huge), FileError::Invalid { .. }), "and nothing is allocated for it");
}

#[test]
fn shrunk_failures_are_appended_once() {
    let dir = std::env::temp_dir().join(format!("lapidary-cases-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let path = dir.join("regressions.toml");
    let spec = Spec::new("shrunk", "failed once", [3, 4, 5]);
    assert!(file::append(&path, &spec).expect("it is written"));
    assert!(!file::append(&path, &spec).expect("it is there"), "the same case again");
    let mut other = spec.clone();
    other.shape = [1, 1, 7];
    assert!(file::append(&path, &other).expect("it is written"));
    let read = file::read(&path).expect("a list of cases");
    assert_eq!((read.len(), read[0].clone(), read[1].shape), (2, spec, [1, 1, 7]));
    assert_ne!(read[0].name, read[1].name);
    std::fs::remove_dir_all(&dir).expect("it is there");
}

#[test]
fn the_cpu_backend_passes_and_the_report_has_its_figures() {
    let adapter = CpuAdapter::new();
    let options = Options::new(Mode::Quick);
    let share = Share { cases: 250, per_build: 2 };
    let mut report = Report::new(&options);
    let part = suite::run(&adapter, &options, share, &|_, _| {}).expect("the cases are valid");
    assert!(part.failures.is_empty(), "{:#?}", part.failures);
    assert!(part.distinct >= 250 && part.special.iter().all(|seen| seen.as_ieee));
    assert!(part.codes.iter().all(|codes| codes.count == codes.right), "every code and tie");
    assert!(part.passed(), "not run {:?}, not listed {:?}", part.missing, part.unlisted);
    report.backends.push(part);
    assert!(report.passed());
    let json = serde_json::to_value(&report).expect("JSON");
    let kernels = json["backends"][0]["kernels"].as_object().expect("kernels");
    let first = kernels.values().next().expect("one at least");
    for field in ["cases", "passed", "units_max", "units_p99", "ulps_max", "bit_exact_share"] {
        assert!(first.get(field).is_some(), "{field}: {first}");
    }
    let text = report.to_string();
    assert!(text.contains("PASSED: ") && text.contains(adapter.name()), "{text}");
}

#[test]
fn a_filter_runs_one_case_alone() {
    let adapter = CpuAdapter::new();
    let mut options = Options::new(Mode::Quick);
    options.filter = Some("k-strip-and-one auto".to_owned());
    let share = Share { cases: 50, per_build: 2 };
    let report = suite::run(&adapter, &options, share, &|_, _| {}).expect("the cases are valid");
    assert_eq!((report.cases, report.failures.len()), (1, 0));
    assert_eq!(ShapeClass::of([64, 64, 17]).name(), "k-tail");
}
