//! The whole ROCm path against the stand-in: what is called, in what order, with what, and what comes
//! of each call that fails.

use lapidary_hip::compile::CodeObject;
use lapidary_hip::runtime::rocm::{Rocm, RocmError};
use lapidary_hip::runtime::{Event, Function, KernelLaunch, Runtime, RuntimeError, Stream};
use lapidary_hip::{LibraryError, Target};

use crate::mock::{Kind, Mock};

const MI300: &str = "gfx942:sramecc+:xnack-";

fn open(mock: &Mock) -> Rocm {
    let rocm = Rocm::open_with(mock.path(), None).expect("the stand-in opens");
    drop(mock.calls());
    rocm
}

fn object() -> CodeObject {
    CodeObject::prebuilt(b"\x7fELF and nothing else".to_vec())
}

/// Floats as bytes.
fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `negate`'s arguments.
fn arguments(address: u64, count: u32) -> Vec<u8> {
    [&address.to_le_bytes()[..], &count.to_le_bytes()].concat()
}

/// A launch of one workgroup.
fn launch(args: &[u8]) -> KernelLaunch<'_> {
    KernelLaunch { grid: [7, 5, 3], threads: [256, 1, 1], dynamic_lds: 1024, args }
}

#[test]
fn a_device_is_described_from_both_layouts_of_its_properties() {
    for (kind, version) in [(Kind::Current, "6.4.43484"), (Kind::Legacy, "5.2.21153")] {
        let mock = Mock::new(kind, &[MI300]);
        let rocm = Rocm::open_with(mock.path(), None).expect("a device");
        let description = rocm.description();
        assert_eq!(description.target, Target::Gfx942, "{kind:?}");
        assert_eq!(description.name, "mock device 0");
        assert_eq!((description.compute_units, description.memory_bytes), (304, 192 << 30));
        assert!(!description.emulated);
        assert!(description.driver.contains(version), "{}", description.driver);
        assert!(description.properties.contains(&("arch".into(), MI300.into())));
        assert!(description.properties.contains(&("pci".into(), "0000:00:00.0".into())));
    }
}

#[test]
fn memory_kernels_and_arguments_go_through_hip() {
    let mock = Mock::new(Kind::Current, &[MI300]);
    let rocm = open(&mock);
    let values: Vec<f32> = (0..100).map(|i| i as f32).collect();
    let address = rocm.alloc(400).expect("memory");
    rocm.write(address, &bytes(&values), Stream::DEFAULT).expect("written");
    let negate = rocm.load(&object(), "negate").expect("the kernel");
    rocm.launch(negate, &launch(&arguments(address, 99)), Stream::DEFAULT).expect("launched");
    let mut back = vec![0; 400];
    rocm.read(address, &mut back, Stream::DEFAULT).expect("read");
    let expected: Vec<f32> = values.iter().map(|&v| if v < 99.0 { -v } else { v }).collect();
    assert_eq!(back, bytes(&expected));
    rocm.fill(address + 8, 0x41, 16, Stream::DEFAULT).expect("filled");
    rocm.read(address, &mut back, Stream::DEFAULT).expect("read");
    assert_eq!(
        (back[7], back[8], back[23], back[24]),
        (bytes(&expected)[7], 0x41, 0x41, bytes(&expected)[24])
    );
    rocm.free(address).expect("freed");
    drop(rocm);

    let calls = mock.calls();
    let calls: Vec<&str> =
        calls.iter().map(String::as_str).filter(|&call| call != "hipGetDevice").collect();
    assert_eq!(
        calls,
        [
            "hipMalloc 400",
            "hipMemcpyAsync 400 kind 1 stream 0x0",
            "hipStreamSynchronize 0x0",
            "hipModuleLoadData",
            "hipModuleGetFunction negate",
            "hipModuleLaunchKernel 7 5 3 threads 256 1 1 lds 1024 stream 0x0 args 12 device 0",
            "hipMemcpyAsync 400 kind 2 stream 0x0",
            "hipStreamSynchronize 0x0",
            "hipMemsetAsync 65 16 stream 0x0",
            "hipMemcpyAsync 400 kind 2 stream 0x0",
            "hipStreamSynchronize 0x0",
            "hipFree",
            "hipModuleUnload",
        ]
    );
}

