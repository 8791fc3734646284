//! The report as text, and as Markdown.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{BackendReport, KernelReport, Report};
use crate::check::Observation;

/// Failures printed in full; the rest are in the JSON report.
const SHOWN: usize = 20;

/// A table: a head and rows of as many cells.
struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|&cell| cell.to_owned()).collect(), rows: Vec::new() }
    }

    /// Columns padded to their widest cell.
    fn text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            std::iter::once(&self.head)
                .chain(&self.rows)
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        for row in std::iter::once(&self.head).chain(&self.rows) {
            let mut line = String::from("  ");
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:<width$}  "));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn markdown(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
        writeln!(f, "{}", line(&self.head))?;
        writeln!(f, "|{}", "-|".repeat(self.head.len()))?;
        for row in &self.rows {
            writeln!(f, "{}", line(row))?;
        }
        Ok(())
    }
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
            percent(metrics.exact_share()),
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
        "{} cases, {} distinct: {} passed, {} refused as expected, {} skipped, {} failed; {:.0} s",
        backend.cases,
        backend.distinct,
        total.passed,
        total.refused.values().sum::<usize>(),
        total.skipped.values().sum::<usize>(),
        backend.failures.len(),
        backend.seconds
    )];
    for (what, counts) in [("refused", &total.refused), ("skipped", &total.skipped)] {
        if !counts.is_empty() {
            lines.push(format!("{what}: {}", reasons(counts)));
        }
    }
    for (what, extreme) in [
        ("largest error on random data, in units of u·Σ|a||b|,", &total.metrics.units),
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
    lines.push(format!(
        "relations between products checked: {relations} ({}); large products: {}",
        reasons(&backend.relations),
        backend.large
    ));
    if !backend.left_out.is_empty() {
        lines.push(format!("left out: {}", reasons(&backend.left_out)));
    }
    let metrics = &total.metrics;
    if metrics.bounded > 0 {
        lines.push(format!(
            "exact tier: {} executions within the bound only (smooth activations; factors whose \
             products round)",
            metrics.bounded
        ));
    }
    lines
        .push(format!("elements compared: {}; not judged: {}", metrics.elements, metrics.unjudged));
    lines
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for backend in &self.backends {
            writeln!(f, "{}: {} ({})", backend.name, backend.device, backend.driver)?;
            for line in summary(backend) {
                writeln!(f, "  {line}")?;
            }
            kernels(backend).text(f)?;
            if !backend.codes.is_empty() {
                writeln!(f, "  conversions:")?;
                codes(backend).text(f)?;
            }
            let differing = backend.special.iter().filter(|seen| !seen.as_ieee).count();
            writeln!(
                f,
                "  special values: {} cells, {differing} not as IEEE 754 says",
                backend.special.len()
            )?;
            for seen in backend.special.iter().filter(|seen| !seen.as_ieee) {
                writeln!(
                    f,
                    "    {} in {} of {} with {}: {}",
                    seen.value,
                    seen.place.name(),
                    seen.types,
                    seen.kernel,
                    seen.found
                )?;
            }
            if !backend.partial && !backend.missing.is_empty() {
                writeln!(f, "  FAILED: no case ran {}", backend.missing.join(", "))?;
            }
            if !backend.unlisted.is_empty() {
                writeln!(f, "  FAILED: not listed, but ran: {}", backend.unlisted.join(", "))?;
            }
            for failure in backend.failures.iter().take(SHOWN) {
                writeln!(
                    f,
                    "  FAILED in {}: {} with {}: {}\n    again: {}",
                    failure.tier.name(),
                    failure.case,
                    failure.kernel,
                    failure.message,
                    failure.replay
                )?;
                if let Some(shrunk) = &failure.shrunk {
                    writeln!(f, "    smallest: {shrunk}")?;
                }
            }
            if backend.failures.len() > SHOWN {
                writeln!(f, "  and {} more", backend.failures.len() - SHOWN)?;
            }
        }
        for reason in &self.unavailable {
            writeln!(f, "not run: {reason}")?;
        }
        if !self.planted.is_empty() {
            let killed = self.planted.iter().filter(|kill| kill.as_expected()).count();
            writeln!(f, "planted bugs: {killed} of {} noticed as expected", self.planted.len())?;
            planted(self).text(f)?;
            for kill in self.planted.iter().filter(|kill| !kill.as_expected()) {
                writeln!(f, "  NOT NOTICED as expected: {}: {}", kill.name, kill.message)?;
            }
            let plain = self.planted.iter().filter(|kill| kill.passes_bound == Some(true)).count();
            writeln!(f, "  {plain} of them pass a plain γ_K check at 128×128×128")?;
        }
        for spoiled in &self.spoiled {
            writeln!(f, "  FAILED without the bug: {spoiled}")?;
        }
        writeln!(
            f,
            "{}: {} cases, seed {}, {:.0} s",
            if self.passed() { "PASSED" } else { "FAILED" },
            self.cases(),
            self.seed,
            self.seconds
        )
    }
}

/// A report as a page.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(clippy::exhaustive_structs, reason = "a wrapper")]
pub struct Markdown<'r>(pub &'r Report);

impl fmt::Display for Markdown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        for backend in &report.backends {
            writeln!(f, "## {}: {} ({})\n", backend.name, backend.device, backend.driver)?;
            for line in summary(backend) {
                writeln!(f, "- {line}")?;
            }
            writeln!(f)?;
            kernels(backend).markdown(f)?;
            if !backend.codes.is_empty() {
                writeln!(f, "\n### Conversions\n")?;
                codes(backend).markdown(f)?;
            }
            if !backend.special.is_empty() {
                writeln!(f, "\n### Special values\n")?;
                writeln!(
                    f,
                    "What the elements that the number reaches become; \"differs\" where IEEE 754 \
                     gives something else.\n"
                )?;
                special(&backend.special).markdown(f)?;
            }
            for failure in &backend.failures {
                writeln!(
                    f,
                    "\n**Failed** in {}: {} with {}: {}",
                    failure.tier.name(),
                    failure.case,
                    failure.kernel,
                    failure.message
                )?;
            }
            writeln!(f)?;
        }
        if !report.planted.is_empty() {
            writeln!(f, "## Planted bugs\n")?;
            planted(report).markdown(f)?;
            let killed = report.planted.iter().filter(|kill| kill.as_expected()).count();
            let plain =
                report.planted.iter().filter(|kill| kill.passes_bound == Some(true)).count();
            writeln!(
                f,
                "\n{killed} of {} noticed, each by the tier expected of it; {plain} pass a plain γ_K \
                 check at 128×128×128.\n",
                report.planted.len()
            )?;
        }
        if report.backends.is_empty() {
            return writeln!(f, "{:.0} s, version {}.", report.seconds, report.version);
        }
        writeln!(
            f,
            "{} cases in {:.0} s, `--{}`, seed {}, version {}: {}.",
            report.cases(),
            report.seconds,
            report.mode,
            report.seed,
            report.version,
            if report.passed() { "passed" } else { "failed" }
        )
    }
}
