//! What `lapidary emulate` says about a launch.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use lapidary_cdna::check::{Checks, Finding};
use lapidary_cdna::exec::{Launch, Order, Prepared, Report as Ran, Workgroups};
use lapidary_cdna::loader::LineTable;
use serde::Serialize;

use super::run::Buffer;
use crate::io::printable;

/// Everything known about one launch; its JSON form has these names.
#[derive(Serialize)]
pub(super) struct Report {
    kernel: String,
    arch: &'static str,
    /// Workgroups in x, y and z.
    grid: [u32; 3],
    /// Work-items of a workgroup in x, y and z.
    block: [u32; 3],
    dynamic_lds: u32,
    order: String,
    /// Whether only some workgroups of the grid were asked for.
    sampled: bool,
    checked: bool,
    /// Whether every workgroup ran to its end.
    complete: bool,
    seconds: f64,
    reports: Vec<Found>,
    counters: Counted,
    buffers: Vec<Used>,
    /// Executed instructions in address order.
    lines: Vec<Line>,
    source_lines: Vec<SourceCount>,
    /// Why there are no source lines although there is debug information.
    source_lines_error: Option<String>,
}

/// The report of a check.
#[derive(Serialize)]
struct Found {
    kind: &'static str,
    kernel: String,
    workgroup: [u32; 3],
    wave: u32,
    lane: Option<u32>,
    pc: u64,
    instruction: String,
    address: Option<u64>,
    detail: String,
    count: u64,
    /// All of it, for people.
    #[serde(skip)]
    line: String,
}

#[derive(Serialize)]
struct Counted {
    workgroups: u64,
    waves: u64,
    instructions: u64,
    by_class: BTreeMap<String, u64>,
    by_opcode: BTreeMap<&'static str, u64>,
    matrix_passes: u64,
    lds_conflict_cycles: u64,
    cache_lines: u64,
    barriers: u64,
    vgprs: u32,
    agprs: u32,
    sgprs: u32,
}

/// An allocation and the bytes that lanes read and wrote.
#[derive(Serialize)]
struct Used {
    name: String,
    /// The file behind it; none for the code object and what else the launch maps.
    file: Option<String>,
    bytes: Option<u64>,
    read: u64,
    written: u64,
}

#[derive(Serialize)]
struct Line {
    pc: u64,
    instruction: String,
    executed: u64,
    lds_conflict_cycles: u64,
    cache_lines: u64,
}

#[derive(Serialize)]
struct SourceCount {
    file: String,
    line: u32,
    instructions: u64,
    executed: u64,
    lds_conflict_cycles: u64,
    cache_lines: u64,
}

impl Report {
    pub(super) fn new(
        prepared: &Prepared,
        launch: &Launch,
        buffers: &[Buffer],
        ran: &Ran,
        debug: &lapidary_cdna::Result<LineTable>,
        elapsed: Duration,
    ) -> Self {
        let counters = &ran.counters;
        Self {
            kernel: prepared.kernel().meta.name.clone(),
            arch: prepared.arch().name(),
            grid: launch.grid,
            block: launch.workgroup,
            dynamic_lds: launch.dynamic_lds,
            order: match launch.order {
                Order::RoundRobin => "round-robin".to_owned(),
                Order::Reverse => "reverse".to_owned(),
                Order::Random(seed) => format!("random:{seed}"),
            },
            sampled: launch.workgroups != Workgroups::All,
            checked: launch.checks != Checks::NONE,
            complete: ran.complete,
            seconds: elapsed.as_secs_f64(),
            reports: ran.findings.iter().map(found).collect(),
            counters: Counted {
                workgroups: counters.workgroups,
                waves: counters.waves,
                instructions: counters.instructions,
                by_class: counters
                    .by_class
                    .iter()
                    .map(|(class, &count)| (format!("{class:?}").to_lowercase(), count))
                    .collect(),
                by_opcode: counters.by_opcode.clone(),
                matrix_passes: counters.matrix_passes,
                lds_conflict_cycles: counters.lds_conflict_cycles,
                cache_lines: counters.cache_lines,
                barriers: counters.barriers,
                vgprs: counters.vgprs,
                agprs: counters.agprs,
                sgprs: counters.sgprs,
            },
            buffers: used(buffers, ran),
            lines: counters
                .lines
                .iter()
                .map(|line| Line {
                    pc: line.pc,
                    instruction: line.text.clone(),
                    executed: line.executed,
                    lds_conflict_cycles: line.access.conflict_cycles,
                    cache_lines: line.access.cache_lines,
                })
                .collect(),
            source_lines: debug.as_ref().map(|table| source(ran, table)).unwrap_or_default(),
            source_lines_error: debug.as_ref().err().map(|error| printable(&error.to_string())),
        }
    }
}

fn found(finding: &Finding) -> Found {
    Found {
        kind: finding.kind.name(),
        kernel: finding.kernel.clone(),
        workgroup: finding.workgroup,
        wave: finding.wave,
        lane: finding.lane,
        pc: finding.pc,
        instruction: finding.text.clone(),
        address: finding.address,
        detail: finding.detail.clone(),
        count: finding.count,
        line: finding.to_string(),
    }
}

