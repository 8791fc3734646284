//! Case files: the built-in ones, and what is wrong with others.

use lapidary_conformance::adapter::{Adapter, CpuAdapter};
use lapidary_conformance::file::{self, FileError};
use lapidary_conformance::names;
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
    // The filter that runs a failure again is a name and a kernel.
    for one in &cases {
        let ends = |other: &&Spec| other.name != one.name && other.name.ends_with(&one.name);
        let other = cases.iter().find(ends).map(|other| &other.name);
        assert_eq!(other, None, "{} would not run alone", one.name);
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

/// A case file with one case of these lines.
fn one(lines: &str) -> String {
    format!("[[case]]\nname = 'a'\nreason = 'b'\n{lines}\n")
}

#[test]
fn lists_have_as_many_values_as_they_should() {
    for (lines, expected) in [
        ("shape = [1, 2, 3, 4]", "3 sizes (M, N and K), there are 4"),
        ("shape = [1, 2]", "3 sizes (M, N and K), there are 2"),
        (
            "shape = [1, 2, 3]\ntypes = ['f32', 'f32', 'f32', 'f32']",
            "3 types (of A, B and C), there are 4",
        ),
        (
            "shape = [1, 2, 3]\nlayouts = ['dense', 'dense', 'dense', 'rows']",
            "3 layouts (of A, B and C), there are 4",
        ),
        ("shape = [1, 2, 3]\ncopies = [true, true, true]", "2 copies (of A and B), there are 3"),
        ("shape = [1, 2, -3]", "-3"),
    ] {
        let error = file::parse("x.toml", &one(lines)).expect_err(lines).to_string();
        assert!(error.contains(expected) && error.contains("line "), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn names_fit_a_line_of_a_report() {
    for name in [r#""two\nlines""#, r#""bell\u0007""#, "' before'", "'after '"] {
        let text = format!("[[case]]\nname = {name}\nreason = 'b'\nshape = [1, 2, 3]\n");
        let error = file::parse("x.toml", &text).expect_err(name);
        assert!(matches!(error, FileError::Name { .. }), "{error}");
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
    let text = "[[case]]\nname = ''\nreason = 'b'\nshape = [1, 2, 3]\n";
    let error = file::parse("x.toml", text).expect_err("no name");
    assert!(matches!(error, FileError::NoReason { .. }), "{error}");
}

/// Every size and layout of a file is judged by arithmetic alone: these would not fit any memory.
#[test]
fn cases_of_any_size_are_judged_without_their_operands() {
    let size = i64::MAX;
    for lines in [
        "shape = [100000, 100000, 100000]".to_owned(),
        "shape = [1000000000, 1, 1]\nlayouts = ['aligned', 'spread', 'padded-columns']".into(),
        "shape = [0, 0, 0]\nbatch = 1000000000000".into(),
    ] {
        assert_eq!(file::parse("x.toml", &one(&lines)).expect(&lines).len(), 1);
    }
    for layout in names::ARRANGEMENTS.map(|(name, _)| name) {
        for lines in [
            format!("shape = [{size}, 1, 1]"),
            format!("shape = [1, {size}, {size}]"),
            format!("shape = [1, 1, 1]\nbatch = {size}"),
            format!("shape = [3, {}, 0]\ntypes = ['i8', 'i4', 'i32']", size / 3),
        ] {
            let lines = format!("{lines}\nlayouts = ['dense', 'dense', '{layout}']");
            let error = file::parse("x.toml", &one(&lines)).expect_err(&lines);
            assert!(matches!(error, FileError::Invalid { .. }), "{error}");
        }
    }
}

#[test]
fn factors_are_finite_where_they_are_used() {
    for (lines, expected) in [
        ("alpha = nan", "alpha = NaN, which is not finite in f32"),
        ("alpha = 1e300", "alpha = 1e300"),
        ("beta = -inf", "beta = -inf"),
        ("alpha = inf\ntypes = ['f64', 'f64', 'f64']", "not finite in f64"),
    ] {
        let text = one(&format!("shape = [1, 2, 3]\n{lines}"));
        let error = file::parse("x.toml", &text).expect_err(lines);
        let named = matches!(error, FileError::Factor { .. });
        assert!(named && error.to_string().contains(expected), "{error}");
    }
    let wide = one("shape = [1, 2, 3]\nalpha = 1e300\ntypes = ['f64', 'f64', 'f64']");
    assert!(file::parse("x.toml", &wide).is_ok());
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
    let seeds = read.iter().map(|spec| suite::data_seed(1, spec)).collect::<Vec<_>>();
    assert_eq!(seeds[0], seeds[1], "the data follows the case that it comes from");
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
