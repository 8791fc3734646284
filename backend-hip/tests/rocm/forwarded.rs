//! `Gemm::<Hip>` through the whole ROCm path, with the emulator behind HIP's functions: what the backend
//! hands to HIP is enough to compute with.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::time::Duration;

use core::ffi::{c_char, c_int, c_uint};
use lapidary_hip::HipError;
use lapidary_hip::compile::{CodeObject, Compiler};
use lapidary_hip::prelude::*;
use lapidary_hip::runtime::rocm::Rocm;
use lapidary_hip::runtime::{Emulated, Function, KernelLaunch, Runtime, RuntimeError, Stream};
use std::sync::Arc;

use crate::mock::{Kind, Mock};

/// The stand-in's `Forward`.
#[repr(C)]
struct Forward {
    alloc: extern "C" fn(usize, &mut u64) -> c_int,
    free: extern "C" fn(u64) -> c_int,
    write: extern "C" fn(u64, *const u8, usize) -> c_int,
    read: extern "C" fn(u64, *mut u8, usize) -> c_int,
    fill: extern "C" fn(u64, u8, usize) -> c_int,
    load: extern "C" fn(*const u8, usize, *const c_char, &mut u64) -> c_int,
    launch: extern "C" fn(u64, &[c_uint; 3], &[c_uint; 3], c_uint, *const u8, usize) -> c_int,
}

fn emulator() -> &'static Emulated {
    static EMULATOR: OnceLock<Emulated> = OnceLock::new();
    EMULATOR.get_or_init(|| Emulated::new(Target::Gfx942).expect("gfx942 is emulated"))
}

/// HIP's code for what the emulator says: a launch that fails, or an invalid value.
fn code<T>(result: Result<T, RuntimeError>, into: impl FnOnce(T)) -> c_int {
    match result {
        Ok(value) => {
            into(value);
            0
        }
        Err(error) => {
            eprintln!("{error}");
            if matches!(error, RuntimeError::Finding { .. }) { 719 } else { 1 }
        }
    }
}

extern "C" fn alloc(bytes: usize, address: &mut u64) -> c_int {
    code(emulator().alloc(bytes as u64), |found| *address = found)
}

extern "C" fn free(address: u64) -> c_int {
    code(emulator().free(address), drop)
}

extern "C" fn write(address: u64, bytes: *const u8, count: usize) -> c_int {
    // SAFETY: the stand-in passes on what the backend copies from.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, count) };
    code(emulator().write(address, bytes, Stream::DEFAULT), drop)
}

extern "C" fn read(address: u64, bytes: *mut u8, count: usize) -> c_int {
    // SAFETY: the stand-in passes on what the backend copies to.
    let bytes = unsafe { std::slice::from_raw_parts_mut(bytes, count) };
    code(emulator().read(address, bytes, Stream::DEFAULT), drop)
}

extern "C" fn fill(address: u64, value: u8, count: usize) -> c_int {
    code(emulator().fill(address, value, count as u64, Stream::DEFAULT), drop)
}

extern "C" fn load(
    image: *const u8,
    count: usize,
    kernel: *const c_char,
    function: &mut u64,
) -> c_int {
    // SAFETY: an image of that size, and a name that ends in zero.
    let (image, kernel) =
        unsafe { (std::slice::from_raw_parts(image, count), CStr::from_ptr(kernel)) };
    let object = CodeObject::prebuilt(image.to_vec());
    let kernel = kernel.to_string_lossy();
    code(emulator().load(&object, &kernel), |found| *function = found.0)
}

extern "C" fn launch(
    function: u64,
    grid: &[c_uint; 3],
    threads: &[c_uint; 3],
    dynamic_lds: c_uint,
    args: *const u8,
    count: usize,
) -> c_int {
    // SAFETY: the buffer and the size that the backend handed to HIP.
    let args = unsafe { std::slice::from_raw_parts(args, count) };
    let launch = KernelLaunch { grid: *grid, threads: *threads, dynamic_lds, args };
    code(emulator().launch(Function(function), &launch, Stream::DEFAULT), drop)
}

