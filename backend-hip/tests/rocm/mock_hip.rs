//! A stand-in for libamdhip64 over host memory, built by the tests as a shared library.
//!
//! It is no device: it keeps a record of the calls, hands out host memory, refuses what real HIP refuses
//! in the ways the tests need, and knows one "kernel", `negate(float* x, unsigned count)`. With
//! `--cfg legacy` it has HIP 5's device properties, with `--cfg incomplete` it lacks a function. A test
//! may have memory, kernels and launches forwarded to functions of its own.

#![allow(
    non_snake_case,
    clippy::missing_safety_doc,
    reason = "the names and contracts are those of the library it stands in for"
)]

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 1;
const NO_DEVICE: c_int = 100;
const INVALID_DEVICE: c_int = 101;
const NO_BINARY: c_int = 209;
const NOT_FOUND: c_int = 500;

#[derive(Default)]
struct State {
    calls: Vec<String>,
    /// Functions that fail, with their code.
    failures: HashMap<String, c_int>,
    /// Architectures of the devices.
    devices: Vec<String>,
    allocations: HashMap<usize, Box<[u64]>>,
    /// Addresses of the modules' images.
    modules: Vec<usize>,
    forward: Option<Forward>,
    functions: Vec<String>,
    /// When each event was recorded, in milliseconds of a clock that ticks once a record.
    events: Vec<f32>,
    clock: f32,
}

/// What a test does instead of the stand-in. Codes are HIP's.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Forward {
    alloc: extern "C" fn(bytes: usize, address: &mut u64) -> c_int,
    free: extern "C" fn(address: u64) -> c_int,
    write: extern "C" fn(address: u64, bytes: *const u8, count: usize) -> c_int,
    read: extern "C" fn(address: u64, bytes: *mut u8, count: usize) -> c_int,
    fill: extern "C" fn(address: u64, value: u8, count: usize) -> c_int,
    load: extern "C" fn(
        image: *const u8,
        count: usize,
        kernel: *const c_char,
        function: &mut u64,
    ) -> c_int,
    launch: extern "C" fn(
        function: u64,
        grid: &[c_uint; 3],
        threads: &[c_uint; 3],
        lds: c_uint,
        arguments: *const u8,
        count: usize,
    ) -> c_int,
}

fn forward() -> Option<Forward> {
    state(|state| state.forward)
}

/// What a forwarded call returned.
fn forwarded(code: c_int) -> Result<(), c_int> {
    if code == SUCCESS { Ok(()) } else { Err(code) }
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

thread_local! {
    static CURRENT: Cell<c_int> = const { Cell::new(0) };
}

fn state<T>(work: impl FnOnce(&mut State) -> T) -> T {
    let mut guard: MutexGuard<'_, Option<State>> =
        STATE.lock().unwrap_or_else(PoisonError::into_inner);
    work(guard.get_or_insert_default())
}

/// Records a call; the error that the test asked for, if any.
fn call(text: String) -> Result<(), c_int> {
    let name = text.split(' ').next().unwrap_or_default().to_owned();
    state(|state| {
        state.calls.push(text);
        state.failures.get(&name).map_or(Ok(()), |&code| Err(code))
    })
}

fn answer(work: impl FnOnce() -> Result<(), c_int>) -> c_int {
    work().err().unwrap_or(SUCCESS)
}

/// A number as the pointer HIP would give.
fn pointer(kind: usize, index: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(kind << 32 | (index + 1) << 4)
}

fn index(kind: usize, pointer: *mut c_void) -> Result<usize, c_int> {
    let number = pointer.addr();
    (number >> 32 == kind).then(|| ((number & 0xffff_ffff) >> 4) - 1).ok_or(INVALID_VALUE)
}

const MODULE: usize = 1;
const FUNCTION: usize = 2;
const EVENT: usize = 3;
const STREAM: usize = 4;

// ---- what the tests ask and set -----------------------------------------------------------------

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mock_fail(name: *const c_char, code: c_int) {
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    state(|state| match code {
        SUCCESS => drop(state.failures.remove(&name)),
        code => drop(state.failures.insert(name, code)),
    });
}

/// Architectures, one a line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mock_devices(archs: *const c_char) {
    let archs = unsafe { CStr::from_ptr(archs) }.to_string_lossy().into_owned();
    state(|state| state.devices = archs.lines().map(str::to_owned).collect());
}