#[test]
fn an_object_is_loaded_once_and_its_kernels_looked_up_once() {
    let mock = Mock::new(Kind::Current, &[MI300]);
    let rocm = open(&mock);
    let first = rocm.load(&object(), "negate").expect("loaded");
    assert_eq!(rocm.load(&object(), "negate"), Ok(first));
    let calls = mock.calls();
    assert_eq!(calls.iter().filter(|call| call.starts_with("hipModule")).count(), 2, "{calls:?}");
    let other = CodeObject::prebuilt(b"\x7fELF, another".to_vec());
    assert_ne!(rocm.load(&other, "negate"), Ok(first));
    drop(rocm);
    let unloaded = mock.calls().into_iter().filter(|call| call == "hipModuleUnload").count();
    assert_eq!(unloaded, 2);
}

#[test]
fn the_threads_device_is_set_for_a_call_and_put_back() {
    let mock = Mock::new(Kind::Current, &["gfx1100", MI300]);
    let rocm = open(&mock);
    assert_eq!(rocm.description().name, "mock device 1", "matrix cores come first");
    let address = rocm.alloc(16).expect("memory");
    let calls = mock.calls();
    assert_eq!(calls, ["hipGetDevice", "hipSetDevice 1", "hipMalloc 16", "hipSetDevice 0"]);
    std::thread::scope(|scope| {
        let launched = scope.spawn(|| {
            let negate = rocm.load(&object(), "negate")?;
            rocm.launch(negate, &launch(&arguments(address, 4)), Stream::DEFAULT)
        });
        launched.join().expect("no panic").expect("launched from another thread");
    });
    let calls = mock.calls();
    let launch = calls.iter().find(|call| call.starts_with("hipModuleLaunchKernel"));
    assert!(launch.is_some_and(|call| call.ends_with("device 1")), "{calls:?}");
}

#[test]
fn streams_are_the_callers_or_made_here() {
    let mock = Mock::new(Kind::Current, &[MI300]);
    let rocm = open(&mock);
    let address = rocm.alloc(16).expect("memory");
    let negate = rocm.load(&object(), "negate").expect("loaded");
    drop(mock.calls());
    let callers = Stream(0x7_1234_5670);
    rocm.launch(negate, &launch(&arguments(address, 4)), callers).expect("launched");
    rocm.synchronize(callers).expect("done");
    let made = rocm.new_stream().expect("a stream");
    rocm.fill(address, 0, 16, made.stream()).expect("filled");
    drop(made);
    let calls = mock.calls().join("\n");
    assert!(calls.contains("lds 1024 stream 0x712345670 args 12"), "{calls}");
    assert!(calls.contains("hipStreamSynchronize 0x712345670"), "{calls}");
    assert!(calls.contains("hipStreamCreateWithFlags 1"), "{calls}");
    assert!(calls.contains("hipMemsetAsync 0 16 stream 0x400000010"), "{calls}");
    assert!(calls.contains("hipStreamDestroy 0x400000010"), "{calls}");
}

#[test]
fn events_time_in_seconds_and_are_used_again() {
    let mock = Mock::new(Kind::Current, &[MI300]);
    let rocm = open(&mock);
    for _ in 0..10 {
        let from = rocm.record(Stream::DEFAULT).expect("recorded").expect("a clock");
        let to = rocm.record(Stream::DEFAULT).expect("recorded").expect("a clock");
        assert_ne!(from, to);
        assert_eq!(rocm.elapsed(from, to), Ok(2.5e-3));
        rocm.release(from);
        rocm.release(to);
        assert!(matches!(rocm.elapsed(from, to), Err(RuntimeError::Failed { .. })));
    }
    drop(rocm);
    let calls = mock.calls();
    for (call, count) in
        [("hipEventCreate", 2), ("hipEventDestroy", 2), ("hipEventSynchronize", 10)]
    {
        assert_eq!(calls.iter().filter(|c| *c == call).count(), count, "{call}");
    }
}

