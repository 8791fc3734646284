//! Progress on standard error, only for work that takes long enough to wonder about: bars on a terminal,
//! a line now and then where it goes to a file.

use std::borrow::Cow;
use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that ends sooner shows no bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// Time between two lines where there is no terminal.
const BETWEEN_LINES: Duration = Duration::from_secs(30);

/// Files larger than this show a bar while they are read.
const LARGE_FILE: u64 = 256 << 20;

/// A bar for reading `total` bytes; hidden for small files.
pub(crate) fn reading(total: u64) -> ProgressBar {
    if total < LARGE_FILE {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    bar.set_style(style("reading  {bar:40} {bytes}/{total_bytes} {eta}"));
    bar
}

/// A bar for work that reports how many of its parts are done.
pub(crate) struct Parts {
    bar: ProgressBar,
    start: Instant,
    is_terminal: bool,
    /// Lines written where there is no terminal.
    lines: AtomicU64,
}

impl Parts {
    /// A bar labelled `label`, hidden until the work has lasted a while.
    pub(crate) fn new(label: impl Into<Cow<'static, str>>) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(style("{prefix:8} {bar:40} {percent} % {eta}"));
        bar.set_prefix(label);
        Self {
            bar,
            start: Instant::now(),
            is_terminal: stderr().is_terminal(),
            lines: AtomicU64::new(0),
        }
    }

    /// Says that `done` of `total` parts are finished.
    pub(crate) fn update(&self, done: u64, total: u64) {
        if self.bar.is_hidden() && self.start.elapsed() >= PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
        if !self.is_terminal {
            self.line(done, total);
        }
    }

    /// Writes a line if it is time for one; threads that come together write one.
    fn line(&self, done: u64, total: u64) {
        let due = self.start.elapsed().as_secs() / BETWEEN_LINES.as_secs();
        if due > self.lines.fetch_max(due, Ordering::Relaxed) {
            // Progress that cannot be told is no reason to stop.
            let _ = writeln!(stderr(), "{}: {done} of {total}", self.bar.prefix());
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    // A template that does not parse costs the layout of a bar, not the product.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
