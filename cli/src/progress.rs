//! Progress bars on standard error: only on a terminal, and only for work that takes long enough to
//! wonder about.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Work that ends sooner shows no bar.
const PATIENCE: Duration = Duration::from_millis(500);

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
}

impl Parts {
    /// A bar labelled `label`, hidden until the work has lasted a while.
    pub(crate) fn new(label: impl Into<Cow<'static, str>>) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(style("{prefix:8} {bar:40} {percent} % {eta}"));
        bar.set_prefix(label);
        Self { bar, start: Instant::now() }
    }

    /// Says that `done` of `total` parts are finished.
    pub(crate) fn update(&self, done: u64, total: u64) {
        if self.bar.is_hidden() && self.start.elapsed() >= PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_length(total);
        self.bar.set_position(done);
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
