//! The rows of several libraries side by side.

use std::fmt::Write;

use crate::row::Row;
use crate::stats::Summary;

/// The lines of a document between which the table lies.
pub const BEGIN: &str = "<!-- versus:begin -->";
/// The last of them.
pub const END: &str = "<!-- versus:end -->";

/// The document with `table` between its markers; nothing where it has none.
#[must_use]
pub fn with_table(document: &str, table: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

/// What our rows' `op` starts with; the way of running follows, and the kernel in brackets.
const OWN: &str = "lapidary-wgsl ";

/// The ways of running a product that the table shows.
const WAYS: [&str; 4] = ["one", "in a row", "in a row, B packed", "in a row, f16 sums"];

/// A table in Markdown: a line for each of our products and ways of packing, in the order of `rows`.
///
/// Where there are rows of several runs a figure is the median of theirs. A ratio is the other's time
/// over ours, `in a row` on both sides; the peer's is that of its fastest strategy. cuBLAS and CubeK
/// store f16 where ours stores f32 sums, and read f16 where our weights are integers; where cuBLAS was
/// asked for f32 too, that follows.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| types | M×N×K | kernel | one, µs | in a row, µs | TFLOP/s | cuBLAS µs | ratio | storing f32, µs | ratio | CubeK µs | ratio |\n\
         |-|-|-|-:|-:|-:|-:|-:|-:|-:|-:|-:|\n",
    );
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for row in rows.iter().filter(|row| row.op.starts_with(OWN)) {
        let key = (row.dtype.as_str(), row.shape.as_str());
        if seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let own = |way: &str| median(rows, key, |op| way_of(op) == Some(way));
        // Others have no integer weights: theirs are of A's type.
        let input = row.dtype.split(['-', '.']).next().unwrap_or_default();
        let other = (input, row.shape.as_str());
        let cublas = median(rows, other, |op| op == "cublas");
        let same = if row.dtype == input { None } else { median(rows, key, |op| op == "cublas") };
        let cubek = fastest(rows, other, "cubek ");
        for way in &WAYS[1..] {
            let Some(us) = own(way) else {
                continue;
            };
            let variant = way.strip_prefix(WAYS[1]).unwrap_or_default();
            let single = if variant.is_empty() { own(WAYS[0]) } else { None };
            let kernel = rows
                .iter()
                .find(|other| is(other, key) && way_of(&other.op) == Some(way))
                .map_or("", |other| kernel_of(&other.op));
            let rate = rows
                .iter()
                .find(|other| other.tflops.is_some() && is(other, key))
                .and_then(|other| Some(other.tflops? * other.us? / us));
            let ratio = |them: Option<f64>| number(them.map(|them| them / us), 2);
            let types = row.dtype.replace('-', " → ").replace('.', " × ");
            let _ = writeln!(
                text,
                "| {types}{variant} | {} | {kernel} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                shape_name(&row.shape),
                number(single, 1),
                number(Some(us), 1),
                number(rate, 1),
                number(cublas, 1),
                ratio(cublas),
                number(same, 1),
                ratio(same),
                number(cubek, 1),
                ratio(cubek),
            );
        }
    }
    text
}

fn is(row: &Row, (dtype, shape): (&str, &str)) -> bool {
    row.dtype == dtype && row.shape == shape
}

/// Median microseconds of the rows of one product whose `op` is right.
fn median(rows: &[Row], key: (&str, &str), op: impl Fn(&str) -> bool) -> Option<f64> {
    let times: Vec<f64> =
        rows.iter().filter(|row| is(row, key) && op(&row.op)).filter_map(|row| row.us).collect();
    Summary::of(&times).map(|times| times.median)
}

/// The median of that `op` which has the least.
fn fastest(rows: &[Row], key: (&str, &str), prefix: &str) -> Option<f64> {
    rows.iter()
        .filter(|row| is(row, key) && row.op.starts_with(prefix))
        .filter_map(|row| median(rows, key, |op| op == row.op))
        .min_by(f64::total_cmp)
}