/// Copies the calls so far, one a line, and forgets them; the number of bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mock_calls(into: *mut u8, capacity: usize) -> usize {
    let text = state(|state| std::mem::take(&mut state.calls).join("\n"));
    let length = text.len().min(capacity);
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), into, length) };
    length
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mock_forward(to: *const Forward) {
    let to = unsafe { *to };
    state(|state| state.forward = Some(to));
}

// ---- HIP ----------------------------------------------------------------------------------------

#[unsafe(no_mangle)]
pub extern "C" fn hipInit(flags: c_uint) -> c_int {
    answer(|| call(format!("hipInit {flags}")))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipRuntimeGetVersion(version: *mut c_int) -> c_int {
    answer(|| {
        call("hipRuntimeGetVersion".into())?;
        unsafe { *version = if cfg!(legacy) { 50_221_153 } else { 60_443_484 } };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(code: c_int) -> *const c_char {
    match code {
        1 => c"hipErrorInvalidValue",
        2 => c"hipErrorOutOfMemory",
        100 => c"hipErrorNoDevice",
        209 => c"hipErrorNoBinaryForGpu",
        500 => c"hipErrorNotFound",
        700 => c"hipErrorIllegalAddress",
        _ => return std::ptr::null(),
    }
    .as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(code: c_int) -> *const c_char {
    match code {
        1 => c"invalid argument",
        2 => c"out of memory",
        700 => c"an illegal memory access was encountered",
        _ => c"unrecognized error code",
    }
    .as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDeviceCount(count: *mut c_int) -> c_int {
    answer(|| {
        call("hipGetDeviceCount".into())?;
        let devices = state(|state| state.devices.len());
        unsafe { *count = devices as c_int };
        if devices == 0 { Err(NO_DEVICE) } else { Ok(()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDevice(device: *mut c_int) -> c_int {
    answer(|| {
        call("hipGetDevice".into())?;
        unsafe { *device = CURRENT.get() };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hipSetDevice(device: c_int) -> c_int {
    answer(|| {
        call(format!("hipSetDevice {device}"))?;
        arch(device)?;
        CURRENT.set(device);
        Ok(())
    })
}

fn arch(device: c_int) -> Result<String, c_int> {
    let device = usize::try_from(device).map_err(|_| INVALID_DEVICE)?;
    state(|state| state.devices.get(device).cloned()).ok_or(INVALID_DEVICE)
}

/// Writes a C string, cut to `length` bytes.
unsafe fn put(text: &str, into: *mut c_char, length: c_int) {
    let bytes = text.bytes().take(length.max(1) as usize - 1).chain([0]);
    for (place, byte) in bytes.enumerate() {
        unsafe { *into.add(place) = byte as c_char };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGetName(
    name: *mut c_char,
    length: c_int,
    device: c_int,
) -> c_int {
    answer(|| {
        call(format!("hipDeviceGetName {device}"))?;
        arch(device)?;
        unsafe { put(&format!("mock device {device}"), name, length) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGetPCIBusId(
    text: *mut c_char,
    length: c_int,
    device: c_int,
) -> c_int {
    answer(|| {
        call(format!("hipDeviceGetPCIBusId {device}"))?;
        unsafe { put(&format!("0000:{device:02x}:00.0"), text, length) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    device: c_int,
) -> c_int {
    answer(|| {
        call(format!("hipDeviceGetAttribute {attribute} {device}"))?;
        unsafe { *value = 304 };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipDeviceTotalMem(bytes: *mut usize, device: c_int) -> c_int {
    answer(|| {
        call(format!("hipDeviceTotalMem {device}"))?;
        unsafe { *bytes = 192 << 30 };
        Ok(())
    })
}

/// Fills properties of `size` bytes whose architecture's name lies at `offset`.
unsafe fn properties(into: *mut c_void, device: c_int, size: usize, offset: usize) -> c_int {
    answer(|| {
        call(format!("hipGetDeviceProperties {device}"))?;
        let arch = arch(device)?;
        unsafe {
            std::ptr::write_bytes(into.cast::<u8>(), 0xff, size);
            put(&arch, into.cast::<c_char>().add(offset), 256);
        }
        Ok(())
    })
}

#[cfg(not(legacy))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDevicePropertiesR0600(into: *mut c_void, device: c_int) -> c_int {
    unsafe { properties(into, device, 1472, 1160) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetDeviceProperties(into: *mut c_void, device: c_int) -> c_int {
    unsafe { properties(into, device, 792, 396) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemGetInfo(free: *mut usize, total: *mut usize) -> c_int {
    answer(|| {
        call("hipMemGetInfo".into())?;
        unsafe { (*free, *total) = (1 << 30, 192 << 30) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMalloc(pointer: *mut *mut c_void, bytes: usize) -> c_int {
    answer(|| {
        call(format!("hipMalloc {bytes}"))?;
        if let Some(to) = forward() {
            let mut address = 0;
            forwarded((to.alloc)(bytes, &mut address))?;
            unsafe { *pointer = std::ptr::without_provenance_mut(address as usize) };
            return Ok(());
        }
        let mut memory = vec![0u64; bytes.div_ceil(8)].into_boxed_slice();
        unsafe { *pointer = memory.as_mut_ptr().cast() };
        state(|state| state.allocations.insert(memory.as_ptr().expose_provenance(), memory));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hipFree(pointer: *mut c_void) -> c_int {
    answer(|| {
        call("hipFree".into())?;
        if let Some(to) = forward() {
            return forwarded((to.free)(pointer.addr() as u64));
        }
        let found = state(|state| state.allocations.remove(&pointer.addr()).is_some());
        if found || pointer.is_null() { Ok(()) } else { Err(INVALID_VALUE) }
    })
}

/// Whether the bytes lie within one allocation.
fn is_device(pointer: *const c_void, bytes: usize) -> Result<(), c_int> {
    let inside = state(|state| {
        state.allocations.iter().any(|(&start, memory)| {
            start <= pointer.addr() && pointer.addr() + bytes <= start + memory.len() * 8
        })
    });
    if inside { Ok(()) } else { Err(INVALID_VALUE) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemcpyAsync(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: c_int,
    stream: *mut c_void,
) -> c_int {
    answer(|| {
        call(format!("hipMemcpyAsync {bytes} kind {kind} stream {:#x}", stream.addr()))?;
        if let Some(forward) = forward() {
            return forwarded(if kind == 1 {
                (forward.write)(to.addr() as u64, from.cast(), bytes)
            } else {
                (forward.read)(from.addr() as u64, to.cast(), bytes)
            });
        }
        is_device(if kind == 1 { to.cast_const() } else { from }, bytes)?;
        unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), bytes) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipMemsetAsync(
    at: *mut c_void,
    value: c_int,
    bytes: usize,
    stream: *mut c_void,
) -> c_int {
    answer(|| {
        call(format!("hipMemsetAsync {value} {bytes} stream {:#x}", stream.addr()))?;
        if let Some(to) = forward() {
            return forwarded((to.fill)(at.addr() as u64, value as u8, bytes));
        }
        is_device(at, bytes)?;
        unsafe { std::ptr::write_bytes(at.cast::<u8>(), value as u8, bytes) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLoadData(
    module: *mut *mut c_void,
    image: *const c_void,
) -> c_int {
    answer(|| {
        call("hipModuleLoadData".into())?;
        if unsafe { *image.cast::<[u8; 4]>() } != *b"\x7fELF" {
            return Err(NO_BINARY);
        }
        let index = state(|state| {
            state.modules.push(image.expose_provenance());
            state.modules.len() - 1
        });
        unsafe { *module = pointer(MODULE, index) };
        Ok(())
    })
}

/// Bytes of an ELF file whose section headers come last, as linkers write it.
unsafe fn elf_size(image: *const u8) -> usize {
    let half = |at| unsafe { image.add(at).cast::<u16>().read_unaligned() } as usize;
    let headers = unsafe { image.add(0x28).cast::<u64>().read_unaligned() } as usize;
    headers + half(0x3a) * half(0x3c)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleGetFunction(
    function: *mut *mut c_void,
    module: *mut c_void,
    name: *const c_char,
) -> c_int {
    answer(|| {
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
        call(format!("hipModuleGetFunction {name}"))?;
        let module = index(MODULE, module)?;
        if let Some(to) = forward() {
            let image = state(|state| state.modules[module]);
            let image = std::ptr::with_exposed_provenance::<u8>(image);
            let mut number = 0;
            let name = std::ffi::CString::new(name).map_err(|_| NOT_FOUND)?;
            let size = unsafe { elf_size(image) };
            forwarded((to.load)(image, size, name.as_ptr(), &mut number))?;
            unsafe { *function = pointer(FUNCTION, number as usize) };
            return Ok(());
        }
        if name != "negate" {
            return Err(NOT_FOUND);
        }
        let index = state(|state| {
            state.functions.push(name);
            state.functions.len() - 1
        });
        unsafe { *function = pointer(FUNCTION, index) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hipModuleUnload(module: *mut c_void) -> c_int {
    answer(|| {
        call("hipModuleUnload".into())?;
        index(MODULE, module).map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipModuleLaunchKernel(
    function: *mut c_void,
    gx: c_uint,
    gy: c_uint,
    gz: c_uint,
    tx: c_uint,
    ty: c_uint,
    tz: c_uint,
    lds: c_uint,
    stream: *mut c_void,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_int {
    answer(|| {
        let function = index(FUNCTION, function)?;
        let extra = unsafe { *extra.cast::<[*mut c_void; 5]>() };
        let keys = [extra[0].addr(), extra[2].addr(), extra[4].addr()];
        if !params.is_null() || keys != [1, 2, 3] {
            return Err(INVALID_VALUE);
        }
        let size = unsafe { *extra[3].cast::<usize>() };
        call(format!(
            "hipModuleLaunchKernel {gx} {gy} {gz} threads {tx} {ty} {tz} lds {lds} stream {:#x} \
             args {size} device {}",
            stream.addr(),
            CURRENT.get()
        ))?;
        if let Some(to) = forward() {
            let (grid, threads) = ([gx, gy, gz], [tx, ty, tz]);
            let arguments = extra[1].cast::<u8>().cast_const();
            let function = function as u64;
            return forwarded((to.launch)(function, &grid, &threads, lds, arguments, size));
        }
        if size != 12 {
            return Err(INVALID_VALUE);
        }
        // negate(float* x, unsigned count)
        let arguments = extra[1].cast::<u8>();
        let (address, count) = unsafe {
            (
                arguments.cast::<*mut f32>().read_unaligned(),
                arguments.add(8).cast::<u32>().read_unaligned(),
            )
        };
        is_device(address.cast(), count as usize * 4)?;
        for place in 0..count as usize {
            unsafe { *address.add(place) = -*address.add(place) };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamCreateWithFlags(
    stream: *mut *mut c_void,
    flags: c_uint,
) -> c_int {
    answer(|| {
        call(format!("hipStreamCreateWithFlags {flags}"))?;
        unsafe { *stream = pointer(STREAM, 0) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hipStreamSynchronize(stream: *mut c_void) -> c_int {
    answer(|| call(format!("hipStreamSynchronize {:#x}", stream.addr())))
}

#[unsafe(no_mangle)]
pub extern "C" fn hipStreamDestroy(stream: *mut c_void) -> c_int {
    answer(|| call(format!("hipStreamDestroy {:#x}", stream.addr())))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventCreate(event: *mut *mut c_void) -> c_int {
    answer(|| {
        call("hipEventCreate".into())?;
        let index = state(|state| {
            state.events.push(f32::NAN);
            state.events.len() - 1
        });
        unsafe { *event = pointer(EVENT, index) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hipEventRecord(event: *mut c_void, stream: *mut c_void) -> c_int {
    answer(|| {
        call(format!("hipEventRecord stream {:#x}", stream.addr()))?;
        let index = index(EVENT, event)?;
        state(|state| {
            state.clock += 2.5;
            state.events[index] = state.clock;
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn hipEventSynchronize(event: *mut c_void) -> c_int {
    answer(|| {
        call("hipEventSynchronize".into())?;
        index(EVENT, event).map(drop)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventElapsedTime(
    milliseconds: *mut f32,
    from: *mut c_void,
    to: *mut c_void,
) -> c_int {
    answer(|| {
        call("hipEventElapsedTime".into())?;
        let (from, to) = (index(EVENT, from)?, index(EVENT, to)?);
        unsafe { *milliseconds = state(|state| state.events[to] - state.events[from]) };
        Ok(())
    })
}

#[cfg(not(incomplete))]
#[unsafe(no_mangle)]
pub extern "C" fn hipEventDestroy(event: *mut c_void) -> c_int {
    answer(|| {
        call("hipEventDestroy".into())?;
        index(EVENT, event).map(drop)
    })
}
