//! What a report says, part by part.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::document::{Block, Table};
use super::{BackendReport, FailureReport, KernelReport, Report};
use crate::check::Observation;

/// Failures printed in full; the rest are in the JSON report.
const SHOWN: usize = 20;

/// `count` of something: `1 case`, `2 cases`.
fn counted(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// `text` without its line ends.
fn one_line(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

fn reasons(counts: &BTreeMap<String, usize>) -> String {
    let parts: Vec<_> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.join("; ")
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn kernels(backend: &BackendReport) -> Table {
    let mut table = Table::new(&[
        "kernel",
        "cases",
        "passed",
        "failed",
        "refused",
        "skipped",
        "units max",
        "units p99",
        "ULP max",
        "of bound",
        "bit-exact",
        "reruns equal",
        "canaries broken",
    ]);
    let mut row = |name: &str, kernel: &KernelReport| {
        let metrics = &kernel.metrics;
        let count = |counts: &BTreeMap<String, usize>| counts.values().sum::<usize>().to_string();
        table.rows.push(vec![
            name.to_owned(),
            kernel.cases.to_string(),
            kernel.passed.to_string(),
            kernel.failed.to_string(),
            count(&kernel.refused),
            count(&kernel.skipped),
            format!("{:.2}", metrics.units.value),
            format!("{:.2}", metrics.units_p99()),
            format!("{:.0}", metrics.ulps.value),
            format!("{:.3}", metrics.worst_ratio.value),
            if metrics.elements == 0 { "-".to_owned() } else { percent(metrics.exact_share()) },
            format!("{} of {}", metrics.reruns - metrics.rerun_differences, metrics.reruns),
            metrics.broken_canaries.to_string(),
        ]);
    };
    for (name, kernel) in &backend.kernels {
        row(name, kernel);
    }
    row("all", &backend.total());
    table
}

/// Special values: a row for each operand and number, a column for each combination of types.
fn special(observations: &[Observation]) -> Table {
    let mut types: Vec<&str> = Vec::new();
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for seen in observations {
        if !types.contains(&seen.types.as_str()) {
            types.push(&seen.types);
        }
        let row = (seen.place.name(), seen.value.as_str());
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let mut head = vec!["operand", "number"];
    head.extend(&types);
    let mut table = Table::new(&head);
    for (place, value) in rows {
        let mut row = vec![place.to_owned(), value.to_owned()];
        for types in &types {
            let mut cells: Vec<String> = Vec::new();
            for seen in observations.iter().filter(|seen| {
                seen.types == **types && seen.place.name() == place && seen.value == value
            }) {
                let mark = if seen.as_ieee { "" } else { " (differs)" };
                let cell = format!("{}{mark}", seen.found);
                if !cells.contains(&cell) {
                    cells.push(cell);
                }
            }
            row.push(if cells.is_empty() { "-".to_owned() } else { cells.join(" / ") });
        }
        table.rows.push(row);
    }
    table
}

fn codes(backend: &BackendReport) -> Table {
    let mut table = Table::new(&["conversion", "types", "kernels", "codes", "right", "required"]);
    let mut merged: BTreeMap<(&str, &str, bool), (usize, usize, usize)> = BTreeMap::new();
    for seen in &backend.codes {
        let entry = merged.entry((&seen.what, &seen.types, seen.required)).or_default();
        entry.0 += 1;
        entry.1 += seen.count;
        entry.2 += seen.right;
    }
    for ((what, types, required), (kernels, count, right)) in merged {
        table.rows.push(vec![
            what.to_owned(),
            types.to_owned(),
            kernels.to_string(),
            count.to_string(),
            right.to_string(),
            if required { "yes" } else { "observed" }.to_owned(),
        ]);
    }
    table
}

fn planted(report: &Report) -> Table {
    let mut table = Table::new(&[
        "planted bug",
        "in",
        "what",
        "expected tier",
        "noticed by",
        "passes γ_K at 128³",
    ]);
    for kill in &report.planted {
        table.rows.push(vec![
            kill.name.clone(),
            kill.place.clone(),
            kill.what.clone(),
            kill.expected.name().to_owned(),
            kill.noticed.map_or("nobody", |tier| tier.name()).to_owned(),
            match kill.passes_bound {
                Some(true) => "yes",
                Some(false) => "no",
                None => "not asked",
            }
            .to_owned(),
        ]);
    }
    table
}

fn summary(backend: &BackendReport) -> Vec<String> {
    let total = backend.total();
    let mut lines = vec![format!(
        "{}, {} distinct: {} passed, {} refused as expected, {} skipped, {} failed{}; {:.0} s",
        counted(backend.cases, "case"),
        backend.distinct,
        total.passed,
        total.refused.values().sum::<usize>(),
        total.skipped.values().sum::<usize>(),
        total.failed,
        match backend.checks.saturating_sub(backend.cases) {
            0 => String::new(),
            others => format!("; {}", counted(others, "other check")),
        },
        backend.seconds
    )];
    for (what, counts) in [("refused", &total.refused), ("skipped", &total.skipped)] {
        if !counts.is_empty() {
            lines.push(format!("{what}: {}", reasons(counts)));
        }
    }
    for (what, extreme) in [
        ("largest error on random data, in units of u·Σ|a||b|", &total.metrics.units),
        ("largest error in units in the last place", &total.metrics.ulps),
        ("largest part of the worst-case bound", &total.metrics.worst_ratio),
    ] {
        if !extreme.at.is_empty() {
            lines.push(format!("{what}: {:.3} in {}", extreme.value, extreme.at));
        }
    }
    lines.push(format!(
        "kernels and passes run: {} of {}{}{}",
        backend.existing - backend.missing.len(),
        backend.existing,
        if backend.partial {
            " (cases were left out)".to_owned()
        } else if backend.missing.is_empty() {
            String::new()
        } else {
            format!(" (not: {})", backend.missing.join(", "))
        },
        if backend.unlisted.is_empty() {
            String::new()
        } else {
            format!("; unknown ones that ran: {}", backend.unlisted.join(", "))
        }
    ));
    if !backend.passes.is_empty() {
        let passes: Vec<_> =
            backend.passes.iter().map(|(pass, cases)| format!("{pass} {cases}")).collect();
        lines.push(format!("cases with each pass: {}", passes.join(", ")));
    }
    let relations: usize = backend.relations.values().sum();
    if relations > 0 {
        let by_name = reasons(&backend.relations);
        lines.push(format!("relations between products checked: {relations} ({by_name})"));
    }
    if backend.large > 0 {
        lines.push(format!("large products checked: {}", backend.large));
    }
    if backend.misuses > 0 {
        lines.push(format!("forbidden calls made: {}", backend.misuses));
    }
    if !backend.left_out.is_empty() {
        lines.push(format!("left out: {}", reasons(&backend.left_out)));
    }
    let metrics = &total.metrics;
    if metrics.bounded > 0 {
        lines.push(format!(
            "exact tier: {} within the bound only (smooth activations; factors whose products round)",
            counted(metrics.bounded as usize, "execution")
        ));
    }
    if metrics.elements > 0 {
        let (elements, unjudged) = (metrics.elements, metrics.unjudged);
        lines.push(format!("elements compared: {elements}; not judged: {unjudged}"));
    }
    lines
}

/// How many special values there were and, kernels that saw the same together, which gave something
/// else than IEEE 754 says.
fn special_lines(observations: &[Observation]) -> Vec<String> {
    let mut differing: Vec<(&Observation, Vec<&str>)> = Vec::new();
    for seen in observations.iter().filter(|seen| !seen.as_ieee) {
        let same = |(other, _): &&mut (&Observation, Vec<&str>)| {
            (&other.value, other.place, &other.types, &other.found)
                == (&seen.value, seen.place, &seen.types, &seen.found)
        };
        match differing.iter_mut().find(same) {
            Some((_, kernels)) => kernels.push(&seen.kernel),
            None => differing.push((seen, vec![&seen.kernel])),
        }
    }
    let count = observations.iter().filter(|seen| !seen.as_ieee).count();
    let cells = counted(observations.len(), "cell");
    let mut lines = vec![format!("{cells}, {count} not as IEEE 754 says")];
    lines.extend(differing.into_iter().map(|(seen, mut kernels)| {
        kernels.dedup();
        format!(
            "{} in {} of {} with {}: {}",
            seen.value,
            seen.place.name(),
            seen.types,
            kernels.join(", "),
            seen.found
        )
    }));
    lines
}

/// A failure, the command that runs it again, and its smallest case.
fn failure(failure: &FailureReport) -> Block {
    let FailureReport { case, kernel, tier, message, replay, spec, shrunk } = failure;
    let mut details = vec![("again", replay.clone())];
    match (shrunk, spec) {
        (Some(shrunk), _) => details.push(("smallest", shrunk.to_string())),
        (None, Some(spec)) => details.push(("not shrunk", spec.to_string())),
        (None, None) => {}
    }
    let message = one_line(message);
    Block::Failure { what: format!("in {}: {case} with {kernel}: {message}", tier.name()), details }
}

fn backend_blocks(backend: &BackendReport) -> Vec<Block> {
    let mut blocks = vec![
        Block::Title(format!("{}: {} ({})", backend.name, backend.device, backend.driver)),
        Block::Lines(summary(backend)),
    ];
    if !backend.kernels.is_empty() {
        blocks.push(Block::Table(kernels(backend)));
    }
    if !backend.codes.is_empty() {
        blocks.extend([Block::Heading("conversions"), Block::Table(codes(backend))]);
    }
    if !backend.special.is_empty() {
        blocks.push(Block::Heading("special values"));
        blocks.push(Block::Lines(special_lines(&backend.special)));
        blocks.push(Block::Wide(special(&backend.special)));
    }
    let fault = |what: String| Block::Failure { what, details: Vec::new() };
    if !backend.partial && !backend.missing.is_empty() {
        blocks.push(fault(format!("no case ran {}", backend.missing.join(", "))));
    }
    if !backend.unlisted.is_empty() {
        blocks.push(fault(format!("not listed, but ran: {}", backend.unlisted.join(", "))));
    }
    blocks.extend(backend.failures.iter().take(SHOWN).map(failure));
    let mut more = Vec::new();
    if let Some(rest) = backend.failures.len().checked_sub(SHOWN + 1) {
        more.push(format!(
            "{} more, in the report that --report writes",
            counted(rest + 1, "failure")
        ));
    }
    let whole = backend.failures.iter().filter(|f| f.spec.is_some() && f.shrunk.is_none()).count();
    if whole > 0 {
        let were = if whole == 1 { "was" } else { "were" };
        more.push(format!("{} {were} not shrunk", counted(whole, "failing case")));
    }
    if !more.is_empty() {
        blocks.push(Block::Lines(more));
    }
    blocks
}

/// How often each reason occurs in lines of a name, a colon and a reason.
fn grouped(lines: &[String]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in lines {
        let reason = line.split_once(": ").map_or(line.as_str(), |(_, reason)| reason);
        *counts.entry(one_line(reason)).or_default() += 1;
    }
    counts
}

fn planted_blocks(report: &Report) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !report.planted.is_empty() {
        let plain = report.planted.iter().filter(|kill| kill.passes_bound == Some(true)).count();
        blocks.extend([
            Block::Title("Planted bugs".to_owned()),
            Block::Table(planted(report)),
            Block::Lines(vec![format!(
                "{plain} of {} pass a plain γ_K check at 128×128×128",
                report.planted.len()
            )]),
        ]);
    }
    if !report.left_out.is_empty() {
        let lines = report.left_out.iter().map(|line| format!("left out: {}", one_line(line)));
        blocks.push(Block::Lines(lines.collect()));
    }
    let fault = |what: String| Block::Failure { what, details: Vec::new() };
    blocks.extend(report.planted.iter().filter(|kill| !kill.as_expected()).map(|kill| {
        let by = kill.noticed.map_or("nobody", |tier| tier.name());
        let saw = if kill.message.is_empty() { "it passes" } else { &kill.message };
        let expected = kill.expected.name();
        fault(format!(
            "planted bug {}: noticed by {by}, not {expected}: {}",
            kill.name,
            one_line(saw)
        ))
    }));
    blocks.extend(
        report.spoiled.iter().map(|line| fault(format!("without the bug: {}", one_line(line)))),
    );
    blocks.extend(
        report.not_planted.iter().map(|line| fault(format!("not planted: {}", one_line(line)))),
    );
    blocks
}

/// The last line: what the verdict rests on.
fn verdict(report: &Report) -> Block {
    let mut parts = Vec::new();
    if report.backends.is_empty() {
        let planted = report.planted.len() + report.not_planted.len();
        let noticed = report.planted.iter().filter(|kill| kill.as_expected()).count();
        parts.push(format!("{noticed} of {} noticed as expected", counted(planted, "planted bug")));
        if !report.not_planted.is_empty() {
            let why = reasons(&grouped(&report.not_planted));
            parts.push(format!("{} not planted ({why})", report.not_planted.len()));
        }
        if !report.left_out.is_empty() {
            let why = reasons(&grouped(&report.left_out));
            parts.push(format!("{} left out ({why})", report.left_out.len()));
        }
        if !report.spoiled.is_empty() {
            parts.push(format!("{} without the bug", counted(report.spoiled.len(), "failure")));
        }
    } else {
        let skipped: usize =
            report.backends.iter().flat_map(|b| b.total().skipped.into_values()).sum();
        let skipped = if skipped == 0 { String::new() } else { format!(" ({skipped} skipped)") };
        parts.push(format!("{}{skipped}", counted(report.cases(), "case")));
        let checks: usize = report.backends.iter().map(|backend| backend.checks).sum();
        let others = checks.saturating_sub(report.cases());
        if others > 0 {
            parts.push(counted(others, "other check"));
        }
        let failures = report.backends.iter().map(|backend| backend.failures.len()).sum();
        if failures > 0 {
            parts.push(counted(failures, "failure"));
        }
        if !report.unavailable.is_empty() {
            // Each is a name, a colon and a reason.
            let name = |line: &String| line.split(':').next().unwrap_or_default().to_owned();
            let names: Vec<_> = report.unavailable.iter().map(name).collect();
            parts.push(format!(
                "{} not here ({})",
                counted(names.len(), "backend"),
                names.join(", ")
            ));
        }
        if !report.idle.is_empty() {
            parts.push(format!("{} for other backends", counted(report.idle.len(), "case")));
        }
        parts.push(format!("--{}", report.mode));
        parts.push(format!("seed {}", report.seed));
    }
    parts.push(format!("{:.0} s", report.seconds));
    parts.push(format!("version {}", report.version));
    Block::Verdict(if report.passed() { "PASSED" } else { "FAILED" }, parts.join(", "))
}

/// Everything a report says, in order.
fn blocks(report: &Report) -> Vec<Block> {
    let mut blocks: Vec<Block> = report.backends.iter().flat_map(backend_blocks).collect();
    blocks.extend(planted_blocks(report));
    let not_run: Vec<_> = report.unavailable.iter().chain(&report.idle).collect();
    if !not_run.is_empty() {
        let line = |line: &String| format!("not run: {}", one_line(line));
        blocks.push(Block::Lines(not_run.into_iter().map(line).collect()));
    }
    blocks.push(verdict(report));
    blocks
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        blocks(self).iter().try_for_each(|block| block.text(f))
    }
}

/// A report as a page.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(clippy::exhaustive_structs, reason = "a wrapper")]
pub struct Markdown<'r>(pub &'r Report);

impl fmt::Display for Markdown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { mode, seed, .. } = self.0;
        match self.0.backends.is_empty() {
            true => writeln!(f, "# Conformance: planted bugs")?,
            false => writeln!(f, "# Conformance: --{mode}, seed {seed}")?,
        }
        for block in blocks(self.0) {
            writeln!(f)?;
            block.markdown(f)?;
        }
        Ok(())
    }
}
