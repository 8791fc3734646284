//! Reports: text and Markdown say the same, failures are kept as cases, and what is incomplete fails.

use lapidary_conformance::adapter::{
    Adapter, CpuAdapter, Executed, Expectation, Job, Outline, Promises, Types,
};
use lapidary_conformance::file;
use lapidary_conformance::planted;
use lapidary_conformance::report::{BackendReport, Markdown, Report};
use lapidary_conformance::spec::{Route, Spec};
use lapidary_conformance::suite::{self, Mode, Options, Share};
use lapidary_core::testing::Arrangement;
use lapidary_core::{DeviceInfo, ElementType, Error, KernelChoice};

/// The CPU backend in f32, with the first element of C wrong by a bit wherever K is larger than 2.
struct Wrong(CpuAdapter);

const F32: Types = Types::of(ElementType::F32, ElementType::F32, ElementType::F32);

impl Adapter for Wrong {
    fn name(&self) -> &str {
        "wrong"
    }
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }
    fn promises(&self) -> Promises {
        self.0.promises()
    }
    fn types(&self) -> Vec<Types> {
        vec![F32]
    }
    fn kernels(&self, types: Types) -> Vec<KernelChoice> {
        self.0.kernels(types)
    }
    fn kernel_names(&self) -> Vec<String> {
        self.0.kernel_names()
    }
    fn expect(&self, _: &KernelChoice, outline: &Outline, _: Route) -> Expectation {
        let problem = &outline.problem;
        if [problem.a, problem.b, problem.c] == F32.elements && !problem.is_empty() {
            Expectation::Runs
        } else {
            Expectation::Skipped("not looked at".into())
        }
    }
    fn large_side(&self) -> usize {
        100
    }
    fn reach(&self) -> f64 {
        1e5
    }
    fn execute(&self, job: &Job<'_>) -> Result<Executed, Error> {
        let mut executed = self.0.execute(job)?;
        if job.case.problem.k > 2 {
            executed.c[4 * job.case.c.placement().offset + 2] ^= 0x40;
        }
        Ok(executed)
    }
}

fn run(options: &Options) -> BackendReport {
    let share = Share { cases: 60, per_build: 6 };
    let adapter = Wrong(CpuAdapter::new());
    suite::run(&adapter, options, share, &|_, _| {}).expect("the cases are valid")
}

/// A report with something of everything that can be wrong.
fn failed() -> Report {
    let options = Options::new(Mode::Quick);
    let mut report = Report::new(&options);
    report.backends.push(run(&options));
    report.unavailable.push("nowhere: there is\nno device".into());
    report.idle.push("case elsewhere: for nowhere".into());
    report.spoiled.push("spoiled-bug: exact: it fails without".into());
    report.not_planted.push("missing-bug: no compiler".into());
    let bugs = planted::bugs().expect("the lists are valid");
    let unnoticed = bugs.iter().find(|bug| bug.backend == "oracle").expect("there is one");
    report.planted.push(planted::run_here(unnoticed).expect("the checker runs"));
    report
}

#[test]
fn text_and_markdown_say_the_same() {
    let report = failed();
    let failures = &report.backends[0].failures;
    let of_cases = failures.iter().filter(|failure| failure.spec.is_some()).count();
    let shrunk = failures.iter().filter(|failure| failure.shrunk.is_some()).count();
    assert!(of_cases > 20 && shrunk == 5, "{of_cases} {shrunk}");
    let mut expected = vec![
        "not run: nowhere: there is; no device".to_owned(),
        "not run: case elsewhere: for nowhere".to_owned(),
        "without the bug: spoiled-bug: exact: it fails without".to_owned(),
        "not planted: missing-bug: no compiler".to_owned(),
        format!("planted bug {}: noticed by nobody", report.planted[0].name),
        format!("{} failing cases were not shrunk", of_cases - shrunk),
        format!("{} failures more, in the report that --report writes", failures.len() - 20),
        "no case ran ".to_owned(),
        format!("{} cases, {} distinct: ", report.backends[0].cases, report.backends[0].distinct),
        "1 backend not here (nowhere)".to_owned(),
        "1 case for other backends".to_owned(),
        "seed 1".to_owned(),
    ];
    for failure in failures.iter().take(20) {
        expected.extend([failure.replay.clone(), failure.case.clone()]);
        expected.extend(failure.shrunk.as_ref().map(Spec::to_string));
    }
    for (form, text) in [("text", report.to_string()), ("page", Markdown(&report).to_string())] {
        for part in &expected {
            assert!(text.contains(part.as_str()), "{part} is not in the {form}:\n{text}");
        }
        for stray in [" 1 cases", ",:", "()", " 1 backends"] {
            assert!(!text.contains(stray), "{stray} is in the {form}:\n{text}");
        }
        let last = text.lines().last().expect("a verdict");
        assert!(last.contains("FAILED") && last.contains("failures"), "{last}");
    }
    // A line of text has a counterpart in the page, whatever it is about.
    let page = Markdown(&report).to_string();
    let plain = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
    let page = plain(&page).to_lowercase();
    for line in report.to_string().lines() {
        assert!(page.contains(&plain(line).to_lowercase()), "not in the page: {line}");
    }
}

