//! What a device reports, as typed errors.
//!
//! wgpu hands errors to a scope that the calling thread has opened, else to the device's handler, on
//! the thread that made the call. A scope costs an allocation to close, three of them a call, one for
//! each kind of error. A device that this crate has opened has this crate's handler, so what happens
//! often, submitting, leaves the scopes out and has the handler note the error for the thread.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use lapidary_core::Error;

/// What a thread does about errors that no scope catches.
enum Watch {
    /// Nothing: they are nobody's.
    Off,
    /// It waits for one of its own; the first there was.
    On(Option<wgpu::Error>),
}

thread_local! {
    static WATCH: RefCell<Watch> = const { RefCell::new(Watch::Off) };
}

/// What the handler of a device of ours does with an error: notes it for the thread if that watches,
/// else gives it back.
pub(crate) fn note(error: wgpu::Error) -> Option<wgpu::Error> {
    WATCH.with_borrow_mut(|watch| match watch {
        Watch::Off => Some(error),
        Watch::On(first) => {
            first.get_or_insert(error);
            None
        }
    })
}

/// Ends the watch of a thread, also when what it does panics.
struct Watching;

impl Watching {
    fn start() -> Self {
        WATCH.set(Watch::On(None));
        Self
    }

    fn end(self) -> Option<wgpu::Error> {
        match WATCH.replace(Watch::Off) {
            Watch::On(first) => first,
            Watch::Off => None,
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        WATCH.set(Watch::Off);
    }
}

/// Runs `work` on a device whose handler calls [`note`], and turns what it reports meanwhile into an
/// error.
pub(crate) fn watched<T>(
    name: &str,
    operation: &'static str,
    work: impl FnOnce() -> T,
) -> Result<T, Error> {
    let watching = Watching::start();
    let result = work();
    match watching.end() {
        None => Ok(result),
        Some(error) => Err(typed(error, name, operation, 0)),
    }
}

/// Runs `work` on any device and turns what it reports meanwhile into an error.
pub(crate) fn scoped<T>(
    device: &wgpu::Device,
    name: &str,
    operation: &'static str,
    bytes: u64,
    work: impl FnOnce() -> T,
) -> Result<T, Error> {
    let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
    let internal = device.push_error_scope(wgpu::ErrorFilter::Internal);
    let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
    let result = work();
    // Native scopes resolve at once; the inner ones are popped first.
    let errors = [now(memory.pop()), now(internal.pop()), now(validation.pop())];
    match errors.into_iter().flatten().next() {
        None => Ok(result),
        Some(error) => Err(typed(error, name, operation, bytes)),
    }
}

fn typed(error: wgpu::Error, name: &str, operation: &'static str, bytes: u64) -> Error {
    match error {
        wgpu::Error::OutOfMemory { .. } => {
            Error::OutOfMemory { requested: bytes, what: operation.into(), device: name.into() }
        }
        error => Error::Device { device: name.into(), operation, message: error.to_string() },
    }
}

/// The value of a future that is expected to be ready: waiting takes a waker, which is allocated.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => pollster::block_on(future),
    }
}
