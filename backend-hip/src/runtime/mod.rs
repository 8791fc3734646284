//! What executes code objects: a ROCm device, or the emulator.
//!
//! [`Runtime`] is the little that the backend needs of either. Memory is spoken of by device address,
//! kernels by handle, and work is ordered by [`Stream`]; nothing here knows a matrix.

#[cfg(feature = "emulator")]
mod emulated;
pub mod rocm;

use core::fmt;

use crate::compile::CodeObject;
use crate::target::Target;

#[cfg(feature = "emulator")]
pub use emulated::{Emulated, EmulatorSettings, Launched};
#[cfg(feature = "emulator")]
pub use lapidary_cdna::exec::Order;

/// A queue of work: what is enqueued on one stream happens in that order.
///
/// On ROCm it is a `hipStream_t` as a number, so that a program's own stream can be used. The emulator
/// runs everything at once and has the default stream only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[allow(clippy::exhaustive_structs, reason = "a handle that callers hand in")]
pub struct Stream(pub u64);

impl Stream {
    /// The runtime's default stream, ROCm's null stream.
    pub const DEFAULT: Self = Self(0);
}

/// A kernel that [`Runtime::load`] loaded; it stays loaded as long as its runtime lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "a handle that runtimes make up")]
pub struct Function(pub u64);

/// A point in a stream's time, made by [`Runtime::record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "a handle that runtimes make up")]
pub struct Event(pub u64);

/// The size of a launch, and what it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "plain data that callers fill in")]
pub struct KernelLaunch<'a> {
    /// Workgroups along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a workgroup along x, y and z.
    pub threads: [u32; 3],
    /// Bytes of LDS beside those the kernel declares.
    pub dynamic_lds: u32,
    /// The explicit kernel arguments as the kernel lays them out in memory.
    pub args: &'a [u8],
}

/// What a device is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Description {
    /// The device's name.
    pub name: String,
    /// Driver and version, or the emulator.
    pub driver: String,
    /// The architecture code objects must be compiled for.
    pub target: Target,
    /// Whether kernels run on the emulator.
    pub emulated: bool,
    /// Compute units, which decide how far a small problem is split.
    pub compute_units: usize,
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// What else is worth knowing, name and value.
    pub properties: Vec<(String, String)>,
}

impl Description {
    /// A description without properties.
    #[must_use]
    pub fn new(name: impl Into<String>, driver: impl Into<String>, target: Target) -> Self {
        Self {
            name: name.into(),
            driver: driver.into(),
            target,
            emulated: false,
            compute_units: 1,
            memory_bytes: 0,
            properties: Vec::new(),
        }
    }
}

/// What a device or its driver refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// There is no device, driver or library.
    #[error("no HIP device: {reason}")]
    Unavailable {
        /// What was looked for, what came back, and what to install.
        reason: String,
    },
    /// Device memory ran out.
    #[error("out of device memory: {requested} bytes")]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
    },
    /// The device no longer answers.
    #[error("the device was lost: {reason}")]
    DeviceLost {
        /// What the driver said.
        reason: String,
    },
    /// A call failed.
    #[error("{operation} failed: {message}")]
    Failed {
        /// What was attempted.
        operation: &'static str,
        /// What came back, with the driver's error number where it has one.
        message: String,
    },
    /// The emulator's checks found a mistake in a kernel.
    #[error("the emulator's checks found {count} mistake(s) in {kernel}, the first: {finding}")]
    Finding {
        /// The kernel.
        kernel: String,
        /// How many places in the code were found.
        count: usize,
        /// The first of them.
        finding: String,
    },
}

/// A device that code objects run on.
///
/// Addresses are device addresses; a range that is read, written or filled lies in one allocation.
/// Work on a stream may still be in progress when a call returns; [`read`](Self::read) and
/// [`synchronize`](Self::synchronize) wait for it.
pub trait Runtime: fmt::Debug + Send + Sync {
    /// What the device is.
    fn description(&self) -> &Description;

    /// Allocates `bytes` bytes (at least 1), aligned to 256; their contents are unspecified. Kernels
    /// may read, not write, on to the next multiple of 16.
    ///
    /// # Errors
    /// [`RuntimeError::OutOfMemory`], or what the driver says.
    fn alloc(&self, bytes: u64) -> Result<u64, RuntimeError>;

    /// Frees what [`alloc`](Self::alloc) gave, once the work that uses it is done.
    ///
    /// # Errors
    /// What the driver says.
    fn free(&self, address: u64) -> Result<(), RuntimeError>;

    /// Copies host memory to the device, after the work enqueued on `stream` before. `bytes` may be
    /// reused when the call returns.
    ///
    /// # Errors
    /// What the driver says.
    fn write(&self, address: u64, bytes: &[u8], stream: Stream) -> Result<(), RuntimeError>;

    /// Copies device memory to the host once the work enqueued on `stream` is done, and waits for it.
    ///
    /// # Errors
    /// What the driver says, or an earlier launch on the stream met.
    fn read(&self, address: u64, into: &mut [u8], stream: Stream) -> Result<(), RuntimeError>;

    /// Enqueues setting `count` bytes to `value`.
    ///
    /// # Errors
    /// What the driver says.
    fn fill(&self, address: u64, value: u8, count: u64, stream: Stream)
    -> Result<(), RuntimeError>;

    /// Loads the kernel of that name from a code object; an object that was loaded before, by
    /// [`CodeObject::key`], is not loaded again.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if the object is damaged, of another target, or has no such kernel.
    fn load(&self, object: &CodeObject, kernel: &str) -> Result<Function, RuntimeError>;

    /// Enqueues a launch.
    ///
    /// # Errors
    /// What the driver says; [`RuntimeError::Finding`] from the emulator.
    fn launch(
        &self,
        function: Function,
        launch: &KernelLaunch<'_>,
        stream: Stream,
    ) -> Result<(), RuntimeError>;

    /// Waits until the work enqueued on `stream` is done.
    ///
    /// # Errors
    /// What the driver says, or an earlier launch on the stream met.
    fn synchronize(&self, stream: Stream) -> Result<(), RuntimeError>;

    /// Enqueues the recording of the time at which `stream` gets there; `None` where there is no
    /// device clock. Give it back with [`release`](Self::release).
    ///
    /// # Errors
    /// What the driver says.
    fn record(&self, stream: Stream) -> Result<Option<Event>, RuntimeError>;

    /// Seconds from one event to a later one; waits for the later.
    ///
    /// # Errors
    /// What the driver says.
    fn elapsed(&self, from: Event, to: Event) -> Result<f64, RuntimeError>;

    /// Gives an event back.
    fn release(&self, event: Event);
}
