//! One measured figure, as a row of CSV.

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

use crate::shape::Shape;
use crate::stats::Summary;

/// Which clock a time was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(clippy::exhaustive_enums, reason = "there are two clocks")]
pub enum Clock {
    /// The device's timestamps.
    Device,
    /// The host's clock, waiting included.
    Wall,
}

/// A figure and all it takes to compare it with another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "the columns of the table")]
pub struct Row {
    /// What was timed: `lapidary-wgsl auto`, `faer`, `cublas`.
    pub op: String,
    /// `MxNxK`, a batch in front where there is one.
    pub shape: String,
    /// Element type of the operands, and of C where that differs.
    pub dtype: String,
    /// 10¹² operations a second; empty where nothing was timed.
    pub tflops: Option<f64>,
    /// 10¹² bytes a second of A, B and C, each counted once.
    pub tbps: Option<f64>,
    /// Median microseconds of a run.
    pub us: Option<f64>,
    /// (max − min) / median over the rounds.
    pub spread: Option<f64>,
    /// Rounds behind the median.
    pub rounds: usize,
    /// `ok`, or why there is no figure.
    pub status: String,
    /// Which clock.
    pub clock: Clock,
    /// The device's name and driver, or the CPU with the threads used.
    pub device: String,
    /// The commit that was built.
    pub commit: String,
}

/// Where and what of a run; the same in all its rows.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "what rows have in common")]
pub struct Context {
    /// The device's name and driver, or the CPU with the threads used.
    pub device: String,
    /// The commit that was built.
    pub commit: String,
    /// Which clock.
    pub clock: Clock,
}

impl Row {
    /// The figure of rounds that took `seconds` a run each; a row without figures if there is none.
    #[must_use]
    pub fn measured(op: &str, shape: &Shape, seconds: &[f64], context: &Context) -> Self {
        let Some(summary) = Summary::of(seconds).filter(|summary| summary.median > 0.0) else {
            return Self::missing(op, shape, "no time was measured", context);
        };
        Self {
            tflops: Some(shape.flops() / summary.median * 1e-12),
            tbps: Some(shape.bytes() / summary.median * 1e-12),
            us: Some(summary.median * 1e6),
            spread: Some(summary.spread()),
            rounds: seconds.len(),
            status: "ok".into(),
            ..Self::missing(op, shape, "", context)
        }
    }

    /// The time of something that is no product itself: rounds that took `seconds` each.
    #[must_use]
    pub fn overhead(op: &str, shape: &Shape, seconds: &[f64], context: &Context) -> Self {
        Self { tflops: None, tbps: None, ..Self::measured(op, shape, seconds, context) }
    }

    /// A row that says why there is no figure.
    #[must_use]
    pub fn missing(op: &str, shape: &Shape, status: &str, context: &Context) -> Self {
        Self {
            op: op.into(),
            shape: shape.name(),
            dtype: shape.dtype(),
            tflops: None,
            tbps: None,
            us: None,
            spread: None,
            rounds: 0,
            status: status.into(),
            clock: context.clock,
            device: context.device.clone(),
            commit: context.commit.clone(),
        }
    }
}

/// Writes a header and the rows.
///
/// # Errors
/// Whatever writing to `to` gives.
pub fn write(rows: &[Row], to: impl Write) -> Result<(), csv::Error> {
    let mut writer = csv::Writer::from_writer(to);
    for row in rows {
        writer.serialize(row)?;
    }
    writer.flush()?;
    Ok(())
}

/// The rows that [`write()`] wrote.
///
/// # Errors
/// What reading gives, and a row of other columns.
pub fn read(from: impl Read) -> Result<Vec<Row>, csv::Error> {
    csv::Reader::from_reader(from).deserialize().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lapidary_core::ElementType;

    fn context() -> Context {
        Context { device: "a card, driver 1".into(), commit: "abc".into(), clock: Clock::Device }
    }

    #[test]
    fn figures_follow_from_the_median() {
        let shape = Shape::cube(1000, ElementType::F32);
        let row = Row::measured("op", &shape, &[2e-3, 1e-3, 4e-3], &context());
        assert_eq!(row.tflops, Some(2e9 / 2e-3 * 1e-12));
        assert_eq!(row.tbps, Some(12e6 / 2e-3 * 1e-12));
        assert_eq!((row.us, row.spread, row.rounds), (Some(2e3), Some(1.5), 3));
    }

    #[test]
    fn nothing_measured_is_said() {
        let shape = Shape::cube(8, ElementType::F32);
        for seconds in [&[][..], &[0.0], &[f64::NAN]] {
            let row = Row::measured("op", &shape, seconds, &context());
            assert_eq!((row.tflops, row.status.as_str()), (None, "no time was measured"));
        }
    }

    #[test]
    fn rows_survive_csv() -> Result<(), csv::Error> {
        let shape = Shape::cube(8, ElementType::F16);
        let rows = [
            Row::measured("a, b", &shape, &[1e-3], &context()),
            Row::missing("c", &shape, "it has no \"f16\"", &context()),
        ];
        let mut text = Vec::new();
        write(&rows, &mut text)?;
        let back: Vec<Row> = read(text.as_slice())?;
        assert_eq!(back, rows);
        let header = text.split(|&b| b == b'\n').next().unwrap_or_default();
        assert_eq!(
            header,
            b"op,shape,dtype,tflops,tbps,us,spread,rounds,status,clock,device,commit"
        );
        Ok(())
    }
}