#[test]
fn empty_copies_and_fills_call_nothing() {
    let mock = Mock::new(Kind::Current, &[MI300]);
    let rocm = open(&mock);
    rocm.write(16, &[], Stream::DEFAULT).expect("nothing to write");
    rocm.read(16, &mut [], Stream::DEFAULT).expect("nothing to read");
    rocm.fill(16, 0, 0, Stream::DEFAULT).expect("nothing to fill");
    assert_eq!(mock.calls(), Vec::<String>::new());
}

/// What is done with a device, each part with the functions it needs.
type Part = (&'static [&'static str], fn(&Rocm, u64) -> Result<(), RuntimeError>);

#[test]
fn every_failing_call_is_a_typed_error_that_names_it() {
    let parts: [Part; 9] = [
        (&["hipGetDevice", "hipMalloc"], |rocm, _| rocm.alloc(64).map(drop)),
        (&["hipFree"], |rocm, address| rocm.free(address)),
        (&["hipMemcpyAsync", "hipStreamSynchronize"], |rocm, address| {
            rocm.write(address, &[1; 16], Stream::DEFAULT)
        }),
        (&["hipMemcpyAsync", "hipStreamSynchronize"], |rocm, address| {
            rocm.read(address, &mut [0; 16], Stream::DEFAULT)
        }),
        (&["hipMemsetAsync"], |rocm, address| rocm.fill(address, 1, 16, Stream::DEFAULT)),
        (
            &["hipModuleLoadData", "hipModuleGetFunction", "hipModuleLaunchKernel"],
            |rocm, address| {
                let negate = rocm.load(&object(), "negate")?;
                rocm.launch(negate, &launch(&arguments(address, 4)), Stream::DEFAULT)
            },
        ),
        (
            &["hipEventCreate", "hipEventRecord", "hipEventSynchronize", "hipEventElapsedTime"],
            |rocm, _| {
                let from = rocm.record(Stream::DEFAULT)?.expect("a clock");
                let to = rocm.record(Stream::DEFAULT)?.expect("a clock");
                rocm.elapsed(from, to).map(drop)
            },
        ),
        (&["hipStreamCreateWithFlags"], |rocm, _| rocm.new_stream().map(drop)),
        (&["hipMemGetInfo"], |rocm, _| rocm.memory_info().map(drop)),
    ];
    for (functions, part) in parts {
        for &function in functions {
            let mock = Mock::new(Kind::Current, &[MI300]);
            let rocm = open(&mock);
            let address = rocm.alloc(64).expect("memory");
            mock.fail(function, 1);
            match part(&rocm, address) {
                Err(RuntimeError::Failed { operation, message }) => {
                    assert_eq!(operation, function);
                    let what = "error 1 (hipErrorInvalidValue): invalid argument";
                    assert!(message.contains(what), "{message}");
                    assert!(message.len() > what.len() + 5, "what was attempted: {message}");
                }
                other => panic!("{function}: {other:?}"),
            }
            // The device cannot be used any more after an illegal access.
            mock.fail(function, 700);
            let error = part(&rocm, address).expect_err("it still fails");
            assert!(matches!(error, RuntimeError::DeviceLost { .. }), "{function}: {error:?}");
            mock.fail(function, 0);
        }
    }
}

