//! Kernels on an AMD GPU, through the HIP runtime.
//!
//! The library is loaded when a device is first asked for, so that a program built anywhere runs with
//! and without ROCm; with the feature `hip-runtime-sys` it is linked instead. [`Rocm`] may be used from
//! any thread: HIP's current device is a property of the thread, so each call makes its device current
//! and puts back the one before.

mod api;
mod device;
mod error;
mod loaded;

use core::ffi::{c_int, c_void};
use core::fmt;
use core::ptr::{null_mut, with_exposed_provenance_mut};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use device::RocmDevice;
pub use error::RocmError;

use crate::compile::CodeObject;
use crate::runtime::{Description, Event, Function, KernelLaunch, Runtime, RuntimeError, Stream};
use api::{Api, DEVICE_TO_HOST, HOST_TO_DEVICE, Handle, NON_BLOCKING};
use loaded::{Events, Modules};

/// A ROCm device.
pub struct Rocm {
    api: Api,
    index: c_int,
    description: Description,
    modules: Mutex<Modules>,
    events: Mutex<Events>,
}

impl Rocm {
    /// Opens the device of that number, or the first that has matrix cores, or the first that kernels
    /// are compiled for. Loads the HIP runtime: `LAPIDARY_HIP_LIBRARY`, or `libamdhip64.so` in
    /// `$ROCM_PATH/lib`, `$HIP_PATH/lib`, where the dynamic linker looks, and `/opt/rocm/lib`.
    ///
    /// # Errors
    /// [`RocmError::Library`], [`RocmError::NoDevice`], [`RocmError::DeviceIndex`],
    /// [`RocmError::UnknownArch`], or [`RocmError::Call`] for what HIP refuses.
    pub fn open(index: Option<usize>) -> Result<Self, RocmError> {
        Self::of(Api::get()?, index)
    }

    /// As [`open`](Self::open), with the HIP runtime in the file `library`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(library: impl AsRef<Path>, index: Option<usize>) -> Result<Self, RocmError> {
        Self::of(Api::at(library.as_ref())?, index)
    }

    /// The devices that HIP sees, those without kernels included.
    ///
    /// # Errors
    /// [`RocmError::Library`] and [`RocmError::Call`]; no device is no error.
    pub fn devices() -> Result<Vec<RocmDevice>, RocmError> {
        device::devices(&Api::get()?)
    }

    fn of(api: Api, index: Option<usize>) -> Result<Self, RocmError> {
        let devices = device::devices(&api)?;
        if devices.is_empty() {
            let version = api.version_text();
            return Err(RocmError::NoDevice { library: api.library, version });
        }
        let (device, target) = device::choose(&devices, index)?;
        Ok(Self {
            description: device::describe(&api, device, target),
            // HIP counts devices in this type.
            index: device.index as c_int,
            api,
            modules: Mutex::default(),
            events: Mutex::default(),
        })
    }

    /// A new stream, which does not wait for the default stream; it is destroyed when dropped.
    ///
    /// # Errors
    /// What HIP says.
    pub fn new_stream(&self) -> Result<RocmStream<'_>, RuntimeError> {
        let _current = self.make_current()?;
        let mut stream = null_mut();
        // SAFETY: the pointer is to a live handle.
        self.api.check("hipStreamCreateWithFlags", "making a stream", unsafe {
            (self.api.table.hipStreamCreateWithFlags)(&raw mut stream, NON_BLOCKING)
        })?;
        Ok(RocmStream { rocm: self, handle: stream.expose_provenance() })
    }

    /// Free bytes of device memory, and all of them.
    ///
    /// # Errors
    /// What HIP says.
    pub fn memory_info(&self) -> Result<(u64, u64), RuntimeError> {
        let _current = self.make_current()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the pointers are to live integers.
        self.api.check("hipMemGetInfo", "asking for free memory", unsafe {
            (self.api.table.hipMemGetInfo)(&raw mut free, &raw mut total)
        })?;
        Ok((free as u64, total as u64))
    }

    /// Makes the device current in this thread until the guard is dropped.
    fn make_current(&self) -> Result<Current<'_>, RocmError> {
        let mut previous = 0;
        // SAFETY: the pointer is to a live integer.
        self.api.check("hipGetDevice", "asking for the current device", unsafe {
            (self.api.table.hipGetDevice)(&raw mut previous)
        })?;
        if previous == self.index {
            return Ok(Current { api: &self.api, previous: None });
        }
        // SAFETY: takes any number.
        let code = unsafe { (self.api.table.hipSetDevice)(self.index) };
        self.api.check("hipSetDevice", format!("making device {} current", self.index), code)?;
        Ok(Current { api: &self.api, previous: Some(previous) })
    }

    fn wait(&self, stream: Stream) -> Result<(), RocmError> {
        // SAFETY: streams are HIP's, made here or by the caller.
        self.api.check("hipStreamSynchronize", "waiting for a stream", unsafe {
            (self.api.table.hipStreamSynchronize)(handle(stream.0))
        })
    }

    /// Copies between host and device in the stream's order, and waits: the host's memory is the
    /// caller's again when this returns.
    fn copy(
        &self,
        to: *mut c_void,
        from: *const c_void,
        bytes: usize,
        kind: c_int,
        stream: Stream,
    ) -> Result<(), RuntimeError> {
        if bytes == 0 {
            return Ok(());
        }
        let _current = self.make_current()?;
        let direction = if kind == HOST_TO_DEVICE { "to" } else { "from" };
        // SAFETY: one side is a live host slice of `bytes` bytes, borrowed past the wait below; HIP
        // finds out whether the other is device memory.
        let code =
            unsafe { (self.api.table.hipMemcpyAsync)(to, from, bytes, kind, handle(stream.0)) };
        let started = self.api.check(
            "hipMemcpyAsync",
            format!("copying {bytes} bytes {direction} the device"),
            code,
        );
        // Also after a failure: nothing may be reading or writing the slice when its borrow ends.
        let waited = self.wait(stream);
        Ok(started.and(waited)?)
    }
}