#[test]
fn every_case_that_failed_is_kept_and_fails_again() {
    let report = failed();
    let failures = &report.backends[0].failures;
    let folder = std::env::temp_dir().join(format!("lapidary-record-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("kept.toml");
    let added = report.record(&path).expect("it is written");
    assert_eq!(report.record(&path).expect("it is read"), 0, "they are there already");
    let kept = file::read(&path).expect("a list of cases");
    std::fs::remove_dir_all(&folder).expect("it is there");
    assert_eq!(kept.len(), added);
    for failure in failures.iter().filter(|failure| failure.spec.is_some()) {
        let regression = failure.regression("wrong").expect("a case");
        assert!(
            kept.iter().any(|k| k.shape == regression.shape && k.layouts == regression.layouts),
            "{} is lost",
            failure.case
        );
    }
    let built_in = file::built_in().expect("valid");
    assert!(kept.iter().all(|kept| built_in.iter().all(|known| known.name != kept.name)));
    let count = kept.len();
    let mut options = Options::new(Mode::Quick);
    options.filter = Some("failed".into());
    options.cases = kept;
    let failed = options.cases.iter().filter(|case| case.name.contains("failed")).count();
    assert!(failed > 15 && failed < count, "some are shrunk, some are not");
    let again = run(&options);
    assert_eq!((again.cases, again.failures.len()), (failed, failed));
}

#[test]
fn an_incomplete_kill_table_does_not_pass() {
    let options = Options::new(Mode::Quick);
    let mut report = Report::new(&options);
    for name in ["one", "two"] {
        report.not_planted.push(format!("{name}: no compiler: clang"));
    }
    report.not_planted.push("three: no device".into());
    assert!(!report.passed());
    assert_eq!(serde_json::to_value(&report).expect("JSON")["passed"], false);
    let line = "0 of 3 planted bugs noticed as expected, 3 not planted (2 no compiler: clang; 1 no \
                device)";
    for text in [report.to_string(), Markdown(&report).to_string()] {
        let last = text.lines().last().expect("a verdict");
        assert!(last.contains("FAILED") && last.contains(line), "{last}");
    }
}

#[test]
fn cases_past_what_can_be_run_are_counted_and_never_made() {
    let mut options = Options::new(Mode::Quick);
    options.filter = Some("vast".into());
    let mut wide = Spec::new("vast.wide", "much padding", [100_000_000, 1, 1]);
    wide.layouts = [Arrangement::Aligned; 3];
    let mut deep = Spec::new("vast.none", "past the address space", [usize::MAX; 3]);
    deep.batch = usize::MAX;
    let cube = Spec::new("vast.cube", "120 GB", [100_000; 3]);
    let mut nothing = Spec::new("vast.nothing", "no product, but rows", [1 << 60, 0, 0]);
    nothing.row_scale = true;
    options.cases = vec![wide, deep, cube, nothing];
    let adapter = CpuAdapter::new();
    let share = Share { cases: 1, per_build: 1 };
    let report = suite::run(&adapter, &options, share, &|_, _| {}).expect("nothing is made");
    let skipped: usize = report.total().skipped.values().sum();
    assert_eq!((report.cases, skipped, report.failures.len()), (4, 4, 0), "{report:?}");
}