#[test]
fn every_function_that_opening_needs_may_fail() {
    for function in [
        "hipInit",
        "hipRuntimeGetVersion",
        "hipGetDeviceCount",
        "hipDeviceGetName",
        "hipDeviceGetPCIBusId",
        "hipDeviceGetAttribute",
        "hipDeviceTotalMem",
        "hipGetDeviceProperties",
    ] {
        let mock = Mock::new(Kind::Current, &[MI300]);
        // A code that no list has.
        mock.fail(function, 4242);
        match Rocm::open_with(mock.path(), None) {
            Err(RocmError::Call { call, code: 4242, name, attempted, .. }) => {
                assert!(call.starts_with(function), "{call}");
                assert_eq!(name, "unknown");
                assert!(!attempted.is_empty());
            }
            other => panic!("{function}: {other:?}"),
        }
    }
}

#[test]
fn memory_that_runs_out_is_told_from_other_failures() {
    let mock = Mock::new(Kind::Current, &[MI300]);
    let rocm = open(&mock);
    mock.fail("hipMalloc", 2);
    assert_eq!(rocm.alloc(1 << 40), Err(RuntimeError::OutOfMemory { requested: 1 << 40 }));
    mock.fail("hipModuleLoadData", 2);
    let error = rocm.load(&object(), "negate").expect_err("no memory for a module");
    assert!(
        matches!(error, RuntimeError::Failed { operation: "hipModuleLoadData", .. }),
        "{error}"
    );
}

#[test]
fn wrong_handles_objects_and_sizes_are_errors() {
    let mock = Mock::new(Kind::Current, &[MI300]);
    let rocm = open(&mock);
    let failed = |result: Result<(), RuntimeError>, part: &str| match result {
        Err(RuntimeError::Failed { message, .. }) => assert!(message.contains(part), "{message}"),
        other => panic!("{part}: {other:?}"),
    };
    failed(rocm.launch(Function(7), &launch(&[]), Stream::DEFAULT), "function 7");
    failed(rocm.elapsed(Event(3), Event(4)).map(drop), "event 3");
    rocm.release(Event(9));
    failed(rocm.free(0x1000), "freeing 0x1000");
    failed(rocm.load(&object(), "absent").map(drop), "looking up the kernel absent");
    failed(rocm.load(&object(), "neg\0ate").map(drop), "zero byte");
    let damaged = CodeObject::prebuilt(b"no code object".to_vec());
    failed(rocm.load(&damaged, "negate").map(drop), "hipErrorNoBinaryForGpu");
    let negate = rocm.load(&object(), "negate").expect("loaded");
    let huge =
        KernelLaunch { grid: [1, 1 << 24, 1], threads: [1, 256, 1], dynamic_lds: 0, args: &[] };
    failed(
        rocm.launch(negate, &huge, Stream::DEFAULT),
        "16777216 workgroups of 256 threads along y",
    );
    assert_eq!(mock.calls().iter().filter(|c| c.starts_with("hipModuleLaunch")).count(), 0);
}

#[test]
fn no_device_wrong_index_unknown_architecture_and_missing_function() {
    let none = Mock::new(Kind::Current, &[]);
    let error = Rocm::open_with(none.path(), None).expect_err("no device");
    assert!(matches!(error, RocmError::NoDevice { .. }), "{error}");
    let unavailable = RuntimeError::from(error);
    assert!(matches!(unavailable, RuntimeError::Unavailable { .. }), "{unavailable}");

    let one = Mock::new(Kind::Current, &[MI300]);
    assert_eq!(
        Rocm::open_with(one.path(), Some(2)).map(drop),
        Err(RocmError::DeviceIndex { index: 2, count: 1 })
    );

    let old = Mock::new(Kind::Legacy, &["gfx803"]);
    let error = Rocm::open_with(old.path(), None).map(drop).expect_err("unknown");
    assert!(error.to_string().contains("\"gfx803\""), "{error}");

    let incomplete = Mock::new(Kind::Incomplete, &[MI300]);
    match Rocm::open_with(incomplete.path(), None) {
        Err(RocmError::Library(LibraryError::SymbolMissing { symbol, .. })) => {
            assert_eq!(symbol, "hipEventDestroy");
        }
        other => panic!("{other:?}"),
    }
}