/// The device of a thread while a call is made.
struct Current<'a> {
    api: &'a Api,
    /// The device to go back to, if it is another.
    previous: Option<c_int>,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if let Some(previous) = self.previous {
            // SAFETY: takes any number.
            let code = unsafe { (self.api.table.hipSetDevice)(previous) };
            if let Err(error) = self.api.check("hipSetDevice", "going back to a device", code) {
                tracing::warn!(%error, "the thread's HIP device changed");
            }
        }
    }
}

/// A stream of its own, destroyed when dropped.
#[derive(Debug)]
pub struct RocmStream<'a> {
    rocm: &'a Rocm,
    handle: usize,
}

impl RocmStream<'_> {
    /// The stream to hand to [`Runtime`]'s functions.
    #[must_use]
    pub fn stream(&self) -> Stream {
        Stream(self.handle as u64)
    }
}

impl Drop for RocmStream<'_> {
    fn drop(&mut self) {
        let api = &self.rocm.api;
        // SAFETY: made by hipStreamCreateWithFlags, and not destroyed before.
        let code = unsafe { (api.table.hipStreamDestroy)(handle(self.handle as u64)) };
        if let Err(error) = api.check("hipStreamDestroy", "destroying a stream", code) {
            tracing::warn!(%error, "a stream was not destroyed");
        }
    }
}

impl fmt::Debug for Rocm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rocm")
            .field("description", &self.description)
            .field("library", &self.api.library)
            .finish_non_exhaustive()
    }
}

impl Drop for Rocm {
    fn drop(&mut self) {
        let Ok(_current) = self.make_current() else { return };
        lock(&self.events).destroy(&self.api);
        lock(&self.modules).unload(&self.api);
    }
}