/// The kernel's buffers in the order of its arguments, then whatever else it read.
fn used(buffers: &[Buffer], ran: &Ran) -> Vec<Used> {
    let traffic = &ran.counters.traffic;
    let named = buffers.iter().map(|buffer| {
        let traffic = traffic.get(&buffer.name).copied().unwrap_or_default();
        Used {
            name: buffer.name.clone(),
            file: Some(buffer.file.clone()),
            bytes: Some(buffer.bytes),
            read: traffic.read,
            written: traffic.written,
        }
    });
    let others = traffic
        .iter()
        .filter(|(name, _)| buffers.iter().all(|buffer| buffer.name != **name))
        .map(|(name, traffic)| Used {
            name: name.clone(),
            file: None,
            bytes: None,
            read: traffic.read,
            written: traffic.written,
        });
    named.chain(others).collect()
}

fn source(ran: &Ran, table: &LineTable) -> Vec<SourceCount> {
    ran.counters
        .by_source_line(table)
        .into_iter()
        .map(|(line, count)| SourceCount {
            file: line.file.to_string(),
            line: line.line,
            instructions: count.instructions,
            executed: count.executed,
            lds_conflict_cycles: count.access.conflict_cycles,
            cache_lines: count.access.cache_lines,
        })
        .collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { counters, grid: [gx, gy, gz], block: [bx, by, bz], .. } = self;
        writeln!(f, "kernel    {} for {}", printable(&self.kernel), self.arch)?;
        writeln!(
            f,
            "launch    {gx}×{gy}×{gz} workgroups of {bx}×{by}×{bz} work-items, {} bytes of dynamic \
             LDS, {}",
            self.dynamic_lds, self.order
        )?;
        writeln!(
            f,
            "ran       {} workgroups{}, {} waves, {} wave-instructions in {:.3} ms",
            counters.workgroups,
            if self.sampled { " (a sample)" } else { "" },
            counters.waves,
            counters.instructions,
            self.seconds * 1e3
        )?;
        writeln!(
            f,
            "registers {} VGPRs, {} AGPRs, {} SGPRs at most",
            counters.vgprs, counters.agprs, counters.sgprs
        )?;
        writeln!(
            f,
            "counts    {} matrix passes, {} LDS conflict cycles, {} cache lines, {} barriers",
            counters.matrix_passes,
            counters.lds_conflict_cycles,
            counters.cache_lines,
            counters.barriers
        )?;
        self.tables(f)?;
        self.verdict(f)
    }
}

impl Report {
    fn tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let classes = self.counters.by_class.iter();
        table(f, "class", classes.map(|(name, &count)| (name.as_str(), count)))?;
        let opcodes = self.counters.by_opcode.iter();
        table(f, "opcode", opcodes.map(|(&name, &count)| (name, count)))?;
        writeln!(f, "\n{:>16} {:>16}  buffer", "bytes read", "bytes written")?;
        for buffer in &self.buffers {
            write!(f, "{:>16} {:>16}  {}", buffer.read, buffer.written, printable(&buffer.name))?;
            if let (Some(file), Some(bytes)) = (&buffer.file, buffer.bytes) {
                write!(f, ": {}, {bytes} bytes", printable(file))?;
            }
            writeln!(f)?;
        }
        if !self.source_lines.is_empty() {
            writeln!(
                f,
                "\n{:>16} {:>16} {:>16}  source line",
                "executed", "LDS conflicts", "cache lines"
            )?;
        }
        for line in &self.source_lines {
            let SourceCount { executed, lds_conflict_cycles, cache_lines, .. } = line;
            let file = printable(&line.file);
            writeln!(
                f,
                "{executed:>16} {lds_conflict_cycles:>16} {cache_lines:>16}  {file}:{}",
                line.line
            )?;
        }
        if let Some(error) = &self.source_lines_error {
            writeln!(f, "\nno source lines: {error}")?;
        }
        Ok(())
    }

    fn verdict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        for report in &self.reports {
            writeln!(f, "report    {}", report.line.replace(char::is_control, "\u{fffd}"))?;
        }
        let checks = if self.checked { "all on" } else { "bounds and endless runs only" };
        let end = if self.complete { "" } else { "; not every workgroup ran to its end" };
        match self.reports.len() {
            0 => writeln!(f, "checks    {checks}: nothing to report{end}"),
            1 => writeln!(f, "checks    {checks}: 1 report{end}"),
            n => writeln!(f, "checks    {checks}: {n} reports{end}"),
        }
    }
}

/// Names with their wave-instructions.
fn table<'a>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    rows: impl Iterator<Item = (&'a str, u64)>,
) -> fmt::Result {
    writeln!(f, "\n{:>16}  {title}", "executed")?;
    for (name, count) in rows {
        writeln!(f, "{count:>16}  {name}")?;
    }
    Ok(())
}