/// A device whose HIP is the stand-in with the emulator behind it, and the stand-in.
fn device() -> Option<(Mock, Hip)> {
    let compiler = match Compiler::find_clang() {
        Ok(compiler) => compiler,
        Err(error @ HipError::CompilerNotFound { .. }) => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let mock = Mock::new(Kind::Current, &["gfx942:sramecc+:xnack-"]);
    let forward = Forward { alloc, free, write, read, fill, load, launch };
    // SAFETY: the stand-in's function with its type; it copies the structure.
    unsafe { mock.call::<Forward>("mock_forward", &forward) };
    let rocm = Rocm::open_with(mock.path(), None).expect("the stand-in opens");
    Some((mock, Hip::with_compiler(Arc::new(rocm), compiler)))
}

/// Small integers, so that sums are exact in any order.
fn small(count: usize, seed: usize) -> Vec<bf16> {
    (0..count).map(|i| bf16::from_f32(((i * 7 + seed) % 11) as f32 - 5.0)).collect()
}

#[test]
fn gemm_through_rocm_is_gemm_on_the_emulator() {
    let Some((mock, rocm)) = device() else { return };
    let emulated = Hip::emulated(Target::Gfx942).expect("an emulated device");
    assert!(!rocm.description().emulated);
    for [m, n, k] in [[70, 90, 100], [17, 64, 33]] {
        let (a, b) = (small(m * k, 1), small(k * n, 2));
        let operands = Operands::new(
            MatrixRef::row_major(&a, m, k).expect("A"),
            MatrixRef::row_major(&b, k, n).expect("B"),
        );
        let problem = operands.problem(ElementType::F32).expect("a problem");
        drop(mock.calls());
        let run = |device: &Hip| Gemm::<Hip>::run(device, &problem, &operands).expect("it runs");
        let (found, expected) = (run(&rocm), run(&emulated));
        let values = found.matrix.to_vec::<f32>().expect("f32");
        assert_eq!(values, expected.matrix.to_vec::<f32>().expect("f32"));
        let exact: f32 = (0..k).map(|i| a[i].to_f32() * b[i * n].to_f32()).sum();
        assert_eq!(values[0], exact, "C's first element");
        assert_eq!(found.summary.kernel, expected.summary.kernel);
        let calls = mock.calls();
        let count = |name: &str| calls.iter().filter(|call| call.starts_with(name)).count();
        assert!(count("hipModuleLaunchKernel") >= 1, "{calls:?}");
        assert_eq!(count("hipMalloc"), count("hipFree"), "{calls:?}");
    }
}

#[test]
fn a_plan_is_timed_by_events_and_allocates_nothing_when_it_runs() {
    let Some((mock, rocm)) = device() else { return };
    let [m, n, k] = [32, 64, 64];
    let (a, b) = (small(m * k, 3), small(k * n, 4));
    let element = ElementType::BF16;
    let mut problem = Problem::new(m, n, k);
    (problem.a, problem.b, problem.c) = (element, element, element);
    let options = PlanOptions::default();
    let plan = Gemm::<Hip>::plan(&rocm, &problem, &options).expect("a plan");
    let upload = |values: &[bf16]| {
        let tensor = rocm.alloc(ElementType::BF16, values.len()).expect("memory");
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        rocm.upload(&tensor, 0, &bytes).expect("uploaded");
        tensor
    };
    let (a, b) = (upload(&a), upload(&b));
    let c = rocm.alloc(ElementType::BF16, m * n).expect("memory");
    let args = Args::<Hip>::new(&a, &b, &c);
    let times = |runs| rocm.time(plan.inner(), &args, runs, Duration::ZERO).expect("it runs");
    assert!(times(1).is_some(), "there is a clock");
    drop(mock.calls());
    // The stand-in's clock ticks 2.5 ms a record.
    assert_eq!(times(3), Some(vec![Duration::from_micros(2500); 3]));
    let calls = mock.calls();
    let forbidden = ["hipMalloc", "hipFree", "hipModuleLoadData", "hipEventCreate"];
    assert!(!calls.iter().any(|call| forbidden.iter().any(|f| call.starts_with(f))), "{calls:?}");
}