/// HIP's pointer from the number that stands for it.
fn handle(number: u64) -> Handle {
    with_exposed_provenance_mut(number as usize)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The tables are changed by single insertions, so a panic elsewhere leaves them whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime for Rocm {
    fn description(&self) -> &Description {
        &self.description
    }

    fn alloc(&self, bytes: u64) -> Result<u64, RuntimeError> {
        let _current = self.make_current()?;
        let Ok(size) = usize::try_from(bytes) else {
            return Err(RuntimeError::OutOfMemory { requested: bytes });
        };
        let mut pointer = null_mut();
        // SAFETY: the pointer is to a live handle.
        let code = unsafe { (self.api.table.hipMalloc)(&raw mut pointer, size.max(1)) };
        self.api
            .check("hipMalloc", format!("allocating {bytes} bytes"), code)
            .map_err(|error| error.with_bytes(bytes.max(1)))?;
        Ok(pointer.expose_provenance() as u64)
    }

    fn free(&self, address: u64) -> Result<(), RuntimeError> {
        let _current = self.make_current()?;
        // SAFETY: HIP knows its allocations and refuses other addresses; it waits for the work that
        // is under way on the device.
        let code = unsafe { (self.api.table.hipFree)(handle(address)) };
        Ok(self.api.check("hipFree", format!("freeing {address:#x}"), code)?)
    }

    fn write(&self, address: u64, bytes: &[u8], stream: Stream) -> Result<(), RuntimeError> {
        self.copy(handle(address), bytes.as_ptr().cast(), bytes.len(), HOST_TO_DEVICE, stream)
    }

    fn read(&self, address: u64, into: &mut [u8], stream: Stream) -> Result<(), RuntimeError> {
        let (to, bytes) = (into.as_mut_ptr().cast(), into.len());
        self.copy(to, handle(address), bytes, DEVICE_TO_HOST, stream)
    }

    fn fill(
        &self,
        address: u64,
        value: u8,
        count: u64,
        stream: Stream,
    ) -> Result<(), RuntimeError> {
        if count == 0 {
            return Ok(());
        }
        let _current = self.make_current()?;
        // SAFETY: device memory, which HIP checks.
        let code = unsafe {
            (self.api.table.hipMemsetAsync)(
                handle(address),
                c_int::from(value),
                // More than the address space has is more than HIP will set.
                usize::try_from(count).unwrap_or(usize::MAX),
                handle(stream.0),
            )
        };
        Ok(self.api.check("hipMemsetAsync", format!("setting {count} bytes"), code)?)
    }

    fn load(&self, object: &CodeObject, kernel: &str) -> Result<Function, RuntimeError> {
        let _current = self.make_current()?;
        Ok(lock(&self.modules).load(&self.api, object, kernel)?)
    }

    fn launch(
        &self,
        function: Function,
        launch: &KernelLaunch<'_>,
        stream: Stream,
    ) -> Result<(), RuntimeError> {
        check_size(launch)?;
        let kernel = lock(&self.modules).function(function)?;
        let _current = self.make_current()?;
        // HIP_LAUNCH_PARAM_BUFFER_POINTER, _SIZE and _END: the arguments as one buffer.
        let mut size = launch.args.len();
        let mut extra: [*mut c_void; 5] = [
            core::ptr::without_provenance_mut(1),
            launch.args.as_ptr().cast_mut().cast(),
            core::ptr::without_provenance_mut(2),
            (&raw mut size).cast(),
            core::ptr::without_provenance_mut(3),
        ];
        let ([x, y, z], [tx, ty, tz]) = (launch.grid, launch.threads);
        // SAFETY: the function is of a module that stays loaded; HIP copies the arguments before it
        // returns and reads `size` bytes of them.
        let code = unsafe {
            (self.api.table.hipModuleLaunchKernel)(
                kernel,
                x,
                y,
                z,
                tx,
                ty,
                tz,
                launch.dynamic_lds,
                handle(stream.0),
                null_mut(),
                extra.as_mut_ptr(),
            )
        };
        let attempted = || {
            format!(
                "launching {x}x{y}x{z} workgroups of {tx}x{ty}x{tz} threads with {} bytes of LDS \
                and {size} of arguments",
                launch.dynamic_lds
            )
        };
        if code == 0 {
            return Ok(());
        }
        Ok(self.api.check("hipModuleLaunchKernel", attempted(), code)?)
    }

    fn synchronize(&self, stream: Stream) -> Result<(), RuntimeError> {
        let _current = self.make_current()?;
        Ok(self.wait(stream)?)
    }

    fn record(&self, stream: Stream) -> Result<Option<Event>, RuntimeError> {
        let _current = self.make_current()?;
        let event = lock(&self.events).record(&self.api, handle(stream.0))?;
        Ok(Some(event))
    }

    fn elapsed(&self, from: Event, to: Event) -> Result<f64, RuntimeError> {
        let _current = self.make_current()?;
        let (from, to) = lock(&self.events).pair(from, to)?;
        // SAFETY: both are events of this table.
        self.api.check("hipEventSynchronize", "waiting for an event", unsafe {
            (self.api.table.hipEventSynchronize)(to)
        })?;
        let mut milliseconds = 0.0;
        // SAFETY: as above, and the pointer is to a live number.
        self.api.check("hipEventElapsedTime", "reading the time between events", unsafe {
            (self.api.table.hipEventElapsedTime)(&raw mut milliseconds, from, to)
        })?;
        Ok(f64::from(milliseconds) / 1e3)
    }

    fn release(&self, event: Event) {
        lock(&self.events).release(event);
    }
}

/// HIP takes workgroups and threads as 32-bit numbers, and so must their product be.
fn check_size(launch: &KernelLaunch<'_>) -> Result<(), RocmError> {
    for (axis, (grid, threads)) in
        ['x', 'y', 'z'].into_iter().zip(launch.grid.into_iter().zip(launch.threads))
    {
        if grid.checked_mul(threads).is_none() {
            return Err(RocmError::Launch { axis, grid, threads });
        }
    }
    Ok(())
}