/// The way that one of our rows was run.
fn way_of(op: &str) -> Option<&str> {
    let rest = op.strip_prefix(OWN)?;
    Some(rest.split_once(" [")?.0)
}

/// The kernel that one of our rows ran.
fn kernel_of(op: &str) -> &str {
    let kernel = op.split_once(" [").map_or("", |(_, kernel)| kernel.trim_end_matches(']'));
    // What follows the data movement says what it moves in.
    kernel.rsplit('/').next().unwrap_or(kernel)
}

/// `MxNxK` with × between, and the batch after it.
fn shape_name(shape: &str) -> String {
    let parts: Vec<&str> = shape.split('x').collect();
    match parts.as_slice() {
        [batch, sizes @ ..] if sizes.len() == 3 => format!("{}, batch {batch}", sizes.join("×")),
        sizes => sizes.join("×"),
    }
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or(String::new(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Clock, Context};
    use crate::shape::Shape;
    use lapidary_core::ElementType;

    fn row(op: &str, dtype: &str, us: f64) -> Row {
        let context = Context { device: "d".into(), commit: "c".into(), clock: Clock::Device };
        let shape = Shape::cube(1000, ElementType::F32);
        let row = Row::measured(op, &shape, &[us * 1e-6], &context);
        Row { dtype: dtype.into(), ..row }
    }

    #[test]
    fn figures_are_medians_of_runs_and_ratios_of_them() {
        let rows = [
            row("lapidary-wgsl one [k 1]", "f16-f32", 120.0),
            row("lapidary-wgsl in a row [k 1]", "f16-f32", 100.0),
            row("lapidary-wgsl in a row [k 1]", "f16-f32", 90.0),
            row("lapidary-wgsl in a row [k 1]", "f16-f32", 400.0),
            row("lapidary-wgsl in a row, B packed [k 1]", "f16-f32", 80.0),
            row("lapidary-wgsl in a row, f16 sums [l 2]", "f16-f32", 40.0),
            row("cublas", "f16", 50.0),
            row("cublas", "f16-f32", 60.0),
            row("cublas", "f32", 5.0),
            row("cubek a", "f16", 300.0),
            row("cubek a", "f16", 260.0),
            row("cubek b", "f16", 279.0),
        ];
        let table = table(&rows);
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| f16 → f32 | 1000×1000×1000 | k 1 | 120.0 | 100.0 | 20.0 | 50.0 | 0.50 | 60.0 | 0.60 | 279.0 | 2.79 |",
                "| f16 → f32, B packed | 1000×1000×1000 | k 1 |  | 80.0 | 25.0 | 50.0 | 0.62 | 60.0 | 0.75 | 279.0 | 3.49 |",
                "| f16 → f32, f16 sums | 1000×1000×1000 | l 2 |  | 40.0 | 50.0 | 50.0 | 1.25 | 60.0 | 1.50 | 279.0 | 6.97 |",
            ]
        );
    }

    #[test]
    fn a_batch_comes_after_the_sizes() {
        assert_eq!(shape_name("1x2x3"), "1×2×3");
        assert_eq!(shape_name("9x1x2x3"), "1×2×3, batch 9");
    }

    #[test]
    fn a_table_is_written_between_its_markers() {
        let document = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let written = with_table(&document, "| new |\n");
        assert_eq!(written, Some(format!("a\n{BEGIN}\n| new |\n{END}\nb\n")));
        assert_eq!(with_table("none", "| new |\n"), None);
    }

    #[test]
    fn what_was_not_measured_is_left_out() {
        let rows = [row("lapidary-wgsl in a row [k]", "f32", 10.0), row("cubek a", "f16", 1.0)];
        let line = table(&rows).lines().nth(2).map(str::to_owned);
        assert_eq!(
            line.as_deref(),
            Some("| f32 | 1000×1000×1000 | k |  | 10.0 | 200.0 |  |  |  |  |  |  |")
        );
        assert_eq!(table(&[]).lines().count(), 2);
    }
}
